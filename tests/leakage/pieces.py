"""The pieces of protocols in which something is masked: their peers' inputs are as different as they can be."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from experiments import of_experiments
from leakage.coins import Tapes
from leakage.masked import NAMES, REPEAT, Piece
from masquerade.crypto import BidWords, PrfReceiver, PrfSender, SecretKey, row_distinct, sized
from masquerade.net import Receive, Script, Send
from masquerade.privacy import KAnonymity
from masquerade.protocol.align.align import who_differs
from masquerade.protocol.align.oprf import Items, find_by_query, find_by_values, lead, set_up, share_keys, take_part
from masquerade.protocol.comparing import argmax as secure_argmax
from masquerade.protocol.comparing.argmax import Bid
from masquerade.protocol.dka.encrypted_join import join_first, join_second
from masquerade.protocol.joint_keys import RatioScale, joint_ratios
from masquerade.protocol.learn.frame import COUNTS, LearnedModel, as_counts, masked_counts, total_counts
from masquerade.protocol.learn.shared_numbers import multiplied, prepare_shared_numbers
from masquerade.protocol.learn.sums import Openings, prepare_aggregation
from masquerade.protocol.pairs import BaseTransfers, prepare_pair
from masquerade.protocol.providers import circuits, shared_counts as shared_bits
from masquerade.protocol.sensitive.checks import PublicGroups, split_rows
from masquerade.protocol.sensitive.histogram import Bounds, joint_histogram, looked_up, reached_shares
from masquerade.protocol.sensitive.homomorphic import homomorphic_group_bits, looked_up_bits
from masquerade.protocol.sensitive.sorted_histogram import Sorting, sorted_histogram
from masquerade.protocol.sensitive.verdict import SharedRows, blocks_satisfy

ssi = of_experiments("_ssi")

N = 4  # records
BOUNDS = Bounds(N, (2, 2))


def pair(number: int) -> Script[Any]:
    """The setup of two parties, with a first batch of transfers: it is longer than all others."""
    setup = yield from prepare_pair(number, NAMES[:2], b"test")
    yield Send((setup.peer,), BaseTransfers(setup.receiver.extend([0])[0]))
    setup.sender.extend((yield Receive(setup.peer, BaseTransfers)).data, 1)
    return setup


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


def sorted_counts(setup: Any, number: int, me: int, world: int) -> Script[Any]:
    """The shared table of joint counts, of records in the order of the first party's labels."""
    own = labels(number, me, world)
    if number == 1:  # of 20 labels, so that a place has several digits
        own = np.array([[3, 17, 3, 9], [0, 0, 0, 0], [19, 8, 20, 1]][0 if number == me else 1 + world], np.uint64)
    counted = yield from sorted_histogram(setup, own, Bounds(N, (2, 20)), Sorting(sorter=0, block=3, whole=3))
    return counted.table


def split(setup: Any, number: int, me: int, world: int) -> Script[Any]:
    """The shared counts of the first party's values in the second's parts of two groups."""
    own = labels(number, me, world)
    groups = PublicGroups(np.arange(N), np.array([2, 2]), np.array([2, 2]), 4)
    values, parts = (own, None) if number == 0 else (None, own)
    rows = yield from split_rows(setup, groups, 3, values, parts)
    return np.concatenate((rows.counts, rows.tags[:, None]), axis=1)


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
    table = np.array([[[1, 1], [1, 1]], [[2, 1], [0, 0]]][world], np.uint16)
    weights = np.array([1 << 40, 3 << 60, 12345], np.uint64)
    tags = (table * (weights[:-1] + weights[-1])).sum(axis=1, dtype=np.uint64)
    ours = np.array([4711, 1 << 63], np.uint64)
    rows = SharedRows(share(table, number, me), ours if number == me else tags - ours, weights if number == 0 else None)
    circuit = sized(row_distinct(2, BOUNDS.width, 2), BOUNDS.width, 2, tells=True)
    return (yield from blocks_satisfy(setup, rows, circuit, [2]))


def encryption(setup: Any, number: int, me: int, world: int) -> Script[Any]:
    """Whether each record's cell of the joint table is above 1, as shares, by homomorphic encryption."""
    return (yield from homomorphic_group_bits(setup, labels(number, me, world), 2, BOUNDS))


