"""What n sites compute on additive shares, modulo 2^64: products, sums of products, numbers from binary digits.

Any n − 1 curious sites that follow the protocol learn nothing but what is opened: products are Gilboa's between every
two (`crypto/products.py`), circuits are on XOR shares (`protocol/providers/shared_counts.py`). All sites call the same
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
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto import (
    Bits,
    Builder,
    Circuit,
    Elements,
    PowerOfTwo,
    Precision,
    ProductReceiver,
    ProductSender,
    TransferReceiver,
    TransferSender,
    digits,
    from_bits,
    main_offset,
    scaled_logarithms,
    shifted_coefficients,
    split_circuit,
    words,
)
from masquerade.net import Message, Receive, Script, Send
from masquerade.protocol.pairs import Pair, blaming, set_up_pairs, shared_outputs
from masquerade.protocol.providers import shared_counts
from masquerade.protocol.providers.shared_counts import SharedBits

# --- arithmetic ---------------------------------------------------------------------------------------------
# What two parties compute on additive shares: products, polynomials, digits, and division by powers of two.
#
# The shares are of the integers modulo 2^w, w = 64. Each function is one party's part, called by both in the same
# order; `pair` knows which of the two this is. Party 0 sends in all transfers. Everything is batched: an
# array costs as many rounds as one number.
#
#     multiplied       two messages; 2w transfers a product
#     evaluated        two messages; k·w transfers for a polynomial of degree k
#     from_digits      two messages; one transfer a digit
#     halved           a garbled circuit of w ANDs and w − d transfers, to drop d digits
#     lifted           a garbled circuit of n ANDs and n transfers, for numbers of n digits
#
# All are secure against a party that follows the protocol and wants to know more.

RING = PowerOfTwo(64)
SIDES = ("one", "other")  # the inputs of a circuit that are party 0's and party 1's share


class FactorsHidden(Message, tag="learn-factors", frozen=True):
    """One party's factors, as hidden choices of transfers."""

    columns: bytes


class ProductsMasked(Message, tag="learn-products", frozen=True):
    """What makes the other party's transfers shares of products."""

    data: bytes


def cross_products(pair: Pair, ours: Elements, places: int | None = None) -> Script[Elements]:
    """Return our shares of the products of our numbers with the peer's, in order; party 1's have `places` digits."""
    if pair.me == 0:
        asked = yield Receive(pair.peer, FactorsHidden)
        with blaming(pair.peer):
            shares, answer = ProductSender(pair.sender, RING, places).multiply(asked.columns, ours)
        yield Send((pair.peer,), ProductsMasked(answer))
        return shares
    receiver = ProductReceiver(pair.receiver, RING, places)
    yield Send((pair.peer,), FactorsHidden(receiver.ask(ours)))
    answered = yield Receive(pair.peer, ProductsMasked)
    with blaming(pair.peer):
        return receiver.multiply(answered.data)


def multiplied(pair: Pair, x: Elements, y: Elements) -> Script[Elements]:
    """Return our shares of the products of shared numbers."""
    # (x₀ + x₁)(y₀ + y₁): party 0 multiplies x₀ and y₀ with party 1's y₁ and x₁.
    ours = np.concatenate((x, y) if pair.me == 0 else (y, x))
    crossed = yield from cross_products(pair, ours)
    return RING.add(RING.multiply(x, y), RING.total(crossed.reshape(2, -1)))


def evaluated(pair: Pair, ours: Sequence[Elements] | Elements, degree: int) -> Script[Elements]:
    """Return our shares of Q(y): party 0 gives the coefficients of each Q, the constant one first; party 1 each y.

    Oblivious polynomial evaluation. Each power of y is party 1's own, each coefficient party 0's, so that Q(y) is a sum
    of products between the two.
    """
    if pair.me == 0:
        constant, *others = ours
        crossed = yield from cross_products(pair, np.concatenate(others))
        return RING.add(RING.total(crossed.reshape(degree, -1)), constant)
    y = np.asarray(ours)
    powers = [y]
    for _ in range(degree - 1):
        powers.append(RING.multiply(powers[-1], y))
    crossed = yield from cross_products(pair, np.concatenate(powers))
    return RING.total(crossed.reshape(degree, -1))


def from_digits(pair: Pair, bits: Bits) -> Script[Elements]:
    """Return our shares of binary digits of which we hold XOR shares, in the same shape."""
    ours = bits.astype(np.uint64)
    # b₀ ⊕ b₁ = b₀ + b₁ − 2·b₀·b₁
    crossed = yield from cross_products(pair, ours.ravel(), places=1)
    return RING.subtract(ours, RING.add(crossed, crossed).reshape(ours.shape))


def halved(pair: Pair, shares: Elements, times: int) -> Script[Elements]:
    """Return our shares of shared numbers divided by 2^`times` and rounded down; exact, also of negative ones."""
    found = yield from shared_outputs(
        pair, _quotient_circuit(RING.bits, times), len(shares), {SIDES[pair.me]: digits(shares, RING.bits)}
    )
    return composed((yield from from_digits(pair, found["quotient"])), signed=True)


def lifted(pair: Pair, shares: NDArray[np.unsignedinteger], bits: int) -> Script[Elements]:
    """Return our shares, in the ring, of numbers below 2^`bits` that are shared modulo a smaller power of two."""
    own = digits(shares.ravel().astype(np.uint64), bits)
    found = yield from shared_outputs(pair, _quotient_circuit(bits, 0), shares.size, {SIDES[pair.me]: own})
    return composed((yield from from_digits(pair, found["quotient"]))).reshape(shares.shape)


