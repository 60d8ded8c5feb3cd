"""Align lists by commutative encryption (Agrawal, Evfimievski, Srikant), for n parties.

Each party hashes its identifiers to a group, shuffles them and blinds them with a secret of this session; then every
list goes round until all parties have blinded it. Equal identifiers are then equal points, and nobody can tell whose
identifier a point is: every party that a list passes through shuffles it, too.

The last party, the **comparer**, ends up with all lists, and answers which positions of each are common. An answer
goes back the way its list came, and everybody undoes their shuffle on it. Whether it is true is checked afterwards
(protocol/align/align.py).

    party      learns
    everyone   which of its own people all parties have; the sizes of the lists that pass through it
    comparer   also, for three or more parties, how many people each set of parties has in common, but not who

To tell who, all parties would have to work together (docs/leakage.md). Rounds: 2 n, and two for the check. Bytes: each
list of m identifiers travels n − 1 times (the comparer's n times) at 32 m bytes, and each answer back at 4 bytes for
each common record. Operations: each party blinds every list once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto import POINT_BYTES, Blinding, NotAPoint, OnDone, Points, as_points, hash_texts, random_bytes
from masquerade.engine import Rows, distinct_values, value_counts
from masquerade.errors import PeerBrokeProtocol
from masquerade.net import Message, Receive, Script, Send

OnList = Callable[[str, int], None]  # called with a peer and the length of its list; what it raises ends the alignment


class Blinded(Message, tag="blinded", frozen=True):
    """A list of blinded identifiers, passed on from party to party."""

    owner: int
    points: bytes


class Positions(Message, tag="positions", frozen=True):
    """Which positions of a list are common, in the common order (four bytes each); passed back to its owner."""

    owner: int
    positions: bytes


def routes(n: int) -> list[tuple[int, ...]]:
    """Return the path of each owner's list: from the owner on in ring order through every party, the comparer last."""
    comparer = n - 1
    ways = [(*((owner + step) % comparer for step in range(comparer)), comparer) for owner in range(comparer)]
    return [*ways, (comparer, *range(comparer), comparer)]


def align_on_curve(
    me: int,
    parties: Sequence[str],
    identifiers: Sequence[bytes],
    session: bytes,
    sizes: Sequence[int],
    on_done: OnDone | None = None,
    on_list: OnList | None = None,
) -> Script[Rows]:
    """Return the rows of this party's common records, in an order that all parties share. Nothing is checked yet.

    `session` is fresh and public; no party's list has more identifiers than `sizes` says, and `on_list` hears of each
    peer's.
    """
    comparer = len(parties) - 1
    secret = Blinding()
    order = _random_order(len(identifiers))
    hashed = hash_texts([identifiers[row] for row in order], session, on_done)
    own = secret.blind(hashed, on_done)
    ways = routes(len(parties))
    places = [(stop, owner) for owner, stops in enumerate(ways) for stop, party in enumerate(stops) if party == me]
    lists = sorted((stop, owner) for stop, owner in places if stop > 0)
    answers = sorted((len(ways[at]) - stop, at, stop) for stop, at in places if stop < len(ways[at]) - 1)
    yield Send((parties[ways[me][1]],), Blinded(me, own.tobytes()))
    shuffles = {me: order}
    finished: dict[int, Points] = {}
    for stop, owner in lists:
        stops = ways[owner]
        sender = parties[stops[stop - 1]]
        points = _checked((yield Receive(sender, Blinded)), sender, owner, sizes[owner])
        if owner == me:  # the comparer's own list, which has every party's secret in it already
            if len(points) != len(own):
                raise PeerBrokeProtocol(sender, f"sent back {len(points)} of {len(own)} blinded identifiers")
            finished[owner] = points
            continue
        if on_list is not None:
            on_list(parties[owner], len(points))
        try:
            points = secret.blind(points, on_done)
        except NotAPoint as error:
            raise PeerBrokeProtocol(sender, f"sent {error}") from None
        if me == comparer:
            finished[owner] = points
            continue
        shuffles[owner] = _random_order(len(points))
        yield Send((parties[stops[stop + 1]],), Blinded(owner, points[shuffles[owner]].tobytes()))

    if me == comparer:
        for owner, points in finished.items():
            if owner != me and distinct_values(_texts(points))[0].size < len(points):
                doubt = ", if no other party had a hand in it" if len(parties) > 2 else ""
                raise PeerBrokeProtocol(parties[owner], f"has a point on its list twice{doubt}")
        found = common_positions([finished[owner] for owner in range(len(parties))])
        for owner, positions in enumerate(found):
            yield Send((parties[ways[owner][-2]],), _packed(owner, positions))
    for _, owner, stop in answers:
        stops = ways[owner]
        sender = parties[stops[stop + 1]]
        answer = _unpacked((yield Receive(sender, Positions)), sender, owner, len(shuffles[owner]))
        undone = shuffles[owner][answer]
        if owner == me:
            mine = undone
        else:
            yield Send((parties[stops[stop - 1]],), _packed(owner, undone))
    return mine


def common_positions(lists: Sequence[Points]) -> list[Rows]:
    """Return, for each list, the positions of the points that all lists have, in the order of the points."""
    texts = [_texts(points) for points in lists]
    orders = [np.argsort(text, kind="stable") for text in texts]
    common = texts[0][orders[0]]
    for text in texts[1:]:
        common = common[np.isin(common, text)]
    return [order[np.searchsorted(text[order], common)] for text, order in zip(texts, orders, strict=True)]


def _texts(points: Points) -> NDArray[np.bytes_]:
    """View points as texts, which sort: any total order of their bytes will do."""
    return np.ascontiguousarray(points).reshape(-1).view(f"S{POINT_BYTES}")


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


def _packed(owner: int, positions: Rows) -> Positions:
    return Positions(owner, positions.astype("<u4").tobytes())


def _unpacked(message: Positions, sender: str, owner: int, size: int) -> Rows:
    if message.owner != owner:
        raise PeerBrokeProtocol(sender, f"answered party {message.owner} in place of party {owner}")
    if len(message.positions) % 4:
        raise PeerBrokeProtocol(sender, "sent broken positions")
    positions = np.frombuffer(message.positions, "<u4").astype(np.intp)
    if positions.size and (positions.max() >= size or value_counts(positions, size).max() > 1):
        raise PeerBrokeProtocol(sender, "sent positions that are outside the list, or twice the same")
    return positions


def _random_order(n: int) -> Rows:
    """Return a permutation drawn from the system's randomness: no generator state, no seed."""
    return np.argsort(np.frombuffer(random_bytes(8 * n), np.uint64), kind="stable")
