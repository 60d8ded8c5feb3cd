"""Canonical JSON: the RFC's own cases, and what has no place in it."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from masquerade.errors import ParameterError
from masquerade.protocol.contract import Contract, Contribution
from masquerade.service.canonical import canonical, decimal_text, digest

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def test_the_rfcs_key_order() -> None:
    # RFC 8785, 3.2.3: the surrogates of an emoji sort before U+FB33, although its code point is larger.
    keys = {
        "\u20ac": "Euro Sign",
        "\r": "Carriage Return",
        "\ufb33": "Hebrew Letter Dalet With Dagesh",
        "1": "One",
        "\U0001f600": "Emoji: Grinning Face",
        "\u0080": "Control",
        "\u00f6": "Latin Small Letter O With Diaeresis",
    }
    expected = [
        "Carriage Return",
        "One",
        "Control",
        "Latin Small Letter O With Diaeresis",
        "Euro Sign",
        "Emoji: Grinning Face",
        "Hebrew Letter Dalet With Dagesh",
    ]
    assert list(json.loads(canonical(keys)).values()) == expected
    assert sorted(keys)[-1] == "\U0001f600"  # by code points it would stand last


def test_the_rfcs_escapes() -> None:
    # RFC 8785, 3.2.2: the string of its example, and its literals.
    value = {"string": '\u20ac$\u000f\u000aA\'B"\\\\"/', "literals": [None, True, False]}
    assert canonical(value) == (
        b'{"literals":[null,true,false],"string":"\xe2\x82\xac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )
    assert canonical("\b\t\n\f\r\x00\x1f\x7f<>&\u2028") == (
        b'"\\b\\t\\n\\f\\r\\u0000\\u001f\x7f<>&\xe2\x80\xa8"'
    )
    assert canonical([]) == b"[]"
    assert canonical({"b": (), "a": -7}) == b'{"a":-7,"b":[]}'


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"t": 0.5}, "0.5 has no place in it; a decimal is written as text"),
        ([2**53], "not a whole number of at most 2\\^53"),
        ([-(2**53)], "not a whole number"),
        ("\ud800", "half a character"),
        ({"\udc00": 1}, "half a character"),
        ({1: "a"}, "a key must be text; got 1"),
    ],
)
def test_what_has_no_canonical_form(value: object, problem: str) -> None:
    with pytest.raises(ParameterError, match=problem):
        canonical(value)


@given(VALUES)
def test_it_reads_back_and_is_its_own_canonical_form(value: object) -> None:
    once = canonical(value)
    assert json.loads(once) == value
    assert canonical(json.loads(once)) == once


@given(st.dictionaries(st.text(), st.integers(0, 9), min_size=2))
def test_the_order_of_keys_does_not_matter(value: dict[str, int]) -> None:
    assert canonical(dict(reversed(value.items()))) == canonical(value)


@given(st.text(), st.text())
def test_a_protocols_contract_has_the_same_form(name: str, qid: str) -> None:
    contract = Contract(
        ("a", "b"), (Contribution(name, "a", "attribute"),), ({"model": "k", "qid": [qid], "k": 3},), "gain"
    )
    assert canonical(contract) == contract.canonical()
    assert digest(contract) == contract.hash


def test_decimals() -> None:
    assert [decimal_text(each) for each in (1, 1.0, "1.00", 0.1, "0.10", 1e-9)] == [
        "1",
        "1",
        "1",
        "0.1",
        "0.1",
        "1e-09",
    ]


def test_structs() -> None:
    class Pair(msgspec.Struct):
        b: int
        a: tuple[str, ...]

    assert canonical(Pair(1, ("x",))) == b'{"a":["x"],"b":1}'
