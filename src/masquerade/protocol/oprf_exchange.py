"""The messages of an oblivious pseudo-random function between one receiver and its senders (crypto/oblivious_prf.py).

A receiver's list is divided into buckets by a keyed hash, so that what is at work at a time fits into memory: for each
bucket the masked columns of its store, the sender's check of them, the answer. A sender divides its own list in the
same way and evaluates each part with the store of its bucket, unseen by the receiver.

    who        learns
    receiver   F at its own identifiers
    sender     that the receiver's columns are those of stores of the announced size
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from masquerade.crypto.group import OnDone
from masquerade.crypto.hashing import Blocks, TweakedHash, derive_key
from masquerade.crypto.items import Buckets, digest_items
from masquerade.crypto.oblivious_prf import HeldStore, ItemStore, PrfReceiver, PrfSender
from masquerade.engine.counts import Rows
from masquerade.net.script import Message, Receive, Script, Send
from masquerade.protocol.blaming import blaming


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


def query(
    receivers: Mapping[str, PrfReceiver],
    items: Items,
    on_done: OnDone | None,
) -> Script[dict[str, Blocks]]:
    """Return F of each sender at this party's items."""
    buckets = Buckets(len(items))
    parts = buckets.divide_own(items.digests, items.family)
    found = {name: np.empty((len(items), 2), np.uint64) for name in receivers}
    for part, store in made_ahead(
        parts, lambda part: ItemStore(items.digests[part], buckets.capacity, items.family)
    ):
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
    sender: PrfSender,
    receiver: str,
    receiver_size: int,
    items: Items,
    on_done: OnDone | None,
) -> Script[Blocks]:
    """Return F at this party's items, once the receiver's columns are checked."""
    buckets = Buckets(receiver_size)
    found = np.empty((len(items), 2), np.uint64)
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
            waiting.append(pool.submit(_evaluate, store, items, part, found))
            if len(waiting) > (os.cpu_count() or 1):
                waiting.popleft().result()
            if on_done is not None:
                on_done(len(part))
        for each in waiting:
            each.result()
    return found


def _evaluate(store: HeldStore, items: Items, part: Rows, found: Blocks) -> None:
    found[part] = store.evaluate(items.digests[part])


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
