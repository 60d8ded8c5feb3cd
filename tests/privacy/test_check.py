"""The independent check, against counts made with collections.Counter."""

from __future__ import annotations

import datetime
import decimal
import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from examples import examples
from masquerade.data import Origin, Table
from masquerade.errors import DataError, ParameterError, RequirementViolated
from masquerade.privacy import (
    ConfidenceBounding,
    Conjunction,
    EntropyLDiversity,
    KAnonymity,
    LDiversity,
    RecursiveLDiversity,
    TCloseness,
    check,
    insist,
    verify,
)
from privacy.definitions import EXAMPLES, QID, figure, satisfied

FRAME = pa.table(
    {
        "age": ["[17, 20)", "[20, inf)", "[17, 20)", "[20, inf)", "[20, inf)", "[17, 20)"],
        "job": ["Manager", "Clerk", "Clerk", "Clerk", "Manager", "Clerk"],
        "disease": ["Flu", "Flu", "HIV", "HIV", "Flu", "HIV"],
    }
)


def released(frame: Any, name: str = "release.csv") -> Table:
    return Table(frame, origin=Origin(name))


# A row: age, job, disease. All four values of the disease occur, so that listed values are known.
rows = st.tuples(st.sampled_from("xyz"), st.sampled_from(["m", " m", "n"]), st.sampled_from("abcd"))
tables = st.lists(rows, min_size=0, max_size=24).map(lambda some: [*some, *zip("xxyz", "mnmm", "abcd", strict=True)])


@given(tables, st.randoms(use_true_random=False), st.lists(st.sampled_from(EXAMPLES), min_size=1, max_size=4))
@settings(max_examples=examples(300), deadline=None)
def test_against_an_independent_count(table: list[tuple[str, str, str]], random: Any, examples: list[Any]) -> None:
    random.shuffle(table)
    age, job, disease = (list(column) for column in zip(*table, strict=True))
    frame = pa.table({"disease": disease, "job": pa.array(job).dictionary_encode(), "age": age})
    requirement = Conjunction([make(QID[: 1 + number % 2]) for number, make in enumerate(examples)])
    verdicts = verify(frame, requirement)
    assert tuple(verdict.requirement for verdict in verdicts) == requirement.parts
    for part, verdict in zip(requirement.parts, verdicts, strict=True):
        groups: dict[tuple[str, ...], list[str]] = {}  # in the order of the rows
        for *cells, value in table:
            groups.setdefault(tuple(cells[: len(part.qid)]), []).append(value)
        broken = [cells for cells, values in groups.items() if not satisfied(part, values, disease)]
        worst = (min if part.worst == "smallest" else max)(figure(part, g, disease) for g in groups.values())
        assert verdict.groups == len(groups)
        assert verdict.holds == (not broken)
        assert verdict.value == (None if math.isinf(worst) else pytest.approx(worst))
        if broken:
            assert verdict.group == dict(zip(part.qid, broken[0], strict=True))
            assert verdict.violation is not None
        else:
            assert (verdict.group, verdict.violation) == (None, None)


@given(tables, st.sampled_from(EXAMPLES[1:]), st.integers(1, 12))
@settings(max_examples=examples(100), deadline=None)
def test_a_few_groups_at_a_time_give_the_same(table: list[tuple[str, str, str]], make: Any, cells: int) -> None:
    age, job, disease = (list(column) for column in zip(*table, strict=True))
    frame = pa.table({"age": age, "job": job, "disease": disease})
    at_once = verify(frame, make(QID))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(check, "_CELLS_AT_A_TIME", cells)
        assert verify(frame, make(QID)) == at_once


def test_the_one_line() -> None:
    frame = pa.table({"age": ["[17, 20)"] * 3 + ["[20, 30)"] * 50, "job": ["Manager"] * 3 + ["Clerk"] * 50})
    (verdict,) = verify(released(frame), KAnonymity(["age", "job"], 50))
    assert verdict.violation == (
        "release.csv: k-anonymity (k = 50) over age, job does not hold: "
        "group (age = [17, 20), job = Manager) has 3 records; at least 50 are required"
    )
    assert verdict.value == 3
    assert verdict.groups == 2


def test_the_first_violating_group_is_the_first_in_the_rows() -> None:
    # Its label sorts last, and a smaller group follows.
    frame = pa.table({"q": ["a"] * 5 + ["z"] * 3 + ["b"] + ["a"]})
    (verdict,) = verify(frame, KAnonymity("q", 4))
    assert verdict.group == {"q": "z"}
    assert verdict.value == 1


