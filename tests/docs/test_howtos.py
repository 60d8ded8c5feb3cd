"""How-to pages that need no service, followed from their tables to what they print."""

from __future__ import annotations

import re
import sqlite3
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import masquerade as mq
from chunked import write_parts
from docs.walkthrough import DOCS, Block, Reader, Special, amended, compare
from masquerade.data import write_table
from masquerade.service import read_request
from parties_here import parties_here
from people_job import write_people

N = 120


def people() -> pa.Table:
    """Few people, with an age."""
    table = mq.generate_people(N)
    return table.append_column("age", pc.subtract(2025, pc.year(table["birth_date"])))


def write_flat(folder: Path, name: str, values: pa.ChunkedArray) -> None:
    """A taxonomy file of one root over all values."""
    (folder / name).write_text("".join(f"{value};*\n" for value in sorted(set(values.to_pylist()))), "utf-8")


# --- what the pages take for granted ---


def mashup(folder: Path) -> dict[str, Any]:
    table = people()
    write_flat(folder, "job.csv", table["job"])
    write_table(table.select(["ssn", "job", "salary", "approved"]), folder / "bank.csv")
    loans = table.slice(10).select(["ssn", "sex", "approved"]).rename_columns(["customer", "sex", "approved"])
    write_table(loans, folder / "loans.parquet")
    return {}


def dka(folder: Path) -> dict[str, Any]:
    table = people()
    table = table.rename_columns(
        ["diagnosis" if name == "disease" else "income" if name == "education" else name for name in table.column_names]
    )
    write_flat(folder, "diagnosis.csv", table["diagnosis"])
    write_flat(folder, "town.csv", table["town"])
    (folder / "age.yaml").write_text('"*": ["[0, 40)", "[40, 120)"]\n')
    write_table(table.select(["ssn", "diagnosis", "income"]), folder / "hospital.csv")
    write_table(table.select(["ssn", "town", "age"]), folder / "registry.csv")
    ages = mq.Attribute("age", "continuous", taxonomy=mq.read_taxonomy(folder / "age.yaml", "continuous"))
    attributes = [
        mq.Attribute(name, taxonomy=mq.read_taxonomy(folder / f"{name}.csv")) for name in ("diagnosis", "town")
    ]
    columns = table.select(["diagnosis", "town", "age"])
    return {"table": mq.Table(columns, mq.Schema([*attributes, ages]))}


