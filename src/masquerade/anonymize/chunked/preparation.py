"""The first step of every method on chunks: refuse what the method, the requirement or the table does not allow.

Where attributes have boundaries, records that no release within them can hold are left out, as on one table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from masquerade.anonymize.chunked.boundaries import reachable
from masquerade.anonymize.method import TableMethod, insist
from masquerade.anonymize.outcome import Outcome, ReleasedCodes, Step
from masquerade.anonymize.preparation import (
    hopeless_at_once,
    parts_for,
    refuse_violating_whole,
    unreachable_within_boundaries,
)
from masquerade.data.column import Column, Generalised
from masquerade.data.records import Records, with_products
from masquerade.engine.chunks import Chunks
from masquerade.privacy.requirement import GroupRequirement, Requirement


@dataclass(frozen=True, eq=False)
class PreparedChunks:
    """The columns to generalise, and the requirements that must hold afterwards."""

    table: Records  # the records that all this is about
    parts: tuple[GroupRequirement, ...]
    columns: tuple[Column, ...]  # in the order of the schema
    chunks: Chunks | None = None  # of those records, where they are not all

    def outcome(
        self,
        columns: Iterable[Generalised],
        codes: Mapping[str, ReleasedCodes],
        steps: tuple[Step, ...] = (),
        released: str | None = None,
    ) -> Outcome:
        """Return what a method made of it; the codes are in the chunks."""
        return Outcome(tuple(columns), steps, codes=codes, released=released, chunks=self.chunks)


def prepare_chunks(table: Records, requirement: Requirement, method: TableMethod) -> PreparedChunks:
    """Refuse what cannot be done, and of a method that keeps to boundaries leave out who violates even at them."""
    parts = parts_for(table.schema, requirement, method)
    insist(method.chunk_refusals(parts))
    table = with_products(table, (part.sensitive for part in parts))
    for part in parts:
        part.bind(table.coded[part.sensitive].labels if part.sensitive is not None else ())
    sensitive = {name: (table.whole[name], coded.labels) for name, coded in table.coded.items()}
    judged = hopeless_at_once(parts, method.leaves_out)
    refuse_violating_whole(table.name, len(table), judged, sensitive)
    columns = tuple(table.columns[name] for name in table.schema.names if name in table.columns)
    if method.boundaries == "ignored":
        columns = tuple(replace(column, boundary=None) for column in columns)
    if all(column.boundary is None for column in columns):
        return PreparedChunks(table, parts, columns)
    left = reachable(table, parts, columns, whole_columns=method.boundaries == "columns")
    if not len(left):
        raise unreachable_within_boundaries(table.name, parts)
    return PreparedChunks(left, parts, columns, None if left is table else left.chunks)