def test_summary_is_json() -> None:
    requirement = (
        KAnonymity(["age", "job"], 2)
        & RecursiveLDiversity(["age"], 2.5, 3, "disease")
        & ConfidenceBounding(["age"], 0.75, "disease", ["HIV"])
    )
    summaries = json.loads(json.dumps([v.summary() for v in verify(FRAME, requirement)], allow_nan=False))
    assert summaries == [
        {
            "model": "k-anonymity",
            "qid": ["age", "job"],
            "k": 2,
            "holds": False,
            "value": 1,
            "groups": 4,
            "first_violating_group": {"age": "[17, 20)", "job": "Manager"},
        },
        {
            "model": "recursive-l-diversity",
            "qid": ["age"],
            "c": 2.5,
            "l": 3,
            "sensitive": "disease",
            "holds": False,
            "value": None,
            "groups": 2,
            "first_violating_group": {"age": "[17, 20)"},
        },
        {
            "model": "confidence-bounding",
            "qid": ["age"],
            "confidence": 0.75,
            "sensitive": "disease",
            "values": ["HIV"],
            "holds": True,
            "value": pytest.approx(2 / 3),
            "groups": 2,
        },
    ]


def test_insist() -> None:
    insist(verify(FRAME, KAnonymity(["age"], 3)))
    verdicts = verify(FRAME, KAnonymity(["age"], 3) & KAnonymity(["age"], 4) & LDiversity(["job"], 3, "disease"))
    with pytest.raises(RequirementViolated) as caught:
        insist(verdicts)
    assert caught.value.lines == (
        "table: k-anonymity (k = 4) over age does not hold: "
        "group (age = [17, 20)) has 3 records; at least 4 are required",
        "table: l-diversity (l = 3, sensitive = disease) over job does not hold: "
        "group (job = Manager) has 1 different value of disease; at least 3 are required",
    )


def test_the_input_is_untouched() -> None:
    frame = FRAME.to_pandas()
    before = frame.copy(deep=True)
    verify(frame, KAnonymity(["age", "job"], 2) & LDiversity(["age"], 2, "disease"))
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize("make", EXAMPLES)
def test_an_empty_table_holds_nobody(make: Any) -> None:
    (verdict,) = verify(FRAME.slice(0, 0), make(QID))
    assert (verdict.holds, verdict.value, verdict.groups, verdict.violation) == (True, None, 0, None)


def test_qid_cells_that_differ_by_a_space_are_apart() -> None:
    frame = pa.table({"job": ["Clerk", "Clerk ", "Clerk", "Clerk "], "note": ["a", "", "a", None]})
    spaced, empty = verify(frame, KAnonymity("job", 3) & KAnonymity("note", 3))
    assert (spaced.groups, spaced.value) == (2, 2)
    assert empty.groups == 2  # a missing cell and an empty one look the same in a file
    trailing = verify(frame.slice(1), KAnonymity("job", 2))[0]
    assert trailing.holds is False
    (verdict,) = verify(frame.take([1, 0, 0]), KAnonymity("job", 2))
    assert verdict.violation is not None
    assert 'group (job = "Clerk ") has 1 record' in verdict.violation
    (verdict,) = verify(frame.take([1, 0, 0]), KAnonymity("note", 2))
    assert verdict.group == {"note": ""}
    assert 'group (note = "") has 1 record' in str(verdict.violation)


def test_sensitive_values_that_differ_by_a_space_are_one() -> None:
    frame = pa.table({"q": ["x", "x", "x"], "d": ["Flu", " Flu", "Flu "]})
    assert verify(frame, LDiversity("q", 2, "d"))[0].value == 1
    (verdict,) = verify(frame, ConfidenceBounding("q", 0.5, "d", ["Flu"]))
    assert (verdict.holds, verdict.value) == (False, 1.0)


def test_control_characters_do_not_break_the_line() -> None:
    frame = pa.table({"a\nb": ["x\r\ny\x1b[2J", "z"], "d": ["1", "1"]})
    (verdict,) = verify(released(frame, "my\nfile"), LDiversity(["a\nb"], 2, "d"))
    assert verdict.violation == (
        "my\\nfile: l-diversity (l = 2, sensitive = d) over a\\nb does not hold: "
        "group (a\\nb = x\\r\\ny\\x1b[2J) has 1 different value of d; at least 2 are required"
    )
    assert verdict.group == {"a\nb": "x\r\ny\x1b[2J"}


