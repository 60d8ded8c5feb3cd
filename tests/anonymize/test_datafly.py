"""Datafly against a plain Python one, on the paper's table and on random trees."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import masquerade as mq
from adult import adult
from chunked import in_chunks, same_in_chunks
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
    release = mq.anonymize(mq.Table(frame, SCHEMA), mq.KAnonymity(NAMES, k), mq.Datafly(whole_columns=whole_columns))
    cells = Counter(tuple(str(cell) for cell in row.values()) for row in release.table.to_pylist())
    assert cells == (plain_columns if whole_columns else plain)(rows, k)
    assert release.suppressed == len(rows) - sum(cells.values())


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


# --- what all records in one group violate, and some groups do not ---

COMMON = mq.Schema([*SCHEMA, mq.Attribute("disease")])
FEW_WITH_FLU = mq.KAnonymity(NAMES, 3) & mq.AlphaKAnonymity(NAMES, k=3, alpha=0.5, sensitive="disease", values=["flu"])


def clinic(spread: int, alike: int) -> pa.Table:
    """Some at (a, 1), of whom one in three has flu; others all over, who all have it."""
    others = [("bc"[row % 2], "2345"[row % 4]) for row in range(alike)]
    diseases = ["flu" if row % 3 == 0 else "cold" for row in range(spread)] + ["flu"] * alike
    letters, numbers = zip(*([("a", "1")] * spread + others), strict=True)
    return pa.table({"letter": letters, "number": numbers, "disease": diseases})


def test_groups_that_satisfy_are_released_though_all_records_together_violate() -> None:
    release = mq.anonymize(mq.Table(clinic(6, 12), COMMON), FEW_WITH_FLU, mq.Datafly(), sensitive=["disease"])
    assert (release.table.num_rows, release.suppressed) == (6, 12)
    assert Counter(release.table["disease"].to_pylist()) == {"flu": 2, "cold": 4}
    assert all(verdict.holds for verdict in release.verdicts)
    [warning] = [each for each in release.summary["warnings"] if "left out" in each]
    assert warning.startswith("12 of 18 records are left out")


@pytest.mark.parametrize(("spread", "alike", "whole_columns"), [(0, 12, False), (0, 12, True), (6, 12, True)])
def test_it_cannot_be_reached_where_no_group_or_too_few_satisfy(spread: int, alike: int, whole_columns: bool) -> None:
    """Whole columns are generalised until fewer than k violate, and then all of them do."""
    table = mq.Table(clinic(spread, alike), COMMON)
    with pytest.raises(mq.RequirementUnreachable, match=r"alpha-k-anonymity .* cannot be reached"):
        mq.anonymize(table, FEW_WITH_FLU, mq.Datafly(whole_columns=whole_columns), sensitive=["disease"])


def test_chunks_leave_out_the_same(tmp_path: Path) -> None:
    table = mq.Table(clinic(6, 12), COMMON)
    release, _ = same_in_chunks(table, FEW_WITH_FLU, mq.Datafly(), tmp_path, sensitive=("disease",))
    assert release.suppressed == 12
    (tmp_path / "none").mkdir()
    with pytest.raises(mq.RequirementUnreachable, match=r"alpha-k-anonymity .* cannot be reached"):
        in_chunks(mq.Table(clinic(0, 12), COMMON), FEW_WITH_FLU, mq.Datafly(), tmp_path / "none")


def test_whole_columns_leave_out_fewer_than_k_though_all_records_together_violate() -> None:
    few = pa.table({"letter": ["a"] * 4 + ["c"] * 2, "number": ["1"] * 4 + ["5"] * 2})
    frame = few.append_column("disease", pa.array(["flu", "flu", "cold", "cold", "flu", "flu"]))
    made = mq.Datafly(whole_columns=True)
    release = mq.anonymize(mq.Table(frame, COMMON), FEW_WITH_FLU, made, sensitive=["disease"])
    assert (release.table.num_rows, release.suppressed) == (4, 2)
