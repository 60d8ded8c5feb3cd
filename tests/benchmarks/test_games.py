"""Mashups as games: the real scripts, with parties that follow the algorithm and parties that do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import masquerade as mq
from examples import examples
from experiments import of_experiments
from masquerade.data import Outcome
from masquerade.errors import ParameterError, PeerBrokeProtocol
from masquerade.net.memory import Wire
from masquerade.privacy import verify
from masquerade.utility import SCORES
from papers.paper_tables import loan_table, tree
from strategies import CLASS, requirements, tables

games = of_experiments("_games")

LOAN = mq.KAnonymity(["Sex", "Job"], k=4) & mq.KAnonymity(["Sex", "Salary"], k=5)
DEAL = {"A": ["Sex"], "B": ["Job", "Salary"]}
SALARY, JOB, SEX = 0.3827, 0.2723, 0.1348
MASHUP_SCORES = [name for name, score in SCORES.items() if score.recomputable]
DEVIATIONS = [
    *(
        games.never(),
        games.quits(1),
        games.quits(2),
        games.under_declares(1),
        games.under_declares(),
        games.gives_only_below(0.2),
    ),
    *(games.overstates(0.0), games.obliging()),
]


def loan(strategies: Mapping[str, games.Strategy] | None = None, others: games.Strategy | None = None) -> games.Game:
    return games.play(loan_table(), LOAN, DEAL, "Class", "gain-ratio", strategies, others=others)


def turns(game: games.Game) -> list[tuple[str, str, float]]:
    return [(turn.party, turn.attribute, round(turn.score, 4)) for turn in game.rounds]


def group_sizes(outcome: Outcome) -> list[int]:
    cells = [[column.labels[code] for code in column.codes] for column in outcome.columns]
    return sorted(Counter(zip(*cells, strict=True)).values(), reverse=True)


def same(one: Outcome, other: Outcome) -> bool:
    return one.steps == other.steps and all(
        (a.name, a.labels) == (b.name, b.labels) and np.array_equal(a.codes, b.codes)
        for a, b in zip(one.columns, other.columns, strict=True)
    )


@st.composite
def deals(draw: st.DrawFn, names: tuple[str, ...]) -> dict[str, list[str]]:
    parties = [f"P{number}" for number in range(draw(st.integers(1, 4)))]
    holders = {name: draw(st.sampled_from(parties)) for name in names}
    return {party: [name for name in names if holders[name] == party] for party in parties}


@settings(max_examples=examples(120), deadline=None)
@given(data=st.data(), table=tables(max_rows=40), score=st.sampled_from(MASHUP_SCORES))
def test_algorithm_1_is_the_one_table_run_for_any_deal(data: st.DataObject, table: mq.Table, score: str) -> None:
    requirement = data.draw(requirements(table))
    deal = data.draw(deals(table.schema.names))
    target = CLASS if SCORES[score].needs_class else None
    game = games.play(table, requirement, deal, target, score, others=games.obliging())
    trusted = mq.TopDownSpecialization(target, score).run_on_table(table, requirement)
    assert same(game.outcome, trusted)
    assert [turn.score for turn in game.rounds] == [step.score for step in trusted.steps]
    assert all(turn.attribute in deal[turn.party] for turn in game.rounds)


@settings(max_examples=examples(80), deadline=None)
@given(data=st.data(), table=tables(max_rows=40, min_attributes=2))
def test_however_they_play_the_release_satisfies_its_requirement(data: st.DataObject, table: mq.Table) -> None:
    requirement = data.draw(requirements(table))
    deal = data.draw(deals(table.schema.names))
    ways = [games.honest(), games.coalition(list(deal)[:2]), games.weighted(dict.fromkeys(deal, 2.0)), *DEVIATIONS]
    strategies = {party: data.draw(st.sampled_from(ways)) for party in deal}
    game = games.play(table, requirement, deal, CLASS, strategies=strategies)
    cells = {column.name: column.to_arrow() for column in game.outcome.columns}
    for name in requirement.sensitive_attributes:
        cells[name] = table.cells(name)
    assert all(verdict.holds for verdict in verify(mq.Table(pa.table(cells)), requirement))
    total = sum(turn.score for turn in game.rounds)
    for party in deal:
        given_away = sum(turn.score for turn in game.rounds if turn.party == party)
        assert game.contributed[party] == pytest.approx(given_away)
        assert game.received[party] == pytest.approx(total - given_away)


def test_example_algorithm_1() -> None:
    game = loan(others=games.obliging())
    assert same(game.outcome, mq.TopDownSpecialization("Class").run_on_table(loan_table(), LOAN))
    assert [turn.party for turn in game.rounds] == [*"BBBBBABB"]
    assert group_sizes(game.outcome) == [7, 6, 5, 5, 4, 4, 3]


def test_example_when_a_never_takes_part() -> None:
    everybody, without = loan(others=games.obliging()), loan({"A": games.never()}, others=games.obliging())
    assert turns(without) == [turn for turn in turns(everybody) if turn[1] != "Sex"]
    assert len(without.rounds) == 7
    # Algorithm 1 does not punish it: all of B's data for nothing.
    assert without.received["A"] == everybody.received["A"] == pytest.approx(1.6360, abs=1e-4)
    assert without.contributed["A"] == without.received["B"] == 0


def test_example_algorithm_2() -> None:
    game = loan()
    assert turns(game) == [("B", "Salary", SALARY), ("A", "Sex", SEX)]
    assert group_sizes(game.outcome) == [17, 12, 5]
    assert game.received == pytest.approx({"A": SALARY, "B": SEX}, abs=1e-4)


def test_example_is_no_loss_for_who_never_takes_part() -> None:
    """The one-shot counterexample to Theorem 1: A gives nothing and receives what it did when it was honest."""
    game = loan({"A": games.never()})
    assert turns(game) == [("B", "Salary", SALARY)]
    assert game.received["A"] == loan().received["A"]
    assert game.received["B"] == 0


def test_a_false_quitter_plays_its_rounds() -> None:
    assert turns(loan({"A": games.quits(1)})) == [("B", "Salary", SALARY)]
    assert turns(loan({"A": games.quits(2)})) == turns(loan())


def test_under_declaring_gives_less_for_the_same() -> None:
    """B offers ANY_Job in place of Salary; A, which has but one candidate, pays the same for it."""
    game = loan({"B": games.under_declares(1)})
    assert turns(game) == [("B", "Job", JOB), ("A", "Sex", SEX)]
    assert game.received["B"] == loan().received["B"]
    assert turns(loan({"A": games.under_declares()})) == turns(loan())  # its worst is its best


def test_giving_only_what_is_cheap() -> None:
    assert turns(loan({"B": games.gives_only_below(0.3)})) == [("B", "Job", JOB), ("A", "Sex", SEX)]
    assert turns(loan({"B": games.gives_only_below(JOB - 0.01)})) == [("A", "Sex", SEX)]
    assert turns(loan({"B": games.gives_only_below(1)})) == turns(loan())


def test_withheld_candidates_come_back() -> None:
    """Two attributes, one party: it offers the worse one first, and then has nothing but the better one."""
    game = games.play(
        loan_table(), LOAN, {"A": DEAL["A"] + DEAL["B"]}, "Class", strategies={"A": games.under_declares()}
    )
    best_first = games.play(loan_table(), LOAN, {"A": DEAL["A"] + DEAL["B"]}, "Class")
    assert game.rounds[0].attribute == "Sex"
    assert {"Sex", "Job", "Salary"} == {turn.attribute for turn in game.rounds}
    assert best_first.rounds[0].attribute == "Salary"


@pytest.mark.parametrize("score", ["gain-ratio", "info-gain", "info-gain-per-anonymity-loss"])
@pytest.mark.parametrize("liar", ["A", "B"])
@pytest.mark.parametrize("by", [1e-6, 0.5, -1e-6])
def test_a_false_score_that_wins_is_found_out(liar: str, by: float, score: str) -> None:
    with pytest.raises(PeerBrokeProtocol, match=rf"party {liar}: claimed a false score for") as caught:
        games.play(loan_table(), LOAN, DEAL, "Class", score, {liar: games.overstates(by)})
    assert caught.value.peer == liar


def test_a_false_score_that_loses_is_not_seen() -> None:
    """It is the same as holding back: no instruction follows that would give it away."""
    wire = Wire()
    game = games.play(
        loan_table(), LOAN, DEAL, "Class", strategies={"A": games.quits(1, games.overstates(-0.1))}, wire=wire
    )
    assert turns(game) == turns(loan({"A": games.never()}))
    assert wire.heard


def test_a_coalition_takes_turns_at_giving() -> None:
    table, deal = even_table(3)
    requirement = mq.KAnonymity(table.schema.names, k=5)
    pact = games.coalition(["P0", "P1"])
    fair = games.play(table, requirement, deal, "class")
    joined = games.play(table, requirement, deal, "class", strategies={"P0": pact, "P1": pact})
    together = joined.contributed["P0"] + joined.contributed["P1"]
    assert together < fair.contributed["P0"] + fair.contributed["P1"]
    most = max(turn.score for turn in joined.rounds)
    assert together <= joined.contributed["P2"] + 0.01 + most


def test_capability_lets_a_rich_party_go_on() -> None:
    """Measured by what Algorithm 1 would have taken from each, the example runs to its end."""
    total = loan(others=games.obliging()).contributed
    game = loan(others=games.weighted(total))
    assert len(game.rounds) == 8
    assert sorted(turns(game)) == sorted(turns(loan(others=games.obliging())))
    equal = loan(others=games.weighted({"A": 1, "B": 1}))
    assert turns(equal) == turns(loan())
    slightly = loan(others=games.weighted({"A": 1, "B": 3}))
    assert 2 < len(slightly.rounds) < 8


@pytest.mark.parametrize(
    ("deal", "strategies", "problem"),
    [
        ({}, {}, "deal: name at least one party"),
        ({"A": ["Sex"]}, {}, "one party must hold attribute Job; nobody does"),
        ({**DEAL, "C": ["Job"]}, {}, "one party must hold attribute Job; B and C do"),
        (DEAL, {"a": games.never()}, 'strategies: no party "a" (did you mean "A"?); there are A, B'),
    ],
)
def test_mistakes_are_named(deal: dict[str, list[str]], strategies: dict[str, games.Strategy], problem: str) -> None:
    with pytest.raises(ParameterError) as caught:
        games.play(loan_table(), LOAN, deal, "Class", strategies=strategies)
    assert problem in str(caught.value)


def test_a_score_that_peers_cannot_check_is_refused() -> None:
    with pytest.raises(ParameterError, match=r'score: "certainty" cannot be recomputed by the other parties'):
        games.play(loan_table(), LOAN, DEAL, None, "certainty")


# Repeated play


def even_table(n: int, seed: int = 7, rows: int = 300) -> tuple[mq.Table, dict[str, list[str]]]:
    """n parties with two attributes each, all about equally good at telling the class."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, rows)
    top = mq.Taxonomy(tree("*", tree("ab", "a", "b"), tree("cd", "c", "d")))
    deal = {f"P{party}": [f"x{party}", f"y{party}"] for party in range(n)}
    names = [name for held in deal.values() for name in held]
    cells: dict[str, object] = {}
    for name in names:
        noisy = np.rint(0.9 + 1.2 * labels + random.normal(0, 1, rows))
        cells[name] = np.array([*"abcd"])[np.clip(noisy, 0, 3).astype(int)]
    cells["class"] = np.where(labels, "Y", "N")
    return mq.Table(pa.table(cells), mq.Schema(mq.Attribute(name, taxonomy=top) for name in names)), deal


