"""Releases to report on, and a reader that takes a page apart."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest

from masquerade.anonymize import TopDownSpecialization, VerifiedRelease, publish
from masquerade.data import Branch, Generalised, Origin, Step, Table, Taxonomy
from masquerade.privacy import KAnonymity, verify
from papers.paper_tables import loan_table

VOID = {"meta", "br", "link", "img", "input", "hr", "base", "source"}


class Page(HTMLParser):
    """A parsed page: refuses tags that do not nest; gathers elements, tables, headings and text."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.headings: list[tuple[int, str]] = []
        self.terms: list[tuple[str, str]] = []  # of description lists
        self.tables: dict[str, list[list[str]]] = {}
        self.text = ""
        self._open: list[str] = []
        self._table: list[list[str]] = []
        self._caption = ""
        self._dt = ""
        self.feed(html)
        self.close()
        assert not self._open, f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)
        if tag == "tr":
            self._table.append([])
        elif tag in ("td", "th"):
            self._table[-1].append("")
        elif tag == "table":
            self._table, self._caption = [], ""
        elif tag in ("h1", "h2", "h3", "h4"):
            self.headings.append((int(tag[1]), ""))
        elif tag == "dt":
            self._dt = ""
        elif tag == "dd":
            self.terms.append((self._dt.strip(), ""))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open.pop() == tag, f"</{tag}> does not nest"
        if tag == "table":
            self.tables[self._caption.strip()] = [[" ".join(cell.split()) for cell in row] for row in self._table]

    def handle_data(self, data: str) -> None:
        if "style" in self._open:
            return
        self.text += data
        if "caption" in self._open:
            self._caption += data
        elif self._open and {"td", "th"} & set(self._open) and self._table:
            self._table[-1][-1] += data
        if {"h1", "h2", "h3"} & set(self._open):
            self.headings[-1] = (self.headings[-1][0], self.headings[-1][1] + data)
        if "dt" in self._open:
            self._dt += data
        elif "dd" in self._open:
            self.terms[-1] = (self.terms[-1][0], self.terms[-1][1] + data.strip())


def drawings(html: str) -> list[ElementTree.Element]:
    """Every SVG of a page; each must be XML on its own."""
    return [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", html, re.DOTALL)]


@pytest.fixture
def page() -> type[Page]:
    return Page


@pytest.fixture
def svgs() -> Callable[[str], list[ElementTree.Element]]:
    return drawings


def people() -> Table:
    """The data-integration paper's Table 1, with a column that no schema lists."""
    loans = loan_table()
    frame = loans.arrow.append_column("Note", pa.array(["x"] * len(loans)))
    return Table(frame, loans.schema, origin=Origin("/home/somebody/private/people.csv"))


@pytest.fixture
def release() -> VerifiedRelease:
    """The paper's example, two QIDs."""
    requirement = KAnonymity(["Sex", "Job"], 4) & KAnonymity(["Sex", "Salary"], 5)
    return publish(people(), requirement, TopDownSpecialization("Class"))


def column(name: str, labels: list[str], codes: list[int], taxonomy: Taxonomy | None = None) -> Generalised:
    """A released column whose values are all leaves, or all of the given taxonomy's."""
    domain = taxonomy or Taxonomy(Branch(f"{name} top", tuple(Branch(label) for label in labels)))
    ranges = [domain.range_of(label) or (0, 0) for label in labels]
    lo, hi = np.array(ranges, np.int64).reshape(-1, 2).T
    return Generalised(name, np.array(codes, np.int32), tuple(labels), lo, hi, domain)


@pytest.fixture
def hand_made() -> Callable[..., VerifiedRelease]:
    """A release from given columns, as no algorithm may ever make it."""

    def make(
        columns: list[Generalised], *, k: int = 1, steps: tuple[Step, ...] = (), sizes: Any = None, **other: Any
    ) -> VerifiedRelease:
        table = pa.table({each.name: each.to_arrow() for each in columns})
        requirement = KAnonymity([each.name for each in columns], k)
        keys = [tuple(row) for row in np.stack([each.codes for each in columns], axis=1).tolist()]
        found = np.array([keys.count(key) for key in dict.fromkeys(keys)], np.int64) if sizes is None else sizes
        values: dict[str, Any] = {
            "rows": table.num_rows,
            "dropped_rows": 0,
            "dropped": (),
            "metrics": {},
            "attribute_losses": {},
            "settings": {},
            "seconds": {},
        } | other
        verdicts = values.pop("verdicts", None) or verify(table, requirement)
        return VerifiedRelease(
            table=table, verdicts=verdicts, columns=tuple(columns), steps=steps, group_sizes=found, **values
        )

    return make


@pytest.fixture
def released_column() -> Callable[..., Generalised]:
    return column
