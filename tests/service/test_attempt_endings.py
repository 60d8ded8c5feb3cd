"""The cause of a failed attempt, from what the coordinator hears of each party."""

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
    Problem,
)
from masquerade.net.probe import first_cause
from masquerade.service.coordinator.run import endings
from masquerade.service.wire.control import Progress


def failed(kind: str, *problems: Problem | str, culprit: str | None = None) -> Progress:
    return Progress("failed", problems=MasqueradeError(*problems).problems, kind=kind, culprit=culprit)


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
            {"a": failed("DataError", "row 3"), "b": failed("PeerError", "gave up", culprit="a")},
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
            {"a": Progress("running"), "b": failed("PeerUnreachable", "silent", culprit="a")},
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
                "a": failed("PeerBrokeProtocol", Problem("broke it", reported_by="c")),
                "b": failed("PeerBrokeProtocol", Problem("broke it", reported_by="c")),
                "c": failed("PeerBrokeProtocol", "a or b cheated"),
            },
            PeerBrokeProtocol("", "broke it", reported_by="c"),
            PeerBrokeProtocol,
            "one of the parties: a or b cheated",
        ),
    ],
)
def test_the_first_cause_is_named(
    told: dict[str, Any], ours: MasqueradeError | None, kind: type[MasqueradeError], text: str
) -> None:
    error = first_cause(endings(told), ours)
    assert isinstance(error, kind)
    assert str(error).startswith(text)