@cache
def key(scheme: ssi.Scheme) -> SecretKey:
    """One key for all repetitions, as it takes long to make one."""
    with Tapes("key").dealt():
        return ssi.new_key(scheme)


def intersection(setup: Any, number: int, me: int, world: int) -> Script[Any]:
    """Whether two sets have fewer than 3 in common, for the first party, hidden by a bit of the second."""
    common = np.array([[1, 0, 0, 0], [0, 1, 1, 0]][world], np.uint8)
    own = np.array([1, 1, 0, 1], np.uint8) if number == me else common
    if number == 0:
        return np.uint8((yield from ssi.ssi_first(setup, own, 3, key("okamoto-uchiyama"))))
    return np.uint8((yield from ssi.ssi_second(setup, own, 3, 1)) or 0)


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
    found = yield from setup(number, NAMES[:n], lambda: bid)
    return np.array([found.party])


def shared_by(n: int) -> Callable[[int], Script[Any]]:
    """The setup of n providers' circuits."""
    return lambda number: shared_bits.prepare(number, NAMES[:n], b"test")


def shared_circuit(setup: Any, number: int, me: int, world: int) -> Script[Any]:
    """Whether anybody has a one: somebody does, in two ways."""
    own = np.array([[1, 0]], np.uint8)
    if number != me:
        own = np.array([[[0, 0]], [[1, 0]]][world], np.uint8)
    return (yield from setup.evaluate(circuits.any_of(len(setup.parties)), own, "any"))


def joint_key(setup: Any, number: int, me: int, world: int) -> Script[Any]:
    """How many of four records three parties tell apart together: three, in two ways."""
    own = np.array([0, 0, 1, 1])
    if number != me:
        next_one = (me + 1) % 3 == number
        own = np.array([[[0, 0, 0, 0], [0, 0, 1, 2]], [[0, 1, 2, 2], [3, 1, 2, 2]]][world][next_one])
    return np.array((yield from joint_ratios(setup, [own], RatioScale(N, "distinct"))))


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
    return (yield from multiplied(setup, ours, ours))


def sums(number: int) -> Script[Any]:
    """The setup of three sites' sums."""
    return (yield from prepare_aggregation(number, NAMES[:3], b"test"))


def sums_in_two_messages(number: int) -> Script[Any]:
    """The setup of three sites' sums that are opened together."""
    return (yield from prepare_aggregation(number, NAMES[:3], b"test", Openings()))


def added_up_sites(setup: Any, number: int, me: int, world: int) -> Script[Any]:
    """A sum of three: the one that looks has the same summand, and the other two make up the same total differently."""
    own = 1.5
    if number != me:
        first = (me + 1) % 3 == number
        own = [[0.0, 2.5], [-1e12, 1e12 + 2.5]][world][0 if first else 1]
    return (yield from setup.total(np.array([own])))


def handed_in_counts(_: Any, number: int, me: int, world: int) -> Script[Any]:
    """Counts of two sites: the one that looks collects them, and they make up the same sum differently."""
    sites = [name for at, name in enumerate(NAMES[:3]) if at != me]
    if number == me:
        handed = {}
        for name in sites:
            handed[name] = yield Receive(name, LearnedModel)
        return np.array(total_counts(handed))
    own = [[0, 5], [2**40, 5 - 2**40]][world][sites.index(NAMES[number])]
    masked = yield from masked_counts(sites.index(NAMES[number]), sites, as_counts([own]), b"test")
    yield Send((NAMES[me],), LearnedModel(b"", COUNTS.encode(masked), {}))
    return np.array([5])


def shared_numbers(number: int) -> Script[Any]:
    """The setup of three sites' products, with a first batch of transfers: it is longer than all others."""
    setup = yield from prepare_shared_numbers(number, NAMES[:3], b"test")
    for peer, receiver in setup._receivers.items():
        yield Send((NAMES[peer],), BaseTransfers(receiver.extend([0])[0]))
    for peer, sender in setup._senders.items():
        sender.extend((yield Receive(NAMES[peer], BaseTransfers)).data, 1)
    return setup


