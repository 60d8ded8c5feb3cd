"""Why a mashup failed, from how its parties ended: what somebody saw itself comes before what it was told."""

from __future__ import annotations

from typing import Any

import pytest

from masquerade.errors import AnswerIsNo, DataError, MasqueradeError, PeerError, RequirementUnreachable
from masquerade.library.mashup_run import first_cause

RELAYED = "one of the parties: broke the protocol, and nobody can tell which (party carla reports it)"


@pytest.mark.parametrize(
    ("ended", "peer", "text"),
    [
        (
            {
                "anna": (3, [RELAYED]),
                "berta": (3, [RELAYED]),
                "carla": (3, ["one of the parties: anna or berta made the comparison come out impossibly"]),
            },
            "",
            "one of the parties: anna or berta made the comparison come out impossibly",
        ),
        (
            {
                "anna": (3, ["party berta: broke off (party carla reports it)"]),
                "berta": (0, []),
                "carla": (3, ["party berta: sent a nonce of 3 bytes"]),
            },
            "berta",
            "party berta: sent a nonce of 3 bytes",
        ),
        ({"anna": (3, [RELAYED]), "berta": (0, [])}, "", RELAYED),
    ],
)
def test_who_saw_it_itself_is_heard_first(ended: dict[str, Any], peer: str, text: str) -> None:
    error = first_cause(ended, PeerError("anna", "vanished"))
    assert isinstance(error, PeerError)
    assert (error.peer, str(error)) == (peer, text)


GAVE_UP = "party assembler: gave up: on its side the answer is no; its own log says why"


@pytest.mark.parametrize(
    ("ended", "ours", "told"),
    [
        (
            {"anna": (3, [GAVE_UP]), "berta": (3, [GAVE_UP])},
            RequirementUnreachable("k = 9 cannot be reached"),
            RequirementUnreachable("k = 9 cannot be reached"),
        ),
        ({"anna": (3, [GAVE_UP]), "berta": (-9, [])}, DataError("b.csv: bad"), DataError("b.csv: bad")),
        (
            {"anna": (3, [GAVE_UP]), "berta": (3, [GAVE_UP])},
            PeerError("berta", "sent columns that cannot be read"),
            PeerError("berta", "sent columns that cannot be read"),
        ),
        (
            {"anna": (3, [GAVE_UP]), "berta": (1, ["k = 9 needs 9 records"])},
            RequirementUnreachable("k = 9 cannot be reached"),
            AnswerIsNo("k = 9 needs 9 records"),
        ),
    ],
    ids=["answer", "input", "peer", "a party's own"],
)
def test_why_the_assembler_gave_up_it_knows_best(
    ended: dict[str, Any], ours: MasqueradeError, told: MasqueradeError
) -> None:
    error = first_cause(ended, ours)
    assert (type(error), error.lines) == (type(told), told.lines)
