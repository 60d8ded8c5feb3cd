"""The structure of a Bayes net between parties, who learn the net alone.

K2's search (Cooper and Herskovits 1992): the attributes have an order, and each takes its parents among the earlier
ones, greedily the one that helps most, until none helps or it has enough. The score is the description length, which
K2's approaches for many records: what the parents leave uncertain of the attribute, and for each free parameter half a
logarithm of the number of records,

    Σ_p N(p) · ln N(p)  −  Σ_p Σ_x N(x, p) · ln N(x, p)  +  ½ · ln n · (|X| − 1) · Π |parents|

in whole numbers, from shares of the counts. All attributes are searched at once: a round of the search takes one batch
of logarithms, and opens for each attribute which parent comes, or that none does. Ties go to fewer parents, then to the
earlier one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from masquerade.arrangement import Arrangement
from masquerade.crypto import FALSE, Builder, Circuit, Elements, Precision, Word, scaled_logarithms, words
from masquerade.engine import distinct_values
from masquerade.errors import ParameterError
from masquerade.forms import optional, parameter, switch, whole
from masquerade.net import Script
from masquerade.protocol.contract import Contract
from masquerade.protocol.learn import counting
from masquerade.protocol.learn.counting import Calculator, Codes, CountQuery, SharedCounts
from masquerade.protocol.learn.linear import is_number
from masquerade.protocol.learn.method import LearningMethod
from masquerade.protocol.learn.models import Cells, Model, NotAModel, Numbers, Texts
from masquerade.protocol.learn.shared_numbers import (
    RING,
    SIDES,
    dropped_digits,
    numbers_of,
    plain_weighted_logarithms,
    plus,
)
from masquerade.protocol.learn.site import Site
from masquerade.protocol.learn.sums import prepare_aggregation
from masquerade.protocol.method import RoleName, way_to_align


@dataclass
class _Family:
    """An attribute, the parents it has so far, and who may still come; `score` is shared."""

    attribute: str
    candidates: list[str]
    parents: list[str] = field(default_factory=list)
    score: Elements | None = None


def net_structure(
    calculator: Calculator,
    counts: SharedCounts,
    attributes: Sequence[str],
    n_records: int,
    most_parents: int,
    precision: Precision,
) -> Script[dict[str, tuple[str, ...]]]:
    """Return each attribute's parents, in the order in which they came."""
    families = [_Family(name, list(attributes[:at])) for at, name in enumerate(attributes)]
    searched = families
    for _ in range(most_parents):
        searched = [each for each in searched if each.candidates]
        if not searched:
            break
        yield from _add_parents(calculator, searched, counts, n_records, precision)
    return {each.attribute: tuple(each.parents) for each in families}


def penalty(sizes: Mapping[str, int], attribute: str, parents: Sequence[str], n: int, precision: Precision) -> int:
    """Return what the free parameters cost, scaled as weighted logarithms are."""
    log = int(scaled_logarithms([n], precision)[0]) >> dropped_digits(precision)
    return log * (sizes[attribute] - 1) * prod(sizes[name] for name in parents) // 2


def _add_parents(
    calculator: Calculator, families: Sequence[_Family], counts: SharedCounts, n_records: int, precision: Precision
) -> Script[None]:
    """Let each family take the parent that helps most; one that none helps has no candidates any more."""
    asked: list[tuple[_Family, list[str]]] = []
    for family in families:
        if family.score is None:
            asked.append((family, []))
        asked += [(family, [*family.parents, name]) for name in family.candidates]
    questions = [CountQuery((*parents, family.attribute)) for family, parents in asked]
    tables = [
        table.reshape(-1, counts.sizes[family.attribute])
        for table, (family, _) in zip((yield from counts.answers(calculator, questions)), asked, strict=True)
    ]
    left = yield from calculator.uncertainties(tables, precision)
    scores = [
        plus(calculator.me, each, penalty(counts.sizes, family.attribute, parents, n_records, precision))
        for each, (family, parents) in zip(left, asked, strict=True)
    ]
    width = 1 + max(len(family.candidates) for family in families)
    columns = []
    for family in families:
        if family.score is None:
            family.score = scores.pop(0)
        own = [family.score, *(scores.pop(0) for _ in family.candidates)]
        own += [own[0]] * (width - len(own))  # never before the first of equal ones
        columns.append(own)
    best = yield from calculator.lowest(np.array(columns, np.uint64).T)
    for family, own, index in zip(families, columns, best, strict=True):
        if index == 0:
            family.candidates = []
            continue
        family.parents.append(family.candidates.pop(index - 1))
        family.score = own[index]


# --- net ----------------------------------------------------------------------------------------------------
# A Bayes net: the parents of each attribute, and how likely its values are given theirs.

