"""Read the table of a `[data]` or `[parties.NAME]` section."""

from __future__ import annotations

from collections.abc import Container, Sequence
from pathlib import Path

from masquerade.data.reading import Source
from masquerade.data.source import read_source
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
