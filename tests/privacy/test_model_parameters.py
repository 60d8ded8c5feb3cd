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

WHOLE = "must be a whole number of at least 1"
UNIT = "must be a number above 0 and at most 1"
WRONG = [
    (lambda: KAnonymity(QID, 0), f"The k parameter of KAnonymity {WHOLE}. Got 0 instead."),
    (lambda: KAnonymity(QID, True), f"The k parameter of KAnonymity {WHOLE}. Got True instead."),
    (lambda: KAnonymity(QID, np.bool_(True)), f"The k parameter of KAnonymity {WHOLE}. Got True instead."),
    (lambda: KAnonymity(QID, 2.0), f"The k parameter of KAnonymity {WHOLE}. Got 2.0 instead."),
    (lambda: KAnonymity(QID, "2"), f"The k parameter of KAnonymity {WHOLE}. Got '2' instead."),
    (lambda: KAnonymity(QID, np.int64(-3)), f"The k parameter of KAnonymity {WHOLE}. Got -3 instead."),
    (
        lambda: KAnonymity(QID, 2**53),
        "The k parameter of KAnonymity must be a whole number of at most 9007199254740991. "
        "Got 9007199254740992 instead.",
    ),
    (
        lambda: LDiversity(QID, 10**5000, "d"),
        "The l parameter of LDiversity must be a whole number of at most 9007199254740991. "
        "Got a number of very many digits instead.",
    ),
    (
        lambda: KAnonymity([], 2),
        "The qid parameter of KAnonymity must be a list of one or more attribute names. Got [] instead.",
    ),
    (
        lambda: KAnonymity(5, 2),
        "The qid parameter of KAnonymity must be a list of one or more attribute names. Got 5 instead.",
    ),
    (
        lambda: KAnonymity(["age", ""], 2),
        "The qid parameter of KAnonymity must be a list of one or more attribute names. Got ['age', ''] instead.",
    ),
    (
        lambda: KAnonymity(["age", "age"], 2),
        "The qid parameter of KAnonymity must be a list of different attribute names. Got ['age', 'age'] instead.",
    ),
    (lambda: LDiversity(QID, 1.5, "d"), f"The l parameter of LDiversity {WHOLE}. Got 1.5 instead."),
    (
        lambda: LDiversity(QID, 2, "job"),
        "The sensitive parameter of LDiversity must be an attribute outside the qid age, job. Got 'job' instead.",
    ),
    (
        lambda: LDiversity(QID, 2, None),
        "The sensitive parameter of LDiversity must be the name of an attribute. Got None instead.",
    ),
    (
        lambda: EntropyLDiversity(QID, 0.9, "d"),
        "The l parameter of EntropyLDiversity must be a finite number of at least 1. Got 0.9 instead.",
    ),
    (
        lambda: EntropyLDiversity(QID, False, "d"),
        "The l parameter of EntropyLDiversity must be a finite number of at least 1. Got False instead.",
    ),
    (
        lambda: RecursiveLDiversity(QID, 0, 2, "d"),
        "The c parameter of RecursiveLDiversity must be a finite number above 0. Got 0 instead.",
    ),
    (
        lambda: RecursiveLDiversity(QID, math.inf, 2, "d"),
        "The c parameter of RecursiveLDiversity must be a finite number above 0. Got inf instead.",
    ),
    (lambda: RecursiveLDiversity(QID, 2, 0, "d"), f"The l parameter of RecursiveLDiversity {WHOLE}. Got 0 instead."),
    (
        lambda: TCloseness(QID, 1.5, "d"),
        "The t parameter of TCloseness must be a number of at least 0 and at most 1. Got 1.5 instead.",
    ),
    (
        lambda: TCloseness(QID, math.nan, "d"),
        "The t parameter of TCloseness must be a number of at least 0 and at most 1. Got nan instead.",
    ),
    (
        lambda: TCloseness(QID, 0.1, "d", "euclidean"),
        'The distance parameter of TCloseness must be one of "equal", "ordered", "hierarchical". '
        "Got 'euclidean' instead.",
    ),
    (
        lambda: TCloseness(QID, 0.1, "d", "hierarchical"),
        'The taxonomy parameter of TCloseness must be a taxonomy of d for distance = "hierarchical". Got None instead.',
    ),
    (
        lambda: TCloseness(QID, 0.1, "d", taxonomy=["a;any", "b;any"]),
        "The distance parameter of TCloseness must be \"hierarchical\" where a taxonomy is given. Got 'equal' instead.",
    ),
    (
        lambda: TCloseness(QID, 0.1, ["d", "e"], "hierarchical", ["a;any", "b;any"]),
        'The distance parameter of TCloseness must be "equal" for several sensitive attributes. '
        "Got 'hierarchical' instead.",
    ),
    (
        lambda: TCloseness(QID, 0.1, "d", "hierarchical", ["a;any", "b;some"]),
        'The taxonomy parameter of TCloseness must be a taxonomy (taxonomy: two roots: "any" (line 1) and '
        "\"some\" (line 2); all paths must end in one root). Got ['a;any', 'b;some'] instead.",
    ),
    (
        lambda: TCloseness(QID, 0.1, "d", "hierarchical", "disease.csv"),
        'The taxonomy parameter of TCloseness must be a taxonomy: a list of rows "leaf;parent;…;root". '
        "Got 'disease.csv' instead.",
    ),
    (lambda: AlphaKAnonymity(QID, 0, 2, "d"), f"The alpha parameter of AlphaKAnonymity {UNIT}. Got 0 instead."),
    (lambda: AlphaKAnonymity(QID, 0.5, 0, "d"), f"The k parameter of AlphaKAnonymity {WHOLE}. Got 0 instead."),
    (
        lambda: AlphaKAnonymity(QID, 0.5, 2, "d", []),
        "The values parameter of AlphaKAnonymity must be a list of one or more different values. Got [] instead.",
    ),
    (
        lambda: AlphaKAnonymity(QID, 0.5, 2, "d", ["x", " x"]),
        "The values parameter of AlphaKAnonymity must be a list of one or more different values. "
        "Got ['x', ' x'] instead.",
    ),
    (
        lambda: ConfidenceBounding(QID, 1.01, "d"),
        f"The confidence parameter of ConfidenceBounding {UNIT}. Got 1.01 instead.",
    ),
    (
        lambda: ConfidenceBounding(QID, 0.5, "d", [None]),
        "The values parameter of ConfidenceBounding must be a list of one or more different values. "
        "Got [None] instead.",
    ),
    (lambda: PSensitiveKAnonymity(QID, 0, 2, "d"), f"The p parameter of PSensitiveKAnonymity {WHOLE}. Got 0 instead."),
    (lambda: PSensitiveKAnonymity(QID, 2, 0, "d"), f"The k parameter of PSensitiveKAnonymity {WHOLE}. Got 0 instead."),
]


@pytest.mark.parametrize(("make", "sentence"), WRONG, ids=[sentence for _, sentence in WRONG])
def test_wrong_parameters(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ParameterError) as caught:
        make()
    assert caught.value.lines == (sentence,)


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
