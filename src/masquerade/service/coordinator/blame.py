"""Why an attempt failed: the first cause, from what every party tells and what we saw ourselves. No I/O here.

A party's own problem counts before what others say of it, and a party that is gone before one that complains.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeGuard

from masquerade import errors
from masquerade.errors import (
    AnswerIsNo,
    BadInput,
    Bug,
    MasqueradeError,
    PeerBrokeProtocol,
    PeerError,
    PeerUnreachable,
)
from masquerade.service.control import Progress

_OWN = (AnswerIsNo, BadInput, Bug)  # in this order: what a party finds wrong by itself


def first_cause(
    told: Mapping[str, Progress | PeerError], ours: MasqueradeError | None = None
) -> MasqueradeError:
    """The error to end an attempt with. `told` has each party's progress, or why there is none."""
    for kind in _OWN:
        guilty = {
            name: each
            for name, each in told.items()
            if isinstance(each, Progress) and each.state == "failed" and issubclass(_kind(each), kind)
        }
        if guilty:
            return _own_problem(guilty)
    if ours is not None and not isinstance(ours, PeerError):
        return ours
    for each in told.values():
        if isinstance(each, PeerUnreachable):
            return each
    for name, each in told.items():
        if isinstance(each, PeerError):
            return PeerUnreachable(name, "does not know the session any more; was it restarted?")
    for each in told.values():
        if isinstance(each, Progress) and each.state == "failed" and each.culprit in told:
            if isinstance(ours, PeerError) and ours.peer == each.culprit:
                return ours
            return PeerError(each.culprit or "", _told_by_peer(each))
    unsure = [_told_by_peer(each) for each in told.values() if _blames_nobody(each)]
    if unsure:  # who noticed it says more than who only heard of it
        return PeerBrokeProtocol("", min(unsure, key=lambda text: text.endswith(" reports it)")))
    if ours is not None:
        return ours
    for name, each in told.items():
        if isinstance(each, Progress) and each.state in ("failed", "cancelled"):
            return PeerError(name, "; ".join(each.problems) or "gave up; its own log says why")
    return PeerError(next(iter(told)), "gave up; its own log says why")


def _kind(told: Progress) -> type[MasqueradeError]:
    kind = getattr(errors, told.kind or "", None)
    return kind if isinstance(kind, type) and issubclass(kind, MasqueradeError) else MasqueradeError


def _own_problem(guilty: Mapping[str, Progress]) -> MasqueradeError:
    first = next(iter(guilty.values()))
    kind = _kind(first)
    if len(guilty) > 1 and len({each.problems for each in guilty.values()}) == 1:
        return kind(*first.problems)  # everybody came to the same conclusion
    lines = [
        f"party {name}: {line.removeprefix(f'party {name}: ')}"
        for name, each in guilty.items()
        for line in each.problems or ("its own log says why",)
    ]
    return kind(*lines)


def _blames_nobody(told: Progress | PeerError) -> TypeGuard[Progress]:
    """Whether it says that some party broke the protocol, and that it cannot tell which."""
    return (
        isinstance(told, Progress)
        and told.state == "failed"
        and told.culprit is None
        and issubclass(_kind(told), PeerBrokeProtocol)
    )


def _told_by_peer(told: Progress) -> str:
    text = "; ".join(told.problems) or "failed"
    return text.removeprefix(f"party {told.culprit}: ").removeprefix("one of the parties: ")
