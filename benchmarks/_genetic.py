"""Iyengar's genetic algorithm (2002): full-subtree recoding with suppression, by the loss or the classification metric.

A chromosome has a bit for each inner node of a taxonomy (its value is split, if its parent's is) and for each place
between two numbers (an interval ends there). Records in groups below k are left out, and cost as much as a record can.
Parents are drawn by tournament, children cross uniformly and mutate a bit or two, and replace the worst. Records with
equal values are looked at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from masquerade.data import Coded, Column, Outcome, Taxonomy
from masquerade.engine import group_rows, pair_counts, value_counts

Metric = Literal["loss", "classification"]
Bits = NDArray[np.bool_]
POPULATION, TOURNAMENT = 40, 3


class Genome:
    """Where each attribute's bits are, and the cut that they mean."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = columns
        self._inner = [
            [at for at, node in enumerate(column.domain.nodes) if node.children]
            if isinstance(column.domain, Taxonomy)
            else list(range(1, column.domain.size))
            for column in columns
        ]
        self._first = np.cumsum([0, *map(len, self._inner)])
        self.size = int(self._first[-1])

    def cuts(self, bits: Bits) -> list[NDArray[np.int64]]:
        """Where the values of each attribute's cut begin."""
        found = []
        for at, column in enumerate(self.columns):
            own = bits[self._first[at] : self._first[at + 1]]
            if not isinstance(column.domain, Taxonomy):
                found.append(np.concatenate([[0], 1 + np.flatnonzero(own)]))
                continue
            split = {node for node, bit in zip(self._inner[at], own.tolist(), strict=True) if bit}
            starts, waiting = [], [0]
            while waiting:
                number = waiting.pop()
                node = column.domain.nodes[number]
                if number in split:
                    waiting.extend(reversed(node.children))
                else:
                    starts.append(node.lo)
            found.append(np.array(starts))
        return found


class Search:
    """One search for the chromosome with the smallest metric."""

    def __init__(self, columns: Sequence[Column], classes: Coded, k: int, metric: Metric, seed: int) -> None:
        self._genome, self._k, self._metric = Genome(columns), k, metric
        rows = classes.codes.size
        same, n_same = group_rows([(column.ranks, column.domain.size) for column in columns], rows)
        self._counts = pair_counts(same, classes.codes, n_same, len(classes.labels))
        first = np.zeros(n_same, np.int64)
        first[same[::-1]] = np.arange(rows)[::-1]
        self._ranks = [column.ranks[first] for column in columns]
        self._random = np.random.default_rng(seed)
        self._rows = rows

    def run(self, evaluations: int) -> Outcome:
        """Evolve, and release what the best means."""
        random, size = self._random, self._genome.size
        population = [random.random(size) < random.random() ** 2 for _ in range(POPULATION)]
        population[0] = np.zeros(size, bool)
        costs = [self.cost(each) for each in population]
        for _ in range(max(evaluations - POPULATION, 0)):
            mother, father = (self._fittest(costs) for _ in range(2))
            child = np.where(random.random(size) < 0.5, population[mother], population[father])
            child ^= random.random(size) < 1.5 / size
            cost, worst = self.cost(child), int(np.argmax(costs))
            if cost < costs[worst]:
                population[worst], costs[worst] = child, cost
        return self._outcome(population[int(np.argmin(costs))])

    def _fittest(self, costs: Sequence[float]) -> int:
        drawn = self._random.integers(0, len(costs), TOURNAMENT).tolist()
        return int(min(drawn, key=lambda at: costs[at]))

    def cost(self, bits: Bits) -> float:
        """The metric of a chromosome, between 0 and 1."""
        columns, lost = [], np.zeros(len(self._counts))
        for column, ranks, cut in zip(self._genome.columns, self._ranks, self._genome.cuts(bits), strict=True):
            ends = np.append(cut[1:], column.domain.size)
            code = np.repeat(np.arange(cut.size), ends - cut)[ranks]
            columns.append((code, cut.size))
            lost += ((ends - cut - 1) / max(column.domain.size - 1, 1))[code]
        groups, n_groups = group_rows(columns, len(self._counts))
        counts = np.zeros((n_groups, self._counts.shape[1]), np.int64)
        np.add.at(counts, groups, self._counts)
        sizes = counts.sum(axis=1)
        good = sizes >= self._k
        if self._metric == "classification":
            return float(np.where(good, sizes - counts.max(axis=1), sizes).sum()) / self._rows
        each = np.where(good[groups], lost / len(columns), 1.0)
        return float((each * self._counts.sum(axis=1)).sum()) / self._rows

    def _outcome(self, bits: Bits) -> Outcome:
        columns = [
            column.generalise(cut) for column, cut in zip(self._genome.columns, self._genome.cuts(bits), strict=True)
        ]
        groups, n_groups = group_rows([(each.codes, len(each.labels)) for each in columns], self._rows)
        kept = np.flatnonzero(value_counts(groups, n_groups)[groups] >= self._k)
        return Outcome(tuple(each.of_rows(kept) for each in columns), kept=kept)
