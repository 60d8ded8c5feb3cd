"""What a source names, found before any reader is loaded: a kind of file, a folder of files, or a database."""

from __future__ import annotations

import re
from pathlib import Path

from masquerade.errors import DataError

CSV_SUFFIXES = (".csv", ".tsv", ".txt", ".data")
PARQUET_SUFFIXES = (".parquet", ".pq")
EXCEL_SUFFIXES = (".xlsx", ".xls", ".xlsm", ".ods")
SIGNS = "*?["  # of a glob
FILE_SCHEMES = ("sqlite", "duckdb")  # databases that are a file
DATABASE_URLS = "sqlite:///file.db, duckdb:///file.duckdb and postgresql://user:password@host/database"
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def is_partitioned(source: str, base: Path) -> bool:
    """Return whether a source is a folder or a glob of Parquet files."""
    if database_scheme(source) is not None:
        return False
    path = base / source
    suffix = path.suffix.lower()
    if path.is_dir():
        return suffix in ("", *PARQUET_SUFFIXES)
    is_pattern = any(sign in source for sign in SIGNS) and (suffix in PARQUET_SUFFIXES or path.name == "*")
    return is_pattern and not path.exists()


def database_path(url: str, base: Path) -> Path:
    """Return the file's path: `sqlite:///relative.db` is relative to `base`, `sqlite:////absolute.db` is not."""
    scheme, rest = url.partition(":")[0], url.partition("://")[2]
    if not rest.startswith("/") or len(rest) == 1:
        raise DataError.about(
            url,
            f"not of the form {scheme}:///file.db (three slashes; four for an absolute path: {scheme}:////data/file.db)",
        )
    return base / rest[1:]


def database_scheme(source: str) -> str | None:
    """Return a database URL's scheme in lower case, or None for a path; an unknown scheme is an error."""
    match = _URL.match(source)
    if match is None:
        return None
    scheme = match[1].lower()
    if scheme not in (*FILE_SCHEMES, "postgresql", "postgres"):
        # The rest of the URL may hold a password, so it is not repeated.
        raise DataError(f'a source cannot be a URL that begins with "{match[0]}"; allowed are {DATABASE_URLS}')
    return scheme
