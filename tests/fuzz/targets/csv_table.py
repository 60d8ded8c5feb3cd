"""Any bytes as a CSV file: a table whose columns can be ranked, or a DataError."""

from __future__ import annotations

from data.reading import EVERY_COLUMN
from fuzz.oracle import allowing, scratch
from fuzz.tables import ranked
from masquerade.data.read_csv import read_csv
from masquerade.errors import DataError

PATH = scratch() / "table.csv"


def fuzz(data: bytes) -> None:
    PATH.write_bytes(data)
    for separator, encoding in ((",", "utf-8"), (";", "utf-16"), ("ü", "latin-1")):
        with allowing(DataError):
            plain = read_csv(PATH, separator=separator, encoding=encoding)
            coded = read_csv(PATH, separator=separator, encoding=encoding, coded=EVERY_COLUMN)
            assert plain.all_columns == coded.all_columns
            assert plain.table.num_rows == coded.table.num_rows
            ranked(coded)
