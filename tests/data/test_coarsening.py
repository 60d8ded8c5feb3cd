"""Values that are never told apart: the release of a table that never knew them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import masquerade as mq
from examples import examples
from masquerade.data import pruned
from masquerade.errors import ParameterError
from papers.paper_tables import JOB

JOBS = mq.Taxonomy(JOB)


def test_a_pruned_taxonomy_ends_at_the_named_nodes() -> None:
    coarse, of_rank = pruned(JOBS, ["Technical", "Blue-collar", "Professional"])
    assert coarse.leaves == ("Blue-collar", "Manager", "Professional")  # of two on one path the higher
    assert of_rank.tolist() == [0, 0, 0, 0, 1, 2, 2]


def test_intervals_keep_their_ends() -> None:
    ages = mq.Taxonomy(
        mq.Branch("any", (mq.Branch("young", (mq.Branch("0"), mq.Branch("10"))), mq.Branch("old"))),
        edges=(0, 10, 20, 99),
    )
    assert pruned(ages, ["young"])[0].edges == (0, 20, 99)


@settings(max_examples=examples(30), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(JOBS.leaves), st.integers(-20, 99)), min_size=3, max_size=30),
    st.integers(1, 3),
    st.sampled_from([mq.Mondrian(), mq.TopDownSpecialization(), mq.CheapestBox()]),
)
def test_no_method_shows_anything_finer(people: list[tuple[str, int]], k: int, method: Any) -> None:
    schema = mq.Schema(
        [
            mq.Attribute("job", taxonomy=JOBS, min_generalization=("Technical", "White-collar")),
            mq.Attribute("age", "continuous", min_width=10),
        ]
    )
    jobs, ages = zip(*people, strict=True)
    table = mq.Table(pa.table({"job": jobs, "age": ages}), schema)
    requirement = mq.KAnonymity(["job", "age"], k)
    release = mq.anonymize(table, requirement, method, order="input")
    assert not {"Carpenter", "Technician", "Manager", "Lawyer", "Accountant", "Professional"} & {
        *release.table["job"].to_pylist()
    }
    checked = mq.verify(mq.Table(release.table, schema), requirement)
    assert checked.summary["too_fine"] == 0
    assert checked.holds
    for job, cell in zip(jobs, release.table["job"].to_pylist(), strict=True):
        node, leaf = JOBS.find(cell), JOBS.find(job)
        assert node.lo <= leaf.lo < node.hi


def test_cells_of_the_grid_count_in_the_width() -> None:
    """Of ages 40 to 59 in cells of 5 years, an interval covers no more than 12 years: two cells."""
    schema = mq.Schema([mq.Attribute("age", "continuous", max_width=12, min_width=5)])
    table = mq.Table(pa.table({"age": [*range(40, 60)]}), schema)
    release = mq.anonymize(table, mq.KAnonymity(["age"], 10), mq.Mondrian())
    assert set(release.table["age"].to_pylist()) == {"[-inf, 50)", "[50, inf)"}


def test_a_release_that_is_finer_is_told() -> None:
    schema = mq.Schema(
        [
            mq.Attribute("job", taxonomy=JOBS, min_generalization=("Technical",)),
            mq.Attribute("age", "continuous", min_width=10),
        ]
    )
    release = mq.Table(pa.table({"job": ["Carpenter", "Technical"], "age": ["[20, 30)", "[20, 25)"]}), schema)
    assert mq.verify(release, mq.KAnonymity(["job", "age"], 1)).summary["too_fine"] == 2


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"min_generalization": ("Techncal",)}, r'"Techncal" is no node of taxonomy.*nearest is "Technical"'),
        (
            {
                "min_generalization": ("Blue-collar",),
                "max_generalization": ("Technical", "Non-Technical", "White-collar"),
            },
            "nothing finer than Blue-collar, and nothing more general than Technical: nothing is left between",
        ),
        ({"min_width": 5}, "belongs to numbers and dates without a taxonomy"),
    ],
)
def test_limits_that_cannot_be_kept_are_told(limits: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        mq.Attribute("job", taxonomy=JOBS, **limits)
    for width, text in ((0, "must be a number above 0"), (30, "must be at most max_width, 20")):
        with pytest.raises(ParameterError, match=text):
            mq.Attribute("age", "continuous", max_width=20, min_width=width)
