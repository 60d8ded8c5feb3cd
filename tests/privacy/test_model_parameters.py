"""The parameters of requirements: wrong ones in one sentence, right ones as they were given."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from masquerade.errors import ParameterError
from masquerade.privacy import (
    REQUIREMENTS,
    AlphaKAnonymity,
    ConfidenceBounding,
    EntropyLDiversity,
    GroupRequirement,
    KAnonymity,
    LDiversity,
    PSensitiveKAnonymity,
    RecursiveLDiversity,
    TCloseness,
)
from privacy.definitions import EXAMPLES, QID

WHOLE, UNIT = "a whole number of at least 1", "a number above 0 and at most 1"
MOST = "a whole number of at most 9007199254740991"
NAMES, SENSITIVE = "a list of one or more attribute names", "the name of an attribute"
SHARE, ABOVE = "a number of at least 0 and at most 1", "a finite number above 0"
LISTED = "a list of one or more different values"
TREE = ["a;any", "b;any"]
TWO_ROOTS = 'a taxonomy (taxonomy: two roots: "any" (line 1) and "some" (line 2); all paths must end in one root)'
WRONG: list[tuple[Callable[[], object], str, str, str]] = [
    (lambda: KAnonymity(QID, 0), "k", WHOLE, "0"),
    (lambda: KAnonymity(QID, True), "k", WHOLE, "True"),
    (lambda: KAnonymity(QID, np.bool_(True)), "k", WHOLE, "True"),
    (lambda: KAnonymity(QID, 2.0), "k", WHOLE, "2.0"),
    (lambda: KAnonymity(QID, "2"), "k", WHOLE, "'2'"),
    (lambda: KAnonymity(QID, np.int64(-3)), "k", WHOLE, "-3"),
    (lambda: KAnonymity(QID, 2**53), "k", MOST, "9007199254740992"),
    (lambda: LDiversity(QID, 10**5000, "d"), "l", MOST, "a number of very many digits"),
    (lambda: KAnonymity([], 2), "qid", NAMES, "[]"),
    (lambda: KAnonymity(5, 2), "qid", NAMES, "5"),
    (lambda: KAnonymity(["age", ""], 2), "qid", NAMES, "['age', '']"),
    (lambda: KAnonymity(["age", "age"], 2), "qid", "a list of different attribute names", "['age', 'age']"),
    (lambda: LDiversity(QID, 1.5, "d"), "l", WHOLE, "1.5"),
    (lambda: LDiversity(QID, 2, "job"), "sensitive", "an attribute outside the qid age, job", "'job'"),
    (lambda: LDiversity(QID, 2, None), "sensitive", SENSITIVE, "None"),
    (lambda: EntropyLDiversity(QID, 0.9, "d"), "l", "a finite number of at least 1", "0.9"),
    (lambda: EntropyLDiversity(QID, False, "d"), "l", "a finite number of at least 1", "False"),
    (lambda: RecursiveLDiversity(QID, 0, 2, "d"), "c", ABOVE, "0"),
    (lambda: RecursiveLDiversity(QID, math.inf, 2, "d"), "c", ABOVE, "inf"),
    (lambda: RecursiveLDiversity(QID, 2, 0, "d"), "l", WHOLE, "0"),
    (lambda: TCloseness(QID, 1.5, "d"), "t", SHARE, "1.5"),
    (lambda: TCloseness(QID, math.nan, "d"), "t", SHARE, "nan"),
    (
        lambda: TCloseness(QID, 0.1, "d", "euclidean"),
        *("distance", 'one of "equal", "ordered", "hierarchical"', "'euclidean'"),
    ),
    (
        lambda: TCloseness(QID, 0.1, "d", "hierarchical"),
        *("taxonomy", 'a taxonomy of d for distance = "hierarchical"', "None"),
    ),
    (
        lambda: TCloseness(QID, 0.1, "d", taxonomy=TREE),
        *("distance", '"hierarchical" where a taxonomy is given', "'equal'"),
    ),
    (
        lambda: TCloseness(QID, 0.1, ["d", "e"], "hierarchical", TREE),
        *("distance", '"equal" for several sensitive attributes', "'hierarchical'"),
    ),
    (
        lambda: TCloseness(QID, 0.1, "d", "hierarchical", ["a;any", "b;some"]),
        *("taxonomy", TWO_ROOTS, "['a;any', 'b;some']"),
    ),
    (
        lambda: TCloseness(QID, 0.1, "d", "hierarchical", "disease.csv"),
        *("taxonomy", 'a taxonomy: a list of rows "leaf;parent;…;root"', "'disease.csv'"),
    ),
    (lambda: AlphaKAnonymity(QID, 0, 2, "d"), "alpha", UNIT, "0"),
    (lambda: AlphaKAnonymity(QID, 0.5, 0, "d"), "k", WHOLE, "0"),
    (lambda: AlphaKAnonymity(QID, 0.5, 2, "d", []), "values", LISTED, "[]"),
    (lambda: AlphaKAnonymity(QID, 0.5, 2, "d", ["x", " x"]), "values", LISTED, "['x', ' x']"),
    (lambda: ConfidenceBounding(QID, 1.01, "d"), "confidence", UNIT, "1.01"),
    (lambda: ConfidenceBounding(QID, 0.5, "d", [None]), "values", LISTED, "[None]"),
    (lambda: PSensitiveKAnonymity(QID, 0, 2, "d"), "p", WHOLE, "0"),
    (lambda: PSensitiveKAnonymity(QID, 2, 0, "d"), "k", WHOLE, "0"),
]


@pytest.mark.parametrize(("make", "name", "allowed", "found"), WRONG)
def test_wrong_parameters(make: Callable[[], object], name: str, allowed: str, found: str) -> None:
    with pytest.raises(ParameterError) as caught:
        make()
    (problem,) = caught.value.problems
    assert (problem.parameter, problem.allowed, problem.found) == (name, allowed, found)
    owner = next(each for each in make.__code__.co_names if each[0].isupper() and each != "QID")
    assert str(problem) == f"The {name} parameter of {owner} must be {allowed}. Got {found} instead."


def test_numpy_numbers_become_plain() -> None:
    requirement = AlphaKAnonymity(np.array(["age"]), np.float32(0.5), np.int16(3), "d", np.array([1, 2]))
    assert requirement == AlphaKAnonymity(["age"], 0.5, 3, "d", ["1", "2"])
    assert json.loads(json.dumps(requirement.parameters())) == {
        "alpha": 0.5,
        "k": 3,
        "sensitive": "d",
        "values": ["1", "2"],
    }
    assert type(requirement.qid[0]) is str


def test_parameters_make_the_same_requirement_again() -> None:
    assert set(REQUIREMENTS.plain) == {make(QID).model for make in EXAMPLES}
    for make in EXAMPLES:
        requirement = make(QID)
        again = REQUIREMENTS[requirement.model](qid=requirement.qid, **requirement.parameters())
        assert again == requirement
        assert hash(again) == hash(requirement)


def test_how_they_are_written() -> None:
    assert str(KAnonymity(QID, 50)) == "k-anonymity (k = 50) over age, job"
    assert str(AlphaKAnonymity("age", 0.5, 3, "d", ["x", "y"])) == (
        "alpha-k-anonymity (alpha = 0.5, k = 3, sensitive = d, values = x, y) over age"
    )
    assert str(KAnonymity("a", 2) & LDiversity("b", 3, "d")) == (
        "k-anonymity (k = 2) over a & l-diversity (l = 3, sensitive = d) over b"
    )


# --- listed values ---


@pytest.mark.parametrize(
    "model", [lambda v: AlphaKAnonymity(QID, 0.5, 2, "d", v), lambda v: ConfidenceBounding(QID, 0.5, "d", v)]
)
def test_listed_values_must_be_the_tables(model: Callable[[Any], GroupRequirement]) -> None:
    labels = ("Cancer", "Flu", "HIV")
    model(None).bind(labels)
    model(["HIV", " Flu "]).bind(labels)
    model("HIV").bind(labels)
    model(["HVI"]).bind(())  # a table without records has no say
    with pytest.raises(ParameterError) as caught:
        model(["HVI", "Flu", "hiv"]).bind(labels)
    name = type(model(None)).__name__
    rule = f'The values parameter of {name} must list values of d: "Cancer", "Flu", "HIV". Got '
    assert caught.value.lines == (
        rule + '"HVI" instead (did you mean "HIV"?).',
        rule + '"hiv" instead (did you mean "HIV"?).',
    )


def test_many_values_are_not_all_listed() -> None:
    with pytest.raises(ParameterError) as caught:
        ConfidenceBounding(QID, 0.5, "d", ["x"]).bind([f"value\n{n}" for n in range(1000)])
    assert '"value\\n9" and 990 more. Got "x" instead' in str(caught.value)
    assert "\n" not in str(caught.value)


def test_values_are_written_as_cells_are() -> None:
    requirement = ConfidenceBounding(QID, 0.5, "d", [1.0, 2, True, "a "])
    assert requirement.values == ("1", "2", "True", "a")
