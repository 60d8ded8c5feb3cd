"""The parts of the verification of m-privacy: masks, sums, fitness, the searches' checks, and the worst coalitions."""

from __future__ import annotations

import math
import pickle
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

import masquerade as mq
from examples import examples
from masquerade.data import ProductColumn, Table
from masquerade.errors import ParameterError
from masquerade.privacy import GroupCheck, constraint_of, recursive_l_diversity, t_closeness
from masquerade.privacy.m_privacy import constraint as branch_and_bound_module, constraint as corners, strategies
from masquerade.privacy.m_privacy.constraint import score, worst_coalition
from masquerade.privacy.m_privacy.search import bits, joined, members, of_size, single, within
from masquerade.privacy.m_privacy.strategies import STRATEGIES, ProviderGroup, exact, strategy_named
from masquerade.privacy.recursive_l_diversity import largest_ratios
from privacy.definitions import QID, ROWS, SENSITIVE, WRAPPED


def group_of(matrix: np.ndarray, k: int = 1, l: int = 1) -> ProviderGroup:  # noqa: E741 # the papers' name
    whole = matrix.sum(axis=0, keepdims=True)
    sizes = constraint_of(mq.KAnonymity("q", k), whole.sum(axis=1, keepdims=True), ())
    values = constraint_of(mq.LDiversity("q", l, "d"), whole, tuple(map(str, range(matrix.shape[1]))))
    return ProviderGroup([sizes, values], [matrix.sum(axis=1, keepdims=True), matrix])


# --- coalitions as bits ---


@given(st.integers(0, 9), st.integers(0, 9), st.integers(1, 40))
def test_all_coalitions_of_a_size_in_order(n: int, size: int, at_a_time: int) -> None:
    blocks = [*of_size(single(n), size, at_a_time)]
    found = [members(mask, n) for block in blocks for mask in block]
    assert found == [*combinations(range(n), size)]


@pytest.mark.parametrize("n", [1, 8, 63, 64, 65, 130])
def test_masks_of_any_number_of_providers(n: int) -> None:
    singles = single(n)
    assert [members(mask, n) for mask in singles] == [(each,) for each in range(n)]
    some = tuple(range(0, n, 3))
    mask = joined(singles, some)
    assert members(mask, n) == some
    assert bits(mask, n)[0].sum() == len(some)
    assert within(singles, mask).tolist() == [each in some for each in range(n)]


matrices = st.integers(1, 20).flatmap(
    lambda n: st.integers(1, 6).flatmap(
        lambda v: arrays(np.int64, (n, v), elements=st.integers(0, 4)).map(
            lambda counts: counts + (counts.sum(axis=1, keepdims=True) == 0)
        )
    )
)


@given(matrices, st.integers(1, 20), st.integers(1, 5), st.integers(0, 2**20 - 1))
@settings(max_examples=examples(200), deadline=None)
def test_what_a_coalition_leaves_is_counted_right(matrix: np.ndarray, k: int, l: int, chosen: int) -> None:  # noqa: E741
    group = group_of(matrix, k, l)
    coalition = [each for each in range(group.n) if chosen >> each & 1]
    rest = np.delete(matrix, coalition, axis=0).sum(axis=0)
    breached = group.breached(joined(group.singles, coalition))
    assert breached.tolist() == [bool(rest.sum() < k or np.count_nonzero(rest) < l)]


def test_more_values_than_a_word_has_bits() -> None:
    matrix = np.eye(70, dtype=np.int64)
    group = group_of(matrix, 1, 69)
    assert strategies.direct(group, 1).private
    assert not strategies.direct(group, 2).private
    assert exact(group, 1).private
    assert not exact(group, 2).private


# --- the worst coalition ---


