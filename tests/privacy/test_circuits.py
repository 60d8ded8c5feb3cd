"""Every model's circuit on shared counts decides as its check on one table, near its bound and far from it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import Phase, given, settings, strategies as st

from examples import examples
from masquerade.crypto import to_bits
from masquerade.crypto.circuit import evaluate
from masquerade.engine import Counts
from masquerade.privacy import (
    REQUIREMENTS,
    EntropyLDiversity,
    GroupRequirement,
    RecursiveLDiversity,
    SharedRow,
    TCloseness,
)
from masquerade.privacy.requirement import TOLERANCE
from privacy.definitions import DEFINITIONS, QID, SENSITIVE

LABELS = ("a", "b", "c", "d")
WITH_CIRCUIT = [
    part
    for model in REQUIREMENTS.declaring("circuit")
    for part in (make(QID) for make in DEFINITIONS[model].examples)
    if part.has_circuit
]
rows = st.lists(st.integers(0, 12), min_size=4, max_size=4).filter(any)


def by_circuit(part: GroupRequirement, histogram: Counts, whole: Counts) -> list[bool]:
    """Judge the groups from shares; values that the requirement lists come first."""
    listed = [at for at, label in enumerate(LABELS) if part.values is None or label in part.values]
    order = listed + [at for at in range(len(LABELS)) if at not in listed]
    n_records = int(whole.sum())
    width = n_records.bit_length()
    circuit = part.circuit(SharedRow(len(LABELS), len(listed), n_records, width))
    masks = np.random.default_rng(len(histogram)).integers(0, 1 << width, histogram.shape)
    inputs = {
        name: np.concatenate([to_bits(share[:, at], width) for at in order])
        for name, share in (("row 0", masks), ("row 1", (histogram - masks) % (1 << width)))
    }
    if part.compares_with_whole:
        word = to_bits(whole[0, order], width).T.reshape(-1, 1)
        inputs["whole"] = np.repeat(word, len(histogram), axis=1)
    return [bool(bit) for bit in evaluate(circuit, inputs)["good"][0]]


def as_on_one_table(part: GroupRequirement, histogram: Counts, whole: Counts) -> None:
    sized = histogram.sum(axis=1) >= (part.required_size or 1)  # sizes are not the circuit's
    found = np.array(by_circuit(part, histogram, whole))
    assert (found & sized).tolist() == part.holds(histogram, whole, LABELS).tolist()


@pytest.mark.parametrize("part", WITH_CIRCUIT, ids=str)
@settings(max_examples=examples(6), deadline=None, phases=[Phase.explicit, Phase.generate])
@given(groups=st.lists(rows, min_size=1, max_size=40), more=rows)
def test_a_circuit_decides_as_the_check(part: GroupRequirement, groups: list[list[int]], more: Sequence[int]) -> None:
    histogram = np.array(groups)
    whole = histogram.sum(axis=0, keepdims=True) + np.maximum(more, 1)
    as_on_one_table(part, histogram, whole)


@pytest.mark.parametrize("kind", ["entropy", "recursive", "equal", "ordered"])
@settings(max_examples=examples(8), deadline=None, phases=[Phase.explicit, Phase.generate])
@given(groups=st.lists(rows, min_size=4, max_size=12), more=rows, nudge=st.sampled_from([-2, -1, 0, 1, 2]))
def test_a_bound_at_a_groups_own_figure(kind: str, groups: list[list[int]], more: list[int], nudge: int) -> None:
    """The bound is the first group's figure, give or take the tolerance and the last digit of a float."""
    histogram = np.array(groups)
    whole = histogram.sum(axis=0, keepdims=True) + np.maximum(more, 1)
    make = {
        "entropy": lambda bound: EntropyLDiversity(QID, max(bound, 1.0), SENSITIVE),
        "recursive": lambda bound: RecursiveLDiversity(QID, bound, 2, SENSITIVE),
        "equal": lambda bound: TCloseness(QID, bound, SENSITIVE),
        "ordered": lambda bound: TCloseness(QID, bound, SENSITIVE, "ordered"),
    }[kind]
    figure = float(make(1.0).figures(histogram, whole, LABELS)[0])
    if not np.isfinite(figure):
        return
    slack = {"entropy": figure * TOLERANCE, "recursive": figure * TOLERANCE}.get(kind, -TOLERANCE)
    for bound in (figure, figure + slack):
        for _ in range(abs(nudge)):
            bound = float(np.nextafter(bound, np.inf * nudge))
        as_on_one_table(make(min(max(bound, 0.0), 1.0) if kind in ("equal", "ordered") else bound), histogram, whole)


def test_equally_frequent_values_have_exactly_their_entropy() -> None:
    """l equally frequent values satisfy l, however many records there are; one record more of one of them does not."""
    for times in (1, 2, 3, 7, 10, 1000, 123_457):
        even = np.array([[times] * 4, [times + 1, *[times] * 3]])
        bound = EntropyLDiversity(QID, 4, SENSITIVE)
        assert bound.holds(even, even[:1], LABELS).tolist() == [True, times >= 123_457]
