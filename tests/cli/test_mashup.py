"""`masquerade mashup`: real sockets, real TLS; the release of one trusted table, or nothing.

Parties are processes of their own where that is what is tested: a whole run, failures, deaths and interrupts.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from cli.command import Answer, answered, forked, here
from forked import MASQUERADE, Forked
from masquerade.data import generate_people, people_taxonomies
from masquerade.net import read_transcript
from parties_here import parties_here
from party_processes import parties_of

pytestmark = pytest.mark.system

Capture = pytest.CaptureFixture[str]

JOB = """
[parties.bank]
source = "bank.csv"
id = "ssn"
[parties.loans]
source = "loans.parquet"
id = "customer"

[attributes.birth_date]
type = "date"
[attributes.sex]
taxonomy = "flat"
[attributes.town]
taxonomy = "taxonomies/town.csv"
[attributes.job]
taxonomy = "taxonomies/job.yaml"
[attributes.salary]
type = "continuous"
[attributes.children]
type = "continuous"

[roles]
class = "approved"
identifiers = ["ssn", "name"]

[[privacy]]
model = "k-anonymity"
qid = ["birth_date", "sex", "job"]
k = 10
[[privacy]]
model = "k-anonymity"
qid = ["town", "salary"]
k = 5

[algorithm]
score = "info-gain"
"""


everybody = cache(generate_people)


def deal(folder: Path, n: int, *, job: str = JOB) -> pa.Table:
    """Two parties' tables and a job; returns the table that a trusted party would join."""
    people = everybody(n)
    random = np.random.default_rng(3)
    for_bank = people.select(["ssn", "birth_date", "sex", "town", "approved"])
    for_loans = people.select(["ssn", "job", "salary", "children", "approved", "name"])
    for_loans = for_loans.rename_columns(["customer", *for_loans.column_names[1:]])
    bank_rows, loan_rows = (random.permutation(n)[: n * 9 // 10] for _ in range(2))
    pa.csv.write_csv(for_bank.take(pa.array(bank_rows)), folder / "bank.csv")
    pq.write_table(for_loans.take(pa.array(loan_rows)), folder / "loans.parquet")
    (folder / "taxonomies").mkdir(exist_ok=True)
    for name, text in people_taxonomies().items():
        (folder / "taxonomies" / name).write_text(text)
    (folder / "job.toml").write_text(job)
    common = np.intersect1d(bank_rows, loan_rows)
    return people.take(pa.array(common))


def mashup_here(capsys: pytest.CaptureFixture[str], folder: Path, *options: str) -> Answer:
    """A mashup whose command and parties are all in this process."""
    with parties_here():
        return here(capsys, "mashup", folder / "job.toml", *options)


def anonymized(capsys: pytest.CaptureFixture[str], joined: pa.Table, job: str, folder: Path) -> Answer:
    """What a trusted party makes of the joined table by the same job, in `folder`/alone."""
    alone = folder / "alone"
    alone.mkdir()
    pa.csv.write_csv(joined, alone / "joined.csv")
    sections = job[job.index("[attributes.birth_date]") :].replace("taxonomies/", "../taxonomies/")
    (alone / "job.toml").write_text('[data]\nsource = "joined.csv"\n' + sections)
    return answered(capsys, "anonymize", alone / "job.toml", "--json")


def rows(path: Path) -> Counter[tuple[str, ...]]:
    table = pa.csv.read_csv(
        path, convert_options=pa.csv.ConvertOptions(column_types=dict.fromkeys(_header(path), pa.string()))
    )
    return Counter(tuple(row.values()) for row in table.to_pylist())


def _header(path: Path) -> list[str]:
    return path.read_text().splitlines()[0].split(",")


def test_two_processes_give_the_release_of_one_table(tmp_path: Path, capsys: Capture) -> None:
    joined = deal(tmp_path, 600)
    done = forked("mashup", "job.toml", "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    summary = done.json
    assert summary["common_records"] == joined.num_rows == summary["released"]
    assert set(summary["seconds"]) >= {
        *("start", "read", "align", "prepare", "protocol", "hand_in", "verify", "evaluate", "write")
    }
    assert all(spent >= 0 for spent in summary["seconds"].values())
    assert set(summary["bytes_sent"]) == set(summary["messages"]) == {"bank", "loans"}
    assert {step["party"] for step in summary["steps"]} <= {"bank", "loans"}
    assert all(each["holds"] for each in summary["requirements"])
    errors = summary["classification"]
    assert set(errors["SE"]) == set(errors["gain"]) == {"bank", "loans"}
    assert errors["gain"]["bank"] == pytest.approx(errors["SE"]["bank"] - errors["IE"], abs=0.0051)

    one = anonymized(capsys, joined, JOB, tmp_path)
    assert rows(tmp_path / "release.csv") == rows(tmp_path / "alone" / "release.csv")
    steps = [{key: value for key, value in step.items() if key != "party"} for step in summary["steps"]]
    assert steps == one.json["steps"]
    assert summary["metrics"] == pytest.approx(one.json["metrics"])

    answered(capsys, "verify", tmp_path / "release.csv", "--job", tmp_path / "job.toml")
    for name in ("bank", "loans"):
        sent = read_transcript(tmp_path / "transcripts" / f"{name}.jsonl")
        assert sum(each.size for each in sent if each.direction == "sent") == summary["bytes_sent"][name]
        assert "score" not in {each.kind for each in sent}  # nobody shows a score unless the job says so
    assert summary["argmax"] == settings_in(tmp_path / "report.html")["argmax"] == "secure"

    hidden = rows(tmp_path / "release.csv")
    (tmp_path / "job.toml").write_text(JOB + 'argmax = "plain"\n')
    plain = mashup_here(capsys, tmp_path, "--json")
    assert plain.code == 0, plain.err
    assert rows(tmp_path / "release.csv") == hidden
    assert plain.json["steps"] == summary["steps"]
    assert "prepare" not in plain.json["seconds"]
    assert "score" in {each.kind for each in read_transcript(tmp_path / "transcripts" / "bank.jsonl")}
    assert settings_in(tmp_path / "report.html")["argmax"] == "plain"


MONDRIAN = '[algorithm]\nname = "mondrian"\n'


def wide(model: str, limit: str) -> str:
    """A requirement over five attributes of both parties."""
    qid = '["birth_date", "sex", "town", "job", "salary"]'
    return f'[[privacy]]\nmodel = "{model}"\nqid = {qid}\n{limit}\n'


def released_as_by_one_table(capsys: Capture, folder: Path, n: int, job: str) -> tuple[Answer, Answer, set[str]]:
    """A mashup whose release must be that of one trusted table; both answers, and the kinds of messages."""
    joined = deal(folder, n, job=job)
    done = mashup_here(capsys, folder, "--json")
    assert done.code == 0, done.err
    one = anonymized(capsys, joined, job, folder)
    assert rows(folder / "release.csv") == rows(folder / "alone" / "release.csv")
    assert done.json["common_records"] == joined.num_rows == done.json["released"]
    return done, one, {each.kind for each in read_transcript(folder / "transcripts" / "bank.jsonl")}


def test_mondrian_of_two_parties_gives_the_release_of_one_table(tmp_path: Path, capsys: Capture) -> None:
    sections = JOB[: JOB.index("[[privacy]]")] + wide("k-anonymity", "k = 10") + MONDRIAN
    done, one, kinds = released_as_by_one_table(capsys, tmp_path, 300, sections)
    summary = done.json
    assert (summary["argmax"], summary["steps"]) == ("secure", [])
    assert 2 < summary["rounds"] < 10  # levels: about log2(n / k)
    assert summary["metrics"] == pytest.approx(one.json["metrics"])
    assert "level-cuts" in kinds
    assert kinds.isdisjoint({"score", "instruct"})


# The loan company's `children` must differ within groups that the bank cuts, too.
DIVERSE = JOB.replace('[attributes.children]\ntype = "continuous"\n', "").replace(
    "[roles]\n", '[roles]\nsensitive = ["children"]\n'
)
SHARED = '[[privacy]]\nmodel = "k-anonymity"\nqid = ["sex", "job"]\nk = 10\n'
BY_TDS = '[[privacy]]\nmodel = "l-diversity"\nqid = ["birth_date", "sex", "job"]\nl = 3\n[algorithm]\n'


@pytest.mark.parametrize(
    ("job", "n", "kinds"),
    [
        pytest.param(
            DIVERSE[: DIVERSE.index("[[privacy]]")] + wide("l-diversity", "l = 3") + MONDRIAN + 'merge = "small"\n',
            120,
            {"cuts-settled", "parts-rows", "level-cuts"},
            id="mondrian",
        ),
        pytest.param(
            JOB[: JOB.index("[[privacy]]")] + wide("k-anonymity", "k = 4") + SHARED + MONDRIAN,
            120,
            {"best-attributes", "level-cuts"},
            id="mondrian, QIDs that share attributes",
        ),
        pytest.param(
            DIVERSE.replace("k = 10", "k = 4").replace("[algorithm]\n", BY_TDS),
            600,
            {"settled", "parts-rows"},
            id="tds",
        ),
    ],
)
def test_requirements_over_attributes_of_both_parties_are_kept_as_on_one_table(
    job: str, n: int, kinds: set[str], tmp_path: Path, capsys: Capture
) -> None:
    _, _, heard = released_as_by_one_table(capsys, tmp_path, n, job)
    assert kinds <= heard


def settings_in(report: Path) -> dict[str, str]:
    """The settings that a report shows."""
    row = r'<th scope="row"><bdi>([^<]+)</bdi></th><td><bdi>([^<]*)</bdi></td>'
    return dict(re.findall(row, report.read_text()))


def test_three_parties(tmp_path: Path, capsys: Capture) -> None:
    people = generate_people(200)
    third = '[parties.town-hall]\nsource = "hall.csv"\nid = "ssn"\nattributes = ["town"]\n'
    bank = '[parties.bank]\nsource = "bank.csv"\nid = "ssn"\nattributes = ["birth_date", "sex"]\n'
    job = JOB.replace('[parties.bank]\nsource = "bank.csv"\nid = "ssn"\n', bank + third)
    deal(tmp_path, 200, job=job)
    pa.csv.write_csv(people.select(["ssn", "town", "approved"]), tmp_path / "hall.csv")
    done = mashup_here(capsys, tmp_path)
    assert done.code == 0, done.err
    assert "cost:" in done.out
    kept = tmp_path / "transcripts"
    for name in ("bank", "town-hall", "loans"):
        log, certificate = kept / f"{name}.audit.jsonl", kept / f"{name}.pem"
        whole = answered(capsys, "audit", "verify", log, "--certificate", certificate)
        assert f"party {name}" in whole.out


MISTAKES = {
    "one party": (
        JOB.replace('[parties.loans]\nsource = "loans.parquet"\nid = "customer"\n', ""),
        2,
        "parties: two or more are needed; got 1",
    ),
    "data": (JOB + '\n[data]\nsource = "bank.csv"\n', 2, "belongs to anonymize"),
    "input order": (JOB + '\n[output]\norder = "input"\n', 2, "positions would point at people"),
    "argmax": (JOB + 'argmax = "secur"\n', 2, 'algorithm.argmax: must be one of "secure", "plain"'),
    "id": (JOB.replace('id = "ssn"', 'id = "sn"'), 2, 'has no column "sn" (did you mean "ssn"?)'),
    "file": (JOB.replace("bank.csv", "bnk.csv"), 2, "bnk.csv"),
    "no holder": (JOB.replace("attributes.children", "attributes.childs"), 2, 'no party contributes "childs"'),
    "distant sensitive": (
        JOB.replace("[roles]", '[roles]\nsensitive = ["name"]').replace('identifiers = ["ssn", "name"]', "")
        + '\n[[privacy]]\nmodel = "t-closeness"\nqid = ["sex", "salary"]\nt = 0.3\n',
        2,
        "needs groups of at least two records",
    ),
    "k": (JOB.replace("k = 10", "k = 500"), 1, "cannot be reached"),
    "nobody": (JOB.replace('id = "customer"', 'id = "customer"\nnormalize = "none"').replace(
        'id = "ssn"', 'id = "ssn"\nnormalize = "none"').replace("bank.csv", "strangers.csv"), 1, "no record in common"),
}  # fmt: skip


FOUND_BY_A_PROCESS = "nobody"  # one of the mistakes is found by a party that is a process of its own


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_end_with_one_line_and_nothing_written(tmp_path: Path, name: str, capsys: Capture) -> None:
    job, code, problem = MISTAKES[name]
    deal(tmp_path, 120, job=job)
    text = (tmp_path / "bank.csv").read_text().splitlines()
    strangers = [text[0], *(line.replace('"9', '"x9', 1) for line in text[1:])]
    (tmp_path / "strangers.csv").write_text("\n".join(strangers) + "\n")
    in_processes = name == FOUND_BY_A_PROCESS
    done = forked("mashup", tmp_path / "job.toml") if in_processes else mashup_here(capsys, tmp_path)
    assert done.code == code, done.err
    assert any(problem in each for each in done.problems)
    assert not (tmp_path / "release.csv").exists()
    assert not (tmp_path / "transcripts").exists()


def test_an_attribute_of_two_parties_needs_a_contributor(tmp_path: Path, capsys: Capture) -> None:
    deal(tmp_path, 120)
    loans = pq.read_table(tmp_path / "loans.parquet")
    pq.write_table(loans.append_column("sex", pa.array(["Male"] * loans.num_rows)), tmp_path / "loans.parquet")
    done = mashup_here(capsys, tmp_path)
    assert done.code == 2
    assert '"sex": bank and loans have it; name one contributor' in done.err


def test_a_class_of_one_party_is_shared_when_the_job_says_so(tmp_path: Path, capsys: Capture) -> None:
    deal(tmp_path, 120)
    loans = pq.read_table(tmp_path / "loans.parquet")
    pq.write_table(loans.drop_columns(["approved"]), tmp_path / "loans.parquet")
    done = mashup_here(capsys, tmp_path)
    assert done.code == 2
    assert "every party must hold it, or name it in parties.bank.attributes" in done.err
    shared = 'id = "ssn"\nattributes = ["birth_date", "sex", "town", "approved"]'
    (tmp_path / "job.toml").write_text(JOB.replace('id = "ssn"', shared))
    done = mashup_here(capsys, tmp_path)
    assert done.code == 0, done.err


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def launch(folder: Path) -> tuple[subprocess.Popen[str], list[int]]:
    """A mashup under way, and its parties' processes."""
    launched = Forked(
        [MASQUERADE, "mashup", "job.toml"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    started: list[int] = []
    while launched.poll() is None and len(started) < 2:
        started = parties_of(launched.pid)
        time.sleep(0.01)
    return launched, started


@pytest.mark.parametrize("moment", range(5))
def test_a_killed_party_ends_all_and_leaves_nothing(tmp_path: Path, moment: int) -> None:
    """Whenever it dies: while reading, connecting, aligning, specialising, or handing in."""
    deal(tmp_path, 3000)
    random = np.random.default_rng(moment)
    launched, started = launch(tmp_path)
    time.sleep(float(random.uniform(0, 1.6)))
    victim = int(random.choice(started)) if started else 0
    killed = bool(victim) and alive(victim)
    if killed:
        os.kill(victim, signal.SIGKILL)
    output, errors = launched.communicate(timeout=900)
    assert not any(alive(process) for process in started)
    if launched.returncode == 0:  # it had handed in everything already
        assert (tmp_path / "release.csv").exists()
        return
    assert launched.returncode == 3, errors
    assert "party bank" in errors or "party loans" in errors
    assert "Traceback" not in errors
    assert output == ""
    assert not (tmp_path / "release.csv").exists()
    assert not (tmp_path / "report.html").exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("moment", range(4))
def test_interrupts_end_the_parties_too_and_print_no_traceback(tmp_path: Path, moment: int) -> None:
    """Whenever they come, and however often: also while the sockets are closed."""
    deal(tmp_path, 3000)
    random = np.random.default_rng(moment)
    launched, started = launch(tmp_path)
    time.sleep(float(random.uniform(0, 1.6)) if moment else 0)
    for pause in random.choice([0.0, 0.01, 0.1, 0.3], moment + 1):
        if launched.poll() is None:
            launched.send_signal(signal.SIGINT)
            time.sleep(pause)
    _, errors = launched.communicate(timeout=900)
    assert "Traceback" not in errors
    assert "Exception ignored" not in errors
    assert not any(alive(process) for process in started)
    if moment and launched.returncode == 0:  # it had written everything already
        return
    assert launched.returncode in (130, -signal.SIGINT), errors
    assert not (tmp_path / "release.csv").exists()


def test_nobody_outlives_a_launcher_that_was_killed(tmp_path: Path) -> None:
    deal(tmp_path, 3000)
    launched, started = launch(tmp_path)
    launched.kill()
    launched.communicate(timeout=900)
    until = time.monotonic() + 900
    while any(alive(process) for process in started) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(alive(process) for process in started)
