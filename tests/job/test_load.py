"""The shape of a job file: defaults, and one clear line for everything that a person can write wrongly."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

import masquerade as mq
from job.job_files import parse_job
from masquerade.errors import JobError
from masquerade.forms import read_toml
from masquerade.jobs import Job
from masquerade.methods import CommonKeys, askable_methods, read_method, table_methods


def load_job(path: Path) -> Job:
    return parse_job(read_toml(path), str(path))


def problems(content: dict[str, Any]) -> list[str]:
    with pytest.raises(JobError) as caught:
        parse_job(content, "job.toml")
    return list(caught.value.lines)


def test_every_default_is_as_designed() -> None:
    content = {"data": {"source": "p.csv"}, "attributes": {"a": {}}, "parties": {"b": {"source": "b", "id": "i"}}}
    job = parse_job(content)
    assert job.data is not None
    assert job.data.model_dump() == {
        "source": "p.csv", "query": None, "missing": "drop", "missing_values": ["", "?"], "separator": None,
        "encoding": "utf-8", "partition": None,
    }  # fmt: skip
    assert job.attributes["a"].model_dump() == {
        "type": "categorical", "min": None, "max": None, "taxonomy": None, "max_generalization": None,
        "max_width": None, "min_generalization": None, "min_width": None,
        "weight": 1.0, "format": "%Y-%m-%d", "decimal": ".",
        "thousands": None, "unit": None,
    }  # fmt: skip
    assert job.roles.model_dump(by_alias=True) == {
        "class": None, "duration": None, "event": None, "sensitive": [], "identifiers": [], "provider": None,
    }  # fmt: skip
    assert read_method(table_methods(), job.algorithm) == (mq.Auto(), CommonKeys(7, "exact"), [])
    between, *_ = read_method(askable_methods("vertical"), job.algorithm)
    assert between is not None
    assert between.settings() == {"name": "auto", "align": "auto"}
    assert job.parties["b"].normalize == "strip"
    assert job.parties["b"].attributes is None
    assert job.output.model_dump() == {
        "table": "release.csv", "model": None, "report": "report.html", "order": "shuffle", "keep_provider": False,
        "escape_formulas": False, "labels": [],
    }  # fmt: skip


def test_every_key_of_the_design_is_known() -> None:
    job = parse_job(
        {
            "data": {"source": "p", "query": "SELECT 1", "missing": "error", "separator": ";", "encoding": "latin-1"},
            "attributes": {
                "age": {"type": "continuous", "min": 0, "max": 120.5},
                "born": {"type": "date", "min": datetime.date(1900, 1, 1), "max": "2030-01-01"},
                "job": {"taxonomy": "job.csv", "max_generalization": ["Blue-collar"], "weight": 2},
            },
            "roles": {"class": "income", "sensitive": ["d"], "identifiers": ["ssn"], "provider": "hospital"},
            "privacy": [
                {"model": "m-privacy", "m": 3},
                {"model": "t-closeness", "qid": ["age"], "t": 0, "distance": "ordered", "sensitive": "d"},
                {"model": "confidence-bounding", "qid": ["age"], "confidence": 0.5, "values": ["HIV", 3]},
                {"model": "recursive-l-diversity", "qid": ["age"], "c": 3, "l": 2},
                {"model": "p-sensitive-k-anonymity", "qid": ["age"], "p": 2, "k": 3},
                {"model": "alpha-k-anonymity", "qid": ["age"], "alpha": 0.5, "k": 3},
            ],
            "algorithm": {
                "name": "mondrian", "score": "info-gain", "argmax": "plain", "adversary": "malicious", "epsilon": 0.5,
                "verification": "exact", "provider_aware": False, "seed": 1, "suppression": 0.05,
            },
            "parties": {"bank": {"source": "b.csv", "id": "ssn", "normalize": "none", "attributes": ["job"]}},
            "output": {"table": "r.parquet", "report": False, "order": "input", "keep_provider": True},
        }
    )  # fmt: skip
    assert job.roles.class_ == "income"
    assert job.privacy[3].l == 2
    assert isinstance(job.privacy[3].l, int)  # ℓ-diversity wants a whole number
    assert job.output.report is False


# --- one line each: the content, and what its line must say ---

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "text for a number": (
        {"attributes": {"age": {"weight": "five"}}},
        'attributes.age.weight: must be a finite number of at least 0; got "five"',
    ),
    "text for a list": (
        {"privacy": [{"qid": "age"}]},
        'privacy[1].qid: must be a list of one or more names, such as ["age", "job"]; got "age"',
    ),
    "empty list": (
        {"privacy": [{"qid": []}]},
        'privacy[1].qid: must be a list of one or more names, such as ["age", "job"]; got an empty list',
    ),
    "number in a list of names": (
        {"privacy": [{"qid": ["age", 3]}]},
        'privacy[1].qid: must be a list of one or more names, such as ["age", "job"]; got 3 at place 2',
    ),
    "empty name": (
        {"roles": {"sensitive": [""]}},
        'roles.sensitive: must be a list of names, such as ["age", "job"]; got "" at place 1',
    ),
    "list for a name": ({"roles": {"class": ["a"]}}, 'roles.class: must be a name, such as "age"; got ["a"]'),
    "table for a value": (
        {"data": {"source": {"file": "p.csv"}}},
        'data.source: must be a file such as "patients.csv", or a database URL; got a table',
    ),
    "value for a table": ({"data": "p.csv"}, 'data: must be a table, written [data]; got "p.csv"'),
    "double brackets": ({"data": [{"source": "p"}]}, "data: must be a table, written [data]; got a list"),
    "single brackets": (
        {"privacy": {"k": 2}},
        "privacy: must be a list of tables, each written [[privacy]] in double brackets; got a table",
    ),
    "value in the list of entries": ({"privacy": [3]}, "privacy[1]: must be a table, written [[privacy]]; got 3"),
    "value in attributes": (
        {"attributes": {"age": 3}},
        "attributes.age: must be a table, written [attributes.age]; got 3",
    ),
    "value for attributes": (
        {"attributes": 3},
        "attributes: must be tables, written [attributes.NAME] for each column; got 3",
    ),
    "attribute without a name": ({"attributes": {"": {}}}, 'attributes."": a name must not be empty'),
    "attribute whose name needs quotes": (
        {"attributes": {"marital status": {"weight": -1}}},
        'attributes."marital status".weight: must be a finite number of at least 0; got -1',
    ),
    "attribute named like pydantic's words": (
        {"attributes": {"[key]": 3}},
        'attributes."[key]": must be a table, written [attributes."[key]"]; got 3',
    ),
    "infinite weight": (
        {"attributes": {"age": {"weight": float("inf")}}},
        "attributes.age.weight: must be a finite number of at least 0; got inf",
    ),
    "infinite bound": (
        {"attributes": {"age": {"min": float("-inf")}}},
        'attributes.age.min: must be a finite number, or for type = "date" a date such as 1980-12-31; got -inf',
    ),
    "wrong word": (
        {"attributes": {"age": {"type": "continous"}}},
        'attributes.age.type: must be one of "categorical", "continuous", "date"; got "continous" '
        '(did you mean "continuous"?)',
    ),
    "number for a word": (
        {"data": {"missing": 0}},
        'data.missing: must be one of "drop", "error", "keep", "mean"; got 0',
    ),
    "number for a switch": ({"output": {"keep_provider": 1}}, "output.keep_provider: must be true or false; got 1"),
    "true for a report": (
        {"output": {"report": True}},
        'output.report: must be a file that ends in .html, such as "report.html", or false for none; got true',
    ),
    "format without a year": (
        {"attributes": {"born": {"type": "date", "format": "%d/%m"}}},
        'attributes.born.format: must be a format of dates with day, month and year, such as "%d/%m/%Y", or "iso"; '
        'got "%d/%m"',
    ),
    "digits in a unit": (
        {"attributes": {"pay": {"type": "continuous", "unit": "5"}}},
        'attributes.pay.unit: must be a text without digits, such as "$" or "kg"; got "5"',
    ),
    "long separator": ({"data": {"separator": "ab"}}, 'data.separator: must be one character, such as ";"; got "ab"'),
    "time for a date": (
        {"attributes": {"d": {"max": datetime.datetime(2020, 1, 1)}}},
        'attributes.d.max: must be a finite number, or for type = "date" a date such as 1980-12-31; '
        "got 2020-01-01 00:00:00",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_value_is_told_in_one_line(case: str) -> None:
    content, line = WRONG[case]
    assert problems(content) == [f"job.toml: {line}"]


UNKNOWN = {
    "section": ({"rolls": {}}, "rolls: unknown key (did you mean \"roles\"?); known here: data, attributes"),
    "data": ({"data": {"sep": ";"}}, 'data.sep: unknown key (did you mean "separator"?); known here: source,'),
    "attribute": ({"attributes": {"age": {"typ": 1}}}, 'attributes.age.typ: unknown key (did you mean "type"?)'),
    "roles": ({"roles": {"Class": "a"}}, 'roles.Class: unknown key (did you mean "class"?); known here: class, '),
    "python's name": ({"roles": {"class_": "a"}}, 'roles.class_: unknown key (did you mean "class"?)'),
    "party": ({"parties": {"b": {"attribute": 1}}}, 'parties.b.attribute: unknown key (did you mean "attributes"?)'),
    "output": ({"output": {"zzz": 1}}, "output.zzz: unknown key; known here: table, model, report, order, keep_pro"),
}  # fmt: skip


@pytest.mark.parametrize("case", UNKNOWN)
def test_an_unknown_key_names_the_nearest_known_one(case: str) -> None:
    content, start = UNKNOWN[case]
    (line,) = problems(content)
    assert line.startswith(f"job.toml: {start}")


def test_all_problems_are_told_at_once() -> None:
    content = {
        "data": {"source": 3, "mising": "drop"},
        "attributes": {"age": 3, "job": {"taxonomy": False}},
        "privacy": [{"qid": [1, 2]}, 7],
        "output": {"order": "random"},
    }
    found = problems(content)
    keys = [line.split(": ")[1] for line in found]
    assert sorted(keys) == [
        "attributes.age", "attributes.job.taxonomy", "data.mising", "data.source", "output.order",
        "privacy[1].qid", "privacy[1].qid", "privacy[2]",
    ]  # fmt: skip


def test_a_password_is_never_repeated() -> None:
    url = "postgresql://steward:Gehe1m@host/db"
    for content in (
        {"data": url},
        {"data": [{"source": url}]},
        {"data": {"source": [url]}},
        {"data": {"missing": url}},
        {"data": {"separator": url}},
        {"attributes": {"age": {"type": url}}},
        {"privacy": [{"qid": [url, 3], "k": url}]},
    ):
        assert "Gehe1m" not in "\n".join(problems(content))


# --- files ---


def test_what_is_no_file_of_a_job(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text("")
    with pytest.raises(JobError, match=r'jab\.toml: no such job file \(did you mean "job\.toml"\?\)'):
        load_job(tmp_path / "jab.toml")
    with pytest.raises(JobError, match="a folder, where a job file is expected"):
        load_job(tmp_path)


BROKEN_FILES = {
    "no quotes": (b"[data]\nsource = people.csv\n", "line 2"),
    "not UTF-8": (b'[data]\nsource = "\xff"\n', "line 2: the text is not UTF-8"),
    "nested too deeply": (b"a = " + b"[" * 100_000, "not valid TOML: nested too deeply"),
    "too many digits": (b"a = " + b"9" * 10_000, "not valid TOML: "),
    "a key twice": (b"[data]\nsource = 'a'\nsource = 'b'\n", "line 3"),
    "binary": (b"\x00\x01", "not valid TOML: "),
}


@pytest.mark.parametrize("case", BROKEN_FILES)
def test_a_broken_file_is_one_line(case: str, tmp_path: Path) -> None:
    content, words = BROKEN_FILES[case]
    job = tmp_path / "job.toml"
    job.write_bytes(content)
    with pytest.raises(JobError) as caught:
        load_job(job)
    (line,) = caught.value.lines
    assert line.startswith(f"{job}: ")
    assert words in line


def test_a_byte_order_mark_is_fine(tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    job.write_text('﻿[data]\nsource = "p.csv"\n', encoding="utf-8")
    loaded = load_job(job)
    assert loaded.data is not None
    assert loaded.data.source == "p.csv"
