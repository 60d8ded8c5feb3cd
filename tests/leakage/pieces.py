"""The pieces of protocols in which something is masked: their peers' inputs are as different as they can be."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from leakage.coins import Tapes
from leakage.masked import NAMES, REPEAT, Piece
from masquerade.crypto.circuits_library import BidWords
from masquerade.crypto.count_circuits import row_distinct
from masquerade.crypto.homomorphic import SecretKey
from masquerade.crypto.rings import PowerOfTwo
from masquerade.net.script import Script
from masquerade.privacy.k_anonymity import KAnonymity
from masquerade.protocol import secure_argmax
from masquerade.protocol.argmax import Bid
from masquerade.protocol.collaborate import circuits, shared_bits
from masquerade.protocol.dka.encrypted_join import join_first, join_second
from masquerade.protocol.equality import who_differs
from masquerade.protocol.joint_histogram.histogram import Bounds, joint_histogram, looked_up, reached_shares
from masquerade.protocol.joint_histogram.homomorphic import homomorphic_rows, looked_up_bits
from masquerade.protocol.joint_histogram.pair import prepare_pair
from masquerade.protocol.joint_histogram.verdict import every_group_satisfies
from masquerade.protocol.learn.aggregate import prepare_aggregation
from masquerade.protocol.learn.arithmetic import multiplied
from masquerade.protocol.ssi import Scheme, new_key, ssi_first, ssi_second

N = 4  # records
BOUNDS = Bounds(N, (2, 2))


def pair(number: int) -> Script[Any]:
    """The setup of two parties."""
    return (yield from prepare_pair(number, NAMES[:2], b"test"))


def labels(number: int, me: int, world: int) -> Any:
    """One's own labels are always the same; the peer's are all 0, or go through all that there are."""
    if number == me:
        return np.array([0, 1, 0, 1], np.uint64)
    return np.array([[0, 0, 0, 0], [1, 1, 2, 1]][world], np.uint64)


def counts(me: int, world: int) -> Any:
    """The plain joint table of these labels."""
    table = np.zeros((3, 3), np.uint16)
    np.add.at(table, tuple(labels(number, me, world).astype(int) for number in (0, 1)), 1)
    table[-1], table[:, -1] = 0, 0
    return table


def share(whole: Any, number: int, me: int) -> Any:
    """Shares of a table: the party that looks has a fixed one."""
    own = np.arange(whole.size, dtype=np.uint16).reshape(whole.shape) * np.uint16(7001)
    return own if number == me else whole - own


def histogram(setup: Any, number: int, me: int, world: int) -> Script[Any]:
    """The shared table of joint counts."""
    return (yield from joint_histogram(setup, labels(number, me, world), BOUNDS))


def look_up(setup: Any, number: int, me: int, world: int) -> Script[Any]:
    """Each record's count, from shares of the table."""
    table = share(counts(me, world), number, me)
    return (yield from looked_up(setup, table, labels(number, me, world), BOUNDS))


def look_up_bits(setup: Any, number: int, me: int, world: int) -> Script[Any]:
    """Each record's bit, from shares of a table of bits."""
    bits = (counts(me, world) > 1).astype(np.uint8)
    own = np.arange(bits.size, dtype=np.uint8).reshape(bits.shape) % 2
    table = own if number == me else bits ^ own
    return (yield from looked_up_bits(setup, table, labels(number, me, world), BOUNDS))


def threshold(setup: Any, number: int, me: int, world: int) -> Script[Any]:
    """Whether counts reach 2, as shares: no count does, or all do."""
    whole = np.full(N, [0, N][world], np.uint16)
    return (yield from reached_shares(setup, share(whole, number, me), 2, BOUNDS))


def verdict(setup: Any, number: int, me: int, world: int) -> Script[Any]:
    """Whether every group has two values: it does, in two ways."""
    table = np.zeros((3, 3), np.uint16)
    table[:-1, :-1] = [[[1, 1], [1, 1]], [[2, 1], [0, 0]]][world]
    circuit = row_distinct(2, BOUNDS.width, 2)
    return (yield from every_group_satisfies(setup, share(table, number, me), circuit, BOUNDS))


def encryption(setup: Any, number: int, me: int, world: int) -> Script[Any]:
    """The shared rows of the joint table, by homomorphic encryption."""
    found = yield from homomorphic_rows(setup, labels(number, me, world), BOUNDS, 0)
    return found[0]


@cache
def key(scheme: Scheme) -> SecretKey:
    """One key for all repetitions, as it takes long to make one."""
    with Tapes("key").dealt():
        return new_key(scheme)


