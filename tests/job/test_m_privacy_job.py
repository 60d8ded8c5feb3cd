"""m-privacy in a job: it wraps the other entries, needs the provider's column, and is verified where that is kept."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import masquerade as mq
from job.job_files import JOB, changed, write_job
from masquerade.cli.app import command_line
from masquerade.errors import DataError, JobError
from masquerade.jobs.plan import Plan
from masquerade.privacy import MPrivateGroups

PROVIDED = changed('class = "income"', 'class = "income"\nprovider = "hospital"')
M_ENTRY = '[[privacy]]\nmodel = "m-privacy"\nm = 1\n'
L_ENTRY = '[[privacy]]\nmodel = "l-diversity"\nqid = ["age", "job"]\nl = 2\n'
KEPT = "[output]\nkeep_provider = true\nreport = false\n"


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_it_wraps_the_other_entries(tmp_path: Path) -> None:
    other_qid = '[[privacy]]\nmodel = "k-anonymity"\nqid = ["job"]\nk = 3\n'
    plan = Plan(write_job(tmp_path, PROVIDED + M_ENTRY + L_ENTRY + other_qid))
    plan.settle()
    both, job = plan.requirement.parts
    assert isinstance(both, MPrivateGroups)
    assert (both.m, both.provider, both.qid, both.verification) == (1, "hospital", ("age", "job"), "exact")
    assert both.members == (mq.KAnonymity(["age", "job"], 2), mq.LDiversity(["age", "job"], 2, "disease"))
    assert isinstance(job, MPrivateGroups)
    assert job.members == (mq.KAnonymity(["job"], 3),)
    assert plan.published == ("income", "disease")
    asked = Plan(write_job(tmp_path, PROVIDED + M_ENTRY + '[algorithm]\nverification = "binary"\n'))
    assert [part.verification for part in asked.requirement.parts] == ["binary"]  # type: ignore[attr-defined]


def test_several_sensitive_attributes_count_as_one(tmp_path: Path) -> None:
    text = changed('["disease"]', '["disease", "city"]', PROVIDED).replace("[attributes.city]\n", "")
    plan = Plan(write_job(tmp_path, text + L_ENTRY + M_ENTRY))
    plan.settle()
    (part,) = plan.requirement.parts
    assert part.sensitive == "hospital × disease × city"
    assert str(part) == (
        "m-privacy (m = 1, provider = hospital) of k-anonymity (k = 2), "
        "l-diversity (l = 2, sensitive = disease × city) over age, job"
    )
    assert plan.published == ("income", "disease", "city")


WRONG = {
    "alone": (
        changed(JOB[JOB.index("[[privacy]]") :], M_ENTRY, PROVIDED),
        "privacy[1]: m-privacy wraps the other entries; give at least one of them",
    ),
    "no provider": (JOB + M_ENTRY, "roles.provider: missing; m-privacy needs the column of each record's provider"),
    "no m": (PROVIDED + '[[privacy]]\nmodel = "m-privacy"\n', "privacy[2].m: missing; m-privacy needs it"),
    "a qid of its own": (
        PROVIDED + M_ENTRY + 'qid = ["age"]\nk = 3\n',
        "privacy[2].qid: m-privacy has no such parameter; it takes m",
        "privacy[2].k: m-privacy has no such parameter; it takes m",
    ),
    "twice": (PROVIDED + M_ENTRY + M_ENTRY, 'privacy[3].model: "m-privacy" wraps all other entries; give it once'),
    "the provider is sensitive": (
        changed('["disease"]', '["hospital"]', PROVIDED) + L_ENTRY + M_ENTRY,
        'roles.provider: "hospital" is the provider, but roles.sensitive names it too; drop one of them',
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_each_mistake_has_its_line(case: str, tmp_path: Path) -> None:
    text, *lines = WRONG[case]
    with pytest.raises(JobError) as caught:
        Plan(write_job(tmp_path, text)).settle()
    assert [line.partition("job.toml: ")[2] for line in caught.value.lines] == lines


@pytest.mark.parametrize("algorithm", ["tds", "datafly"])
def test_a_release_is_m_private_and_can_be_verified_where_providers_are_kept(algorithm: str, tmp_path: Path) -> None:
    text = PROVIDED + M_ENTRY + f'[algorithm]\nname = "{algorithm}"\n' + KEPT
    if algorithm == "datafly":
        text = changed('type = "continuous"\nmin = 0\nmax = 120', 'taxonomy = "flat"', text)
    job = write_job(tmp_path, text)
    written = mq.anonymize_job(job)
    groups: dict[tuple[str, str], list[str]] = {}
    for row in read(written.table):
        groups.setdefault((row["age"], row["job"]), []).append(row["hospital"])
    for providers in groups.values():  # 2 records, also without either hospital's
        assert len(providers) >= 2
        for each in set(providers):
            assert len(set(providers)) == 1 or len(providers) - providers.count(each) >= 2
    checked = CliRunner().invoke(command_line(), ["verify", str(written.table), "--job", str(job)])
    assert checked.exit_code == 0
    assert mq.verify_job(written.table, job).holds


def test_a_release_that_is_not_m_private_names_who_breaches(tmp_path: Path) -> None:
    table = tmp_path / "release.csv"
    table.write_text("age,job,disease,hospital\na,x,Flu,north\na,x,HIV,north\na,x,Flu,south\n")
    job = write_job(tmp_path, PROVIDED + M_ENTRY)
    shown = CliRunner().invoke(command_line(), ["verify", str(table), "--job", str(job)])
    assert shown.exit_code == 1
    told = CliRunner().invoke(command_line(), ["verify", str(table), "--job", str(job), "--json"])
    private, alone = json.loads(told.stdout)["requirements"]
    assert (private["holds"], private["coalition"], private["value"]) == (False, ["north"], 0)
    assert private["checks"] >= 1
    assert "coalition" not in alone
    assert "checks" not in alone
    assert str(mq.verify_job(table, job).verdicts[0].violation).endswith(
        "group (age = a, job = x) without the records of hospital north has 1 record; at least 2 are required"
    )


def test_a_release_without_providers_cannot_be_verified(tmp_path: Path) -> None:
    job = write_job(tmp_path, PROVIDED + M_ENTRY)
    written = mq.anonymize_job(job)
    assert "hospital" not in read(written.table)[0]
    assert "hospital" in written.release.dropped
    with pytest.raises(DataError) as caught:
        mq.verify_job(written.table, job)
    assert caught.value.lines == (
        f'{written.table}: no column "hospital"; m-privacy can be verified only where each record names its provider: '
        "make the release with output.keep_provider = true",
    )


def test_a_mashup_has_no_providers_of_the_same_columns(tmp_path: Path) -> None:
    parties = '[parties.a]\nsource = "people.csv"\nid = "ssn"\n[parties.b]\nsource = "people.csv"\nid = "ssn"\n'
    text = changed('[data]\nsource = "people.csv"\n', parties, PROVIDED) + M_ENTRY
    with pytest.raises(JobError, match="m-privacy is for providers of the same columns"):
        mq.mashup_job(write_job(tmp_path, text))
