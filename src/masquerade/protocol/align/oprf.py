"""Align three and more lists by oblivious pseudo-random functions: a star around the last party, the **leader**.

Kolesnikov, Matania, Pinkas, Rosulek, Trieu, "Practical Multi-Party Private Set Intersection from Symmetric-Key
Techniques" (CCS 2017), in the form with shares of zero. The leader gets F_i of every member i at its own identifiers
(oprf.py). The members agree on keys with each other, and each gives the leader a store that has, for each of
its identifiers x, F_i(x) ⊕ its share of zero for x (crypto/key_value_store.py). Where all members have one of the
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

import hashlib
import math
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto import (
    BLOCK_BYTES,
    Blocks,
    Buckets,
    HeldStore,
    ItemStore,
    MaskKey,
    OnDone,
    PrfReceiver,
    PrfSender,
    SlotPositions,
    StoreLayout,
    TweakedHash,
    decode,
    derive_key,
    digest_items,
    encode,
    expand,
    pack,
    random_bytes,
    zero_shares,
)
from masquerade.engine import Rows
from masquerade.errors import PeerBrokeProtocol
from masquerade.net import Message, Receive, Script, Send
from masquerade.protocol.pairs import blaming

# --- oprf exchange ------------------------------------------------------------------------------------------
# The messages of an oblivious pseudo-random function between one receiver and its senders (crypto/oblivious_prf.py).
#
# A receiver's list is divided into buckets by a keyed hash, so that what is at work at a time fits into memory: for
# each bucket the masked columns of its store, the sender's check of them, the answer. A sender divides its own list in
# the same way and evaluates each part with the store of its bucket, unseen by the receiver.
#
#     who        learns
#     receiver   F at its own identifiers
#     sender     that the receiver's columns are those of stores of the announced size


@dataclass(frozen=True)
class Items:
    """A party's identifiers as items, and the hashes by which all parties place them."""

    digests: Blocks
    family: TweakedHash

    @classmethod
    def of(cls, identifiers: Sequence[bytes], text: bytes) -> Items:
        """Hash identifiers for the alignment that this text names."""
        key = hashlib.sha512(b"masquerade/align/items\0" + text).digest()
        return cls(digest_items(identifiers, key), TweakedHash(derive_key(text, b"align/places")))

    def __len__(self) -> int:
        return len(self.digests)


Made = TypeVar("Made")


class PrfSetup(Message, tag="prf-setup", frozen=True):
    """Half of the base transfers."""

    data: bytes


class MaskedColumns(Message, tag="masked-columns", frozen=True):
    """The receiver's choice columns, masked: some bytes of each of the 464."""

    data: bytes


class ColumnCheck(Message, tag="column-check", frozen=True):
    """From what the digests of a bucket's columns are made, drawn when all of them are there."""

    seed: bytes


class ColumnDigests(Message, tag="column-digests", frozen=True):
    """The receiver's answer to a check."""

    data: bytes


def set_up(sides: Mapping[str, PrfReceiver] | Mapping[str, PrfSender]) -> Script[None]:
    """Run the base transfers with each peer."""
    for name, side in sides.items():
        yield Send((name,), PrfSetup(side.setup()))
    for name, side in sides.items():
        half = yield Receive(name, PrfSetup)
        with blaming(name, "half of the base transfers"):
            side.finish_setup(half.data)


def query(receivers: Mapping[str, PrfReceiver], items: Items, on_done: OnDone | None) -> Script[dict[str, Blocks]]:
    """Return F of each sender at this party's items."""
    buckets = Buckets(len(items))
    parts = buckets.divide_own(items.digests, items.family)
    found = {name: np.empty((len(items), 2), np.uint64) for name in receivers}
    for part, store in made_ahead(parts, lambda part: ItemStore(items.digests[part], buckets.capacity, items.family)):
        queries = {name: side.query(store) for name, side in receivers.items()}
        for name, each in queries.items():
            for columns in each.messages():
                yield Send((name,), MaskedColumns(columns))
        for name, each in queries.items():
            check = yield Receive(name, ColumnCheck)
            with blaming(name, "the seed of a check"):
                answer = each.answer(check.seed)
            yield Send((name,), ColumnDigests(answer))
        for name, each in queries.items():
            found[name][part] = each.evaluate()
        if on_done is not None:
            on_done(len(part))
    return found


