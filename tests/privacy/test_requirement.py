"""Conjunctions, and the removal of requirements that others cover."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from examples import examples
from masquerade.errors import ParameterError
from masquerade.privacy import (
    REQUIREMENTS,
    AlphaKAnonymity,
    ConfidenceBounding,
    Conjunction,
    EntropyLDiversity,
    GroupRequirement,
    KAnonymity,
    LDiversity,
    PSensitiveKAnonymity,
    RecursiveLDiversity,
    TCloseness,
    limits_of,
    verify,
    without_redundant,
)
from privacy.definitions import QID, ROWS, SENSITIVE, definition_of
from privacy.histograms import count, tables

A = KAnonymity(["a", "b"], 2)
B = LDiversity(["b", "c"], 2, "d")
C = TCloseness(["a"], 0.5, "e")


def test_and_flattens_and_keeps_the_order() -> None:
    assert ((A & B) & C).parts == (A, B, C)
    assert (A & (B & C)).parts == (A, B, C)
    assert ((C & A) & (B & A)).parts == (C, A, B, A)
    assert (A & B) & C == A & (B & C)
    assert Conjunction([A & B, C]).parts == (A, B, C)


def test_attributes_of_a_conjunction() -> None:
    both = B & A & C & LDiversity(["a"], 3, "d")
    assert both.qid_attributes == ("b", "c", "a")
    assert both.sensitive_attributes == ("d", "e")
    assert A.sensitive_attributes == ()


def test_and_takes_requirements_only() -> None:
    with pytest.raises(TypeError):
        A & 5  # type: ignore[operator]


def test_nothing_is_no_requirement() -> None:
    with pytest.raises(ParameterError, match="at least one part"):
        verify(pa.table({"a": ["x"]}), Conjunction([]))


def test_more_attributes_and_a_larger_k_cover() -> None:
    wide, narrow = KAnonymity(["a", "b", "c"], 5), KAnonymity(["c", "a"], 5)
    assert wide.covers(narrow)
    assert not narrow.covers(wide)
    assert not wide.covers(KAnonymity(["a", "b"], 6))
    assert not wide.covers(KAnonymity(["a", "x"], 2))


@pytest.mark.parametrize("swap", [False, True])
def test_the_covered_one_goes_wherever_it_stands(swap: bool) -> None:
    wide, narrow = KAnonymity(["a", "b"], 5), KAnonymity(["a"], 4)
    parts = (narrow, wide) if swap else (wide, narrow)
    assert without_redundant(parts) == (wide,)


def test_a_higher_k_on_fewer_attributes_stays() -> None:
    parts = (KAnonymity(["a", "b"], 5), KAnonymity(["a"], 6))
    assert without_redundant(parts) == parts


def test_of_two_equal_ones_the_first_stays() -> None:
    first, second = KAnonymity(["a", "b"], 5), KAnonymity(["b", "a"], 5)
    assert [part.qid for part in without_redundant([first, second])] == [("a", "b")]
    assert [part.qid for part in without_redundant([second, first])] == [("b", "a")]


def test_chains_of_covering() -> None:
    chain = [KAnonymity(list("abcd")[:n], k) for n, k in ((1, 2), (2, 3), (3, 4), (4, 5))]
    assert without_redundant(chain) == (chain[-1],)
    assert without_redundant(chain[::-1]) == (chain[-1],)
    assert without_redundant([chain[1], chain[0], chain[3], chain[2]]) == (chain[3],)


def test_the_order_of_those_that_stay_is_kept() -> None:
    parts = (C, A, B)
    assert without_redundant(parts) == parts
    assert without_redundant((C, KAnonymity(["a"], 1), A, B, C)) == parts


def test_different_models_and_sensitive_attributes_do_not_cover() -> None:
    parts = (LDiversity(["a", "b"], 3, "d"), LDiversity(["a"], 2, "e"), KAnonymity(["a"], 1))
    assert without_redundant(parts) == parts


# --- which requirement covers which, and that what is covered really follows ---


COVERS = [
    (KAnonymity(QID, 5), KAnonymity(QID, 4)),
    (LDiversity(QID, 3, "d"), LDiversity(QID, 2, "d")),
    (EntropyLDiversity(QID, 2.5, "d"), EntropyLDiversity(QID, 2.4, "d")),
    (RecursiveLDiversity(QID, 2, 3, "d"), RecursiveLDiversity(QID, 2, 2, "d")),
    (RecursiveLDiversity(QID, 2, 3, "d"), RecursiveLDiversity(QID, 3, 3, "d")),
    (TCloseness(QID, 0.1, "d"), TCloseness(QID, 0.2, "d")),
    (TCloseness(QID, 0.1, "d", "ordered"), TCloseness(QID, 0.2, "d", "ordered")),
    (TCloseness(QID, 0.1, "d"), TCloseness(QID, 0.1, "d", "ordered")),
    (AlphaKAnonymity(QID, 0.4, 3, "d"), AlphaKAnonymity(QID, 0.5, 3, "d")),
    (AlphaKAnonymity(QID, 0.4, 3, "d"), AlphaKAnonymity(QID, 0.4, 2, "d")),
    (AlphaKAnonymity(QID, 0.4, 3, "d"), AlphaKAnonymity(QID, 0.4, 3, "d", ["a"])),
    (AlphaKAnonymity(QID, 0.4, 3, "d", ["b", "a"]), AlphaKAnonymity(QID, 0.4, 3, "d", ["a"])),
    (ConfidenceBounding(QID, 0.4, "d"), ConfidenceBounding(QID, 0.5, "d")),
    (ConfidenceBounding(QID, 0.4, "d"), ConfidenceBounding(QID, 0.4, "d", ["a"])),
    (ConfidenceBounding(QID, 0.4, "d", ["a", "b"]), ConfidenceBounding(QID, 0.4, "d", ["a"])),
    (PSensitiveKAnonymity(QID, 2, 5, "d"), PSensitiveKAnonymity(QID, 2, 4, "d")),
    (PSensitiveKAnonymity(QID, 3, 4, "d"), PSensitiveKAnonymity(QID, 2, 4, "d")),
]
APART = [
    (RecursiveLDiversity(QID, 3, 3, "d"), RecursiveLDiversity(QID, 2, 2, "d")),
    (AlphaKAnonymity(QID, 0.4, 2, "d"), AlphaKAnonymity(QID, 0.5, 3, "d")),
    (AlphaKAnonymity(QID, 0.4, 3, "d", ["a"]), AlphaKAnonymity(QID, 0.4, 3, "d", ["b"])),
    (ConfidenceBounding(QID, 0.3, "d", ["a"]), ConfidenceBounding(QID, 0.4, "d")),
    (PSensitiveKAnonymity(QID, 3, 4, "d"), PSensitiveKAnonymity(QID, 2, 5, "d")),
    (LDiversity(QID, 2, "d"), LDiversity(QID, 2, "e")),
    (LDiversity(QID, 2, "d"), EntropyLDiversity(QID, 2, "d")),
    (AlphaKAnonymity(QID, 0.5, 5, "d"), KAnonymity(QID, 5)),
    (PSensitiveKAnonymity(QID, 2, 5, "d"), KAnonymity(QID, 5)),
]


@pytest.mark.parametrize(("strict", "loose"), COVERS, ids=str)
def test_covers(strict: GroupRequirement, loose: GroupRequirement) -> None:
    assert strict.covers(loose)
    assert not loose.covers(strict)
    assert strict.covers(strict)
    assert loose.covers(loose)


@pytest.mark.parametrize(("one", "other"), APART, ids=str)
def test_neither_covers(one: GroupRequirement, other: GroupRequirement) -> None:
    assert not one.covers(other)
    assert not other.covers(one)


@st.composite
def parameters(draw: st.DrawFn) -> tuple[GroupRequirement, GroupRequirement]:
    """Two requirements of one model, the first over more attributes."""
    fraction = st.sampled_from([0.3, 0.5, 0.6, 0.8, 1])
    whole = st.integers(1, 3)
    listed = st.sampled_from([None, ("a",), ("a", "b")])
    name = draw(st.sampled_from(sorted(REQUIREMENTS.plain)))
    pools: dict[str, Any] = {
        "k-anonymity": (whole,),
        "constrained-k-anonymity": (whole,),
        "l-diversity": (whole,),
        "entropy-l-diversity": (st.sampled_from([1, 1.4, 2, 2.5]),),
        "recursive-l-diversity": (st.sampled_from([0.5, 1, 2, 3]), whole),
        "t-closeness": (fraction, st.sampled_from(["equal", "ordered", "hierarchical"])),
        "alpha-k-anonymity": (fraction, whole, listed),
        "confidence-bounding": (fraction, listed),
        "p-sensitive-k-anonymity": (whole, whole),
    }

    def make(qid: Sequence[str]) -> GroupRequirement:
        if name not in pools:
            found = draw(st.sampled_from(definition_of(name).examples))(qid)
            whole_numbers = [each for each in limits_of(type(found)) if isinstance(getattr(found, each), int)]
            return replace(found, **{each: draw(whole) for each in whole_numbers})  # type: ignore[type-var] # a dataclass
        values = [draw(pool) for pool in pools[name]]
        if name in ("k-anonymity", "constrained-k-anonymity"):
            return KAnonymity(qid, *values)
        values += [ROWS] if "hierarchical" in values else []
        at = {"t-closeness": 1, "alpha-k-anonymity": 2, "confidence-bounding": 1}.get(name, len(values))
        return REQUIREMENTS[name](qid, *values[:at], SENSITIVE, *values[at:])  # type: ignore[call-arg]

    return make(QID), make(QID[:1])


@given(parameters(), st.lists(tables, min_size=1, max_size=3))
@settings(max_examples=examples(500), deadline=None)
def test_what_is_covered_follows(
    pair: tuple[GroupRequirement, GroupRequirement], coarse: list[list[list[int]]]
) -> None:
    """Each coarse group of the smaller QID is made of fine groups of the larger one."""
    wide, narrow = pair
    histogram, whole, labels = count([fine for group in coarse for fine in group])
    owner = np.repeat(np.arange(len(coarse)), [len(group) for group in coarse])
    merged = np.array([histogram[owner == each].sum(axis=0) for each in range(len(coarse))])
    if wide.covers(narrow) and wide.holds(histogram, whole, labels).all():
        assert narrow.holds(merged, whole, labels).all()
