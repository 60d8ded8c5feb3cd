"""The circuits give the plain criterion's answers, and the plain criterion is m-privacy's definition."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings, strategies as st

import masquerade as mq
from examples import examples
from masquerade.crypto.circuit import evaluate
from masquerade.protocol.providers import circuits
from masquerade.protocol.providers.criterion import Criterion, WholeCounts
from masquerade.protocol.providers.tree import providers_apart
from privacy.definitions import private


def by_definition(counts: Any, m: int, k: int, l: int) -> bool:  # noqa: E741 # the papers' name
    """Definition 2.1 on providers × values, by brute force over all coalitions."""
    feeding = np.flatnonzero(counts.sum(axis=1))
    if not feeding.size:
        return False
    for size in range(min(m, feeding.size - 1) + 1):
        for coalition in combinations(feeding, size):
            rest = np.delete(counts, coalition, axis=0).sum(axis=0)
            if rest.sum() < k or np.count_nonzero(rest) < l:
                return False
    return True


@st.composite
def cases(draw: st.DrawFn) -> tuple[Criterion, Any]:
    n, n_values = draw(st.integers(2, 5)), draw(st.integers(1, 4))
    least = draw(st.integers(1, 3))
    made = Criterion(n, draw(st.integers(0, 5)), draw(st.integers(1, 9)), (("ill", least),) if least > 1 else ())
    cell = st.integers(0, 6) | st.just(0)
    group = st.lists(st.lists(cell, min_size=n_values, max_size=n_values), min_size=n, max_size=n)
    return made, np.array(draw(st.lists(group, min_size=1, max_size=9)))


def asked(made: Criterion, matrices: Any) -> tuple[Any, list[Any]]:
    present = [matrices > 0] if made.diversities else []
    return matrices.sum(axis=2), present


def in_a_circuit(made: Criterion, counts: Any, present: list[Any]) -> dict[str, Any]:
    shape = circuits.Shape(tuple(tuple(map(str, range(each.shape[2]))) for each in present))
    circuit = circuits.private(made, shape)
    inputs = {
        f"provider {each}": circuits.private_input(made, counts[:, each], [flags[:, each] for flags in present])
        for each in range(made.n_providers)
    }
    return {name: bits[0].astype(bool) for name, bits in evaluate(circuit, inputs).items()}


@settings(max_examples=examples(150), deadline=None)
@given(case=cases())
def test_the_criterion_is_the_definition_and_the_circuit_is_the_criterion(case: tuple[Criterion, Any]) -> None:
    made, matrices = case
    counts, present = asked(made, matrices)
    least = made.diversities[0][1] if made.diversities else 1
    right = [by_definition(matrix, made.m, made.k, least) for matrix in matrices]
    assert made.good(counts, present).tolist() == right
    found = in_a_circuit(made, counts, present)
    assert found["good"].tolist() == right
    assert (~found["good"] & found["more"]).tolist() == (counts.sum(axis=1) == 0).tolist()
    assert (found["good"] & found["more"]).tolist() == (made.good(counts, present) & made.divisible(counts)).tolist()


@settings(max_examples=examples(150), deadline=None)
@given(case=cases(), data=st.data())
def test_what_is_not_divisible_is_never_cut_in_two(case: tuple[Criterion, Any], data: st.DataObject) -> None:
    """However the records of a part are shared between two: not both are private."""
    made, matrices = case
    one = np.array([[[data.draw(st.integers(0, int(n))) for n in row] for row in matrix] for matrix in matrices])
    both = made.good(*asked(made, one)) & made.good(*asked(made, matrices - one))
    assert not (both & ~made.divisible(matrices.sum(axis=2))).any()


def test_who_is_left_by_every_coalition_or_alone_may_be_cut() -> None:
    made = Criterion(4, 1, 5)
    counts = [[4, 4, 4, 2], [4, 4, 3, 2], [5, 5, 0, 0], [5, 4, 0, 0], [100, 0, 0, 0], [9, 0, 0, 0]]
    assert made.divisible(np.array(counts)).tolist() == [True, False, True, False, True, False]


@settings(max_examples=examples(80), deadline=None)
@given(case=cases())
def test_with_many_coalitions_the_test_is_sufficient(case: tuple[Criterion, Any]) -> None:
    made, matrices = case
    counts, present = asked(made, matrices)
    least = made.diversities[0][1] if made.diversities else 1
    hurried = replace(made, most_look_ups=0)
    good = hurried.good(counts, present)
    assert in_a_circuit(hurried, counts, present)["good"].tolist() == good.tolist()
    for matrix, verdict in zip(matrices, good, strict=True):
        assert by_definition(matrix, made.m, made.k, least) or not verdict


def test_a_value_that_more_than_m_hold_cannot_be_taken_away() -> None:
    made = Criterion(12, 4, 1, (("ill", 2),), most_look_ups=100)
    assert made.exact_test(20, 2) is None
    present = np.zeros((2, 12, 20), bool)
    present[0, :5, 3] = present[0, 4:9, 7] = True  # two values of five providers each
    present[1, :5, 3] = present[1, 4:8, 7] = True  # one of them has only four
    counts = present.sum(axis=2)
    assert made.good(counts, [present]).tolist() == [True, False]


@pytest.mark.parametrize(
    ("n", "m", "l", "n_values", "leaves_out_values"), [(4, 2, 5, 9, False), (7, 3, 2, 6, True), (5, 2, 3, 5, False)]
)
def test_coalitions_or_sets_of_values_whichever_are_fewer(
    n: int,
    m: int,
    l: int,  # noqa: E741 # the papers' name
    n_values: int,
    leaves_out_values: bool,
) -> None:
    made = Criterion(n, m, 1, (("ill", l),))
    test = made.exact_test(n_values, l)
    assert test is not None
    assert test.leaves_out_values == leaves_out_values
    random = np.random.default_rng(4)
    matrices = (random.random((200, n, n_values)) < random.random((200, 1, 1))).astype(int)
    right = [by_definition(matrix, m, 1, l) for matrix in matrices]
    assert 20 < sum(right) < 180
    assert made.good(*asked(made, matrices)).tolist() == right
    assert in_a_circuit(made, *asked(made, matrices))["good"].tolist() == right


def test_the_group_of_all_records_is_looked_at_more_closely() -> None:
    """Ten providers, each with a value of its own: nobody takes away enough, and no value is held by many."""
    made = Criterion(10, 3, 2, (("ill", 4),))
    matrix = np.eye(10, 14, dtype=int)[None]
    assert by_definition(matrix[0], 3, 2, 4)
    assert not made.good(*asked(made, matrix))[0]
    assert made.of_whole.good(*asked(made, matrix))[0]
    assert in_a_circuit(made.of_whole, *asked(made, matrix))["good"][0]


@settings(max_examples=examples(80), deadline=None)
@given(case=cases())
def test_whether_records_are_lacking_of_the_whole(case: tuple[Criterion, Any]) -> None:
    made, matrices = case
    matrices[:, :, 0] += matrices.sum(axis=2) == 0  # everybody has records
    counts, present = asked(made, matrices)
    colluding = min(made.m, made.n_providers - 1)
    right = [all(row.sum() - sum(each) >= made.k for each in combinations(row.tolist(), colluding)) for row in counts]
    assert made.of_whole.enough(counts).tolist() == right
    assert in_a_circuit(made.of_whole, counts, present)["enough"].tolist() == right


ON_COUNTS: dict[int, list[mq.Requirement]] = {  # by the smallest m that they are refused for
    1: [mq.EntropyLDiversity(["age"], l=2, sensitive="ill"), mq.TCloseness(["age"], t=0.35, sensitive="ill")],
    9: [
        mq.ConfidenceBounding(["age"], confidence=0.5, sensitive="ill"),
        mq.ConfidenceBounding(["age"], confidence=0.4, sensitive="ill", values=["1"]),
        mq.AlphaKAnonymity(["age"], alpha=0.6, k=4, sensitive="ill"),
        mq.RecursiveLDiversity(["age"], c=0.6, l=1, sensitive="ill"),
        mq.RecursiveLDiversity(["age"], c=2, l=2, sensitive="ill"),
        mq.RecursiveLDiversity(["age"], c=3, l=3, sensitive="ill"),
    ],
}


@pytest.mark.parametrize(
    ("part", "m"),
    [(part, m) for below, parts in ON_COUNTS.items() for part in parts for m in range(min(below, 4))],
    ids=str,
)
@settings(max_examples=examples(4), deadline=None, phases=[Phase.explicit, Phase.generate])
@given(n=st.integers(2, 4), seed=st.integers(0, 999))
def test_counts_of_values_against_the_definition(part: Any, m: int, n: int, seed: int) -> None:
    """The criterion is Definition 2.1, whatever of its records a coalition leaves, and the circuit the criterion."""
    random = np.random.default_rng(seed)
    matrices = random.integers(0, 3, (25, n, 3)) * (random.random((25, n, 1)) < 0.8)
    matrices[:, 0] += random.integers(0, 2, (25, 3))
    everything = np.maximum(matrices.sum(axis=0), 1)  # by provider and value
    labels = ("0", "1", "2")
    made = Criterion.of(n, m, [part])
    counts, tallies = matrices.sum(axis=2), [matrices]
    found = made.good(counts, tallies, [WholeCounts(everything.sum(axis=0, keepdims=True), labels)])
    table = [label for label, count in zip(labels, everything.sum(axis=0), strict=True) for _ in range(count)]
    right = [
        bool(matrix.any())
        and private(
            [part], [(p, labels[v]) for (p, v), count in np.ndenumerate(matrix) for _ in range(count)], table, m
        )
        for matrix in matrices
    ]
    assert found.tolist() == right
    shape = circuits.Shape((labels,), 300)
    inputs = {
        f"provider {each}": circuits.private_input(made, counts[:, each], [matrices[:, each]], [everything[each]], 300)
        for each in range(n)
    }
    by_circuit = evaluate(circuits.private(made, shape), inputs)
    assert by_circuit["good"][0].astype(bool).tolist() == right


def test_only_requirements_with_a_known_worst_coalition_are_taken() -> None:
    for part in ON_COUNTS[1]:
        with pytest.raises(mq.BadInput, match=r"cannot be tested where nobody sees all counts; .* m = 0"):
            Criterion.of(3, 1, part.parts)
    ordered = mq.TCloseness(["age"], t=0.2, sensitive="ill", distance="ordered")
    with pytest.raises(mq.BadInput, match="t-closeness cannot be tested where nobody sees all counts"):
        Criterion.of(3, 0, [ordered])
    with pytest.raises(mq.BadInput, match="may fail of a provider alone; leave out provider_aware"):
        Criterion.of(3, 0, ON_COUNTS[1][0].parts, provider_aware=True)
    frequent = Criterion.of(3, 1, [mq.RecursiveLDiversity(["age"], c=2, l=4, sensitive="ill")])
    frequent.bind([list("abcdefgh")])
    with pytest.raises(mq.BadInput, match=r"ill has 12 values, and so 220 sets to be tested .* use a smaller l"):
        frequent.bind([list("abcdefghijkl")])
    taken = Criterion.of(
        3, 1, [mq.KAnonymity(["age"], k=4), mq.PSensitiveKAnonymity(["age"], p=2, k=7, sensitive="ill")]
    )
    assert (taken.k, taken.diversities) == (7, (("ill", 2),))


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=8), st.integers(2, 4))
def test_the_only_child_with_records_is_found(rows: list[list[bool]], n: int) -> None:
    """Row i says which child a provider (in turn) has records of."""
    has = np.array([[rows[(each + at) % len(rows)] for each in range(n)] for at in range(len(rows))])
    inputs = {f"provider {each}": has[:, each].T.astype(np.uint8) for each in range(n)}
    found = evaluate(circuits.sole(n, 3), inputs)["sole"].T
    for flags, answer in zip(has, found, strict=True):
        filled = flags.any(axis=0)
        assert answer.tolist() == (filled.tolist() if filled.sum() == 1 else [False] * 3)


@pytest.mark.parametrize(("n", "m"), [(9, 2), (10, 3), (11, 6), (12, 9)])
def test_many_providers_are_judged_as_counting_judges_them(n: int, m: int) -> None:
    """So many that halves of them are added up and counted apart."""
    made = Criterion(n, m, 4, (("ill", 2),), most_look_ups=0)
    random = np.random.default_rng(n)
    matrices = random.integers(0, 3, (400, n, 3)) * (random.random((400, n, 1)) < random.random((400, 1, 1)))
    counts, present = asked(made, matrices)
    found = in_a_circuit(made, counts, present)
    good = made.good(counts, present)
    assert found["good"].tolist() == good.tolist()
    assert found["divisible"].tolist() == (good & made.divisible(counts)).tolist()
    assert found["enough"].tolist() == made.enough(counts).tolist()
    assert 0 < good.sum() < len(good)


def test_counts_above_twice_k_are_cut_off_and_told_by_steps() -> None:
    """0, 4, 5 and at most 10, by two digits: the lower 0, 4, 5, 2 of at most 7, the upper 0, 0, 0, 1 of at most 1."""
    made = Criterion(2, 1, 5)
    steps = [[value > level for value in (0, 4, 5, 2)] for level in range(7)] + [[0, 0, 0, 1]]
    flags = [[0, 0, 1, 1], [1, 0, 1, 1], [0, 1, 1, 1]]
    assert circuits.private_input(made, np.array([0, 4, 5, 900]), []).tolist() == [*steps, *flags]


def test_large_providers_are_set_apart_only_where_that_helps() -> None:
    assert providers_apart([4096] * 10, 3) == ()
    assert providers_apart([64, 8192, 64, 64], 1) == (1,)
    assert providers_apart([64, 8192, 64, 64], 0) == ()
    assert providers_apart([1 << 14, 64, 8192, 64, 64], 1) == (2, 0)  # the smallest first
