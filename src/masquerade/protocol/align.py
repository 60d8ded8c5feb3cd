"""Align: find the records that all parties have, without showing identifiers.

Two ways, of which the contract names one or leaves it to the sizes of the lists (`align = "auto" | "curve" | "oprf"`):

    curve   commutative encryption (curve_alignment.py): about 0.1 ms of curve arithmetic an identifier and party
    oprf    oblivious pseudo-random functions (oprf_alignment.py for two parties, oprf_star.py for more): a fixed 0.2 s
            of curve arithmetic a pair, then some 1 µs an identifier

Unless the way is the curve anyhow, all parties first tell each other how long their lists are, which each way shows
all of them in any case, and a nonce. Three or more then compare what they heard: otherwise one that told each another
thing would have honest parties blame each other for what does not fit. Below `FEW` identifiers on every list `auto` is
the curve. At the end, whatever the way, all parties check that they hold the same people (same_people.py): a false
answer ends the session before any record is used.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence

from masquerade.crypto.group import OnDone
from masquerade.engine.counts import Rows
from masquerade.errors import PeerBrokeProtocol
from masquerade.net.script import Message, Receive, Script, Send
from masquerade.protocol.alignment_ways import BY_SIZE, CURVE
from masquerade.protocol.contract import MOST_RECORDS
from masquerade.protocol.curve_alignment import align_on_curve
from masquerade.protocol.identifiers import Identifiers
from masquerade.protocol.oprf_alignment import Announced, align_two
from masquerade.protocol.oprf_star import align_several
from masquerade.protocol.same_people import insist_on_same_people

FEW = 2_000  # identifiers below which the curve is cheaper than the base transfers
_NONCE_BYTES = 32


class ListSize(Message, tag="list-size", frozen=True):
    """How many identifiers the sender has, and its nonce."""

    records: int
    nonce: bytes


class SizesHeard(Message, tag="sizes-heard", frozen=True):
    """A digest of all sizes and nonces, as the sender heard them."""

    digest: bytes


def align(
    me: int,
    parties: Sequence[str],
    identifiers: Sequence[bytes],
    session: bytes,
    most: int = MOST_RECORDS,
    on_done: OnDone | None = None,
    way: str = BY_SIZE,
) -> Script[Rows]:
    """Return the rows of this party's common records, in an order that all parties share and none chose.

    `parties` in the contract's order; `identifiers` are normalised and different; `session` is fresh and public.
    `on_done` is called with steps done, of (n + 1) steps an identifier for n parties.
    """
    on_curve = way == CURVE
    if not on_curve:
        announced = yield from _announce(me, parties, len(identifiers), session, most)
        most = max(announced.sizes)
        on_curve = way == BY_SIZE and most < FEW
    if on_curve:
        rows = yield from align_on_curve(me, parties, identifiers, session, most, on_done)
    elif len(parties) == 2:
        rows = yield from align_two(me, parties, identifiers, announced, on_done)
    else:
        rows = yield from align_several(me, parties, identifiers, announced, on_done)
    found = Identifiers.of(identifiers).take(rows)
    yield from insist_on_same_people(me, parties, found, session, comparer=len(parties) - 1)
    return rows


def _announce(me: int, parties: Sequence[str], size: int, session: bytes, most: int) -> Script[Announced]:
    """Exchange sizes and nonces; the text that comes of it names this alignment."""
    own = ListSize(size, os.urandom(_NONCE_BYTES))
    peers = tuple(name for number, name in enumerate(parties) if number != me)
    yield Send(peers, own)
    sizes, text = [], b"align\0" + session
    for number, name in enumerate(parties):
        told: ListSize = own if number == me else (yield Receive(name, ListSize))
        if number != me and not 0 <= told.records <= most:
            raise PeerBrokeProtocol(name, f"announced {told.records} identifiers; at most {most} are agreed")
        if len(told.nonce) != _NONCE_BYTES:
            raise PeerBrokeProtocol(
                name, f"sent a nonce of {len(told.nonce)} bytes instead of {_NONCE_BYTES}"
            )
        sizes.append(told.records)
        text += told.records.to_bytes(8, "big") + told.nonce
    if len(peers) > 1:
        heard = SizesHeard(hashlib.sha256(text).digest())
        yield Send(peers, heard)
        for name in peers:
            if (yield Receive(name, SizesHeard)) != heard:
                raise PeerBrokeProtocol(
                    "", "told its peers different sizes or nonces; nobody can tell which it was"
                )
    return Announced(tuple(sizes), text)
