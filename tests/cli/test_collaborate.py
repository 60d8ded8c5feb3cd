"""`masquerade mashup` of providers that hold the same columns, with a third party and without.

They are processes of their own where that is what is tested: a whole run, and a death.
"""

from __future__ import annotations

import os
import re
import signal
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from cli.command import answered, forked, here
from cli.test_mashup import alive, mashup_here, rows
from forked import forked_servers
from masquerade.cli.output import ProgressDisplay
from masquerade.data import generate_people, people_taxonomies
from masquerade.net import read_transcript
from masquerade.progress import Stage
from party_processes import parties_of

pytestmark = pytest.mark.system  # party processes are started

Capture = pytest.CaptureFixture[str]

HOUSES = ("north", "south", "west")
JOB = """
[parties.north]
source = "north.csv"
[parties.south]
source = "south.csv"
[parties.west]
source = "west.csv"

[attributes.birth_date]
type = "date"
min = 1900-01-01
max = 2020-01-01
[attributes.salary]
type = "continuous"
[attributes.town]
taxonomy = "taxonomies/town.csv"
[attributes.job]
taxonomy = "taxonomies/job.yaml"

[roles]
sensitive = ["children"]
identifiers = ["ssn", "name"]

[[privacy]]
model = "k-anonymity"
qid = ["birth_date", "salary", "town", "job"]
k = 6
[[privacy]]
model = "l-diversity"
qid = ["birth_date", "salary", "town", "job"]
l = 2
[[privacy]]
model = "m-privacy"
m = 1

[algorithm]
name = "mondrian"
"""


def deal(folder: Path, n: int, job: str = JOB) -> pa.Table:
    people = generate_people(n)
    (folder / "taxonomies").mkdir(exist_ok=True)
    for name, text in people_taxonomies().items():
        (folder / "taxonomies" / name).write_text(text)
    for at, name in enumerate(HOUSES):
        pa.csv.write_csv(people.take(pa.array(np.arange(at, n, 3))), folder / f"{name}.csv")
    (folder / "job.toml").write_text(job)
    return people