def shared_product(setup: Any, number: int, me: int, world: int) -> Script[Any]:
    """Shares of a number times a row: one's own shares are always the same, the others' as different as can be."""
    own = np.array([3, 1 << 63], np.uint64)
    ours = own if number == me else np.array([[0, 1], [(1 << 64) - 1, 4242]][world], np.uint64)
    return (yield from setup.products(ours[:1], ours[None, :]))


FAMILY = Items.of([], b"test").family


def listed(number: int, me: int, world: int) -> Items:
    """One's own list is always the same; the peers have others besides c1 and c2, the first of three x or y of ours."""
    own = [b"c1", b"x", b"c2", b"y"]
    peers = ([b"c1", b"c2", b"q", b"r"], [b"s", b"c2", b"t", b"c1"])
    return Items.of(own if number == me else peers[world], b"test")


def prf_pair(number: int) -> Script[Any]:
    """The base transfers of two: the first gets a function, the second holds it."""
    side: Any = PrfReceiver(b"pair") if number == 0 else PrfSender(b"pair", FAMILY)
    yield from set_up({NAMES[1 - number]: side})
    return side


def prf_alignment(side: Any, number: int, me: int, world: int) -> Script[Any]:
    """The rows that two lists have in common."""
    items = listed(number, me, world)
    find = find_by_query if number == 0 else find_by_values
    return (yield from find(side, NAMES[1 - number], 4, items))  # type: ignore[operator] # each with its own side


def prf_star(number: int) -> Script[Any]:
    """The base transfers of the leader with each member, and the members' keys."""
    if number == 2:
        receivers = {name: PrfReceiver(b"pair %d" % member) for member, name in enumerate(NAMES[:2])}
        yield from set_up(receivers)
        return receivers
    keys = yield from share_keys(number, NAMES[:2], b"test")
    sender = PrfSender(b"pair %d" % number, FAMILY)
    yield from set_up({NAMES[2]: sender})
    return sender, keys


def prf_alignment_of_three(setup: Any, number: int, me: int, world: int) -> Script[Any]:
    """The rows that three lists have in common; the first peer also has one of ours, x or y."""
    items = listed(number, me, world)
    if number == (me + 1) % 3:
        items = Items.of([[b"c1", b"x", b"c2", b"q"], [b"y", b"c2", b"r", b"c1"]][world], b"test")
    if number == 2:
        return (yield from lead(setup, (4, 4, 4), items))
    return (yield from take_part(*setup, NAMES[2], 4, items))


PIECES: dict[str, Piece] = {
    each.name: each
    for each in (
        Piece("joint histogram", pair, histogram),
        Piece("sorted histogram", pair, sorted_counts),
        Piece("split counts", pair, split),
        Piece("look-up", pair, look_up),
        Piece("look-up of bits", pair, look_up_bits),
        Piece("threshold", pair, threshold),
        Piece("verdict", pair, verdict),
        Piece("product", pair, product),
        Piece("product of three", shared_numbers, shared_product, n_parties=3, repeat=28),
        Piece("sum", sums, added_up_sites, n_parties=3),
        Piece("sum in two messages", sums_in_two_messages, added_up_sites, n_parties=3),
        Piece("counts", nothing, handed_in_counts, n_parties=3),
        Piece("encryption", pair, encryption, repeat=28),
        Piece("set intersection", pair, intersection, repeat=28),
        Piece("encrypted join", nothing, join, repeat=28),
        Piece("equality", nothing, equality),
        Piece("alignment by prf", prf_pair, prf_alignment, repeat=60),
        Piece("alignment of three by prf", prf_star, prf_alignment_of_three, n_parties=3, repeat=32),
        Piece("comparison", comparison_of(2, 2 * REPEAT), comparison),
        Piece("comparison of three", comparison_of(3, 2 * REPEAT), comparison, n_parties=3),
        Piece("shared circuit", shared_by(3), shared_circuit, n_parties=3),
        Piece("shared circuit of four", shared_by(4), shared_circuit, n_parties=4),
        Piece("joint key", shared_by(3), joint_key, n_parties=3),
    )
}
