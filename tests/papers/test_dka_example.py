"""Tables 1 to 3 of the DkA paper, k = 3: P1 has area and position, P2 the salary."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from experiments import of_experiments
from masquerade.anonymize import BottomUpColumns
from masquerade.crypto import Bits
from masquerade.data import Column
from masquerade.net import Script
from masquerade.net.memory import run_together
from masquerade.protocol.dka.anonymizers import ByMondrian, labels_of
from masquerade.protocol.dka.checks import PairTests
from masquerade.protocol.dka.side import BottomUpSide, DataflySide, play
from masquerade.protocol.pairs import prepare_pair
from masquerade.protocol.sensitive.back_ends import shared_tests
from masquerade.protocol.sensitive.histogram import Bounds
from papers.test_datafly_example import NAMES, staff

ssi = of_experiments("_ssi")

K = 3
PARTIES = ("p1", "p2")
CHI_1 = "111100001100"
GAMMA_1 = ([{1, 3, 9}, {2, 4, 10}, {5, 11, 12}, {6, 7, 8}], [{1, 4, 10}, {2, 3, 9}, {5, 11, 12}, {6, 7, 8}])
GAMMA_2 = ([{1, 3, 9}, {2, 4, 5, 10, 11, 12}, {6, 7, 8}], [{1, 2, 3, 4, 9, 10}, {5, 11, 12}, {6, 7, 8}])


def columns() -> tuple[list[Column], list[Column]]:
    area, position, salary = staff().columns(NAMES)
    return [area, position], [salary]


class ByRecords(BottomUpColumns):
    """Datafly as in the paper: records in a group of k are left as they are, and a step further everybody climbs."""

    def start(self) -> None:
        rest = np.arange(12)
        while rest.size >= K:
            rest = rest[labels_of(self, rest, K, 12) == 12]
            if rest.size < K or self.climb(rest) is None:
                break

    def further(self) -> bool:
        return self.climb(np.arange(12)) is not None


def gamma(columns: Any) -> list[set[int]]:
    """The paper's γ: identifiers (from 1) by group, in the order of the first."""
    numbers, n_groups = columns.groups(np.arange(12))
    groups = [set((np.flatnonzero(numbers == group) + 1).tolist()) for group in range(n_groups)]
    return sorted(groups, key=min)


def theta(groups: list[set[int]]) -> list[Bits]:
    """The paper's θ: for each identifier its group, as a string of M bits."""
    of = {each: group for group in groups for each in group}
    return [np.array([member in of[each] for member in range(1, 13)], np.uint8) for each in range(1, 13)]


def test_table_3() -> None:
    """Datafly at each party gives γ1; one step further, P1 on Position and P2 on Salary, gives γ2."""
    own = [ByRecords(each) for each in columns()]
    for each in own:
        each.start()
    assert tuple(map(gamma, own)) == GAMMA_1
    for each in own:
        each.further()
    assert tuple(map(gamma, own)) == GAMMA_2


def opened(labels: tuple[Any, Any], bound: int) -> str:
    """χ in the paper's convention (1 where the record does not pass), through the joint histogram."""

    def part(me: int) -> Script[Bits]:
        pair = yield from prepare_pair(me, PARTIES, b"example")
        return (yield from shared_tests(pair, labels[me], K, Bounds(12, (bound, bound))))

    results = run_together({name: part(me) for me, name in enumerate(PARTIES)})
    passes = results["p1"] ^ results["p2"]
    return "".join(str(1 - bit) for bit in passes)


def as_labels(groups: list[set[int]]) -> Any:
    return np.array([next(at for at, group in enumerate(groups) if each in group) for each in range(1, 13)], np.uint64)


def test_chi_of_the_first_round_and_of_the_second() -> None:
    assert opened(tuple(map(as_labels, GAMMA_1)), 4) == CHI_1
    assert opened(tuple(map(as_labels, GAMMA_2)), 4) == "0" * 12
    passing = {at + 1 for at, bit in enumerate(CHI_1) if bit == "0"}
    assert passing == {5, 6, 7, 8, 11, 12}  # S_k