def test_discounted_average_of_a_constant_stream_is_the_constant() -> None:
    assert games.discounted_average([3.0] * 4, 0.8, then=3.0) == pytest.approx(3)
    assert games.discounted_average([1.0, 0.0, 1.0], 0.5) == pytest.approx(0.5 * (1 + 0.25))
    assert games.discounted_average([], 0.5, then=2.0) == 2


periods = st.integers(2, 12)
shares = st.floats(0.01, 1)


@given(delta=st.floats(0, 0.999), n=periods, c=shares, w=shares)
def test_theorem_1_says_when_deviating_does_not_pay(delta: float, n: int, c: float, w: float) -> None:
    """The condition against the payoffs themselves, summed period by period."""
    stream = [w] * (n - 1)
    deviating = games.discounted_average(stream, delta)
    assert games.deviation_average(delta, n, w) == pytest.approx(deviating)
    if abs(deviating - c) > 1e-9:
        assert games.theorem_holds(delta, n, c, w) == (deviating < c)


@given(n=periods, c=shares, w=shares)
def test_break_even_is_where_the_condition_begins_to_hold(n: int, c: float, w: float) -> None:
    delta = games.break_even(n, c, w)
    if delta + 1e-6 < 1:
        assert games.theorem_holds(delta + 1e-6, n, c, w)
    if delta > 1e-5:
        assert not games.theorem_holds(delta - 1e-6 * delta - 1e-9, n, c, w) or delta**n < 1e-6


