"""Shares of how many records take some values, however the table is split between parties.

A question names values that records must have (the path to a node of a tree, say) and one or more attributes; the
answer has a cell for each combination of their values, as shares in a ring.

- Each party holds whole records: its own counts are its shares, and nothing is sent.
- Two parties hold some columns of the same records each: both number the values that they see of a record, and the
  joint histogram of these numbers is the answer. A record whose own cells do not fit is counted nowhere.
- More than two do: one after the other multiplies what the parties before it share, a row of 0 and 1 for each record,
  by its own record's 0 or 1 for each of its values (`shared_numbers.py`), and the rows are added up. That takes a
  transfer for each record, value and earlier party, as long as the row.

Where all attributes together have few combinations, they are counted once, and every answer is a sum of these counts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from math import prod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto import (
    TRUE,
    Bits,
    Builder,
    Circuit,
    Elements,
    Literal,
    Precision,
    Word,
    digits,
    from_bits,
    main_offset,
    needed_bits,
    split_circuit,
    words,
)
from masquerade.engine import value_counts
from masquerade.errors import ParameterError, RequirementUnreachable
from masquerade.net import Script
from masquerade.protocol.learn import shared_numbers as arithmetic
from masquerade.protocol.learn.shared_numbers import RING, SIDES, SharedNumbers
from masquerade.protocol.learn.site import Site
from masquerade.protocol.pairs import Pair, prepare_pair, read_outputs
from masquerade.protocol.sensitive.histogram import Bounds, joint_histogram

Codes = NDArray[np.int64]

_ENTRIES = 1 << 19  # about as many are multiplied at a time


@dataclass(frozen=True)
class CountQuery:
    """How many records have the values `given`, for each combination of values of `attributes`, the last fastest."""

    attributes: tuple[str, ...]
    given: tuple[tuple[str, int], ...] = ()


class SharedCounts:
    """One party's side of a table that several have; `sizes` has the number of values of each attribute.

    `holder` says who has which column of the common records, in the same order; None: each has all, of its own records.
    """

    def __init__(
        self, codes: Mapping[str, Codes], sizes: Mapping[str, int], bits: int, holder: Mapping[str, int] | None = None
    ) -> None:
        self._codes, self.sizes, self.bits = codes, sizes, bits  # counts are below 2^bits
        self.holder = holder
        self.n_records = next(iter(codes.values())).size
        self._everything: NDArray[np.unsignedinteger] | None = None  # all combinations, if they are few

    def answers(self, calculator: Calculator, questions: Sequence[CountQuery]) -> Script[list[Elements]]:
        """Return our shares of the answers: our own counts, or of columns that several hold, joint ones."""
        if self.holder is None:
            yield from ()
            return [self.own(each) for each in questions]
        if self._everything is None and prod(self.sizes.values()) <= calculator.few_cells:
            counted = yield from calculator.joint(self, self.holder, CountQuery(tuple(self.sizes)))
            self._everything = counted.reshape(tuple(self.sizes.values()))
        found = []
        for question in questions:
            if self._everything is None:
                found.append((yield from calculator.joint(self, self.holder, question)))
            else:
                found.append(self._added_up(self._everything, question))
        return (yield from calculator.lifted(found, self.bits))

    def number(self, attributes: Sequence[str]) -> Codes:
        """Number the combinations of these attributes' values in our records."""
        numbers = np.zeros(self.n_records, np.int64)
        for name in attributes:
            numbers = numbers * self.sizes[name] + self._codes[name]
        return numbers

    def fits(self, given: Sequence[tuple[str, int]]) -> NDArray[np.bool_]:
        """Return which of our records have the given values, as far as we see them."""
        fits = np.ones(self.n_records, bool)
        for name, value in given:
            if name in self._codes:
                fits &= self._codes[name] == value
        return fits

    def size(self, attributes: Sequence[str]) -> int:
        """Return how many combinations these attributes' values have."""
        return prod(self.sizes[name] for name in attributes)

    def own(self, question: CountQuery) -> Elements:
        """Return how many of our own records there are for each cell of the answer."""
        numbers = self.number(question.attributes)
        if question.given:
            numbers = numbers[self.fits(question.given)]
        return value_counts(numbers, self.size(question.attributes)).astype(np.uint64)

    def _added_up(self, table: NDArray[np.unsignedinteger], question: CountQuery) -> NDArray[np.unsignedinteger]:
        """Return our shares of the answer, from those of all combinations."""
        names, given = list(self.sizes), dict(question.given)
        part = table[tuple(given.get(name, slice(None)) for name in names)]
        left = [name for name in names if name not in given]
        others = tuple(at for at, name in enumerate(left) if name not in question.attributes)
        sums = part.sum(axis=others, dtype=table.dtype)
        kept = [name for name in left if name in question.attributes]
        answer: NDArray[np.unsignedinteger] = sums.transpose([kept.index(name) for name in question.attributes]).ravel()
        return answer


