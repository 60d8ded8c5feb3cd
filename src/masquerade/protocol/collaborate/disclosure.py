"""What a horizontal contract lets leave this machine, with a trusted third party or without (docs/leakage.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from masquerade.data.schema import Schema
from masquerade.privacy.requirement import GroupRequirement
from masquerade.protocol.collaborate.method import Collaboration
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


def disclosed(terms: Collaboration, contract: Contract, party: str, schema: Schema | None) -> Disclosure:
    """Return all that leaves this provider."""
    secure = terms.third_party == "secure"
    return Disclosure(
        columns=tuple(_columns(contract, contract.requirement.parts, schema, secure)),
        class_column=_class(contract),
        peers_learn=tuple(_peers_learn(contract, party, terms, schema)),
        figures=_figures(contract, secure),
        stays=_stays(secure),
        protocol={
            "kind": "horizontal",
            "m": str(contract.m),
            "third_party": terms.third_party,
            "provider_aware": "yes" if terms.provider_aware else "no",
        },
    )


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
            yield DisclosedColumn(
                column.name,
                "as it is",
                "the raw cell of each record, byte for byte",
                about,
                {
                    COORDINATOR: "the raw cells, as this party's",
                    RECIPIENTS: "the raw cells, shuffled with those of all parties",
                },
            )


def _class(contract: Contract) -> DisclosedClass | None:
    if contract.class_name is None:
        return None
    shown = {
        COORDINATOR: "the raw cells, as this party's",
        RECIPIENTS: "the raw cells, shuffled with those of all parties",
    }
    return DisclosedClass(contract.class_name, True, shown)


def _peers_learn(
    contract: Contract, party: str, terms: Collaboration, schema: Schema | None
) -> Iterator[str]:
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
    numbers = [
        column.name
        for column in contract.qid_columns
        if schema is None or column.name not in schema or _is_open(schema, column.name)
    ]
    if numbers:
        yield (
            f"{others}: of {', '.join(numbers)}, where numbers without bounds, how many decimals all parties' values "
            "have, whether one is negative, and the power of two above the largest"
        )
    yield "coordinator: that the session runs, its stage and how many cuts were tried"


def _is_open(schema: Schema, name: str) -> bool:
    attribute = schema[name]
    if attribute.kind == "categorical" or attribute.taxonomy is not None:
        return False
    return attribute.lower is None or attribute.upper is None


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


def _stays(secure: bool) -> tuple[str, ...]:
    always = (
        "identifiers, in any form",
        "rows with a missing cell in a used column",
        "every other column, and its name",
        "which released record is this party's: recipients are not told",
    )
    return (*always, "QID attributes finer than the release has them") if secure else always
