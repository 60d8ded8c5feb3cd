"""Align: find the records that all parties have, without showing identifiers.

Private set intersection by commutative encryption (Agrawal, Evfimievski, Srikant), for n parties. Each party hashes
its identifiers to a group, shuffles them and blinds them with a secret of this session; then every list goes round
until all parties have blinded it. Equal identifiers are then equal points, and nobody can tell whose identifier a
point is.

The last party, the **comparer**, ends up with all lists and reports to each owner which positions of its own list are
common. Its own list comes back to it shuffled by the first party, the **guide**, so the comparer cannot tie a point
to one of its own people either; the guide undoes the shuffle on the answer.

    party      learns
    everyone   which of its own people all parties have; the sizes of the lists that pass through it
    comparer   also, for three or more parties, how many people each set of parties has in common, but not who

The comparer and the guide together could tell who (docs/leakage.md). Rounds: n + 2. Bytes: each list of m
identifiers travels n − 1 times (the comparer's n times) at 32 m bytes. Operations: each party blinds every list
once.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from masquerade.crypto.group import POINT_BYTES, Blinding, NotAPoint, OnDone, Points, as_points, hash_texts
from masquerade.engine.counts import Rows, value_counts
from masquerade.errors import PeerBrokeProtocol
from masquerade.net.script import Message, Receive, Script, Send

# More than enough for a country, and too few to try all nine-digit numbers.
MOST_RECORDS = 20_000_000


class Blinded(Message, tag="blinded", frozen=True):
    """A list of blinded identifiers, passed on from party to party."""

    owner: int
    points: bytes


class Positions(Message, tag="positions", frozen=True):
    """Which positions of a list are common, in the common order (four bytes each)."""

    positions: bytes


@dataclass(frozen=True)
class Route:
    """The path of one owner's list: through every party, to the comparer."""

    owner: int
    stops: tuple[int, ...]


def routes(n: int) -> tuple[Route, ...]:
    """Return the paths of all lists: from the owner on in ring order, the comparer last."""
    comparer = n - 1
    ways = []
    for owner in range(comparer):
        others = [(owner + step) % comparer for step in range(1, comparer)]
        ways.append(Route(owner, (owner, *others, comparer)))
    ways.append(Route(comparer, (comparer, *range(comparer), comparer)))
    return tuple(ways)


def align(
    me: int,
    parties: Sequence[str],
    identifiers: Sequence[bytes],
    session: bytes,
    most: int = MOST_RECORDS,
    on_done: OnDone | None = None,
) -> Script[Rows]:
    """Return the rows of this party's common records, in an order that all parties share and none chose.

    `parties` in the contract's order; `identifiers` are normalised and different; `session` is fresh and public.
    """
    comparer, guide = len(parties) - 1, 0
    secret = Blinding()
    order = _random_order(len(identifiers))
    hashed = hash_texts([identifiers[row] for row in order], session, on_done)
    own = secret.blind(hashed, on_done)
    ways = routes(len(parties))
    arrivals = sorted(
        (stop, way.owner) for way in ways for stop, party in enumerate(way.stops) if party == me and stop > 0
    )
    yield Send((parties[ways[me].stops[1]],), Blinded(me, own.tobytes()))
    finished: dict[int, Points] = {}
    shuffle = np.empty(0, np.intp)
    for stop, owner in arrivals:
        way = ways[owner]
        sender = parties[way.stops[stop - 1]]
        points = _checked((yield Receive(sender, Blinded)), sender, owner, most)
        if owner == me == comparer:
            if len(points) != len(own):
                raise PeerBrokeProtocol(sender, f"sent back {len(points)} of {len(own)} blinded identifiers")
            finished[owner] = points  # every party's secret is in it already
            continue
        points = _blinded(secret, points, sender, on_done)
        if me == guide and owner == comparer:
            shuffle = _random_order(len(points))
            points = points[shuffle]
        if stop == len(way.stops) - 1:
            finished[owner] = points
        else:
            yield Send((parties[way.stops[stop + 1]],), Blinded(owner, points.tobytes()))

    if me == comparer:
        found = common_positions([finished[owner] for owner in range(len(parties))])
        for owner, positions in enumerate(found):
            if owner != comparer:
                yield Send((parties[owner],), _packed(positions))
        yield Send((parties[guide],), _packed(found[comparer]))
        answer = yield Receive(parties[guide], Positions)
        return order[_unpacked(answer, parties[guide], len(order))]
    answer = yield Receive(parties[comparer], Positions)
    mine = order[_unpacked(answer, parties[comparer], len(order))]
    if me == guide:
        shuffled = yield Receive(parties[comparer], Positions)
        undone = shuffle[_unpacked(shuffled, parties[comparer], len(shuffle))]
        yield Send((parties[comparer],), _packed(undone))
    return mine


def common_positions(lists: Sequence[Points]) -> list[Rows]:
    """Return, for each list, the positions of the points that all lists have, in the order of the points."""
    keys = [np.ascontiguousarray(points).view(f"V{POINT_BYTES}").ravel() for points in lists]
    # Any total order of the bytes will do; void types do not sort, so they are viewed as text.
    texts = [key.view(f"S{POINT_BYTES}") if key.size else np.empty(0, f"S{POINT_BYTES}") for key in keys]
    orders = [np.argsort(text, kind="stable") for text in texts]
    common = texts[0][orders[0]]
    for text in texts[1:]:
        common = common[np.isin(common, text)]
    return [order[np.searchsorted(text[order], common)] for text, order in zip(texts, orders, strict=True)]


def _checked(message: Blinded, sender: str, owner: int, most: int) -> Points:
    if message.owner != owner:
        raise PeerBrokeProtocol(sender, f"sent the list of party {message.owner} in place of party {owner}'s")
    try:
        points = as_points(message.points)
    except NotAPoint as error:
        raise PeerBrokeProtocol(sender, f"sent a broken list: {error}") from None
    if len(points) > most:
        raise PeerBrokeProtocol(sender, f"sent {len(points)} identifiers; at most {most} are agreed")
    return points


def _blinded(secret: Blinding, points: Points, sender: str, on_done: OnDone | None) -> Points:
    try:
        return secret.blind(points, on_done)
    except NotAPoint as error:
        raise PeerBrokeProtocol(sender, f"sent {error}") from None


def _packed(positions: Rows) -> Positions:
    return Positions(positions.astype("<u4").tobytes())


def _unpacked(message: Positions, sender: str, size: int) -> Rows:
    if len(message.positions) % 4:
        raise PeerBrokeProtocol(sender, "sent broken positions")
    positions = np.frombuffer(message.positions, "<u4").astype(np.intp)
    if positions.size and (positions.max() >= size or value_counts(positions, size).max() > 1):
        raise PeerBrokeProtocol(sender, "sent positions that are outside the list, or twice the same")
    return positions


def _random_order(n: int) -> Rows:
    """Return a permutation drawn from the system's randomness: no generator state, no seed."""
    return np.argsort(np.frombuffer(os.urandom(8 * n), np.uint64), kind="stable")
