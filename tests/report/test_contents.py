"""What a report says of requirements that wrap others, and of the worth of Mondrian's groups."""

from __future__ import annotations

import dataclasses
import re
from datetime import UTC, datetime

import pyarrow as pa

import masquerade as mq
from masquerade.report import attacks_on, render_report
from masquerade.report.release import contents


def test_what_m_privacy_wraps_has_rows_of_its_own() -> None:
    rows = 40
    frame = pa.table(
        {
            "age": [20 + at % 20 for at in range(rows)],
            "hospital": [("north", "south", "west")[at % 3] for at in range(rows)],
            "disease": [("flu", "gout")[at % 2] for at in range(rows)],
        }
    )
    table = mq.Table(frame, mq.Schema([mq.Attribute("age", "continuous")]))
    plain = mq.KAnonymity("age", 3) & mq.LDiversity("age", 2, "disease")
    release = mq.anonymize(table, mq.MPrivacy(1, plain, "hospital"), mq.Mondrian())
    told = contents(release)
    assert [each["model"] for each in told["requirements"]] == ["m-privacy", "k-anonymity", "l-diversity"]
    assert told["requirements"][0]["parameters"] == [("m", "1"), ("provider", "hospital")]
    assert told["requirements"][0]["meaning"].startswith("colluding providers")
    queries = {name: value for name, value, _ in told["metrics"]}["query error"]
    assert release.query_error is not None
    assert float(queries) == float(f"{release.query_error.mean:.4g}")


def test_providers_that_are_named_in_a_release_are_attackers_too() -> None:
    frame = pa.table({"age": [1, 1, 1, 2, 2, 2], "hospital": ["north", "south", "south"] * 2})
    table = mq.Table(frame, mq.Schema([mq.Attribute("age", "continuous"), mq.Attribute("hospital")]))
    asked = mq.MPrivacy(1, mq.KAnonymity("age", 1), "hospital")
    release = mq.anonymize(table, asked, mq.Mondrian(), order="input")
    named = dataclasses.replace(release, table=frame.set_column(0, "age", release.table["age"]))
    findings = {each.name: each for each in attacks_on(named)}
    assert findings["subtraction"].value == 1  # south takes its own two records out, and one is left
    assert "south" in findings["subtraction"].meaning
    unnamed = dataclasses.replace(release, table=frame.select(["age"]))
    assert "subtraction" not in {each.name for each in attacks_on(unnamed)}


def test_a_report_of_several_parties_is_named_after_them() -> None:
    table = mq.Table(pa.table({"age": [1, 2]}), mq.Schema([mq.Attribute("age", "continuous")]))
    release = mq.anonymize(table, mq.KAnonymity("age", 1))
    of = {"source": "bank and clinic and shop", "parties": ["bank", "clinic", "shop"], "argmax": "secure"}
    told = contents(dataclasses.replace(release, settings=of))
    assert told["headline"]["source"] == "bank, clinic and shop"
    assert told["settings"]["rows"] == [("parties", "bank, clinic, shop"), ("argmax", "secure")]


def people(rows: int = 400) -> mq.Table:
    frame = pa.table(
        {
            "age": [20 + at * 7 % 60 for at in range(rows)],
            "born": [f"19{40 + at * 11 % 60}-0{1 + at % 9}-1{at % 10}" for at in range(rows)],
            "sex": [("f", "m")[at % 2] for at in range(rows)],
            "disease": [("flu", "gout", "cold")[at % 3] for at in range(rows)],
        }
    )
    attributes = [mq.Attribute("age", "continuous"), mq.Attribute("born", "date"), mq.Attribute("sex", taxonomy="flat")]
    return mq.Table(frame, mq.Schema(attributes))


