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
from typing import Any

import numpy as np
import pyarrow as pa

from masquerade.anonymize import VerifiedRelease, shuffled
from masquerade.data import Attribute, Continuum, Generalised, Origin, Step, Table, Taxonomy, distinct, pruned, texts
from masquerade.errors import PeerBrokeProtocol
from masquerade.net import Receive, Script, Send
from masquerade.privacy import Requirement, insist, verify, violations_alone, with_violations
from masquerade.protocol.contract import Contract, agreed_table
from masquerade.protocol.hand_in import PERCENT, Columns, Received, read_columns, restored, write_columns
from masquerade.protocol.method import Assembly
from masquerade.utility import AttributeLoss, Comparison, QueryError, joined_error

# --- joined release -----------------------------------------------------------------------------------------
# The release assembled from several parties' columns or rows: verified first, then measured and shuffled.

_UNKNOWN = Continuum(np.empty(0, np.int64))  # nothing is measured here by a taxonomy, which an assembler may not have


def joined_release(
    assembly: Assembly,
    requirement: Requirement,
    cells: pa.Table,
    losses: Mapping[str, AttributeLoss],
    *,
    dropped: tuple[str, ...],
    settings: Mapping[str, Any],
    seconds: dict[str, float],
    steps: tuple[Step, ...] = (),
    suppressed: int = 0,
    query_error: QueryError | None = None,
) -> VerifiedRelease:
    """Make a release of cells that satisfy the requirement; raise `RequirementViolated` for others.

    A column that names each record's provider is verified with them, and then dropped unless the contract keeps it. The
    report draws the released values on the taxonomies that the assembler has (`masquerade mashup` has the job's; a
    coordinator none), and marks the boundaries of the contract. Parties hand in no taxonomy for it: its inner nodes are
    in no released cell, and would be told to whoever reads the report.
    """
    started = time.perf_counter()
    contract, provenance = assembly.contract, assembly.provenance
    table = Table(cells, origin=Origin("the joined release"))
    verdicts = verify(table, requirement, bind=False)
    if contract.bounded:
        verdicts = with_violations(verdicts, _beyond(assembly, cells), table.origin.name)
    insist(verdicts)
    released = tuple(_generalised(column.name, cells) for column in contract.qid_columns)
    classes = table.coded(contract.class_name) if contract.class_name is not None else None
    # No holder hands in a column that is beyond its boundaries.
    told = 0 if contract.bounded else None
    comparison = Comparison((), released, classes, None, contract.weights, suppressed, told)
    withheld = [] if contract.provider is None or contract.keep_provider else [contract.provider]
    release = VerifiedRelease.measured(
        shuffled(cells.drop_columns(withheld)),
        verdicts,
        comparison,
        losses,
        steps=steps,
        rows=rows_read(assembly, comparison),
        dropped_rows=provenance.dropped_rows,
        dropped=dropped,
        settings={**parties_of(contract), "class": contract.class_name, **settings, **provenance.settings},
        seconds=seconds,
        providers=table.coded(contract.provider) if contract.provider is not None else None,
        query_error=query_error,
    )
    release.seconds["verify"] = time.perf_counter() - started
    named = {each.name: each.max_generalization for each in contract.attributes if each.max_generalization}
    return replace(release, columns=_drawn(assembly, released), boundaries=named)


def _drawn(assembly: Assembly, released: tuple[Generalised, ...]) -> tuple[Generalised, ...]:
    """Return the columns on the taxonomies that are known here, for the report; the others as they are."""
    if assembly.schema is None:
        return released
    agreed = agreed_table(Table(pa.table({}), assembly.schema), assembly.contract.attributes).schema
    return tuple(_on_taxonomy(column, agreed[column.name]) for column in released)