def stacked_digits(numbers: Elements, bits: int) -> Bits:
    """Return the lowest digits of each column's numbers as one circuit input, the first number's first."""
    places = digits(numbers.ravel(), bits).reshape(bits, *numbers.shape)
    return places.transpose(1, 0, 2).reshape(-1, numbers.shape[1])


def numbers_of(bits: Bits) -> NDArray[np.int64]:
    """Return the numbers whose binary digits are the rows, the lowest first."""
    return (1 << np.arange(len(bits), dtype=np.int64)) @ bits.astype(np.int64)


def composed(places: Elements, *, signed: bool = False) -> Elements:
    """Return our shares of numbers, in two's complement if `signed`, from those of their digits, a row a place."""
    weights = [1 << place for place in range(len(places))]
    if signed:
        weights[-1] = RING.modulus - weights[-1]
    return RING.total(RING.multiply(places, np.array(weights, np.uint64).reshape(-1, *[1] * (places.ndim - 1))))


def plus(me: int, shares: Elements, number: int) -> Elements:
    """Add a public number to shared ones: the first party does."""
    return RING.add(shares, np.full_like(shares, number % RING.modulus)) if me == 0 else shares


@cache
def _quotient_circuit(bits: int, times: int) -> Circuit:
    build = Builder()
    one, other = (build.input(name, bits) for name in SIDES)
    build.output("quotient", words.add(build, one, other)[times:])
    return build.build()


@cache
def lowest_circuit(bits: int, n_numbers: int) -> Circuit:
    """Return the circuit that adds two shares of each number and finds the lowest, as integers around 0."""
    build = Builder()
    one, other = (build.input(name, bits * n_numbers) for name in SIDES)
    numbers = []
    for at in range(0, bits * n_numbers, bits):
        number = words.add(build, one[at : at + bits], other[at : at + bits])
        # The lowest of integers around 0 has the highest complement, with the sign's place flipped.
        numbers.append([*words.inverted(number[:-1]), number[-1]])
    index, _ = words.arg_max(build, numbers)
    build.output("index", index)
    return build.build()


# --- logarithm ----------------------------------------------------------------------------------------------
# Shares of σ · ln x, and of x · ln x, from shares of x, for many x at once (`crypto/logarithm.py` explains
# the parts).
#
#     phase one    garbled circuit of about N·(log2 N + 3) ANDs; then one transfer for each of its outputs
#     phase two    oblivious polynomial evaluation, k·w transfers
#
# What either party sees: masked messages of lengths that follow from the number of logarithms and the
# precision.


def logarithms(pair: Pair, shares: Elements, precision: Precision) -> Script[Elements]:
    """Return our shares of σ · ln x; σ is the precision's scale. Of 0 it is anything."""
    ours = {SIDES[pair.me]: digits(shares, precision.bits)}
    split = yield from shared_outputs(pair, split_circuit(precision.bits), len(shares), ours)
    main, epsilon = from_bits(precision, (yield from from_digits(pair, split["split"])))
    polynomial = shifted_coefficients(precision, epsilon) if pair.me == 0 else epsilon
    series = yield from evaluated(pair, polynomial, precision.terms)
    return plus(pair.me, RING.add(main, series), main_offset(precision))


def weighted_logarithms(pair: Pair, shares: Elements, precision: Precision) -> Script[Elements]:
    """Return our shares of x · ⌊σ · ln x / 2^d⌋, with d the `dropped_digits`; of 0 it is 0.

    What goes is rounded down in a circuit, exactly, so that the result is a function of x alone.
    """
    logs = yield from logarithms(pair, shares, precision)
    if dropped := dropped_digits(precision):
        logs = yield from halved(pair, logs, dropped)
    return (yield from multiplied(pair, shares, logs))


def plain_weighted_logarithms(numbers: NDArray[np.int64], precision: Precision) -> NDArray[np.int64]:
    """Compute the same in the clear."""
    products: NDArray[np.int64] = numbers * (scaled_logarithms(numbers, precision) >> dropped_digits(precision))
    return products


def dropped_digits(precision: Precision) -> int:
    """Return how many digits of a scaled logarithm must go, so that it still fits when multiplied by its number."""
    needed = precision.bits + precision.scale.bit_length() + precision.bits.bit_length() + 1
    return max(0, needed - RING.bits)


# --- shared numbers -----------------------------------------------------------------------------------------

_MESSAGE_BYTES = 1 << 22  # about as long is a message of products


def prepare_shared_numbers(me: int, parties: Sequence[str], session: bytes) -> Script[SharedNumbers]:
    """Set up transfers in both directions between every two sites; `session` is the same for all."""
    bits = yield from shared_counts.prepare(me, parties, session)
    # In the reverse order of parties, each pair's transfers go the other way.
    last = len(parties) - 1
    named = b"masquerade/shared-numbers/1\0" + session
    senders, receivers, _ = yield from set_up_pairs(last - me, parties[::-1], named)
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

    def times_digits(self, site: int, own: Elements | None, rows: Elements, sharers: Sequence[int]) -> Script[Elements]:
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
            asked, answered = (range(site), ()) if site == self.me else ((), (site,) if self.me < site else ())
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
        return composed((yield from self.from_digits(bits)), signed=True).reshape(numbers.shape)

    def opened(self, numbers: Elements, dropped: int) -> Script[NDArray[np.int64]]:
        """Return shared numbers divided by 2^`dropped` and rounded down, which all sites learn, and no more digits."""
        circuit = _sum_circuit(len(self.parties), dropped)
        found = yield from self.bits.evaluate(circuit, digits(numbers.ravel(), 64), "sum")
        places = np.arange(len(found), dtype=np.uint64)[:, None]
        whole: Elements = (found.astype(np.uint64) << (places + np.uint64(dropped))).sum(axis=0, dtype=np.uint64)
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
