"""Why a session failed, from how its parties ended: what somebody saw itself comes before what it was told."""

from __future__ import annotations

import pytest

from masquerade.errors import (
    AnswerIsNo,
    Bug,
    DataError,
    JobError,
    MasqueradeError,
    PeerBrokeProtocol,
    PeerError,
    PeerUnreachable,
    Problem,
    RequirementUnreachable,
)
from masquerade.net import first_cause

Ended = dict[str, MasqueradeError | None]

RELAYED = PeerBrokeProtocol("", "broke the protocol, and nobody can tell which", reported_by="carla")
SEEN = PeerBrokeProtocol("", "anna or berta made the comparison come out impossibly")
NONCE = PeerBrokeProtocol("berta", "sent a nonce of 3 bytes")
GAVE_UP = PeerError("assembler", "gave up: on its side the answer is no; its own log says why")
KILLED = PeerUnreachable("berta", "its process was ended by signal 9")
WRONG = DataError(Problem("no number", source="b.csv", row=3))
TOO_FEW = RequirementUnreachable("k = 9 cannot be reached")


@pytest.mark.parametrize(
    ("ended", "ours", "told"),
    [
        pytest.param({"anna": RELAYED, "berta": RELAYED, "carla": SEEN}, GAVE_UP, SEEN, id="seen before heard"),
        pytest.param(
            {"anna": PeerError("berta", "broke off", reported_by="carla"), "berta": None, "carla": NONCE},
            PeerError("anna", "vanished"),
            NONCE,
            id="seen before heard, of a party that is known",
        ),
        pytest.param({"anna": RELAYED, "berta": None}, PeerError("anna", "vanished"), RELAYED, id="heard"),
        pytest.param({"anna": GAVE_UP, "berta": GAVE_UP}, TOO_FEW, TOO_FEW, id="our answer"),
        pytest.param({"anna": GAVE_UP, "berta": KILLED}, WRONG, WRONG, id="our input"),
        pytest.param({"anna": GAVE_UP, "berta": GAVE_UP}, NONCE, NONCE, id="whom we blame ourselves"),
        pytest.param(
            {"anna": PeerError("berta", "vanished"), "berta": KILLED}, GAVE_UP, KILLED, id="who is gone"
        ),
        pytest.param(
            {"anna": PeerError("berta", "gave up", reported_by="carla"), "berta": None}, NONCE, NONCE, id="our own eyes"
        ),
        pytest.param({"anna": AnswerIsNo("no"), "berta": WRONG}, None, WRONG, id="input before answer"),
        pytest.param(
            {"anna": None, "berta": AnswerIsNo("needs 9 records")},
            TOO_FEW,
            AnswerIsNo("party berta: needs 9 records"),
            id="whose answer it is",
        ),
        pytest.param({"anna": TOO_FEW, "berta": TOO_FEW}, GAVE_UP, TOO_FEW, id="all agree"),
        pytest.param(
            {"anna": TOO_FEW, "berta": PeerError("anna", "gave up", reported_by="carla")},
            GAVE_UP,
            TOO_FEW,
            id="who was the first to see what all would see",
        ),
        pytest.param(
            {"anna": JobError(Problem("unknown", source="job.toml", key=("k",))), "berta": WRONG},
            None,
            JobError("party anna: job.toml: k: unknown", "party berta: b.csv: row 3: no number"),
            id="two inputs",
        ),
        pytest.param({"anna": Bug("(KeyError)")}, None, Bug("party anna: (KeyError)"), id="bug"),
        pytest.param({"anna": Bug()}, None, Bug("party anna: its own log says why"), id="silent bug"),
        pytest.param(
            {"anna": None, "berta": PeerError("berta")},
            None,
            PeerError("berta", "gave up; its own log says why"),
            id="gave up",
        ),
        pytest.param(
            {"anna": PeerError("zoe", "lies")}, None, PeerError("anna", "party zoe: lies"), id="blames a stranger"
        ),
        pytest.param({"anna": None}, None, PeerError("anna", "gave up; its own log says why"), id="nothing"),
    ],
)  # fmt: skip
def test_the_first_cause(ended: Ended, ours: MasqueradeError | None, told: MasqueradeError) -> None:
    error = first_cause(ended, ours)
    assert (type(error), error.lines) == (type(told), told.lines)
    assert getattr(error, "peer", None) == getattr(told, "peer", None)
