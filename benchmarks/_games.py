"""Mashups as games: what a party gets when it, or another, does not play by the rules.

`play` runs one mashup in memory through the parties' real scripts, with a strategy for each of them; `strategies` are
the ways to play; `repeated` plays several games, with punishment. The results are in docs/games.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import ClassVar

from masquerade.anonymize import Candidate, LocalView, PublicState, TopDownSpecialization
from masquerade.anonymize.method import records_of
from masquerade.anonymize.preparation import prepare
from masquerade.anonymize.tds.groups import RankSplit
from masquerade.data import Column, Outcome, Table
from masquerade.engine import Counts
from masquerade.errors import ParameterError, hint
from masquerade.net.memory import Wire, run_together
from masquerade.privacy import Requirement
from masquerade.protocol.tds.method import AlwaysTakePart, Participation, TakePartWhenEven
from masquerade.protocol.tds.party import JointSchema, Round, mashup
from masquerade.utility import FIXED_ONE, Score, fixed, score_named

# --- strategies ---------------------------------------------------------------------------------------------
# Ways to play a mashup: whether a party takes part in a round, and with which of its candidates.
#
# A strategy is a `Participation` and a view. The first decides whether the party offers anything; the
# second, a `LocalView` that need not reveal its best candidate, decides what. Both are private to the
# party: no message of the protocol differs from an honest one's, except those of `overstates`, which the
# others detect.
#
#     strategy           takes part                                   offers
#     honest             Algorithm 2: while nobody has given less     its best
#     obliging           Algorithm 1: always                          its best
#     never              never                                        -
#     quits              as another strategy, for some rounds         its best
#     under_declares     as honest                                    not its best, while it has others
#     gives_only_below   as honest                                    its best of those that score less than a bound
#     coalition          while all members together have not given    its best
#                        more than any one outsider
#     weighted           as honest, gifts measured by capability      its best
#     overstates         as honest                                    its best, with a false score

EPSILON = 0.01  # the paper's

Found = tuple[Candidate, RankSplit] | None
MakeView = Callable[[Mapping[int, Column], Mapping[str, Counts], Score], LocalView]


@dataclass(frozen=True)
class Strategy:
    """A way to play; `participation` is made anew for each game, from the parties' names in order."""

    name: str
    participation: Callable[[Sequence[str]], Participation]
    view: MakeView = LocalView


def honest(epsilon: float = EPSILON) -> Strategy:
    """Algorithm 2."""
    return Strategy("honest", lambda parties: TakePartWhenEven(len(parties), epsilon))


def obliging() -> Strategy:
    """Algorithm 1."""
    return Strategy("obliging", lambda parties: AlwaysTakePart())


def never() -> Strategy:
    """Never offers anything, and takes what the others give."""
    return Strategy("never takes part", lambda parties: TakesPartFor(0, AlwaysTakePart()))


def quits(after: int, before: Strategy | None = None) -> Strategy:
    """Plays `before` (honestly by default) for `after` rounds, whoever wins them, then gives nothing more."""
    start = before if before is not None else honest()
    return Strategy(
        f"quits after round {after}", lambda parties: TakesPartFor(after, start.participation(parties)), start.view
    )


def under_declares(most: int | None = None, epsilon: float = EPSILON) -> Strategy:
    """Withholds its `most` best candidates (all but the worst if None) while another one is valid."""

    def view(columns: Mapping[int, Column], counts: Mapping[str, Counts], score: Score) -> LocalView:
        return UnderDeclaring(columns, counts, score, most)

    what = "its worst" if most is None else f"number {most + 1}"
    return Strategy(f"offers {what}", honest(epsilon).participation, view)


def gives_only_below(bound: float, epsilon: float = EPSILON) -> Strategy:
    """Gives only what is worth less than `bound`."""

    def view(columns: Mapping[int, Column], counts: Mapping[str, Counts], score: Score) -> LocalView:
        return GivingOnlyBelow(columns, counts, score, fixed(bound))

    return Strategy(f"gives only below {bound:g}", honest(epsilon).participation, view)


def coalition(members: Collection[str], epsilon: float = EPSILON) -> Strategy:
    """The strategy of each member: the coalition counts as one party."""

    def participation(parties: Sequence[str]) -> Participation:
        for name in members:
            if name not in parties:
                raise ParameterError(
                    f'coalition: no party "{name}"{hint(name, parties)}; there are {", ".join(parties)}'
                )
        return EvenAsOne(len(parties), frozenset(map(parties.index, members)), epsilon)

    return Strategy(f"coalition of {', '.join(members)}", participation)


def weighted(capability: Mapping[str, float], epsilon: float = EPSILON) -> Strategy:
    """Algorithm 2 between unequal parties: one that can give twice as much should. Capabilities must be above 0."""

    def participation(parties: Sequence[str]) -> Participation:
        wrong = [name for name in parties if not capability.get(name, 0) > 0]
        if wrong:
            raise ParameterError(f"weighted: party {wrong[0]} needs a capability above 0")
        return EvenForCapability([capability[name] for name in parties], epsilon)

    return Strategy("by capability", participation)


