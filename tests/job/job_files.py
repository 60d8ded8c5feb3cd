"""A small valid job in a folder, for tests that make one thing of it wrong; and jobs from their content."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from masquerade.forms import Problems, fill
from masquerade.jobs import Job

TABLE = """ssn,age,job,city,disease,income,hospital
1,23,Welder,Bern,Flu,N,north
2,25,Welder,Bern,HIV,N,north
3,31,Lawyer,Basel,Flu,Y,south
4,35,Lawyer,Basel,Asthma,Y,south
5,41,Welder,Bern,HIV,N,south
6,44,Nurse,Basel,Flu,Y,north
7,52,Nurse,Bern,Asthma,Y,north
8,58,Lawyer,Bern,Flu,Y,south
"""
JOB_TAXONOMY = """Welder;Blue-collar;ANY
Nurse;White-collar;ANY
Lawyer;White-collar;ANY
"""
JOB = """[data]
source = "people.csv"

[attributes.age]
type = "continuous"
min = 0
max = 120
[attributes.job]
taxonomy = "job.csv"
[attributes.city]

[roles]
class = "income"
sensitive = ["disease"]
identifiers = ["ssn"]

[[privacy]]
model = "k-anonymity"
qid = ["age", "job"]
k = 2
"""


def write_job(folder: Path, text: str = JOB) -> Path:
    """people.csv, job.csv and job.toml in a folder."""
    (folder / "people.csv").write_text(TABLE)
    (folder / "job.csv").write_text(JOB_TAXONOMY)
    job = folder / "job.toml"
    job.write_text(text, encoding="utf-8")
    return job


def changed(old: str, new: str, text: str = JOB) -> str:
    """The job with one passage changed."""
    assert old in text, f"{old!r} is not in the job"
    return text.replace(old, new, 1)


def parse_job(content: dict[str, Any], source: str = "job") -> Job:
    """The content of a job file as a job, or every problem of it."""
    problems = Problems(source)
    job = fill(Job, content, problems)
    problems.settle()
    return job