@given(matrices, st.integers(0, 5), st.integers(1, 5))
@settings(max_examples=examples(150), deadline=None)
def test_few_values_is_found_where_there_is_a_coalition(matrix: np.ndarray, power: int, l: int) -> None:  # noqa: E741
    matrix = matrix[:9]
    power = min(power, len(matrix) - 1)
    coalition, nodes = worst_coalition(matrix, l, power)
    left = [
        np.count_nonzero(np.delete(matrix, list(each), axis=0).sum(axis=0))
        for each in combinations(range(len(matrix)), power)
    ]
    assert (coalition is not None) == (min(left) < l)
    if coalition is not None:
        assert len(coalition) <= power
        assert np.count_nonzero(np.delete(matrix, list(coalition), axis=0).sum(axis=0)) < l
    assert nodes < math.comb(power + l + 1, l)  # whatever the numbers of providers and of values


def test_the_search_stays_small_for_two_hundred_providers() -> None:
    """Single records of 14 values, the case in which everybody might survive: still a handful of nodes."""
    random = np.random.default_rng(5)
    most = 0
    for _ in range(30):
        values = random.choice(14, 200, p=random.dirichlet(np.full(14, 0.1)))
        matrix = np.zeros((200, 14), np.int64)
        matrix[np.arange(200), values] = 1
        coalition, nodes = worst_coalition(matrix, 4, 10)
        times = np.sort(np.bincount(values, minlength=14))
        assert (coalition is not None) == (times[:-3].sum() <= 10)
        most = max(most, nodes)
    assert most <= 20


@given(matrices, st.lists(st.sampled_from(WRAPPED[1:]), min_size=1, max_size=2), st.integers(1, 4))
@settings(max_examples=examples(200), deadline=None)
def test_exact_agrees_with_every_search_on_larger_groups(matrix: np.ndarray, makes: list, m: int) -> None:
    """Too large for the definition's subsets, so the two ways in count space check each other."""
    matrix = np.pad(matrix[:7], ((0, 0), (0, max(4 - matrix.shape[1], 0))))[:, :4] * 3
    matrix[:, 0] += matrix.sum(axis=1) == 0
    whole = matrix.sum(axis=0, keepdims=True) + 2
    constraints = [constraint_of(make(QID), whole, tuple("abcd")) for make in makes]
    group = ProviderGroup(constraints, [matrix] * len(constraints))
    expected = exact(group, m).private
    for name in ("direct", "top-down", "bottom-up", "binary", "adaptive"):
        assert STRATEGIES[name](group, m).private == expected, name


@given(
    arrays(np.int64, (3, 4), elements=st.integers(0, 5)),
    arrays(np.int64, (1, 4), elements=st.integers(0, 3)),
    st.integers(1, 5),
)
@settings(max_examples=examples(200), deadline=None)
def test_the_largest_ratio_of_a_box(rest: np.ndarray, more: np.ndarray, l: int) -> None:  # noqa: E741
    rest = rest + (rest.sum(axis=1, keepdims=True) == 0)
    total = rest.max(axis=0, keepdims=True) + more
    found = largest_ratios(rest, total, l)
    model = mq.RecursiveLDiversity("q", 1, l, "d")
    for row, ratio in zip(rest, found, strict=True):
        box = np.stack(
            np.meshgrid(*(np.arange(a, b + 1) for a, b in zip(row, total[0], strict=True)), indexing="ij"), -1
        )
        points = box.reshape(-1, 4)
        assert ratio == model.figures(points, total).max()


# --- checks ---

EVEN = np.full((6, 4), 2)  # six providers with 8 records each, and all four values


def checks(name: str, matrix: np.ndarray, m: int, **bounds: int) -> tuple[bool, int]:
    outcome = STRATEGIES[name](group_of(matrix, **bounds), m)
    return outcome.private, outcome.checks


def test_checks_of_a_group_that_no_coalition_breaches() -> None:
    assert checks("direct", EVEN, 3, k=8, l=4) == (True, 20)
    assert checks("bottom-up", EVEN, 3, k=8, l=4) == (True, 1 + 6 + 15 + 20)
    assert checks("top-down", EVEN, 3, k=8, l=4) == (True, 6)  # nobody can, with all but one
    assert checks("binary", EVEN, 3, k=8, l=4)[1] <= 6
    assert checks("exact", EVEN, 3, k=8, l=4) == (True, 2)


