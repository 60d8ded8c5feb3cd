"""Who takes part in a round of a mashup.

`AlwaysTakePart` is Algorithm 1: everybody offers its best candidate. `TakePartWhenEven` is Algorithm 2, for parties
that may act selfishly: a party offers only while it has contributed no more than every other party, give or take ϵ.
What each party has contributed, μ, is the sum of the scores of its winning candidates; every party can keep that
account.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from masquerade.utility.scores import fixed


class Participation(Protocol):
    """A strategy, with its account of what the parties have contributed."""

    holds_back: ClassVar[bool]  # whether a party may offer nothing in one round, and something in the next

    def takes_part(self, me: int) -> bool:
        """Return whether to offer a candidate in this round."""

    def credit(self, party: int, score: int) -> None:
        """Record that a party won a round with this score (fixed point)."""


class AlwaysTakePart:
    """Algorithm 1."""

    holds_back: ClassVar[bool] = False

    def takes_part(self, me: int) -> bool:
        """Return True."""
        return True

    def credit(self, party: int, score: int) -> None:
        """Do nothing: no account is kept."""


@dataclass
class TakePartWhenEven:
    """Algorithm 2: μ_me ≤ μ_other + ϵ for every other party that has something to specialise.

    Who holds no attribute of a QID (`bystanders`), as a clinic that brings the diseases alone, can win no round: to
    wait for it would end the game at once.
    """

    holds_back: ClassVar[bool] = True

    n_parties: int
    epsilon: float = 0.01
    bystanders: frozenset[int] = frozenset()
    contributed: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.contributed = [0] * self.n_parties

    def takes_part(self, me: int) -> bool:
        """Return whether no party has given less than this one, up to ϵ."""
        generosity = fixed(self.epsilon)
        return all(
            self.contributed[me] <= given + generosity
            for other, given in enumerate(self.contributed)
            if other not in self.bystanders
        )

    def credit(self, party: int, score: int) -> None:
        """Add the score to the party's account."""
        self.contributed[party] += score
