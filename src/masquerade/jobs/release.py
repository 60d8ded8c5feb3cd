"""A release as people get it from Python: it can write its own report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

import pyarrow as pa

from masquerade.anonymize import VerifiedRelease
from masquerade.data import Taxonomy
from masquerade.jobs.guessing import names_of


class Release(VerifiedRelease):
    """A verified release that can write its own report."""

    @classmethod
    def of(cls, made: VerifiedRelease) -> Release:
        """Return what was published as people get it."""
        return cls(**{each.name: getattr(made, each.name) for each in fields(made)})

    def report(self, path: str | Path) -> None:
        """Write the report: one HTML file that needs no network."""
        from masquerade.files import write_whole
        from masquerade.report import render_report

        write_whole(Path(path), render_report(self))

    def labels(self, columns: Iterable[str] | None = None) -> pa.Table:
        """Return which values the labels of the release stand for: a row for each attribute, label and value.

        `columns` are those to list; by default all that have a taxonomy of categories. The values are the taxonomy's,
        whether or not a record has them; "*" and labels of one value are left out.
        """
        known = {column.name: column for column in self.columns}
        names = list(known) if columns is None else names_of("columns", columns)
        rows: dict[str, list[str]] = {"attribute": [], "label": [], "value": []}
        for name in names:
            column = known.get(name)
            if column is None or not isinstance(column.domain, Taxonomy) or column.domain.edges is not None:
                continue
            nodes = {(lo, hi): label for label, lo, hi in zip(column.labels, column.lo, column.hi, strict=True)}
            for (lo, hi), label in sorted(nodes.items()):
                if 1 < hi - lo < column.domain.size:
                    values = column.domain.leaves[lo:hi]
                    rows["attribute"] += [name] * len(values)
                    rows["label"] += [label] * len(values)
                    rows["value"] += values
        return pa.table({name: pa.array(cells, pa.string()) for name, cells in rows.items()})

    def _repr_html_(self) -> str:
        """Return the report in a frame of its own, for notebooks."""
        from masquerade.report import framed, render_report

        return framed(render_report(self))
