"""A folder with the generated people, their taxonomies, and a job that anonymises them."""

from __future__ import annotations

from pathlib import Path

from masquerade.data import generate_people, people_taxonomies, write_table

JOB = """\
# Generated people, released so that nobody is singled out and a bank still learns who gets a loan.
# Run it with: masquerade anonymize job.toml

[data]
source = "people.csv"
missing = "drop"                        # rows with an empty or "?" cell in a used column are left out

# What is released, and how it may be generalised. Columns that are not listed (name, children) are left out.
[attributes.birth_date]
type = "date"                           # intervals of dates; where they are cut is chosen from the data

[attributes.sex]
taxonomy = "flat"                       # released as it is, or as "*"

[attributes.town]
taxonomy = "taxonomies/town.csv"        # rows town;region;country;root, of unequal depth

[attributes.job]
taxonomy = "taxonomies/job.yaml"        # a nested tree

[attributes.education]
taxonomy = "taxonomies/education.csv"

[attributes.hours]
type = "continuous"
taxonomy = "taxonomies/hours.csv"       # fixed intervals

[attributes.salary]
type = "continuous"                     # in thousands a year
min = 0                                 # the outer ends of the released intervals
max = 1000

[roles]
class = "approved"                      # the release should still predict this
sensitive = ["disease"]                 # released, and protected by l-diversity below
identifiers = ["ssn"]                   # never released

# A neighbour knows somebody's birthday, sex and town: at least 10 people share what is released of them ...
[[privacy]]
model = "k-anonymity"
qid = ["birth_date", "sex", "town"]
k = 10

# ... and do not all have the same few diseases.
[[privacy]]
model = "l-diversity"
qid = ["birth_date", "sex", "town"]
sensitive = "disease"
l = 3

# Their employer knows this about them.
[[privacy]]
model = "k-anonymity"
qid = ["job", "education", "hours", "salary"]
k = 10

[algorithm]
name = "tds"                            # top-down specialization
score = "info-gain"

[output]
table = "release.csv"
report = "report.html"
"""


def write_people(folder: Path, n: int, seed: int = 7, *, missing: float = 0.0) -> Path:
    """Write people.csv, taxonomies/ and job.toml into a folder; return the job's path."""
    (folder / "taxonomies").mkdir(parents=True, exist_ok=True)
    write_table(generate_people(n, seed, missing=missing), folder / "people.csv")
    for name, text in people_taxonomies().items():
        (folder / "taxonomies" / name).write_text(text)
    job = folder / "job.toml"
    job.write_text(JOB)
    return job
