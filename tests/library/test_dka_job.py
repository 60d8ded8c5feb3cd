"""DkA-Datafly through `mashup`: two parties over TLS, as processes where one dies, and jobs that it refuses."""

from __future__ import annotations

import csv
import os
import re
import signal
from pathlib import Path

import pytest

from masquerade.errors import AnswerIsNo, JobError, PeerError
from masquerade.jobs import anonymize_job, mashup_job
from masquerade.progress import Stage
from parties_here import parties_here
from party_processes import parties_of
from protocol.test_dka import NAMES, bag, people, plainly

N, K = 60, 4
LEAVES = {"job": (3, 2, 2), "town": (2, 2), "age": (4, 3, 1)}


@pytest.fixture
def job(tmp_path: Path) -> Path:
    table = people(N, 7).arrow
    cells = {name: table.column(name).to_pylist() for name in NAMES}
    cells["disease"] = ["flu", "gout"] * (N // 2)
    for party, names in (("anna", ["job", "disease"]), ("berta", ["town", "age"])):
        with (tmp_path / f"{party}.csv").open("w", newline="") as file:
            write = csv.writer(file)
            write.writerow(["id", *names])
            rows = zip(*(cells[name] for name in names), strict=True)
            write.writerows([f"p{row}", *values] for row, values in enumerate(rows))
            write.writerows([[f"q{row}", "?", names[1]] for row in range(len(names[1]))])  # dropped
    for name, sizes in LEAVES.items():
        with (tmp_path / f"{name}.tree.csv").open("w", newline="") as file:
            for at, size in enumerate(sizes):
                csv.writer(file, delimiter=";").writerows(
                    [f"{name} {at}.{leaf}", f"{name} {at}", f"any {name}"] for leaf in range(size)
                )
    text = "".join(f'[attributes.{name}]\ntaxonomy = "{name}.tree.csv"\n' for name in NAMES)
    text += f'[[privacy]]\nmodel = "k-anonymity"\nqid = {list(NAMES)}\nk = {K}\n'
    text += '[algorithm]\nname = "dka-datafly"\n'
    text += "".join(f'[parties.{name}]\nsource = "{name}.csv"\nid = "id"\n' for name in ("anna", "berta"))
    (tmp_path / "job.toml").write_text(text)
    return tmp_path / "job.toml"


@pytest.mark.system
def test_two_processes_give_the_release_of_plain_rounds(job: Path) -> None:
    stages: list[tuple[str, Stage]] = []
    done = mashup_job(job, on_party=lambda party, stage: stages.append((party, stage)))
    expected, sides = plainly(people(N, 7), K)
    assert bag(done.release.table) == expected
    assert done.summary["suppressed"] == N - expected.total()
    assert done.summary["common_records"] == done.summary["rows"] == N
    assert done.summary["dropped_rows"] == len("disease") + len("age")
    assert done.summary["dropped_rows_by_party"] == {"anna": len("disease"), "berta": len("age")}
    assert done.report is not None
    assert done.report.exists()
    assert done.rounds == sides[0].round
    assert done.summary["joint_histogram"] == "transfers"
    assert "argmax" not in done.summary  # nobody's scores were compared
    assert "argmax" not in done.report.read_text()
    for party in ("anna", "berta"):
        told = [stage for name, stage in stages if name == party]
        assert Stage("aligning") in told
        assert Stage("comparing", round=sides[0].round) in told
    assert sorted(path.name for path in job.parent.glob(".*")) == []  # the notes are gone


def test_two_parties_join_by_themselves(job: Path) -> None:
    job.write_text(job.read_text().replace("[algorithm]\n", '[algorithm]\njoin = "parties"\n'))
    stages: list[Stage] = []
    with parties_here():
        done = mashup_job(job, on_party=lambda _, stage: stages.append(stage))
    assert bag(done.release.table) == plainly(people(N, 7), K)[0]
    assert Stage("joining") in stages


def _killed_in_round(number: int, job: Path) -> str:
    """Kill a party when that round begins; return how the job ended."""
    for note in job.parent.glob(".*.notes"):
        note.unlink()
    killed: list[int] = []

    def kill(party: str, stage: Stage) -> None:
        if party == "berta" and stage == Stage("counting", round=number) and not killed:
            killed.append(parties_of(os.getpid())[0])
            os.kill(killed[0], signal.SIGKILL)

    try:
        mashup_job(job, on_party=kill)
    except PeerError as error:
        return str(error)
    return "with a release"


@pytest.mark.system
def test_a_killed_party_costs_one_round_at_most(job: Path) -> None:
    for _ in range(5):  # on a busy machine we hear of a round when all of them are over
        ended = _killed_in_round(3, job)
        if len(list(job.parent.glob(".*.notes"))) == 2:
            break
    kept = r"no release was written; run the job again .* \.release\.anna\.notes and \.release\.berta\.notes remember"
    assert re.search(f"ended by signal 9; {kept}", ended)
    stages: list[Stage] = []
    with parties_here():
        done = mashup_job(job, on_party=lambda _, stage: stages.append(stage))
    assert bag(done.release.table) == plainly(people(N, 7), K)[0]
    assert "aligning" not in {stage.name for stage in stages}
    assert Stage("counting", round=1) not in stages
    assert list(job.parent.glob(".*.notes")) == []


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("[algorithm]\n", "[algorithm]\nwhole_columns = true\n", "whole_columns: belongs to datafly"),
        ("[algorithm]\n", '[algorithm]\nlocal = "mondrian"\n', 'local: the name "dka-datafly" says it already'),
        ("[algorithm]\n", '[algorithm]\nscore = "discernibility"\n', "algorithm.score: belongs to tds"),
        (
            "[algorithm]\n",
            '[[privacy]]\nmodel = "k-anonymity"\nqid = ["town", "age"]\nk = 9\n[algorithm]\n',
            "dka: all requirements must be over the same QID",
        ),
        (
            "[algorithm]\n",
            f'[[privacy]]\nmodel = "t-closeness"\nqid = {list(NAMES)}\nt = 0.2\nsensitive = "disease"\n[algorithm]\n',
            "dka: t-closeness cannot be tested on shared counts of one group",
        ),
        ('taxonomy = "age.tree.csv"', 'type = "continuous"', "attributes.age: dka with local = datafly generalises"),
        (f"qid = {list(NAMES)}", "qid = ['town', 'age']", "each party holds at least one.*anna has none"),
        (
            "[parties.anna]",
            '[parties.carla]\nsource = "carla.csv"\nid = "id"\n[parties.anna]',
            "each party holds at least one.*carla has none",
        ),
        (
            "[algorithm]\n",
            '[parties.carla]\nsource = "carla.csv"\nid = "id"\n[algorithm]\njoin = "parties"\n',
            'algorithm.join: dka: join = "parties" takes two parties; got 3',
        ),
    ],
    ids=[
        *("whole columns", "short name", "score", "two QIDs", "t-closeness", "taxonomy", "holder", "three"),
        "three that join",
    ],
)
def test_what_it_cannot_do_is_told_before_anything_runs(job: Path, old: str, new: str, told: str) -> None:
    text = job.read_text()
    assert old in text
    job.write_text(text.replace(old, new))
    (job.parent / "carla.csv").write_text("id\np1\n")
    with pytest.raises(JobError, match=told):
        mashup_job(job)


def test_fewer_common_records_than_k_is_an_answer(job: Path) -> None:
    job.write_text(job.read_text().replace(f"k = {K}", f"k = {N + 1}"))
    told = f"k = {N + 1} needs at least {N + 1} common records; there are {N}$"
    with parties_here(), pytest.raises(AnswerIsNo, match=told) as no:
        mashup_job(job)
    assert len(no.value.lines) == 1  # both parties came to it, and it is told once
    assert list(job.parent.glob(".*.notes")) == []


def test_one_table_is_refused(job: Path) -> None:
    head, _, _ = job.read_text().partition("[parties.anna]")
    job.write_text('[data]\nsource = "anna.csv"\n' + head)
    with pytest.raises(JobError, match='"dka" is for parties; one table has: auto, tds, mondrian, '):
        anonymize_job(job)
