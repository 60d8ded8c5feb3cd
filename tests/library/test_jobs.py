"""Jobs from Python: the release, the summary and the files; provider, parties, Parquet and databases."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

import masquerade as mq
from cli.command import files
from job.job_files import JOB, TABLE, changed, write_job


def read_csv(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, dtype=str, keep_default_na=False)


INPUTS = {"people.csv", "job.csv", "job.toml"}


def test_the_summary_has_every_designed_key(tmp_path: Path) -> None:
    written = mq.anonymize_job(write_job(tmp_path, JOB + '[algorithm]\nname = "tds"\n'))
    summary = json.loads(json.dumps(written.summary))
    assert set(summary) >= {
        "rows", "dropped_rows", "released", "suppressed", "dropped", "groups", "unique", "requirements", "steps",
        "metrics", "seconds",
    }  # fmt: skip
    counted = [summary[key] for key in ("rows", "dropped_rows", "released", "suppressed")]
    assert counted == [8, 0, 8, 0]
    assert summary["dropped"] == ["ssn", "hospital"]
    (requirement,) = summary["requirements"]
    assert (requirement["model"], requirement["holds"]) == ("k-anonymity", True)
    assert requirement["value"] >= 2
    assert summary["steps"]
    for step in summary["steps"]:
        assert set(step) >= {"attribute", "value", "children", "score"}
        assert len(step["children"]) >= 2
    assert set(summary["metrics"]) >= {
        "discernibility", "weighted_discernibility", "average_group_size", "ncp", "precision", "loss",
        "classification_metric",
    }  # fmt: skip
    assert {"read", "anonymize", "write"} <= set(summary["seconds"])
    assert files(tmp_path) == INPUTS | {"release.csv", "report.html"}


def test_the_release_is_what_the_summary_says(tmp_path: Path) -> None:
    written = mq.anonymize_job(write_job(tmp_path))
    table = read_csv(tmp_path / "release.csv")
    assert list(table.columns) == ["age", "job", "city", "income", "disease"]
    sizes = Counter(zip(table["age"], table["job"], strict=True))
    assert len(sizes) == written.summary["groups"]
    assert min(sizes.values()) == written.summary["requirements"][0]["value"]
    original = pd.read_csv(tmp_path / "people.csv", dtype=str)
    untouched = ["city", "income", "disease"]
    assert Counter(map(tuple, table[untouched].values)) == Counter(map(tuple, original[untouched].values))
    assert mq.verify_job(tmp_path / "release.csv", tmp_path / "job.toml")


def test_input_order(tmp_path: Path) -> None:
    mq.anonymize_job(write_job(tmp_path, JOB + '[output]\norder = "input"\n'))
    released, original = read_csv(tmp_path / "release.csv"), pd.read_csv(tmp_path / "people.csv", dtype=str)
    assert released[["city", "income", "disease"]].equals(original[["city", "income", "disease"]])


def test_no_report_and_parquet(tmp_path: Path) -> None:
    written = mq.anonymize_job(write_job(tmp_path, JOB + '[output]\ntable = "r.parquet"\nreport = false\n'))
    assert written.report is None
    assert "report" not in written.summary
    assert files(tmp_path) == INPUTS | {"r.parquet"}
    assert pyarrow.parquet.read_table(tmp_path / "r.parquet").num_rows == 8
    assert mq.verify_job(tmp_path / "r.parquet", tmp_path / "job.toml")


SUPPRESSING = JOB + '[algorithm]\nscore = "certainty"\nsuppression = 0.3\n[output]\ntable = "r.parquet"\n'


def test_suppressed_rows_are_counted_and_left_out(tmp_path: Path) -> None:
    summary = mq.anonymize_job(write_job(tmp_path, SUPPRESSING)).summary
    assert 0 < summary["suppressed"] <= 2
    assert summary["released"] == 8 - summary["suppressed"] == sum(1 for _ in released_ids(tmp_path))
    assert mq.verify_job(tmp_path / "r.parquet", tmp_path / "job.toml")
    with pytest.raises(mq.DataError, match="nothing suppressed"):
        mq.evaluate_job(tmp_path / "people.csv", tmp_path / "r.parquet", tmp_path / "job.toml")


def released_ids(folder: Path) -> list[str]:
    return pyarrow.parquet.read_table(folder / "r.parquet")["disease"].to_pylist()


@pytest.mark.parametrize("gone", ["suppressed", "dropped"])
def test_a_parquet_file_tells_nothing_of_rows_that_are_gone(tmp_path: Path, gone: str) -> None:
    job = write_job(tmp_path, SUPPRESSING if gone == "suppressed" else SUPPRESSING.replace("0.3", "0.0"))
    people = (tmp_path / "people.csv").read_text()
    row = "9,119,Nurse,Bern,Kuru,N,north\n" if gone == "suppressed" else "9,?,Nurse,Bern,Kuru,N,north\n"
    (tmp_path / "people.csv").write_text(people + row)
    written = mq.anonymize_job(job)
    assert written.summary["suppressed" if gone == "suppressed" else "dropped_rows"] > 0
    assert "Kuru" not in released_ids(tmp_path)
    assert b"Kuru" not in (tmp_path / "r.parquet").read_bytes()


PROVIDER = changed('class = "income"', 'class = "income"\nprovider = "hospital"')


def test_the_provider_is_left_out_unless_it_is_kept(tmp_path: Path) -> None:
    assert "hospital" in mq.anonymize_job(write_job(tmp_path, PROVIDER)).summary["dropped"]
    assert "hospital" not in read_csv(tmp_path / "release.csv")
    kept = mq.anonymize_job(write_job(tmp_path, PROVIDER + "[output]\nkeep_provider = true\n"))
    assert kept.summary["dropped"] == ["ssn"]
    table = read_csv(tmp_path / "release.csv")
    assert list(table.columns) == ["age", "job", "city", "income", "disease", "hospital"]
    assert Counter(table["hospital"]) == {"north": 4, "south": 4}


def test_all_missing_columns_are_told_at_once(tmp_path: Path) -> None:
    text = PROVIDER.replace('"income"', '"incom"').replace('["disease"]', '["diseas"]').replace("city", "citi")
    text = text.replace('"hospital"', '"hospitl"')
    with pytest.raises(mq.DataError) as caught:
        mq.anonymize_job(write_job(tmp_path, text))
    found = "\n".join(caught.value.lines)
    assert len(caught.value.lines) == 4
    for wrong, right in (("incom", "income"), ("diseas", "disease"), ("citi", "city"), ("hospitl", "hospital")):
        assert f'no column "{wrong}" (did you mean "{right}"?)' in found
    assert files(tmp_path) == INPUTS


def test_an_older_release_survives_a_failure(tmp_path: Path) -> None:
    job = write_job(tmp_path)
    mq.anonymize_job(job)
    before = {name: (tmp_path / name).read_bytes() for name in ("release.csv", "report.html")}
    with pytest.raises(mq.RequirementUnreachable, match="at least 9 are required"):
        mq.anonymize_job(write_job(tmp_path, changed("k = 2", "k = 9")))
    assert before == {name: (tmp_path / name).read_bytes() for name in before}


def test_several_models_hold_together(tmp_path: Path) -> None:
    text = JOB + (
        '[[privacy]]\nmodel = "l-diversity"\nqid = ["age", "job"]\nl = 2\n'
        '[[privacy]]\nmodel = "confidence-bounding"\nqid = ["age", "job"]\nconfidence = 0.5\nvalues = ["HIV"]\n'
        '[[privacy]]\nmodel = "t-closeness"\nqid = ["age", "job"]\nt = 0.9\n'
    )
    summary = mq.anonymize_job(write_job(tmp_path, text)).summary
    assert [each["model"] for each in summary["requirements"]] == [
        "k-anonymity", "l-diversity", "confidence-bounding", "t-closeness",
    ]  # fmt: skip
    table = read_csv(tmp_path / "release.csv")
    for _, group in table.groupby(["age", "job"]):
        assert group["disease"].nunique() >= 2
        assert (group["disease"] == "HIV").mean() <= 0.5


def test_a_listed_value_that_nobody_has(tmp_path: Path) -> None:
    text = JOB + '[[privacy]]\nmodel = "confidence-bounding"\nqid = ["age"]\nc = 0.5\nvalues = ["Fluu"]\n'
    with pytest.raises(mq.BadInput, match=r'did you mean "Flu"'):
        mq.anonymize_job(write_job(tmp_path, text))
    assert files(tmp_path) == INPUTS


# --- verify ---


def test_verify_refuses_identifiers_and_names_groups(tmp_path: Path) -> None:
    job = write_job(tmp_path)
    found = mq.verify_job(tmp_path / "people.csv", job)
    assert not found.holds
    assert found.summary["identifiers"] == ["ssn"]
    with pytest.raises(mq.RequirementViolated) as caught:
        found.insist()
    leak, group = caught.value.lines
    assert leak == f"{tmp_path / 'people.csv'}: column ssn is an identifier; a release never holds one"
    assert "group (age = 23, job = Welder) has 1 record; at least 2 are required" in group


def test_verify_needs_only_what_it_checks(tmp_path: Path) -> None:
    mq.anonymize_job(write_job(tmp_path))
    (tmp_path / "people.csv").unlink()
    (tmp_path / "job.csv").unlink()
    assert mq.verify_job(tmp_path / "release.csv", tmp_path / "job.toml")


# --- evaluate ---

INPUT_ORDER = JOB + '[output]\norder = "input"\n'
PARTIES = (
    '[parties.bank]\nsource = "b.csv"\nid = "ssn"\nattributes = ["job", "income"]\n'
    '[parties.town]\nsource = "t.csv"\nid = "ssn"\nattributes = ["age", "city"]\n'
    '[parties.other]\nsource = "o.csv"\nid = "ssn"\n'
)


def evaluated(folder: Path, original: str, **options: Any) -> dict[str, Any]:
    return mq.evaluate_job(original, folder / "release.csv", folder / "job.toml", queries=20, **options)


def test_classification_of_a_job(tmp_path: Path) -> None:
    mq.anonymize_job(write_job(tmp_path, INPUT_ORDER + PARTIES))
    by_folds = evaluated(tmp_path, str(tmp_path / "people.csv"), folds=2)["classification"]
    assert set(by_folds) == {"BE", "UE", "IE", "SE"}
    assert set(by_folds["SE"]) == {"bank", "town"}
    on_split = evaluated(tmp_path, str(tmp_path / "people.csv"), train=5)["classification"]
    assert all(error in (0, 1 / 3, 2 / 3, 1) for error in (on_split["BE"], on_split["UE"], on_split["IE"]))
    assert "classification" not in evaluated(tmp_path, str(tmp_path / "people.csv"), folds=0)


def test_originals_in_parquet_and_in_a_database(tmp_path: Path) -> None:
    mq.anonymize_job(write_job(tmp_path, INPUT_ORDER))
    expected = evaluated(tmp_path, str(tmp_path / "people.csv"), folds=0)
    frame = pd.read_csv(tmp_path / "people.csv")
    pyarrow.parquet.write_table(pa.Table.from_pandas(frame), tmp_path / "people.parquet")
    with sqlite3.connect(tmp_path / "people.db") as database:
        frame.to_sql("people", database, index=False)
    database.close()
    assert evaluated(tmp_path, str(tmp_path / "people.parquet"), folds=0) == expected
    query = 'source = "sqlite:///people.db"\nquery = "SELECT * FROM people ORDER BY ssn"'
    text = changed('source = "people.csv"', query, INPUT_ORDER)
    mq.anonymize_job(write_job(tmp_path, text))
    assert evaluated(tmp_path, f"sqlite:///{tmp_path}/people.db", folds=0) == expected


def test_the_release_is_read_as_it_was_written_whatever_the_input(tmp_path: Path) -> None:
    write_job(tmp_path, changed('source = "people.csv"', 'source = "people.csv"\nseparator = ";"', INPUT_ORDER))
    (tmp_path / "people.csv").write_text(TABLE.replace(",", ";"))
    mq.anonymize_job(tmp_path / "job.toml")
    assert evaluated(tmp_path, str(tmp_path / "people.csv"), folds=0)["released"] == 8


def test_dropped_rows_are_dropped_again(tmp_path: Path) -> None:
    write_job(tmp_path, INPUT_ORDER)
    (tmp_path / "people.csv").write_text(TABLE.replace("Nurse,Bern", "?,Bern"))
    assert mq.anonymize_job(tmp_path / "job.toml").summary["dropped_rows"] == 1
    found = evaluated(tmp_path, str(tmp_path / "people.csv"), folds=0)
    assert (found["rows"], found["dropped_rows"], found["released"]) == (8, 1, 7)
