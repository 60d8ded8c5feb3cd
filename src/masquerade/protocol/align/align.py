"""Align: find the records that all parties have, without showing identifiers.

Two ways, of which the contract names one or leaves it to the sizes of the lists (`align = "auto" | "curve" | "oprf"`):

    curve   commutative encryption (curve.py): about 0.1 ms of curve arithmetic an identifier and party
    oprf    oblivious pseudo-random functions (oprf.py for two parties, oprf.py for more): a fixed 0.2 s
            of curve arithmetic a pair, then some 1 µs an identifier

Unless the way is the curve anyhow, all parties first tell each other how long their lists are, which each way shows
all of them in any case, and a nonce. Three or more then compare what they heard: otherwise one that told each another
thing would have honest parties blame each other for what does not fit. `auto` is the curve with fewer than `FEW`
identifiers on every list, and with fewer than `FEWEST` on any: by the other way a short list has room for many more
than it announces (docs/leakage.md). At the end, whatever the way, all parties check that they hold the same people
(align.py): a false answer ends the session before any record is used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from masquerade.crypto import EqualityTest, OnDone, random_bytes
from masquerade.engine import Rows
from masquerade.errors import PeerBrokeProtocol
from masquerade.net import Message, Receive, Script, Send
from masquerade.protocol.align.alignment_ways import BY_SIZE, CURVE
from masquerade.protocol.align.curve import OnList, align_on_curve
from masquerade.protocol.align.identifiers import Identifiers
from masquerade.protocol.align.oprf import Announced, align_several, align_two
from masquerade.protocol.contract import MOST_RECORDS
from masquerade.protocol.pairs import blaming

# --- equality -----------------------------------------------------------------------------------------------
# Find out which peers hold the same secret, such as a list of people, without showing it.
#
# Every two parties run a test of their own (crypto/equality.py), so no third party can answer for another.
#
#     who        learns
#     everyone   which peers hold the same secret; a peer that deviates, whether one guess of its own was right


class EqualityShare(Message, tag="equality-share", frozen=True):
    """The sender's share of a test."""

    point: bytes


class EqualityProof(Message, tag="equality-proof", frozen=True):
    """Proof that the sender knows the secret, if it is ours."""

    proof: bytes


def who_differs(me: int, parties: Sequence[str], secret: bytes, session: bytes) -> Script[tuple[str, ...]]:
    """Return the peers that do not hold this secret. `session` is fresh, public, and names the purpose."""
    peers = {number: name for number, name in enumerate(parties) if number != me}
    tests: dict[int, EqualityTest] = {}
    for number, name in peers.items():
        pair = b"\0%d %d" % (min(me, number), max(me, number))
        tests[number] = EqualityTest(secret, session + pair, first=me < number)
        yield Send((name,), EqualityShare(tests[number].share))
    for number, name in peers.items():
        share = yield Receive(name, EqualityShare)
        with blaming(name, "a share of an equality test"):
            proof = tests[number].prove(share.point)
        yield Send((name,), EqualityProof(proof))
    differing = []
    for number, name in peers.items():
        if not tests[number].accepts((yield Receive(name, EqualityProof)).proof):
            differing.append(name)
    return tuple(differing)


# --- same people --------------------------------------------------------------------------------------------
# Check an alignment, however it was made: all parties have the same people in the same order.
#
# Whoever tells a party which of its records are common could name more of them, or all. So every two parties test
# whether they hold the same identifiers in the same order (protocol/align/align.py), before anything is computed from
# the records. A party that claims people whom it cannot name does not pass: no record gets into the session that any
# other party could not account for, and each row of the joined table is one person's.
#
# Who learns what: that all agree. Cost: a digest of the common identifiers, and four multiplications for
# each two parties.


