"""Alignments, and what a simulator makes of them: whose lists pass by, and where one's own common people are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

import numpy as np

from leakage.coins import Recording, Tapes, recorded
from leakage.views import Made, Rows, Session, Views, random_order
from masquerade.protocol.align.align import align
from masquerade.protocol.align.curve import routes

COMMON = 3
SIZES = {2: (6, 5), 3: (5, 6, 7)}


def lists_of(n: int, private: int) -> list[list[bytes]]:
    """Identifiers of n parties: sizes and the number of common people are always the same, nothing else is."""
    random = np.random.default_rng(private)
    lists = []
    for number, size in enumerate(SIZES[n]):
        own = [f"common {private} {at}" for at in range(COMMON)]
        own += [f"only {number} {private} {at}" for at in range(size - COMMON)]
        lists.append([own[at].encode() for at in random.permutation(size)])
    return lists


def play(n: int, private: int, tapes: Tapes, way: str = "auto") -> Recording:
    """Align the lists."""
    lists = lists_of(n, private)
    names = [f"p{number}" for number in range(n)]
    scripts = {name: align(me, names, lists[me], b"s", way=way) for me, name in enumerate(names)}
    return recorded(scripts, tapes)


def simulate(n: int, private: int, recording: Recording) -> Views:
    """The views of an alignment alone."""
    names = [f"p{number}" for number in range(n)]
    sizes = dict(zip(names, map(len, lists_of(n, private)), strict=True))
    return aligned_views(names, sizes, recording.results, recording.tapes)


def aligned_views(
    names: Sequence[str], sizes: Mapping[str, int], rows: Mapping[str, Rows], tapes: Tapes
) -> dict[tuple[str, str], list[Made]]:
    """What each party tells each in an alignment, from the common rows of each, in the common order."""
    views: dict[tuple[str, str], list[Made]] = {(one, two): [] for one in names for two in names}
    for pair, told in announced_views(names, sizes).items():
        views[pair] += told
    ways = routes(len(names))
    hops = [(stop, owner) for owner, stops in enumerate(ways) for stop in range(len(stops) - 1)]
    for stop, at in sorted(hops):
        views[names[ways[at][stop]], names[ways[at][stop + 1]]].append(Made("blinded", owner=at))
    for stop, at in sorted(hops, key=lambda hop: (len(ways[hop[1]]) - hop[0], hop[1])):
        name, owner = names[ways[at][stop]], names[at]
        answer = Made("positions", owner=at)  # in an order that others have made: masked
        if stop == 0:  # at its owner, in its own order
            order = random_order(tapes.drew(owner, 8 * sizes[owner]))
            places = np.argsort(order, kind="stable")[rows[owner]]
            answer = Made("positions", owner=at, positions=places.astype("<u4").tobytes())
        views[names[ways[at][stop + 1]], name].append(answer)
    return views


def announced_views(names: Sequence[str], sizes: Mapping[str, int]) -> dict[tuple[str, str], list[Made]]:
    """What each party tells each before an alignment. By a pseudo-random function nothing that follows is open."""
    compared = [Made("sizes-heard")] if len(names) > 2 else []
    return {(one, other): [Made("list-size", records=sizes[one]), *compared] for one, other in permutations(names, 2)}


def simulate_prf(n: int, private: int) -> Views:
    """The views of an alignment by pseudo-random functions."""
    names = [f"p{number}" for number in range(n)]
    return announced_views(names, dict(zip(names, map(len, lists_of(n, private)), strict=True)))


SESSIONS = [
    Session(
        f"align, {n} parties",
        {"lists": SIZES[n], "common": COMMON},
        lambda private, tapes, n=n: play(n, private, tapes),  # type: ignore[misc] # n is bound here
        lambda private, recording, n=n: simulate(n, private, recording),  # type: ignore[misc]
    )
    for n in SIZES
] + [
    Session(
        f"align by prf, {n} parties",
        {"lists": SIZES[n], "common": COMMON},
        lambda private, tapes, n=n: play(n, private, tapes, "oprf"),  # type: ignore[misc] # n is bound here
        lambda private, recording, n=n: simulate_prf(n, private),  # type: ignore[misc]
    )
    for n in SIZES
]
