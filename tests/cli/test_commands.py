"""Each command's answers, JSON, error lines and exit codes."""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

import pytest

from cli.command import answered, files, here, refused
from job.job_files import JOB, TABLE, changed, write_job
from masquerade.cli import output
from masquerade.cli.app import COMMANDS, HEADINGS
from masquerade.methods import table_methods

Capture = pytest.CaptureFixture[str]
INPUTS = {"people.csv", "job.csv", "job.toml"}
INPUT_ORDER = JOB + '[output]\norder = "input"\n'


# --- help ---


def test_help_lists_each_command_once_under_a_heading(capsys: Capture) -> None:
    text = here(capsys, "--help").out
    at = [text.index(f"\n{heading}:\n") for heading in HEADINGS]
    assert at == sorted(at)
    for name in COMMANDS:
        assert len(re.findall(rf"^  {name} ", text, re.MULTILINE)) == 1


# --- anonymize ---


def test_anonymize_prints_one_json_object(tmp_path: Path, capsys: Capture) -> None:
    answer = answered(capsys, "anonymize", write_job(tmp_path), "--json")
    assert answer.json["released"] == 8
    assert answer.json["table"] == str(tmp_path / "release.csv")
    assert files(tmp_path) == INPUTS | {"release.csv", "report.html"}


def test_anonymize_tells_a_person(tmp_path: Path, capsys: Capture) -> None:
    job = write_job(tmp_path)
    (tmp_path / "people.csv").write_text(TABLE.replace("Nurse,Bern", ",Bern"))
    answer = answered(capsys, "anonymize", job)
    lines = answer.out.splitlines()
    assert lines[0].startswith("8 rows read, 1 dropped for missing cells; 7 released in ")
    assert lines[1].startswith("method: ")
    assert re.search(r" \(the best of \d+ by classification error: ", lines[1])
    assert lines[2].startswith("holds: k-anonymity (k = 2) over age, job (worst group: ")
    assert "columns left out: ssn, hospital" in lines
    assert f"release: {tmp_path / 'release.csv'}" in lines


def test_paths_are_relative_to_the_job(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "jobs").mkdir()
    write_job(tmp_path / "jobs")
    monkeypatch.chdir(tmp_path / "elsewhere")
    answered(capsys, "anonymize", "../jobs/job.toml", "--json")
    assert files(tmp_path / "jobs") == INPUTS | {"release.csv", "report.html"}
    assert files(tmp_path / "elsewhere") == set()


def test_formulas_in_cells_are_warned_of_or_escaped_and_read_back(tmp_path: Path, capsys: Capture) -> None:
    job = write_job(tmp_path, JOB.replace('sensitive = ["disease"]', 'sensitive = ["disease", "city"]'))
    (tmp_path / "people.csv").write_text(TABLE.replace("Asthma", "=HYPERLINK(A1)"))
    (warning,) = here(capsys, "anonymize", job, "--json").json["warnings"]
    assert warning.startswith("2 cells of disease begin with =")
    job.write_text(job.read_text() + '[output]\norder = "input"\nescape_formulas = true\n')
    answered(capsys, "anonymize", job)
    written = (tmp_path / "release.csv").read_text()
    assert written.count("'=HYPERLINK") == written.count("=HYPERLINK") == 2
    answered(capsys, "verify", tmp_path / "release.csv", "--job", job)
    found = here(capsys, "evaluate", tmp_path / "people.csv", tmp_path / "release.csv", "--job", job, "--folds", 0)
    assert found.code == 0, found.err  # whose sensitive cells are compared with the original's
    job.write_text(job.read_text().replace("escape_formulas", 'table = "r.parquet"\nescape_formulas'))
    refused = here(capsys, "anonymize", job)
    assert (refused.code, "output.escape_formulas" in refused.err) == (2, True)


