"""The structure of a Bayes net as a method (`protocol/learn/bayes_net.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from masquerade.crypto.logarithm import Precision
from masquerade.engine.counts import value_counts
from masquerade.forms.declared import parameter
from masquerade.forms.rules import optional, switch, whole
from masquerade.net.script import Script
from masquerade.protocol.arrangement import Arrangement
from masquerade.protocol.contract import Contract
from masquerade.protocol.learn.aggregate import prepare_aggregation
from masquerade.protocol.learn.bayes_net import net_structure, penalty
from masquerade.protocol.learn.counting import Codes
from masquerade.protocol.learn.logarithm import plain_weighted_logarithms
from masquerade.protocol.learn.method import LearningMethod
from masquerade.protocol.learn.methods.counting_sites import (
    agreed_precision,
    calculator_of,
    precision_for,
    shared_counts,
)
from masquerade.protocol.learn.models.model import Model
from masquerade.protocol.learn.models.net import NetModel
from masquerade.protocol.learn.net_tables import plain_chances, shared_chances, written_tables
from masquerade.protocol.learn.site import Site
from masquerade.protocol.method import RoleName
from masquerade.protocol.vertical_method import way_to_align


@dataclass(frozen=True)
class BayesNet(LearningMethod):
    """The structure of a Bayes net between parties: K2's search by description length.

    Each attribute takes its parents among the earlier ones in the job's order; a class, if there is one, comes last.
    The tables have K2's estimates, (n + 1) / (total + values), to 1,024ths; counts are not opened.
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
        switch(),
        True,
        help="open how likely each value is given its parents', in 1,024ths; false: the structure alone",
    )
    terms: int | None = parameter(
        optional(whole(2, 5)),
        None,
        help="terms of the logarithm's series; more are more exact, and slower. Unset: 3, or 2 for many records",
    )
    align: str = way_to_align()

    def learn(self, site: Site) -> Script[Model]:
        """Search for the parents of all attributes at once."""
        n_records = yield from _all_records(site)
        calculator = yield from calculator_of(site, "bayes-net")
        names = columns_of(site)
        precision = yield from agreed_precision(site, calculator, self.terms)
        counts = shared_counts(site, names)
        found = yield from net_structure(calculator, counts, names, n_records, self.parents, precision)
        if not self.tables:
            return NetModel(found)
        chances = yield from shared_chances(calculator, counts, found, precision)
        return NetModel(found, written_tables(chances, found, site.values))

    def alone(self, site: Site) -> Model:
        """Search on one table."""
        names = columns_of(site)
        codes = {name: site.codes(name) for name in names}
        sizes = {name: len(site.values[name]) for name in names}
        found = pooled_structure(codes, sizes, self.parents, precision_for(site.count_bits, self.terms))
        if not self.tables:
            return NetModel(found)
        return NetModel(found, written_tables(plain_chances(codes, sizes, found), found, site.values))

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


def _all_records(site: Site) -> Script[int]:
    """Return how many records there are in all."""
    if site.arrangement == "vertical":
        return len(site.table)
    sums = yield from prepare_aggregation(site.me, site.parties, site.purpose("records"))
    (total,) = yield from sums.total(np.array([len(site.table)], np.float64))
    return round(float(total))


def pooled_structure(
    codes: Mapping[str, Codes], sizes: Mapping[str, int], most_parents: int, precision: Precision
) -> dict[str, tuple[str, ...]]:
    """Search on one table, by the scores that parties find from shares."""
    names = list(sizes)
    n = codes[names[0]].size

    def score(name: str, parents: Sequence[str]) -> int:
        numbers, cells = codes[name] * 0, 1
        for parent in parents:
            numbers, cells = numbers * sizes[parent] + codes[parent], cells * sizes[parent]
        table = value_counts(numbers * sizes[name] + codes[name], cells * sizes[name]).reshape(
            cells, sizes[name]
        )
        rows = plain_weighted_logarithms(table.sum(axis=1), precision).sum()
        left = rows - plain_weighted_logarithms(table.ravel(), precision).sum()
        return int(left) + penalty(sizes, name, parents, n, precision)

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
