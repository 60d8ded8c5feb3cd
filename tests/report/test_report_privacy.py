"""The report tells no raw value that the release does not."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pyarrow as pa
import pytest

from masquerade.anonymize import TopDownSpecialization, publish
from masquerade.data import Attribute, Branch, Origin, Schema, Step, Table, Taxonomy
from masquerade.privacy import KAnonymity, LDiversity
from masquerade.report import render_report
from masquerade.report.release import contents

N = 37  # rows; the raw values' tokens and numbers are unmistakable in any page


def _raw_table() -> Table:
    flat = [f"RAWFLAT{i:03d}" for i in range(N)]
    zips = [f"RAWZIP{i:03d}" for i in range(N)]
    salary = [770_001 + 1_013 * i for i in range(N)]
    born = [f"19{i + 10}-03-{i % 27 + 1:02d}" for i in range(N)]
    disease = ["RAWFLU", "RAWCOLD"] * 18 + ["RAWFLU"]
    north, south = (tuple(Branch(each) for each in part) for part in (zips[:20], zips[20:]))
    areas = Taxonomy(Branch("Everywhere", (Branch("North", north), Branch("South", south))))
    names = [f"RAWNAME{i}" for i in range(N)]
    frame = pa.table({"town": flat, "zip": zips, "salary": salary, "born": born, "name": names, "d": disease})
    kinds = [Attribute("town", taxonomy="flat"), Attribute("zip", taxonomy=areas)]
    kinds += [Attribute("salary", "continuous"), Attribute("born", "date")]
    schema = Schema(kinds, identifiers=["name"])
    return Table(frame, schema, origin=Origin("/srv/RAWFOLDER/raw.csv"))


def _published(k: int):
    requirement = KAnonymity(["town", "zip", "salary", "born"], k)
    return publish(_raw_table(), requirement, TopDownSpecialization("d"))


def _raw_tokens(table: Table) -> list[str]:
    return [str(value) for name in table.arrow.column_names for value in table.arrow.column(name).to_pylist()]


def test_a_fully_general_release_shows_no_raw_value():
    release = _published(k=N)
    assert not release.steps
    html = render_report(release)
    as_it_is = set(release.table.column("d").to_pylist())  # the class is published unchanged
    shown = set(re.findall("RAW[A-Z]+", html))
    assert shown
    assert shown <= as_it_is  # the page shows a few rows, which may be all of one class
    for token in {*_raw_tokens(_raw_table())} - as_it_is:
        assert token not in html, token
        assert not token.isdigit() or f"{int(token):,}" not in html, token


def test_of_a_flat_taxonomy_at_its_root_not_even_the_number_of_values_is_told():
    one = _published(k=N)
    town = next(column for column in one.columns if column.name == "town")
    fewer = Taxonomy.flat([f"RAWFLAT{i:03d}" for i in range(5)])
    smaller = dataclasses.replace(town, domain=fewer, hi=np.array([5]))
    columns = tuple(smaller if column is town else column for column in one.columns)
    assert render_report(dataclasses.replace(one, columns=columns)) == render_report(one)


def test_leaves_below_the_cut_of_a_taxonomy_are_counted_not_named():
    release = _published(k=N)
    html = render_report(release)
    assert "+20 leaves" in html
    assert "North" in html


def test_a_specialised_release_shows_only_what_it_holds_and_its_steps():
    release = _published(k=5)
    assert release.steps
    html = render_report(release)
    allowed = {
        str(value) for name in release.table.column_names for value in release.table.column(name).unique().to_pylist()
    }
    allowed |= {text for step in release.steps for text in (step.value, *step.children)}
    ends = set(re.findall(r"[\w.-]+", " ".join(allowed)))
    for token in _raw_tokens(_raw_table()):
        if token not in ends:
            assert token not in html, token


@pytest.mark.parametrize(
    "source", ["/srv/RAWFOLDER/people.csv", "C:\\RAWFOLDER\\people.csv", "../RAWFOLDER/people.csv"]
)
def test_of_a_path_only_the_file_name_is_told(release, source):
    settings = {"source": source, "output": {"table": source, "more": [source]}, "anything": source}
    html = render_report(dataclasses.replace(release, settings=settings))
    assert "RAWFOLDER" not in html
    assert "people.csv" in html


def test_of_a_database_only_its_kind_is_told(release):
    settings = {"source": "postgresql://admin:hunter2@10.1.2.3/clinic", "query": "SELECT * FROM hiv_patients"}
    html = render_report(dataclasses.replace(release, settings=settings))
    assert "postgresql database" in html
    for secret in ("hunter2", "10.1.2.3", "admin", "hiv_patients"):
        assert secret not in html


def test_a_suppressed_value_of_a_flat_taxonomy_is_told_nowhere(hand_made, released_column):
    taxonomy = Taxonomy.flat(["KEPT1", "KEPT2", "RAWGONE"])
    town = released_column("town", ["KEPT1", "KEPT2", "RAWGONE"], [0, 0, 1, 1], taxonomy)
    step = Step("town", "*", ("KEPT1", "KEPT2", "RAWGONE"), 0.5)
    html = render_report(hand_made([town], k=2, steps=(step,), rows=5))
    assert "KEPT2" in html
    assert "RAWGONE" not in html


def _with_rare_towns(diseases: list[str]):
    """Thirty people of one town, and one of each of as many others, who are suppressed."""
    towns = ["KEPT"] * 30 + [f"RAWTOWN{i}" for i in range(len(diseases))]
    frame = pa.table({"town": towns, "d": ["flu", "cold"] * 15 + diseases})
    table = Table(frame, Schema([Attribute("town", taxonomy="flat")]))
    requirement = KAnonymity(["town"], 3) & LDiversity(["town"], 2, "d")
    return publish(table, requirement, TopDownSpecialization(suppression=0.5))


def test_before_is_told_where_the_suppressed_rows_could_be_a_group_of_the_release():
    release = _with_rare_towns(["flu", "flu", "flu", "cold", "RAWRARE"])
    assert release.suppressed == 5
    [told] = contents(release)["sensitive"]
    assert [(row["value"], row["before"], row["after"]) for row in told["rows"]] == [
        ("cold", "45.7\u202f%", "50.0\u202f%"),
        ("flu", "51.4\u202f%", "50.0\u202f%"),
        ("values that no released record has", "2.9\u202f%", "0\u202f%"),
    ]
    assert "RAW" not in render_report(release)


@pytest.mark.parametrize("diseases", [["flu", "cold"], ["flu"] * 5], ids=["too few", "all the same"])
def test_before_is_not_told_where_it_would_tell_of_the_suppressed_rows(diseases):
    release = _with_rare_towns(diseases)
    assert release.suppressed == len(diseases)
    [told] = contents(release)["sensitive"]
    assert told["untold"]
    assert {row["before"] for row in told["rows"]} == {""}
    assert "What it was before is not told" in render_report(release)