def test_checks_where_nothing_can_be_pruned() -> None:
    """The worst case: every coalition above size 3 breaches, and none of size 3."""
    assert checks("direct", EVEN, 3, k=24) == (True, 20)
    assert checks("top-down", EVEN, 3, k=24) == (True, 6 + 15 + 20)
    private, made = checks("binary", EVEN, 3, k=24)
    assert private
    assert made >= 20
    assert checks("exact", EVEN, 3, k=24) == (True, 2)


def test_a_breach_stops_the_search() -> None:
    assert checks("direct", EVEN, 4, k=24) == (False, 1)
    assert checks("bottom-up", EVEN, 5, k=24) == (False, 1 + 6 + 15 + 20 + 1)
    assert checks("top-down", EVEN, 4, k=24) == (False, 6 + 1)
    assert checks("binary", EVEN, 4, k=24) == (False, 2)  # with all but one, and then the first four
    assert checks("bottom-up", EVEN, 2, k=49) == (False, 1)  # outsiders


def test_adaptive_follows_the_fitness_of_the_providers() -> None:
    fit, unfit = group_of(EVEN, 8, 4), group_of(EVEN, 24, 4)
    assert strategies.adaptive(fit, 3) == strategies.top_down(fit, 3)
    assert strategies.adaptive(unfit, 3) == strategies.binary(unfit, 3)
    assert strategies.adaptive(unfit, 3, threshold=0.1) == strategies.top_down(unfit, 3)


def test_too_many_coalitions_are_refused_or_left_to_exact() -> None:
    matrix = np.ones((200, 4), np.int64)
    group = group_of(matrix, 700)
    for name in ("direct", "top-down", "bottom-up", "binary"):
        with pytest.raises(ParameterError, match=r'200 providers has too many coalitions .*verification = "exact"'):
            STRATEGIES[name](group, 20)
    assert strategies.adaptive(group, 20) == exact(group, 20)
    assert exact(group, 25).private
    assert not exact(group, 26).private


def large_group(part: mq.Requirement, n: int, n_values: int, records: int) -> ProviderGroup:
    random = np.random.default_rng(0)
    matrix = np.zeros((n, n_values), np.int64)
    shares = random.dirichlet(np.full(n_values, 3))
    np.add.at(matrix, (random.permutation(np.arange(records) % n), random.choice(n_values, records, p=shares)), 1)
    whole = 3 * matrix.sum(axis=0, keepdims=True) + 1
    return ProviderGroup([constraint_of(part, whole, tuple(map(str, range(n_values))))], [matrix])


