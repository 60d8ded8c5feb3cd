"""Mondrian between providers of the same columns about different people, against coalitions of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from masquerade.anonymize.method import TableMethod
from masquerade.anonymize.mondrian.algorithm import Mondrian
from masquerade.anonymize.mondrian.choices import strict
from masquerade.anonymize.mondrian.provider_aware import may_cut_providers
from masquerade.anonymize.mondrian.qids import linked
from masquerade.anonymize.release import Release
from masquerade.data.schema import Schema
from masquerade.errors import ParameterError, Problem
from masquerade.forms.declared import parameter
from masquerade.forms.rules import choice, optional, switch
from masquerade.net.script import Message, Script, kind_of
from masquerade.privacy.m_privacy.requirement import MPrivacy
from masquerade.privacy.requirement import Conjunction, GroupRequirement, without_redundant
from masquerade.protocol.arrangement import PROVIDER, Arrangement
from masquerade.protocol.collaborate.messages import Records, Rows
from masquerade.protocol.contract import Contract
from masquerade.protocol.disclosure import Disclosure
from masquerade.protocol.method import Assembly, Preference, Proposal, Seat, SessionMethod


@dataclass(frozen=True)
class Collaboration(SessionMethod):
    """How providers publish together: by circuits on shares at public places, or by a third party they trust."""

    name: ClassVar[str] = Mondrian.name
    summary: ClassVar[str] = Mondrian.summary
    arrangement: ClassVar[Arrangement] = "horizontal"
    boundaries = "records"
    activity: ClassVar[str] = "cutting together"
    ends_with: ClassVar[tuple[type[Message], ...]] = (Records, Rows)
    preferences: ClassVar[tuple[Preference, ...]] = (
        Preference(10, "it is the method of providers of the same columns"),
    )

    third_party: str = parameter(
        choice("secure", "trusted"),
        "secure",
        help="secure: nobody sees another's records; trusted: a third party gets them all",
        granted=("secure",),
    )
    choose: str | None = parameter(
        optional(choice("public", "certainty", "widest", "fitness")),
        None,
        help="which allowed cut is made: at public places, which needs no counts; at such places the one with the "
        "fittest parts (secure); or as Mondrian on one table (trusted); by default public or certainty",
    )
    strict: bool = strict()
    provider_aware: bool | None = parameter(
        optional(switch()),
        None,
        help="cut between providers too; by default wherever the requirements allow it",
    )

    def fitted(self, parts: Sequence[GroupRequirement], m: int, class_name: str | None) -> Self:
        """Return the method with `choose` and `provider_aware` spelled out."""
        choose = self.choose or ("public" if self.third_party == "secure" else "certainty")
        fitted = replace(self, choose=choose)
        aware = self.provider_aware
        if aware is None:
            aware = (
                all(part.thresholds is not None for part in parts)
                if fitted.at_public_places
                else may_cut_providers(_private(parts, m))
            )
        return replace(fitted, provider_aware=aware)

    @property
    def at_public_places(self) -> bool:
        """Whether groups are cut where nobody needs a count to know, and not as Mondrian does on one table."""
        return self.third_party == "secure" or self.choose in (None, "public")

    def unknown_choice(self, parts: Sequence[GroupRequirement]) -> Iterator[Problem]:
        """Refuse choices that cannot be made where nobody sees all counts."""
        if self.third_party == "secure" and self.choose in ("certainty", "widest"):
            text = 'looks at counts that third_party = "secure" hides; leave it out, or use third_party = "trusted"'
            yield Problem(text, key=("choose",))
        if self.third_party != "secure" or self.choose != "fitness":
            return
        for part in parts:
            if part.thresholds is None:
                text = f'without a third party the fitness of {part.model} is not known; use "public"'
                yield Problem(text, key=("choose",))
        if any(len({frozenset(part.qid) for part in each}) > 1 for each in linked(without_redundant(parts))):
            yield Problem('not possible with QIDs that share attributes; use "public"', key=("choose",))

    def refusals(self, proposal: Proposal) -> Iterator[Problem]:
        """Requirements that cannot be tested in this way, and taxonomies that would show all providers' values."""
        yield from super().refusals(proposal)
        yield from self.unknown_choice(proposal.parts)
        if not proposal.parts:
            return
        fitted = self.fitted(proposal.parts, proposal.m, None)
        if fitted.at_public_places:
            yield from self._untestable(proposal)
        else:
            parts = without_redundant(_private(proposal.parts, proposal.m))
            try:
                made = fitted.on_one_table(None, parts)
            except ParameterError as error:  # a choice that this variant lacks
                yield from error.within("").problems
            else:
                yield from made.refusals(parts, proposal.schema or Schema(()))
        if self.third_party == "secure" and proposal.schema is not None:
            yield from _flat(proposal)

    def on_one_table(self, target: str | None, parts: Sequence[GroupRequirement]) -> TableMethod:
        """Return the algorithm that a trusted third party runs on all records."""
        assert self.choose is not None
        return Mondrian(target, self.choose, self.strict, bool(self.provider_aware)).fitted(parts)

    def _untestable(self, proposal: Proposal) -> Iterator[Problem]:
        from masquerade.protocol.collaborate.criterion import Criterion

        for at, part in enumerate(proposal.parts):
            try:
                Criterion.of(
                    max(len(proposal.parties or ()), 2),
                    proposal.m,
                    [part],
                    third_party=self.third_party,
                    provider_aware=bool(self.provider_aware),
                )
            except ParameterError as error:
                yield from (problem.at(key=("privacy", at)) for problem in error.problems)

    def party(self, seat: Seat) -> Script[int]:
        """Hand the records to a trusted third party, or play along without one."""
        from masquerade.protocol.collaborate.provider import provider

        return provider(seat)

    def assembler(self, assembly: Assembly) -> Script[Release]:
        """Make the release, or put it together from what the providers labelled; verify it with its providers."""
        from masquerade.protocol.collaborate.third_party import third_party

        return third_party(assembly)

    def disclosure(
        self, contract: Contract, party: str, schema: Schema | None, *, show_steps: bool
    ) -> Disclosure:
        """With a trusted third party everything, to it alone; without, the course of the cuts."""
        from masquerade.protocol.collaborate.disclosure import disclosed

        return disclosed(self, contract, party, schema)

    def rounds(self, contract: Contract, sent: Sequence[str], steps: int) -> int:
        """Count how often all providers opened their shares."""
        from masquerade.protocol.shared_circuits import Outputs, Share

        opening = {kind_of(Share), kind_of(Outputs)}
        return sum(kind in opening for kind in sent) // (len(contract.parties) - 1)


def _private(parts: Sequence[GroupRequirement], m: int) -> tuple[GroupRequirement, ...]:
    return MPrivacy(m, Conjunction(tuple(parts)), PROVIDER).parts if parts else ()


def _flat(proposal: Proposal) -> Iterator[Problem]:
    """Refuse flat taxonomies: their leaves are the data's own values, which nobody may know without a third party."""
    assert proposal.schema is not None
    qid = {name for part in proposal.parts for name in part.qid}
    for attribute in proposal.schema:
        if attribute.name in qid and attribute.taxonomy == "flat":
            yield Problem(
                '"flat" is made of all providers\' values, which third_party = "secure" keeps apart; '
                "give a taxonomy file",
                key=("attributes", attribute.name, "taxonomy"),
            )
