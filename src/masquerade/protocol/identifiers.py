"""A party's identifiers as they are compared: text, normalised as the contract says, each once."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from masquerade.data.encode import distinct, is_text, texts
from masquerade.data.table import Table
from masquerade.engine.counts import value_counts
from masquerade.engine.numbering import distinct_values
from masquerade.errors import DataError

NORMAL: Mapping[str, Callable[[str], str]] = {
    "none": lambda text: text,
    "strip": lambda text: text.strip(),
    "casefold": lambda text: text.strip().casefold(),
}


def identifiers(table: Table, column: str, normalize: str) -> list[bytes]:
    """Return one identifier per row. Numbers and texts compare alike: 17, 17.0 and "17" are one identifier.

    Two rows with one identifier are an error, which names the rows but not the identifier.
    """
    codes, values = distinct(table.cells(column))
    cells = values.to_pylist() if normalize == "none" and is_text(values.type) else texts(values).to_pylist()
    normal = [NORMAL[normalize](cell) for cell in cells]
    once, code_of = distinct_values(np.array(normal, object).astype(str))
    numbers = code_of[codes]
    counts = value_counts(numbers, once.size)
    if numbers.size and counts.max() > 1:
        first, second = np.flatnonzero(numbers == int(np.argmax(counts > 1)))[:2]
        doubled = int(np.count_nonzero(counts > 1))
        more = f" (and {doubled - 1} more doubled identifiers)" if doubled > 1 else ""
        text = f"the same identifier as row {table.source_row(int(first)) + 1}{more}"
        raise DataError(table.problem(f"{text}; each identifier must stand in one row", int(second), column))
    encoded = [text.encode() for text in normal]
    return [encoded[code] for code in codes]
