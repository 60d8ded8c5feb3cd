"""One mashup of a table whose columns are dealt out to parties, each with a strategy of its own.

The parties run their real scripts, in one process. What a party **contributed** (μ) is the sum of the scores of its
specializations; what it **received** (φ), its utility in the paper, is the sum of everybody else's. Giving costs
nothing in that account; a rational party wants a high φ, and of two ways to it the one with the lower μ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from masquerade.anonymize.method import records_of
from masquerade.anonymize.outcome import Outcome
from masquerade.anonymize.preparation import prepare
from masquerade.anonymize.public_state import PublicState
from masquerade.anonymize.tds import TopDownSpecialization
from masquerade.data.table import Table
from masquerade.errors import ParameterError, hint
from masquerade.net.memory import Wire, run_together
from masquerade.privacy.requirement import Requirement
from masquerade.protocol.games.strategies import Strategy, honest
from masquerade.protocol.mashup import JointSchema, Round, mashup
from masquerade.utility.scores import FIXED_ONE, score_named


@dataclass(frozen=True)
class Turn:
    """One round: its winner, with the attribute and score."""

    party: str
    attribute: str
    score: float


@dataclass(frozen=True, eq=False)
class Game:
    """The course and result of one mashup."""

    rounds: tuple[Turn, ...]
    contributed: Mapping[str, float]
    received: Mapping[str, float]
    outcome: Outcome


def play(
    table: Table,
    requirement: Requirement,
    deal: Mapping[str, Sequence[str]],
    target: str | None,
    score: str | None = None,
    strategies: Mapping[str, Strategy] | None = None,
    *,
    others: Strategy | None = None,
    wire: Wire | None = None,
) -> Game:
    """Play once. `deal` has each party's attributes; parties without a strategy play as `others`, by default honestly.

    Sensitive attributes count as known to all. A party that is caught ends the game with `PeerBrokeProtocol`.
    """
    task = prepare(table, requirement, TopDownSpecialization(target, score))
    columns = dict(enumerate(task.columns))
    names = tuple(column.name for column in task.columns)
    schema = _joint(names, deal)
    classes = table.coded(target) if target is not None else None
    rating = score_named(score, target is not None)
    if not rating.recomputable:
        raise ParameterError(f'score: "{rating.name}" cannot be recomputed by the other parties of a mashup')

    parties = tuple(deal)
    chosen = _chosen(parties, strategies or {}, others if others is not None else honest())
    views, scripts = {}, {}
    for me, party in enumerate(parties):
        own = {at: column for at, column in columns.items() if schema.holders[at] == me}
        records = records_of(table, requirement, target)  # where each keeps groups of its own
        state = PublicState(records, names, task.parts, records.coded)
        views[party] = chosen[party].view(own, state.scored(task.columns, target), rating)
        scripts[party] = mashup(
            me,
            parties,
            schema,
            views[party],
            state,
            classes,
            participation=chosen[party].participation(parties),
        )
    seen: dict[str, tuple[Round, ...]] = run_together(scripts, wire)

    rounds = seen[parties[0]]
    contributed = {
        party: sum(each.score for each in rounds if each.party == me) for me, party in enumerate(parties)
    }
    steps = []
    for at, each in enumerate(rounds):
        winner = seen[parties[each.party]][at].candidate  # only the winner knows what it specialised
        assert winner is not None
        steps.append(views[parties[each.party]].step(winner))
    released = (
        views[parties[holder]].released(name) for name, holder in zip(names, schema.holders, strict=True)
    )
    return Game(
        tuple(Turn(parties[each.party], each.attribute, each.score / FIXED_ONE) for each in rounds),
        {party: given / FIXED_ONE for party, given in contributed.items()},
        {party: (sum(contributed.values()) - given) / FIXED_ONE for party, given in contributed.items()},
        Outcome(tuple(released), tuple(steps)),
    )


def _joint(names: Sequence[str], deal: Mapping[str, Sequence[str]]) -> JointSchema:
    """Find the holder of each attribute of the QIDs; it must be exactly one party."""
    if not deal:
        raise ParameterError("deal: name at least one party and its attributes")
    holders = []
    for name in names:
        holding = [at for at, held in enumerate(deal.values()) if name in held]
        if len(holding) != 1:
            who = f"{' and '.join(tuple(deal)[at] for at in holding)} do" if holding else "nobody does"
            raise ParameterError(f"deal: one party must hold attribute {name}; {who}")
        holders.append(holding[0])
    return JointSchema(tuple(names), tuple(holders))


def _chosen(
    parties: Sequence[str], strategies: Mapping[str, Strategy], others: Strategy
) -> dict[str, Strategy]:
    for name in strategies:
        if name not in parties:
            raise ParameterError(
                f'strategies: no party "{name}"{hint(name, parties)}; there are {", ".join(parties)}'
            )
    return {party: strategies.get(party, others) for party in parties}