FAILURES = {
    "k above the rows": (changed("k = 2", "k = 9"), TABLE, 1, "people.csv: k-anonymity (k = 9) over age, job cannot"),
    "k above everything": (changed("k = 2", "k = 9" + "0" * 15), TABLE, 1, "cannot be reached"),
    "k above all counts": (changed("k = 2", "k = 1" + "0" * 30), TABLE, 2, "job.toml: privacy[1].k: must be a whole"),
    "k below 1": (changed("k = 2", "k = 0"), TABLE, 2, "job.toml: privacy[1].k: must be a whole number of at least 1"),
    "no rows": (JOB, TABLE.splitlines()[0] + "\n", 2, "no row of data"),
    "no complete rows": (JOB, TABLE.replace(",N,", ",?,").replace(",Y,", ",,"), 1, "no records are left"),
    "empty file": (JOB, "", 2, "people.csv: "),
    "text in a number": (JOB, TABLE.replace("58", "5B"), 2, 'row 8 (line 9), column age: "5B" is not a number'),
    "out of bounds": (JOB, TABLE.replace("58", "158"), 2, "row 8 (line 9), column age: 158 is out of bounds"),
    "unknown leaf": (JOB, TABLE.replace("8,58,Lawyer", "8,58,Lawer"), 2, 'the nearest leaf is "Lawyer"'),
    "ragged row": (JOB, TABLE.replace("Flu,Y,south\n4", "Flu,Y,south,more\n4"), 2, "people.csv: "),
    "missing cell": (
        changed('source = "people.csv"', 'source = "people.csv"\nmissing = "error"'),
        TABLE.replace("Nurse,Bern", "?,Bern"), 2, 'row 7 (line 8), column job: the cell is missing',
    ),
    "missing column": (JOB, TABLE.replace("city", "town"), 2, 'no column "city"'),
    "no such source": (changed("people.csv", "peple.csv"), TABLE, 2, 'no such file (did you mean "people.csv"?)'),
    "source is a folder": (changed("people.csv", "."), TABLE, 2, "the folder holds no Parquet file"),
    "source of no known kind": (changed("people.csv", "people.xlsx"), TABLE, 2, ".xlsx"),
    "query without a database": (
        changed('source = "people.csv"', 'source = "people.csv"\nquery = "SELECT 1"'), TABLE, 2, "a query needs",
    ),
    "no such encoding": (
        changed('source = "people.csv"', 'source = "people.csv"\nencoding = "utf-9"'), TABLE, 2, "utf-9",
    ),
    "broken encoding": (
        changed('source = "people.csv"', 'source = "people.csv"\nencoding = "ascii"'),
        TABLE.replace("Bern", "Zürich"), 2, "people.csv",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FAILURES)
def test_a_failure_is_lines_and_a_code_and_no_files(case: str, tmp_path: Path, capsys: Capture) -> None:
    text, table, code, words = FAILURES[case]
    job = write_job(tmp_path, text)
    (tmp_path / "people.csv").write_text(table, encoding="utf-8")
    for options in ([], ["--json"]):
        answer = here(capsys, "anonymize", job, *options)
        assert (answer.code, answer.out) == (code, "")
        assert words in "\n".join(answer.problems)
        assert files(tmp_path) == INPUTS


def test_every_problem_is_one_line_of_its_own(tmp_path: Path, capsys: Capture) -> None:
    text = changed("k = 2", "k = 0", changed("[roles]", "[roles]\nclas = 1")) + '[output]\ntable = "r.xls"\n'
    assert len(refused(capsys, "anonymize", write_job(tmp_path, text))) == 3
    assert len(refused(capsys, "anonymize", write_job(tmp_path, changed("people.csv", "peo\\nple.csv")))) == 1


@pytest.mark.parametrize("name", ["absent.toml", "", "people.txt"])
def test_what_is_no_job(name: str, tmp_path: Path, capsys: Capture) -> None:
    write_job(tmp_path)
    assert len(refused(capsys, "anonymize", tmp_path / name)) == 1


# --- verify ---


def test_verify_a_good_release(tmp_path: Path, capsys: Capture) -> None:
    job = write_job(tmp_path)
    here(capsys, "anonymize", job)
    answer = here(capsys, "verify", tmp_path / "release.csv", "--job", job)
    assert (answer.code, answer.out) == (0, "holds: k-anonymity (k = 2) over age, job\n")
    answer = here(capsys, "verify", tmp_path / "release.csv", "--job", job, "--json")
    assert answer.json["holds"] is True
    assert answer.json["requirements"][0]["model"] == "k-anonymity"


def test_verify_names_the_first_violating_group(tmp_path: Path, capsys: Capture) -> None:
    job = write_job(tmp_path)
    release = tmp_path / "release.csv"
    release.write_text("age,job\n1,a\n1,a\n2,b\n3,b\n")
    problems = refused(capsys, "verify", release, "--job", job, code=1)
    assert problems == [
        f"{release}: k-anonymity (k = 2) over age, job does not hold: group (age = 2, job = b) has 1 record; "
        "at least 2 are required"
    ]
    told = here(capsys, "verify", release, "--job", job, "--json")
    assert told.code == 1
    assert told.json["holds"] is False
    assert told.json["requirements"][0]["first_violating_group"] == {"age": "2", "job": "b"}
    assert told.json["requirements"][0]["value"] == 1
    assert told.problems == problems


def test_verify_an_identifier_is_the_answer_no(tmp_path: Path, capsys: Capture) -> None:
    job = write_job(tmp_path)
    release = tmp_path / "release.csv"
    release.write_text("age,job,ssn\n1,a,1\n1,a,2\n")
    answer = here(capsys, "verify", release, "--job", job, "--json")
    assert answer.code == 1
    assert answer.json == {**answer.json, "holds": False, "identifiers": ["ssn"]}
    assert answer.problems == [f"{release}: column ssn is an identifier; a release never holds one"]


GARBAGE = {
    "missing": None,
    "binary.csv": bytes(range(256)) * 20,
    "random.parquet": random.Random(4).randbytes(5000),
    "empty.csv": b"",
    "other-columns.csv": b"a,b\n1,2\n",
    "ragged.csv": b"age,job\n1\n2,3,4\n",
    "strange.xyz": b"age,job\n1,2\n",
}


@pytest.mark.parametrize("name", GARBAGE)
def test_verify_garbage_is_bad_input(name: str, tmp_path: Path, capsys: Capture) -> None:
    job = write_job(tmp_path)
    content = GARBAGE[name]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    answer = here(capsys, "verify", tmp_path / name, "--job", job, "--json")
    assert (answer.code, answer.out) == (2, "")
    assert answer.problems


# --- compare ---


def test_compare_prints_rows(tmp_path: Path, capsys: Capture) -> None:
    words = ("compare", write_job(tmp_path), "--methods", "mondrian, tds", "--k", "2,3")
    answer = answered(capsys, *words, "--json")
    rows = answer.json["rows"]
    assert {(row["method"], row["settings"]["k"]) for row in rows} == {
        (method, k) for method in ("mondrian", "tds") for k in (2, 3)
    }
    assert {"ncp", "query_error", "classification_error"} <= set(rows[0]["metrics"])
    assert set(rows[0]["risk"]) == {"highest", "mean", "unique"}
    assert files(tmp_path) == INPUTS


def test_compare_tells_a_person(tmp_path: Path, capsys: Capture) -> None:
    page = tmp_path / "comparison.html"
    answer = here(capsys, "compare", write_job(tmp_path), "--methods", "mondrian,datafly", "--report", page)
    head, *lines = answer.out.splitlines()
    assert head.split()[:5] == ["method", "classification", "error", "k", "ncp"]
    assert lines[0].startswith("mondrian: choose certainty, strict no ")
    assert lines[3].startswith("left out: datafly: attributes.age: datafly generalises step by step")
    assert lines[4].startswith("best by classification error, k = 2: mondrian: ")
    assert lines[5] == f"report: {page}"
    assert files(tmp_path) == INPUTS | {"comparison.html"}


@pytest.mark.parametrize("k", ["two", "-1", "1.5", "9" * 20])
def test_compare_with_a_k_that_is_no_number(tmp_path: Path, capsys: Capture, k: str) -> None:
    answer = here(capsys, "compare", write_job(tmp_path), "--k", k)
    assert (answer.code, answer.problems) == (2, [f'--k: must be whole numbers such as 5,10,50; got "{k}"'])


@pytest.mark.parametrize(
    ("option", "word", "problem"),
    [
        ("--methods", "mondrain", ' (did you mean "mondrian"?)'),
        ("--methods", "dka", ""),
        ("--k", "0", "a whole number of at least 1; got 0"),
    ],
)
def test_compare_names_the_option_and_what_is_allowed(
    tmp_path: Path, capsys: Capture, option: str, word: str, problem: str
) -> None:
    problems = refused(capsys, "compare", write_job(tmp_path), option, word)
    [line] = problems
    if option == "--methods":
        known = ", ".join(name for name in table_methods() if name != "auto")
        problem = f'methods on one table: {known}; got "{word}"{problem}'
    assert line == f"{option}: must be {problem}"


# --- evaluate ---


def test_evaluate_a_release_in_input_order(tmp_path: Path, capsys: Capture) -> None:
    job = write_job(tmp_path, INPUT_ORDER)
    made = here(capsys, "anonymize", job, "--json").json
    words = ("evaluate", tmp_path / "people.csv", tmp_path / "release.csv", "--job", job, "--folds", 0)
    answer = answered(capsys, *words, "--folds", "2", "--queries", "10", "--json")
    assert answer.json["metrics"] == made["metrics"]
    assert set(answer.json["classification"]) == {"BE", "UE", "IE"}
    assert answer.json["query_error"]["queries"] == 10
    bare = here(capsys, *words, "--folds", "0", "--queries", "0", "--json").json
    assert not {"classification", "query_error"} & set(bare)
    assert "BE" in here(capsys, *words, "--folds", "0", "--train", "5", "--json").json["classification"]
    text = here(capsys, *words, "--folds", "2").out
    assert "note: " not in text
    assert "average group size: " in text
    assert "  BE: " in text


def test_evaluate_without_extras_tells_the_rest_and_one_note(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("sklearn", "scipy", "pandas", "lifelines", "sqlglot", "duckdb", "opendp"):
        monkeypatch.setitem(sys.modules, module, None)  # type: ignore[arg-type] # as if it were not installed
    job = write_job(tmp_path, INPUT_ORDER)
    here(capsys, "anonymize", job)
    words = ("evaluate", tmp_path / "people.csv", tmp_path / "release.csv", "--job", job, "--folds", "2")
    answer = answered(capsys, *words, "--json")
    found = answer.json
    assert {"metrics", "attribute_losses", "attribute_information", "query_error", "attacks"} <= set(found)
    assert set(found["accuracy"]) == {"naive_bayes"}
    assert found["left_out"] == ["classification"]
    assert "masquerade[mining]" in found["note"]
    lines = here(capsys, *words).out.splitlines()
    assert len([line for line in lines if line.startswith("note: ")]) == 1
    assert "left out: classification" in lines


def test_evaluate_refuses_what_is_not_in_input_order(tmp_path: Path, capsys: Capture) -> None:
    job = write_job(tmp_path, INPUT_ORDER)
    here(capsys, "anonymize", job)
    lines = (tmp_path / "release.csv").read_text().splitlines(keepends=True)
    for name, changed_lines, words in (
        ("turned.csv", [lines[0], *reversed(lines[1:])], "in input order"),
        ("shorter.csv", lines[:-1], "nothing suppressed"),
    ):
        (tmp_path / name).write_text("".join(changed_lines))
        assert words in refused(capsys, "evaluate", tmp_path / "people.csv", tmp_path / name, "--job", job)[0]


def test_evaluate_with_too_much_training(tmp_path: Path, capsys: Capture) -> None:
    job = write_job(tmp_path, INPUT_ORDER)
    here(capsys, "anonymize", job)
    words = ("evaluate", tmp_path / "people.csv", tmp_path / "release.csv", "--job", job, "--folds", 0)
    assert "of 8 complete rows, 1 to 7. Got 8 instead" in refused(capsys, *words, "--train", "8")[0]


# --- words on the command line ---

WORDS = {
    "no command of that name": (["anonymise"], "anonymize"),
    "no job": (["anonymize"], "JOB"),
    "unknown option": (["anonymize", "job.toml", "--jsn"], "--json"),
    "too many words": (["anonymize", "a", "b"], "b"),
    "verify without a job": (["verify", "release.csv"], "--job"),
    "text for a number": (["evaluate", "a", "b", "--job", "c", "--folds", "many"], "--folds"),
    "below the least": (["demo", "--people", "-5"], '--people: must be at least 100; got "-5"'),
    "above the most": (["demo", "--people", "99999999999"], "--people: must be at most 100000000; got"),
    "no day": (["coordinator", "token", "c.toml", "ana", "--days", "0"], '--days: must be at least 1; got "0"'),
    "text for days": (["identity", "init", "x", "--days", "some"], '--days: must be a whole number; got "some"'),
    "text for a share": (["decide", "5e", "relax", "--most-error", "x"], '--most-error: must be a number; got "x"'),
    "none of a few": (["decide", "5e", "maybe"], "DECISION: 'maybe' is not one of 'accept', 'relax', 'withdraw'"),
    "unknown experiment": (["bench", "zzzz"], "zzzz"),
}


@pytest.mark.parametrize("case", WORDS)
def test_wrong_words_are_one_line(case: str, capsys: Capture) -> None:
    words, named = WORDS[case]
    (line,) = refused(capsys, *words)
    assert named in line
    assert "Input should" not in line


# --- progress ---


def test_long_work_is_told_on_standard_error(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "REPORT_AFTER", 0.0)
    job = write_job(tmp_path, JOB + '[algorithm]\nname = "tds"\n')
    answer = here(capsys, "anonymize", job, "--json")
    told = answer.progress
    assert told[0] == "reading people.csv"
    assert any(line.startswith("anonymising: step 1, ") for line in told)
    assert told[-1] == "writing report.html"
    assert answer.err == ""
    assert answer.json["released"] == 8
    assert "\x1b" not in "".join(told)