def insist_on_same_people(
    me: int, parties: Sequence[str], identifiers: Sequence[bytes], session: bytes, comparer: int
) -> Script[None]:
    """Raise PeerBrokeProtocol unless all parties hold these identifiers in this order.

    If nobody does, the `comparer`, who told us which of our records are common, is named.
    """
    differing = yield from who_differs(me, parties, digest_of_people(identifiers), b"same people\0" + session)
    if not differing:
        return
    alone = len(differing) == len(parties) - 1
    name = parties[comparer] if alone and me != comparer else differing[0]
    doubt = ", if no other party had a hand in it" if len(parties) > 2 else ""
    raise PeerBrokeProtocol(name, f"cannot account for the people that it made us take to be common{doubt}")


def digest_of_people(identifiers: Sequence[bytes]) -> bytes:
    """Return a digest of identifiers in their order."""
    people = Identifiers.of(identifiers)
    digest = hashlib.sha512(len(people).to_bytes(8, "little"))
    digest.update(people.lengths().astype("<u8").tobytes())
    for part in people.parts():
        digest.update(b"".join(part))
    return digest.digest()


# --- align --------------------------------------------------------------------------------------------------

FEW = 2_000  # identifiers below which the curve is cheaper than the base transfers
FEWEST = 300  # from which on a store has fewer than two slots for each identifier (crypto/key_value_store.py)
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
    on_list: OnList | None = None,
) -> Script[Rows]:
    """Return the rows of this party's common records, in an order that all parties share and none chose.

    `parties` in the contract's order; `identifiers` are normalised and different; `session` is fresh and public.
    `on_done` is called with steps done, of (n + 1) steps an identifier for n parties. `on_list` is called with each
    peer and the length of its list before anything is answered.
    """
    on_curve = way == CURVE
    if not on_curve:
        announced = yield from _announce(me, parties, len(identifiers), session, most)
        if on_list is not None:
            for number, name in enumerate(parties):
                if number != me:
                    on_list(name, announced.sizes[number])
        on_curve = way == BY_SIZE and (max(announced.sizes) < FEW or 0 < min(announced.sizes) < FEWEST)
    if on_curve:
        sizes = [most] * len(parties) if way == CURVE else announced.sizes
        on_list = on_list if way == CURVE else None  # which has heard of them, and no list is longer than announced
        rows = yield from align_on_curve(me, parties, identifiers, session, sizes, on_done, on_list)
    elif len(parties) == 2:
        rows = yield from align_two(me, parties, identifiers, announced, on_done)
    else:
        rows = yield from align_several(me, parties, identifiers, announced, on_done)
    found = Identifiers.of(identifiers).take(rows)
    yield from insist_on_same_people(me, parties, found, session, comparer=len(parties) - 1)
    return rows


def _announce(me: int, parties: Sequence[str], size: int, session: bytes, most: int) -> Script[Announced]:
    """Exchange sizes and nonces; the text that comes of it names this alignment."""
    own = ListSize(size, random_bytes(_NONCE_BYTES))
    peers = tuple(name for number, name in enumerate(parties) if number != me)
    yield Send(peers, own)
    sizes, text = [], b"align\0" + session
    for number, name in enumerate(parties):
        told: ListSize = own if number == me else (yield Receive(name, ListSize))
        if number != me and not 0 <= told.records <= most:
            raise PeerBrokeProtocol(name, f"announced {told.records} identifiers; at most {most} are agreed")
        if len(told.nonce) != _NONCE_BYTES:
            raise PeerBrokeProtocol(name, f"sent a nonce of {len(told.nonce)} bytes instead of {_NONCE_BYTES}")
        sizes.append(told.records)
        text += told.records.to_bytes(8, "big") + told.nonce
    if len(peers) > 1:
        heard = SizesHeard(hashlib.sha256(text).digest())
        yield Send(peers, heard)
        for name in peers:
            if (yield Receive(name, SizesHeard)) != heard:
                raise PeerBrokeProtocol("", "told its peers different sizes or nonces; nobody can tell which it was")
    return Announced(tuple(sizes), text)