def evaluate(
    sender: PrfSender, receiver: str, receiver_size: int, items: Items, on_done: OnDone | None
) -> Script[Blocks]:
    """Return F at this party's items, once the receiver's columns are checked."""
    buckets = Buckets(receiver_size)
    found = np.empty((len(items), 2), np.uint64)

    def evaluate_part(store: HeldStore, part: Rows) -> None:
        found[part] = store.evaluate(items.digests[part])

    # While the columns of a bucket arrive, the one before it is evaluated.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        waiting: deque[Future[None]] = deque()
        for part in buckets.divide(items.digests, items.family):
            store = sender.store(buckets.capacity)
            for _ in range(store.messages):
                columns = yield Receive(receiver, MaskedColumns)
                with blaming(receiver, "masked columns"):
                    store.take(columns.data)
            yield Send((receiver,), ColumnCheck(store.challenge()))
            answer = yield Receive(receiver, ColumnDigests)
            with blaming(receiver, "digests"):
                store.check(answer.data)
            waiting.append(pool.submit(evaluate_part, store, part))
            if len(waiting) > (os.cpu_count() or 1):
                waiting.popleft().result()
            if on_done is not None:
                on_done(len(part))
        for each in waiting:
            each.result()
    return found


def made_ahead(parts: Sequence[Rows], make: Callable[[Rows], Made]) -> Iterator[tuple[Rows, Made]]:
    """Yield each part with what is made of it, in order; as many as there are cores are made at the same time."""
    cores = os.cpu_count() or 1
    with ThreadPoolExecutor(cores) as pool:
        waiting = deque(pool.submit(make, part) for part in parts[:cores])
        for number, part in enumerate(parts):
            made = waiting.popleft().result()
            if number + cores < len(parts):
                waiting.append(pool.submit(make, parts[number + cores]))
            yield part, made


def steps(on_done: OnDone | None, of_each: int) -> OnDone | None:
    """Return a counter of finished identifiers that reports this many steps for each."""
    if on_done is None:
        return None
    return lambda count: on_done(count * of_each)


def pair_text(text: bytes, one: int, other: int) -> bytes:
    """Return the name of what two parties do together in an alignment."""
    return text + b"\0%d %d" % (min(one, other), max(one, other))


# --- prf values ---------------------------------------------------------------------------------------------
# Lists of values of a pseudo-random function, as two parties compare them: long enough not to meet by chance.

_STATISTICAL = 40  # bits: in one session of 2^40 two different identifiers have one value
_STEP = 1 << 18  # values that are looked at together
_MOST_TIES = 3  # values of one list with the same first word that are looked for: more do not occur


