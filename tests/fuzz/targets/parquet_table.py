"""Any bytes as a Parquet file: a table whose columns can be ranked, or a DataError."""

from __future__ import annotations

from data.reading import EVERY_COLUMN
from fuzz.oracle import allowing, scratch
from fuzz.tables import ranked
from masquerade.data.read_parquet import read_parquet
from masquerade.errors import DataError

PATH = scratch() / "table.parquet"


def fuzz(data: bytes) -> None:
    PATH.write_bytes(data)
    with allowing(DataError):
        read_parquet(PATH)
        ranked(read_parquet(PATH, coded=EVERY_COLUMN))
