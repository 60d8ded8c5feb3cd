"""The measures of a release in chunks (`utility/measures.py`): those that counts tell."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade.anonymize.chunked.counting import CountedComparison
from masquerade.anonymize.outcome import Outcome
from masquerade.data.query_log import QueryLog, kept_query_log
from masquerade.data.records import KEPT, Records, TablePart, Wanted, complete_rows
from masquerade.engine.chunks import Chunk
from masquerade.engine.counts import Counts
from masquerade.utility.comparison import Comparison
from masquerade.utility.measures import (
    NEEDING_WORKLOAD,
    SELECTION_PRECISION,
    WEIGHTED_OVERLAP,
)
from masquerade.utility.metrics import measure, weighted_overlap
from masquerade.utility.workload import SelectionMeasurer, Selections, selections_of


def figure(
    name: str,
    table: Records,
    outcome: Outcome,
    comparison: CountedComparison,
    workload: str | None = None,
) -> float | None:
    """Return one of the counted measures of a release; None where it does not apply."""
    if name in NEEDING_WORKLOAD:
        if workload is None:
            return None
        found = selections(table, outcome, workload)
        return found.precision if name == SELECTION_PRECISION else found.recall
    if name == WEIGHTED_OVERLAP:
        return weighted_overlap(comparison)
    return measure(comparison)[name]


def selections(table: Records, outcome: Outcome, workload: str) -> Selections:
    """Return how exactly a release answers which records a workload's selections mean."""
    log = kept_query_log(workload)
    kernels = [_CountSelections(part, table.wanted, outcome, log) for part in table.parts]
    counts: Counts = np.sum(table.chunks.each(kernels), axis=0)
    return selections_of(log, counts)


def purpose(
    table: Records, outcome: Outcome, comparison: CountedComparison, workload: str | None
) -> dict[str, float | None]:
    """Measure what the weights and the workload are about; nothing where all attributes weigh the same, or none."""
    weighted = len(set(comparison.weights.values())) > 1
    names = (*([WEIGHTED_OVERLAP] if weighted else []), *(NEEDING_WORKLOAD if workload is not None else ()))
    return {name: figure(name, table, outcome, comparison, workload) for name in names}


@dataclass(frozen=True, eq=False)
class _CountSelections:
    """Counts what a workload's selections mean among the records of a chunk, which are read once more."""

    part: TablePart
    wanted: Wanted
    outcome: Outcome
    log: QueryLog

    def __call__(self, chunk: Chunk) -> Counts:
        complete = complete_rows(self.part, self.wanted)
        rows = self.outcome.rows(chunk)
        released = tuple(
            replace(column, codes=_of(rows, self.outcome.codes[column.name](chunk)))
            for column in self.outcome.columns
        )
        kept = None
        if (source := chunk.get(KEPT)) is not None or rows is not None:
            here = complete.source_rows
            everybody = np.arange(len(complete)) if here is None else here
            kept = np.searchsorted(everybody, _of(rows, everybody if source is None else source))
        return SelectionMeasurer(complete, self.log).counts(Comparison((), released, None, kept, {}))


def _of(rows: NDArray[np.intp] | None, values: NDArray[Any]) -> NDArray[Any]:
    return values if rows is None else values.take(rows)
