"""Mondrian between providers of the same columns about different people, against coalitions of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

from masquerade.anonymize import Mondrian, TableMethod, VerifiedRelease, insist, linked, may_cut_providers, strict
from masquerade.arrangement import PROVIDER, Arrangement
from masquerade.data import Schema, Taxonomy, columns_of
from masquerade.errors import Bug, ParameterError, Problem
from masquerade.forms import choice, optional, parameter, switch
from masquerade.net import Message, Script, kind_of
from masquerade.privacy import Conjunction, GroupRequirement, MPrivacy, covers_against_insiders, without_redundant
from masquerade.protocol.contract import Contract
from masquerade.protocol.disclosure import (
    COORDINATOR,
    RECIPIENTS,
    DisclosedClass,
    DisclosedColumn,
    Disclosure,
    kept_to,
    kind_of_cell,
)
from masquerade.protocol.method import Assembly, Participant, Preference, Proposal, SessionMethod
from masquerade.protocol.providers.criterion import Criterion
from masquerade.protocol.providers.messages import ProviderRecords, Rows


@dataclass(frozen=True)
class Collaboration(SessionMethod):
    """How providers publish together: by circuits on shares at public places, or by a third party they trust."""

    name: ClassVar[str] = Mondrian.name
    summary: ClassVar[str] = Mondrian.summary
    arrangement: ClassVar[Arrangement] = "horizontal"
    boundaries = "records"
    activity: ClassVar[str] = "cutting together"
    ends_with: ClassVar[tuple[type[Message], ...]] = (ProviderRecords, Rows)
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
        optional(switch()), None, help="cut between providers too; by default wherever the requirements allow it"
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

    def party(self, participant: Participant) -> Script[int]:
        """Hand the records to a trusted third party, or play along without one."""
        from masquerade.protocol.providers.provider import provider

        return provider(participant)

    def assembler(self, assembly: Assembly) -> Script[VerifiedRelease]:
        """Make the release, or put it together from what the providers labelled; verify it with its providers."""
        from masquerade.protocol.providers.third_party import third_party

        return third_party(assembly)

    def disclosure(self, contract: Contract, party: str, schema: Schema | None, *, show_steps: bool) -> Disclosure:
        """With a trusted third party everything, to it alone; without, the course of the cuts."""
        secure = self.third_party == "secure"
        stays = (
            "identifiers, in any form",
            "rows with a missing cell in a used column",
            "every other column, and its name",
            "which released record is this party's: recipients are not told",
        )
        return Disclosure(
            columns=tuple(_columns(contract, contract.requirement.parts, schema, secure)),
            class_column=DisclosedClass(contract.class_name, True, _RAW) if contract.class_name is not None else None,
            peers_learn=tuple(_peers_learn(contract, party, self, schema)),
            figures=_figures(contract, secure),
            stays=(*stays, "QID attributes finer than the release has them") if secure else stays,
            protocol={
                "kind": "horizontal",
                "m": str(contract.m),
                "third_party": self.third_party,
                "provider_aware": "yes" if self.provider_aware else "no",
            },
        )

    def rounds(self, contract: Contract, sent: Sequence[str], steps: int) -> int:
        """Count how often all providers opened their shares."""
        from masquerade.protocol.shared_circuits import OpenedOutputs, Share

        opening = {kind_of(Share), kind_of(OpenedOutputs)}
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


# --- disclosure ---------------------------------------------------------------------------------------------
# What a horizontal contract lets leave this machine, with a trusted third party or without (docs/leakage.md).


_RAW = {COORDINATOR: "the raw cells, as this party's", RECIPIENTS: "the raw cells, shuffled with those of all parties"}


def _columns(
    contract: Contract, parts: Sequence[GroupRequirement], schema: Schema | None, secure: bool
) -> Iterator[DisclosedColumn]:
    generalised = {column.name for column in contract.qid_columns}
    for column in contract.columns:
        over = tuple(str(part) for part in parts if column.name in part.qid)
        about = tuple(str(part) for part in parts if part.sensitive == column.name)
        if column.name in generalised:
            yield DisclosedColumn(
                column.name,
                "generalised",
                f"{kind_of_cell(column.name, schema)} for each record, no finer than every requirement allows"
                f"{kept_to(contract, column.name)}",
                over,
                {
                    COORDINATOR: "the released cells, shuffled here, as this party's"
                    if secure
                    else "THE RAW CELL OF EACH RECORD, which it is trusted to generalise",
                    RECIPIENTS: "the released cells, shuffled with those of all parties",
                },
            )
        else:
            yield DisclosedColumn(column.name, "as it is", "the raw cell of each record, byte for byte", about, _RAW)


def _peers_learn(contract: Contract, party: str, terms: Collaboration, schema: Schema | None) -> Iterator[str]:
    others = ", ".join(name for name in contract.parties if name != party)
    if terms.third_party == "trusted":
        yield f"{others}: nothing but the release, where they are among its recipients"
        yield f"coordinator: everything that {party} hands in, with its name, and how its attributes are generalised"
        return
    yield f"{others}: which cuts of groups were tried, and of each part whether it is empty and whether it may stand"
    yield f"{others}: whether a part that may stand is large enough to be divided; never how many records it has"
    if contract.bounded:
        yield (
            f"{others}: of each group with every value at its boundary ({', '.join(contract.bounded)}) whether it may "
            "stand and be divided; not whether one that may not has records"
        )
        yield f"coordinator: how many of {party}'s records no release within the boundaries can hold"
    if terms.choose == "fitness":
        yield f"{others}: along which attribute each group's fittest cut is, of those that may be made"
    if terms.provider_aware:
        yield f"{others}: the number of {party}'s records as a power of two, and groups in which it can stand alone"
    elif terms.choose == "fitness" or any(part.thresholds is None for part in contract.parts):
        yield f"{others}: the number of {party}'s records as a power of two"
    sensitive = sorted({part.sensitive for part in contract.parts if part.sensitive is not None})
    if sensitive:
        yield f"{others}: all values of {', '.join(sensitive)} that occur at any party, as the release will show them"
        yield f"coordinator: {party}'s own values of {', '.join(sensitive)}, before the release shows them"
    numbers = []  # that may lack bounds
    for name in qid_names(contract):
        known = schema[name] if schema is not None and name in schema else None
        if known is None or (
            known.kind != "categorical" and known.taxonomy is None and (known.lower is None or known.upper is None)
        ):
            numbers.append(name)
    if numbers:
        yield (
            f"{others}: of {', '.join(numbers)}, where numbers without bounds, how many decimals all parties' values "
            "have, whether one is negative, and the power of two above the largest"
        )
    yield "coordinator: that the session runs, its stage and how many cuts were tried"


def _figures(contract: Contract, secure: bool) -> dict[str, str]:
    names = ", ".join(column.name for column in contract.qid_columns)
    return {
        "losses": f"to the coordinator: how much {names} lost over this party's records, to 0.01 %; of 100 "
        "records or more how much of its information each kept, to 0.1 %"
        if secure
        else "none",
        "query_error": f"to the coordinator: the mean error of counting queries about {names} over this party's "
        "records, to 1 %, of 100 records or more"
        if secure
        else "none",
        "seconds": "to the coordinator: how long the protocol took here",
        "bytes": "to the coordinator: how many bytes and messages were sent",
        "steps": "not told",
    }


# --- terms --------------------------------------------------------------------------------------------------
# A collaboration's terms, read from its contract: criterion, requirement, columns.


def refuse_impossible(contract: Contract) -> None:
    """Raise for terms that no records can meet, before any record leaves its provider."""
    provider = provider_column(contract)
    if provider in contract.release_order:
        raise ParameterError(
            f'collaborate: the column of the providers is named "{provider}", and so is a column of the '
            "records; it needs another name"
        )
    if not qid_names(contract):
        raise ParameterError("collaborate: no attribute of the contract is in its requirement's QID")
    for part in contract.requirement.parts:
        shown = sorted({*columns_of(part.sensitive)} & {*qid_names(contract)}) if part.sensitive is not None else ()
        if shown:  # all values of a sensitive attribute are revealed on the way
            raise ParameterError(
                f"collaborate: {part} is about {', '.join(shown)}, which is generalised; it cannot be sensitive too"
            )
    if Collaboration.of(contract).at_public_places:
        qids_of(contract)
    else:
        algorithm_of(contract)


def provider_column(contract: Contract) -> str:
    """Return the column that names each record's provider."""
    if contract.provider is None:
        raise Bug("the contract is not one of a collaboration")
    return contract.provider