def test_the_verdict_says_in_words_what_holds_what_was_lost_and_what_to_do() -> None:
    release = mq.anonymize(people(), mq.KAnonymity(["age", "sex"], 20), sensitive="disease")
    losses = {"age": 0.95, "sex": 0.0}
    changed = dataclasses.replace(
        release,
        attribute_losses=losses,
        attribute_information={"age": 0.05, "sex": 1.0},
        metrics={**release.metrics, "information_kept": 0.2},
    )
    told = contents(changed)["headline"]
    least = int(release.group_sizes.min())
    assert told["sentences"] == [
        f"Whoever knows age and sex of a person has at least {least} records to choose from; 20 were required.",
        "All 400 records are released.",
        "sex kept all its detail.",
        "age lost 95.0\u202f% of its detail.",
        "20.0\u202f% of the columns' information (entropy) is kept, least of age: 5.0\u202f%.",
        *told["sentences"][5:],
    ]
    assert len(told["sentences"]) == 6
    assert [line.split(":")[0] for line in told["advice"]] == [
        "age is hardly worth releasing like this",
        "born is published as in the input",
        "No requirement protects disease",
    ]


def test_the_verdict_says_what_groups_tell_of_class_and_sensitive_values() -> None:
    frame = pa.table(
        {
            "sex": ["f"] * 4 + ["m"] * 6,
            "income": ["high"] * 4 + ["high", "low", "low", "low", "low", "low"],
            "disease": ["flu", "cold"] * 5,
        }
    )
    table = mq.Table(frame, mq.Schema([mq.Attribute("sex", taxonomy="flat")]))
    method = mq.TopDownSpecialization("income")
    told = contents(mq.anonymize(table, mq.KAnonymity("sex", 4), method, sensitive="disease"))["headline"]
    assert told["sentences"][-2:] == [
        "No record is in a group with a single disease; in the worst group one disease value is 0.0 points "
        "more frequent than in the whole release.",
        "40.0\u202f% of the records are in a group with a single income; in the worst group one income value is "
        "50.0 points more frequent than in the whole release.",
    ]
    assert [line for line in told["advice"] if line.startswith("income is the class, and no requirement")]
    bounded = mq.KAnonymity("sex", 4) & mq.ConfidenceBounding("sex", 0.99, "income")
    kept = contents(mq.anonymize(table, bounded, method))["headline"]
    assert not [line for line in kept["advice"] if line.startswith("income is the class, and no requirement")]


def test_the_top_tells_date_job_version_and_digest() -> None:
    release = mq.anonymize(people(), mq.KAnonymity("sex", 20))
    made = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
    job = {"data": {"source": "/srv/x/people.csv"}, "privacy": [{"model": "k-anonymity", "qid": ["sex"], "k": 20}]}
    release = dataclasses.replace(release, made=made, settings={"job_file": "/srv/x/mine.toml", "job": job})
    told = contents(release, "ab" * 32)
    assert told["about"] == [
        ("Made", "2026-03-04 05:06 UTC"),
        ("Job", "mine.toml"),
        ("By", f"Masquerade {mq.__version__}"),
        ("SHA-256 of the table", "ab" * 32),
    ]
    assert told["settings"]["job_text"].unescape() == (
        '[data]\nsource = "people.csv"\n[[privacy]]\nmodel = "k-anonymity"\nqid = ["sex"]\nk = 20'
    )
    assert "/srv" not in render_report(release)


def test_many_intervals_become_a_histogram_of_their_widths() -> None:
    release = mq.anonymize(people(), mq.KAnonymity(["age", "born", "sex"], 2), mq.Mondrian())
    trees = {tree["name"]: tree for tree in contents(release)["trees"]}
    assert trees["sex"]["chart"]
    assert trees["born"]["chart"] is None
    rows = trees["born"]["widths"]["rows"]
    assert sum(int(row["values"]) for row in rows) == len(set(release.table.column("born").to_pylist()))
    assert sum(int(re.match(r"\d+", row["records"])[0]) for row in rows) == 400  # type: ignore[index] # it begins with one
    assert rows[-1]["words"] == "open at one end"


def test_sample_rows_are_rows_of_the_release() -> None:
    release = mq.anonymize(people(), mq.KAnonymity(["age", "born", "sex"], 20), sensitive="disease")
    sample = contents(release)["sample"]
    held = {tuple(map(str, row.values())) for row in release.table.to_pylist()}
    assert len(sample["rows"]) == 6
    assert all(tuple(row) in held for row in sample["rows"])
