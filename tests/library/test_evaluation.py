"""A finished release beside its original: metrics, query error, classification errors, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import masquerade as mq
from people_job import write_people

QID = ["birth_date", "salary", "job"]
K = mq.KAnonymity(QID, k=15)


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> mq.Table:
    folder = tmp_path_factory.mktemp("people")
    write_people(folder, 600, missing=0.005)
    return mq.read(folder / "people.csv", folder / "taxonomies", identifiers=["ssn", "name"])


@pytest.fixture(scope="module")
def release(people: mq.Table) -> mq.Release:
    return mq.anonymize(people, K, mq.TopDownSpecialization("approved"), order="input", sensitive=["disease"])


def test_metrics_are_those_that_the_release_was_published_with(people: mq.Table, release: mq.Release) -> None:
    found = mq.evaluate(people, release.table, K, "approved", queries=0, folds=0)
    assert found["metrics"] == pytest.approx(release.summary["metrics"])
    assert found["attribute_losses"] == pytest.approx(dict(release.attribute_losses))
    for key in ("rows", "dropped_rows", "released"):
        assert found[key] == release.summary[key]
    assert found["dropped_rows"] > 0
    assert "classification" not in found
    assert "query_error" not in found


def test_nothing_generalised_is_nothing_lost() -> None:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"a": rng.integers(0, 40, 300), "b": rng.integers(0, 40, 300)})
    found = mq.evaluate(frame, frame, mq.KAnonymity(["a", "b"], 1), queries=50)
    assert found["metrics"]["ncp"] == 0
    assert found["query_error"]["mean"] == pytest.approx(0)
    assert found["query_error"]["queries"] == 50


def test_classification_errors_on_a_split(people: mq.Table, release: mq.Release) -> None:
    sources = {"bank": ["salary", "job"], "town hall": ["town", "sex"]}
    found = mq.evaluate(people, release.table, K, "approved", queries=0, train=400, sources=sources)
    errors = found["classification"]
    assert set(errors) == {"BE", "UE", "IE", "SE"}
    assert set(errors["SE"]) == {"bank", "town hall"}
    flat = [errors["BE"], errors["UE"], errors["IE"], *errors["SE"].values()]
    assert all(0 <= error < 0.6 for error in flat)
    # Loans depend on salaries: whoever knows them errs less than whoever knows towns alone.
    assert errors["SE"]["bank"] < errors["SE"]["town hall"]
    tested = found["released"] - 400
    assert all(error * tested == pytest.approx(round(error * tested)) for error in flat)


def test_cross_validation_is_repeatable(people: mq.Table, release: mq.Release) -> None:
    def ask(**options: Any) -> Any:
        return mq.evaluate(people, release.table, K, "approved", queries=0, folds=3, **options)["classification"]

    assert ask() == ask()
    assert "SE" not in ask()


def test_without_a_class_there_is_no_classification() -> None:
    frame = pd.DataFrame({"a": range(50)})
    assert "classification" not in mq.evaluate(frame, frame, mq.KAnonymity(["a"], 1))


# --- refused ---


def test_a_shuffled_release_is_refused(people: mq.Table) -> None:
    shuffled = mq.anonymize(people, K, mq.TopDownSpecialization("approved"))
    with pytest.raises(mq.DataError, match=r"is this release in input order \(order = \"input\"\)\?"):
        mq.evaluate(people, shuffled.table, K, "approved")


def test_a_shuffled_release_is_noticed_even_when_all_is_general() -> None:
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"a": range(100), "c": rng.choice(["x", "y"], 100)})
    everything = mq.KAnonymity(["a"], 100)
    shuffled = mq.anonymize(frame, everything, mq.TopDownSpecialization("c"))
    assert set(shuffled.table["a"].to_pylist()) == {"[-inf, inf)"}
    with pytest.raises(mq.DataError, match=r'column c: "[xy]" was "[xy]" in table: row .* in input order'):
        mq.evaluate(frame, shuffled.table, everything, "c")


def test_suppressed_rows_are_refused(people: mq.Table, release: mq.Release) -> None:
    with pytest.raises(mq.DataError, match="nothing suppressed"):
        mq.evaluate(people, release.table.slice(0, 100), K, "approved")


def test_rows_that_are_too_few_to_test_on(people: mq.Table, release: mq.Release) -> None:
    rows = release.summary["released"]
    for train in (0, rows, rows + 7):
        with pytest.raises(mq.ParameterError, match=f"of {rows} complete rows, 1 to {rows - 1}. Got {train} instead"):
            mq.evaluate(people, release.table, K, "approved", queries=0, train=train)


@pytest.mark.parametrize(("name", "value"), [("queries", -1), ("folds", 2.5), ("train", True), ("seed", "x")])
def test_strange_numbers_are_refused(people: mq.Table, release: mq.Release, name: str, value: Any) -> None:
    with pytest.raises(mq.ParameterError, match=f"The {name} parameter of evaluate must be a whole number"):
        mq.evaluate(people, release.table, K, "approved", **{name: value})


def test_one_fold_is_refused(people: mq.Table, release: mq.Release) -> None:
    with pytest.raises(mq.ParameterError, match="folds"):
        mq.evaluate(people, release.table, K, "approved", queries=0, folds=1)


def test_a_release_without_its_columns_is_refused(people: mq.Table, release: mq.Release) -> None:
    with pytest.raises(mq.DataError, match='no column "salary"'):
        mq.evaluate(people, release.table.drop_columns(["salary"]), K, "approved")


def test_cells_that_are_no_value_are_refused(tmp_path: Path, people: mq.Table, release: mq.Release) -> None:
    frame = release.table.to_pandas()
    frame["job"] = frame["job"].astype(str)
    frame.loc[3, "job"] = "Astronaut"
    with pytest.raises(mq.DataError, match=r'row 4, column job: "Astronaut" is no value of the attribute'):
        mq.evaluate(people, frame, K, "approved")
