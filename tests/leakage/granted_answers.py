"""What a collaboration without a third party opens, from the answers that docs/leakage.md grants to every provider."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

import masquerade as mq
from masquerade.protocol import Contract
from masquerade.protocol.contract import agreed_table
from masquerade.protocol.providers.domains import ranges_of
from masquerade.protocol.providers.messages import stacked
from masquerade.protocol.providers.provider import start_within_boundaries
from masquerade.protocol.providers.third_party import public_settings
from masquerade.protocol.providers.tree import Answers, Settings, partition
from privacy.definitions import private as withstands
from protocol.test_collaborate import HOUSES, ILLNESSES, JOBS, SCHEMA, table_of
from protocol.test_collaborate_circuits import by_definition


def dealt(sizes: Sequence[int], seed: int = 3) -> dict[str, mq.Table]:
    random = np.random.default_rng(seed)
    return {
        name: table_of(
            [
                (str(random.choice(JOBS.leaves)), int(random.integers(20, 60)), str(random.choice(ILLNESSES)))
                for _ in range(size)
            ]
        )
        for name, size in zip(HOUSES, sizes, strict=False)
    }


class Granted:
    """The simulator: a judge that knows the records by the granted answers alone, each as it is defined."""

    def __init__(self, contract: Contract, joined: mq.Table) -> None:
        self._contract, self._joined = contract, joined
        self._m = contract.m
        self._k = next(each.k for each in contract.parts if isinstance(each, mq.KAnonymity))
        self._l = next((each.l for each in contract.parts if isinstance(each, mq.LDiversity)), 1)
        self._on_counts = [each for each in contract.parts if isinstance(each, mq.ConfidenceBounding)]
        self._everybody = joined.arrow["ill"].to_pylist()
        providers, ills = joined.arrow["provider"].to_pylist(), joined.arrow["ill"].to_pylist()
        self._cells = [
            (contract.parties.index(name), ILLNESSES.index(ill)) for name, ill in zip(providers, ills, strict=True)
        ]
        self._n = len(contract.parties)
        self.bits: list[list[int]] = []  # that are opened, of each evaluation in order
        self.alone: list[tuple[list[int], Any, Any]] = []  # whose parts they are, which are empty, which satisfy

    def of_rows(self, rows: Any) -> Granted:
        left = Granted(self._contract, self._joined.take(rows))
        left.bits, left.alone = self.bits, self.alone
        return left

    def acceptable(self, parts: Any) -> Any:
        """Of groups at their boundaries nobody learns which are empty."""
        told = self._told(parts)
        self.bits.append([*told.private, *told.divisible])
        yield from ()
        return replace(told, empty=~told.private)

    def whole(self, rows: Any) -> Any:
        return (yield from self.verdicts([rows]))

    def verdicts(self, parts: Any) -> Any:
        told = self._told(parts)
        self.bits.append([*told.private, *np.where(told.private, told.divisible, told.empty)])
        yield from ()
        return told

    def lone_verdicts(self, parts: Any) -> Any:
        told = self._told([rows for _, rows in parts])
        self.alone.append(([owner for owner, _ in parts], told.empty, told.private))
        yield from ()
        return replace(told, divisible=np.zeros(len(parts), bool))

    def sole(self, families: Any) -> Any:
        filled = [[number for number, part in enumerate(parts) if part.size] for parts in families]
        found = [each[0] if len(each) == 1 else -1 for each in filled]
        for length in sorted({len(parts) for parts in families}):
            chosen = [only for parts, only in zip(families, found, strict=True) if len(parts) == length]
            self.bits.append([int(only == child) for child in range(length) for only in chosen])
        yield from ()
        return found

    def fittest(self, choices: Any) -> Any:
        found = [self._fittest(cuts) for cuts in choices]
        shapes = [tuple(map(len, cuts)) for cuts in choices]
        for shape in sorted(set(shapes)):
            chosen = [best for best, each in zip(found, shapes, strict=True) if each == shape]
            self.bits.append([int(best == cut) for cut in range(len(shape)) for best in chosen])
        yield from ()
        return found

    def _fittest(self, cuts: Any) -> int:
        """Of the cuts whose parts are empty or withstand, the first whose least fit part is fittest."""
        scores = []
        for parts in cuts:
            told = self._told(parts)
            fit = [self._fitness(part) for part, empty in zip(parts, told.empty, strict=True) if not empty]
            scores.append(min(fit) if (told.empty | told.private).all() else Fraction(-1))
        return scores.index(max(scores)) if max(scores) >= 0 else -1

    def _fitness(self, rows: Any) -> Fraction:
        """Definition 3.1 of the m-privacy paper, with α = 0.8."""
        values = len({self._cells[row][1] for row in rows})
        sizes = Fraction(len(rows), self._k)
        return Fraction(1, 5) * sizes + Fraction(4, 5) * Fraction(values, self._l) if self._l > 1 else sizes

    def _told(self, parts: Any) -> Answers:
        empty, private, divisible = [], [], []
        for rows in parts:
            counts = np.zeros((self._n, len(ILLNESSES)), int)
            for row in rows:
                counts[self._cells[row]] += 1
            empty.append(not counts.any())
            private.append(by_definition(counts, self._m, self._k, self._l) and self._withstands(rows))
            divisible.append(private[-1] and self._may_be_two(counts.sum(axis=1)))
        return Answers(np.array(empty, bool), np.array(private, bool), np.array(divisible, bool))

    def _withstands(self, rows: Any) -> bool:
        """Whatever of its records a coalition leaves."""
        records = [(self._cells[row][0], ILLNESSES[self._cells[row][1]]) for row in rows]
        return not self._on_counts or withstands(self._on_counts, records, self._everybody, self._m)

    def _may_be_two(self, counts: Any) -> bool:
        """Every coalition leaves 2k records; or somebody has k, and there are 2k."""
        size = min(self._m, self._n)
        left = min(sum(counts) - sum(each) for each in combinations(counts, size))
        return bool(left >= 2 * self._k or (max(counts) >= self._k and sum(counts) >= 2 * self._k))


def simulated(contract: Contract, tables: dict[str, mq.Table]) -> Granted:
    """What is opened, from the granted answers: no count is among them."""
    stack = mq.Table(stacked({name: each.arrow for name, each in tables.items()}, "provider"), SCHEMA)
    joined = agreed_table(stack, contract.attributes)
    ((settings, _),) = public_settings(contract, joined)
    granted, own = Granted(contract, joined), Granted(contract, joined)
    age = ranges_of(joined, ["age"])["age"]
    granted.bits.append(age.signals(joined.column("age")).tolist())
    asked(contract, settings, granted, own)
    return granted


def asked(contract: Contract, settings: Settings, judge: Any, own: Any) -> tuple[Any, Settings, Any]:
    """Play all questions to a judge that needs nobody: the rows that are left, how they are cut, and their groups."""
    start = _answer(start_within_boundaries([(settings, [judge])], contract.requirement, alone=True))
    left = np.arange(settings.ranks[0].size) if start is None else start.rows
    here = settings.of_rows(left)
    judges, owns = [judge.of_rows(left)], [own.of_rows(left)]
    begin = None if start is None else start.groups[0]
    return left, here, _answer(partition(here, judges, owns, None, start=begin))


def _answer(script: Any) -> Any:
    try:
        next(script)
    except StopIteration as end:
        return end.value
    raise AssertionError("nobody to ask")
