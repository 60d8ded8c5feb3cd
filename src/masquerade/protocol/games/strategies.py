"""Ways to play a mashup: whether a party takes part in a round, and with which of its candidates.

A strategy is a `Participation` and a view. The first decides whether the party offers anything; the second, a
`LocalView` that need not reveal its best candidate, decides what. Both are private to the party: no message of the
protocol differs from an honest one's, except those of `overstates`, which the others detect.

    strategy           takes part                                   offers
    honest             Algorithm 2: while nobody has given less     its best
    obliging           Algorithm 1: always                          its best
    never              never                                        -
    quits              as another strategy, for some rounds         its best
    under_declares     as honest                                    not its best, while it has others
    gives_only_below   as honest                                    its best of those that score less than a bound
    coalition          while all members together have not given    its best
                       more than any one outsider
    weighted           as honest, gifts measured by capability      its best
    overstates         as honest                                    its best, with a false score
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from masquerade.anonymize.instruction import RankSplit
from masquerade.anonymize.local_view import Candidate, LocalView
from masquerade.anonymize.public_state import PublicState
from masquerade.data.column import Column
from masquerade.engine.counts import Counts
from masquerade.errors import ParameterError, hint
from masquerade.protocol.participation import AlwaysTakePart, Participation, TakePartWhenEven
from masquerade.utility.scores import Score, fixed

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
        f"quits after round {after}",
        lambda parties: TakesPartFor(after, start.participation(parties)),
        start.view,
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

    def __init__(
        self, columns: Mapping[int, Column], counts: Mapping[str, Counts], score: Score, bound: int
    ) -> None:
        super().__init__(columns, counts, score)
        self.bound = bound

    def withholds(self, found: Candidate, passed_over: int) -> bool:
        """Withhold candidates whose score reaches the bound."""
        return found.score >= self.bound


class Overstating(LocalView):
    """Claims a false score for its best candidate."""

    def __init__(
        self, columns: Mapping[int, Column], counts: Mapping[str, Counts], score: Score, by: int
    ) -> None:
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
