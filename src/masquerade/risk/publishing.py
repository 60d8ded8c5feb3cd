"""Choose the columns to publish, on all rows or on a sample of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from masquerade.errors import AnswerIsNo, ParameterError
from masquerade.risk.masking import publishable
from masquerade.risk.row_sample import SampleSize
from masquerade.risk.sample_sizes import least_sample_for_masking, masked_beta
from masquerade.risk.sampled_pairs import sample_of
from masquerade.risk.separation import CodedRows, Measure, SeparatedRows, Separation, ratio
from masquerade.risk.targets import at_most


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
    rows: CodedRows,
    weights: list[float],
    *,
    always: tuple[str, ...] = (),
    never: tuple[str, ...] = (),
    seed: int = 7,
) -> Masked:
    """Choose among the columns; `always` are published whatever they tell apart, if that is within the limit.

    The ratio is that of all rows, also where a sample decides; of the sample where that is all there is.
    """
    names, measure, whole = rows.names, limit.measure, rows.whole
    everything = SeparatedRows.of(rows)
    size, beta = limit.sample, limit.beta
    looked_at: Separation = everything
    if size is not None and size >= whole.of(measure) and rows.rows == rows.rows_read:
        size = None  # then all is looked at
    if size is not None:
        beta = limit.within_sample(rows.width)
        looked_at = sample_of(rows, measure, size, seed)
    chosen = _chosen(looked_at, names, weights, measure, beta, always, never)
    return Masked(
        tuple(names[at] for at in chosen),
        ratio(everything.by(chosen).extent, whole, measure) if chosen else 0.0,
        measure,
        size,
        tuple(name for at, name in enumerate(names) if at not in chosen),
        rows.rows_read,
    )


def _chosen(
    separation: Separation,
    names: tuple[str, ...],
    weights: list[float],
    measure: Measure,
    beta: float,
    always: tuple[str, ...],
    never: tuple[str, ...],
) -> list[int]:
    most = at_most(beta, separation.whole, measure)
    fixed = [names.index(name) for name in dict.fromkeys(always)]
    for column in fixed:
        separation = separation.refined(column)
    if fixed and separation.extent.of(measure) > most:
        share = ratio(separation.extent, separation.whole, measure)
        raise AnswerIsNo(
            f"{', '.join(always)}: to be published always, but their {measure} ratio is {share:.6g}; "
            f"at most {beta:.6g} is allowed"
        )
    free = [at for at, name in enumerate(names) if at not in fixed and name not in never]
    return sorted([*fixed, *publishable(separation, free, measure, most, weights)])