_LEAST = 2.0**-11  # stands for 0: what is below 1/1,024 is written as 0, and may occur all the same


@dataclass(frozen=True)
class NetModel(Model):
    """The parents by attribute, in the order in which they came, and the tables, where they were opened.

    A table is a list of {"given": values by parent, "chances": chances by value}.
    """

    parents: Mapping[str, tuple[str, ...]]
    tables: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> NetModel:
        """Read `{"parents": …, "tables": …}`."""
        parents, tables = written.get("parents"), written.get("tables", {})
        if not isinstance(parents, dict) or not isinstance(tables, dict):
            raise NotAModel("it has no parents by attribute")
        earlier: list[str] = []
        for name, own in parents.items():
            if not isinstance(own, list) or not set(own) <= set(earlier):
                raise NotAModel("a parent does not come before its child")
            earlier.append(name)
        model = cls({name: tuple(own) for name, own in parents.items()}, tables)
        for name in tables:
            if name not in parents or not all(map(tables.__contains__, parents[name])):
                raise NotAModel("it has a table of an attribute without its parents'")
            if not _is_table(tables[name], {each: model.values(each) for each in parents[name]}):
                raise NotAModel(f"its table of {name} is incomplete")
        return model

    def blanket(self, target: str) -> tuple[str, ...]:
        """Return the attributes on which the target depends: its parents, its children and their other parents."""
        around = {target: None} | dict.fromkeys(
            each for name, own in self.parents.items() if target in (name, *own) for each in (name, *own)
        )
        return tuple(name for name in self.parents if name in around and name != target)

    def values(self, name: str) -> tuple[str, ...]:
        """Return the values of an attribute; ParameterError if the tables were not opened."""
        return tuple(self._table(name)[0]["chances"])

    def chances(self, target: str, cells: Cells) -> Numbers:
        """Return how likely each value of the target is given the others, [records, values].

        All cells must be values that the net knows.
        """
        values = self.values(target)
        size = len(next(iter(cells.values()))) if cells else 1
        likely = np.zeros((size, len(values)))  # logarithms
        for name, own in self.parents.items():
            if target not in (name, *own):
                continue
            rows = {tuple(row["given"][each] for each in own): row["chances"] for row in self._table(name)}
            for at, value in enumerate(values):
                asked = [
                    np.full(size, value, object) if each == target else np.asarray(cells[each], object)
                    for each in (*own, name)
                ]
                likely[:, at] += _logarithms(rows, asked)
        shares = np.exp(likely - likely.max(axis=1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def _table(self, name: str) -> list[dict[str, Any]]:
        if name not in self.tables:
            raise ParameterError(f"the net has no table of {name}; one that was learned with tables predicts")
        table: list[dict[str, Any]] = self.tables[name]
        return table

    def as_json(self) -> dict[str, Any]:
        """Return `{"parents": …, "tables": …}`."""
        return {"parents": {name: list(own) for name, own in self.parents.items()}, "tables": dict(self.tables)}


def _is_table(table: Any, known: Mapping[str, tuple[str, ...]]) -> bool:
    """Return whether a table has one row for each combination of the parents' values, with the same values in each."""
    if not isinstance(table, list) or not all(isinstance(row, dict) for row in table):
        return False
    given, chances = ([row.get(key) for row in table] for key in ("given", "chances"))
    if not all(isinstance(each, dict) for each in (*given, *chances)) or not table or not chances[0]:
        return False
    whole = all(each.keys() == known.keys() and all(each[name] in known[name] for name in known) for each in given)
    return (
        whole
        and len({tuple(each[name] for name in known) for each in given}) == len(given)
        and len(given) == prod(map(len, known.values()))
        and all(each.keys() == chances[0].keys() for each in chances)
        and all(is_number(chance) and 0 <= chance <= 1 for each in chances for chance in each.values())
    )


def _logarithms(rows: Mapping[tuple[str, ...], Mapping[str, float]], asked: list[Texts]) -> Numbers:
    """Return the logarithm of each record's chance; `asked` has the parents' values, then its own."""
    codes, known = np.zeros(len(asked[0]), np.int64), []
    for column in asked:  # number the combinations that occur, and look up each once
        values, places = distinct_values(column.astype(str))
        known.append(values)
        codes = codes * len(values) + places
    combinations, places = distinct_values(codes)
    shape = tuple(map(len, known))
    found = np.empty(len(combinations))
    for at, each in enumerate(zip(*np.unravel_index(combinations, shape), strict=True)):
        *given, value = (str(values[place]) for values, place in zip(known, each, strict=True))
        found[at] = np.log(max(rows[tuple(given)][value], _LEAST))
    logarithms: Numbers = found[places]
    return logarithms


# --- net tables ---------------------------------------------------------------------------------------------
# The tables of a Bayes net: how likely each value of an attribute is given its parents', from shares of
# counts.
#
# K2's estimate, (N(x, p) + 1) / (N(p) + |X|), in 1,024ths: a circuit divides the counts, and the quotients
# are opened. Such a quotient tells small counts exactly. So N(x, p) and N(p) are first rounded to multiples of
# a step, the largest power of two that `min_records` reaches; and where N(p) is below `min_records`, both are
# taken for 0, which makes all values equally likely. So the parties learn chances, not which rows have few
# people, nor any count more exactly than to a step.
#
# Cost: about 27·w ANDs a cell, for counts of w digits.

PLACES = 10
_MORE_BITS = 8  # for the 1 that every value adds, and half a step

Chances = dict[str, NDArray[np.int64]]  # by attribute: in 1,024ths, [combinations of parents' values, values]


def shared_chances(
    calculator: Calculator, counts: SharedCounts, parents: Mapping[str, Sequence[str]], min_records: int
) -> Script[Chances]:
    """Return the chances of all attributes, which all parties learn."""
    questions = [CountQuery((*own, name)) for name, own in parents.items()]
    shares = yield from counts.answers(calculator, questions)
    columns, half = [], half_a_step(min_records)
    for name, cells in zip(parents, shares, strict=True):
        size = counts.sizes[name]
        rows = np.repeat(RING.total(cells.reshape(-1, size), axis=1), size)
        added = (cells, half), (rows, half), (np.zeros_like(cells), size)
        columns.append(np.stack([plus(calculator.me, each, number) for each, number in added]))
    together: Elements = np.concatenate(columns, axis=1)
    bits = counts.bits + _MORE_BITS
    found = numbers_of((yield from calculator.read(_quotient_circuit(bits, min_records), together, bits))["quotient"])
    parts = np.split(found, np.cumsum([each.shape[1] for each in columns])[:-1])
    return {name: part.reshape(-1, counts.sizes[name]) for name, part in zip(parents, parts, strict=True)}


def plain_chances(
    codes: Mapping[str, Codes], sizes: Mapping[str, int], parents: Mapping[str, Sequence[str]], min_records: int
) -> Chances:
    """Return the same from one table."""
    counts, found = SharedCounts(codes, sizes, 0), {}
    digits, half = step_digits(min_records), half_a_step(min_records)
    for name, own in parents.items():
        table = counts.own(CountQuery((*own, name))).astype(np.int64).reshape(-1, sizes[name])
        rows = table.sum(axis=1, keepdims=True)
        few = rows < min_records
        rounded, whole = (np.where(few, 0, (each + half) >> digits << digits) for each in (table, rows))
        found[name] = ((rounded + 1) << PLACES) // (whole + sizes[name])
    return found


def step_digits(min_records: int) -> int:
    """Return how many binary digits of a count are rounded away: those of the step, of which it is a multiple."""
    return min_records.bit_length() - 1


def half_a_step(min_records: int) -> int:
    """Return what is added to a count before its digits are dropped, so that it is rounded to the nearest."""
    return 1 << step_digits(min_records) >> 1


def written_tables(
    chances: Chances, parents: Mapping[str, Sequence[str]], values: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Return the tables in the values' own words; each row adds up to 1."""
    tables = {}
    for name, table in chances.items():
        given = product(*(values[each] for each in parents[name]))
        shares = table / table.sum(axis=1, keepdims=True)
        tables[name] = [
            {
                "given": dict(zip(parents[name], combination, strict=True)),
                "chances": dict(zip(values[name], row.round(6).tolist(), strict=True)),
            }
            for combination, row in zip(given, shares, strict=True)
        ]
    return tables


@cache
def _quotient_circuit(bits: int, min_records: int) -> Circuit:
    """Return the circuit of ⌊2^PLACES · (n + 1) / (total + size)⌋, of three numbers that are each shared by two.

    n and total come with half a step more. They are rounded down to multiples of the step, and are 0 where the total is
    below `min_records`.
    """
    build = Builder()
    one, other = (build.input(name, 3 * bits) for name in SIDES)
    count, total, size = (
        words.add(build, one[at : at + bits], other[at : at + bits]) for at in range(0, 3 * bits, bits)
    )
    enough = counting.are_fewer(build, total, min_records + half_a_step(min_records)) ^ 1
    places = step_digits(min_records)

    def rounded(word: Word) -> Word:
        return [FALSE] * places + [build.both(enough, bit) for bit in word[places:]]

    rest = [*words.add(build, rounded(count), words.constant(1, bits)), FALSE]
    divisor = [*words.add(build, rounded(total), size), FALSE]
    quotient: Word = []
    for _ in range(PLACES + 1):
        difference = words.subtract(build, [*rest, FALSE], [*divisor, FALSE])
        fits = difference[-1] ^ 1
        quotient.append(fits)
        rest = [FALSE, *words.multiplex(build, fits, rest, difference[:-1])[:-1]]
    build.output("quotient", quotient[::-1])
    return build.build()


# --- the method ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BayesNetMethod(LearningMethod):
    """The structure of a Bayes net between parties: K2's search by description length.

    Each attribute takes its parents among the earlier ones in the job's order; a class, if there is one, comes last.
    The tables have K2's estimates, (n + 1) / (total + values), to 1,024ths, of counts that are rounded; they are not
    opened. A row of fewer than `min_records` people has equal chances.
    """

    name = "bayes-net"
    summary = "finds a Bayes net; parties learn each attribute's parents, and how likely its values are given theirs"
    activity = "searching for parents"
    arrangements: ClassVar[tuple[Arrangement, ...]] = ("horizontal", "vertical")
    roles: ClassVar[Mapping[RoleName, bool]] = {"class": False}
    takes = "values"
    must_stop = "it computes on shares, of which nothing can be read without the lost one's"
    learns = NetModel

    parents: int = parameter(whole(1, 10), 2, help="the most parents that an attribute may have")
    tables: bool = parameter(
        switch(), True, help="open how likely each value is given its parents', in 1,024ths; false: the structure alone"
    )
    terms: int | None = parameter(
        optional(whole(2, 5)),
        None,
        help="terms of the logarithm's series; more are more exact, and slower. Unset: 3, or 2 for many records",
    )
    align: str = way_to_align()

    def learn(self, site: Site) -> Script[Model]:
        """Search for the parents of all attributes at once."""
        n_records = len(site.table)
        if site.arrangement == "horizontal":
            sums = yield from prepare_aggregation(site.me, site.parties, site.purpose("records"))
            n_records = round(float((yield from sums.total(np.array([n_records], np.float64)))[0]))
        if n_records < self.min_records:
            raise counting.too_few(self.min_records)
        calculator = yield from counting.calculator_of(site, "bayes-net")
        names = columns_of(site)
        precision = yield from counting.agreed_precision(site, calculator, self.terms)
        counts = counting.shared_counts(site, names)
        found = yield from net_structure(calculator, counts, names, n_records, self.parents, precision)
        if not self.tables:
            return NetModel(found)
        chances = yield from shared_chances(calculator, counts, found, self.min_records)
        return NetModel(found, written_tables(chances, found, site.values))

    def alone(self, site: Site) -> Model:
        """Search on one table."""
        if len(site.table) < self.min_records:
            raise counting.too_few(self.min_records)
        names = columns_of(site)
        codes = {name: site.codes(name) for name in names}
        sizes = {name: len(site.values[name]) for name in names}
        found = pooled_structure(codes, sizes, self.parents, counting.precision_for(site.count_bits, self.terms))
        if not self.tables:
            return NetModel(found)
        return NetModel(found, written_tables(plain_chances(codes, sizes, found, self.min_records), found, site.values))

    def tells(self, contract: Contract, party: str) -> Iterator[str]:
        """Yield the number of records, which the score needs."""
        others = ", ".join(name for name in contract.parties if name != party)
        if contract.arrangement == "horizontal":
            and_so = f", and so how many {party} has" if len(contract.parties) == 2 else ""
            yield f"{others}: how many records all parties have{and_so}"


def columns_of(site: Site) -> tuple[str, ...]:
    """Return the net's attributes in order, the class last."""
    target = site.contract.class_name
    return (*site.attributes, *((target,) if target is not None else ()))


def pooled_structure(
    codes: Mapping[str, Codes], sizes: Mapping[str, int], most_parents: int, precision: Precision
) -> dict[str, tuple[str, ...]]:
    """Search on one table, by the scores that parties find from shares."""
    names, counts = list(sizes), SharedCounts(codes, sizes, 0)

    def score(name: str, parents: Sequence[str]) -> int:
        table = counts.own(CountQuery((*parents, name))).astype(np.int64).reshape(-1, sizes[name])
        rows = plain_weighted_logarithms(table.sum(axis=1), precision).sum()
        left = rows - plain_weighted_logarithms(table.ravel(), precision).sum()
        return int(left) + penalty(sizes, name, parents, counts.n_records, precision)

    found: dict[str, tuple[str, ...]] = {}
    for at, name in enumerate(names):
        parents, candidates, best = list[str](), names[:at], score(name, ())
        while candidates and len(parents) < most_parents:
            scores = [score(name, [*parents, each]) for each in candidates]
            lowest = min(range(len(scores)), key=scores.__getitem__)
            if scores[lowest] >= best:
                break
            best = scores[lowest]
            parents.append(candidates.pop(lowest))
        found[name] = tuple(parents)
    return found