@pytest.mark.parametrize("way", ["homomorphic", "circuit"])
def test_the_same_chi_by_the_papers_set_intersection(way: str) -> None:
    key = ssi.new_key() if way == "homomorphic" else None
    bits = [int(bit) for bit in "100111011110"]  # ω2 of the paper

    def part(me: int) -> Script[list[Any]]:
        pair = yield from prepare_pair(me, PARTIES, b"example")
        shares = []
        for own, bit in zip(theta(GAMMA_1[me]), bits, strict=True):
            if key is None:
                share = yield from ssi.ssi_by_circuit(pair, own, K, bit if me == 1 else None)
            elif me == 0:
                share = yield from ssi.ssi_first(pair, own, K, key)
            else:
                share = yield from ssi.ssi_second(pair, own, K, bit)
            shares.append(share)
        return shares

    results = run_together({name: part(me) for me, name in enumerate(PARTIES)})
    assert results["p2"] == [None] * 12
    assert "".join(map(str, results["p1"])) == "011011010010"  # ω1 of the paper
    assert "".join(str(a ^ b) for a, b in zip(results["p1"], bits, strict=True)) == CHI_1


def test_dka_datafly_on_the_example() -> None:
    """S_k leaves in round 1 with the values of table 3; the rest climbs on."""
    sides: dict[int, DataflySide] = {}
    heard: list[list[bool]] = []

    def part(me: int) -> Script[None]:
        pair = yield from prepare_pair(me, PARTIES, b"example")
        sides[me] = DataflySide(columns()[me], 12, K)
        on_round = (lambda passes: heard.append(passes.tolist())) if me == 0 else None
        yield from play(PairTests(pair), sides[me], on_round=on_round)

    run_together({name: part(me) for me, name in enumerate(PARTIES)})
    assert [not each for each in heard[0]] == [bit == "1" for bit in CHI_1]
    assert sides[0].passed.tolist() == sides[1].passed.tolist() == list(range(12))
    rows = list(zip(*(column.to_arrow().to_pylist() for me in (0, 1) for column in sides[me].released()), strict=True))
    assert rows[4] == ("Information security", "Professor", "[121k, 150k]")
    assert rows[5] == ("Operating systems", "Research assistant", "[11k, 30k]")
    assert all(rows.count(row) >= K for row in rows)


def play_framework(own: list[Any]) -> None:
    """γ1 fails: the second round is the last."""

    def part(me: int) -> Script[int]:
        pair = yield from prepare_pair(me, PARTIES, b"example")
        side = BottomUpSide(own[me], 12, K)
        yield from play(PairTests(pair), side)
        return side.round

    assert run_together({name: part(me) for me, name in enumerate(PARTIES)}) == {"p1": 2, "p2": 2}


def test_the_framework_on_the_example() -> None:
    """γ2 is anonymized."""
    own = [ByRecords(each) for each in columns()]
    play_framework(own)
    assert tuple(map(gamma, own)) == GAMMA_2


def test_the_framework_with_mondrian_on_the_example() -> None:
    """Mondrian cuts out the same γ1; doubled, P1's Databases and Systems and P2's ends of the salaries go together."""
    own = [ByMondrian(each, 12, K) for each in columns()]
    for each in own:
        each.start()
    assert tuple(map(gamma, own)) == GAMMA_1
    play_framework(own)
    assert tuple(map(gamma, own)) == (
        [{1, 3, 6, 7, 8, 9}, {2, 4, 5, 10, 11, 12}],
        [{1, 2, 3, 4, 9, 10}, {5, 6, 7, 8, 11, 12}],
    )
    columns_now = (column.to_arrow().to_pylist() for each in own for column in each.released(np.arange(12)))
    rows = list(zip(*columns_now, strict=True))
    assert rows[0] == ("Computer science", "Staff", "[61k, 120k]")  # with 3 and 9
    assert rows[1] == ("Information security", "Professors", "[61k, 120k]")  # with 4 and 10
    assert rows[4] == ("Information security", "Professors", "[11k, 180k]")  # with 11 and 12
    assert rows[5] == ("Computer science", "Staff", "[11k, 180k]")  # with 7 and 8
    assert {rows.count(row) for row in rows} == {K}
