"""What n sites compute on additive shares, modulo 2^64: products, sums of products, numbers from binary digits.

Any n − 1 curious sites that follow the protocol learn nothing but what is opened: products are Gilboa's between every
two (`crypto/products.py`), circuits are on XOR shares (`protocol/collaborate/shared_bits.py`). All sites call the same
methods in the same order; everything is batched.

    products     64 transfers for each number and ordered pair of sites, as long as the row that it multiplies
    gram         64 transfers for each entry and pair of sites, as long as a row
    truncated    about 6·w·(n − 1) ANDs a number of w digits that stay, and a transfer for each and pair of sites
    times_digits a transfer for each row and pair of sites, as long as the row
    from_digits  a transfer for each digit and pair of sites; n − 1 messages that wait for each other
    opened       about 400·(n − 1) ANDs a number, on a path of 8·log₂ n

A site that does not follow the protocol can make results wrong, and learns no more from them than they tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto import words
from masquerade.crypto.bits import Bits, digits
from masquerade.crypto.circuit import Builder, Circuit
from masquerade.crypto.products import ProductReceiver, ProductSender
from masquerade.crypto.rings import Elements, PowerOfTwo
from masquerade.crypto.transfer_extension import TransferReceiver, TransferSender
from masquerade.net.script import Receive, Script, Send
from masquerade.protocol.blaming import blaming
from masquerade.protocol.collaborate import shared_bits
from masquerade.protocol.collaborate.shared_bits import SharedBits
from masquerade.protocol.learn.arithmetic import FactorsHidden, ProductsMasked, combined
from masquerade.protocol.pairwise_setup import set_up_pairs

RING = PowerOfTwo(64)

_MESSAGE_BYTES = 1 << 22  # about as long is a message of products


def prepare_shared_numbers(me: int, parties: Sequence[str], session: bytes) -> Script[SharedNumbers]:
    """Set up transfers in both directions between every two sites; `session` is the same for all."""
    bits = yield from shared_bits.prepare(me, parties, session)
    # In the reverse order of parties, each pair's transfers go the other way.
    last = len(parties) - 1
    senders, receivers = yield from set_up_pairs(
        last - me,
        parties[::-1],
        b"masquerade/shared-numbers/1\0" + session,
        lambda named, _: TransferSender(named),
        lambda named, _: TransferReceiver(named),
    )
    return SharedNumbers(
        bits,
        bits.senders | {last - number: each for number, each in senders.items()},
        bits.receivers | {last - number: each for number, each in receivers.items()},
    )


class SharedNumbers:
    """One site's side; `prepare_shared_numbers` makes it."""

    def __init__(
        self, bits: SharedBits, senders: dict[int, TransferSender], receivers: dict[int, TransferReceiver]
    ) -> None:
        self.bits = bits
        self.me, self.parties = bits.me, bits.parties
        self._senders, self._receivers = senders, receivers

    def products(self, numbers: Elements, rows: Elements) -> Script[Elements]:
        """Return our shares of each shared number times its shared row, [numbers, width]."""
        peers = [number for number in range(len(self.parties)) if number != self.me]
        at_a_time = max(1, _MESSAGE_BYTES // (64 * (16 + 4 * rows.shape[1])))
        parts = [np.zeros((0, rows.shape[1]), np.uint64)]
        for first in range(0, len(numbers), at_a_time):
            some = slice(first, first + at_a_time)
            crossed = yield from self._crossed(numbers[some], rows[some], peers, peers)
            parts.append(RING.add(crossed, RING.multiply(numbers[some, None], rows[some])))
        return np.concatenate(parts)

    def gram(self, rows: Elements) -> Script[Elements]:
        """Return our shares of the sum of every shared row's products of two entries each, [width, width]."""
        n, width = rows.shape
        before, after = range(self.me), range(self.me + 1, len(self.parties))
        at_a_time = max(1, _MESSAGE_BYTES // (64 * width * (16 + 4 * width)))
        total = np.zeros((width, width), np.uint64)
        for first in range(0, n, at_a_time):
            some = rows[first : first + at_a_time]
            # Of two sites, the later one's entries multiply the earlier one's rows; the transpose is the other half.
            repeated = np.repeat(some, width, axis=0)
            crossed = yield from self._crossed(some.ravel(), repeated, asked=before, answered=after)
            half = RING.total(crossed.reshape(len(some), width, width))
            own = RING.total(RING.multiply(some[:, :, None], some[:, None, :]))
            total = RING.add(total, RING.add(own, RING.add(half, half.T)))
        return total

    def times_digits(
        self, site: int, own: Elements | None, rows: Elements, sharers: Sequence[int]
    ) -> Script[Elements]:
        """Return our shares of shared rows, each times a digit that `site` alone has (`own`, there).

        The rows are shared among the `sharers`, who are others than the site.
        """
        if own is not None:
            return (yield from self._crossed(own, rows, sharers, (), places=1))
        answered = (site,) if self.me in sharers else ()
        return (yield from self._crossed(rows[:, 0], rows, (), answered, places=1))

    def from_digits(self, bits: Bits) -> Script[Elements]:
        """Return our shares of binary digits of which we hold XOR shares, in the same shape."""
        ours = bits.astype(np.uint64).ravel()
        shares = ours if self.me == 0 else np.zeros_like(ours)
        for site in range(1, len(self.parties)):
            # a ⊕ b = a + b − 2·a·b, for the digits a that the sites before share by now, and b of this one
            asked, answered = (
                (range(site), ()) if site == self.me else ((), (site,) if self.me < site else ())
            )
            crossed = yield from self._crossed(ours, shares[:, None], asked, answered, places=1)
            shares = RING.subtract(shares, RING.add(crossed[:, 0], crossed[:, 0]))
            if site == self.me:
                shares = RING.add(shares, ours)
        return shares.reshape(bits.shape)

    def truncated(self, numbers: Elements, dropped: int) -> Script[Elements]:
        """Return our shares of shared numbers divided by 2^`dropped` and rounded down, or up to n − 1 less."""
        # Without their last digits the shares add up to the quotient modulo 2^(64 − dropped); a circuit lifts that.
        width = 64 - dropped
        own = digits((numbers >> np.uint64(dropped)).ravel(), width)
        inputs = {f"provider {number}": self.bits.share(number, own) for number in range(len(self.parties))}
        circuit = _sum_circuit(len(self.parties), 0, width)
        bits = yield from self.bits.evaluate_shares(circuit, inputs, "sum")
        places = yield from self.from_digits(bits)
        weights = [1 << place for place in range(width)]
        weights[-1] = -weights[-1]  # two's complement
        return combined(places, weights, RING).reshape(numbers.shape)

    def opened(self, numbers: Elements, dropped: int) -> Script[NDArray[np.int64]]:
        """Return shared numbers divided by 2^`dropped` and rounded down, which all sites learn, and no more digits."""
        circuit = _sum_circuit(len(self.parties), dropped)
        found = yield from self.bits.evaluate(circuit, digits(numbers.ravel(), 64), "sum")
        places = np.arange(len(found), dtype=np.uint64)[:, None]
        whole: Elements = (found.astype(np.uint64) << (places + np.uint64(dropped))).sum(
            axis=0, dtype=np.uint64
        )
        return (whole.view(np.int64) >> np.int64(dropped)).reshape(numbers.shape)

    def _crossed(
        self,
        numbers: Elements,
        rows: Elements,
        asked: Sequence[int],
        answered: Sequence[int],
        places: int | None = None,
    ) -> Script[Elements]:
        """Return the sum of our shares of our numbers times the rows of sites `asked`, and theirs that we answer."""
        width = rows.shape[1]
        waiting = {number: ProductReceiver(self._receivers[number], RING, places) for number in asked}
        for number, receiver in waiting.items():
            yield Send((self.parties[number],), FactorsHidden(receiver.ask(numbers)))
        total = np.zeros(rows.shape, np.uint64)
        for number in answered:
            name = self.parties[number]
            question = yield Receive(name, FactorsHidden)
            with blaming(name):
                sender = ProductSender(self._senders[number], RING, places)
                shares, answer = sender.multiply(question.columns, rows)
            yield Send((name,), ProductsMasked(answer))
            total = RING.add(total, shares)
        for number, receiver in waiting.items():
            name = self.parties[number]
            told = yield Receive(name, ProductsMasked)
            with blaming(name):
                total = RING.add(total, receiver.multiply(told.data, width))
        return total


@lru_cache(maxsize=16)
def _sum_circuit(n_parties: int, dropped: int, width: int = 64) -> Circuit:
    build = Builder()
    shares = [build.input(f"provider {number}", width) for number in range(n_parties)]
    build.output("sum", words.total(build, shares, shallow=True)[dropped:])
    return build.build()
