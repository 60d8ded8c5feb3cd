"""What a value costs before it is written and after it was read are one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from masquerade.data.column import Column
from masquerade.data.continuum import Continuum
from masquerade.data.taxonomy import Branch, Taxonomy
from masquerade.utility.penalties import certainty_of_ranges, certainty_penalties


@given(
    values=st.lists(st.integers(-50, 50), min_size=1, max_size=12, unique=True).map(sorted),
    bounded=st.booleans(),
    data=st.data(),
)
@settings(deadline=None, max_examples=examples(100))
def test_of_a_range_as_of_the_interval_that_is_written(
    values: list[int], bounded: bool, data: st.DataObject
) -> None:
    bounds = (-60, 70) if bounded else (float("-inf"), float("inf"))
    domain = Continuum(np.array(values), "continuous", *bounds)
    column = Column("x", np.arange(domain.size, dtype=np.int32), domain)
    inner = data.draw(st.sets(st.integers(1, max(domain.size - 1, 1))))
    cut = np.array(sorted({0, *(at for at in inner if at < domain.size)}))
    written = column.generalise(cut)
    before = certainty_of_ranges(domain, written.lo, written.hi)
    assert before == pytest.approx(certainty_penalties(written))
    assert before.sum() == pytest.approx(1.0 if domain.size > 1 else 0.0)  # the intervals share the range


def test_of_nodes_by_hand() -> None:
    taxonomy = Taxonomy(Branch("*", (Branch("ab", (Branch("a"), Branch("b"))), Branch("c"), Branch("d"))))
    lo, hi = np.array([0, 0, 1]), np.array([4, 2, 2])
    assert certainty_of_ranges(taxonomy, lo, hi).tolist() == [1.0, 0.5, 0.0]


def test_of_rows_forgets_what_no_row_has() -> None:
    taxonomy = Taxonomy(Branch("*", tuple(map(Branch, "abc"))))
    column = Column("x", np.array([0, 1, 2, 0, 2], np.int32), taxonomy).generalise(np.array([0, 1, 2]))
    some = column.of_rows(np.array([1, 2, 4]))
    assert some.labels == ("b", "c")
    assert some.codes.tolist() == [0, 1, 1]
    assert (some.lo.tolist(), some.hi.tolist()) == ([1, 2], [2, 3])
    assert some.to_arrow().to_pylist() == ["b", "c", "c"]
