"""Reports of very small and very large releases: complete, readable, bounded."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa

from masquerade.anonymize import TopDownSpecialization, publish
from masquerade.data import Attribute, Branch, Continuum, Schema, Step, Table, Taxonomy
from masquerade.privacy import KAnonymity
from masquerade.report import render_report


def test_one_group_and_no_step(hand_made, released_column, page, svgs):
    html = render_report(hand_made([released_column("A", ["only"], [0, 0, 0])], k=3))
    read = page(html)
    assert "There were none" in read.text
    assert dict(read.terms)["Groups"] == "1"
    assert dict(read.terms)["Smallest"] == dict(read.terms)["Largest"] == "3"
    assert svgs(html)


def test_nothing_released(hand_made, released_column, page):
    release = hand_made([released_column("A", ["x"], [])], rows=7, suppressed=7, sizes=np.zeros(0, np.int64))
    read = page(render_report(release))
    told = dict(read.terms)
    assert (told["Released"], told["Suppressed"], told["Groups"]) == ("0", "7", "0")
    assert "No record was released" in read.text


def test_a_flat_attribute_of_which_nothing_is_released(hand_made, released_column, page):
    column = released_column("A", ["*"], [], Taxonomy.flat(["RAW1", "RAW2"]))
    html = render_report(hand_made([column], rows=2, sizes=np.zeros(0, np.int64)))
    assert "RAW" not in html


def test_five_thousand_steps_are_folded_and_capped(release, page):
    steps = tuple(Step("Job", f"v{i}", (f"v{i}a", f"v{i}b"), 1 / (i + 1)) for i in range(5000))
    html = render_report(dataclasses.replace(release, steps=steps))
    read = page(html)
    assert len(read.tables["Specializations, in order"]) == 1001
    assert sum(tag == "details" for tag, _ in read.elements) == 1
    assert "4,000 more" in read.text
    assert "5,000 steps" in read.text
    assert len(html) < 1_000_000


def test_five_hundred_attributes(hand_made, released_column, page):
    columns = [released_column(f"attribute {i}", [f"left {i}", f"right {i}"], [0, 0, 1, 1]) for i in range(500)]
    release = hand_made(columns, k=2, attribute_losses={column.name: 0.25 for column in columns})
    html = render_report(release)
    read = page(html)
    assert len(read.tables["What each attribute lost, and how many values remain"]) == 501
    assert sum(tag == "details" for tag, _ in read.elements) == 500
    assert len(html) < 3_000_000


def test_a_hundred_thousand_groups(release, page):
    sizes = np.random.default_rng(5).geometric(0.001, 100_000) + 49
    read = page(render_report(dataclasses.replace(release, group_sizes=sizes)))
    told = dict(read.terms)
    assert told["Groups"] == "100,000"
    assert told["Smallest"] == "50"
    assert told["Largest"] == f"{sizes.max():,}"


def test_a_flat_taxonomy_cut_at_thousands_of_leaves_stays_small(page):
    n = 4000
    frame = pa.table({"town": [f"town {i:04d}" for i in range(n)] * 2, "class": ["a"] * n + ["b"] * n})
    table = Table(frame, Schema([Attribute("town", taxonomy="flat")]))
    release = publish(table, KAnonymity(["town"], 2), TopDownSpecialization("class"))
    assert len(release.steps) == 1
    html = render_report(release)
    text = page(html).text
    assert "… and 3,941 more values, 7,882 records" in text
    assert "… and 3,992 more" in text
    assert len(html) < 120_000


def test_a_large_taxonomy_stays_small(hand_made, released_column, page):
    regions = tuple(
        Branch(
            f"region {i}",
            tuple(Branch(f"area {i}.{j}", (Branch(f"leaf {i}.{j}.0"), Branch(f"leaf {i}.{j}.1"))) for j in range(50)),
        )
        for i in range(50)
    )
    taxonomy = Taxonomy(Branch("world", regions))
    column = released_column("place", [f"region {i}" for i in range(50)], list(range(50)), taxonomy)
    html = render_report(hand_made([column]))
    assert html.count("+100 leaves") == 50
    assert "leaf 0.0.0" not in html
    assert "area 0.0" not in html
    assert len(html) < 150_000


def test_a_deep_chain_of_splits(hand_made, released_column, page):
    n = 3000
    domain = Continuum(np.arange(n), lower=0, upper=n)
    labels = [domain.label(i, i + 1) for i in range(n)]
    steps = tuple(
        Step("x", domain.label(i, n), (domain.label(i, i + 1), domain.label(i + 1, n)), 0.1) for i in range(n - 1)
    )
    column = dataclasses.replace(
        released_column("x", ["0"], list(range(n)), Taxonomy(Branch("0"))),
        labels=tuple(labels), lo=np.arange(n), hi=np.arange(1, n + 1), domain=domain,
    )  # fmt: skip
    html = render_report(hand_made([column], steps=steps, sizes=np.ones(n, np.int64)))
    assert len(html) < 1_000_000
    assert page(html).tables["x: widths of its intervals"][1:] == [["0.5 to 1", "", "100 %", "3,000"]]