def overstates(by: float, epsilon: float = EPSILON) -> Strategy:
    """Adds `by` to its scores (below 0: understates). When it wins with one, every party sees that it is false."""

    def view(columns: Mapping[int, Column], counts: Mapping[str, Counts], score: Score) -> LocalView:
        return Overstating(columns, counts, score, fixed(by))

    return Strategy(f"overstates by {by:g}", honest(epsilon).participation, view)


@dataclass
class TakesPartFor:
    """As `base`, for a number of rounds; then never."""

    holds_back: ClassVar[bool] = True

    rounds: int
    base: Participation

    def takes_part(self, me: int) -> bool:
        """Return the base's answer until the rounds are over, then False."""
        return self.rounds > 0 and self.base.takes_part(me)

    def credit(self, party: int, score: int) -> None:
        """Count a finished round, and pass it on to the base."""
        self.rounds -= 1
        self.base.credit(party, score)


class EvenAsOne(TakePartWhenEven):
    """Algorithm 2 for a coalition: what its members gave, together, is no more than what each outsider gave."""

    def __init__(self, n_parties: int, members: frozenset[int], epsilon: float) -> None:
        super().__init__(n_parties, epsilon)
        self.members = members

    def takes_part(self, me: int) -> bool:
        """Return whether no outsider has given less than the coalition, up to ϵ."""
        ours = sum(self.contributed[member] for member in self.members)
        theirs = [given for party, given in enumerate(self.contributed) if party not in self.members]
        return all(ours <= given + fixed(self.epsilon) for given in theirs)


class EvenForCapability(TakePartWhenEven):
    """Algorithm 2 with every account divided by its party's capability."""

    def __init__(self, capability: Sequence[float], epsilon: float) -> None:
        super().__init__(len(capability), epsilon)
        self.capability = tuple(capability)

    def takes_part(self, me: int) -> bool:
        """Return whether no party has given less, relative to its capability, than this one."""
        shares = [given / each for given, each in zip(self.contributed, self.capability, strict=True)]
        return all(shares[me] <= share + fixed(self.epsilon) for share in shares)


class Withholding(LocalView):
    """A view that passes over some valid candidates that are better than the one it offers."""

    def withholds(self, found: Candidate, passed_over: int) -> bool:
        """Return whether to pass over this candidate too, after `passed_over` better ones."""
        raise NotImplementedError

    def last_resort(self, found: Found) -> Found:
        """Return what to offer when all valid candidates were passed over; `found` was the last of them."""
        return None

    def best(self, state: PublicState) -> Found:
        """Return the best valid candidate that is not withheld."""
        withheld: list[Candidate] = []
        last: Found = None
        while (found := super().best(state)) is not None and self.withholds(found[0], len(withheld)):
            last = found
            withheld.append(found[0])
            self.candidates.remove(found[0])
        self.candidates += withheld
        return found if found is not None else self.last_resort(last)


class UnderDeclaring(Withholding):
    """Offers a worse candidate while it has one."""

    def __init__(
        self, columns: Mapping[int, Column], counts: Mapping[str, Counts], score: Score, most: int | None
    ) -> None:
        super().__init__(columns, counts, score)
        self.most = most

    def withholds(self, found: Candidate, passed_over: int) -> bool:
        """Withhold up to the allowed number."""
        return self.most is None or passed_over < self.most

    def last_resort(self, found: Found) -> Found:
        """Offer the worst candidate if nothing else is left."""
        return found


class GivingOnlyBelow(Withholding):
    """Offers no candidate that is worth too much to give away."""

    def __init__(self, columns: Mapping[int, Column], counts: Mapping[str, Counts], score: Score, bound: int) -> None:
        super().__init__(columns, counts, score)
        self.bound = bound

    def withholds(self, found: Candidate, passed_over: int) -> bool:
        """Withhold candidates whose score reaches the bound."""
        return found.score >= self.bound


class Overstating(LocalView):
    """Claims a false score for its best candidate."""

    def __init__(self, columns: Mapping[int, Column], counts: Mapping[str, Counts], score: Score, by: int) -> None:
        super().__init__(columns, counts, score)
        self.by = by

    def best(self, state: PublicState) -> Found:
        """Return the best candidate with a false amount added to its score."""
        for candidate in self.candidates:  # undo the false score of the last round
            candidate.score = self.score.rate(candidate.base, anonymity_loss=0.0)
        found = super().best(state)
        if found is not None:
            found[0].score += self.by
        return found


# --- play ---------------------------------------------------------------------------------------------------
# One mashup of a table whose columns are dealt out to parties, each with a strategy of its own.
#
# The parties run their real scripts, in one process. What a party **contributed** (μ) is the sum of the
# scores of its specializations; what it **received** (φ), its utility in the paper, is the sum of everybody
# else's. Giving costs nothing in that account; a rational party wants a high φ, and of two ways to it the
# one with the lower μ.


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
            me, parties, schema, views[party], state, classes, participation=chosen[party].participation(parties)
        )
    seen: dict[str, tuple[Round, ...]] = run_together(scripts, wire)

    rounds = seen[parties[0]]
    contributed = {party: sum(each.score for each in rounds if each.party == me) for me, party in enumerate(parties)}
    steps = []
    for at, each in enumerate(rounds):
        winner = seen[parties[each.party]][at].candidate  # only the winner knows what it specialised
        assert winner is not None
        steps.append(views[parties[each.party]].step(winner))
    released = (views[parties[holder]].released(name) for name, holder in zip(names, schema.holders, strict=True))
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


