"""The cause of a failed attempt, told from what each party says of it."""

from __future__ import annotations

from typing import Any

import pytest

from masquerade.errors import (
    BadInput,
    Conflict,
    MasqueradeError,
    NoCommonRecords,
    PeerBrokeProtocol,
    PeerError,
    PeerRefused,
    PeerUnreachable,
)
from masquerade.service.control import Progress
from masquerade.service.coordinator.blame import first_cause


def failed(kind: str, *lines: str, culprit: str | None = None) -> Progress:
    return Progress("failed", problems=lines, kind=kind, culprit=culprit)


@pytest.mark.parametrize(
    ("told", "ours", "kind", "text"),
    [
        (
            {"a": failed("NoCommonRecords", "nobody"), "b": failed("NoCommonRecords", "nobody")},
            PeerError("a", "gave up"),
            NoCommonRecords,
            "nobody",
        ),
        (
            {"a": failed("DataError", "row 3"), "b": failed("PeerError", "party a: gave up", culprit="a")},
            PeerError("a", "gave up"),
            BadInput,
            "party a: row 3",
        ),
        (
            {"a": PeerUnreachable("a", "nobody answers"), "b": failed("PeerUnreachable", "x", culprit="a")},
            PeerError("b", "gave up"),
            PeerUnreachable,
            "party a: nobody answers",
        ),
        (
            {"a": Progress("running"), "b": failed("PeerUnreachable", "party a: silent", culprit="a")},
            PeerError("b", "gave up"),
            PeerError,
            "party a: silent",
        ),
        (
            {"a": PeerRefused("a", "no such session"), "b": Progress("running")},
            None,
            PeerUnreachable,
            "party a: ",
        ),
        ({"a": Progress("done"), "b": Progress("done")}, Conflict("moved"), Conflict, "moved"),
        ({"a": Progress("cancelled"), "b": Progress("running")}, None, PeerError, "party a: "),
        ({"a": failed("os.system", "x", culprit="zoe")}, None, PeerError, "party a: x"),
        (  # nobody can tell which party it was: the one that noticed is heard, and no messenger blamed
            {
                "a": failed("PeerBrokeProtocol", "one of the parties: broke it (party c reports it)"),
                "b": failed("PeerBrokeProtocol", "one of the parties: broke it (party c reports it)"),
                "c": failed("PeerBrokeProtocol", "one of the parties: a or b cheated"),
            },
            PeerBrokeProtocol("", "broke it (party c reports it)"),
            PeerBrokeProtocol,
            "one of the parties: a or b cheated",
        ),
    ],
)
def test_the_first_cause_is_named(
    told: dict[str, Any], ours: MasqueradeError | None, kind: type[MasqueradeError], text: str
) -> None:
    error = first_cause(told, ours)
    assert isinstance(error, kind)
    assert str(error).startswith(text)
