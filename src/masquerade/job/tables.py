"""Read the table of a `[data]` or `[parties.NAME]` section."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from masquerade.data.reading import Source
from masquerade.data.source import read_source
from masquerade.data.table import Origin
from masquerade.job.model import TableSection


def read_section(
    section: TableSection, base: Path, columns: Sequence[str], coded: Container[str] = ()
) -> Source:
    """Read these columns of a section's table; those in `coded` are dictionary-encoded."""
    return read_source(
        section.source,
        base,
        query=section.query,
        separator=section.separator,
        encoding=section.encoding,
        missing_values=section.missing_values,
        columns=columns,
        coded=coded,
    )


def mapped_section(section: TableSection, base: Path, columns: Sequence[str]) -> tuple[pa.Table, Origin]:
    """Copy these columns of a section's table to a file that is mapped; return them, and how errors name their rows."""
    from masquerade.data.mapped_table import mapped_source  # with readers that most jobs do without

    table, origin = mapped_source(
        section.source,
        base,
        columns,
        query=section.query,
        separator=section.separator,
        encoding=section.encoding,
    )
    return table, replace(origin, missing_values=tuple(section.missing_values))
