"""Hand an auditor the key to the table that a contract commits this party to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from masquerade.audit.log import AuditLog
from masquerade.data.table import Table
from masquerade.errors import Conflict, ParameterError, hint
from masquerade.files import PRIVATE, write_new
from masquerade.job.tables import section_file
from masquerade.service.ledger import Ledger
from masquerade.service.node.settings import Settings
from masquerade.service.node.state import State
from masquerade.service.signing import SignedContract
from masquerade.service.snapshot_key import SnapshotKey, key_of, provision_of


def hand_out(
    settings: Settings,
    contract: SignedContract,
    out: Path,
    column: str | None,
    table: str | None,
    said_by: Mapping[str, Any],
) -> SnapshotKey:
    """Write the key of this party's table in a contract, or of one column, to a new file; the audit log notes it.

    `table` is a copy of the table as it was then. Conflict when neither is what the contract commits to.
    """
    if out.exists():  # before anything is noted
        raise ParameterError(f"{out}: exists already, and is not overwritten")
    provision = provision_of(contract, settings.name)
    known = settings.datasets
    if provision.dataset not in known:
        listed = f"{hint(provision.dataset, known)}; there are {', '.join(known)}"
        raise ParameterError(f'{settings.path}: there is no dataset "{provision.dataset}"{listed}')
    dataset, state = known[provision.dataset], State(settings.state)
    section, base = dataset.section, dataset.base
    if table is not None:
        section, base = section.model_copy(update={"source": table, "query": None}), Path()
    source = section_file(section, base).read(dataset.columns)
    state.make()
    found = key_of(
        Table(source.table, origin=source.origin),
        state.secret(dataset.name, Ledger.load(state.ledger).releases(dataset.name)),
        party=settings.name,
        dataset=dataset.name,
        column=column,
        separator=section.separator,
        encoding=section.encoding,
    )
    if found.snapshot != provision.snapshot:
        raise Conflict(
            f"{source.origin.name}: is not the table that the contract commits to (snapshot {found.snapshot[:12]}, the "
            f"contract has {provision.snapshot[:12]}); give a copy of what it was then, with --table"
        )
    with AuditLog(state.audit, settings.identity) as audit:  # before it is there
        told = {"dataset": dataset.name, "snapshot": found.snapshot, "column": column}
        audit.append("snapshot key", {**told, **said_by})
    write_new(out, msgspec.json.encode(found) + b"\n", PRIVATE)
    return found
