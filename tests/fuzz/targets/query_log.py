"""Any bytes as a log of SQL queries: its queries, or a DataError."""

from __future__ import annotations

from fuzz.oracle import allowing, scratch
from masquerade.data import read_query_log
from masquerade.errors import DataError

PATH = scratch() / "queries.sql"


def fuzz(data: bytes) -> None:
    PATH.write_bytes(data)
    with allowing(DataError):
        read_query_log(PATH)
