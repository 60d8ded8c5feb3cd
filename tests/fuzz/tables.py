"""What is done to a table once it is read, for the targets that read one."""

from __future__ import annotations

from contextlib import suppress

from masquerade.data import Attribute, RawTable, Schema, Table
from masquerade.errors import DataError


def ranked(source: RawTable) -> None:
    """Read the first two columns as each kind of attribute; DataError, a word instead of a number, is well."""
    names = source.all_columns[:2]
    flat = [Attribute(name, "categorical", "flat") for name in names]
    for schema in (
        flat,
        [Attribute(name, "continuous") for name in names],
        [Attribute(name, "date") for name in names],
    ):
        with suppress(DataError):
            Table(source.table, Schema(schema), origin=source.origin).complete(names, "drop").columns(names)
