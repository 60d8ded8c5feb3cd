"""Each requirement against its definition, by hand and on random groups."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from examples import examples
from masquerade.data import Branch, Taxonomy
from masquerade.engine import Counts
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
    qid,
)
from masquerade.privacy.requirement import requirement as declared, sensitive
from privacy.definitions import EXAMPLES, QID, SENSITIVE, figure, satisfied
from privacy.histograms import ALPHABET, count, tables


def records(counts: Sequence[int]) -> list[str]:
    return [label for label, n in zip(ALPHABET, counts, strict=False) for _ in range(n)]


def holds(requirement: GroupRequirement, *groups: Sequence[int]) -> list[bool]:
    return requirement.holds(*count(groups)).tolist()


def figures(requirement: GroupRequirement, *groups: Sequence[int]) -> list[float]:
    return requirement.figures(*count(groups)).tolist()


models = st.sampled_from(EXAMPLES).map(lambda make: make(QID))


@given(models, tables)
@settings(max_examples=examples(400), deadline=None)
def test_as_defined(requirement: GroupRequirement, groups: list[list[int]]) -> None:
    table = [value for group in groups for value in records(group)]
    assert holds(requirement, *groups) == [satisfied(requirement, records(g), table) for g in groups]
    expected = [figure(requirement, records(g), table) for g in groups]
    assert figures(requirement, *groups) == pytest.approx(expected)


def pairs_of_groups() -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    """Any two of the same groups, with tables that they may be of: all small groups, and some larger ones."""
    small = np.array([*product(range(4), repeat=len(ALPHABET))], np.int64)[1:]
    larger = np.random.default_rng(1).integers(0, 40, (150, len(ALPHABET)))
    for groups in (small, larger):
        one, other = np.triu_indices(len(groups))
        for whole in (groups.sum(axis=0), np.array([5000, 800, 700, 600])):
            yield groups[one], groups[other], whole.reshape(1, -1)


def is_monotone(requirement: GroupRequirement) -> bool:
    """Whether every union of two groups that satisfy satisfies."""
    return all(
        (
            requirement.holds(one + other, whole, ALPHABET)
            | ~requirement.holds(one, whole, ALPHABET)
            | ~requirement.holds(other, whole, ALPHABET)
        ).all()
        for one, other, whole in pairs_of_groups()
    )


def is_hereditary(requirement: GroupRequirement) -> bool:
    """Whether every part of a group that violates violates."""
    return all(
        (
            requirement.holds(one + other, whole, ALPHABET)
            | ~(requirement.holds(one, whole, ALPHABET) | requirement.holds(other, whole, ALPHABET))
        ).all()
        for one, other, whole in pairs_of_groups()
    )


@pytest.mark.parametrize("make", EXAMPLES)
def test_it_is_monotone_and_hereditary_if_it_says_so(make: Callable[..., GroupRequirement]) -> None:
    """Each requirement on groups of its own: of examples that all share, few would be about one."""
    requirement = make(QID)
    assert is_monotone(requirement) or not requirement.monotone
    assert is_hereditary(requirement) or not requirement.hereditary


@declared
class Scattered(GroupRequirement):
    """Declared as monotone and hereditary, and neither: a value that half of a group has is in few of its records."""

    model = "scattered"
    promise = "a value that half of a group's records have is in two of them at most"

    qid: Sequence[str] = qid()
    sensitive: str = sensitive()
    hereditary = True

    def figures(self, histogram: Counts, whole: Counts, labels: Sequence[str] = ()) -> NDArray[np.float64]:
        most = histogram.max(axis=1)
        return np.where(2 * most >= histogram.sum(axis=1), most, 0).astype(float)

    def holds(self, histogram: Counts, whole: Counts, labels: Sequence[str] = ()) -> NDArray[np.bool_]:
        return self.figures(histogram, whole) <= 2

    def complaint(self, figure: float, size: int) -> str:
        return f"has a value in {figure:g} of {size} records"


def test_a_requirement_that_is_not_what_it_says_is_found() -> None:
    assert not is_monotone(Scattered(QID, SENSITIVE))
    assert not is_hereditary(Scattered(QID, SENSITIVE))


def test_not_every_requirement_is_hereditary() -> None:
    """Of a group that violates, one part may satisfy."""
    bound = ConfidenceBounding(QID, confidence=0.5, sensitive=SENSITIVE)
    whole, part = np.array([[9, 1]]), np.array([[1, 1]])
    assert not bound.holds(whole, whole, ["a", "b"])[0]
    assert bound.holds(part, whole, ["a", "b"])[0]


@given(models, tables)
@settings(max_examples=examples(100), deadline=None)
def test_counts_are_left_as_they_were(requirement: GroupRequirement, groups: list[list[int]]) -> None:
    histogram, whole, labels = count(groups)
    before = histogram.copy(), whole.copy()
    histogram.setflags(write=False)
    whole.setflags(write=False)
    requirement.figures(histogram, whole, labels)
    requirement.holds(histogram, whole, labels)
    assert (histogram == before[0]).all()
    assert (whole == before[1]).all()


@pytest.mark.parametrize("make", EXAMPLES)
def test_a_value_that_is_nowhere_changes_nothing(make: Callable[..., GroupRequirement]) -> None:
    """Seen in t-closeness over ordered values, where a value that no record has must not widen the scale."""
    requirement = make(QID)
    histogram = np.array([[3, 1, 2], [1, 1, 0]])
    padded = np.array([[3, 0, 1, 2], [1, 0, 1, 0]])
    plain = requirement.figures(histogram, histogram.sum(axis=0, keepdims=True), ("a", "b", "c"))
    wider = requirement.figures(padded, padded.sum(axis=0, keepdims=True), ("a", "aa", "b", "c"))
    assert plain.tolist() == wider.tolist()


# --- by hand ---


def test_distinct_by_hand() -> None:
    assert holds(LDiversity(QID, 3, SENSITIVE), [1, 1, 1, 0], [9, 9, 0, 0]) == [True, False]
    assert figures(LDiversity(QID, 3, SENSITIVE), [1, 1, 1, 0], [9, 9, 0, 0]) == [3, 2]


@pytest.mark.parametrize("n", range(1, 60))
def test_entropy_of_l_equal_values_is_log_l(n: int) -> None:
    histogram = np.full((1, n), 7)
    assert EntropyLDiversity(QID, n, SENSITIVE).holds(histogram, histogram).all()
    assert not EntropyLDiversity(QID, n + 0.001, SENSITIVE).holds(histogram, histogram).any()


def test_entropy_by_hand() -> None:
    # Shares 1/2, 1/4, 1/4 have 1.5 bits, as have 2^1.5 equal ones: three values, yet not entropy 3-diverse.
    assert figures(EntropyLDiversity(QID, 2, SENSITIVE), [2, 1, 1, 0]) == pytest.approx([2 * math.sqrt(2)])
    assert holds(EntropyLDiversity(QID, 3, SENSITIVE), [2, 1, 1, 0]) == [False]
    assert holds(EntropyLDiversity(QID, 2.8284, SENSITIVE), [2, 1, 1, 0]) == [True]


def test_recursive_by_hand() -> None:
    # r = 5, 3, 2: for l = 2 the tail is 5, for l = 3 it is 2.
    assert figures(RecursiveLDiversity(QID, 2, 2, SENSITIVE), [3, 5, 2]) == [1.0]
    assert figures(RecursiveLDiversity(QID, 2, 3, SENSITIVE), [3, 5, 2]) == [2.5]
    assert holds(RecursiveLDiversity(QID, 2, 3, SENSITIVE), [3, 5, 2]) == [False]
    assert holds(RecursiveLDiversity(QID, 2.6, 3, SENSITIVE), [3, 5, 2]) == [True]


def test_recursive_is_strict_whatever_c_is_in_binary() -> None:
    # 55 < 1.1 · 50 is false, although floating point says otherwise.
    assert 1.1 * 50 > 55
    assert holds(RecursiveLDiversity(QID, 1.1, 2, SENSITIVE), [55, 50]) == [False]
    assert holds(RecursiveLDiversity(QID, 1.1001, 2, SENSITIVE), [55, 50]) == [True]


@pytest.mark.parametrize("c", [1, 1e6, 1e300, 10**300])
def test_recursive_needs_l_values_however_large_c(c: float) -> None:
    requirement = RecursiveLDiversity(QID, c, 3, SENSITIVE)
    assert holds(requirement, [4, 4, 0], [1, 4, 4]) == [False, c > 4]
    assert figures(requirement, [4, 4, 0], [1, 4, 4]) == [math.inf, 4.0]
    assert RecursiveLDiversity(QID, c, 9, SENSITIVE).figures(np.array([[1, 1]]), np.array([[1, 1]])) == [math.inf]


def test_closeness_by_hand() -> None:
    # Li, Li and Venkatasubramanian, section 4: salaries 3k … 11k, the groups {3k, 4k, 5k} and {6k, 8k, 11k}.
    first = [1, 1, 1, 0, 0, 0, 0, 0, 0]
    second = [0, 0, 0, 1, 0, 1, 0, 0, 1]
    rest = [0, 0, 0, 0, 1, 0, 1, 1, 0]
    histogram = np.array([first, second, rest])
    whole = histogram.sum(axis=0, keepdims=True)
    ordered = TCloseness(QID, 0.375, "salary", "ordered")
    assert ordered.figures(histogram, whole)[:2] == pytest.approx([0.375, 1 / 6])
    assert ordered.holds(histogram, whole)[:2].tolist() == [True, True]
    assert TCloseness(QID, 0.374, "salary", "ordered").holds(histogram, whole)[:2].tolist() == [False, True]
    equal = TCloseness(QID, 0.5, "salary")
    assert equal.figures(histogram, whole) == pytest.approx([2 / 3] * 3)


DISEASES = [
    "flu;respiratory infection;respiratory;any",
    "pneumonia;respiratory infection;respiratory;any",
    "bronchitis;respiratory infection;respiratory;any",
    "pulmonary edema;vascular lung;respiratory;any",
    "pulmonary embolism;vascular lung;respiratory;any",
    "gastric ulcer;stomach;digestive;any",
    "stomach cancer;stomach;digestive;any",
    "gastritis;stomach;digestive;any",
    "colitis;colon;digestive;any",
    "colon cancer;colon;digestive;any",
]


@pytest.mark.parametrize(
    ("value", "distance"), [("bronchitis", 1 / 3), ("pulmonary embolism", 2 / 3), ("stomach cancer", 1)]
)
def test_closeness_in_a_taxonomy_by_hand(value: str, distance: float) -> None:
    """Li, Li and Venkatasubramanian, section 5.3: how far these are from flu in Figure 2; all alike without it."""
    labels = ("flu", value)
    histogram, whole = np.array([[2, 0]]), np.array([[1, 1]])
    hierarchical = TCloseness(QID, 0.5, SENSITIVE, "hierarchical", DISEASES)
    assert hierarchical.figures(histogram, whole, labels) == pytest.approx([distance / 2])
    assert TCloseness(QID, 0.5, SENSITIVE).figures(histogram, whole, labels) == [0.5]


def test_closeness_of_several_diseases_by_hand() -> None:
    labels = ("gastric ulcer", "gastritis", "stomach cancer", "flu", "bronchitis", "pneumonia")
    histogram = np.array([[1, 0, 1, 0, 0, 1], [0, 1, 0, 1, 1, 0], [0, 1, 1, 0, 1, 0]])
    hierarchical = TCloseness(QID, 7 / 27, SENSITIVE, "hierarchical", DISEASES)
    whole = histogram.sum(axis=0, keepdims=True)
    assert hierarchical.figures(histogram, whole, labels) == pytest.approx([7 / 27, 8 / 27, 5 / 27])
    assert hierarchical.holds(histogram, whole, labels).tolist() == [True, False, True]


def test_a_missing_cell_is_far_from_everything() -> None:
    hierarchical = TCloseness(QID, 0.5, SENSITIVE, "hierarchical", DISEASES)
    for missing in ("", "?"):
        assert hierarchical.figures(np.array([[2, 0]]), np.array([[1, 1]]), ("flu", missing)) == [0.5]


def test_a_taxonomy_is_the_same_in_any_order_and_quotes_what_it_must() -> None:
    tree = Taxonomy(Branch("any", (Branch("x;y", (Branch("b"), Branch("a"))), Branch("c"))))
    made = TCloseness(QID, 0.5, SENSITIVE, "hierarchical", tree)
    assert made.taxonomy == ('a;"x;y";any', 'b;"x;y";any', "c;any")
    assert made == TCloseness(QID, 0.5, SENSITIVE, "hierarchical", ["c;any", *made.taxonomy[:2]])
    assert str(made) == "t-closeness (t = 0.5, sensitive = disease, distance = hierarchical) over age, job"


def test_values_outside_the_taxonomy_are_refused() -> None:
    hierarchical = TCloseness(QID, 0.5, SENSITIVE, "hierarchical", DISEASES)
    hierarchical.bind(("flu", "", "colitis"))
    with pytest.raises(ParameterError) as caught:
        hierarchical.bind(("flu", "collitis", "gout"))
    assert caught.value.lines == ('the taxonomy of disease lacks "collitis", "gout" (did you mean "colitis"?)',)


def test_closeness_of_one_value_is_zero() -> None:
    for distance in ("equal", "ordered"):
        assert figures(TCloseness(QID, 0, SENSITIVE, distance), [3], [1]) == [0, 0]
        assert holds(TCloseness(QID, 0, SENSITIVE, distance), [3], [1]) == [True, True]


def test_closeness_of_a_tenth() -> None:
    # 0.1 + 0.2 is not 0.3 in binary: (4, 6) of (1, 9)·10 is 0.3 away.
    histogram, whole = np.array([[4, 6]]), np.array([[10, 90]])
    assert TCloseness(QID, 0.3, SENSITIVE).holds(histogram, whole).all()
    assert not TCloseness(QID, 0.2999, SENSITIVE).holds(histogram, whole).any()


def test_shares_by_hand() -> None:
    assert 0.29 * 100 < 29
    for requirement in (ConfidenceBounding(QID, 0.29, SENSITIVE), AlphaKAnonymity(QID, 0.29, 2, SENSITIVE)):
        assert holds(requirement, [29, 29, 29, 13], [30, 29, 28, 13]) == [True, False]
        assert figures(requirement, [29, 29, 29, 13], [30, 29, 28, 13]) == [0.29, 0.3]


def test_a_bound_that_was_computed() -> None:
    assert 0.3 - 0.1 < 1 / 5
    assert holds(ConfidenceBounding(QID, 0.3 - 0.1, SENSITIVE, ["a"]), [1, 4], [201, 799]) == [True, False]


def test_only_listed_values_are_bounded() -> None:
    requirement = ConfidenceBounding(QID, 0.25, SENSITIVE, ["b"])
    assert holds(requirement, [3, 1], [1, 1]) == [True, False]
    assert figures(requirement, [3, 1], [1, 1]) == [0.25, 0.5]
    # A listed value that is not in the table has no share.
    assert figures(ConfidenceBounding(QID, 0.25, SENSITIVE, ["z"]), [3, 1]) == [0.0]


def test_alpha_k_names_what_is_broken() -> None:
    requirement = AlphaKAnonymity(QID, 0.5, 4, SENSITIVE)
    assert holds(requirement, [2, 2], [1, 1], [4, 1]) == [True, False, False]
    small, skewed = (
        "3 records; at least 4 are required",
        "a share of 0.8 of a value of disease; at most 0.5 is allowed",
    )
    assert requirement.complaint(0.5, 3) == f"has {small}"
    assert requirement.complaint(0.8, 5) == f"has {skewed}"
    assert requirement.complaint(0.8, 3) == f"has {small}; and has {skewed}"
    one = AlphaKAnonymity(QID, 0.5, 4, SENSITIVE, ["HIV"])
    assert one.complaint(0.8, 5) == "has a share of 0.8 of disease = HIV; at most 0.5 is allowed"


def test_p_sensitive_names_what_is_broken() -> None:
    requirement = PSensitiveKAnonymity(QID, 2, 3, SENSITIVE)
    assert holds(requirement, [2, 1], [1, 1], [3, 0]) == [True, False, False]
    assert figures(requirement, [2, 1], [1, 1], [3, 0]) == [2, 2, 1]
    small = "2 records; at least 3 are required"
    same = "1 different value of disease; at least 2 are required"
    assert requirement.complaint(2, 2) == f"has {small}"
    assert requirement.complaint(1, 3) == f"has {same}"
    assert requirement.complaint(1, 2) == f"has {small}; and has {same}"


def test_other_complaints() -> None:
    assert KAnonymity(QID, 50).complaint(1, 1) == "has 1 record; at least 50 are required"
    assert LDiversity(QID, 3, "d").complaint(2, 9) == "has 2 different values of d; at least 3 are required"
    assert EntropyLDiversity(QID, 3, "d").complaint(2.82842712, 9) == (
        "has an effective number of 2.828 values of d; at least 3 are required"
    )
    recursive = RecursiveLDiversity(QID, 2, 3, "d")
    assert recursive.complaint(math.inf, 9) == "has fewer than 3 different values of d; at least 3 are required"
    assert recursive.complaint(2.5, 9) == (
        "has a most frequent value of d with 2.5 times the records of its values from number 3 on; "
        "less than 2 times is required"
    )
    assert TCloseness(QID, 0.1, "d").complaint(1 / 3, 9) == (
        "has values of d at a distance of 0.3333 from the whole table's; at most 0.1 is allowed"
    )


def test_a_complaint_tells_the_figure_from_the_limit() -> None:
    text = ConfidenceBounding(QID, 0.5, SENSITIVE).complaint(0.50000001, 10**9)
    assert text == "has a share of 0.50000001 of a value of disease; at most 0.5 is allowed"


# --- parameters: wrong ones in one sentence, right ones as they were given ---


WHOLE, UNIT = "a whole number of at least 1", "a number above 0 and at most 1"
MOST = "a whole number of at most 9007199254740991"
NAMES, ONE_NAME = "a list of one or more attribute names", "the name of an attribute"
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
    (lambda: LDiversity(QID, 2, None), "sensitive", ONE_NAME, "None"),
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
