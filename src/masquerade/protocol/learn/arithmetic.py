"""What two parties compute on additive shares: products, polynomials, digits, and division by powers of two.

The shares are of the integers modulo 2^w. Each function is one party's part, called by both in the same order; `pair`
knows which of the two this is. Party 0 sends in all transfers. Everything is batched: an array costs as many rounds as
one number.

    multiplied       two messages; 2w transfers a product
    in_common        two messages; one transfer a record
    evaluated        two messages; k·w transfers for a polynomial of degree k
    from_digits      two messages; one transfer a digit
    halved           a garbled circuit of w ANDs and w − d transfers, to drop d digits
    lifted           a garbled circuit of n ANDs and n transfers, for numbers of n digits
    lowest           a garbled circuit of about 3w ANDs a number

All are secure against a party that follows the protocol and wants to know more.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto import words
from masquerade.crypto.bits import Bits, digits
from masquerade.crypto.circuit import Builder, Circuit
from masquerade.crypto.products import ProductReceiver, ProductSender
from masquerade.crypto.rings import Elements, PowerOfTwo
from masquerade.net.script import Message, Receive, Script, Send
from masquerade.protocol.blaming import blaming
from masquerade.protocol.joint_histogram.pair import Pair, read_outputs, shared_outputs

SIDES = ("one", "other")  # the inputs of a circuit that are party 0's and party 1's share


class FactorsHidden(Message, tag="learn-factors", frozen=True):
    """One party's factors, as hidden choices of transfers."""

    columns: bytes


class ProductsMasked(Message, tag="learn-products", frozen=True):
    """What makes the other party's transfers shares of products."""

    data: bytes


def cross_products(
    pair: Pair, ours: Elements, ring: PowerOfTwo, places: int | None = None
) -> Script[Elements]:
    """Return our shares of the products of our numbers with the peer's, in order; party 1's have `places` digits."""
    if pair.me == 0:
        asked = yield Receive(pair.peer, FactorsHidden)
        with blaming(pair.peer):
            shares, answer = ProductSender(pair.sender, ring, places).multiply(asked.columns, ours)
        yield Send((pair.peer,), ProductsMasked(answer))
        return shares
    receiver = ProductReceiver(pair.receiver, ring, places)
    yield Send((pair.peer,), FactorsHidden(receiver.ask(ours)))
    answered = yield Receive(pair.peer, ProductsMasked)
    with blaming(pair.peer):
        return receiver.multiply(answered.data)


def multiplied(pair: Pair, x: Elements, y: Elements, ring: PowerOfTwo) -> Script[Elements]:
    """Return our shares of the products of shared numbers."""
    # (x₀ + x₁)(y₀ + y₁): party 0 multiplies x₀ and y₀ with party 1's y₁ and x₁.
    ours = np.concatenate((x, y) if pair.me == 0 else (y, x))
    crossed = yield from cross_products(pair, ours, ring)
    return ring.add(ring.multiply(x, y), ring.total(crossed.reshape(2, -1)))


def in_common(pair: Pair, ours: Bits, ring: PowerOfTwo) -> Script[Elements]:
    """Return our share of how many records both parties mark, each by its own digits: their scalar product."""
    crossed = yield from cross_products(pair, ours.astype(np.uint64), ring, places=1)
    return ring.total(crossed).reshape(1)


def evaluated(
    pair: Pair, ours: Sequence[Elements] | Elements, degree: int, ring: PowerOfTwo
) -> Script[Elements]:
    """Return our shares of Q(y): party 0 gives the coefficients of each Q, the constant one first; party 1 each y.

    Oblivious polynomial evaluation. Each power of y is party 1's own, each coefficient party 0's, so that Q(y) is a sum
    of products between the two.
    """
    if pair.me == 0:
        constant, *others = ours
        crossed = yield from cross_products(pair, np.concatenate(others), ring)
        return ring.add(ring.total(crossed.reshape(degree, -1)), constant)
    y = np.asarray(ours)
    powers = [y]
    for _ in range(degree - 1):
        powers.append(ring.multiply(powers[-1], y))
    crossed = yield from cross_products(pair, np.concatenate(powers), ring)
    return ring.total(crossed.reshape(degree, -1))


def from_digits(pair: Pair, bits: Bits, ring: PowerOfTwo) -> Script[Elements]:
    """Return our shares of binary digits of which we hold XOR shares, in the same shape."""
    ours = bits.astype(np.uint64)
    # b₀ ⊕ b₁ = b₀ + b₁ − 2·b₀·b₁
    crossed = yield from cross_products(pair, ours.ravel(), ring, places=1)
    return ring.subtract(ours, ring.add(crossed, crossed).reshape(ours.shape))


def halved(pair: Pair, shares: Elements, times: int, ring: PowerOfTwo) -> Script[Elements]:
    """Return our shares of shared numbers divided by 2^`times` and rounded down; exact, also of negative ones."""
    found = yield from shared_outputs(
        pair, _quotient_circuit(ring.bits, times), len(shares), {SIDES[pair.me]: digits(shares, ring.bits)}
    )
    places = yield from from_digits(pair, found["quotient"], ring)
    weights = [1 << place for place in range(len(places))]
    weights[-1] = -weights[-1]  # two's complement
    return combined(places, weights, ring)


def lowest(pair: Pair, shares: Elements, ring: PowerOfTwo) -> Script[NDArray[np.int64]]:
    """Return which of the shared numbers of each column is the lowest, the first of equal ones.

    Both parties learn these indices alone.
    """
    n_numbers, n_columns = shares.shape
    inputs = {SIDES[pair.me]: stacked_digits(shares, ring.bits)}
    found = yield from read_outputs(pair, lowest_circuit(ring.bits, n_numbers), n_columns, inputs)
    return numbers_of(found["index"])


def lifted(pair: Pair, shares: NDArray[np.unsignedinteger], bits: int, ring: PowerOfTwo) -> Script[Elements]:
    """Return our shares, in the ring, of numbers below 2^`bits` that are shared modulo a smaller power of two."""
    own = digits(shares.ravel().astype(np.uint64), bits)
    found = yield from shared_outputs(pair, _quotient_circuit(bits, 0), shares.size, {SIDES[pair.me]: own})
    places = yield from from_digits(pair, found["quotient"], ring)
    return combined(places, [1 << place for place in range(bits)], ring).reshape(shares.shape)


def stacked_digits(numbers: Elements, bits: int) -> Bits:
    """Return the lowest digits of each column's numbers as one circuit input, the first number's first."""
    places = digits(numbers.ravel(), bits).reshape(bits, *numbers.shape)
    return places.transpose(1, 0, 2).reshape(-1, numbers.shape[1])


def numbers_of(bits: Bits) -> NDArray[np.int64]:
    """Return the numbers whose binary digits are the rows, the lowest first."""
    return (1 << np.arange(len(bits), dtype=np.int64)) @ bits.astype(np.int64)


def combined(rows: Elements, weights: Sequence[int], ring: PowerOfTwo) -> Elements:
    """Add up the rows, each times its public weight."""
    factors = np.array([weight % ring.modulus for weight in weights], np.uint64)
    return ring.total(ring.multiply(rows, factors.reshape(-1, *[1] * (rows.ndim - 1))))


def plus_public(pair: Pair, shares: Elements, number: int, ring: PowerOfTwo) -> Elements:
    """Add a public number to shared ones: party 0 does."""
    return ring.add(shares, np.full_like(shares, number % ring.modulus)) if pair.me == 0 else shares


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
