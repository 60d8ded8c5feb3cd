"""Mondrian as one would write it down: lists of records, one group after the other, nothing counted twice."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import masquerade as mq
from masquerade.data import Column, Taxonomy

Record = int  # its row
Group = list[Record]
Satisfies = Callable[[Group], bool]
Cell = tuple[int, int]
ONE = 2**32


class UnionFirst(mq.Mondrian):
    """Mondrian as parties make it: QIDs that share attributes are cut from the release for their union alone."""

    both_ways = False


@dataclass
class Plain:
    """A plain Mondrian; with `providers` (one a row) it is provider-aware, against coalitions of `m`."""

    columns: Sequence[Column]
    satisfies: Satisfies
    choose: str = "certainty"
    strict: bool = False
    providers: Sequence[str] | None = None
    m: int = 0
    fitness: Callable[[Group], float] | None = None
    classes: Sequence[str] = ()
    priority: Mapping[str, float] | None = None  # then instead of `choose`, with the columns' weights
    weights: Sequence[float] = ()
    least: int = 1  # the records that each group must have, for `class-first`
    large: Satisfies | None = None  # what may be cut off a value's other children, if not what satisfies

    def release(self) -> list[tuple[Cell, ...]]:
        """Each row's cells, as ranges of ranks."""
        n_rows = len(self.columns[0].ranks)
        cells: dict[Record, tuple[Cell, ...]] = {}
        waiting = [(list(range(n_rows)), [(0, column.domain.size) for column in self.columns])]
        while waiting:
            group, regions = waiting.pop()
            for at, column in enumerate(self.columns):
                if isinstance(column.domain, Taxonomy):
                    regions[at] = self.covered(group, at)
            best = None
            for at in range(len(self.columns) + (self.providers is not None)):
                parts = self.cut(group, at)
                if parts is not None:
                    score = self.score(group, at, parts)
                    if best is None or score > best[0]:
                        best = score, at, parts
            if best is None:
                cells.update((record, tuple(regions)) for record in group)
                continue
            _, at, parts = best
            for upper, part in enumerate(parts):
                inside = list(regions)
                if at < len(self.columns) and not isinstance(self.columns[at].domain, Taxonomy):
                    lo, hi = regions[at]
                    split = min(self.rank(record, at) for record in parts[1])
                    inside[at] = (split, hi) if upper else (lo, split)
                waiting.append((part, inside))
        return [cells[row] for row in range(n_rows)]

    def rank(self, record: Record, at: int) -> int:
        if at < len(self.columns):
            return int(self.columns[at].ranks[record])
        assert self.providers is not None
        counts = Counter(self.providers)
        return sorted(counts, key=lambda name: (counts[name], name)).index(self.providers[record])

    def covered(self, group: Group, at: int) -> Cell:
        """The lowest node above the group's values; the values themselves where there is no tree."""
        ranks = [self.rank(record, at) for record in group]
        lo, hi = min(ranks), max(ranks) + 1
        if at < len(self.columns):
            domain = self.columns[at].domain
            if isinstance(domain, Taxonomy):
                nodes = [node for node in domain.nodes if node.lo <= lo and hi <= node.hi]
                lowest = min(nodes, key=lambda node: node.hi - node.lo)
                return lowest.lo, lowest.hi
        return lo, hi

    def width(self, at: int, cell: Cell) -> float:
        domain, (lo, hi) = self.columns[at].domain, cell
        if isinstance(domain, Taxonomy):
            return 0.0 if hi - lo == 1 else (hi - lo) / domain.size
        values = [float(value) for value in domain.values]
        if len(values) < 2:
            return 0.0
        first, spread = values[0], values[-1] - values[0]
        return (values[hi - 1] - first) / spread - (values[lo] - first) / spread

    def cut(self, group: Group, at: int) -> list[Group] | None:
        """The parts of an allowed cut, or None."""
        if at < len(self.columns) and isinstance(domain := self.columns[at].domain, Taxonomy):
            node = domain.node(*self.covered(group, at))
            children = [domain.nodes[child] for child in node.children]
            parts = [[r for r in group if child.lo <= self.rank(r, at) < child.hi] for child in children]
            return self.kept([part for part in parts if part])
        ranks = sorted(self.rank(record, at) for record in group)
        middle = ranks[len(ranks) // 2]
        lefts = [ranks.index(middle), len(ranks) - ranks[::-1].index(middle)]
        left = max(lefts, key=lambda size: min(size, len(ranks) - size))  # of equals the first
        if left in (0, len(ranks)):
            return None
        split = ranks[left]
        below = [record for record in group if self.rank(record, at) < split]
        above = [record for record in group if self.rank(record, at) >= split]
        return [below, above] if self.satisfies(below) and self.satisfies(above) else None

    def kept(self, parts: list[Group]) -> list[Group] | None:
        """Where not all satisfy: those that do not stay together, with the smallest that does if they must."""
        cut_off = self.large if self.large is not None and not self.strict else self.satisfies
        good = [part for part in parts if cut_off(part)]
        bad = [part for part in parts if part not in good]
        if len(parts) < 2:
            return None
        if not bad:
            return parts if all(map(self.satisfies, parts)) else None
        if self.strict or not good:
            return None
        rest = [record for part in bad for record in part]
        if not cut_off(rest):
            smallest = min(good, key=len)
            good.remove(smallest)
            rest += smallest
            if not good or not cut_off(rest):
                return None
        made = [*good, sorted(rest)]
        return made if all(map(self.satisfies, made)) else None

    def score(self, group: Group, at: int, parts: list[Group]) -> float:
        if self.choose == "fitness":
            assert self.fitness is not None
            return round(min(map(self.fitness, parts)) * ONE)
        if at == len(self.columns):
            after = sum(len(part) * math.log2(self.left(part)) for part in parts) / len(group)
            return math.inf if round((after - math.log2(self.left(group))) * ONE) > 0 else -1
        before = self.width(at, self.covered(group, at))
        if self.priority is not None:
            return self.overall(group, at, parts)
        if self.choose == "widest":
            return before
        kept = sum(len(part) * self.after(group, at, part) for part in parts)
        bits = sum(len(part) * math.log2(len(group) / len(part)) for part in parts)
        certainty = round((len(group) * before - kept) / bits * ONE)
        if self.choose == "certainty":
            return certainty
        told = self.uncertain(group) - sum(map(self.uncertain, parts))
        share = certainty / ONE  # as a fraction below 1 it decides between cuts that tell as much
        by_class = round(told / bits * 2**20) + share / (1 + share)
        if self.choose == "information-gain":
            return by_class
        free = (len(parts) - 1) * (len({self.classes[record] for record in group}) - 1)
        enough = max(free * math.log2(len(group)), 0.02 * len(group))
        room = len(self.classes) >= 6 * self.least * len(self.columns)
        return (1 + by_class) * 2**64 if room and round(told * 2**20) > round(enough * 2**20) else certainty

    def overall(self, group: Group, at: int, parts: list[Group]) -> float:
        """O_i, Equation 4.4; of Equation 4.3 what the cut takes away."""
        assert self.priority is not None
        after = sum(len(part) / len(group) * (self.uncertain(part) / len(part)) for part in parts)
        metrics = {
            "spread": self.width(at, self.covered(group, at)),
            "weight": self.weights[at] / (max(self.weights) or 1),
            "gain": (self.uncertain(group) / len(group) - after) / (math.log2(len(set(self.classes))) or 1),
        }
        counted = sum(share * metrics[name] for name, share in self.priority.items())
        return round(counted / sum(self.priority.values()) * ONE)

    def uncertain(self, group: Group) -> float:
        """How many bits the classes of a group's records take."""
        counts = Counter(self.classes[record] for record in group).values()
        return sum(count * math.log2(len(group) / count) for count in counts)

    def after(self, group: Group, at: int, part: Group) -> float:
        """The width of the cell that a cut gives a part: a child, or the parent for those that stay."""
        domain = self.columns[at].domain
        if not isinstance(domain, Taxonomy):
            return self.width(at, self.covered(part, at))
        node = domain.node(*self.covered(group, at))
        ranks = [self.rank(record, at) for record in part]
        for child in (domain.nodes[child] for child in node.children):
            if child.lo <= min(ranks) and max(ranks) < child.hi:
                return self.width(at, (child.lo, child.hi))
        return self.width(at, (node.lo, node.hi))

    def left(self, group: Group) -> int:
        assert self.providers is not None
        return fewest_left([self.providers[record] for record in group], self.m)


def fewest_left(providers: Sequence[str], m: int) -> int:
    """How many records the largest coalition leaves, found by trying them all."""
    names = sorted(set(providers))
    power = min(m, len(names) - 1)
    return min(sum(provider not in coalition for provider in providers) for coalition in combinations(names, power))


def is_m_private(
    group: Sequence[Record], providers: Sequence[str], m: int, satisfies: Callable[[list[Record]], bool]
) -> bool:
    """Definition 2.1 for requirements that only gain from more records: whoever leaves, the rest satisfies."""
    names = sorted({providers[record] for record in group})
    return all(
        satisfies([record for record in group if providers[record] not in coalition])
        for size in range(min(m, len(names) - 1) + 1)
        for coalition in combinations(names, size)
    )