def value_bytes(*sizes: int) -> int:
    """Return how many bytes of F two lists are compared by."""
    pairs = math.prod(max(size, 1) for size in sizes)
    return max(_WORD, -(-(_STATISTICAL + (pairs - 1).bit_length()) // 8))


@dataclass(frozen=True)
class PrfOutputs:
    """The first bytes of F: a word, and the few bytes after it."""

    first: NDArray[np.uint64]
    second: NDArray[np.uint64]

    @classmethod
    def of(cls, found: Blocks, width: int) -> PrfOutputs:
        """Cut F to `width` bytes; nothing is copied, so the array itself is cut."""
        found[:, 1] &= np.uint64((1 << 8 * (width - _WORD)) - 1)
        return cls(found[:, 0], found[:, 1])

    def __len__(self) -> int:
        return len(self.first)

    def take(self, order: Rows) -> PrfOutputs:
        """Return the values at these places."""
        return PrfOutputs(self.first[order], self.second[order])

    def order(self) -> Rows:
        """Return the places in ascending order of values."""
        order = np.argsort(self.first)
        ranked = self.first[order]
        return np.lexsort((self.second, self.first)) if (ranked[1:] == ranked[:-1]).any() else order

    def ascend(self) -> bool:
        """Return whether each value is larger than the one before it."""
        tied = self.first[1:] == self.first[:-1]
        return bool(np.where(tied, self.second[1:] > self.second[:-1], self.first[1:] > self.first[:-1]).all())

    def packed(self, width: int) -> bytes:
        """Encode the values, `width` bytes each."""
        rows = np.empty((len(self), width), np.uint8)
        for start in range(0, len(self), _STEP):  # so that no further copy of the whole is made
            for words, to in ((self.first, slice(_WORD)), (self.second, slice(_WORD, width))):
                part = np.ascontiguousarray(words[start : start + _STEP]).view(np.uint8).reshape(-1, _WORD)
                rows[start : start + _STEP, to] = part[:, : rows[0, to].size]
        return rows.tobytes()

    @classmethod
    def unpacked(cls, data: bytes, width: int) -> PrfOutputs:
        """Invert `packed`."""
        rows = np.zeros((len(data) // width, 2 * _WORD), np.uint8)
        rows[:, :width] = np.frombuffer(data, np.uint8).reshape(-1, width)
        words = rows.view(np.uint64)
        return cls(words[:, 0], words[:, 1])


def matched(own: PrfOutputs, theirs: PrfOutputs) -> tuple[Rows, Rows]:
    """Return the places of common values on both lists; `theirs` ascend, and so do their places."""
    if not len(theirs):
        return np.empty(0, np.intp), np.empty(0, np.intp)
    order = own.order()  # looked for in this order, neighbours are near each other
    row_of = np.full(len(theirs), -1, np.intp)
    words = np.ascontiguousarray(theirs.first)  # or every search would copy them
    for start in range(0, len(own), _STEP):
        rows = order[start : start + _STEP]
        part = own.take(rows)
        first = np.searchsorted(words, part.first)
        for tie in range(_MOST_TIES):
            at = np.minimum(first + tie, len(theirs) - 1)
            hit = np.flatnonzero((words[at] == part.first) & (theirs.second[at] == part.second))
            row_of[at[hit]] = rows[hit]
    places = np.flatnonzero(row_of >= 0)
    return row_of[places], places


# --- oprf alignment -----------------------------------------------------------------------------------------
# Align two lists by an oblivious pseudo-random function: symmetric cryptography but for a few hundred transfers.
#
# The party with the shorter list receives F at its identifiers, the other holds F (oprf.py). The holder sends F of its
# own list, sorted, with as many bits as make a chance match unlikely (2⁻⁴⁰ for the whole session); the receiver answers
# which of the values it has, too. Their order by F is the common order: F is keyed with secrets of both, so nobody who
# later sees records in that order, the assembler for one, can test guesses at identifiers with it.
#
#     who       learns
#     both      which of its own people the other has; how long both lists are
#     holder    nothing else: its view are masked columns and the answer
#     receiver  nothing else: F at other identifiers than its own is random to it
#
#     bytes     about 75 for each identifier of the shorter list, 10 for each of the longer, and a bit of each answer
#     work      some 1 µs an identifier and party, and 464 base transfers (0.15 to 0.2 s each)
#
# A receiver can put more identifiers into its stores than it announced, one for each slot: 1.3 times as many on long
# lists, almost twice as many for 300, and 112 for 1 (docs/leakage.md). A holder can send values that are F of
# nothing; they match nothing. An answer is one bit for each value that was sent, so nothing outside the list can be
# claimed; what is claimed falsely the check of the people finds out (align.py).


class PrfValues(Message, tag="prf-values", frozen=True):
    """F of the holder's identifiers in ascending order, 8 to 12 bytes each."""

    values: bytes


class CommonPlaces(Message, tag="common-places", frozen=True):
    """Which of the values that were sent the receiver has, too: a bit for each."""

    bits: bytes


@dataclass(frozen=True)
class Announced:
    """What all parties have announced: the sizes of their lists, and a text that names this alignment."""

    sizes: tuple[int, ...]
    text: bytes


def align_two(
    me: int, parties: Sequence[str], identifiers: Sequence[bytes], announced: Announced, on_done: OnDone | None = None
) -> Script[Rows]:
    """Return the rows of this party's records that the other has, too, in the order of F. Nothing is checked yet."""
    if not min(announced.sizes):
        return np.empty(0, np.intp)
    receives = me == (0 if announced.sizes[0] < announced.sizes[1] else 1)
    peer, size = parties[1 - me], announced.sizes[1 - me]
    items = Items.of(identifiers, announced.text)
    pair = pair_text(announced.text, 0, 1)
    work = steps(on_done, len(parties) + 1)
    if receives:
        receiver = PrfReceiver(pair)
        yield from set_up({peer: receiver})
        return (yield from find_by_query(receiver, peer, size, items, work))
    sender = PrfSender(pair, items.family)
    yield from set_up({peer: sender})
    return (yield from find_by_values(sender, peer, size, items, work))


def find_by_query(
    receiver: PrfReceiver, peer: str, size: int, items: Items, on_done: OnDone | None = None
) -> Script[Rows]:
    """Return the rows of common records as the one who gets F; the peer has `size` identifiers."""
    width = value_bytes(len(items), size)
    own = PrfOutputs.of((yield from query({peer: receiver}, items, on_done))[peer], width)
    theirs = _sorted_values((yield Receive(peer, PrfValues)), peer, size, width)
    rows, places = matched(own, theirs)
    bits = np.zeros(len(theirs), np.uint8)
    bits[places] = 1
    yield Send((peer,), CommonPlaces(pack(bits).tobytes()))
    return rows


def find_by_values(
    sender: PrfSender, peer: str, size: int, items: Items, on_done: OnDone | None = None
) -> Script[Rows]:
    """Return the rows of common records as the one who holds F; the peer has `size` identifiers."""
    width = value_bytes(len(items), size)
    values = PrfOutputs.of((yield from evaluate(sender, peer, size, items, on_done)), width)
    order = values.order()
    message = PrfValues(values.take(order).packed(width))
    del values
    yield Send((peer,), message)
    del message
    answer = yield Receive(peer, CommonPlaces)
    return order[_places(answer, peer, len(order))]


def _sorted_values(message: PrfValues, sender: str, size: int, width: int) -> PrfOutputs:
    if len(message.values) != size * width:
        raise PeerBrokeProtocol(sender, f"announced {size} identifiers and sent another number of values")
    values = PrfOutputs.unpacked(message.values, width)
    if not values.ascend():
        raise PeerBrokeProtocol(sender, "sent values that do not ascend: one is on its list twice")
    return values


def _places(message: CommonPlaces, sender: str, size: int) -> Rows:
    if len(message.bits) != -(-size // 8):
        raise PeerBrokeProtocol(sender, f"answered {size} values with {len(message.bits)} bytes of bits")
    bits = np.unpackbits(np.frombuffer(message.bits, np.uint8), bitorder="little")
    if bits[size:].any():
        raise PeerBrokeProtocol(sender, "answered with places outside the list")
    return np.flatnonzero(bits)


# --- oprf star ----------------------------------------------------------------------------------------------

_HINT_TWEAK = 4  # of the hashes of items, with the one after it (crypto/key_value_store.py)
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
    me: int, parties: Sequence[str], identifiers: Sequence[bytes], announced: Announced, on_done: OnDone | None = None
) -> Script[Rows]:
    """Return the rows of this party's records that all others have, in the common order. Nothing is checked yet."""
    if not min(announced.sizes):
        return np.empty(0, np.intp)
    items = Items.of(identifiers, announced.text)
    work = steps(on_done, len(parties) + 1)
    leader, members = len(parties) - 1, parties[:-1]
    if me == leader:
        receivers = {name: PrfReceiver(pair_text(announced.text, number, me)) for number, name in enumerate(members)}
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
        shape = StoreLayout(buckets.capacity)
        for part in buckets.divide(items.digests, items.family):
            store = _slots((yield Receive(name, ShareStore)), name, shape)
            total[part] ^= decode(shape, store, _common_places(shape, items, part))
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
    sender: PrfSender, keys: Sequence[bytes], leader: str, leader_size: int, items: Items, on_done: OnDone | None = None
) -> Script[Rows]:
    """Return a member's rows of common records; `keys` are those with the other members."""
    found = yield from evaluate(sender, leader, leader_size, items, on_done)
    masked = found[:, 0] ^ zero_shares(items.digests, keys)
    buckets = Buckets(len(items))
    shape = StoreLayout(buckets.capacity)
    for part in buckets.divide_own(items.digests, items.family):
        filling = expand(random_bytes(BLOCK_BYTES), _WORD * shape.size).view(np.uint64)
        store = encode(shape, _common_places(shape, items, part), masked[part], filling)
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


def _common_places(shape: StoreLayout, items: Items, part: Rows) -> SlotPositions:
    return shape.positions(items.digests[part], items.family, _HINT_TWEAK)


def _names(found: Blocks, width: int) -> PrfOutputs:
    """The words of F by which records are named: first the one that masks nothing in a store."""
    return PrfOutputs.of(found[:, ::-1].copy(), width)


def _slots(message: ShareStore, sender: str, shape: StoreLayout) -> NDArray[np.uint64]:
    if len(message.slots) != _WORD * shape.size:
        raise PeerBrokeProtocol(sender, f"sent a store of {len(message.slots)} bytes in place of {_WORD * shape.size}")
    return np.frombuffer(message.slots, np.uint64)


def _named_rows(message: CommonValues, leader: str, own: PrfOutputs, width: int) -> Rows:
    """Find the rows that the leader names by their values; it can name none that we do not have, and none twice."""
    if len(message.values) % width:
        raise PeerBrokeProtocol(leader, "sent broken values")
    named = PrfOutputs.unpacked(message.values, width)
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
