"""Datafly against a plain Python one, on the paper's table and on random trees."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import masquerade as mq
from adult import adult
from examples import examples

Rows = list[tuple[str, ...]]

TREES = (
    mq.Taxonomy(
        mq.Branch("any", (mq.Branch("left", (mq.Branch("a"), mq.Branch("b"))), mq.Branch("c")))  # unbalanced
    ),
    mq.Taxonomy(
        mq.Branch(
            "all",
            (
                mq.Branch("low", (mq.Branch("1"), mq.Branch("2"), mq.Branch("3"))),
                mq.Branch("high", (mq.Branch("4"), mq.Branch("5"))),
            ),
        )
    ),
)
NAMES = ("letter", "number")
SCHEMA = mq.Schema(mq.Attribute(name, taxonomy=tree) for name, tree in zip(NAMES, TREES, strict=True))


def parent(tree: mq.Taxonomy, value: str) -> str:
    return tree.nodes[tree.find(value).parent].name


def climbed(rows: Rows) -> Rows | None:
    """One step up for the deepest values of the attribute with the most different ones; None at the top."""
    able = [at for at, tree in enumerate(TREES) if any(tree.find(row[at]).depth for row in rows)]
    if not able:
        return None
    at = max(able, key=lambda each: len({row[each] for row in rows}))
    tree = TREES[at]
    deepest = max(tree.find(row[at]).depth for row in rows)
    return [
        tuple(
            parent(tree, value) if place == at and tree.find(value).depth == deepest else value
            for place, value in enumerate(row)
        )
        for row in rows
    ]


def plain(rows: Rows, k: int) -> Counter[tuple[str, ...]]:
    """The paper's variant: what is k-anonymous is done."""
    released: Counter[tuple[str, ...]] = Counter()
    rest: Rows | None = rows
    while rest:
        sizes = Counter(rest)
        released.update(row for row in rest if sizes[row] >= k)
        rest = [row for row in rest if sizes[row] < k]
        if len(rest) < k:
            break
        rest = climbed(rest)
    return released


def plain_columns(rows: Rows, k: int) -> Counter[tuple[str, ...]]:
    """Sweeney's: everybody climbs, until fewer than k are left over."""
    while True:
        sizes = Counter(rows)
        if sum(count for count in sizes.values() if count < k) < k:
            return Counter(row for row in rows if sizes[row] >= k)
        up = climbed(rows)
        assert up is not None
        rows = up


records = st.lists(st.tuples(*(st.sampled_from(tree.leaves) for tree in TREES)), min_size=1, max_size=40)


@pytest.mark.parametrize("whole_columns", [False, True])
@settings(max_examples=examples(150), deadline=None)
@given(rows=records, k=st.integers(1, 6))
def test_gives_what_the_plain_one_gives(whole_columns: bool, rows: Rows, k: int) -> None:
    k = min(k, len(rows))
    frame = pa.table(dict(zip(NAMES, map(list, zip(*rows, strict=True)), strict=True)))
    release = mq.anonymize(
        mq.Table(frame, SCHEMA), mq.KAnonymity(NAMES, k), mq.Datafly(whole_columns=whole_columns)
    )
    cells = Counter(tuple(str(cell) for cell in row.values()) for row in release.table.to_pylist())
    assert cells == (plain_columns if whole_columns else plain)(rows, k)
    assert release.suppressed == len(rows) - sum(cells.values())


def test_a_number_needs_a_tree() -> None:
    table = mq.Table(pa.table({"age": [20, 30]}), mq.Schema([mq.Attribute("age", "continuous")]))
    with pytest.raises(mq.ParameterError, match=r"age: .* give a taxonomy"):
        mq.anonymize(table, mq.KAnonymity(["age"], 2), mq.Datafly())


def test_the_variant_is_a_switch() -> None:
    with pytest.raises(mq.ParameterError, match="whole_columns parameter of Datafly must be true or false"):
        mq.Datafly(whole_columns="yes")  # type: ignore[arg-type]


@pytest.mark.parametrize(("k", "precision"), [(2, 0.95), (20, 0.82), (100, 0.68)])
def test_adult_keeps_at_least_what_the_paper_shows(k: int, precision: float) -> None:
    """Figure 4 shows about 0.93, 0.80 and 0.60 for the central Datafly on these eight attributes."""
    qid = [
        *("education", "marital-status", "native-country", "occupation"),
        *("race", "relationship", "sex", "workclass"),
    ]
    release = mq.anonymize(adult(), mq.KAnonymity(qid, k), mq.Datafly())
    assert release.metrics["precision"] is not None
    assert release.metrics["precision"] >= precision
    assert release.suppressed < k
