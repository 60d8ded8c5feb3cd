"""The kind of files that a source names, found before any reader is loaded."""

from __future__ import annotations

from pathlib import Path

from masquerade.data.read_sql import database_scheme

CSV_SUFFIXES = (".csv", ".tsv", ".txt", ".data")
PARQUET_SUFFIXES = (".parquet", ".pq")
EXCEL_SUFFIXES = (".xlsx", ".xls", ".xlsm", ".ods")
SIGNS = "*?["  # of a glob


def is_parted(source: str, base: Path) -> bool:
    """Return whether a source is a folder or a glob of Parquet files."""
    if database_scheme(source) is not None:
        return False
    path = base / source
    suffix = path.suffix.lower()
    if path.is_dir():
        return suffix in ("", *PARQUET_SUFFIXES)
    is_pattern = any(sign in source for sign in SIGNS) and (suffix in PARQUET_SUFFIXES or path.name == "*")
    return is_pattern and not path.exists()