# --- calculators --------------------------------------------------------------------------------------------
# What trees and nets are computed with, from shares of counts: between two parties, or among n sites.
#
#  TwoParties   garbled circuits and transfers between the two (`shared_numbers.py`): few messages
#  ManySites    circuits on XOR shares and products between every two (`shared_numbers.py`): private against any n − 1
#               curious sites, at a round for each layer of a circuit
#
# Both compute in whole numbers modulo 2^64 and give the same results, digit by digit.


class Calculator(ABC):
    """One party's side of the computations; all parties call the same methods in the same order."""

    me: int
    few_cells: ClassVar[int]  # of all attributes together, so that they are counted once

    @abstractmethod
    def joint(
        self, counts: SharedCounts, holder: Mapping[str, int], question: CountQuery
    ) -> Script[NDArray[np.unsignedinteger]]:
        """Return our shares of the answer about columns that several hold."""

    @abstractmethod
    def lifted(self, found: Sequence[NDArray[np.unsignedinteger]], bits: int) -> Script[list[Elements]]:
        """Return our shares of joint answers below 2^`bits`, in the ring of 64 bits."""

    @abstractmethod
    def read(self, circuit: Circuit, shares: Elements, bits: int) -> Script[Mapping[str, Bits]]:
        """Return the outputs of a circuit, which all learn, on the lowest digits of each column's shared numbers."""

    @abstractmethod
    def weighted_logarithms(self, shares: Elements, precision: Precision) -> Script[Elements]:
        """Return our shares of x · ⌊σ · ln x / 2^d⌋, as `shared_numbers.py` defines it."""

    def lowest(self, shares: Elements) -> Script[NDArray[np.int64]]:
        """Return which of each column's shared numbers is the lowest, the first of equal ones; all learn that."""
        found = yield from self.read(arithmetic.lowest_circuit(64, len(shares)), shares, 64)
        return arithmetic.numbers_of(found["index"])

    def uncertainties(self, tables: Sequence[Elements], precision: Precision) -> Script[list[Elements]]:
        """Return our shares of what each table's rows leave uncertain of its columns, in units of σ / 2^d.

        Of shared counts N, that is Σ_r N(r) · ln N(r) − Σ_r Σ_c N(r, c) · ln N(r, c): the conditional entropy, times n.
        """
        terms = [np.concatenate((RING.total(table, axis=1), table.ravel())) for table in tables]
        logs = yield from self.weighted_logarithms(np.concatenate(terms), precision)
        parts = np.split(logs, np.cumsum([each.size for each in terms])[:-1])
        return [
            RING.subtract(RING.total(part[: len(table)]), RING.total(part[len(table) :]))
            for part, table in zip(parts, tables, strict=True)
        ]


class TwoParties(Calculator):
    """The side of one of two parties."""

    few_cells = 1 << 12

    def __init__(self, pair: Pair) -> None:
        self._pair, self.me = pair, pair.me

    def joint(
        self, counts: SharedCounts, holder: Mapping[str, int], question: CountQuery
    ) -> Script[NDArray[np.unsignedinteger]]:
        """Count by a joint histogram."""
        parts = [[name for name in question.attributes if holder[name] == party] for party in (0, 1)]
        bounds = (counts.size(parts[0]), counts.size(parts[1]))
        labels = np.where(counts.fits(question.given), counts.number(parts[self.me]), bounds[self.me]).astype(np.uint64)
        table = yield from joint_histogram(self._pair, labels, Bounds(labels.size, bounds))
        order = [*parts[0], *parts[1]]
        cells = table[:-1, :-1].reshape([counts.sizes[name] for name in order])
        return cells.transpose([order.index(name) for name in question.attributes]).ravel()

    def lifted(self, found: Sequence[NDArray[np.unsignedinteger]], bits: int) -> Script[list[Elements]]:
        """Lift all counts into the ring at once, from the histogram's words."""
        shares = yield from arithmetic.lifted(self._pair, np.concatenate(found), bits)
        return np.split(shares, np.cumsum([each.size for each in found])[:-1])

    def read(self, circuit: Circuit, shares: Elements, bits: int) -> Script[Mapping[str, Bits]]:
        """Evaluate a garbled circuit that adds up both shares."""
        inputs = {SIDES[self.me]: arithmetic.stacked_digits(shares, bits)}
        return (yield from read_outputs(self._pair, circuit, shares.shape[1], inputs))

    def weighted_logarithms(self, shares: Elements, precision: Precision) -> Script[Elements]:
        """Take the logarithms of two parties."""
        return (yield from arithmetic.weighted_logarithms(self._pair, shares, precision))


