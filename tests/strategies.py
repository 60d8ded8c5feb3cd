"""Hypothesis strategies that the tests of all rooms share: taxonomies, tables with a schema, requirements."""

from __future__ import annotations

import datetime

import pyarrow as pa
from hypothesis import strategies as st

from masquerade.data.schema import Attribute, Schema
from masquerade.data.table import Table
from masquerade.data.taxonomy import Branch, Taxonomy
from masquerade.privacy.k_anonymity import KAnonymity
from masquerade.privacy.l_diversity import LDiversity
from masquerade.privacy.requirement import Requirement

CLASS, SENSITIVE = "class", "disease"  # the columns of `tables` that are in no schema


@st.composite
def branches(draw: st.DrawFn, min_leaves: int = 1, max_leaves: int = 12, chains: bool = False) -> Branch:
    """A tree of unequal depth; leaves are v0, v1, … in order, inner nodes n0, n1, …

    With `chains`, some nodes have a single child.
    """
    forest = [Branch(f"v{at}") for at in range(draw(st.integers(min_leaves, max_leaves)))]
    inner = 0
    while len(forest) > 1 or (chains and inner < 20 and draw(st.booleans())):
        start = draw(st.integers(0, len(forest) - 1))
        width = draw(
            st.integers(1 if chains and inner < 20 else min(2, len(forest) - start), len(forest) - start)
        )
        if width == 1 and not chains:
            start, width = start - 1, 2
        forest[start : start + width] = [Branch(f"n{inner}", tuple(forest[start : start + width]))]
        inner += 1
    return forest[0]


def taxonomies(
    min_leaves: int = 1, max_leaves: int = 12, chains: bool = False
) -> st.SearchStrategy[Taxonomy]:
    """A taxonomy over `branches`."""
    return branches(min_leaves, max_leaves, chains).map(Taxonomy)


def attributes(name: str) -> st.SearchStrategy[Attribute]:
    """Any kind of attribute: with a taxonomy, flat, of fixed intervals, of numbers, of dates."""
    return st.one_of(
        taxonomies(2, 8).map(lambda taxonomy: Attribute(name, taxonomy=taxonomy)),
        st.just(Attribute(name, taxonomy="flat")),
        st.just(Attribute(name, "continuous", Taxonomy(DECADES, "decades", (0, 10, 20, 30, 40)))),
        st.sampled_from(
            [Attribute(name, "continuous"), Attribute(name, "continuous", lower=-100, upper=100)]
        ),
        st.just(Attribute(name, "date")),
    )


DECADES = Branch(
    "*",
    (
        Branch("[0, 20)", (Branch("[0, 10)"), Branch("[10, 20)"))),
        Branch("[20, 40)", (Branch("[20, 30)"), Branch("[30, 40)"))),
    ),
)


def cells(attribute: Attribute) -> st.SearchStrategy[object]:
    """A raw cell that the attribute allows."""
    if isinstance(attribute.taxonomy, Taxonomy):
        if attribute.taxonomy.edges is not None:
            return st.integers(0, 39)
        return st.sampled_from(attribute.taxonomy.leaves)
    if attribute.taxonomy == "flat":
        return st.sampled_from("abcde")
    if attribute.kind == "date":
        return st.dates(datetime.date(1999, 12, 25), datetime.date(2000, 1, 5))
    return st.integers(-8, 8)


@st.composite
def tables(
    draw: st.DrawFn, min_rows: int = 1, max_rows: int = 30, min_attributes: int = 1, max_attributes: int = 4
) -> Table:
    """A table of attributes a0, a1, … with a schema, a column `CLASS` and a column `SENSITIVE`."""
    n_attributes = draw(st.integers(min_attributes, max_attributes))
    schema = Schema([draw(attributes(f"a{at}")) for at in range(n_attributes)])
    n_rows = draw(st.integers(min_rows, max_rows))

    def column(values: st.SearchStrategy[object]) -> list[object]:
        return draw(st.lists(values, min_size=n_rows, max_size=n_rows))

    columns = {attribute.name: column(cells(attribute)) for attribute in schema}
    columns[CLASS] = column(st.sampled_from("NY"))
    columns[SENSITIVE] = column(st.sampled_from(["Asthma", "Flu", "HIV"]))
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
