"""Algorithm 2's rule, who may take part in a round, by hand and against what it promises."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from experiments import of_experiments
from masquerade.errors import ParameterError
from masquerade.protocol.tds.method import AlwaysTakePart, Participation, TakePartWhenEven
from masquerade.utility import FIXED_ONE, fixed

games = of_experiments("_games")

PARTIES = ["A", "B", "C"]


def after(participation: Participation, *gifts: tuple[int, float]) -> list[bool]:
    """Who takes part once these parties gave that much."""
    for party, score in gifts:
        participation.credit(party, fixed(score))
    return [participation.takes_part(me) for me in range(len(PARTIES))]


def test_algorithm_1_always_takes_part() -> None:
    assert after(AlwaysTakePart(), (0, 100.0)) == [True, True, True]


@pytest.mark.parametrize(
    ("gifts", "takes_part"),
    [
        ([], [True, True, True]),
        ([(0, 0.3)], [False, True, True]),
        ([(0, 0.3), (1, 0.3)], [False, False, True]),
        ([(0, 0.3), (1, 0.3), (2, 0.3)], [True, True, True]),
        ([(0, 0.3), (1, 0.3), (2, 0.295)], [True, True, True]),  # within ϵ
        ([(0, 0.3), (1, 0.3), (2, 0.2), (2, 0.08)], [False, False, True]),
        ([(0, 0.0)], [True, True, True]),  # a score of 0 still wins, and gives nothing
    ],
)
def test_algorithm_2(gifts: list[tuple[int, float]], takes_part: list[bool]) -> None:
    assert after(TakePartWhenEven(3, epsilon=0.01), *gifts) == takes_part


def test_generosity_ends_exactly_at_epsilon() -> None:
    even = TakePartWhenEven(2, epsilon=0.25)
    even.credit(0, FIXED_ONE // 4)
    assert even.takes_part(0)
    even.credit(0, 1)
    assert not even.takes_part(0)


accounts = st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1)), max_size=12)


@given(gifts=accounts, epsilon=st.floats(0, 0.5))
def test_who_gave_least_may_always_go_on(gifts: list[tuple[int, float]], epsilon: float) -> None:
    even = TakePartWhenEven(4, epsilon)
    for party, score in gifts:
        even.credit(party, fixed(score))
    poorest = min(range(4), key=lambda party: sum(fixed(score) for giver, score in gifts if giver == party))
    assert even.takes_part(poorest)


@given(winners=st.lists(st.floats(0, 1), max_size=30), epsilon=st.floats(0, 0.5))
def test_nobody_gets_further_ahead_than_one_gift(winners: list[float], epsilon: float) -> None:
    """When everybody follows it and the first who may take part wins: μ differ by at most ϵ and one score."""
    even = TakePartWhenEven(3, epsilon)
    for score in winners:
        even.credit(next(me for me in range(3) if even.takes_part(me)), fixed(score))
        assert max(even.contributed) - min(even.contributed) <= fixed(epsilon) + fixed(max(winners))


def test_never_and_quitting() -> None:
    assert after(games.never().participation(PARTIES), (0, 0.1)) == [False, False, False]
    quitting = games.quits(2).participation(PARTIES)
    assert after(quitting) == [True, True, True]
    assert after(quitting, (0, 0.3)) == [False, True, True]
    assert after(quitting, (1, 0.3)) == [False, False, False]


def test_a_coalition_counts_as_one() -> None:
    members = games.coalition(["A", "B"]).participation(PARTIES)
    assert after(members) == [True, True, True]
    assert after(members, (0, 0.3)) == [False, False, False]  # B stops too, though it gave nothing
    assert after(members, (2, 0.5)) == [True, True, True]
    assert after(members, (1, 0.25))[:2] == [False, False]
    with pytest.raises(ParameterError, match=r'coalition: no party "X"; there are A, B, C'):
        games.coalition(["X"]).participation(PARTIES)


def test_gifts_are_measured_by_capability() -> None:
    unequal = games.weighted({"A": 1, "B": 2, "C": 1}).participation(PARTIES)
    assert after(unequal, (1, 0.2), (0, 0.1), (2, 0.1)) == [True, True, True]
    assert after(unequal, (0, 0.1)) == [False, True, True]
    with pytest.raises(ParameterError, match=r"weighted: party C needs a capability above 0"):
        games.weighted({"A": 1, "B": 2}).participation(PARTIES)
