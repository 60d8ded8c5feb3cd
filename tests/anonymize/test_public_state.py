"""The public state by hand: who carries what, and who is left out."""

from __future__ import annotations

import numpy as np
import pytest

from masquerade.anonymize.instruction import Instruction, places_by_child
from masquerade.anonymize.public_state import PublicState
from masquerade.privacy.k_anonymity import KAnonymity


@pytest.mark.parametrize("n_children", [2, 8, 9, 300])
def test_places_of_each_child_in_order(n_children: int) -> None:
    children = np.arange(1000)[::-1] * 7 % n_children
    places = places_by_child(children.astype(np.min_scalar_type(n_children)), n_children)
    assert [each.tolist() for each in places] == [
        [place for place, child in enumerate(children) if child == wanted] for wanted in range(n_children)
    ]


def instruction(attribute: str, value: int, *children: int) -> Instruction:
    return Instruction(attribute, value, max(children) + 1, np.array(children, np.uint8))


def test_records_that_are_left_out_stay_left_out() -> None:
    """Seven records, groups of two. Two children of a leave out a record each; b then splits the others."""
    state = PublicState(["a", "b"], [KAnonymity(["a", "b"], 2)], {}, 7, may_suppress=3)
    first = instruction("a", 0, 0, 0, 0, 0, 0, 1, 2)
    assert state.allows(first)
    assert state.leaves_out(first) == 2
    assert list(state.specialise(first)) == [1, 2, 3]
    assert state.kept is not None
    assert state.kept.tolist() == [0, 1, 2, 3, 4]

    # The two that are out agree on b, and would be a large enough group with each other: they are not asked.
    second = instruction("b", 0, 0, 0, 0, 1, 1, 2, 2)
    assert state.leaves_out(second) == 0
    worse = instruction("b", 0, 0, 1, 1, 2, 3, 3, 3)
    assert state.leaves_out(worse) == 3
    assert not state.allows(worse)
    third = instruction("b", 0, 0, 0, 1, 1, 2, 2, 2)
    assert state.leaves_out(third) == 1
    state.specialise(third)
    assert state.kept.tolist() == [0, 1, 2, 3]
    [partition] = state.partitions
    assert partition.sizes[0] == 3
    assert sorted(partition.sizes[1:][partition.sizes[1:] > 0].tolist()) == [2, 2]


def test_without_an_allowance_everybody_is_kept() -> None:
    state = PublicState(["a"], [KAnonymity(["a"], 2)], {}, 3)
    assert not state.allows(instruction("a", 0, 0, 0, 1))
    assert state.kept is None
