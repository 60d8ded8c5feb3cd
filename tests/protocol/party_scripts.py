"""A party's script by its contract's method, as a party process and a node start it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import masquerade as mq
from masquerade.methods import method_of
from masquerade.net import Script
from masquerade.protocol import ASSEMBLER, Assembly, Contract, Participant


def party_script(
    name: str, contract: Contract, table: mq.Table, ids: Sequence[bytes] = (), **hooks: Any
) -> Script[int]:
    return method_of(contract).party(Participant(name, contract, table, ids, **hooks))


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