class Qid(NamedTuple):
    """A quasi-identifier, and the criterion of parts of its groups."""

    names: frozenset[str]
    criterion: Criterion


def qids_of(contract: Contract) -> list[list[Qid]]:
    """Return the QIDs with their criteria; those that are linked by common attributes together."""
    terms = Collaboration.of(contract)
    insist(terms.unknown_choice(contract.requirement.parts))
    found = []
    for parts in linked(without_redundant(contract.requirement.parts, covers_against_insiders)):
        by_qid: dict[frozenset[str], list[GroupRequirement]] = {}
        for part in parts:
            by_qid.setdefault(frozenset(part.qid), []).append(part)
        found.append(
            [
                Qid(
                    names,
                    Criterion.of(
                        len(contract.parties),
                        contract.m,
                        members,
                        third_party=terms.third_party,
                        provider_aware=bool(terms.provider_aware),
                    ),
                )
                for names, members in by_qid.items()
            ]
        )
    return found


def criteria_of(contract: Contract) -> list[Criterion]:
    """Return all criteria that parts are tested against."""
    return [qid.criterion for qids in qids_of(contract) for qid in qids]


def sensitive_names(criteria: Iterable[Criterion]) -> tuple[str, ...]:
    """Return the sensitive attributes that some criterion is about, each once."""
    return tuple(dict.fromkeys(name for criterion in criteria for name in criterion.attributes))


def algorithm_of(contract: Contract) -> TableMethod:
    """Return the algorithm that a trusted third party runs on all records; raise if it refuses the terms."""
    parts = without_redundant(requirement_of(contract).parts)
    made = Collaboration.of(contract).on_one_table(contract.class_name, parts)
    insist(made.refusals(parts, Schema(())))
    return made


def requirement_of(contract: Contract) -> MPrivacy:
    """Return what the release must satisfy, on a table that names each record's provider."""
    return MPrivacy(contract.m, contract.requirement, provider_column(contract))


def qid_names(contract: Contract) -> tuple[str, ...]:
    """Return the attributes that are generalised, in the order of the schema."""
    return tuple(column.name for column in contract.qid_columns)


def refuse_private_leaves(contract: Contract, schema: Schema) -> None:
    """Refuse flat taxonomies: their leaves are the data's own values, which nobody may know without a third party."""
    problems = [
        f'attribute {name}: a flat taxonomy is made of all providers\' values, which third_party = "secure" keeps '
        "apart; give a taxonomy file"
        for name in qid_names(contract)
        if schema[name].taxonomy == "flat"
        or (schema[name].kind == "categorical" and not isinstance(schema[name].taxonomy, Taxonomy))
    ]
    if problems:
        raise ParameterError(*problems)