@pytest.mark.parametrize(
    ("cells", "written"),
    [
        (pa.array([1.0, 2.5, 2.5]), "1"),
        (pa.array([7, 8, 8]), "7"),
        (pa.array([None, 8, 8]), ""),
        (pa.array([None, 2.5, 2.5]), ""),
        (pa.array([True, False, False]), "True"),
        (pa.array([datetime.date(2020, 2, 29), None, None]), "2020-02-29"),
        (pa.array([decimal.Decimal("1.10"), decimal.Decimal(2), decimal.Decimal(2)]), "1.1"),
        (pa.array([math.nan, 1.0, 1.0]), "nan"),
        (pa.DictionaryArray.from_arrays(pa.array([2, 0, 1]), pa.array(["x", "x", "y"])), "y"),
        (pa.DictionaryArray.from_arrays(pa.array([None, 0, 0], pa.int8()), pa.array(["x"])), ""),
    ],
    ids=lambda value: str(getattr(value, "type", value)),
)
def test_cells_of_every_type(cells: pa.Array, written: str) -> None:
    frame = pa.table({"q": cells, "c": ["all", "all", "all"]})
    (verdict,) = verify(frame, KAnonymity("q", 2))
    assert verdict.groups == 2
    assert verdict.group == {"q": written}
    (verdict,) = verify(frame, EntropyLDiversity("c", 1.8, "q"))
    assert verdict.holds


def test_a_column_of_nothing_is_one_group() -> None:
    assert verify(pa.table({"q": pa.nulls(3)}), KAnonymity("q", 3))[0].holds


def test_missing_columns_are_named_all_at_once() -> None:
    requirement = KAnonymity(["agee", "job"], 2) & LDiversity(["age"], 2, "diseas")
    with pytest.raises(DataError) as caught:
        verify(released(FRAME), requirement)
    assert caught.value.lines == (
        'release.csv: no column "agee" (did you mean "age"?); the columns are: age, job, disease',
        'release.csv: no column "diseas" (did you mean "disease"?); the columns are: age, job, disease',
    )


@pytest.mark.parametrize(
    "cells",
    [
        pa.array([[1], [2]]),
        pa.array([{"x": 1}, None]),
        pa.array([b"\xff", b"a"]),
        pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
    ],
)
def test_cells_that_cannot_be_compared(cells: pa.Array) -> None:
    with pytest.raises(DataError, match="column q"):
        verify(pa.table({"q": cells}), KAnonymity("q", 2))


def test_unknown_listed_values() -> None:
    requirement = ConfidenceBounding("age", 0.5, "disease", ["HVI"])
    with pytest.raises(ParameterError, match='Got "HVI" instead \\(did you mean "HIV"\\?\\)'):
        verify(FRAME, requirement)
    (verdict,) = verify(FRAME, requirement, bind=False)
    assert (verdict.holds, verdict.value) == (True, 0.0)


def test_ordered_distance_goes_by_number() -> None:
    # As text, "10" would stand before "8": then the groups would be 1/4 away, not 1/8.
    frame = pa.table({"q": ["x", "x", "y", "y"], "pay": ["9", "8", "10", "8"]})
    (verdict,) = verify(frame, TCloseness("q", 0.2, "pay", "ordered"))
    assert verdict.value == pytest.approx(0.125)


def test_groups_of_one_qid_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    real = check.group_rows

    def counting(columns: Any, n_rows: int) -> Any:
        calls.append(n_rows)
        return real(columns, n_rows)

    monkeypatch.setattr(check, "group_rows", counting)
    verdicts = verify(
        FRAME, KAnonymity(["age", "job"], 9) & LDiversity(["job", "age"], 9, "disease") & KAnonymity("age", 9)
    )
    assert len(calls) == 2
    assert [list(verdict.group or ()) for verdict in verdicts] == [["age", "job"], ["job", "age"], ["age"]]


def test_more_groups_than_a_table_has_cells_for() -> None:
    rng = np.random.default_rng(5)
    columns = {f"c{n}": rng.integers(0, 1000, 300).astype(str) for n in range(9)}
    doubled = pa.table({name: np.concatenate([cells, cells]) for name, cells in columns.items()})
    (verdict,) = verify(doubled, KAnonymity(list(columns), 2))
    assert (verdict.holds, verdict.value, verdict.groups) == (True, 2, 300)
