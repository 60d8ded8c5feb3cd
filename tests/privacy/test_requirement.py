"""Conjunctions, and the removal of requirements that others cover."""

from __future__ import annotations

import pyarrow as pa
import pytest

from masquerade.errors import ParameterError
from masquerade.privacy import Conjunction, KAnonymity, LDiversity, TCloseness, verify, without_redundant

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
