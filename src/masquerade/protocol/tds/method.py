"""Top-down specialization between parties that hold different columns of the same people: the method `tds` of a mashup.

What each role learns is in docs/leakage.md; `disclosure` says it for one contract.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol, Self

from masquerade.anonymize import TopDownSpecialization, VerifiedRelease
from masquerade.data import Schema
from masquerade.errors import Problem
from masquerade.forms import choice, number, optional, parameter
from masquerade.net import Script
from masquerade.privacy import GroupRequirement
from masquerade.protocol.boundaries import untestable_within
from masquerade.protocol.contract import Contract
from masquerade.protocol.disclosure import Disclosure, disclosed_by_join
from masquerade.protocol.method import Assembly, Participant, Preference, Proposal, VerticalMethod
from masquerade.protocol.sensitive.checks import refuse_remote_sensitive
from masquerade.utility import SCORES, fixed, score_named

# --- participation ------------------------------------------------------------------------------------------
# Who takes part in a round of a mashup.
#
# `AlwaysTakePart` is Algorithm 1: everybody offers its best candidate. `TakePartWhenEven` is Algorithm 2,
# for parties that may act selfishly: a party offers only while it has contributed no more than every other
# party, give or take ϵ. What each party has contributed, μ, is the sum of the scores of its winning
# candidates; every party can keep that account.


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


# --- joint specialization -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class JointSpecialization(VerticalMethod):
    """Algorithms 1 and 2 of the papers on secure data integration, with hidden or plain scores."""

    name: ClassVar[str] = TopDownSpecialization.name
    summary: ClassVar[str] = TopDownSpecialization.summary
    boundaries = "columns"
    activity: ClassVar[str] = "aligning and specialising"
    preferences: ClassVar[tuple[Preference, ...]] = (Preference(30, "specializing takes QIDs of any kind"),)

    score: str | None = parameter(
        optional(choice(*SCORES)),
        None,
        help="what a specialization is chosen by; gain-ratio where there is a class, else discernibility",
    )
    argmax: str = parameter(
        choice("secure", "plain"),
        "secure",
        help="compare the parties' best scores without showing them, or let everybody see them",
    )
    adversary: str = parameter(
        choice("semi-honest", "malicious"),
        "semi-honest",
        help="whether parties may try to get more than they give (Algorithm 2)",
    )
    epsilon: float = parameter(
        number(0), 0.01, help="with malicious parties: by how much one may have given more than another"
    )

    def fitted(self, parts: Sequence[GroupRequirement], m: int, class_name: str | None) -> Self:
        """Return the method with its default score spelled out."""
        return replace(self, score=score_named(self.score, class_name is not None).name)

    def refusals(self, proposal: Proposal) -> Iterator[Problem]:
        """Scores that the other parties cannot recompute, and requirements that no secure check tests."""
        yield from super().refusals(proposal)
        yield from untestable_within(proposal)
        if self.score is not None and not SCORES[self.score].recomputable:
            text = f'"{self.score}" cannot be recomputed by the other parties; use another score in a mashup'
            yield Problem(text, key=("score",))
        if proposal.holder is not None:
            for at, text in refuse_remote_sensitive(proposal.parts, proposal.holder):
                yield Problem(text, key=("privacy", at))

    def off_engine(self, parts: Sequence[GroupRequirement]) -> str | None:
        """Nothing keeps it from an engine."""
        return None

    def party(self, participant: Participant) -> Script[int]:
        """Align, share the class, specialise, check, hand in."""
        from masquerade.protocol.tds.party import party

        hides_scores = self.argmax == "secure"
        return party(participant, self.score, self.participation(participant.contract), hides_scores=hides_scores)

    def participation(self, contract: Contract) -> Participation:
        """Return a fresh account of who takes part in a round."""
        if self.adversary != "malicious":
            return AlwaysTakePart()
        holders = {column.holder for column in contract.qid_columns}
        bystanders = frozenset(at for at, name in enumerate(contract.parties) if name not in holders)
        return TakePartWhenEven(len(contract.parties), float(self.epsilon), bystanders)

    def assembler(self, assembly: Assembly) -> Script[VerifiedRelease]:
        """Join the columns, verify, shuffle."""
        from masquerade.protocol.assembling import assemble

        return assemble(assembly, {"argmax": self.argmax})

    def disclosure(self, contract: Contract, party: str, schema: Schema | None, *, show_steps: bool) -> Disclosure:
        """Who is common, the course of the specializations, the winner of each round, and the released columns."""
        others = ", ".join(name for name in contract.parties if name != party)
        learn = [
            f"{others}: in each round {party}'s best score and its attribute, or that it has none"
            if self.argmax == "plain"
            else f"{others}: in each round whether {party} has the best score, not what its score is unless it has"
        ]
        if contract.qid_columns:
            learn.append(f"{others}: {party}'s specializations, as groups of the common records, and their order")
        protocol = {"adversary": self.adversary, "argmax": self.argmax, "score": str(self.score)}
        if self.adversary == "malicious":
            protocol["epsilon"] = repr(self.epsilon)
        return disclosed_by_join(
            contract,
            party,
            schema,
            learn,
            protocol,
            show_steps=show_steps,
            peers_see="which of the common records share a value (by number, without its name)",
        )
