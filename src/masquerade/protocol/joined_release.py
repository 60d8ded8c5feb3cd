"""The release assembled from several parties' columns or rows: verified first, then measured and shuffled."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from masquerade.anonymize.outcome import Step
from masquerade.anonymize.release import Release, shuffled
from masquerade.data.coarsening import pruned
from masquerade.data.column import Generalised
from masquerade.data.continuum import Continuum
from masquerade.data.encode import distinct, texts
from masquerade.data.schema import Attribute
from masquerade.data.table import Origin, Table
from masquerade.data.taxonomy import Taxonomy
from masquerade.errors import PeerBrokeProtocol
from masquerade.privacy.boundary_check import violations_alone, with_violations
from masquerade.privacy.check import insist, verify
from masquerade.privacy.requirement import Requirement
from masquerade.protocol.attribute_terms import agreed_table
from masquerade.protocol.contract import Contract
from masquerade.protocol.method import Assembly
from masquerade.utility.comparison import Comparison
from masquerade.utility.losses import AttributeLoss
from masquerade.utility.queries import QueryError

_UNKNOWN = Continuum(
    np.empty(0, np.int64)
)  # nothing is measured here by a taxonomy, which an assembler may not have


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
) -> Release:
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
    release = provenance.kind.measured(
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
    return replace(release, columns=_drawn(assembly, released), boundaries=_named(contract))


def _named(contract: Contract) -> dict[str, tuple[str, ...]]:
    """Return the boundaries that the contract names, by attribute."""
    return {each.name: each.max_generalization for each in contract.attributes if each.max_generalization}


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
