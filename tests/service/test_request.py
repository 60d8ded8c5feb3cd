"""Requests as they are read: every problem told at once, and nothing that is sent breaks the reader."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from examples import examples
from masquerade.errors import BadInput, ParameterError
from masquerade.privacy import REQUIREMENTS
from masquerade.service import read_request
from masquerade.service.agree.policy import read_policy
from service.parties import OPEN, K, L, request


def test_a_request_has_all_its_problems_told_at_once() -> None:
    with pytest.raises(ParameterError) as caught:
        read_request(
            {
                "atributes": ["age"],
                "budget": -1,
                "adversary": "malicious",
                "most_error": 1.5,
                "algorithm": {
                    "name": "tds",
                    "adversary": "malicous",
                    "argmax": "secret",
                    "epsilon": float("nan"),
                    "third_party": "trusted",
                    "seed": 3,
                    "scores": "gain-ratio",
                },
                "deadline": "tomorrow",
                "providers": {"age": 7},
                "privacy": [{"model": "k-anonimity"}, {"model": K, "qid": ["age"], "k": 0}],
            },
            "ask.toml",
        )
    assert sorted(caught.value.lines) == [
        "ask.toml: adversary: belongs to [algorithm], as a key of tds",
        'ask.toml: algorithm.adversary: must be one of "semi-honest", "malicious"; got "malicous" '
        '(did you mean "malicious"?)',
        'ask.toml: algorithm.argmax: must be one of "secure", "plain"; got "secret" (did you mean "secure"?)',
        "ask.toml: algorithm.epsilon: must be a finite number of at least 0; got nan",
        'ask.toml: algorithm.scores: unknown key (did you mean "score"?); known here: adversary, align, argmax, '
        "epsilon, name, score",
        "ask.toml: algorithm.seed: belongs to a job file; a request has no such key",
        "ask.toml: algorithm.third_party: belongs to mondrian; tds does without it",
        'ask.toml: atributes: unknown key (did you mean "attributes"?); known here: user, purpose, attributes, '
        "class, duration, event, privacy, most_error, most_ncp, most_query_error, estimate, budget, recipients, "
        "providers, kind, algorithm, m, parties, normalize, boundaries, deadline, attempts, show_progress, signed",
        "ask.toml: budget: must be a whole number of cents, of at least 0; got -1",
        "ask.toml: deadline: must be a date and time with its zone, such as 2030-01-31T12:00:00Z, "
        'or seconds since 1970; got "tomorrow"',
        "ask.toml: most_error: must be a number of at least 0 and at most 1: the largest classification error; got 1.5",
        'ask.toml: privacy[1].model: no model "k-anonimity" (did you mean "k-anonymity"?); available: '
        + ", ".join(REQUIREMENTS),
        "ask.toml: privacy[2].k: must be a whole number of at least 1; got 0",
        'ask.toml: providers: must be a table of attributes and who contributes them, such as { age = "bank" }; got 7',
        "ask.toml: purpose: missing; say what the table is for",
    ]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"attributes": []}, "attributes: missing"),
        ({"attributes": ["age", "job", "age"]}, 'attributes: "age" is listed twice'),
        ({"class": "age"}, 'class: "age" is among the attributes too'),
        ({"class": None, "most_error": 0.2}, "most_error: needs a class"),
        ({"class": None, "algorithm": {"score": "gain-ratio"}}, 'algorithm.score: "gain-ratio" needs a class'),
        ({"algorithm": {"score": "certainty"}}, 'algorithm.score: "certainty" cannot be recomputed'),
        ({"algorithm": {"score": "gain"}}, 'algorithm.score: must be one of "gain-ratio", .*; got "gain"'),
        ({"algorithm": "tds"}, r'algorithm: must be a table, written \[algorithm\]; got "tds"'),
        (
            {"algorithm": {"name": "tsd"}},
            r'algorithm.name: no algorithm "tsd" \(did you mean "tds"\?\); available: auto, tds',
        ),
        (
            {"algorithm": {"name": "mondrian", "third_party": "secure"}},
            "algorithm.third_party: belongs to mondrian between parties with the same columns",
        ),
        ({"algorithm": {"name": "datafly"}}, 'algorithm.name: "datafly" is for one table; parties have: auto, tds'),
        (
            {
                "algorithm": {"name": "dka-datafly"},
                "privacy": [{"model": "t-closeness", "qid": ["age"], "t": 0.2, "sensitive": "disease"}],
            },
            "algorithm.name: dka: t-closeness cannot be tested on shared counts of one group alone",
        ),
        (
            {"attributes": ["job", "ages"]},
            r'privacy\[1\].qid: "age" is not among the attributes, but "ages" is: write the same in both places',
        ),
        (
            {"privacy": [{"model": L, "qid": ["age"], "l": 2, "sensitive": "diseas"}]},
            r'privacy\[1\].sensitive: "diseas" is not among the attributes, but "disease" is: write',
        ),
        ({"providers": {"weight": "clinic"}}, 'providers.weight: "weight" is not among'),
        (
            {
                "kind": "horizontal",
                "class": "job",
                "attributes": ["age"],
                "privacy": [],
                "algorithm": {"name": "logistic", "drop_out": "go-on"},
            },
            "algorithm.drop_out: a session that loses a party is tried again with all of them",
        ),
        ({"attempts": 11}, "attempts: must be a whole number from 1 to 10; got 11"),
        ({"deadline": tomllib.loads("d = 2030-01-01T00:00:00")["d"]}, "deadline: must be a date and time with"),
    ],
)
def test_what_is_wrong_with_a_request(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ParameterError, match=f"^request: {problem}"):
        request(**changes)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.text() | st.just("age"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.just("model"), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None, max_examples=examples(200))
@given(st.dictionaries(st.sampled_from([*request().content(), "other"]), ANYTHING, max_size=4))
def test_whatever_is_sent_is_read_or_refused_in_words(content: dict[str, Any]) -> None:
    problems: list[str] = []
    for read, whole in ((read_request, request().content()), (read_policy, OPEN)):
        try:
            read(whole | content)
        except BadInput as error:
            problems += error.lines or ("nothing is said",)
    assert not [problem for problem in problems if not problem.isprintable() or problem == "nothing is said"]


def test_what_a_request_lacks_is_told_in_words_of_a_request() -> None:
    privacy = [{"model": "l-diversity", "qid": ["age"], "l": 2}]
    with pytest.raises(ParameterError) as told:
        request(privacy=privacy)
    wanted = "request: privacy[1].sensitive: missing; l-diversity needs a sensitive attribute"
    assert told.value.lines == (wanted,)
    with pytest.raises(ParameterError, match="request: must be a table of keys and values"):
        read_request([1])


def test_a_request_reads_back_from_its_canonical_form() -> None:
    wish = [
        {"model": "t-closeness", "qid": ["age"], "t": 0.25, "sensitive": "disease"},
        {"model": "entropy-l-diversity", "qid": ["age"], "l": 2.5, "sensitive": "disease"},
        {"model": "alpha-k-anonymity", "qid": ["age"], "alpha": 0.5, "k": 3, "sensitive": "disease", "values": ["HIV"]},
    ]
    deadline = tomllib.loads("d = 2030-01-31T12:00:00+02:00")["d"]
    asked = request(
        privacy=wish,
        most_error=0.2,
        most_ncp=0.5,
        most_query_error=1.5,
        deadline=deadline,
        providers={"age": "clinic"},
        algorithm={"epsilon": 0.25, "adversary": "malicious"},
    )
    assert asked.deadline == 1_896_084_000
    back = read_request(json.loads(asked.canonical()))
    assert back == asked
    assert back.canonical() == asked.canonical()
    assert b"0.25" in asked.canonical()
    assert not any(isinstance(each, float) for each in msgspec.to_builtins(asked.content()).values())


def test_a_deadline_may_be_the_text_that_its_error_asks_for() -> None:
    asked = {"purpose": "research", "attributes": ["age"]}
    assert read_request(asked | {"deadline": "2030-01-31T12:00:00+02:00"}).deadline == 1_896_084_000
    assert read_request(asked | {"deadline": "2030-01-31T10:00:00Z"}).deadline == 1_896_084_000
    for wrong in ("2030-01-31T12:00:00", "tomorrow", ""):  # the first has no zone
        with pytest.raises(ParameterError, match="deadline: must be a date and time with its zone"):
            read_request(asked | {"deadline": wrong})
