"""Boundaries in job files: anonymize, verify, evaluate and compare, by files."""

from __future__ import annotations

from pathlib import Path

import pyarrow.csv
import pytest

import masquerade as mq
from masquerade.jobs import anonymize_job, compare_job, evaluate_job, verify_job

PLACES = """\
San Diego;*California*;West Coast;United States
Los Angeles;*California*;West Coast;United States
Wichita;*Kansas*;*Midwest*;United States
Kansas City;*Kansas*;*Midwest*;United States
Lincoln;Nebraska;*Midwest*;United States
"""
PEOPLE = """\
location,sex
San Diego,M
Los Angeles,M
Wichita,M
Kansas City,M
Lincoln,F
Lincoln,M
Wichita,F
"""
JOB = """\
[data]
source = "people.csv"
[attributes.location]
taxonomy = "places.csv"
[attributes.sex]
taxonomy = "flat"
[[privacy]]
model = "constrained-k-anonymity"
qid = ["location", "sex"]
k = 2
[algorithm]
name = "greedy-cka"
[output]
order = "input"
"""
MM1 = "location,sex\n" + "California,*\n" * 2 + "Midwest,*\n" * 5


@pytest.fixture
def job(tmp_path: Path) -> Path:
    for name, text in (("places.csv", PLACES), ("people.csv", PEOPLE), ("job.toml", JOB), ("mm1.csv", MM1)):
        (tmp_path / name).write_text(text)
    return tmp_path / "job.toml"


def test_a_release_within_marks_of_the_file(job: Path) -> None:
    made = anonymize_job(job)
    assert made.summary["suppressed"] == 0
    assert made.summary["metrics"]["violations"] == 0
    assert made.summary["requirements"][0]["violations"] == 0
    assert made.release.boundaries == {"location": ("California", "Kansas", "Midwest")}
    report = made.report.read_text() if made.report is not None else ""
    assert "(boundary)" in report
    assert "Cells beyond the boundary" in report
    found = verify_job(made.table, job)
    assert found.holds
    assert found.summary["violations"] == found.summary["possible_violations"] == 0
    people = job.parent / "people.csv"
    assert evaluate_job(people, made.table, job, queries=0)["metrics"]["violations"] == 0


def test_a_release_beyond_them_is_counted(job: Path) -> None:
    mm1 = job.parent / "mm1.csv"
    assert evaluate_job(job.parent / "people.csv", mm1, job, queries=0)["metrics"]["violations"] == 3
    found = verify_job(mm1, job)  # without the original, all of Midwest might be of Nebraska
    assert (found.summary["violations"], found.summary["possible_violations"]) == (0, 5)
    mm1.write_text(MM1.replace("Midwest", "United States"))
    found = verify_job(mm1, job)
    assert found.summary["violations"] == 5
    assert not found.holds
    with pytest.raises(mq.RequirementViolated, match="beyond their boundary are 5 cells of location"):
        found.insist()
    mm1.write_text(MM1.replace("Midwest", "Mars"))
    with pytest.raises(mq.DataError, match='"Mars" is no value of the attribute'):
        verify_job(mm1, job)


def test_the_job_goes_before_the_file(job: Path) -> None:
    job.write_text(JOB.replace('"places.csv"', '"places.csv"\nmax_generalization = ["United States"]'))
    assert verify_job(job.parent / "mm1.csv", job).summary["possible_violations"] == 0


def test_other_requirements_count_and_do_not_insist(job: Path) -> None:
    job.write_text(JOB.replace("constrained-k", "k").replace("greedy-cka", "k-member").replace("k = 2", "k = 4"))
    made = anonymize_job(job)
    assert (made.summary["metrics"]["violations"] or 0) > 0
    assert verify_job(made.table, job).holds
    rows = {row.name: row.metrics["violations"] for row in compare_job(job).rows}
    assert rows.pop("k-member") == made.summary["metrics"]["violations"]
    assert {*rows.values()} <= {0}


def test_a_mark_is_missing_above_a_value(job: Path) -> None:
    (job.parent / "places.csv").write_text(PLACES.replace("*Midwest*", "Midwest"))
    with pytest.raises(mq.JobError, match=r'places.csv: none for "Lincoln" of taxonomy .*name a node above each value'):
        anonymize_job(job)


def test_widths_and_flat_trees(job: Path) -> None:
    flat = JOB.replace('taxonomy = "flat"', 'taxonomy = "flat"\nmax_generalization = ["M", "F"]')
    job.write_text(flat.replace("k = 2", "k = 1"))
    made = anonymize_job(job)
    assert set(pyarrow.csv.read_csv(made.table)["sex"].to_pylist()) == {"M", "F"}
    assert verify_job(job.parent / "mm1.csv", job).summary["violations"] == 7  # every "*"
    job.write_text(flat.replace('["M", "F"]', '["M", "Q"]'))
    with pytest.raises(mq.DataError, match=r'attributes.sex.max_generalization: "Q" is no node of taxonomy flat'):
        anonymize_job(job)


def test_dka_refuses_boundaries(job: Path) -> None:
    from masquerade.jobs.parties import check_parties
    from masquerade.jobs.plan import Plan

    parties = "".join(f'[parties.{name}]\nsource = "people.csv"\nid = "ssn"\n' for name in ("bank", "shop"))
    text = JOB
    for without in ('[data]\nsource = "people.csv"\n', 'name = "greedy-cka"', 'order = "input"'):
        text = text.replace(without, "")
    text = text.replace("[algorithm]", '[algorithm]\nname = "dka"')
    job.write_text(text + parties)
    plan = Plan(job)
    check_parties(plan)
    lines = [str(problem) for problem in plan.problems.found]
    assert any("privacy[1]: dka keeps to no boundaries between parties; ask for k-anonymity" in line for line in lines)
    assert any("attributes.location: dka keeps to no boundaries between parties" in line for line in lines)
