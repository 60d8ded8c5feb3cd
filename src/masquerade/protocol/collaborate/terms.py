"""A collaboration's terms, read from its contract: criterion, requirement, columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from masquerade.anonymize.method import TableMethod, insist
from masquerade.anonymize.mondrian.qids import linked
from masquerade.data.product import columns_of
from masquerade.data.schema import Schema
from masquerade.data.taxonomy import Taxonomy
from masquerade.errors import Bug, ParameterError
from masquerade.privacy.m_privacy.requirement import MPrivacy
from masquerade.privacy.requirement import GroupRequirement, covers_against_insiders, without_redundant
from masquerade.protocol.collaborate.criterion import Criterion
from masquerade.protocol.collaborate.method import Collaboration
from masquerade.protocol.contract import Contract


def refuse_impossible(contract: Contract) -> None:
    """Raise for terms that no records can meet, before any record leaves its provider."""
    provider = provider_column(contract)
    if provider in column_names(contract):
        raise ParameterError(
            f'collaborate: the column of the providers is named "{provider}", and so is a column of the '
            "records; it needs another name"
        )
    if not qid_names(contract):
        raise ParameterError("collaborate: no attribute of the contract is in its requirement's QID")
    for part in contract.requirement.parts:
        shown = (
            sorted({*columns_of(part.sensitive)} & {*qid_names(contract)})
            if part.sensitive is not None
            else ()
        )
        if shown:  # all values of a sensitive attribute are revealed on the way
            raise ParameterError(
                f"collaborate: {part} is about {', '.join(shown)}, which is generalised; it cannot be sensitive too"
            )
    if collaboration_of(contract).at_public_places:
        qids_of(contract)
    else:
        algorithm_of(contract)


def collaboration_of(contract: Contract) -> Collaboration:
    """Return the method that the providers agreed on."""
    return Collaboration.of(contract)


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
    terms = collaboration_of(contract)
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


def stand_alone(criteria: Sequence[Criterion]) -> bool:
    """Return whether the verdict on a group depends on its own records alone, even where others are left out."""
    return len(criteria) == 1 and not criteria[0].compares_with_whole


def sensitive_names(criteria: Iterable[Criterion]) -> tuple[str, ...]:
    """Return the sensitive attributes that some criterion is about, each once."""
    return tuple(dict.fromkeys(name for criterion in criteria for name in criterion.attributes))


def algorithm_of(contract: Contract) -> TableMethod:
    """Return the algorithm that a trusted third party runs on all records; raise if it refuses the terms."""
    parts = without_redundant(requirement_of(contract).parts)
    made = collaboration_of(contract).on_one_table(contract.class_name, parts)
    insist(made.refusals(parts, Schema(())))
    return made


def requirement_of(contract: Contract) -> MPrivacy:
    """Return what the release must satisfy, on a table that names each record's provider."""
    return MPrivacy(contract.m, contract.requirement, provider_column(contract))


def qid_names(contract: Contract) -> tuple[str, ...]:
    """Return the attributes that are generalised, in the order of the schema."""
    return tuple(column.name for column in contract.qid_columns)


def column_names(contract: Contract) -> tuple[str, ...]:
    """Return the columns that every provider hands in: attributes, class, sensitive."""
    names = [column.name for column in contract.columns if column.role == "attribute"]
    names += [contract.class_name] if contract.class_name is not None else []
    names += [column.name for column in contract.columns if column.role == "sensitive"]
    return tuple(dict.fromkeys(names))


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
