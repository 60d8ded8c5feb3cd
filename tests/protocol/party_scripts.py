"""A party's script by its contract's method, as a party process and a node start it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import masquerade as mq
from masquerade.methods import method_of, written_method
from masquerade.net import Script
from masquerade.protocol import (
    ASSEMBLER,
    Assembly,
    Contract,
    Contribution,
    Participant,
    SessionMethod,
    written_requirement,
)


def party_script(
    name: str, contract: Contract, table: mq.Table, ids: Sequence[bytes] = (), **hooks: Any
) -> Script[int]:
    return method_of(contract).party(Participant(name, contract, table, ids, **hooks))


def contract_for(
    requirement: mq.Requirement,
    holders: Mapping[str, str],
    method: SessionMethod,
    *,
    sensitive: Mapping[str, str] | None = None,
    **terms: Any,
) -> Contract:
    """A contract over attributes and sensitive columns, each with its holder; all holders in order are the parties."""
    columns = [Contribution(name, holder, "attribute") for name, holder in holders.items()]
    columns += [Contribution(name, holder, "sensitive") for name, holder in (sensitive or {}).items()]
    fitted = method.fitted(requirement.parts, terms.get("m", 0), terms.get("class_name"))
    return Contract(
        parties=terms.pop("parties", tuple(sorted({each.holder for each in columns}))),
        columns=tuple(columns),
        requirements=tuple(written_requirement(part) for part in requirement.parts),
        method=written_method(fitted),
        **terms,
    )


def session_scripts(
    contract: Contract, own: mq.Table | Mapping[str, mq.Table], schema: mq.Schema | None = None, **hooks: Any
) -> dict[str, Any]:
    """Those of all parties and of the assembler; where all have one table, its rows are the people they share."""
    tables = dict.fromkeys(contract.parties, own) if isinstance(own, mq.Table) else own
    scripts: dict[str, Any] = {}
    for name, table in tables.items():
        ids = [b"%d" % row for row in range(len(table))] if contract.provider is None else ()
        scripts[name] = party_script(name, contract, table, ids, **hooks)
    return {**scripts, ASSEMBLER: method_of(contract).assembler(Assembly(contract, schema))}
