"""A party's records before it learns from them: incomplete ones are dealt with, and every cell is looked at once."""

from __future__ import annotations

import numpy as np

from masquerade.data import Missing, Table
from masquerade.errors import DataError
from masquerade.protocol.contract import OUTCOMES, Contract
from masquerade.protocol.learn.method import LearningMethod
from masquerade.protocol.learn.site import READERS, attributes_of, cells_of, own_codes

_LARGEST = 1e30  # so that sums of squares have all their digits (`sums.py`)


def complete_records(method: LearningMethod, contract: Contract, party: str, table: Table, missing: Missing) -> Table:
    """Return the records that a party learns from; DataError about cells that are wrong, or if no record is left.

    With "mean" the method fills in missing numbers of its attributes. What it predicts is never filled in.
    """
    if missing == "mean":
        attributes = attributes_of(contract)
        table = table.complete(name for name in table.arrow.column_names if name not in attributes)
    table = table.complete(table.arrow.column_names, missing)
    if not len(table):
        raise DataError.about(table.origin.name, "no complete row is left")
    roles = {column.name: column.role for column in contract.columns if column.role in OUTCOMES}
    for name in contract.columns_needed(party):
        if name in roles:
            READERS[roles[name]](table, name)
        elif name == contract.class_name or method.is_category(table.schema[name]):
            own_codes(table, name)
        else:
            _check_size(table, name)
    return table


def _check_size(table: Table, name: str) -> None:
    """Raise DataError about numbers that are too large or too small to be added up."""
    sizes = np.abs(cells_of(table, name))
    largest = np.nanmax(sizes, initial=0.0)
    if largest > _LARGEST or 0 < largest < 1 / _LARGEST:
        text = f"column {name} has numbers of size {largest:.0e}"
        allowed = f"between {1 / _LARGEST:.0e} and {_LARGEST:.0e}"
        raise DataError.about(table.origin.name, f"{text}; take a unit in which they are {allowed}")
