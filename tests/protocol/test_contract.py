"""The contract: one canonical form, and requirements that come back as they were."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings, strategies as st

import masquerade as mq
from examples import examples
from masquerade.protocol import Contract, Contribution, read_requirement, written_requirement
from masquerade.protocol.sensitive.checks import refuse_remote_sensitive

REQUIREMENTS = [
    mq.KAnonymity(["a", "b"], k=5),
    mq.LDiversity(["a"], l=3, sensitive="s"),
    mq.EntropyLDiversity(["a"], l=2.5, sensitive="s"),
    mq.RecursiveLDiversity(["a"], c=0.7, l=2, sensitive="s"),
    mq.TCloseness(["a"], t=0.15, sensitive="s", distance="ordered"),
    mq.TCloseness(["a"], t=0.15, sensitive="s", distance="hierarchical", taxonomy=["x;xy;any", "y;xy;any", "z;any"]),
    mq.AlphaKAnonymity(["a"], alpha=0.29, k=4, sensitive="s", values=["x", "y"]),
    mq.ConfidenceBounding(["a"], confidence=1 / 3, sensitive="s"),
    mq.PSensitiveKAnonymity(["a"], p=2, k=4, sensitive="s"),
]


def a_contract(**terms: object) -> Contract:
    fields: dict[str, object] = {
        "parties": ("bank", "loans"),
        "columns": (Contribution("a", "bank", "attribute"), Contribution("b", "loans", "attribute")),
        "requirements": tuple(written_requirement(part) for part in REQUIREMENTS),
        "method": {"name": "tds", "score": "gain-ratio"},
    }
    return Contract(**{**fields, **terms})  # type: ignore[arg-type] # as a person would write it


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=lambda each: each.model)
def test_requirements_come_back_as_they_were(requirement: mq.KAnonymity) -> None:
    assert read_requirement(written_requirement(requirement)) == requirement


def test_the_canonical_form_has_no_floats_and_comes_back() -> None:
    contract = a_contract()

    def no_float(text: str) -> float:
        raise AssertionError(f"a float: {text}")

    content = json.loads(contract.canonical(), parse_float=no_float)
    assert list(content) == sorted(content)
    assert Contract.read(contract.canonical()) == contract
    assert Contract.read(contract.canonical()).hash == contract.hash


def test_two_sessions_of_the_same_terms_have_different_hashes() -> None:
    assert a_contract().hash != a_contract().hash
    assert a_contract(nonce="n").hash == a_contract(nonce="n").hash
    assert a_contract(nonce="n").hash != a_contract(nonce="n", method={"name": "tds", "score": "info-gain"}).hash


@settings(max_examples=examples(100), deadline=None)
@given(st.binary(max_size=80) | st.text(max_size=80).map(str.encode))
def test_any_bytes_are_a_contract_or_an_error(data: bytes) -> None:
    with pytest.raises(mq.ParameterError):
        Contract.read(data)


@pytest.mark.parametrize(
    "written",
    [
        {"model": "m"},
        {},
        {"model": "t-closeness", "qid": ["a"], "t": "abc", "sensitive": "s"},
        {"model": "k-anonymity", "qid": ["a"], "k": 2, "x": 1},
        {"model": "k-anonymity", "qid": ["a"], "k": 0},
    ],
    ids=["model", "empty", "number", "unknown", "k"],
)
def test_broken_requirements_are_refused(written: dict[str, object]) -> None:
    with pytest.raises(mq.ParameterError):
        read_requirement(written)


def test_sensitive_values_of_another_party_are_refused_with_the_reason() -> None:
    part = mq.TCloseness(["a", "b"], t=0.2, sensitive="s")
    [(refused, reason)] = refuse_remote_sensitive([part], {"a": "bank", "b": "loans", "s": "bank"})
    assert refused == 0  # its place
    assert "over b of other parties needs groups of at least two records; add k-anonymity over a, b" in reason
    assert refuse_remote_sensitive([part], {"a": "bank", "b": "bank", "s": "bank"}) == []


def test_what_a_party_needs_and_hands_in() -> None:
    contract = a_contract(class_name="c", class_from="bank")
    assert contract.columns_needed("bank") == ("a", "c")
    assert contract.columns_needed("loans") == ("b",)
    assert contract.class_holder == "bank"
    everyone = a_contract(class_name="c")
    assert everyone.columns_needed("loans") == ("b", "c")
