"""`[[privacy]]` entries: each is read by what its model declares."""

from __future__ import annotations

from typing import Any

import pytest

import masquerade as mq
from masquerade.forms import Problems, fill
from masquerade.jobs import Job, requirement_of
from masquerade.privacy import GroupRequirement

QID = {"qid": ["age"]}


def read(*entries: dict[str, Any]) -> tuple[tuple[GroupRequirement, ...], list[str]]:
    problems = Problems("job.toml")
    job = fill(Job, {"privacy": list(entries)}, problems)
    return requirement_of(job, problems).parts, [
        str(each).removeprefix("job.toml: privacy[1].") for each in problems.found
    ]


def entry(model: str, **parameters: Any) -> dict[str, Any]:
    return {"model": model, **QID, **({} if model == "k-anonymity" else {"sensitive": "d"}), **parameters}


WRONG = {
    "text for a number": (entry("k-anonymity", k="five"), 'k: must be a whole number of at least 1; got "five"'),
    "true for a number": (entry("k-anonymity", k=True), "k: must be a whole number of at least 1; got true"),
    "decimal for a whole number": (entry("k-anonymity", k=2.0), "k: must be a whole number of at least 1; got 2.0"),
    "k below 1": (entry("k-anonymity", k=0), "k: must be a whole number of at least 1; got 0"),
    "k beyond all counts": (
        entry("k-anonymity", k=2**53),
        f"k: must be a whole number of at most {2**53 - 1}; got {2**53}",
    ),
    "l is no whole number": (entry("l-diversity", l=2.5), "l: must be a whole number of at least 1; got 2.5"),
    "l below 1": (entry("entropy-l-diversity", l=0.5), "l: must be a finite number of at least 1; got 0.5"),
    "c not above 0": (entry("recursive-l-diversity", l=2, c=0), "c: must be a finite number above 0; got 0"),
    "infinite": (entry("recursive-l-diversity", l=2, c=float("inf")), "c: must be a finite number above 0; got inf"),
    "more than any float": (
        entry("recursive-l-diversity", l=2, c=10**9999),
        "c: must be a finite number above 0; got a number of very many digits",
    ),
    "t above 1": (entry("t-closeness", t=1.5), "t: must be a number of at least 0 and at most 1; got 1.5"),
    "unknown distance": (
        entry("t-closeness", t=0.5, distance="order"),
        'distance: must be one of "equal", "ordered", "hierarchical"; got "order" (did you mean "ordered"?)',
    ),
    "alpha 0": (entry("alpha-k-anonymity", k=2, alpha=0), "alpha: must be a number above 0 and at most 1; got 0"),
    "not a number": (
        entry("alpha-k-anonymity", k=2, alpha=float("nan")),
        "alpha: must be a number above 0 and at most 1; got nan",
    ),
    "p below 1": (entry("p-sensitive-k-anonymity", k=2, p=-1), "p: must be a whole number of at least 1; got -1"),
    "confidence above 1": (
        entry("confidence-bounding", confidence=2),
        "confidence: must be a number above 0 and at most 1; got 2",
    ),
    "no values": (
        entry("confidence-bounding", c=0.5, values=[]),
        "values: must be a list of one or more different values; got an empty list",
    ),
    "a slip": (
        entry("k-anonymity", k=2, kk=3),
        'kk: k-anonymity has no such parameter (did you mean "k"?); it takes qid, k',
    ),
    "another model's": (
        entry("k-anonymity", k=2, distance="ordered"),
        "distance: k-anonymity has no such parameter (t-closeness has); it takes qid, k",
    ),
    "two other models'": (
        entry("k-anonymity", k=2, values=["HIV"]),
        "values: k-anonymity has no such parameter (alpha-k-anonymity and confidence-bounding have); it takes qid, k",
    ),
    "a sensitive attribute in its qid": (
        entry("l-diversity", l=2, sensitive="age"),
        "sensitive: must be an attribute outside the qid age; got 'age'",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_parameter_has_one_line(case: str) -> None:
    given, line = WRONG[case]
    parts, lines = read(given)
    assert lines == [line]
    assert parts == ()


def test_all_that_is_wrong_is_named_at_once() -> None:
    _, lines = read({"model": "recursive-l-diversity", "c": 0, "t": 1})
    assert lines == [
        "t: recursive-l-diversity has no such parameter (t-closeness has); it takes qid, c, l, sensitive",
        "sensitive: missing; recursive-l-diversity needs a sensitive attribute, here or in roles.sensitive",
        "c: must be a finite number above 0; got 0",
        "qid: missing; recursive-l-diversity needs it",
        "l: missing; recursive-l-diversity needs it",
    ]


def test_right_entries_make_requirements() -> None:
    parts, lines = read(
        entry("confidence-bounding", h=0.5, values=["HIV", 3]),
        entry("recursive-l-diversity", c=3, l=2),
        entry("t-closeness", t=0, distance="ordered"),
        entry("alpha-k-anonymity", alpha="0.5", k=3),  # as canonical JSON writes decimals
    )
    assert lines == []
    assert parts == (
        mq.ConfidenceBounding("age", 0.5, "d", ["HIV", "3"]),
        mq.RecursiveLDiversity("age", 3, 2, "d"),
        mq.TCloseness("age", 0, "d", "ordered"),
        mq.AlphaKAnonymity("age", 0.5, 3, "d"),
    )
