"""`masquerade anonymize TABLE`: no job file; and what is said beside a job file, in place of what it says."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from cli.command import Answer, answered, here, refused
from job.job_files import write_job
from masquerade.data import TableFile
from masquerade.methods import table_methods

Capture = pytest.CaptureFixture[str]
N = 200


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with a table, which is where the commands run."""
    rows = [
        f"Person{chr(97 + at % 26)} Surname{chr(97 + at // 26)},{20 + at * 7 % 50},{'mf'[at % 2]},"
        f"LS{at % 9} {at % 7}AB,{('flu', 'gout', 'cold')[at * at % 3]}"
        for at in range(N)
    ]
    (tmp_path / "people.csv").write_text("\n".join(["name,age,sex,postcode,illness", *rows]) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def released(path: str) -> list[str]:
    return list(TableFile(str(path)).read().all_columns)


def test_a_table_is_anonymised_without_a_job_file(folder: Path, capsys: Capture) -> None:
    answer = answered(
        capsys,
        *("anonymize", "people.csv", "--k", "10", "--qid", "age,sex", "--method", "mondrian"),
        *("--output", "release.csv", "--json"),
    )
    (size, *_) = answer.json["requirements"]
    assert (size["model"], size["qid"], size["holds"]) == ("k-anonymity", ["age", "sex"], True)
    assert size["value"] >= 10
    assert answer.json["released"] == N
    assert released("release.csv") == ["age", "sex", "illness"]
    assert {path.name for path in folder.iterdir()} == {"people.csv", "release.csv", "release-report.html"}


def test_without_anything_said_it_is_what_init_drafts(folder: Path, capsys: Capture) -> None:
    alone = here(capsys, "anonymize", "people.csv", "--json")
    here(capsys, "init", "people.csv")
    drafted = here(capsys, "anonymize", "job.toml", "--json")
    for name in ("requirements", "dropped", "metrics", "table"):
        assert Path(str(alone.json[name])).name == Path(str(drafted.json[name])).name


def test_the_drafted_job_is_shown(folder: Path, capsys: Capture) -> None:
    answer = here(
        capsys, "anonymize", "people.csv", "--qid", "age", "--k", "4", "--method", "tds", "--show-job", "--json"
    )
    job = tomllib.loads(answer.json["job"])
    assert (job["privacy"][0]["qid"], job["privacy"][0]["k"]) == (["age"], 4)
    assert job["algorithm"] == {"name": "tds"}
    assert job["roles"] == {"sensitive": ["illness"], "identifiers": ["name"]}
    shown = here(capsys, "anonymize", "people.csv", "--qid", "age", "--show-job").out
    assert tomllib.loads(shown.partition("\n\n200 rows read")[0])["privacy"][0]["qid"] == ["age"]


WRONG: dict[str, tuple[list[str], int, str]] = {
    "a name as a quasi-identifier": (["--qid", "name,age"], 2, "name: no quasi-identifier"),
    "a column that is not there": (["--qid", "agee"], 2, 'no column "agee" (did you mean "age"?)'),
    "a method that is not there": (["--method", "mondrain"], 2, '--method: no algorithm "mondrain"'),
    "a method between parties": (["--method", "dka"], 2, "--method:"),
    "more than all records": (["--qid", "age", "--k", "500"], 1, "k = 500"),
    "both the class and a quasi-identifier": (["--qid", "age", "--class", "age"], 2, "age:"),
    "an ending that is none": (["--qid", "age", "--output", "r.xls"], 2, "output.table: must end in"),
    "the table itself": (["--qid", "age", "--output", "people.csv"], 2, "would be overwritten"),
    "quick and a method": (["--quick", "--method", "tds"], 2, "--quick:"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_done_is_one_line_and_leaves_nothing(case: str, folder: Path, capsys: Capture) -> None:
    options, code, text = WRONG[case]
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    answer = here(capsys, "anonymize", "people.csv", *options)
    assert (answer.code, answer.out) == (code, "")
    assert len(answer.problems) == 1
    assert text in answer.problems[0]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "jobs").mkdir()
    monkeypatch.chdir(tmp_path)
    return write_job(tmp_path / "jobs")


def run(capsys: Capture, job: Path, *options: str) -> Any:
    answer: Answer = here(capsys, "anonymize", job, *options, "--json")
    assert answer.code == 0, answer.err
    return answer.json


def test_k_method_and_output_stand_beside_a_job(job: Path, capsys: Capture) -> None:
    written = run(capsys, job, "--k", "4", "--method", "mondrian", "--output", "strict.csv")
    assert written["requirements"][0]["value"] >= 4
    assert written.get("choice") is None, "auto would have chosen"
    assert Path("strict.csv").is_file()
    assert Path("strict-report.html").is_file()
    assert not (job.parent / "release.csv").exists()
    assert "k = 2" in job.read_text()


def test_keys_of_the_replaced_method_go_those_of_all_stay(job: Path, capsys: Capture) -> None:
    job.write_text(job.read_text() + '[algorithm]\nname = "tds"\nscore = "gain-ratio"\nseed = 3\n')
    assert run(capsys, job, "--method", "mondrian")["released"] > 0


def test_a_job_without_a_report_keeps_none(job: Path, capsys: Capture) -> None:
    job.write_text(job.read_text() + "[output]\nreport = false\n")
    run(capsys, job, "--output", "strict.csv")
    assert not Path("strict-report.html").exists()


@pytest.mark.parametrize(
    "options", [["--qid", "age"], ["--show-job"], ["--class", "age"], ["--sensitive", "city"], ["--separator", ";"]]
)
def test_options_of_a_table_are_refused_beside_a_job(options: list[str], job: Path, capsys: Capture) -> None:
    assert refused(capsys, "anonymize", job, *options)[0].startswith(f"{options[0]}: ")


def test_no_requirement_has_the_k(job: Path, capsys: Capture) -> None:
    text = job.read_text()
    at = text.index("[[privacy]]")
    entry = '[[privacy]]\nmodel = "l-diversity"\nqid = ["age", "job"]\nsensitive = "disease"\nl = 2\n'
    job.write_text(text[:at] + entry)
    answer = here(capsys, "anonymize", job, "--k", "3")
    assert (answer.code, len(answer.problems)) == (2, 1)
    assert answer.problems[0].startswith("--k: ")


def test_quick_takes_one_fast_method(folder: Path, capsys: Capture) -> None:
    answer = answered(capsys, "anonymize", "people.csv", "--qid", "age,sex", "--quick")
    (line,) = [line for line in answer.out.splitlines() if line.startswith("method: ")]
    name = line.removeprefix("method: ").partition(":")[0]
    assert table_methods()[name].seconds_per_million <= 0.5


def test_quick_beside_a_job_that_names_a_method_is_refused(job: Path, capsys: Capture) -> None:
    job.write_text(job.read_text() + '[algorithm]\nname = "tds"\n')
    answer = here(capsys, "anonymize", job, "--quick")
    assert (answer.code, len(answer.problems)) == (2, 1)
