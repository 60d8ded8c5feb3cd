"""The commands `keys`, `mask` and `init`: their JSON, what they tell a person, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.command import here

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
    everything = here(
        capsys, "keys", table, "--all", "--beta", "0.9", "--measure", "separation", "--json"
    ).json
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
    assert here(capsys, "keys", table, "--exact", "--weights", weights, "--json").json["key"] == [
        "age",
        "state",
    ]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("w.xml", "", "ends in .toml, .json, .csv"),
        ("w.json", "[1]", "must be names of columns with a number each"),
        ("w.json", "{", "not a file of weights"),
        ("w.csv", "a,b,c\n", "rows of a name and a number"),
        ("w.csv", "sex,heavy\n", "weight of sex must be a finite number above 0"),
        ("w.toml", "zip = 1\n", 'no column "zip"'),
    ],
)
def test_wrong_weights(table: Path, name: str, text: str, problem: str, capsys: Capture) -> None:
    weights = table.with_name(name)
    weights.write_text(text)
    answer = here(capsys, "keys", table, "--weights", weights)
    assert answer.code == 2
    assert problem in answer.problems[0]


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


def test_attack_tells_what_each_attacker_gets(
    table: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
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