def _on_taxonomy(column: Generalised, attribute: Attribute) -> Generalised:
    taxonomy = attribute.taxonomy
    if not isinstance(taxonomy, Taxonomy):
        return column
    if attribute.min_generalization:
        taxonomy = pruned(taxonomy, attribute.min_generalization)[0]
    found = [covered for label in column.labels if (covered := taxonomy.range_of(label)) is not None]
    if len(found) < len(column.labels):  # raw cells of intervals, or a missing one that is kept
        return column
    lo, hi = np.array(found, np.int64).reshape(-1, 2).T
    return replace(column, lo=lo, hi=hi, domain=taxonomy)


def _beyond(assembly: Assembly, cells: pa.Table) -> Mapping[str, int]:
    """Count the cells beyond their boundary, as far as the release tells and the taxonomies are known here."""
    if assembly.schema is None:
        return {}
    table = agreed_table(Table(cells, assembly.schema), assembly.contract.attributes)
    return violations_alone(table, assembly.contract.bounded).certain


def rows_read(assembly: Assembly, comparison: Comparison) -> int:
    """Return the number of records read: those of all providers together, or for a join the common ones."""
    joined = assembly.contract.provider is None
    return comparison.rows if joined else comparison.rows + (assembly.provenance.dropped_rows or 0)


def parties_of(contract: Contract) -> dict[str, Any]:
    """Return the parties and the contract's hash, for the release's settings."""
    return {
        "source": " and ".join(contract.parties),
        "parties": list(contract.parties),
        "contract": contract.hash.hex(),
        "method": contract.method,
        **({} if contract.choice is None else {"choice": contract.choice.summary()}),
    }


def check_losses(party: str, attributes: set[str], losses: Mapping[str, AttributeLoss]) -> None:
    """Refuse a party's figures unless they can be losses, and of exactly these attributes."""
    if set(losses) != attributes:
        raise PeerBrokeProtocol(party, "told figures of other attributes than it handed in")
    if not all(loss.fits() for loss in losses.values()):
        raise PeerBrokeProtocol(party, "told a loss that no column can have")


def _generalised(name: str, cells: pa.Table) -> Generalised:
    codes, values = distinct(cells.column(name))
    nowhere = np.zeros(len(values), np.int64)
    return Generalised(name, codes, tuple(texts(values).to_pylist()), nowhere, nowhere, _UNKNOWN)


# --- assemble -----------------------------------------------------------------------------------------------

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
        read_columns(message, party, contract.release_order, contract.most_records) for party, message in handed.items()
    ]
    if len({write_columns(table.combine_chunks()) for table in tables}) > 1:
        raise PeerBrokeProtocol("", f"{' or '.join(handed)} handed in another table than was joined")
    return tables[0]


def assemble(
    assembly: Assembly, settings: Mapping[str, str] | None = None, join: Join = side_by_side
) -> Script[VerifiedRelease]:
    """Make the verified release from all parties' columns; `settings` are the method's additions to the release's."""
    contract = assembly.contract
    handed: dict[str, Columns] = {}
    for name in contract.parties:
        handed[name] = yield Receive(name, Columns)
    cells = join(contract, handed)
    for party, columns in handed.items():
        own = {column.name for column in contract.qid_columns if column.holder == party}
        check_losses(party, own, columns.losses)
    # The back ends that computed joint histograms, transfers first.
    ways = sorted({way for columns in handed.values() for way in columns.histograms_by}, reverse=True)
    # Of queries the mean error over the parties' own columns, each column weighing the same.
    weights = Counter(column.holder for column in contract.qid_columns)
    told = [handed[party].query_error for party in weights]
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
        query_error=joined_error(told, list(weights.values()), "each party's own columns"),
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
            raise PeerBrokeProtocol(party, f"reported {number} suppressed records where {first[0]} reported {first[1]}")
    return first[1]


def _steps(handed: dict[str, Columns]) -> tuple[Step, ...]:
    reported = [(step, party) for party, columns in handed.items() for step in columns.steps]
    reported.sort(key=lambda each: each[0].round)
    return tuple(Step(step.attribute, step.value, step.children, step.score, party) for step, party in reported)
