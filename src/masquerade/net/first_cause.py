"""Find why a session failed, from how each party ended and what we saw ourselves. No I/O here.

In order of precedence: a party's own problem; our own problem; a party that is gone; a party that another one blames,
first-hand reports before hearsay; a party that gave up.
"""

from __future__ import annotations

from collections.abc import Mapping

from masquerade.errors import (
    AnswerIsNo,
    BadInput,
    Bug,
    ClusterError,
    MasqueradeError,
    NoCommonRecords,
    PeerError,
    PeerUnreachable,
    Problem,
    RequirementUnreachable,
)

_OWN = (BadInput, AnswerIsNo, ClusterError, Bug)
_OF_ALL_RECORDS = (
    RequirementUnreachable,
    NoCommonRecords,
)  # true of everybody, whoever was the first to find out
_SILENT = "gave up; its own log says why"


def first_cause(
    ended: Mapping[str, MasqueradeError | None], ours: MasqueradeError | None = None
) -> MasqueradeError:
    """Return the error to end a session with.

    `ended` maps each party to the error it ended with, None if it did not fail, or a PeerUnreachable about itself if it
    cannot be asked. `ours` is why we gave up; it overrides what parties say of us.
    """
    told = {name: error for name, error in ended.items() if error is not None}
    for kind in _OWN:
        guilty = {name: error for name, error in told.items() if isinstance(error, kind)}
        if guilty:
            return _own_problem(guilty)
    if ours is not None and not isinstance(ours, PeerError):
        return ours
    for name, error in told.items():
        if isinstance(error, PeerUnreachable) and error.peer == name:
            return error
    blamed = _blamed(ended)
    if isinstance(ours, PeerError) and (
        blamed is None or (ours.peer == blamed.peer and _is_hearsay(ours) <= _is_hearsay(blamed))
    ):
        return ours
    if blamed is not None:
        return blamed
    for name, error in told.items():
        words = [str(each.at(party=None) if each.party == name else each) for each in error.problems]
        return PeerError(name, *(words or [_SILENT]))
    return PeerError(next(iter(ended)), _SILENT)


def _own_problem(guilty: Mapping[str, MasqueradeError]) -> MasqueradeError:
    """Merge the parties' own problems; each names its party, unless it is everybody's or has a source."""
    first, *others = guilty.values()
    if all(isinstance(each, _OF_ALL_RECORDS) and each.problems for each in guilty.values()):
        return type(first)(*dict.fromkeys(problem for each in guilty.values() for problem in each.problems))
    agreed = all(each.problems == first.problems for each in others)
    if first.problems and agreed and (others or all(each.source for each in first.problems)):
        return type(first)(*first.problems)
    return type(first)(
        *(
            problem.at(party=name)
            for name, error in guilty.items()
            for problem in error.problems or [Problem("its own log says why")]
        )
    )


def _blamed(ended: Mapping[str, MasqueradeError | None]) -> PeerError | None:
    """Return the most direct report by one party against another, or against an unidentified one (peer "")."""
    words = [
        error
        for name, error in ended.items()
        if isinstance(error, PeerError) and error.peer != name and error.peer in ("", *ended)
    ]
    return min(words, key=_is_hearsay, default=None)


def _is_hearsay(error: PeerError) -> bool:
    """Return whether a party merely repeats another's report."""
    return any(problem.reported_by for problem in error.problems)
