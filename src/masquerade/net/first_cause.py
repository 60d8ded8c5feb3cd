"""Why a session failed, from how each of its parties ended and from what we saw ourselves. No I/O here.

In this order: what a party found wrong by itself; what we found wrong; a party that is gone; a party that another one
blames, where those who saw it come before those who only heard of it; a party that gave up.
"""

from __future__ import annotations

from collections.abc import Mapping

from masquerade.errors import AnswerIsNo, BadInput, Bug, MasqueradeError, PeerError, PeerUnreachable, Problem

_OWN = (BadInput, AnswerIsNo, Bug)
_SILENT = "gave up; its own log says why"


def first_cause(
    ended: Mapping[str, MasqueradeError | None], ours: MasqueradeError | None = None
) -> MasqueradeError:
    """The error to end a session with.

    `ended` has the error that each party ended with, None for one that did not fail; of a party that cannot be asked, a
    PeerUnreachable about itself. `ours` is why we gave up: what parties say of us, we know better.
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
    """What parties found wrong by themselves; each is named, unless all agree or the problem says where it is."""
    first, *others = guilty.values()
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
    """The best word of a party about another one of them, or about one of them that nobody can name."""
    words = [
        error
        for name, error in ended.items()
        if isinstance(error, PeerError) and error.peer != name and error.peer in ("", *ended)
    ]
    return min(words, key=_is_hearsay, default=None)


def _is_hearsay(error: PeerError) -> bool:
    """Whether a party only repeats what another one told it."""
    return any(problem.reported_by for problem in error.problems)
