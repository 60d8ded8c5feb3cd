"""Methods side by side: each with its few settings, what its release of a table keeps, and how well it hides.

Every release is verified like one that is published; none of them leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from masquerade.anonymize.candidates import candidates
from masquerade.anonymize.method import TableMethod
from masquerade.anonymize.publish import Anonymised, anonymised
from masquerade.data.query_log import kept_query_log
from masquerade.data.table import Missing, Table
from masquerade.errors import ParameterError, Problem, RequirementUnreachable
from masquerade.plugins import failure_of
from masquerade.privacy.reidentification import ReidentificationRisk, reidentification_risk
from masquerade.privacy.requirement import Requirement
from masquerade.utility.measures import (
    CLASSIFICATION_ERROR,
    CLASSIFICATION_METRIC,
    NCP,
    NEEDING_WORKLOAD,
    QUERY_ERROR,
    Measurer,
    cost,
    usual_measure,
)

# The figures to begin with; a table of all of them is too wide to read.
_HEADLINE = (NCP, "information_kept", QUERY_ERROR, CLASSIFICATION_ERROR, *NEEDING_WORKLOAD)


@dataclass(frozen=True)
class Row:
    """One method with its settings, and what came of it."""

    method: Mapping[str, Any]  # its name and parameters
    k: int | None  # the size of a group that was asked for, where the requirement has a k
    metrics: Mapping[str, float | None]
    risk: ReidentificationRisk
    released: int
    suppressed: int
    groups: int
    seconds: float  # from ranks to verified groups

    @property
    def name(self) -> str:
        """The method's name."""
        return str(self.method["name"])

    @property
    def settings(self) -> dict[str, Any]:
        """The requirement's k and the method's parameters."""
        own = {key: value for key, value in self.method.items() if key != "name"}
        return own if self.k is None else {"k": self.k, **own}

    def summary(self) -> dict[str, Any]:
        """Return the row's entry in the JSON summary."""
        return {
            "method": self.name,
            "settings": self.settings,
            "metrics": dict(self.metrics),
            "risk": self.risk.summary(),
            "released": self.released,
            "suppressed": self.suppressed,
            "groups": self.groups,
            "seconds": self.seconds,
        }


@dataclass(frozen=True)
class SideBySide:
    """All rows, the methods that could not take part with the reasons, and the measure that matters most."""

    rows: tuple[Row, ...]
    refused: Mapping[str, tuple[Problem, ...]]  # by method
    measure: str
    source: str  # the table's name

    @property
    def best(self) -> tuple[Row, ...]:
        """The best row by the measure, for each k."""
        found: dict[int | None, tuple[float, Row]] = {}
        for row in self.rows:
            value = row.metrics[self.measure]
            if value is not None and (row.k not in found or cost(self.measure, value) < found[row.k][0]):
                found[row.k] = cost(self.measure, value), row
        return tuple(row for _, row in found.values())

    @property
    def headline(self) -> tuple[str, ...]:
        """The figures to begin with: that by which the best is named, then the usual ones that there are."""
        names = dict.fromkeys((self.measure, *_HEADLINE))
        return tuple(
            name
            for name in names
            if name == self.measure or any(row.metrics.get(name) is not None for row in self.rows)
        )

    @property
    def summary(self) -> dict[str, Any]:
        """Return the JSON summary."""
        return {
            "rows": [row.summary() for row in self.rows],
            "measure": self.measure,
            "best": [{"method": row.name, "settings": row.settings} for row in self.best],
            "refused": [
                {"method": name, "problems": [str(each) for each in problems]}
                for name, problems in self.refused.items()
            ],
        }


def side_by_side(
    table: Table,
    requirement: Requirement,
    methods: Sequence[type[TableMethod]],
    *,
    ks: Sequence[int] = (),
    target: str | None = None,
    sensitive: Sequence[str] = (),
    missing: Missing = "drop",
    seed: int = 7,
    workload: str | None = None,
    on_method: Callable[[TableMethod, int | None], None] | None = None,
) -> SideBySide:
    """Run every setting of every method that fits, for the requirement as it is or for each of `ks`.

    `RequirementUnreachable` when that is so of all of them; a `ParameterError` when every method refuses.
    """
    refused: dict[str, tuple[Problem, ...]] = {}
    rows: list[Row] = []
    first: RequirementUnreachable | None = None
    measurer: Measurer | None = None
    log = kept_query_log(workload) if workload is not None else None
    for asked in [requirement.with_k(k) for k in ks] or [requirement]:
        found = candidates(methods, asked, table.schema, target, workload)
        refused |= found.refused
        refused |= {str(each.method["name"]): (Problem(each.reason),) for each in found.failed}
        for method in found.fitting:
            if on_method is not None:
                on_method(method, _k_of(asked))
            try:
                made = anonymised(table, asked, method, sensitive=sensitive, missing=missing)
            except RequirementUnreachable as error:
                first = first or error
                continue
            except (Exception, SystemExit) as error:  # code of others may fail in any way
                refused[method.name] = (Problem(failure_of(type(method), error)),)
                continue
            table = made.table  # complete by now, with its columns as ranks
            measurer = measurer or Measurer(table, target, seed, log)
            rows.append(_row(made, method, asked, measurer))
    if not rows:
        raise first or ParameterError(*_reasons(refused))
    return SideBySide(tuple(rows), refused, _measure(rows, target is not None), table.origin.name)


def _measure(rows: Sequence[Row], has_class: bool) -> str:
    """Return the measure that names the best: the usual one, or where no row has it one that some have."""
    ordered = (usual_measure(has_class), CLASSIFICATION_METRIC, NCP)
    return next((name for name in ordered if any(row.metrics.get(name) is not None for row in rows)), NCP)


def _row(made: Anonymised, method: TableMethod, requirement: Requirement, measurer: Measurer) -> Row:
    comparison = made.comparison
    return Row(
        method.settings(),
        _k_of(requirement),
        measurer.figures(comparison),
        reidentification_risk(comparison.group_sizes),
        comparison.released_rows,
        comparison.suppressed,
        int(comparison.group_sizes.size),
        made.seconds["anonymize"],
    )


def _k_of(requirement: Requirement) -> int | None:
    plain = [each for part in requirement.parts for each in part.wrapped or (part,)]
    return max((part.required_size for part in plain if part.required_size is not None), default=None)


def _reasons(refused: Mapping[str, tuple[Problem, ...]]) -> Iterator[Problem]:
    for problems in refused.values():
        yield from problems
