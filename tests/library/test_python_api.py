"""The Python surface on frames: anything in, a verified release out, and clear words for misuse."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import masquerade as mq
from people_job import write_people

ROWS = {
    "age": [23, 25, 31, 35, 41, 44, 52, 58],
    "weight": [61.5, 72.0, 80.25, 66.0, 90.5, 55.0, 70.0, 71.5],
    "disease": ["Flu", "HIV", "Flu", "Asthma", "HIV", "Flu", "Asthma", "Flu"],
    "income": ["N", "N", "Y", "Y", "N", "Y", "Y", "Y"],
}
K2 = mq.KAnonymity(["age", "weight"], k=2)
ADULT = Path(__file__).parents[2] / "../shared/data/adult"


def duck() -> Any:
    frame = pd.DataFrame(ROWS)
    return duckdb.from_df(frame)


FRAMES = {
    "pandas": lambda: pd.DataFrame(ROWS),
    "polars": lambda: pl.DataFrame(ROWS),
    "pyarrow": lambda: pa.table(ROWS),
    "duckdb": duck,
    "Table": lambda: mq.Table(pd.DataFrame(ROWS)),
}


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("algorithm", [None, mq.Mondrian(), mq.TopDownSpecialization("income")])
def test_a_sensitive_column_is_named_once(listed: bool, algorithm: Any) -> None:
    """In its requirement: whether the schema has it, and which method runs, makes no difference."""
    attributes = [mq.Attribute("age", "continuous"), *([mq.Attribute("disease")] if listed else [])]
    requirement = mq.LDiversity(["age"], 2, "disease")
    release = mq.anonymize(mq.Table(pa.table(ROWS), mq.Schema(attributes)), requirement, algorithm)
    assert Counter(release.table["disease"].to_pylist()) == Counter(ROWS["disease"])
    assert "weight" not in release.table.column_names
    assert mq.verify(release.table, requirement)


L2 = mq.LDiversity(["age"], l=2)  # of a column that the call, or another requirement, names


def test_a_requirement_takes_the_only_sensitive_column_of_the_call() -> None:
    named = mq.LDiversity(["age"], 2, "disease")
    for asked in (L2, mq.KAnonymity(["age"], 2) & L2):
        release = mq.anonymize(pa.table(ROWS), asked, mq.Mondrian(), sensitive="disease")
        assert [part["sensitive"] for part in release.summary["requirements"] if "sensitive" in part] == ["disease"]
        assert mq.verify(release.table, asked, sensitive=["disease"])
        assert mq.verify(release.table, asked & mq.TCloseness(["age"], 1.0, "disease"))
        assert mq.verify(release.table, named)
        assert mq.roll_up(release, asked).table.num_rows == 8
    assert mq.compare(pa.table(ROWS), L2, methods=["mondrian"], sensitive=["disease"]).rows


def test_the_column_of_providers_is_not_the_sensitive_one() -> None:
    table = pa.table({**ROWS, "hospital": ["a", "b", "c", "d"] * 2})
    asked = mq.MPrivacy(1, mq.KAnonymity(["age"], 2) & L2, "hospital")
    release = mq.anonymize(table, asked, sensitive=["disease", "hospital"])
    assert mq.verify(release.table, asked, sensitive=["disease"])
    with pytest.raises(mq.ParameterError, match=r"of LDiversity must be .* Got none"):
        mq.verify_m_privacy(release.table, asked)


@pytest.mark.parametrize(("given", "found"), [((), "none"), (["disease", "income"], '"disease", "income"')])
def test_a_sensitive_column_that_is_not_told_or_ambiguous(given: Any, found: str) -> None:
    with pytest.raises(mq.ParameterError) as caught:
        mq.anonymize(pa.table(ROWS), L2, sensitive=given)
    assert caught.value.lines == (
        "The sensitive parameter of LDiversity must be the name of an attribute, here or as the only sensitive one "
        f"of the call or of another requirement. Got {found} instead.",
    )


@pytest.mark.parametrize("kind", FRAMES)
def test_any_frame_comes_in_and_goes_out(kind: str) -> None:
    release = mq.anonymize(FRAMES[kind](), K2, mq.TopDownSpecialization("income"), sensitive=["disease"])
    out = pd.DataFrame(release.table.to_pandas())
    assert list(out.columns) == ["age", "weight", "disease", "income"]
    assert Counter(out["disease"]) == Counter(ROWS["disease"])
    assert min(Counter(zip(out["age"], out["weight"], strict=True)).values()) >= 2
    assert pl.from_arrow(release.table).shape == (8, 4)
    assert mq.verify(release.table, K2)
    assert release.summary["released"] == 8


def test_missing_cells_are_dropped_and_counted() -> None:
    frame = pd.DataFrame(ROWS).astype({"age": float})
    frame.loc[2, "age"] = np.nan
    frame.loc[5, "disease"] = None
    release = mq.anonymize(frame, K2, sensitive=["disease"])
    assert (release.summary["rows"], release.summary["dropped_rows"], release.summary["released"]) == (8, 2, 6)
    with pytest.raises(mq.DataError, match=r"row 3, column age: the cell is missing"):
        mq.anonymize(frame, K2, missing="error")


def test_order_is_kept_only_on_request() -> None:
    frame = mq.Table(pd.DataFrame({"age": range(200), "name": [f"p{i}" for i in range(200)]}))
    requirement = mq.KAnonymity(["age"], k=10)
    kept = mq.anonymize(frame, requirement, order="input").table["name"].to_pylist()
    assert kept == frame.arrow["name"].to_pylist()
    shuffled = mq.anonymize(frame, requirement).table["name"].to_pylist()
    assert shuffled != kept
    assert sorted(shuffled) == sorted(kept)


def test_the_design_page_example(tmp_path: Path) -> None:
    write_people(tmp_path, 500)
    table = mq.read(tmp_path / "people.csv", taxonomies=tmp_path / "taxonomies", identifiers=["ssn", "name"])
    requirement = mq.KAnonymity(["salary", "job"], k=20) & mq.LDiversity(["salary", "job"], 2, sensitive="disease")
    release = mq.anonymize(table, requirement, algorithm=mq.TopDownSpecialization(target="approved"))
    assert "ssn" not in release.table.column_names
    assert release.summary["dropped"] == ["ssn", "name"]
    assert {each["model"] for each in release.summary["requirements"]} == {"k-anonymity", "l-diversity"}
    assert mq.verify(release.table, requirement).holds
    release.report(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text("utf-8").lstrip().lower().startswith("<!doctype html")


def test_adult_by_name_of_its_taxonomies(tmp_path: Path) -> None:
    if not (ADULT / "adult.data").is_file():
        pytest.skip("the Adult data set is not beside this checkout (../shared/data/adult)")
    names = (
        "age,workclass,fnlwgt,education,education-num,marital-status,occupation,relationship,race,sex,"
        "capital-gain,capital-loss,hours-per-week,native-country,income"
    )
    file = tmp_path / "adult.csv"
    file.write_text(names + "\n" + (ADULT / "adult.data").read_text().strip() + "\n")
    table = mq.read(file, taxonomies=ADULT / "taxonomies")
    requirement = mq.KAnonymity(["age", "occupation"], k=50)
    release = mq.anonymize(table, requirement, mq.TopDownSpecialization(target="income"))
    assert release.summary["rows"] == 32_561
    assert release.summary["released"] == 30_162  # complete rows, as the data set's own page counts them
    groups = Counter(zip(*(release.table[name].to_pylist() for name in ("age", "occupation")), strict=True))
    assert len(groups) == release.summary["requirements"][0]["groups"] > 10
    assert min(groups.values()) == release.summary["requirements"][0]["value"] >= 50


def test_read_guesses_what_columns_mean(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("n,x,d,word,mixed,none\n1,1.5,2020-01-31,a,1,\n?,-2e3,?,b,x,?\n 3,,1999-12-01,c,2,\n")
    kinds = {each.name: each.kind for each in mq.read(file).schema}
    assert kinds == {
        "n": "continuous", "x": "continuous", "d": "date", "word": "categorical", "mixed": "categorical",
        "none": "categorical",
    }  # fmt: skip


def test_read_takes_a_schema_or_taxonomies(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("n,word\n1,a\n2,b\n")
    schema = mq.Schema([mq.Attribute("n", "continuous"), mq.Attribute("word", taxonomy="flat")])
    assert mq.read(file, schema=schema).schema is schema
    with pytest.raises(mq.ParameterError, match="not both"):
        mq.read(file, taxonomies=tmp_path, schema=schema)


def test_verify_names_the_first_violating_group() -> None:
    found = mq.verify(pd.DataFrame(ROWS), mq.KAnonymity(["income"], k=4))
    assert not found
    assert not found.holds
    assert found.summary["holds"] is False
    with pytest.raises(mq.RequirementViolated, match=r"group \(income = N\) has 3 records; at least 4 are required"):
        found.insist()


# --- misuse ---

FRAME = pd.DataFrame(ROWS)
MISUSE = {
    "unknown attribute": (lambda: mq.anonymize(FRAME, mq.KAnonymity(["agee"], 2)), 'did you mean "age"'),
    "unknown target": (lambda: mq.anonymize(FRAME, K2, mq.TopDownSpecialization("wage")), 'no column "wage"'),
    "unknown sensitive": (
        lambda: mq.anonymize(FRAME, mq.LDiversity(["age"], 2, "diseas")),
        'no column "diseas" (did you mean "disease"?)',
    ),
    "target inside the QID": (lambda: mq.anonymize(FRAME, K2, mq.TopDownSpecialization("age")), "inside the QID"),
    "no requirement": (lambda: mq.anonymize(FRAME, "k=2"), "requirement parameter must be a requirement"),  # type: ignore[arg-type]
    "requirement class": (lambda: mq.verify(FRAME, mq.KAnonymity), "requirement parameter must be"),  # type: ignore[arg-type]
    "name of an algorithm": (lambda: mq.anonymize(FRAME, K2, "tds"), "must be an algorithm such as Top"),  # type: ignore[arg-type]
    "algorithm class": (lambda: mq.anonymize(FRAME, K2, mq.TopDownSpecialization), "must be an algorithm"),  # type: ignore[arg-type]
    "no frame": (lambda: mq.anonymize([1, 2], K2), "__arrow_c_stream__"),
    "k below 1": (lambda: mq.KAnonymity(["age"], 0), "must be a whole number of at least 1. Got 0 instead"),
    "k of numpy below 1": (lambda: mq.KAnonymity(["age"], np.int64(0)), "Got 0 instead"),
    "strange order": (lambda: mq.anonymize(FRAME, K2, order="random"), '"shuffle" or "input"'),  # type: ignore[arg-type]
    "strange missing": (lambda: mq.anonymize(FRAME, K2, missing="fill"), '"drop" or "error"'),  # type: ignore[arg-type]
    "number as sensitive": (lambda: mq.anonymize(FRAME, K2, sensitive=3), "must list names of columns"),  # type: ignore[arg-type]
    "category without taxonomy": (
        lambda: mq.anonymize(mq.Table(FRAME), mq.KAnonymity(["disease"], 2)),
        'needs a taxonomy; name a file, or "flat"',
    ),
    "score without a target": (lambda: mq.TopDownSpecialization(score="info-gain"), "needs a class"),
    "text that is no frame": (lambda: mq.verify("release.csv", K2), "__arrow_c_stream__"),
    "no columns": (lambda: mq.anonymize(pd.DataFrame(), K2), 'no attribute "age"'),
    "doubled columns": (
        lambda: mq.anonymize(pa.table([[1], [2]], names=["age", "age"]), mq.KAnonymity(["age"], 1)),
        "occurs more than once",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MISUSE)
def test_misuse_has_one_clear_line(case: str) -> None:
    do, words = MISUSE[case]
    with pytest.raises(mq.BadInput) as caught:
        do()
    assert words in str(caught.value)
    assert all("\n" not in problem for problem in caught.value.lines)


def test_numbers_of_numpy_are_numbers() -> None:
    assert mq.KAnonymity(["age"], np.int64(2)) == mq.KAnonymity(["age"], 2)
    assert mq.anonymize(FRAME, mq.KAnonymity(["age"], np.int32(3)), sensitive="disease").summary["released"] == 8


def test_what_too_few_rows_cannot_reach() -> None:
    with pytest.raises(mq.RequirementUnreachable, match="no records are left"):
        mq.anonymize(pd.DataFrame(ROWS).iloc[:0], K2)
    with pytest.raises(mq.RequirementUnreachable, match="at least 9 are required"):
        mq.anonymize(FRAME, mq.KAnonymity(["age"], 9))


def test_a_misspelt_identifier_is_not_released(tmp_path: Path) -> None:
    write_people(tmp_path, 100)
    with pytest.raises(mq.ParameterError, match=r'Got "sssn" instead \(did you mean "ssn"\?\)'):
        mq.read(tmp_path / "people.csv", identifiers=["sssn"])
    assert "ssn" not in mq.read(tmp_path / "people.csv", identifiers="ssn").schema


def test_a_report_that_cannot_be_written(tmp_path: Path) -> None:
    release = mq.anonymize(FRAME, K2)
    with pytest.raises(mq.ParameterError, match="there is no folder"):
        release.report(tmp_path / "no" / "report.html")