def _chosen(parties: Sequence[str], strategies: Mapping[str, Strategy], others: Strategy) -> dict[str, Strategy]:
    for name in strategies:
        if name not in parties:
            raise ParameterError(f'strategies: no party "{name}"{hint(name, parties)}; there are {", ".join(parties)}')
    return {party: strategies.get(party, others) for party in parties}


# --- repeated -----------------------------------------------------------------------------------------------
# Repeated games: what deviating yields when the others remember it.
#
# Theorem 1 of the data-integration paper, in its proof's terms: each period is a game; a party that follows
# the algorithm gets c in the discounted average; a deviator gets w for at most n − 1 periods, then 0,
# because the others punish it. So deviating does not pay when
#
#     w (1 − δ^(n−1)) ≤ c,   that is   δ^(n−1) ≥ 1 − c/w.
#
# Here each period is a mashup that is played, and c and w are its payoffs. The protocol itself does not
# remember: that the others notice a deviation, and exclude the deviator from later mashups, is the proof's
# assumption, and ours.


def discounted_average(payoffs: Sequence[float], delta: float, then: float = 0.0) -> float:
    """Return (1 − δ) Σ δ^t u_t of an infinite stream: the payoffs in turn, then `then` for ever.

    It is the constant payoff that is worth as much as the stream.
    """
    _check_delta(delta)
    start = (1 - delta) * sum(payoff * delta**period for period, payoff in enumerate(payoffs))
    return float(start + then * delta ** len(payoffs))


def deviation_average(delta: float, n: int, w: float) -> float:
    """Return the discounted average of w for n − 1 periods, then nothing: w (1 − δ^(n−1))."""
    _check(delta, n)
    return float(w * (1 - delta ** (n - 1)))


def theorem_holds(delta: float, n: int, c: float, w: float) -> bool:
    """Test Theorem 1's condition, δ^(n−1) ≥ 1 − c/w; it holds for w ≤ 0, as deviating then gains nothing."""
    _check(delta, n)
    return bool(w <= 0 or delta ** (n - 1) >= 1 - c / w)


def break_even(n: int, c: float, w: float) -> float:
    """Return the least δ for which the condition holds; 1 means that deviating pays for any party that discounts."""
    _check(0, n)
    return 0.0 if w <= c else float((1 - c / w) ** (1 / (n - 1)))


@dataclass(frozen=True)
class Repeated:
    """What each party received, period by period, and what a deviator gets after the last period played."""

    received: Mapping[str, tuple[float, ...]]
    punished: frozenset[str]

    def average(self, party: str, delta: float) -> float:
        """Return the discounted average; periods not played count as the mean of those that were, or as nothing."""
        payoffs = self.received[party]
        return discounted_average(payoffs, delta, 0.0 if party in self.punished else fmean(payoffs))


def play_on(
    tables: Sequence[Table],
    requirement: Requirement,
    deal: Mapping[str, Sequence[str]],
    target: str | None,
    deviators: Mapping[str, Strategy] | None = None,
    *,
    score: str | None = None,
    others: Strategy | None = None,
    patience: int | None = None,
) -> Repeated:
    """Play one game per table. Deviators use their strategies for `patience` periods (n − 1), then are excluded.

    An excluded party gives and receives nothing; the others go on without its attributes.
    """
    deviating = dict(deviators or {})
    grace = patience if patience is not None else len(deal) - 1
    received: dict[str, list[float]] = {party: [] for party in deal}
    for period, table in enumerate(tables):
        excluded = period >= grace
        strategies = dict.fromkeys(deviating, never()) if excluded else deviating
        game = play(table, requirement, deal, target, score, strategies, others=others)
        for party, payoff in game.received.items():
            received[party].append(0.0 if excluded and party in deviating else payoff)
    punished = frozenset(deviating) if len(tables) >= grace else frozenset()
    return Repeated({party: tuple(payoffs) for party, payoffs in received.items()}, punished)


def _check(delta: float, n: int) -> None:
    _check_delta(delta)
    if n < 2:
        raise ParameterError(f"The n parameter must be a number of at least 2 parties. Got {n} instead.")


def _check_delta(delta: float) -> None:
    if not 0 <= delta < 1:
        raise ParameterError(f"The delta parameter must be a number of at least 0 and below 1. Got {delta} instead.")


# --- games --------------------------------------------------------------------------------------------------

__all__ = [
    "Game",
    "Repeated",
    "Strategy",
    "Turn",
    "break_even",
    "coalition",
    "deviation_average",
    "discounted_average",
    "gives_only_below",
    "honest",
    "never",
    "obliging",
    "overstates",
    "play",
    "play_on",
    "quits",
    "theorem_holds",
    "under_declares",
    "weighted",
]
