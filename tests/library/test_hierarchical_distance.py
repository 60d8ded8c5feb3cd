"""t-closeness by the taxonomy of the sensitive attribute, from the job file to the verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from masquerade.errors import JobError, ParameterError
from masquerade.jobs import anonymize_job, verify_job

PEOPLE = "job,disease\n" + "cook,flu\ncook,bronchitis\nnurse,flu\nnurse,bronchitis\nnurse,ulcer\ncook,ulcer\n"
DISEASES = "flu;lungs;any\nbronchitis;lungs;any\nulcer;stomach;any\ngastritis;stomach;any\n"
JOB = """
[data]
source = "people.csv"
[attributes.job]
taxonomy = "flat"
[attributes.disease]
taxonomy = "disease.csv"
[roles]
sensitive = ["disease"]
[[privacy]]
model = "t-closeness"
qid = ["job"]
t = 0.1
distance = "hierarchical"
[output]
report = false
"""


def run(folder: Path, people: str = PEOPLE, job: str = JOB, diseases: str = DISEASES) -> Path:
    for name, text in (("people.csv", people), ("disease.csv", diseases), ("job.toml", job)):
        (folder / name).write_text(text)
    anonymize_job(folder / "job.toml")
    return folder / "release.csv"


def test_a_release_is_checked_by_the_taxonomy(tmp_path: Path) -> None:
    """One group has flu where the other has bronchitis: 1/3 of the people, half of the way."""
    swapped = PEOPLE.replace("cook,bronchitis", "cook,flu").replace("nurse,flu", "nurse,bronchitis")
    release = run(tmp_path, swapped, JOB.replace("t = 0.1", "t = 0.17"))
    [verdict] = verify_job(release, tmp_path / "job.toml").verdicts
    assert (verdict.holds, verdict.groups, verdict.value) == (True, 2, pytest.approx(1 / 6))
    (tmp_path / "job.toml").write_text(JOB.replace("t = 0.1", "t = 0.16"))
    [verdict] = verify_job(release, tmp_path / "job.toml").verdicts
    assert not verdict.holds
    (tmp_path / "job.toml").write_text(JOB.replace("t = 0.1", "t = 0.17").replace("hierarchical", "equal"))
    [verdict] = verify_job(release, tmp_path / "job.toml").verdicts
    assert (verdict.holds, verdict.value) == (False, pytest.approx(1 / 3))


MISSING = 'taxonomy: missing; give [attributes.disease] taxonomy = "file.csv" or "file.yaml", or use another distance'


@pytest.mark.parametrize(
    ("job", "line"),
    [
        (JOB.replace('[attributes.disease]\ntaxonomy = "disease.csv"\n', ""), f"privacy[1].{MISSING}"),
        (JOB.replace('"disease.csv"', '"flat"'), f"privacy[1].{MISSING}"),
        (
            JOB.replace('taxonomy = "disease.csv"', 'type = "continuous"'),
            'privacy[1].distance: a taxonomy\'s distance is for categories, and disease is continuous; use "ordered"',
        ),
    ],
    ids=["no attribute", "flat", "numbers"],
)
def test_without_a_tree_it_is_refused(tmp_path: Path, job: str, line: str) -> None:
    with pytest.raises(JobError) as caught:
        run(tmp_path, job=job)
    assert caught.value.lines == (f"{tmp_path / 'job.toml'}: {line}",)


def test_a_value_outside_the_tree_is_named(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match='the taxonomy of disease lacks "gout"'):
        run(tmp_path, PEOPLE + "cook,gout\n")
