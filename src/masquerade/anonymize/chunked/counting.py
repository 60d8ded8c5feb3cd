"""The classes of records by rank, which methods count over chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from masquerade.data.column import Column
from masquerade.data.records import Records, codes_of, ranks_of
from masquerade.engine.chunks import Chunk
from masquerade.engine.counts import Counts, pair_counts, value_counts


def class_counts(table: Records, columns: Sequence[Column], target: str | None) -> dict[str, Counts]:
    """Count the records with each rank and class, for each attribute; without a class all are of one."""
    n_classes = len(table.coded[target].labels) if target is not None else 1
    kernel = _ClassCounts(
        {column.name: column.domain.size for column in columns},
        codes_of(target) if target is not None else None,
        n_classes,
    )
    return dict(zip(kernel.sizes, table.chunks.total(kernel), strict=True))


@dataclass(frozen=True)
class _ClassCounts:
    sizes: Mapping[str, int]
    classes: str | None
    n_classes: int

    def __call__(self, chunk: Chunk) -> tuple[Counts, ...]:
        if self.classes is None:
            return tuple(
                value_counts(chunk[ranks_of(name)], size).reshape(-1, 1) for name, size in self.sizes.items()
            )
        classes = chunk[self.classes]
        return tuple(
            pair_counts(chunk[ranks_of(name)], classes, size, self.n_classes)
            for name, size in self.sizes.items()
        )