def test_the_condition_at_its_edges() -> None:
    assert games.break_even(2, c=1, w=2) == 0.5
    assert not games.theorem_holds(0.999999, 2, c=0, w=1)  # an honest party that gets nothing loses nothing
    assert games.theorem_holds(0.0, 5, c=1, w=1)  # deviating brings no more than honesty, ever
    assert games.theorem_holds(0.0, 5, c=0, w=0)
    with pytest.raises(ParameterError, match=r"delta parameter must be .* below 1\. Got 1 instead"):
        games.theorem_holds(1, 2, 1, 1)
    with pytest.raises(ParameterError, match=r"at least 2 parties\. Got 1 instead"):
        games.break_even(1, 1, 1)


def test_deviating_pays_once_and_not_for_ever() -> None:
    """Four equal parties, few groups to share: who gives nothing leaves more room for the others' gifts."""
    table, deal = even_table(4)
    requirement = mq.KAnonymity(table.schema.names, k=15)
    c = games.play(table, requirement, deal, "class").received["P0"]
    w = games.play(table, requirement, deal, "class", strategies={"P0": games.never()}).received["P0"]
    assert w > c > 0  # one game: a strict gain
    fair = games.play_on([table] * 5, requirement, deal, "class")
    deviating = games.play_on([table] * 5, requirement, deal, "class", {"P0": games.never()})
    assert deviating.received["P0"] == (w, w, w, 0, 0)
    assert fair.received["P0"] == (c,) * 5
    limit = games.break_even(4, c, w)
    for delta in (0.0, limit - 0.05, limit + 0.05, 0.95):
        pays = deviating.average("P0", delta) > fair.average("P0", delta)
        assert pays == (not games.theorem_holds(delta, 4, c, w)) == (delta < limit)


def test_punishment_is_borne_by_the_punished_alone_in_its_account() -> None:
    table, deal = even_table(3)
    requirement = mq.KAnonymity(table.schema.names, k=10)
    run = games.play_on([table] * 4, requirement, deal, "class", {"P1": games.under_declares()}, patience=1)
    assert run.received["P1"][1:] == (0, 0, 0)
    alone = games.play(table, requirement, deal, "class", strategies={"P1": games.never()})
    assert run.received["P0"][1:] == (alone.received["P0"],) * 3
    assert run.punished == {"P1"}


def test_strategies_start_afresh_in_every_game() -> None:
    strategy = games.quits(1)
    assert turns(loan({"A": strategy})) == turns(loan({"A": strategy}))
    assert replace(strategy, name="other").participation(["A", "B"]).takes_part(0)