class ManySites(Calculator):
    """The side of one of n sites."""

    few_cells = 1 << 8

    def __init__(self, shared: SharedNumbers) -> None:
        self._shared, self.me = shared, shared.me

    def joint(
        self, counts: SharedCounts, holder: Mapping[str, int], question: CountQuery
    ) -> Script[NDArray[np.unsignedinteger]]:
        """Count by products, one after the other of the parties that see something of it."""
        shared = self._shared
        parts = {
            party: [name for name in question.attributes if holder[name] == party]
            for party in range(len(shared.parties))
            if any(holder[name] == party for name in (*question.attributes, *dict(question.given)))
        }
        sizes = {party: counts.size(part) for party, part in parts.items()}
        first, *others = sorted(parts, key=lambda party: (sizes[party], party))
        ours = _indicators(counts, parts[shared.me], question) if shared.me in parts else None
        n = counts.n_records
        total = np.zeros(prod(sizes.values()), np.uint64)
        at_a_time = max(1, _ENTRIES // total.size)
        for start in range(0, n, at_a_time):
            some = slice(start, start + at_a_time)
            here = len(range(*some.indices(n)))
            rows = np.zeros((here, sizes[first]), np.uint64)
            if shared.me == first and ours is not None:
                rows = ours[some]
            before = [first]
            for party in others:
                own = ours[some].ravel() if shared.me == party and ours is not None else None
                repeated = np.repeat(rows, sizes[party], axis=0)
                products = yield from shared.times_digits(party, own, repeated, before)
                # Of each record a row of the cells so far for each of this party's values; its values go fastest.
                rows = products.reshape(here, sizes[party], -1).transpose(0, 2, 1).reshape(here, -1)
                before.append(party)
            total = RING.add(total, RING.total(rows))
        order = [name for party in (first, *others) for name in parts[party]]
        cells = total.reshape([counts.sizes[name] for name in order])
        return cells.transpose([order.index(name) for name in question.attributes]).ravel()

    def lifted(self, found: Sequence[NDArray[np.unsignedinteger]], bits: int) -> Script[list[Elements]]:
        """Return them as they are: products are in the ring."""
        yield from ()
        return [each.astype(np.uint64) for each in found]

    def read(self, circuit: Circuit, shares: Elements, bits: int) -> Script[Mapping[str, Bits]]:
        """Add up all shares in one circuit, and give the sum to the other."""
        added = yield from self._summed(shares.ravel(), bits)
        stacked = added.reshape(bits, *shares.shape).transpose(1, 0, 2).reshape(-1, shares.shape[1])
        inputs = {SIDES[0]: stacked, SIDES[1]: np.zeros_like(stacked)}
        names = list(circuit.outputs)
        rows = yield from self._shared.bits.open_from_shares(circuit, inputs, *names)
        ends = np.cumsum([len(circuit.outputs[name]) for name in names])[:-1]
        return dict(zip(names, np.split(rows, ends), strict=True))

    def weighted_logarithms(self, shares: Elements, precision: Precision) -> Script[Elements]:
        """Find the parts in a circuit, evaluate the series by products, drop digits in a circuit, multiply."""
        number = yield from self._summed(shares, precision.bits)
        inputs = {SIDES[0]: number, SIDES[1]: np.zeros_like(number)}
        bits = yield from self._shared.bits.evaluate_shares(split_circuit(precision.bits), inputs, "split")
        main, epsilon = from_bits(precision, (yield from self._shared.from_digits(bits)))
        power, series = epsilon, np.zeros_like(epsilon)
        for at, coefficient in enumerate(precision.coefficients):
            if at:
                power = (yield from self._shared.products(epsilon, power[:, None]))[:, 0]
            series = RING.add(series, RING.multiply(power, np.full_like(power, coefficient % RING.modulus)))
        logs = arithmetic.plus(self.me, RING.add(main, series), main_offset(precision))
        if dropped := arithmetic.dropped_digits(precision):
            kept = (yield from self._summed(logs, 64))[dropped:]
            logs = arithmetic.composed((yield from self._shared.from_digits(kept)), signed=True)
        return (yield from self._shared.products(shares, logs[:, None]))[:, 0]

    def _summed(self, shares: Elements, bits: int) -> Script[Bits]:
        """Return our XOR shares of the lowest digits of shared numbers, [digits, numbers]."""
        shared = self._shared.bits
        own = digits(shares, bits)
        inputs = {f"provider {site}": shared.share(site, own) for site in range(len(shared.parties))}
        return (yield from shared.evaluate_shares(_sum_circuit(len(shared.parties), bits), inputs, "sum"))


def _indicators(counts: SharedCounts, attributes: Sequence[str], question: CountQuery) -> Elements:
    """Return for each of our records a row with 1 at the combination that it has; all 0 where it does not fit."""
    rows = np.zeros((counts.n_records, counts.size(attributes)), np.uint64)
    fits = counts.fits(question.given)
    rows[np.flatnonzero(fits), counts.number(attributes)[fits]] = 1
    return rows


@lru_cache(maxsize=16)
def _sum_circuit(n_parties: int, bits: int) -> Circuit:
    build = Builder()
    build.output("sum", words.total(build, [build.input(f"provider {at}", bits) for at in range(n_parties)]))
    return build.build()


# --- counting sites -----------------------------------------------------------------------------------------
# What methods that count values have in common: a party's side of the counts, and how exact logarithms can
# be.

_TERMS = (3, 2)  # as many as fit the ring


def calculator_of(site: Site, use: str) -> Script[Calculator]:
    """Set up what a party computes with: between two, or among several."""
    if len(site.parties) == 2:
        return TwoParties((yield from prepare_pair(site.me, site.parties, site.purpose(use))))
    return ManySites((yield from arithmetic.prepare_shared_numbers(site.me, site.parties, site.purpose(use))))


def shared_counts(site: Site, columns: Sequence[str]) -> SharedCounts:
    """Return a party's side of the counts over these columns."""
    sizes = {name: len(site.values[name]) for name in columns}
    codes = {name: site.codes(name) for name in columns if site.holds(name)}
    if site.arrangement == "horizontal":
        return SharedCounts(codes, sizes, site.count_bits)
    if not codes:  # it still has its place in every count
        codes = {"": np.zeros(len(site.table), np.int64)}
    holder = {name: site.holder(name) or 0 for name in columns}
    return SharedCounts(codes, sizes, site.count_bits, holder)


def precision_for(bits: int, terms: int | None) -> Precision:
    """Return the precision of logarithms of counts below 2^`bits`, with `terms`, or with 3, or 2 for many records.

    Wider than it need be, so that it is the same for all tables of fewer than 131,072 records, say.
    """
    for each in _TERMS if terms is None else (terms,):
        if bits <= (widest := _widest(each)):
            return Precision(widest, each)
    most = (1 << _widest(terms or _TERMS[-1])) - 1
    text = f"logarithms of {terms or _TERMS[-1]} terms are for at most {most:,} records, and there are more"
    raise ParameterError(text if terms in (None, 2) else f"terms: {text}; take fewer, or leave it unset")


def agreed_precision(site: Site, calculator: Calculator, terms: int | None) -> Script[Precision]:
    """Return the precision that one table of all records has.

    Where the parties' magnitudes leave it open, they open one bit: whether there are too many records for more terms.
    """
    least = site.most_bits
    for each in _TERMS if terms is None else (terms,):
        if least <= (widest := _widest(each)) < site.count_bits:
            shares = np.array([[len(site.table)]], np.uint64)
            found = yield from calculator.read(_reaches(site.count_bits, widest), shares, site.count_bits)
            return precision_for(widest + 1 if found["reaches"][0, 0] else widest, terms)
    return precision_for(least, terms)


def are_fewer(build: Builder, count: Word, min_records: int) -> Literal:
    """Return whether a count is below `min_records`."""
    if min_records >> len(count):
        return TRUE
    return words.less_than(build, count, words.constant(min_records, len(count)))


def too_few(min_records: int) -> RequirementUnreachable:
    """Return the refusal of records that are too few in all."""
    text = f"a model rests on at least {min_records:,} records (min_records), and there are fewer"
    return RequirementUnreachable(text, public=True)


@cache
def _reaches(bits: int, widest: int) -> Circuit:
    """Return the circuit that says whether a shared number reaches 2^`widest`."""
    build = Builder()
    one, other = (build.input(name, bits) for name in SIDES)
    build.output("reaches", [build.any_of(words.add(build, one, other)[widest:])])
    return build.build()


@cache
def _widest(terms: int) -> int:
    """Return how many bits counts may have for logarithms of `terms` terms."""
    return max(n for n in range(2, 30) if needed_bits(n, terms) <= RING.bits)
