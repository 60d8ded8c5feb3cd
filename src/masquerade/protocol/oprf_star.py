"""Align three and more lists by oblivious pseudo-random functions: a star around the last party, the **leader**.

Kolesnikov, Matania, Pinkas, Rosulek, Trieu, "Practical Multi-Party Private Set Intersection from Symmetric-Key
Techniques" (CCS 2017), in the form with shares of zero. The leader gets F_i of every member i at its own identifiers
(oprf_exchange.py). The members agree on keys with each other, and each gives the leader a store that has, for each of
its identifiers x, F_i(x) ⊕ its share of zero for x (crypto/zero_sharing.py). Where all members have one of the
leader's identifiers, what it finds in all stores XORs to zero; everywhere else, to a random word. The leader tells each
member the common ones by their F_i, in the order of F_0.

    who       learns
    everyone  which of its own people all parties have; how long all lists are
    leader    nothing else: whom some members have and others do not looks like nobody's
    members   nothing else

The leader with some members on its side learns which of its people all other members have; with all but one, whom that
one has. They would learn the same by putting the leader's list in place of their own (docs/leakage.md).

Bytes for each identifier: about 75 from the leader to each member, 10 back, and 8 for each common one. Work: the
leader's grows with the number of members, a member's does not.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto.group import OnDone
from masquerade.crypto.hashing import BLOCK_BYTES, Blocks, expand
from masquerade.crypto.items import Buckets
from masquerade.crypto.key_value_store import Positions, Shape, decode, encode
from masquerade.crypto.oblivious_prf import PrfReceiver, PrfSender
from masquerade.crypto.secure_sum import MaskKey
from masquerade.crypto.zero_sharing import zero_shares
from masquerade.engine.counts import Rows
from masquerade.errors import PeerBrokeProtocol
from masquerade.net.script import Message, Receive, Script, Send
from masquerade.protocol.blaming import blaming
from masquerade.protocol.oprf_alignment import Announced
from masquerade.protocol.oprf_exchange import Items, evaluate, pair_text, query, set_up, steps
from masquerade.protocol.prf_values import Values, matched, value_bytes

_HINT_TWEAK = 4  # of the hashes of items, with the one after it (crypto/items.py)
_WORD = 8  # bytes


class ShareKey(Message, tag="share-key", frozen=True):
    """A member's public key, from which it and another member make their key for shares of zero."""

    public: bytes


class ShareStore(Message, tag="share-store", frozen=True):
    """A bucket of a member's store: F of its identifiers, masked with shares of zero."""

    slots: bytes


class CommonValues(Message, tag="common-values", frozen=True):
    """The member's F at the common identifiers, in the common order."""

    values: bytes


def align_several(
    me: int,
    parties: Sequence[str],
    identifiers: Sequence[bytes],
    announced: Announced,
    on_done: OnDone | None = None,
) -> Script[Rows]:
    """Return the rows of this party's records that all others have, in the common order. Nothing is checked yet."""
    if not min(announced.sizes):
        return np.empty(0, np.intp)
    items = Items.of(identifiers, announced.text)
    work = steps(on_done, len(parties) + 1)
    leader, members = len(parties) - 1, parties[:-1]
    if me == leader:
        receivers = {
            name: PrfReceiver(pair_text(announced.text, number, me)) for number, name in enumerate(members)
        }
        yield from set_up(receivers)
        return (yield from lead(receivers, announced.sizes, items, work))
    keys = yield from share_keys(me, members, announced.text)
    sender = PrfSender(pair_text(announced.text, me, leader), items.family)
    yield from set_up({parties[leader]: sender})
    return (yield from take_part(sender, keys, parties[leader], announced.sizes[leader], items, work))


def lead(
    receivers: Mapping[str, PrfReceiver], sizes: Sequence[int], items: Items, on_done: OnDone | None = None
) -> Script[Rows]:
    """Return the leader's rows of common records; `receivers` are its sides with the members, in their order."""
    found = yield from query(receivers, items, on_done)
    total = np.zeros(len(items), np.uint64)
    for name, size in zip(receivers, sizes, strict=False):
        total ^= found[name][:, 0]
        buckets = Buckets(size)
        shape = Shape(buckets.capacity)
        for part in buckets.divide(items.digests, items.family):
            store = _slots((yield Receive(name, ShareStore)), name, shape)
            total[part] ^= decode(shape, store, _places(shape, items, part))
    common = np.flatnonzero(total == 0)
    for number, name in enumerate(receivers):
        width = value_bytes(sizes[number], len(items))
        names = _names(found[name], width).take(common)
        if number == 0:
            order = names.order()
            common, names = common[order], names.take(order)
        yield Send((name,), CommonValues(names.packed(width)))
    return common


def take_part(
    sender: PrfSender,
    keys: Sequence[bytes],
    leader: str,
    leader_size: int,
    items: Items,
    on_done: OnDone | None = None,
) -> Script[Rows]:
    """Return a member's rows of common records; `keys` are those with the other members."""
    found = yield from evaluate(sender, leader, leader_size, items, on_done)
    masked = found[:, 0] ^ zero_shares(items.digests, keys)
    buckets = Buckets(len(items))
    shape = Shape(buckets.capacity)
    for part in buckets.divide_own(items.digests, items.family):
        filling = expand(os.urandom(BLOCK_BYTES), _WORD * shape.size).view(np.uint64)
        store = encode(shape, _places(shape, items, part), masked[part], filling)
        yield Send((leader,), ShareStore(store.tobytes()))
    width = value_bytes(len(items), leader_size)
    named = yield Receive(leader, CommonValues)
    return _named_rows(named, leader, _names(found, width), width)


def share_keys(me: int, members: Sequence[str], text: bytes) -> Script[list[bytes]]:
    """Agree on a key with each other member."""
    own = MaskKey()
    others = {number: name for number, name in enumerate(members) if number != me}
    yield Send(tuple(others.values()), ShareKey(own.public))
    keys = []
    for number, name in others.items():
        told = yield Receive(name, ShareKey)
        with blaming(name, "a key for shares"):
            keys.append(own.seed(told.public, pair_text(text, me, number)))
    return keys


def _places(shape: Shape, items: Items, part: Rows) -> Positions:
    return shape.positions(items.digests[part], items.family, _HINT_TWEAK)


def _names(found: Blocks, width: int) -> Values:
    """The words of F by which records are named: first the one that masks nothing in a store."""
    return Values.of(found[:, ::-1].copy(), width)


def _slots(message: ShareStore, sender: str, shape: Shape) -> NDArray[np.uint64]:
    if len(message.slots) != _WORD * shape.size:
        raise PeerBrokeProtocol(
            sender, f"sent a store of {len(message.slots)} bytes in place of {_WORD * shape.size}"
        )
    return np.frombuffer(message.slots, np.uint64)


def _named_rows(message: CommonValues, leader: str, own: Values, width: int) -> Rows:
    """Find the rows that the leader names by their values; it can name none that we do not have, and none twice."""
    if len(message.values) % width:
        raise PeerBrokeProtocol(leader, "sent broken values")
    named = Values.unpacked(message.values, width)
    order = named.order()
    named = named.take(order)
    if not named.ascend():
        raise PeerBrokeProtocol(leader, "named a record as common twice")
    found, places = matched(own, named)
    if len(places) < len(named):
        raise PeerBrokeProtocol(leader, "named a record as common that we do not have")
    rows: Rows = np.empty(len(named), np.intp)
    rows[order] = found
    return rows