def test_with_and_without_a_third_party(tmp_path: Path, capsys: Capture) -> None:
    people = deal(tmp_path, 300)
    holed = {**people.slice(0, 1).to_pylist()[0], "salary": None}
    with (tmp_path / "south.csv").open("ab") as file:
        pa.csv.write_csv(pa.Table.from_pylist([holed], people.schema), file, pa.csv.WriteOptions(include_header=False))
    done = forked("mashup", "job.toml", "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    summary = done.json
    assert summary["third_party"] == "secure"
    assert [summary[key] for key in ("rows", "dropped_rows", "released", "suppressed")] == [301, 1, 300, 0]
    assert summary["dropped_rows_by_party"] == {"north": 0, "south": 1, "west": 0}
    assert summary["requirements"][0]["model"] == "m-privacy"
    assert all(each["holds"] for each in summary["requirements"])
    assert set(summary["bytes_sent"]) == set(HOUSES)
    assert "common_records" not in summary
    assert summary["rounds"] > 2
    secure = rows(tmp_path / "release.csv")
    assert sum(secure.values()) == 300
    children = Counter(row[-1] for row in secure.elements())
    assert children == Counter(map(str, people["children"].to_pylist()))
    assert (tmp_path / "report.html").exists()
    kinds = {each.kind for each in read_transcript(tmp_path / "transcripts" / "north.jsonl")}
    assert "shared-masked" in kinds
    assert "collaborate-records" not in kinds

    same = JOB + 'third_party = "trusted"\nchoose = "public"\n\n[output]\nkeep_provider = true\n'
    (tmp_path / "job.toml").write_text(same)
    done = mashup_here(capsys, tmp_path, "--json")
    assert done.code == 0, done.err
    trusted = rows(tmp_path / "release.csv")
    assert {row[-1] for row in trusted} == set(HOUSES)
    assert Counter(row[:-1] for row in trusted.elements()) == secure
    told = done.json
    for metrics in (told["metrics"], summary["metrics"]):  # of all records together, and of each provider's own
        assert 0 < metrics.pop("information_kept") < 1
    assert told["metrics"] == pytest.approx(summary["metrics"])
    assert (told["rows"], told["dropped_rows"], told["query_error"]["queries"]) == (301, 1, 2500)
    kinds = {each.kind for each in read_transcript(tmp_path / "transcripts" / "north.jsonl")}
    assert kinds == {"collaborate-records", "received"}
    answered(capsys, "verify", tmp_path / "release.csv", "--job", tmp_path / "job.toml")

    made = []
    for choose in ("", 'choose = "certainty"\n'):  # who sees all counts uses them
        (tmp_path / "job.toml").write_text(JOB + 'third_party = "trusted"\n' + choose)
        done = mashup_here(capsys, tmp_path)
        assert done.code == 0, done.err
        assert "301 records of all providers" in done.out
        assert "rows dropped for missing cells: south 1\n" in done.out
        made.append(rows(tmp_path / "release.csv"))
    assert made[0] == made[1] != secure


MISTAKES = {
    "id": (JOB.replace('"north.csv"', '"north.csv"\nid = "ssn"'), 2, "parties.north.id: belongs to parties"),
    "column": (JOB.replace('["children"]', '["illness"]'), 2, 'north has no column "illness"'),
    "flat": (JOB.replace('"taxonomies/town.csv"', '"flat"'), 2, '"flat" is made of all providers'),
    "choose": (JOB + 'choose = "certainty"\n', 2, "algorithm.choose: looks at counts"),
    "word": (
        JOB + 'third_party = "trustd"\n',
        2,
        'must be one of "secure", "trusted"; got "trustd" (did you mean "trusted"?)',
    ),
    "model": (
        JOB.replace('model = "l-diversity"', 'model = "t-closeness"').replace("l = 2", "t = 0.9"),
        2,
        "t-closeness cannot be tested",
    ),
    "other algorithm": (
        JOB.replace('name = "mondrian"', 'name = "tds"\nthird_party = "trusted"'),
        2,
        "algorithm.third_party: belongs to mondrian; tds does without it",
    ),
    "choose without cuts between providers": (
        JOB + 'third_party = "trusted"\nchoose = "widest"\n',
        2,
        'algorithm.choose: must be "certainty" or "fitness"',
    ),
    "k, found out by the third party": (
        JOB.replace("k = 6", "k = 200") + 'third_party = "trusted"\nchoose = "public"\n',
        1,
        "k = 200 cannot be reached",
    ),
    "k, found out from all counts": (
        JOB.replace("k = 6", "k = 200") + 'third_party = "trusted"\n',
        1,
        "the group of all records does not satisfy k-anonymity (k = 200)",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_end_with_one_line_and_nothing_written(tmp_path: Path, name: str, capsys: Capture) -> None:
    job, code, problem = MISTAKES[name]
    deal(tmp_path, 60, job)
    done = mashup_here(capsys, tmp_path)
    assert done.code == code, done.err
    assert any(problem in each for each in done.problems)
    assert not (tmp_path / "release.csv").exists()


def test_a_killed_provider_is_named_and_nothing_is_written(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the midst of the cuts, of which the command hears before it lets any provider go."""
    deal(tmp_path, 1200)
    killed: list[int] = []
    told = ProgressDisplay.party

    def kill_one(shown: ProgressDisplay, name: str, stage: Stage) -> None:
        if stage.name == "cutting" and not killed:
            killed.append(parties_of(os.getpid())[-1])
            os.kill(killed[0], signal.SIGKILL)
        told(shown, name, stage)

    monkeypatch.setattr(ProgressDisplay, "party", kill_one)
    with forked_servers():
        done = here(capsys, "mashup", tmp_path / "job.toml")
    assert done.code == 3, done.err
    (problem,) = done.problems
    assert re.match("party (north|south|west): its process was ended by signal 9", problem)
    assert done.out == ""
    assert not (tmp_path / "release.csv").exists()
    assert not alive(killed[0])
