"""ID3 between two parties gives the pooled tree, however records or columns are split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from examples import examples
from masquerade.crypto import Precision
from masquerade.errors import RequirementUnreachable
from masquerade.net import Script
from masquerade.net.memory import Wire, run_together
from masquerade.protocol import pairs as pair
from masquerade.protocol.learn.counting import Calculator, ManySites, SharedCounts, TwoParties
from masquerade.protocol.learn.id3 import DecisionNode, decision_tree, pooled_tree
from masquerade.protocol.learn.shared_numbers import plain_weighted_logarithms, prepare_shared_numbers
from masquerade.protocol.pairs import prepare_pair

NAMES = ("anna", "berta")
Record = dict[str, int]

PRECISION = Precision(8, 3)


def pooled(records: Sequence[Record], sizes: Mapping[str, int], left: list[str], least: int = 1, above: int = 0) -> Any:
    """ID3 on all records, as a textbook has it: a label, or (attribute, what follows each value).

    Fewer than `least` records have the label of those above.
    """
    if len(records) < least:
        return above
    classes = Counter(record["class"] for record in records)
    common = min(classes, key=lambda label: (-classes[label], label))
    if len(classes) == 1 or not left:
        return common
    attribute = min(left, key=lambda name: (uncertain(records, name), left.index(name)))
    rest = [name for name in left if name != attribute]
    return attribute, [
        pooled([each for each in records if each[attribute] == value], sizes, rest, least, common)
        for value in range(sizes[attribute])
    ]


def uncertain(records: Sequence[Record], name: str) -> int:
    values = Counter(record[name] for record in records)
    cells = Counter((record[name], record["class"]) for record in records)

    def total(counts: Counter[Any]) -> int:
        return int(plain_weighted_logarithms(np.array(list(counts.values())), PRECISION).sum())

    return total(values) - total(cells)


def as_pooled(node: DecisionNode) -> Any:
    if node.attribute is None:
        return node.label
    return node.attribute, [as_pooled(child) for child in node.children]


def between(
    sides: Sequence[SharedCounts], attributes: list[str], least: int = 1, wire: Wire | None = None
) -> list[Any]:
    names = (*NAMES, "carla")[: len(sides)]

    def whole(me: int) -> Script[DecisionNode]:
        calculator: Calculator
        if len(names) == 2:
            calculator = TwoParties((yield from prepare_pair(me, names, b"test")))
        else:
            calculator = ManySites((yield from prepare_shared_numbers(me, names, b"test")))
        return (yield from decision_tree(calculator, sides[me], attributes, "class", PRECISION, least))

    found = run_together({name: whole(me) for me, name in enumerate(names)}, wire)
    return [as_pooled(found[name]) for name in names]


def codes(records: Sequence[Record], names: Sequence[str]) -> dict[str, np.ndarray[Any, Any]]:
    return {name: np.array([record[name] for record in records], np.int64) for name in names}


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[Record], dict[str, int]]:
    sizes = {name: draw(st.integers(1, 3)) for name in "abc"} | {"class": draw(st.integers(1, 3))}
    record = st.fixed_dictionaries({name: st.integers(0, size - 1) for name, size in sizes.items()})
    return draw(st.lists(record, min_size=1, max_size=30)), sizes


@settings(max_examples=examples(15), deadline=None)
@given(tables(), st.data())
def test_whole_records_of_two_parties_give_the_pooled_tree(
    table: tuple[list[Record], dict[str, int]], data: st.DataObject
) -> None:
    records, sizes = table
    at, least = data.draw(st.integers(0, len(records))), data.draw(st.integers(1, len(records)))
    sides = [SharedCounts(codes(part, list(sizes)), sizes, PRECISION.bits) for part in (records[:at], records[at:])]
    assert between(sides, ["a", "b", "c"], least) == [pooled(records, sizes, ["a", "b", "c"], least)] * 2


@settings(max_examples=examples(10), deadline=None)
@given(tables(), st.data())
def test_columns_split_in_any_way_give_the_pooled_tree(
    table: tuple[list[Record], dict[str, int]], data: st.DataObject
) -> None:
    records, sizes = table
    holder = {name: data.draw(st.integers(0, 1)) for name in sizes} | {"a": 0, "c": 1}
    few, least = data.draw(st.sampled_from([0, TwoParties.few_cells])), data.draw(st.integers(1, len(records)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TwoParties, "few_cells", few)  # with 0 each question is counted by itself
        sides = [
            SharedCounts(codes(records, [name for name in sizes if holder[name] == me]), sizes, PRECISION.bits, holder)
            for me in (0, 1)
        ]
        assert between(sides, ["a", "b", "c"], least) == [pooled(records, sizes, ["a", "b", "c"], least)] * 2


@pytest.mark.parametrize("n", [2, 3])
def test_a_node_of_few_people_has_its_parents_class_and_looks_like_one_of_one_class(n: int) -> None:
    sizes, heard = {"a": 3, "class": 2}, []
    for third in ([1] * 3, [0] * 5, [0] * 3):
        cells = [(0, 0)] * 10 + [(1, 1)] * 4 + [(2, each) for each in third]
        records = [{"a": a, "class": c} for a, c in cells]
        sides = [SharedCounts(codes(records[me::n], list(sizes)), sizes, PRECISION.bits) for me in range(n)]
        wire = Wire()
        assert between(sides, ["a"], 4, wire) == [("a", [0, 1, 0])] * n
        heard.append([(each.sender, each.kind, len(each.data)) for each in wire.heard])
    assert heard[0] == heard[1] == heard[2]


@pytest.mark.parametrize("n", [2, 3])
def test_too_few_records_in_all_give_no_tree(n: int) -> None:
    sizes = {"a": 2, "class": 2}
    records = [{"a": at % 2, "class": at % 2} for at in range(9)]
    sides = [SharedCounts(codes(records[me::n], list(sizes)), sizes, PRECISION.bits) for me in range(n)]
    assert between(sides, ["a"], 9) == [("a", [0, 0])] * n
    for least in (10, 1 << PRECISION.bits):
        with pytest.raises(RequirementUnreachable, match=r"at least \S+ records"):
            between(sides, ["a"], least)
    with pytest.raises(RequirementUnreachable):
        pooled_tree(codes(records, list(sizes)), sizes, ["a"], "class", PRECISION, 10)


@pytest.mark.parametrize("wet", [0, 1])
def test_the_messages_of_two_tables_with_one_tree_are_equally_long(wet: int) -> None:
    """What is sent depends on the tree alone: another party's records with the same tree look the same."""
    sizes = {"a": 2, "b": 2, "class": 2}
    tree = ("a", [0, 1])
    lengths = []
    for weight in (1, 9):
        records = [{"a": value, "b": wet, "class": value} for value in (0, 1)] * weight
        sides = [SharedCounts(codes(part, list(sizes)), sizes, PRECISION.bits) for part in (records, [])]
        wire = Wire()
        assert between(sides, ["a", "b"], wire=wire) == [tree] * 2
        lengths.append([(each.sender, len(each.data)) for each in wire.heard])
    assert lengths[0] == lengths[1]


def test_a_tree_too_wide_for_one_message_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The circuits of a level come in several messages, whose outputs both parties read."""
    random = np.random.default_rng(3)
    sizes = {"a": 3, "b": 3, "c": 3, "class": 2}
    records = [{name: int(random.integers(size)) for name, size in sizes.items()} for _ in range(60)]
    sides = [SharedCounts(codes(part, list(sizes)), sizes, PRECISION.bits) for part in (records[:30], records[30:])]
    monkeypatch.setattr(pair, "_PART_BYTES", 1 << 12)
    assert between(sides, ["a", "b", "c"]) == [pooled(records, sizes, ["a", "b", "c"])] * 2
