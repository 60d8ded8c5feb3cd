"""The assembler: joins the parties' columns, shuffles them, checks them, and only then releases them.

It is no party. It sees the cells of the release in the common order, derived from the parties' secrets, and the figures
of the summary; it shuffles the rows with randomness of its own, so that no party finds its people by position. Where
the parties have joined their columns themselves, it sees the rows in no order of theirs.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

import pyarrow as pa

from masquerade.anonymize.outcome import Step
from masquerade.anonymize.release import Release
from masquerade.errors import PeerBrokeProtocol
from masquerade.net.script import Receive, Script, Send
from masquerade.protocol.columns import Columns, Received, read_columns, restored, write_columns
from masquerade.protocol.contract import Contract
from masquerade.protocol.gain import PERCENT
from masquerade.protocol.joined_release import check_losses, joined_release
from masquerade.protocol.method import Assembly
from masquerade.utility.queries import QueryError, joined_error

Join = Callable[[Contract, Mapping[str, Columns]], pa.Table]  # of what each party handed in


def side_by_side(contract: Contract, handed: Mapping[str, Columns]) -> pa.Table:
    """Return all columns in the joint order, of which each party handed in its own, in the common order of records."""
    parts: dict[str, pa.ChunkedArray] = {}
    rows: int | None = None
    qid = {column.name for column in contract.qid_columns}
    for party, message in handed.items():
        names = contract.handed_in_by(party)
        table = read_columns(message, party, names, contract.most_records)
        if rows is not None and table.num_rows != rows:
            raise PeerBrokeProtocol(party, f"sent {table.num_rows} records where others sent {rows}")
        if names:
            rows = table.num_rows
        for name in names:
            parts[name] = restored(table.column(name), generalised=name in qid)
    return pa.table({name: parts[name] for name in contract.release_order})


def already_joined(contract: Contract, handed: Mapping[str, Columns]) -> pa.Table:
    """Return the table that every party handed in whole."""
    tables = [
        read_columns(message, party, contract.release_order, contract.most_records)
        for party, message in handed.items()
    ]
    if len({write_columns(table.combine_chunks()) for table in tables}) > 1:
        raise PeerBrokeProtocol("", f"{' or '.join(handed)} handed in another table than was joined")
    return tables[0]


def assemble(
    assembly: Assembly, settings: Mapping[str, str] | None = None, join: Join = side_by_side
) -> Script[Release]:
    """Make the verified release from all parties' columns; `settings` are the method's additions to the release's."""
    contract = assembly.contract
    handed: dict[str, Columns] = {}
    for name in contract.parties:
        handed[name] = yield Receive(name, Columns)
    cells = join(contract, handed)
    for party, columns in handed.items():
        own = {column.name for column in contract.qid_columns if column.holder == party}
        check_losses(party, own, columns.losses)
    ways = _histograms_by(handed)
    release = joined_release(
        assembly,
        contract.requirement,
        cells,
        {name: loss for columns in handed.values() for name, loss in columns.losses.items()},
        dropped=tuple(dict.fromkeys(name for columns in handed.values() for name in columns.left_out)),
        settings={**(settings or {}), **({"joint_histogram": " and ".join(ways)} if ways else {})},
        seconds={
            part: max(columns.seconds.get(part, 0.0) for columns in handed.values())
            for part in ("align", "prepare", "protocol")
            if part != "prepare" or any(part in columns.seconds for columns in handed.values())
        },
        steps=_steps(handed),
        suppressed=_suppressed(handed),
        query_error=_query_error(contract, handed),
    )
    if assembly.judge is not None and contract.class_name is not None:
        started = time.perf_counter()
        release = replace(release, error=assembly.judge(release.table, contract.class_name))
        release.seconds["evaluate"] = time.perf_counter() - started
    percent = None if release.error is None else round(PERCENT * release.error)
    yield Send(contract.parties, Received(percent))
    return release


def _suppressed(handed: dict[str, Columns]) -> int:
    """Return how many common records are not released; all parties must report the same number."""
    reported = {party: columns.suppressed for party, columns in handed.items()}
    first, *others = reported.items()
    for party, number in others:
        if number != first[1]:
            raise PeerBrokeProtocol(
                party, f"reported {number} suppressed records where {first[0]} reported {first[1]}"
            )
    return first[1]


def _query_error(contract: Contract, handed: dict[str, Columns]) -> QueryError | None:
    """Return the mean over the parties' own columns, each column weighing the same."""
    weights = Counter(column.holder for column in contract.qid_columns)
    told = [handed[party].query_error for party in weights]
    return joined_error(told, list(weights.values()), "each party's own columns")


def _histograms_by(handed: dict[str, Columns]) -> list[str]:
    """Return the back ends that computed joint histograms, transfers first."""
    return sorted({way for columns in handed.values() for way in columns.histograms_by}, reverse=True)


def _steps(handed: dict[str, Columns]) -> tuple[Step, ...]:
    reported = [(step, party) for party, columns in handed.items() for step in columns.steps]
    reported.sort(key=lambda each: each[0].round)
    return tuple(
        Step(step.attribute, step.value, step.children, step.score, party) for step, party in reported
    )
