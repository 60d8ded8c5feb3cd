"""Top-down specialization against its slow, separately written twin, and its edges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings, strategies as st

import masquerade as mq
from anonymize.reference_tds import carries, specialise
from examples import examples
from masquerade.anonymize import Instruction, PublicState
from masquerade.data import Records
from masquerade.engine import Engine, Here, LocalEngine
from masquerade.privacy import KAnonymity
from masquerade.protocol.common_records import on_engine
from masquerade.utility import SCORES
from papers.paper_tables import loan_table, tree

INF = float("inf")

TREES = [
    tree("*", tree("ab", "a", "b"), tree("cd", "c", "d")),
    tree("*", "a", tree("bcd", "b", tree("cd", "c", "d"))),
    tree("*", "a", "b", "c", "d"),
    tree("*", tree("chain", tree("abc", "a", "b", "c")), "d"),
    tree("*", tree("only", tree("all", "a", "b", "c", "d"))),
]

values = st.sampled_from("abcd")
numbers = st.sampled_from([-2.5, -1, 0, 1, 2, 2.25, 7, 1000000])
rows = st.lists(
    st.fixed_dictionaries(
        {"p": values, "q": values, "x": numbers, "y": numbers, "s": values, "class": st.sampled_from("NY")}
    ),
    min_size=1,
    max_size=40,
)
qid = st.lists(st.sampled_from("pqxy"), min_size=1, max_size=4, unique=True)


def as_table(records: list[dict[str, Any]], tops: dict[str, Any]) -> mq.Table:
    columns = {name: [record[name] for record in records] for name in ("p", "q", "x", "y", "s", "class")}
    columns["x"] = [float(x) for x in columns["x"]]
    columns["y"] = [float(y) for y in columns["y"]]
    attributes = [
        mq.Attribute(name, taxonomy=mq.Taxonomy(top))
        if isinstance(top, mq.Branch)
        else mq.Attribute(name, "continuous")
        for name, top in tops.items()
    ]
    return mq.Table(pa.table(columns), mq.Schema(attributes))


def written(value: Any) -> str:
    if isinstance(value, mq.Branch):
        return value.name
    return "[{}, {})".format(*(int(end) if abs(end) != INF and end == int(end) else end for end in value))


def assert_same_steps(release: mq.Release, steps: Sequence[tuple[str, Any, list[Any], int]]) -> None:
    assert [(s.attribute, s.value, list(s.children), s.score) for s in release.steps] == [
        (name, written(value), [written(child) for child in children], rating / 2**32)
        for name, value, children, rating in steps
    ]


def covered(qids: Sequence[tuple[list[str], int]]) -> list[tuple[list[str], int]]:
    """The QIDs that no other covers."""
    kept = []
    for i, (names, k) in enumerate(qids):
        others = [(o, ok) for j, (o, ok) in enumerate(qids) if j != i and (j < i or (set(o), ok) != (set(names), k))]
        if not any(set(names) <= set(o) and k <= ok for o, ok in others):
            kept.append((names, k))
    return kept


@settings(max_examples=examples(150), deadline=None)
@given(
    records=rows,
    trees=st.tuples(st.sampled_from(TREES), st.sampled_from(TREES)),
    qids=st.lists(st.tuples(qid, st.integers(1, 8)), min_size=1, max_size=3),
    score=st.sampled_from(list(SCORES)),
)
def test_same_steps_as_the_reference(
    records: list[dict[str, Any]], trees: tuple[Any, Any], qids: list[tuple[list[str], int]], score: str
) -> None:
    qids = [(names, min(k, len(records))) for names, k in qids]
    used = {name for names, _ in qids for name in names}
    tops = {"p": trees[0], "q": trees[1], "x": (-INF, INF), "y": (-INF, INF)}
    tops = {name: top for name, top in tops.items() if name in used}
    target = None if score == "discernibility" else "class"
    requirements = [(names, lambda group, k=k: len(group) >= k) for names, k in covered(qids)]
    steps, cut = specialise(records, tops, requirements, target, score)

    requirement = mq.KAnonymity(*qids[0])
    for names, k in qids[1:]:
        requirement = requirement & mq.KAnonymity(names, k)
    release = mq.anonymize(as_table(records, tops), requirement, mq.TopDownSpecialization(target, score), order="input")
    assert_same_steps(release, steps)
    for record, cells in zip(records, release.table.to_pylist(), strict=True):
        for name in used:
            [value] = [value for value in cut[name] if carries(record[name], value)]
            assert cells[name] == written(value)


@settings(max_examples=examples(150), deadline=None)
@given(
    records=rows,
    trees=st.tuples(st.sampled_from(TREES), st.sampled_from(TREES)),
    names=qid,
    k=st.integers(1, 8),
    l=st.integers(1, 3),
    score=st.sampled_from(list(SCORES)),
    suppression=st.sampled_from([0.0, 0.05, 0.2, 0.29, 0.5, 0.99]),
)
def test_same_steps_and_rows_with_diversity_and_suppression(
    records: list[dict[str, Any]],
    trees: tuple[Any, Any],
    names: list[str],
    k: int,
    l: int,  # noqa: E741
    score: str,
    suppression: float,
) -> None:
    assume(not suppression or not SCORES[score].weighs_anonymity)

    def good(group: list[dict[str, Any]]) -> bool:
        return len(group) >= k and len({record["s"] for record in group}) >= l

    tops = {"p": trees[0], "q": trees[1], "x": (-INF, INF), "y": (-INF, INF)}
    tops = {name: top for name, top in tops.items() if name in names}
    requirement = mq.KAnonymity(names, k) & mq.LDiversity(names[::-1], l=l, sensitive="s")
    algorithm = mq.TopDownSpecialization("class" if SCORES[score].needs_class else None, score, suppression)
    if not good(records):
        with pytest.raises(mq.RequirementUnreachable):
            mq.anonymize(as_table(records, tops), requirement, algorithm)
        return
    allowance = round(suppression * 100) * len(records) // 100
    steps, cut = specialise(records, tops, [(names, good)], algorithm.target, score, allowance)

    release = mq.anonymize(as_table(records, tops), requirement, algorithm, order="input")
    assert_same_steps(release, steps)
    general = [
        {name: next(written(value) for value in cut[name] if carries(record[name], value)) for name in tops}
        for record in records
    ]
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for record, cells in zip(records, general, strict=True):
        groups.setdefault(tuple(cells.values()), []).append(record)
    expected = [cells for cells in general if good(groups[tuple(cells.values())])]
    assert [{name: cells[name] for name in tops} for cells in release.table.to_pylist()] == expected
    assert release.suppressed == len(records) - len(expected) <= allowance


FEW_OLD = mq.Table(
    pa.table(
        {
            "job": ["cook"] * 4 + ["nurse"] * 4 + ["smith"],
            "age": [30, 30, 30, 30, 30, 30, 60, 60, 60],
            "note": [f"n{row}" for row in range(9)],
            "class": list("NNYYNYNYY"),
        }
    ),
    mq.Schema(
        [
            mq.Attribute("job", taxonomy=mq.Taxonomy(tree("*", "cook", "nurse", "smith"))),
            mq.Attribute("age", "continuous"),
            mq.Attribute("note"),
        ]
    ),
)


def few_old(suppression: float, k: int = 2, score: str = "certainty") -> mq.Release:
    algorithm = mq.TopDownSpecialization("class" if SCORES[score].needs_class else None, score, suppression)
    return mq.anonymize(FEW_OLD, mq.KAnonymity(["job", "age"], k), algorithm, order="input")


def test_one_record_of_nine_stops_every_specialization_of_jobs() -> None:
    """By hand. A job at its top costs 1 a record; the ages below and from 60 on are 1 and 0 wide.

    Splitting age saves 9 − 6·1 − 3·0 = 3 in width. To split jobs would save 9, and leave the smith alone. Shown is what
    it saves in distinct values: both, since each half has one of the two ages.
    """
    release = few_old(0)
    assert [(step.attribute, step.score) for step in release.steps] == [("age", 9.0)]
    assert set(release.table["job"].to_pylist()) == {"*"}
    assert release.metrics["ncp"] == pytest.approx(9 / 18)


def test_without_it_the_others_keep_their_jobs() -> None:
    release = few_old(0.12)  # 1.08 of 9 records
    assert [(step.attribute, step.score) for step in release.steps] == [("job", 9.0), ("age", 9.0)]
    assert release.table["note"].to_pylist() == [f"n{row}" for row in range(8)]
    assert release.table["job"].to_pylist() == ["cook"] * 4 + ["nurse"] * 4
    assert release.table["age"].to_pylist() == ["[-inf, 60)"] * 6 + ["[60, inf)"] * 2
    assert (release.suppressed, release.summary["suppressed"], release.summary["released"]) == (1, 1, 8)
    assert release.group_sizes.tolist() == [4, 2, 2]
    # Everybody keeps a single age, the smith loses both cells.
    assert release.metrics["ncp"] == pytest.approx(2 / 18, abs=1e-4)
    assert release.metrics["discernibility"] == 16 + 4 + 4 + 9
    assert release.settings["algorithm"] == {"name": "tds", "score": "certainty", "suppression": 0.12}
    # What only suppressed records have is nowhere in the release.
    assert "smith" not in release.table["job"].combine_chunks().dictionary.to_pylist()
    [job] = [column for column in release.columns if column.name == "job"]
    assert job.labels == ("cook", "nurse")


def test_certainty_leaves_nobody_out_for_less_than_they_cost() -> None:
    # With k = 4, splitting ages next would leave out the four nurses. It saves 3, and they would cost 4 · 2.
    release = few_old(0.6, k=4)
    assert [step.attribute for step in release.steps] == ["job"]
    assert release.suppressed == 1
    # Other scores use what they may.
    assert few_old(0.6, k=4, score="discernibility").suppressed == 5


def test_a_share_counts_as_it_is_written() -> None:
    algorithm = mq.TopDownSpecialization(suppression=0.29)
    assert [algorithm.may_suppress(n) for n in (100, 99, 3, 0)] == [29, 28, 0, 0]
    assert int(0.29 * 100) == 28  # what binary fractions would make of it


@pytest.mark.parametrize("share", [-0.1, 1, 1.5, float("nan"), "0.1", True, None])
def test_a_share_is_at_least_0_and_below_1(share: Any) -> None:
    with pytest.raises(mq.ParameterError, match=r"suppression parameter .* at least 0 and below 1"):
        mq.TopDownSpecialization(suppression=share)


def test_suppression_needs_one_qid() -> None:
    two = mq.KAnonymity(["Sex", "Job"], k=4) & mq.KAnonymity(["Sex", "Salary"], k=5)
    algorithm = mq.TopDownSpecialization("Class", suppression=0.1)
    with pytest.raises(mq.ParameterError, match=r"same QID; .* over Sex, Job, and .* over Sex, Salary"):
        mq.anonymize(loan_table(), two, algorithm)
    covered = mq.KAnonymity(["Sex", "Job"], k=4) & mq.KAnonymity(["Job"], k=3)
    assert mq.verify(mq.anonymize(loan_table(), covered, algorithm).table, covered)


def test_suppression_is_refused_with_the_score_that_weighs_the_smallest_group() -> None:
    with pytest.raises(mq.ParameterError, match="weighs the smallest group"):
        mq.TopDownSpecialization("Class", "info-gain-per-anonymity-loss", suppression=0.1)


def test_open_outer_intervals_without_bounds() -> None:
    table = pa.table({"age": [20, 20, 60, 60], "class": ["N", "N", "Y", "Y"]})
    release = mq.anonymize(table, mq.KAnonymity(["age"], k=2), mq.TopDownSpecialization("class"))
    assert sorted(set(release.table["age"].to_pylist())) == ["[-inf, 60)", "[60, inf)"]


def test_a_pure_value_is_not_specialised() -> None:
    table = pa.table({"age": [1, 2, 3, 4], "class": ["Y"] * 4})
    release = mq.anonymize(table, mq.KAnonymity(["age"], k=1), mq.TopDownSpecialization("class"))
    assert release.steps == ()


def test_score_zero_still_wins_when_nothing_else_is_valid() -> None:
    taxonomy = mq.Taxonomy(tree("*", "a", "b"))
    table = mq.Table(
        pa.table({"p": list("aabb"), "class": list("YNYN")}), mq.Schema([mq.Attribute("p", taxonomy=taxonomy)])
    )
    release = mq.anonymize(table, mq.KAnonymity(["p"], k=2), mq.TopDownSpecialization("class"))
    assert [(step.value, step.score) for step in release.steps] == [("*", 0.0)]


def test_attributes_in_no_qid_are_published_as_they_are() -> None:
    table = pa.table({"age": [1, 2, 3, 4], "note": [" x", "y ", "", "ü"], "class": list("YNYN")})
    schema = mq.Schema([mq.Attribute("age", "continuous")])
    release = mq.anonymize(
        mq.Table(table, schema), mq.KAnonymity(["age"], k=4), mq.TopDownSpecialization("class"), order="input"
    )
    assert release.table.column_names == ["age", "class"]
    assert release.summary["dropped"] == ["note"]
    schema = mq.Schema([mq.Attribute("age", "continuous"), mq.Attribute("note")])
    kept = mq.Table(table.set_column(1, "note", pa.array([" x", "y ", "z", "ü"])), schema)
    release = mq.anonymize(kept, mq.KAnonymity(["age"], k=4), mq.TopDownSpecialization("class"), order="input")
    assert release.table["note"].to_pylist() == [" x", "y ", "z", "ü"]


# --- public state ---
# The public state by hand: who carries what, and who is left out; in one chunk and in several.


@pytest.fixture(params=["here", "local"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    monkeypatch.setattr(LocalEngine, "rows_at_once", lambda *_: 3)
    with Here() if request.param == "here" else LocalEngine(threads=1) as engine:
        yield engine


def instruction(attribute: str, value: int, *children: int) -> Instruction:
    return Instruction(attribute, value, max(children) + 1, np.array(children, np.uint8))


def n_records(n: int, engine: Engine) -> Records:
    """So many records, of which nothing is known."""
    return on_engine(Records.of(mq.Table(pa.table({"row": range(n)})), []), engine)


def kept(state: PublicState) -> list[int]:
    """The records that are released."""
    assert state.released is not None
    return np.flatnonzero(np.concatenate([*state.each_label()])).tolist()


def test_records_that_are_left_out_stay_left_out(engine: Engine) -> None:
    """Seven records, groups of two. Two children of a leave out a record each; b then splits the others."""
    state = PublicState(n_records(7, engine), ["a", "b"], [KAnonymity(["a", "b"], 2)], {}, may_suppress=3)
    first = state.told(instruction("a", 0, 0, 0, 0, 0, 0, 1, 2))
    assert state.allows(first)
    assert state.leaves_out(first) == 2
    assert list(state.specialise(first)) == [1, 2, 3]
    assert kept(state) == [0, 1, 2, 3, 4]
    assert state.all_carriers("a") == [5, 1, 1]
    assert [state.n_carriers("a", value) for value in state.cut["a"]] == [5, 1, 1]
    assert state.all_carriers("b") == [state.n_carriers("b", 0)] == [7]

    # The two that are out agree on b, and would be a large enough group with each other: they are not asked.
    second = state.told(instruction("b", 0, 0, 0, 0, 1, 1, 2, 2))
    assert state.leaves_out(second) == 0
    worse = state.told(instruction("b", 0, 0, 1, 1, 2, 3, 3, 3))
    assert state.leaves_out(worse) == 3
    assert not state.allows(worse)
    third = state.told(instruction("b", 0, 0, 0, 1, 1, 2, 2, 2))
    assert state.leaves_out(third) == 1
    state.specialise(third)
    assert kept(state) == [0, 1, 2, 3]
    [partition] = state.partitions
    assert partition.sizes[0] == 3
    assert sorted(partition.sizes[1:][partition.sizes[1:] > 0].tolist()) == [2, 2]


def test_without_an_allowance_everybody_is_kept(engine: Engine) -> None:
    state = PublicState(n_records(3, engine), ["a"], [KAnonymity(["a"], 2)], {})
    assert not state.allows(state.told(instruction("a", 0, 0, 0, 1)))
    assert state.released is None
