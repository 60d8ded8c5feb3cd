"""What a value costs: by ranks or bounds where it is published, by widths where it guides a choice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from examples import examples
from masquerade.data import Branch, Column, Continuum, Generalised, Taxonomy
from masquerade.utility import certainty_penalties, guiding_penalties
from masquerade.utility.losses import leaf_losses, relative_heights


@given(values=st.lists(st.integers(-50, 50), min_size=1, max_size=12, unique=True).map(sorted), data=st.data())
@settings(deadline=None, max_examples=examples(100))
def test_intervals_share_the_range_the_bounds_or_the_distinct_values(values: list[int], data: st.DataObject) -> None:
    domain = Continuum(np.array(values), "continuous")
    inner = data.draw(st.sets(st.integers(1, max(domain.size - 1, 1))))
    cut = np.array(sorted({0, *(at for at in inner if at < domain.size)}))
    written = cut_at(domain, cut)
    widths = guiding_penalties(domain, written.lo, written.hi)
    assert widths.sum() == pytest.approx(1.0 if domain.size > 1 else 0.0)
    covered = np.diff([*cut, domain.size])
    assert certainty_penalties(written).tolist() == [n / domain.size if n > 1 else 0 for n in covered]
    bounded = cut_at(Continuum(domain.values, "continuous", -60, 70), cut)
    assert certainty_penalties(bounded).sum() == pytest.approx(1.0)


def cut_at(domain: Continuum, cut: np.ndarray[Any, Any]) -> Generalised:
    return Column("x", np.arange(domain.size, dtype=np.int32), domain).generalise(cut)


@given(st.integers(10, 10**9), st.floats(0.25, 4))
@settings(deadline=None, max_examples=examples(50))
def test_what_is_published_is_the_same_wherever_the_values_lie(largest: int, stretched: float) -> None:
    values, cut = np.array([1.0, 2, 5, 9]), np.array([0, 1, 3])
    moved = values * stretched
    moved[-1] = 36 + largest
    here, there = (cut_at(Continuum(each), cut) for each in (values, moved))
    for penalties in (certainty_penalties, leaf_losses, relative_heights):
        assert penalties(here).tolist() == penalties(there).tolist()
    # With bounds they follow from the cells, whatever else the data has.
    assert certainty_penalties(cut_at(Continuum(values, upper=101, lower=1), cut)).tolist() == [0.01, 0.07, 0.92]


def test_of_nodes_by_hand() -> None:
    taxonomy = Taxonomy(Branch("*", (Branch("ab", (Branch("a"), Branch("b"))), Branch("c"), Branch("d"))))
    lo, hi = np.array([0, 0, 1]), np.array([4, 2, 2])
    assert guiding_penalties(taxonomy, lo, hi).tolist() == [1.0, 0.5, 0.0]


def test_of_rows_forgets_what_no_row_has() -> None:
    taxonomy = Taxonomy(Branch("*", tuple(map(Branch, "abc"))))
    column = Column("x", np.array([0, 1, 2, 0, 2], np.int32), taxonomy).generalise(np.array([0, 1, 2]))
    some = column.of_rows(np.array([1, 2, 4]))
    assert some.labels == ("b", "c")
    assert some.codes.tolist() == [0, 1, 1]
    assert (some.lo.tolist(), some.hi.tolist()) == ([1, 2], [2, 3])
    assert some.to_arrow().to_pylist() == ["b", "c", "c"]
