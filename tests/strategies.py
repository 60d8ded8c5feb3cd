"""Hypothesis strategies that the tests of all rooms share: taxonomies, tables with a schema, requirements."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import TypeVar

import pyarrow as pa
from hypothesis import strategies as st

from masquerade.data import Attribute, Branch, Schema, Table, Taxonomy
from masquerade.privacy import KAnonymity, LDiversity, Requirement

CLASS, SENSITIVE = "class", "disease"  # the columns of `tables` that are in no schema

T = TypeVar("T")


def column(values: Sequence[T], n: int) -> st.SearchStrategy[list[T]]:
    """`n` of at most 256 values.

    All are drawn as one string of bytes, which shrinks to the first value: hypothesis takes longer to draw the
    cells of a table one by one than an algorithm takes to anonymize it.
    """
    return st.binary(min_size=n, max_size=n).map(lambda drawn: [values[at % len(values)] for at in drawn])


@st.composite
def branches(draw: st.DrawFn, min_leaves: int = 1, max_leaves: int = 12, chains: bool = False) -> Branch:
    """A tree of unequal depth; leaves are v0, v1, … in order, inner nodes n0, n1, …

    With `chains`, some nodes have a single child.
    """
    forest = [Branch(f"v{at}") for at in range(draw(st.integers(min_leaves, max_leaves)))]
    inner = 0
    while len(forest) > 1 or (chains and inner < 20 and draw(st.booleans())):
        start = draw(st.integers(0, len(forest) - 1))
        width = draw(st.integers(1 if chains and inner < 20 else min(2, len(forest) - start), len(forest) - start))
        if width == 1 and not chains:
            start, width = start - 1, 2
        forest[start : start + width] = [Branch(f"n{inner}", tuple(forest[start : start + width]))]
        inner += 1
    return forest[0]


def taxonomies(min_leaves: int = 1, max_leaves: int = 12, chains: bool = False) -> st.SearchStrategy[Taxonomy]:
    """A taxonomy over `branches`."""
    return branches(min_leaves, max_leaves, chains).map(Taxonomy)


def attributes(name: str) -> st.SearchStrategy[Attribute]:
    """Any kind of attribute: with a taxonomy, flat, of fixed intervals, of numbers, of dates."""
    return st.one_of(
        taxonomies(2, 8).map(lambda taxonomy: Attribute(name, taxonomy=taxonomy)),
        st.just(Attribute(name, taxonomy="flat")),
        st.just(Attribute(name, "continuous", Taxonomy(DECADES, "decades", (0, 10, 20, 30, 40)))),
        st.sampled_from([Attribute(name, "continuous"), Attribute(name, "continuous", lower=-100, upper=100)]),
        st.just(Attribute(name, "date")),
    )


DECADES = Branch(
    "*",
    (
        Branch("[0, 20)", (Branch("[0, 10)"), Branch("[10, 20)"))),
        Branch("[20, 40)", (Branch("[20, 30)"), Branch("[30, 40)"))),
    ),
)


def raw_values(attribute: Attribute) -> Sequence[object]:
    """The raw cells that the attribute allows in `tables`."""
    if isinstance(attribute.taxonomy, Taxonomy):
        return attribute.taxonomy.leaves if attribute.taxonomy.edges is None else range(40)
    if attribute.taxonomy == "flat":
        return "abcde"
    if attribute.kind == "date":
        return [datetime.date(2000, 1, 1) + datetime.timedelta(days) for days in range(-7, 5)]
    return range(-8, 9)


@st.composite
def tables(
    draw: st.DrawFn, min_rows: int = 1, max_rows: int = 30, min_attributes: int = 1, max_attributes: int = 4
) -> Table:
    """A table of attributes a0, a1, … with a schema, a column `CLASS` and a column `SENSITIVE`."""
    n_attributes = draw(st.integers(min_attributes, max_attributes))
    schema = Schema([draw(attributes(f"a{at}")) for at in range(n_attributes)])
    n_rows = draw(st.integers(min_rows, max_rows))
    columns = {each.name: draw(column(raw_values(each), n_rows)) for each in schema}
    columns[CLASS] = draw(column("NY", n_rows))
    columns[SENSITIVE] = draw(column(["Asthma", "Flu", "HIV"], n_rows))
    return Table(pa.table(columns), schema)


@st.composite
def requirements(draw: st.DrawFn, table: Table, max_parts: int = 3) -> Requirement:
    """k-anonymity over one or more QIDs of the table's attributes, perhaps with ℓ-diversity of `SENSITIVE`.

    The table as one group satisfies it.
    """
    diseases = len(set(table.arrow[SENSITIVE].to_pylist()))
    parts: list[Requirement] = []
    for _ in range(draw(st.integers(1, max_parts))):
        qid = draw(st.lists(st.sampled_from(table.schema.names), min_size=1, unique=True))
        if draw(st.integers(0, 3)):
            parts.append(KAnonymity(qid, draw(st.integers(1, len(table)))))
        else:
            parts.append(LDiversity(qid, draw(st.integers(1, diseases)), SENSITIVE))
    joined = parts[0]
    for part in parts[1:]:
        joined = joined & part
    return joined
