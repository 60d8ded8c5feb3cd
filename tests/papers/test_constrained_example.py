"""Figures 2 to 4 of "Constrained k-Anonymity": MAGVals of places, a table, and two releases of it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import masquerade as mq
from masquerade.data import named_boundary
from masquerade.data.boundary import boundary_problems
from masquerade.utility import compare
from masquerade.utility.measures import violations

PLACES = mq.Taxonomy(
    mq.Branch(
        "United States",
        (
            mq.Branch("West Coast", (mq.Branch("California", (mq.Branch("San Diego"), mq.Branch("Los Angeles"))),)),
            mq.Branch(
                "Midwest",
                (
                    mq.Branch("Kansas", (mq.Branch("Wichita"), mq.Branch("Kansas City"))),
                    mq.Branch("Nebraska", (mq.Branch("Lincoln"),)),
                ),
            ),
        ),
    ),
    "places",
)  # fmt: skip
MAGVALS = ("California", "Kansas", "Midwest")

# Figure 3, without names and numbers; ages in the intervals of Figure 4.
IM = pa.table(
    {
        "age": [32, 30, 42, 30, 35, 20, 25],
        "location": ["San Diego", "Los Angeles", "Wichita", "Kansas City", "Lincoln", "Lincoln", "Wichita"],
        "sex": ["M", "M", "M", "M", "F", "M", "F"],
        "race": ["W", "W", "W", "W", "W", "B", "B"],
        "diagnosis": ["AIDS", "Asthma", "Asthma", "Asthma", "Diabetes", "Asthma", "Diabetes"],
    }
)
SCHEMA = mq.Schema(
    [
        mq.Attribute("age", "continuous"),
        mq.Attribute("location", taxonomy=PLACES, max_generalization=MAGVALS),
        mq.Attribute("sex", taxonomy="flat"),
        mq.Attribute("race", taxonomy="flat"),
    ]
)
QID = SCHEMA.names
CONSTRAINED = mq.ConstrainedKAnonymity(QID, k=2)

# Figure 4, in the order of the records r1 to r7. An end is the age after the last.
MM1 = pa.table(
    {
        "age": ["[30, 33)"] * 2 + ["[30, 43)"] * 3 + ["[20, 26)"] * 2,
        "location": ["California"] * 2 + ["Midwest"] * 5,
        "sex": ["M", "M"] + ["*"] * 5,
        "race": ["W"] * 5 + ["B"] * 2,
    }
)
MM2 = pa.table(
    {
        "age": ["[30, 33)"] * 2 + ["[25, 43)"] * 2 + ["[20, 36)"] * 2 + ["[25, 43)"],
        "location": ["California"] * 2 + ["Kansas"] * 2 + ["Lincoln"] * 2 + ["Kansas"],
        "sex": ["M", "M"] + ["*"] * 5,
        "race": ["W", "W"] + ["*"] * 5,
    }
)


def test_figure_2_has_these_magvals() -> None:
    boundary = named_boundary(PLACES, MAGVALS)
    assert boundary.values == ("California", "Kansas", "Midwest")  # from left to right
    by_value = {
        value: PLACES.label(int(boundary.lo[rank]), int(boundary.hi[rank])) for value, rank in PLACES.rank.items()
    }
    assert by_value == {
        "San Diego": "California",
        "Los Angeles": "California",
        "Wichita": "Kansas",  # and not Midwest, which is further up: the second rule of Definition 3
        "Kansas City": "Kansas",
        "Lincoln": "Midwest",
    }


def test_what_may_become_of_san_diego_and_lincoln() -> None:
    boundary = named_boundary(PLACES, MAGVALS)

    def allowed(value: str, general: str) -> bool:
        node, rank = PLACES.called(general), PLACES.rank[value]
        assert node is not None
        return not boundary.exceeded(np.array([rank]), np.array([node.lo]), np.array([node.hi]))[0]

    expected = {
        "San Diego": ("San Diego", "California"),
        "Lincoln": ("Lincoln", "Nebraska", "Midwest"),
        "Wichita": ("Wichita", "Kansas"),
    }
    # West Coast is not among the names: it is one node with California here, a chain of single children.
    names = ("San Diego", "California", "Lincoln", "Nebraska", "Wichita", "Kansas", "Midwest", "United States")
    for value, general in expected.items():
        ranges = {name: PLACES.called(name) for name in names}
        path = [name for name, node in ranges.items() if node and node.lo <= PLACES.rank[value] < node.hi]
        assert tuple(name for name in path if allowed(value, name)) == general


@pytest.mark.parametrize(("release", "expected"), [(MM1, 3), (MM2, 0)], ids=["MM1", "MM2"])
def test_figure_4_violates_or_does_not(release: pa.Table, expected: int) -> None:
    assert all(verdict.holds for verdict in mq.verify(release, mq.KAnonymity(QID, k=2)).verdicts)
    # r3, r4 and r7 are of Kansas, and in the Midwest of MM1
    assert violations(compare(mq.Table(IM, SCHEMA), release, QID)) == expected


def test_a_constrained_release_of_figure_3_needs_no_suppression() -> None:
    release = mq.anonymize(mq.Table(IM, SCHEMA), CONSTRAINED, mq.GreedyCka(), order="input")
    assert release.suppressed == 0
    assert release.metrics["violations"] == 0
    assert set(release.table["location"].to_pylist()) <= {"California", "Kansas", "Lincoln"}


def test_a_name_that_is_no_node_and_a_value_without_magval() -> None:
    (unknown,) = boundary_problems(PLACES, ["Californa", "Midwest"])
    assert str(unknown) == '"Californa" is no node of taxonomy places; the nearest is "California"'
    (bare,) = boundary_problems(PLACES, ["Kansas", "West Coast"])
    assert str(bare) == ('none for "Lincoln" of taxonomy places; name a node above each value, or the value itself')
