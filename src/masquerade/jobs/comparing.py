"""`compare`: methods side by side on one table, as rows, as a frame, as a page with a chart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from masquerade.anonymize import BestRelease, SideBySide, TableMethod, side_by_side
from masquerade.data import Missing, Table
from masquerade.errors import ParameterError, Problem, given, hint, shown
from masquerade.forms import checked, whole
from masquerade.jobs.guessing import names_of, table_of
from masquerade.jobs.one_table import checked_requirement
from masquerade.methods import described, table_methods
from masquerade.privacy import Requirement
from masquerade.progress import OnStage, Stage, silent


class Contest(SideBySide):
    """Methods side by side; a frame (`__arrow_c_stream__`), and a page."""

    def to_arrow(self) -> pa.Table:
        """Return a table with a row for each method and its settings, and a column for each figure."""
        return pa.Table.from_pylist(
            [
                {
                    "method": row.name,
                    "settings": described(row.method).partition(": ")[2],
                    "k": row.k,
                    **row.metrics,
                    "highest_risk": row.risk.highest,
                    "mean_risk": row.risk.mean,
                    "unique": row.risk.unique,
                    "released": row.released,
                    "suppressed": row.suppressed,
                    "groups": row.groups,
                    "seconds": row.seconds,
                }
                for row in self.rows
            ]
        )

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        best = ", ".join(f"{described(row.method)}{'' if row.k is None else f' for k = {row.k}'}" for row in self.best)
        of = f" of {self.source}: {len(self.rows)} releases, best by {self.measure.replace('_', ' ')}: "
        return f"<{type(self).__name__}{of}{best or 'none'}>"

    def _repr_html_(self) -> str:
        """Return the page in a frame of its own, for notebooks."""
        from masquerade.report import framed, render_comparison

        return framed(render_comparison(self))

    def report(self, path: str | Path) -> None:
        """Write the rows with a chart of risk against loss: one HTML file that needs no network."""
        from masquerade.files import write_whole
        from masquerade.report import render_comparison

        write_whole(Path(path), render_comparison(self))


def compare(
    frame: Any,
    requirement: Requirement,
    *,
    methods: Iterable[str] = (),
    k: Iterable[int] = (),
    target: str | None = None,
    sensitive: Iterable[str] = (),
    missing: Missing = "drop",
    seed: int = 7,
    workload: str | None = None,
) -> Contest:
    """Anonymise a table by every method that takes the requirement, with the few settings that each declares.

    `methods` names some of them. Each of `k` replaces the k of the requirement in turn. `workload` is a file of SQL
    queries: releases are also made for it, and measured by its selections. The result has `rows`, is a
    frame for pandas, polars and Arrow, and writes a page with a chart (`report`). Nothing is released.
    """
    protected = names_of("sensitive", sensitive)
    asked = checked_requirement(requirement, protected)
    table = table_of(frame, asked, target, protected)
    sizes = (k,) if isinstance(k, int) else tuple(k)
    return contest(
        table,
        asked,
        methods_named(names_of("methods", methods)),
        ks=sizes_of(sizes, asked),
        target=target,
        sensitive=protected,
        missing=missing,
        seed=seed,
        workload=workload,
    )


def contest(
    table: Table,
    requirement: Requirement,
    methods: Sequence[type[TableMethod]],
    *,
    ks: Sequence[int],
    target: str | None,
    sensitive: Sequence[str],
    missing: Missing,
    seed: int,
    workload: str | None = None,
    on_stage: OnStage = silent,
) -> Contest:
    """Run the methods, and say which one is running."""
    made = side_by_side(
        table,
        requirement,
        methods,
        ks=ks,
        target=target,
        sensitive=sensitive,
        missing=missing,
        seed=seed,
        workload=workload,
        on_method=lambda method, size: on_stage(
            Stage(described(method.settings()), detail="" if size is None else f"k = {size}")
        ),
    )
    return Contest(made.rows, made.refused, made.measure, made.source)


def methods_named(names: Sequence[str]) -> list[type[TableMethod]]:
    """Return the methods of these names; all of the registry without any."""
    known = {name: each for name, each in table_methods().items() if not issubclass(each, BestRelease)}
    for name in names:
        if name not in known:
            raise ParameterError(
                Problem(
                    hint(name, known),
                    parameter="methods",
                    owner="compare",
                    allowed=f"methods on one table: {', '.join(known)}",
                    found=shown(name),
                )
            )
    return [known[name] for name in dict.fromkeys(names)] or list(known.values())


def sizes_of(ks: Sequence[int], requirement: Requirement) -> tuple[int, ...]:
    """Check the values of k, which must replace some k of the requirement."""
    sizes = tuple(dict.fromkeys(checked(compare, "k", whole(), k) for k in ks))
    if len({str(requirement.with_k(k)) for k in (1, 2)}) == 1 and sizes:
        raise ParameterError(
            Problem(
                parameter="k", owner="compare", allowed="left out where no requirement has a k", found=given(sizes[0])
            )
        )
    return sizes
