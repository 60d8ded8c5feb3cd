"""Cells that a spreadsheet would run as formulas when it opens a CSV file, and a way to write them so that it does not.

A text that begins with =, +, -, @, a tab or a carriage return, and is not a number, gets an apostrophe in front. So
does one that already has apostrophes before such a sign, so that `unescape` gives every text back as it was.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from masquerade.data.encode import is_text

_FORMULA = "^'*[=+\\-@\t\r]"
_NUMBER = r"^[+-]?[0-9.,]+([eE][+-]?[0-9]+)?$"
_ESCAPED = "^'+[=+\\-@\t\r]"


def count_formulas(table: pa.Table) -> dict[str, int]:
    """Return how many cells of each text column would be run; columns without any are left out."""
    found = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if (count := sum(map(_count, column.chunks))) > 0:
            found[name] = count
    return found


def escape_formulas(table: pa.Table) -> pa.Table:
    """Put an apostrophe before every text cell that a spreadsheet would run."""
    return _changed(table, _escape)


def unescape_formulas(table: pa.Table) -> pa.Table:
    """Give a table back as it was before `escape_formulas`."""
    return _changed(table, _unescape)


def _count(array: pa.Array) -> int:
    if pa.types.is_dictionary(array.type):
        if not is_text(array.type.value_type) or not pc.any(_is_formula(array.dictionary)).as_py():
            return 0
        array = _is_formula(array.dictionary).take(array.indices)
    elif is_text(array.type):
        array = _is_formula(array)
    else:
        return 0
    return pc.sum(array).as_py() or 0


def _is_formula(texts: pa.Array) -> pa.Array:
    return pc.and_not(pc.match_substring_regex(texts, _FORMULA), pc.match_substring_regex(texts, _NUMBER))


def _escape(texts: pa.Array) -> pa.Array:
    return pc.if_else(_is_formula(texts), _joined("'", texts), texts)


def _unescape(texts: pa.Array) -> pa.Array:
    return pc.if_else(pc.match_substring_regex(texts, _ESCAPED), pc.utf8_slice_codeunits(texts, 1), texts)


def _joined(sign: str, texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(pa.scalar(sign, texts.type), texts, pa.scalar("", texts.type))


def _changed(table: pa.Table, change: Callable[[pa.Array], pa.Array]) -> pa.Table:
    columns = [
        pa.chunked_array([_of(each, change) for each in column.chunks], column.type)
        for column in table.columns
    ]
    return pa.table(columns, names=table.column_names) if columns else table


def _of(array: pa.Array, change: Callable[[pa.Array], pa.Array]) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        if not is_text(array.type.value_type):
            return array
        return pa.DictionaryArray.from_arrays(
            array.indices, change(array.dictionary), ordered=array.type.ordered
        )
    return change(array) if is_text(array.type) else array
