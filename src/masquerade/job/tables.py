"""From `[data]` or `[parties.NAME]` to a table's cells."""

from __future__ import annotations

from collections.abc import Container, Sequence
from pathlib import Path

from masquerade.data.source import Source, read_source
from masquerade.job.model import TableSection


def read_section(
    section: TableSection, base: Path, columns: Sequence[str], coded: Container[str] = ()
) -> Source:
    """The asked columns of the table that a section describes; those in `coded` as dictionaries."""
    return read_source(
        section.source,
        base,
        query=section.query,
        separator=section.separator,
        encoding=section.encoding,
        columns=columns,
        coded=coded,
    )
