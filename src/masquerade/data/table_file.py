"""Where a table is and how it is written: what `[data]` of a job says, with what can be found out left open."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from masquerade.data.csv_encoding import likely_encoding
from masquerade.data.database_url import database_scheme
from masquerade.data.file_kinds import CSV_SUFFIXES
from masquerade.data.reading import Source
from masquerade.data.source import read_source


@dataclass(frozen=True)
class TableFile:
    """A file or a database query."""

    source: str
    query: str | None = None
    separator: str | None = None  # None to go by the header
    encoding: str | None = None  # None to go by the file's first bytes

    @property
    def path(self) -> Path | None:
        """The file, unless it is a database."""
        return None if database_scheme(self.source) is not None else Path(self.source)

    @cached_property
    def found_encoding(self) -> str:
        """The encoding given, or the one that the file's first bytes show."""
        if self.encoding is not None:
            return self.encoding
        is_csv = self.path is not None and self.path.suffix.lower() in CSV_SUFFIXES
        return likely_encoding(self.path) if is_csv and self.path is not None else "utf-8"

    def read(self) -> Source:
        """Read all of it."""
        return read_source(
            self.source,
            Path(),
            query=self.query,
            separator=self.separator,
            encoding=self.found_encoding,
        )
