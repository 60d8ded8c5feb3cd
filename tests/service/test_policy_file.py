"""Policies as they are read: every problem told at once, and the columns they speak of."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from masquerade.errors import ParameterError
from masquerade.service.agree.policy import check_policy, read_policy
from service.parties import CLINIC, OPEN, L, policy


def test_a_policy_has_all_its_problems_told_at_once() -> None:
    text = """
    access = "public"
    users = ["ana"]
    methods = { tds = { adversary = ["honest"], scores = ["gain-ratio"] }, tsd = {} }
    publish_records = false
    session = 3
    [price]
    per_record = 1
    per_atribute = 2
    [[privacy]]
    model = "k-anonymity"
    k = 5
    [[privacy]]
    model = "l-diversity"
    l = 3
    """
    with pytest.raises(ParameterError) as caught:
        read_policy(tomllib.loads(text), "clinic.toml: policy")
    told = "\n".join(caught.value.lines)
    for expected in (
        "policy: least_k: missing",
        'policy: users: listed, but access = "public" lets everybody ask',
        'policy: methods.tds.adversary: must be a list of one or more of "semi-honest", "malicious"; got "honest"',
        'policy: methods.tds.scores: not a choice of tds (did you mean "score"?); known here: align, score, argmax, '
        "adversary",
        'policy: methods.tsd: no method "tsd" for parties (did you mean "tds"?); there are tds, dka, mondrian',
        'policy: session: unknown key (did you mean "sessions"?)',
        'policy: price.per_atribute: unknown key (did you mean "per_attribute"?)',
        "policy: privacy[1].qid: missing; for a k over all attributes write least_k",
        "policy: privacy[2].sensitive: missing",
    ):
        assert expected in told
    with pytest.raises(ParameterError, match=r"price.per_record: needs publish_records = true"):
        policy(publish_records=False, price={"per_record": 1})


def test_a_key_that_is_no_text_is_told() -> None:
    with pytest.raises(ParameterError, match="a key holds half a character"):
        read_policy({"least_k": 2, "\ud800": 1})


def test_a_policy_speaks_of_columns_that_are_there() -> None:
    check_policy(policy(privacy=[{"model": L, "l": 2, "sensitive": "disease"}]), CLINIC)
    wrong = policy(price={"attributes": {"agee": 5}}, privacy=[{"model": L, "l": 2, "sensitive": "illness"}])
    with pytest.raises(ParameterError) as caught:
        check_policy(wrong, CLINIC, "clinic.toml")
    assert caught.value.lines == (
        'clinic.toml: price.attributes: patients has no column "agee" (did you mean "age"?); '
        "it has age, town, disease, income",
        'clinic.toml: privacy[1].sensitive: patients has no column "illness"; it has age, town, disease, income',
    )


def test_the_example_of_the_manual() -> None:
    manual = Path(__file__).parents[2] / "docs/howto/policy.md"
    example = manual.read_text().split("```toml\n")[1].split("```")[0]
    written = read_policy(tomllib.loads(example))
    assert written.least_k == 10
    assert len(written.privacy) == 3
    assert set(written.model_dump()) == set(tomllib.loads(example))  # every key is shown
    assert OPEN.keys() <= set(written.model_dump())