@pytest.mark.parametrize(
    "parts",
    [
        [mq.EntropyLDiversity("q", least, "d") for least in (6, 8, 8.5, 9, 9.5)],
        [mq.RecursiveLDiversity("q", c, 6, "d") for c in (0.6, 0.7, 0.8, 1.2)],
        [mq.TCloseness("q", t, "d") for t in (0.15, 0.3, 0.36, 0.5)],
        [mq.TCloseness("q", t, "d", "ordered") for t in (0.05, 0.1, 0.15, 0.2)],
    ],
    ids=["entropy", "recursive", "distance", "ordered distance"],
)
def test_without_an_exact_form_few_branches_do_for_many_coalitions(
    parts: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (recursive_l_diversity, t_closeness):
        monkeypatch.setattr(module, "_MOST_SETS", 0)
    verdicts = set()
    for part in parts:
        group = large_group(part, 12, 12, 240)
        found, searched = exact(group, 4), strategies.direct(group, 4)
        assert found.private == searched.private
        assert found.checks < math.comb(12, 4)
        verdicts.add(found.private)
        if found.coalition is not None:
            assert len(found.coalition) == 4
            assert group.breached(joined(group.singles, found.coalition)).all()
    assert verdicts == {True, False}


def test_entropy_of_many_coalitions_takes_few_checks() -> None:
    """20 providers and m = 8: 125,970 coalitions of that size."""
    for least, private in ((6, True), (8, True), (11, False)):
        found = exact(large_group(mq.EntropyLDiversity("q", least, "d"), 20, 14, 400), 8)
        assert found.private == private
        assert found.checks < 3000


def test_patience_fits_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test of entropy takes hundreds of times as long as one of sizes; what would take hours is refused."""
    sizes, entropy = (
        group_of(np.ones((40, 14), np.int64), 2),
        large_group(mq.EntropyLDiversity("q", 9, "d"), 40, 14, 400),
    )
    assert strategies.affordable(sizes) > 100 * strategies.affordable(entropy)
    with pytest.raises(ParameterError, match=r'40 providers has too many coalitions .*verification = "exact"'):
        strategies.direct(entropy, 8)
    monkeypatch.setattr(branch_and_bound_module, "SEARCH_SECONDS", -1)
    with pytest.raises(ParameterError) as caught:
        exact(entropy, 8)
    assert caught.value.lines == (
        "m-privacy of entropy-l-diversity: 40 providers in one group have too many coalitions to be searched in a "
        "minute; use alpha-k-anonymity or l-diversity instead, or a smaller m",
    )


def test_strategies_by_name() -> None:
    assert [*STRATEGIES] == ["direct", "top-down", "bottom-up", "binary", "adaptive", "exact"]
    with pytest.raises(ParameterError, match='did you mean "binary"'):
        strategy_named("binnary")


# --- subsets of records ---


def test_a_box_of_too_many_values_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corners, "_CELLS", 40)
    random = np.random.default_rng(1)
    matrix, whole = random.integers(1, 10, (4, 12)), random.integers(1, 60, (1, 12))

    def tried(t: float) -> str:
        constraint = constraint_of(mq.TCloseness("q", t, "d"), whole, tuple("abcdefghijkl"))
        try:
            return str(strategies.direct(ProviderGroup([constraint], [matrix]), 2).private)
        except ParameterError as error:
            return str(error)

    answers = [tried(float(t)) for t in np.linspace(0.05, 0.95, 40)]
    assert answers[0] == "False"
    assert answers[-1] == "True"
    assert (
        "m-privacy of t-closeness: the subsets of a coalition's records over 12 sensitive values are too many to be "
        "searched; use alpha-k-anonymity or l-diversity instead, or generalise d"
    ) in answers


@given(arrays(np.int64, (3, 5), elements=st.integers(0, 3)), arrays(np.int64, (1, 5), elements=st.integers(0, 4)))
@settings(max_examples=examples(150), deadline=None)
def test_a_search_in_little_room_finds_the_same(rest: np.ndarray, more: np.ndarray) -> None:
    rest = rest + (rest.sum(axis=1, keepdims=True) == 0)
    total = rest.max(axis=0, keepdims=True) + more
    whole = total + 1
    for part in (
        mq.EntropyLDiversity("q", 2.5, "d"),
        mq.TCloseness("q", 0.45, "d"),
        mq.TCloseness("q", 0.3, "d", "ordered"),
        mq.TCloseness("q", 0.3, "d", "hierarchical", [*ROWS, "e;any"]),
    ):
        constraint = constraint_of(part, whole, tuple("abcde"))
        found = constraint.holds_between(rest, total)
        for row, holds in zip(rest, found, strict=True):
            ranges = [np.arange(a, b + 1) for a, b in zip(row, total[0], strict=True)]
            points = np.stack(np.meshgrid(*ranges, indexing="ij"), -1).reshape(-1, 5)
            assert holds == constraint.holds_as_is(points).all()


# --- fitness ---


def test_equation_1() -> None:
    """(1 − α) · |T| / k + α · different values / ℓ, and below 1 where it does not hold."""
    group = group_of(np.array([[30, 30, 0, 0], [5, 5, 5, 5], [100, 0, 0, 0]]), 50, 4)
    assert score(group.constraints, group.matrices, 0.3) == pytest.approx(
        [0.7 * 60 / 50 + 0.3 * 2 / 4, 0.7 * 20 / 50 + 0.3, 1 - 1e-6], abs=1e-5
    )
    assert (score(group.constraints, group.matrices) < 1).all()
    assert score(group.constraints[:1], group.matrices[:1]) == pytest.approx([1.2, 0.4, 2])


@given(arrays(np.int64, (5, 4), elements=st.integers(0, 6)), st.lists(st.sampled_from(WRAPPED), min_size=1, max_size=3))
@settings(max_examples=examples(200), deadline=None)
def test_a_score_of_1_means_that_all_hold(histogram: np.ndarray, makes: list) -> None:
    histogram = histogram + (histogram.sum(axis=1, keepdims=True) == 0)
    whole = histogram.sum(axis=0, keepdims=True) + 1
    constraints = [constraint_of(make(QID), whole, tuple("abcd")) for make in makes]
    scores = score(constraints, [histogram] * len(constraints))
    good = np.logical_and.reduce([each.holds_as_is(histogram) for each in constraints])
    assert np.isfinite(scores).all()
    assert (good | (scores < 1)).all()
    for constraint in constraints:
        fit = constraint.fitness(histogram)
        assert (fit[constraint.holds_as_is(histogram)] >= 1 - 1e-6).all()


# --- many groups, several attributes ---


def test_counts_over_several_attributes() -> None:
    """ℓ-diversity of one attribute of two: its own values are merged from the combinations."""
    counts = np.array([[[1, 0, 1, 0], [0, 1, 0, 1]], [[1, 1, 0, 0], [1, 1, 0, 0]]])  # ax ay bx by
    places = [np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), None]
    labels = [("a", "b"), ("x", "y"), ("ax", "ay", "bx", "by")]
    whole = [np.array([[9, 9]]), np.array([[9, 9]]), np.array([[5, 5, 5, 5]])]
    verdicts = [
        GroupCheck(1, [constraint_of(mq.LDiversity("q", 2, "d"), each, names)], [at]).holds(counts).tolist()
        for at, names, each in zip(places, labels, whole, strict=True)
    ]
    assert verdicts == [[True, False], [False, True], [True, True]]


def test_fitness_of_groups_for_a_split() -> None:
    whole = np.array([[9, 9]])
    check = GroupCheck(
        1,
        [
            constraint_of(mq.KAnonymity("q", 4), np.array([[18]]), ()),
            constraint_of(mq.LDiversity("q", 2, "d"), whole, ("a", "b")),
        ],
        [None, None],
    )
    counts = np.array([[[4, 1], [2, 1]], [[4, 0], [4, 0]]])
    assert check.scores(counts) == pytest.approx([0.2 * 8 / 4 + 0.8, 0.2 * 8 / 4 + 0.8 / 2])
    assert check.scores(counts, alpha=0.0) == pytest.approx([2, 1 - 1e-6], abs=1e-5)


# --- products of columns ---


def test_a_product_is_coded_in_the_order_of_its_members() -> None:
    table = Table(pa.table({"n": [10, 2, 10, 2], "s": ["b", "a", "a", "a"]}))
    product = ProductColumn(("n", "s"))
    coded = table.coded(product)
    assert [(label, label.values, label.places) for label in coded.labels] == [  # type: ignore[attr-defined]
        ("2 × a", ("2", "a"), (0, 0)),
        ("10 × a", ("10", "a"), (1, 0)),
        ("10 × b", ("10", "b"), (1, 1)),
    ]
    assert coded.codes.tolist() == [2, 0, 1, 0]
    assert table.coded(ProductColumn(("n",))).labels == ("2", "10")
    assert type(table.coded("n").labels[0]) is str
    again = pickle.loads(pickle.dumps((product, coded.labels[0])))
    assert again == (product, coded.labels[0])
    assert (again[0].names, again[1].places) == (("n", "s"), (0, 0))


def test_a_product_of_nothing_or_of_the_same_is_refused() -> None:
    assert mq.LDiversity("q", 2, ["d"]).sensitive == SENSITIVE[:1]
    for names in ([], ["d", "d"], ["q", "d"]):
        with pytest.raises(ParameterError, match="The sensitive parameter of LDiversity"):
            mq.LDiversity("q", 2, names)