def intersection(setup: Any, number: int, me: int, world: int) -> Script[Any]:
    """Whether two sets have fewer than 3 in common, for the first party, hidden by a bit of the second."""
    common = np.array([[1, 0, 0, 0], [0, 1, 1, 0]][world], np.uint8)
    own = np.array([1, 1, 0, 1], np.uint8) if number == me else common
    if number == 0:
        return np.uint8((yield from ssi_first(setup, own, 3, key("okamoto-uchiyama"))))
    return np.uint8((yield from ssi_second(setup, own, 3, 1)) or 0)


def join(setup: Any, number: int, me: int, world: int) -> Script[Any]:
    """The joined rows of four records: the same rows, made of other records of the peer."""
    own, other = ["a", "a", "b", "b"], [["x", "y", "x", "y"], ["y", "x", "y", "x"]][world]
    cells = own if number == me else other
    requirement = KAnonymity(["left"], 2)
    order = ("left", "right")
    if number == 0:
        table = pa.table({"left": cells})
        found = yield from join_first(NAMES[1], table, ["right"], order, requirement, key("okamoto-uchiyama"))
    else:
        found = yield from join_second(NAMES[0], pa.table({"right": cells}), order, requirement)
    return np.array([hash_of(row) for row in zip(*found.to_pydict().values(), strict=True)])


def hash_of(row: tuple[str, ...]) -> int:
    """A number of a row of letters."""
    return int.from_bytes("".join(row).encode(), "big")


WORDS = BidWords(8, 2)


def comparison_of(n: int, repeat: int) -> Callable[[int], Script[Any]]:
    """The setup of n parties' comparisons."""
    return lambda number: secure_argmax.prepare(number, NAMES[:n], WORDS, rounds_ahead=repeat)


def comparison(setup: Any, number: int, me: int, world: int) -> Script[Any]:
    """The one that looks has the same bid; the next one wins, by a little or by all that there is."""
    n = len(setup._parties)
    wins = (me + 1) % n
    bid: Bid | None = Bid(5, 1)
    if number == wins:
        bid = Bid([6, 127][world], [0, 2][world])
    elif number != me:
        bid = [None, Bid(4, 3)][world]
    found = yield from setup(number, NAMES[:n], bid)
    return np.array([found.party])


def shared(number: int) -> Script[Any]:
    """The setup of three providers' circuits."""
    return (yield from shared_bits.prepare(number, NAMES, b"test"))


def shared_circuit(setup: Any, number: int, me: int, world: int) -> Script[Any]:
    """Whether anybody has a one: somebody does, in two ways."""
    own = np.array([[1, 0]], np.uint8)
    if number != me:
        own = np.array([[[0, 0]], [[1, 0]]][world], np.uint8)
    return (yield from setup.evaluate(circuits.any_of(3), own, "any"))


def nothing(number: int) -> Script[Any]:
    """No setup."""
    yield from ()
    return number


def equality(_: Any, number: int, me: int, world: int) -> Script[Any]:
    """Whether two secrets are equal: they are not, in two ways."""
    secret = b"own" if number == me else [b"one", b"another"][world]
    differing = yield from who_differs(number, NAMES[:2], secret, b"test")
    return np.array([len(differing)])


def product(setup: Any, number: int, me: int, world: int) -> Script[Any]:
    """Shares of products: one's own shares are always the same, and the numbers are small, or as large as can be."""
    own = np.array([3, 1 << 15], np.uint64)
    ours = own if number == me else np.array([[0, 1], [65535, 4242]][world], np.uint64)
    return (yield from multiplied(setup, ours, ours, PowerOfTwo(16)))


def sums(number: int) -> Script[Any]:
    """The setup of three sites' sums."""
    return (yield from prepare_aggregation(number, NAMES, b"test"))


def added_up_sites(setup: Any, number: int, me: int, world: int) -> Script[Any]:
    """A sum of three: the one that looks has the same summand, and the other two make up the same total differently."""
    own = 1.5
    if number != me:
        first = (me + 1) % 3 == number
        own = [[0.0, 2.5], [-1e12, 1e12 + 2.5]][world][0 if first else 1]
    return (yield from setup.total(np.array([own])))


PIECES: dict[str, Piece] = {
    each.name: each
    for each in (
        Piece("joint histogram", pair, histogram),
        Piece("look-up", pair, look_up),
        Piece("look-up of bits", pair, look_up_bits),
        Piece("threshold", pair, threshold),
        Piece("verdict", pair, verdict),
        Piece("product", pair, product),
        Piece("sum", sums, added_up_sites, n_parties=3),
        Piece("encryption", pair, encryption, repeat=28),
        Piece("set intersection", pair, intersection, repeat=28),
        Piece("encrypted join", nothing, join, repeat=28),
        Piece("equality", nothing, equality),
        Piece("comparison", comparison_of(2, 2 * REPEAT), comparison),
        Piece("comparison of three", comparison_of(3, 2 * REPEAT), comparison, n_parties=3),
        Piece("shared circuit", shared, shared_circuit, n_parties=3),
    )
}
