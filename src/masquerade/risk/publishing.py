"""Choose the columns to publish, on all rows or on a sample of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from masquerade.data.table import Table
from masquerade.errors import AnswerIsNo, ParameterError
from masquerade.risk.coded_table import CodedTable
from masquerade.risk.ground import Ground, Measure, ratio
from masquerade.risk.masking import publishable
from masquerade.risk.partition import Partition, partition_by
from masquerade.risk.row_sample import Sampled, SampleSize, draw_pairs
from masquerade.risk.sample_sizes import least_sample_for_masking, masked_beta
from masquerade.risk.sampled_pairs import SampledPairs
from masquerade.risk.targets import at_most

if TYPE_CHECKING:
    from masquerade.risk.chunked_ground import ChunkedGround


@dataclass(frozen=True)
class Limit:
    """The ratio that no set of published columns may exceed; with a `sample`, but for a chance of `delta`."""

    measure: Measure
    beta: float
    sample: int | None = None  # tuples, or for the separation ratio pairs
    delta: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.beta <= 1:
            raise ParameterError(f"beta must be above 0 and at most 1; got {self.beta}")
        if self.delta is not None and not 0 < self.delta < 1:
            raise ParameterError(f"delta must be above 0 and below 1; got {self.delta}")
        if self.sample is not None and self.sample < 1:
            raise ParameterError(f"sample must be a whole number of at least 1; got {self.sample}")
        if (self.sample is None) != (self.delta is None):
            raise ParameterError("sample and delta belong together: give both, or none")

    def sample_rows(self) -> SampleSize:
        """How many rows a sample needs: tuples, or two for each pair."""
        each = 2 if self.measure == "separation" else 1
        return lambda rows: rows if self.sample is None else each * self.sample

    def within_sample(self, columns: int) -> float:
        """β′, the limit in a sample; refuse one that is too small to say anything."""
        assert self.sample is not None
        assert self.delta is not None
        limit = masked_beta(columns, self.sample, self.beta, self.delta)
        if limit <= 0:
            needed = least_sample_for_masking(columns, self.beta, self.delta)
            raise AnswerIsNo(
                f"a sample of {self.sample} is too small for {columns} columns, beta {self.beta} and delta "
                f"{self.delta}: nothing could be published; at least {needed} are needed, and more publish more"
            )
        return limit


@dataclass(frozen=True)
class Masked:
    """The columns that may be published together, in the order of the table."""

    published: tuple[str, ...]
    ratio: float
    measure: Measure
    sampled: int | None  # tuples, or for the separation ratio pairs; None if all rows were looked at
    withheld: tuple[str, ...]
    rows: int
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def summary(self) -> dict[str, Any]:
        """The JSON summary of `mask`."""
        return {
            "published": list(self.published),
            "ratio": self.ratio,
            "measure": self.measure,
            "sampled": self.sampled,
            "withheld": list(self.withheld),
            "rows": self.rows,
            "seconds": dict(self.seconds),
        }


def choose_columns(
    limit: Limit,
    held: Sampled,
    columns: tuple[str, ...],
    weights: list[float],
    *,
    always: tuple[str, ...] = (),
    never: tuple[str, ...] = (),
    seed: int = 7,
) -> Masked:
    """Choose among the columns; `always` are published whatever they tell apart, if that is within the limit."""
    table = CodedTable.of(Table(held.table), columns)
    whole, measure = Partition.of(table).whole, limit.measure
    size = limit.sample
    if size is not None and size >= whole.of(measure) and held.whole:
        size = None  # then all is looked at
    ground: Ground = Partition.of(table)
    beta = limit.beta
    if size is not None:
        beta = limit.within_sample(table.width)
        if measure == "separation":
            ground = SampledPairs.of(table, *draw_pairs(held.rows, size, held.sample, seed))
        else:
            ground = Partition.of(table.take(held.sample[:size]))
    chosen = _chosen(ground, table.names, weights, measure, beta, always, never)
    reached = ratio(partition_by(table, chosen).extent, whole, measure) if chosen else 0.0
    return _masked(table.names, chosen, reached, measure, size, held.rows)


def choose_columns_in_chunks(
    limit: Limit,
    ground: ChunkedGround,
    weights: list[float],
    *,
    always: tuple[str, ...] = (),
    never: tuple[str, ...] = (),
    seed: int = 7,
) -> Masked:
    """Choose among the columns of a table that stays in chunks; the reported ratio is that of all rows."""
    from masquerade.risk.chunked_rows import sampled_rows

    names, measure, whole = ground.names, limit.measure, ground.whole
    size, beta = limit.sample, limit.beta
    if size is not None and size >= whole.of(measure):
        size = None  # then all is looked at
    looked_at: Ground = ground
    if size is not None:
        beta = limit.within_sample(len(names))
        table = sampled_rows(ground, limit.sample_rows()(ground.rows), seed)
        looked_at = Partition.of(table)
        if measure == "separation":
            pairs = draw_pairs(ground.rows, size, np.arange(table.rows), seed)
            looked_at = SampledPairs.of(table, *pairs)
    chosen = _chosen(looked_at, names, weights, measure, beta, always, never)
    reached = ratio(ground.by(chosen).extent, whole, measure) if chosen else 0.0
    return _masked(names, chosen, reached, measure, size, ground.rows)


def _chosen(
    ground: Ground,
    names: tuple[str, ...],
    weights: list[float],
    measure: Measure,
    beta: float,
    always: tuple[str, ...],
    never: tuple[str, ...],
) -> list[int]:
    most = at_most(beta, ground.whole, measure)
    fixed = [names.index(name) for name in dict.fromkeys(always)]
    for column in fixed:
        ground = ground.refined(column)
    if fixed and ground.extent.of(measure) > most:
        share = ratio(ground.extent, ground.whole, measure)
        raise AnswerIsNo(
            f"{', '.join(always)}: to be published always, but their {measure} ratio is {share:.6g}; "
            f"at most {beta:.6g} is allowed"
        )
    free = [at for at, name in enumerate(names) if at not in fixed and name not in never]
    return sorted([*fixed, *publishable(ground, free, measure, most, weights)])


def _masked(
    names: tuple[str, ...], chosen: list[int], reached: float, measure: Measure, size: int | None, rows: int
) -> Masked:
    withheld = tuple(name for at, name in enumerate(names) if at not in chosen)
    return Masked(tuple(names[at] for at in chosen), reached, measure, size, withheld, rows)