def collaborate(folder: Path) -> dict[str, Any]:
    table = people().select(["age", "job", "disease"])
    write_flat(folder, "job.csv", table["job"])
    for place, name in enumerate(("north", "south", "west")):
        write_table(table.slice(place * N // 3, N // 3), folder / f"{name}.csv")
    return {}


def one_table(folder: Path) -> dict[str, Any]:
    write_people(folder, N)
    table = mq.read(folder / "people.csv", folder / "taxonomies", identifiers=["ssn", "name"])
    requirement = mq.KAnonymity(["birth_date", "town"], k=10)
    return {"mq": mq, "pd": pd, "table": table, "requirement": requirement}


def evaluate(folder: Path) -> dict[str, Any]:
    names = one_table(folder)
    release = mq.anonymize(names["table"], names["requirement"], mq.TopDownSpecialization(), order="input")
    return {**names, "release": release}


def requirements(folder: Path) -> dict[str, Any]:
    """A job of one quasi-identifier, which `suppression` takes."""
    names = one_table(folder)
    write_flat(folder, "disease.csv", people()["disease"])
    job = (folder / "job.toml").read_text()
    first, second, *_ = re.findall(r"^\[\[privacy\]\]\n(?:.+\n)+", job, re.MULTILINE)
    (folder / "job.toml").write_text(job.partition("[[privacy]]")[0] + first + second)
    return names


def taxonomies(folder: Path) -> dict[str, Any]:
    """A job about ages and jobs, whose taxonomies the page shows."""
    jobs = ("Janitor", "Mover", "Carpenter", "Manager", "Lawyer", "Accountant")
    rows = [f"{7 * row % 90},{jobs[row % 6]},{'Oslo' if row % 4 else 'Bergen'}" for row in range(60)]
    (folder / "people.csv").write_text("\n".join(["age,job,town", *rows, ""]))
    (folder / "job.toml").write_text(
        '[data]\nsource = "people.csv"\n[attributes.job]\ntaxonomy = "job.csv"\n[attributes.age]\n'
        'type = "continuous"\n[attributes.town]\ntaxonomy = "flat"\n[[privacy]]\nmodel = "k-anonymity"\n'
        'qid = ["age", "job", "town"]\nk = 5\n'
    )
    return {}


def m_privacy(folder: Path) -> dict[str, Any]:
    columns = {
        "age": [20 + 7 * row % 60 for row in range(N)],
        "zip": [f"9{row % 4}" for row in range(N)],
        "disease": [("flu", "ulcer", "asthma")[row % 3] for row in range(N)],
        "hospital": [f"h{row % 5}" for row in range(N)],
    }
    table = pa.table(columns)
    write_table(table, folder / "patients.csv")
    write_flat(folder, "zip.csv", table["zip"])
    zips = mq.Attribute("zip", taxonomy=mq.read_taxonomy(folder / "zip.csv"))
    return {"mq": mq, "table": mq.Table(table, mq.Schema([mq.Attribute("age", "continuous"), zips]))}


def databases(folder: Path) -> dict[str, Any]:
    one_table(folder)
    table = people()
    with closing(sqlite3.connect(folder / "people.db")) as database, database:
        database.execute(f"CREATE TABLE people ({', '.join(table.column_names)})")
        rows = ([str(cell) for cell in row.values()] for row in table.to_pylist())
        database.executemany(f"INSERT INTO people VALUES ({', '.join('?' * table.num_columns)})", rows)
    return {"mq": mq}


def large_tables(folder: Path) -> dict[str, Any]:
    write_parts(people(), folder / "people")
    return {}


def library(_folder: Path) -> dict[str, Any]:
    return {"mq": mq}


def nothing(_folder: Path) -> dict[str, Any]:
    return {}


# --- what the pages ask for in words ---


def is_a_request(_reader: Reader, block: Block) -> None:
    read_request(tomllib.loads(block.text)["request"])


def is_readable(_reader: Reader, block: Block) -> None:
    """A server that is not here."""
    tomllib.loads(block.text)


def all_are_written(reader: Reader, block: Block) -> None:
    for name in block.text.split():
        assert (reader.folder / name).is_file(), name


def two_parents(reader: Reader, block: Block) -> None:
    wrong = "Janitor;Office;*\nMover;Office;*\nClerk;Office;*\nCarpenter;Shop;*\nClerk;Shop;*\n"
    (reader.folder / "job.csv").write_text(wrong)
    reader.said = ""
    assert reader.run("masquerade anonymize job.toml") == 2
    compare(block.text, reader.said, f"line {block.line}")


def job_of_yaml(reader: Reader, block: Block) -> None:
    """The same tree, in the other form."""
    reader.write(block.title or "", block.text)
    rows, tree = (mq.read_taxonomy(reader.folder / name, source="job") for name in ("job.csv", "job.yaml"))
    assert rows == tree


# --- the pages ---


@dataclass(frozen=True)
class Page:
    """A page, what stands in its folder, and how its parts of a job are tried."""

    name: str
    prepare: Callable[[Path], dict[str, Any]]
    tried: Sequence[str] = ()
    special: Mapping[str, Special] = field(default_factory=dict)

    def follow(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        reader = Reader(folder, capsys, self.special, tried=self.tried, names=self.prepare(folder))
        reader.follow(DOCS / "howto" / f"{self.name}.md")


ANONYMIZE = ["masquerade anonymize job.toml"]
ONE_TABLE = [
    Page("attack", nothing),
    Page("compare", one_table, ANONYMIZE),
    Page("databases", databases, ANONYMIZE, {"with the query beside it": is_readable}),
    Page("evaluate", evaluate),
    Page("identities", nothing, special={"writes `trial/ca.pem`": all_are_written}),
    Page("init", library),
    Page("large-tables", large_tables, special={"name the scheduler": is_readable}),
    Page("m-privacy", m_privacy, [*ANONYMIZE, "masquerade verify release.csv --job job.toml"]),
    Page("purpose", one_table, ANONYMIZE),
    Page("requirements", requirements, ANONYMIZE),
    Page("taxonomies", taxonomies, ANONYMIZE, {"names the file and the lines": two_parents, "## YAML": job_of_yaml}),
]
PARTIES = [
    Page("collaborate", collaborate),
    Page("keys", library),
    Page("dka", dka, ["masquerade mashup job.toml"], {"for columns of two parties": is_a_request}),
    Page("mashup", mashup),
    Page(
        "learn",
        library,
        special={
            "Then each party names its": is_readable,
            "to do without it": is_readable,
            "their pooled records would give": is_readable,
            "in place of that of a table": is_a_request,
            "in place of a class": is_readable,
        },
    ),
]


@pytest.mark.parametrize("page", ONE_TABLE, ids=lambda page: page.name)
def test_a_page_about_one_table_says_what_happens(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page.follow(tmp_path, capsys)


@pytest.mark.system
@pytest.mark.parametrize("page", PARTIES, ids=lambda page: page.name)
def test_a_page_about_parties_says_what_happens(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with parties_here():
        page.follow(tmp_path, capsys)


# --- the reader ---


@pytest.mark.parametrize(
    ("text", "true"),
    [
        ("```console\n$ echo one two\none two\n```\n", True),
        ("```console\n$ echo one two\none … two\n$ echo three\nthree\n```\n", True),
        ("```console\n$ echo one two\none three\n```\n", False),
        ("```console\n$ echo one\ntwo\n$ echo two\ntwo\n```\n", False),
        ("```console\nfalse\n```\n", False),
        ("```console\nfalse\n```\n\n```text\nerror: none\n```\n", False),
        ('```text title="a.txt"\none\n```\n```console\n$ cat a.txt\none\n```\n', True),
        ("```\nmasquerade --version\n```\n", False),
    ],
)
@pytest.mark.system
def test_a_page_that_is_not_true_is_noticed(
    text: str, true: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    with nullcontext() if true else pytest.raises(AssertionError, match=r"page\.md: line"):
        Reader(tmp_path, capsys).follow(page)


def test_a_part_takes_the_place_of_its_table() -> None:
    file = "name = 1\n[data]\nsource = 2\n[[privacy]]\nk = 3\n[output]\ntable = 4\n"
    part = "[[privacy]]\nk = 5\n[data]  # another\nquery = 6\n"
    assert tomllib.loads(amended(file, part)) == {
        "name": 1,
        "data": {"query": 6},
        "privacy": [{"k": 3}, {"k": 5}],
        "output": {"table": 4},
    }
