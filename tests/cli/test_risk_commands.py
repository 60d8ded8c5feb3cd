"""The commands `keys`, `mask` and `init`: their JSON, what they tell a person, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.command import here, refused
from masquerade.engine import LocalEngine
from parties_here import parties_here

Capture = pytest.CaptureFixture[str]
TABLE_1 = "age;sex;state\n20;Female;CA\n30;Female;CA\n40;Female;TX\n20;Male;NY\n40;Male;CA\n"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    path.write_text(TABLE_1)
    return path


def test_keys_as_json(table: Path, capsys: Capture) -> None:
    found = here(capsys, "keys", table, "--json").json
    assert (found["key"], found["ratio"]) == (["age", "sex"], 1.0)
    assert (found["sampled"], found["duplicates"]) == (None, 0)
    assert set(found["seconds"]) == {"read", "find"}
    assert "keys" not in found
    everything = here(capsys, "keys", table, "--all", "--beta", "0.9", "--measure", "separation", "--json").json
    assert everything["keys"][-1] == {"key": ["sex", "state"], "ratio": 0.9}


def test_mask_as_json(table: Path, capsys: Capture) -> None:
    found = here(capsys, "mask", table, "--measure", "distinct", "--beta", "0.8", "--json").json
    assert (found["published"], found["ratio"], found["sampled"]) == (["sex", "state"], 0.8, None)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("w.json", json.dumps({"sex": 9})),
        ("w.json", json.dumps({"weights": {"sex": 9.0}})),
        ("w.toml", "sex = 9\n"),
        ("w.toml", "[attributes.sex]\nweight = 9\n[attributes.age]\n"),
        ("w.csv", "column,weight\nsex,9\n"),
    ],
)
def test_weights_of_every_kind(table: Path, name: str, text: str, capsys: Capture) -> None:
    weights = table.with_name(name)
    weights.write_text(text)
    assert here(capsys, "keys", table, "--exact", "--weights", weights, "--json").json["key"] == ["age", "state"]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("w.xml", "", "ends in .toml, .json, .csv"),
        ("w.json", "[1]", "must be names of columns with a number each"),
        ("w.json", "{", "not a file of weights"),
        ("w.csv", "name,weight\nsex,5\nsex,7\n", "sex is there more than once"),
        ("w.csv", "a,b,c\n", "rows of a name and a number"),
        ("w.csv", "sex,heavy\n", "weight of sex must be a finite number above 0"),
        ("w.toml", "zip = 1\n", 'no column "zip"'),
    ],
)
def test_wrong_weights(table: Path, name: str, text: str, problem: str, capsys: Capture) -> None:
    weights = table.with_name(name)
    weights.write_text(text)
    assert problem in refused(capsys, "keys", table, "--weights", weights)[0]


def test_exit_codes(table: Path, capsys: Capture) -> None:
    assert here(capsys, "keys", table, "--columns", "zip").code == 2
    assert here(capsys, "keys", table, "--epsilon", "0.1").code == 2
    assert here(capsys, "keys", table.with_name("none.csv")).code == 2
    assert here(capsys, "keys", table, "--columns", "sex", "--beta", "0.9").code == 1
    too_small = ("mask", table, "--measure", "distinct", "--beta", "0.5", "--sample", "2", "--delta", "0.1")
    assert here(capsys, *map(str, too_small)).code == 1


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "latin-1"])
def test_the_encoding_is_found(tmp_path: Path, encoding: str, capsys: Capture) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes("name|city\nJosé|Málaga\nIñaki|Málaga\n".encode(encoding))
    assert here(capsys, "keys", path, "--json").json["key"] == ["name"]


def test_init_writes_a_job_that_runs(table: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(table.parent)
    found = here(capsys, "init", table, "--k", "2", "--sensitive", "state", "--json").json
    assert found["job"] == "job.toml"
    assert found["attributes"][2]["role"] == "sensitive"
    assert {"name", "role", "type", "reason"} == set(found["attributes"][0])
    assert here(capsys, "anonymize", "job.toml", "--json").json["released"] == 5
    assert here(capsys, "init", table).problems == [
        "job.toml: there is such a file already; name another with --output"
    ]


def test_attack_tells_what_each_attacker_gets(table: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(table.parent)
    here(capsys, "init", table, "--k", "2", "--sensitive", "state")
    here(capsys, "anonymize", "job.toml")
    words = ("attack", "people-release.csv", "--job", "job.toml", "--outside", table, "--original", table)
    found = here(capsys, *words, "--json").json["attacks"]
    assert {"name", "value", "meaning", "records"} == set(found[0])
    assert found[0]["name"] == "prosecutor"
    assert found[0]["value"] <= 0.5
    assert found[0]["records"]
    assert {"linkage", "homogeneity", "journalist"} <= {each["name"] for each in found}
    told = here(capsys, *words).out
    assert "  most exposed: row " in told
    other = table.with_name("other.csv")
    other.write_text("height,weight\n1,2\n")
    answer = here(capsys, *words[:5], other)
    assert (answer.code, "has no attribute of the release's QIDs" in answer.problems[0]) == (2, True)


@pytest.fixture
def parties(tmp_path: Path) -> Path:
    (tmp_path / "a.csv").write_text(
        "ssn,age,sex\n1,20,Female\n2,30,Female\n3,40,Female\n4,20,Male\n5,40,Male\n6,9,Male\n"
    )
    (tmp_path / "b.csv").write_text("who;state\n5;CA\n4;NY\n3;TX\n2;CA\n1;CA\n7;AL\n")
    job = tmp_path / "job.toml"
    job.write_text(
        '[parties.a]\nsource = "a.csv"\nid = "ssn"\n[parties.b]\nsource = "b.csv"\nid = "who"\nseparator = ";"\n'
    )
    return job


def test_joint_keys_as_json(parties: Path, capsys: Capture) -> None:
    with parties_here():
        found = here(capsys, "keys", parties, "--columns", "sex,state", "--json").json
        every = here(
            capsys,
            "keys",
            parties,
            *("--columns", "age,sex,state", "--all", "--beta", "0.9", "--measure", "separation", "--json"),
        ).json
    assert (found["key"], found["ratio"], found["sampled"]) == (["sex", "state"], 0.8, None)
    assert (found["duplicates"], found["common_records"]) == (1, 5)
    assert set(found["seconds"]) == {"align", "protocol"}
    assert set(found["bytes_sent"]) == set(found["messages"]) == {"a", "b"}
    assert every["keys"] == [{"key": ["age", "state"], "ratio": 1.0}, {"key": ["sex", "state"], "ratio": 0.9}]
    assert [each["key"] for each in every["asked"]] == [["age", "state"], ["sex", "state"], ["age", "sex", "state"]]
    assert [path.name for path in sorted(parties.parent.iterdir())] == ["a.csv", "b.csv", "job.toml"]


@pytest.mark.parametrize(
    ("options", "code", "problem"),
    [
        (["--columns", "age,sex"], 2, "all are a's"),
        (["--columns", "age,zip"], 2, 'no party contributes "zip"'),
        (["--columns", "ssn,state"], 2, "it identifies the people of a"),
        (["--columns", "age,state", "--exact"], 2, "--exact belongs to one table"),
        (["--columns", "age,state", "--beta", "0.9"], 2, "all and beta belong together"),
        (["--columns", "age,state", "--measure", "entropy"], 2, "measure"),
        (["--columns", "age,state", "--precision", "0.3"], 2, "1 divided by a whole number"),
        ([], 2, "name the columns to ask about"),
    ],
)
def test_wrong_questions_to_parties(
    parties: Path, options: list[str], code: int, problem: str, capsys: Capture
) -> None:
    answer = here(capsys, "keys", parties, *options)
    assert answer.code == code
    assert problem in answer.problems[0]


@pytest.fixture
def job(table: Path) -> Path:
    """A job whose table has one column that is no attribute of it."""
    table.write_text("id;" + TABLE_1.replace("\n", "\n1;", 5))
    path = table.with_name("job.toml")
    attributes = "\n".join(f"[attributes.{name}]" for name in ("age", "sex", "state"))
    data = '[data]\nsource = "people.csv"\nseparator = ";"'
    path.write_text(f'{data}\n{attributes}\n[engine]\nmemory = "512MB"\n')
    return path


def test_keys_and_mask_of_a_job_count_its_attributes_on_its_engine(
    job: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []
    real = LocalEngine.__init__
    monkeypatch.setattr(LocalEngine, "__init__", lambda own, *a, **k: opened.append(a) or real(own, *a, **k))
    found = here(capsys, "keys", job, "--exact", "--json").json
    assert (found["key"], found["rows"]) == (["age", "sex"], 5)
    masked = here(capsys, "mask", job, "--measure", "distinct", "--beta", "0.8", "--json").json
    assert masked["published"] == ["sex", "state"]
    assert opened == [(512 << 20,), (512 << 20,)]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--memory", "1GB"], "--memory belongs to a table; of a job it is in [engine]"),
        (["--separator", ","], "--separator belongs to a table; of a job it is in [data]"),
    ],
)
def test_what_a_job_says_itself(job: Path, options: list[str], problem: str, capsys: Capture) -> None:
    assert refused(capsys, "keys", job, *options) == [problem]


def test_a_wrong_engine_of_a_job_names_its_key(job: Path, capsys: Capture) -> None:
    job.write_text(job.read_text().replace("512MB", "1MB"))
    assert "job.toml: engine.memory: must be a size of at least 512MB" in refused(capsys, "keys", job)[0]


def test_options_of_parties_do_not_fit_a_table(table: Path, capsys: Capture) -> None:
    answer = here(capsys, "keys", table, "--precision", "0.1")
    assert (answer.code, "belongs to a job with [parties]" in answer.problems[0]) == (2, True)


def test_a_list_of_commas_is_not_all_columns(table: Path, capsys: Capture) -> None:
    assert refused(capsys, "keys", table, "--columns", ",") == ["a list such as a,b is expected; got ','"]
