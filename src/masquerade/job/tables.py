"""The table of a `[data]` or `[parties.NAME]` section."""

from __future__ import annotations

from pathlib import Path

from masquerade.data.read import TableFile
from masquerade.job.model import TableSection


def section_file(section: TableSection, base: Path) -> TableFile:
    """Return where a section's table is; relative to the folder `base`, the job's."""
    return TableFile(
        section.source,
        section.query,
        section.separator,
        section.encoding,
        base,
        tuple(section.missing_values),
    )
