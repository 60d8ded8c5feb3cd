"""Mondrian in a job file: which one it means, what it writes, and what the summary tells of providers."""

from __future__ import annotations

from pathlib import Path

import pyarrow.csv as pacsv
import pytest

import masquerade as mq
from job.job_files import JOB, changed, write_job
from masquerade.jobs.plan import Plan

PROVIDED = changed('class = "income"', 'class = "income"\nprovider = "hospital"')
M_ENTRY = '[[privacy]]\nmodel = "m-privacy"\nm = 1\n'
ENTROPY = '[[privacy]]\nmodel = "entropy-l-diversity"\nqid = ["age", "job"]\nl = 1.2\n'
QUIET = "[output]\nreport = false\n"


def algorithm(folder: Path, text: str) -> object:
    plan = Plan(write_job(folder, text))
    found = plan.algorithm(plan.schema())
    plan.settle()
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (JOB + '[algorithm]\nname = "mondrian"\n', mq.Mondrian("income")),
        (
            JOB + '[algorithm]\nname = "mondrian"\nchoose = "widest"\nstrict = true\nprovider_aware = false\n',
            mq.Mondrian("income", "widest", strict=True, provider_aware=False),
        ),
        (PROVIDED + M_ENTRY + '[algorithm]\nname = "mondrian"\n', mq.ProviderAwareMondrian("income")),
        (
            PROVIDED + M_ENTRY + '[algorithm]\nname = "mondrian"\nchoose = "fitness"\nprovider_aware = true\n',
            mq.ProviderAwareMondrian("income", "fitness"),
        ),
        (
            PROVIDED + M_ENTRY + '[algorithm]\nname = "mondrian"\nprovider_aware = false\n',
            mq.Mondrian("income", provider_aware=False),
        ),
        (PROVIDED + ENTROPY + M_ENTRY + '[algorithm]\nname = "mondrian"\n', mq.ProviderAwareMondrian("income")),
        (  # nothing to cut between
            PROVIDED + '[algorithm]\nname = "mondrian"\nprovider_aware = true\n',
            mq.Mondrian("income", provider_aware=True),
        ),
    ],
    ids=["plain", "as its authors", "provider-aware", "as in the paper", "baseline", "every model", "no providers"],
)
def test_which_mondrian_a_job_means(tmp_path: Path, text: str, expected: object) -> None:
    assert algorithm(tmp_path, text) == expected


@pytest.mark.parametrize("keep", [False, True])
def test_a_release_tells_its_providers_only_where_it_is_asked_to(tmp_path: Path, keep: bool) -> None:
    kept = "keep_provider = true\n" if keep else ""
    job = write_job(tmp_path, PROVIDED + M_ENTRY + '[algorithm]\nname = "mondrian"\n' + QUIET + kept)
    written = mq.anonymize_job(job)
    columns = pacsv.read_csv(written.table).column_names
    assert ("hospital" in columns) is keep
    fed = written.summary["groups_by_providers"]
    assert sum(fed.values()) == written.summary["groups"]
    assert written.summary["metrics"]["discernibility"] > 0
    assert written.summary["query_error"]["queries"] == 2500
    assert 0 <= written.summary["query_error"]["median"] < 10
    if keep:
        assert mq.verify_job(written.table, job)


def test_the_seed_draws_the_queries_as_evaluate_does(tmp_path: Path) -> None:
    told = []
    for seed in (7, 11):
        text = JOB + f'[algorithm]\nname = "mondrian"\nseed = {seed}\n' + QUIET + 'order = "input"\n'
        job = write_job(tmp_path, text)
        written = mq.anonymize_job(job)
        again = mq.evaluate_job(tmp_path / "people.csv", written.table, job, folds=0)
        assert written.summary["query_error"] == again["query_error"]
        told.append(again["query_error"]["mean"])
    assert told[0] != told[1]
    with pytest.raises(mq.ParameterError, match="The seed parameter of anonymize must be a whole number"):
        mq.anonymize(mq.read(tmp_path / "people.csv"), mq.KAnonymity(["age"], k=2), seed=-1)
