"""Nobody's count is told: of providers of odd sizes, all that is opened follows from what docs/leakage.md grants."""

from __future__ import annotations

import inspect
from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import masquerade as mq
from leakage.granted_answers import dealt, simulated
from masquerade.net.memory import Wire
from masquerade.net.script import decode
from masquerade.protocol import ASSEMBLER, Contract
from masquerade.protocol.providers.messages import Size
from masquerade.protocol.providers.shared_counts import Alone, SharedBits
from protocol.test_collaborate import HOUSES, QID, SCHEMA, collaborate, contract_of, requirement_of

ODD = (137, 41, 29)
NUMBERS_BESIDE = 32  # fewer records than this may be a number of something else: of binary digits, say


@dataclass
class Opened:
    """All that one provider is told of the others' records."""

    results: list[tuple[str, list[Any]]] = field(default_factory=list)  # of what is computed on shares, in order
    sizes: list[tuple[str, int]] = field(default_factory=list)
    alone: list[tuple[str, bytes]] = field(default_factory=list)

    @property
    def numbers(self) -> set[int]:
        shown = {int(each) for _, result in self.results for each in np.ravel(result)}
        return shown | {bits for _, bits in self.sizes} | {1 << bits for _, bits in self.sizes}


def opened_to(who: str, contract: Contract, tables: dict[str, mq.Table]) -> Opened:
    """What a provider is told in a run: every result of a computation on shares, and what others say in clear."""
    told, wire = Opened(), Wire()
    me = contract.parties.index(who)

    def recording(method: Any, name: str) -> Any:
        def recorded(self: SharedBits, *args: Any, **named: Any) -> Any:
            result = yield from method(self, *args, **named)
            if self.me == me:
                told.results.append((name, np.array(result).tolist()))
            return result

        return recorded

    with pytest.MonkeyPatch.context() as patch:
        for name, method in list(vars(SharedBits).items()):
            if inspect.isgeneratorfunction(method) and not name.startswith("_"):
                patch.setattr(SharedBits, name, recording(method, name))
        collaborate(contract, tables, wire)
    for heard in wire.seen_by(who):
        if heard.sender != ASSEMBLER and heard.kind == "collaborate-size":
            told.sizes.append((heard.sender, decode(heard.data, [Size]).bits))  # type: ignore[attr-defined]
        if heard.sender != ASSEMBLER and heard.kind == "collaborate-alone":
            told.alone.append((heard.sender, decode(heard.data, [Alone]).bits))  # type: ignore[attr-defined]
    return told


def own_counts(tables: dict[str, mq.Table], release: Any) -> set[int]:
    """How many records some provider has: of all, in each node of the taxonomy, in each cell of the release."""
    counts: set[int] = set()
    for name, table in tables.items():
        counts.add(len(table))
        column = table.column("job")
        ranks = np.asarray(column.ranks)
        counts |= {int(((node.lo <= ranks) & (ranks < node.hi)).sum()) for node in column.domain.nodes}  # type: ignore[union-attr]
        rows = [row for row in release.to_pylist() if row["provider"] == name]
        counts |= set(Counter(tuple(row[each] for each in QID) for row in rows).values())
    return {count for count in counts if count >= NUMBERS_BESIDE}


@pytest.mark.parametrize(("sizes", "m", "strict"), [(ODD, 1, False), (ODD, 2, False), (ODD, 1, True)])
@pytest.mark.parametrize("aware", [True, False])
def test_no_count_of_a_provider_is_told_nor_follows_by_subtraction(
    sizes: tuple[int, ...], m: int, strict: bool, aware: bool
) -> None:
    tables = dealt(sizes)
    terms = {"provider_aware": aware, "strict": strict, "keep_provider": True}
    contract = contract_of(requirement_of(4, 2), m, tuple(tables), **terms)
    release = collaborate(contract, tables).table
    told = opened_to("clinic", contract, tables)
    known = {*told.numbers, 0, len(tables["clinic"])}
    secret = own_counts({name: tables[name] for name in ("abbey", "burgh")}, release)
    assert {137, 41} <= secret
    assert told.results
    assert secret.isdisjoint(known)
    assert secret.isdisjoint(abs(a - b) for a, b in combinations(known, 2))


def test_the_records_of_one_that_is_set_apart_change_nothing_that_is_opened() -> None:
    """As many binary digits, and it satisfies alone: 137 records or 211, the others cannot tell."""
    views = []
    for size, seed in ((137, 5), (211, 6)):
        tables = {**dealt((137, 13, 11, 9)), "abbey": dealt((size,), seed=seed)["abbey"]}
        contract = contract_of(requirement_of(4, 1), 1, tuple(tables))
        views.append(opened_to("dale", contract, tables))
    # Without the whole there is nothing: these are of the others' groups.
    assert len(views[0].results) > 5
    assert views[0] == views[1]


def with_more_or_fewer(table: mq.Table, random: np.random.Generator) -> mq.Table:
    """Some records twice, others not at all; as many binary digits of records, and the same values."""
    rows = np.arange(len(table))
    kept = np.delete(rows, random.choice(rows, random.integers(0, 4), replace=False))
    more = random.choice(kept, random.integers(0, 8))
    return mq.Table(table.arrow.take(np.concatenate([kept, more])), SCHEMA)


@pytest.mark.parametrize(
    ("terms", "whose"),
    [({}, HOUSES[:3]), ({"strict": True}, HOUSES[:3]), ({"provider_aware": False}, HOUSES[:1])],
    ids=str,
)
def test_inputs_with_the_same_granted_answers_open_the_same_bit_for_bit(
    terms: dict[str, Any], whose: tuple[str, ...]
) -> None:
    """Also where all but one are in league, and look for the count of the last."""
    tables = dealt(ODD)
    contract = contract_of(requirement_of(14, 1), 1, tuple(tables), **terms)
    first = simulated(contract, tables)
    random = np.random.default_rng(11)
    alike = {ODD: tables}
    for _ in range(400):
        other = {**tables, **{name: with_more_or_fewer(tables[name], random) for name in whose}}
        sizes = tuple(map(len, other.values()))
        if sizes in alike or [each.bit_length() for each in sizes] != [each.bit_length() for each in ODD]:
            continue
        told = simulated(contract, other)
        if told.bits == first.bits and str(told.alone) == str(first.alone):
            alike[sizes] = other
        if len(alike) == 4:
            break
    assert len(alike) == 4
    views = [opened_to("clinic", contract, other) for other in alike.values()]
    assert all(view == views[0] for view in views)
