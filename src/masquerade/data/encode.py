"""From raw cells to ranks: find the distinct cells, give each its rank, and carry the ranks to the rows.

Parsing and look-up touch each distinct cell once, never each row.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from masquerade.data.column import Coded, Column, Ranks
from masquerade.data.continuum import Continuum, Kind, days, write_number
from masquerade.data.schema import Attribute
from masquerade.data.taxonomy import Taxonomy
from masquerade.errors import DataError, nearest

Where = Callable[[int], str]  # names a row of the table for a person

_NUMBER = r"^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?$"
_WHOLE = r"^[+-]?[0-9]{1,18}$"
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_SPACE = " \t\r\n"


def missing_rows(column: pa.ChunkedArray) -> NDArray[np.bool_] | None:
    """Which rows are null, NaN, empty or "?"; None when no row is."""
    codes, values = distinct(column)
    empty = pc.is_null(values, nan_is_null=True)
    if is_text(values.type):
        trimmed = pc.utf8_trim(values, _SPACE)
        empty = pc.or_kleene(empty, pc.is_in(trimmed, pa.array(["", "?"], trimmed.type)))
    flags = empty.to_numpy(zero_copy_only=False)
    return flags[codes] if flags.any() else None


def distinct(column: pa.ChunkedArray) -> tuple[NDArray[np.int32], pa.Array]:
    """Each row's code, and the distinct values by code (a null is a value here)."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode("encode")
    elif column.num_chunks > 1:
        column = column.unify_dictionaries()
    chunks = [chunk for chunk in column.chunks if len(chunk)]
    if not chunks:
        return np.empty(0, np.int32), pa.array([], column.type.value_type)
    values = chunks[0].dictionary
    indices = column.combine_chunks().indices if len(chunks) > 1 else chunks[0].indices
    if indices.null_count:
        values = pa.concat_arrays([values, pa.nulls(1, values.type)])
        indices = indices.fill_null(pa.scalar(len(values) - 1, indices.type))
    return indices.to_numpy().astype(np.int32, copy=False), values


def is_text(arrow_type: pa.DataType) -> bool:
    """Whether an Arrow type holds text."""
    return bool(
        pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type) or pa.types.is_string_view(arrow_type)
    )


def texts(values: pa.Array) -> pa.Array:
    """The values as text without surrounding space; whole floats and decimals without `.0`."""
    if is_text(values.type):
        return pc.utf8_trim(values.cast(pa.string()), _SPACE)
    if pa.types.is_floating(values.type) or pa.types.is_decimal(values.type):
        return pa.array([write_number(float(value)) for value in values.to_pylist()], pa.string())
    if pa.types.is_boolean(values.type):
        return pa.array([str(value) for value in values.to_pylist()], pa.string())
    return values.cast(pa.string())


def encode(attribute: Attribute, column: pa.ChunkedArray, where: Where) -> Column:
    """The ranks of an attribute's cells. The column has no missing cell."""
    codes, values = distinct(column)
    values, codes = _only_used(values, codes)
    if attribute.kind == "categorical":
        return _categorical(attribute, codes, texts(values), where)
    numbers = _numbers(attribute, codes, values, where)
    _check_bounds(attribute, codes, numbers, where)
    if not isinstance(attribute.taxonomy, Taxonomy):
        points, ranks = np.unique(numbers, return_inverse=True)
        lower = float("-inf") if attribute.lower is None else attribute.lower
        upper = float("inf") if attribute.upper is None else attribute.upper
        domain = Continuum(points, _kind(attribute), lower, upper)
        return Column(attribute.name, ranks.astype(np.int32)[codes], domain)
    if attribute.taxonomy.edges is None:
        written = [write_number(number.item(), _kind(attribute)) for number in numbers]
        return _categorical(attribute, codes, pa.array(written, pa.string()), where)
    return _in_intervals(attribute, attribute.taxonomy, codes, numbers, where)


def code(name: str, column: pa.ChunkedArray) -> Coded:
    """Codes for a column that is not generalised; its values in numeric order when all are numbers, else as text."""
    codes, values = distinct(column)
    values, codes = _only_used(values, codes)
    labels = texts(values)
    if len(labels) and pc.all(pc.match_substring_regex(labels, _NUMBER)).as_py():
        order = np.lexsort((labels.to_numpy(zero_copy_only=False).astype(str), pc.cast(labels, pa.float64()).to_numpy()))
    else:
        order = np.argsort(labels.to_numpy(zero_copy_only=False).astype(str), kind="stable")
    ordered = labels.take(pa.array(order)).to_pylist()
    rank_of_code, sorted_labels = np.empty(len(ordered), np.int32), list[str]()
    for position, label in zip(order, ordered, strict=True):  # cells that differ only in space are one value
        if not sorted_labels or sorted_labels[-1] != label:
            sorted_labels.append(label)
        rank_of_code[position] = len(sorted_labels) - 1
    return Coded(name, rank_of_code[codes], tuple(sorted_labels))


def _only_used(values: pa.Array, codes: NDArray[np.int32]) -> tuple[pa.Array, NDArray[np.int32]]:
    """Forget dictionary values that no row has (a filtered table keeps its dictionary)."""
    used = np.bincount(codes, minlength=len(values)) > 0
    if used.all():
        return values, codes
    return values.filter(pa.array(used)), (np.cumsum(used, dtype=np.int32) - 1)[codes]


def _kind(attribute: Attribute) -> Kind:
    return "date" if attribute.kind == "date" else "continuous"


def _first(codes: NDArray[np.int32], bad: NDArray[np.bool_]) -> tuple[int, int]:
    """The first row whose value is bad, and that value's code."""
    row = int(np.argmax(bad[codes]))
    return row, int(codes[row])


def _categorical(attribute: Attribute, codes: NDArray[np.int32], labels: pa.Array, where: Where) -> Column:
    taxonomy = attribute.taxonomy
    if taxonomy is None:
        raise DataError(
            f'attribute {attribute.name}: a categorical attribute of a QID needs a taxonomy; name a file, or "flat"'
        )
    if not isinstance(taxonomy, Taxonomy):
        taxonomy = Taxonomy.flat(sorted(set(labels.to_pylist())))
    unknown = len(taxonomy.leaves)
    ranks: Ranks = np.array([taxonomy.rank.get(label, unknown) for label in labels.to_pylist()], np.int32)
    if (ranks == unknown).any():
        row, code_ = _first(codes, ranks == unknown)
        value = labels[code_].as_py()
        meant = nearest(value, taxonomy.leaves)
        advice = f'the nearest leaf is "{meant}"' if meant else f'its leaves are like "{taxonomy.leaves[0]}"'
        raise DataError(
            f'{where(row)}, column {attribute.name}: "{value}" is no leaf of taxonomy {taxonomy.source}; {advice}'
        )
    return Column(attribute.name, ranks[codes], taxonomy)


def _numbers(
    attribute: Attribute, codes: NDArray[np.int32], values: pa.Array, where: Where
) -> NDArray[np.int64] | NDArray[np.float64]:
    """The distinct cells as numbers: int64 when all are whole, else float64; dates as days."""
    if attribute.kind == "date":
        return _dates(attribute, codes, values, where)
    if pa.types.is_integer(values.type):
        return values.cast(pa.int64()).to_numpy()
    if pa.types.is_floating(values.type) or pa.types.is_decimal(values.type):
        numbers = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    else:
        labels = texts(values)
        good = pc.match_substring_regex(labels, _NUMBER).to_numpy(zero_copy_only=False)
        if not good.all():
            row, code_ = _first(codes, ~good)
            raise DataError(
                f'{where(row)}, column {attribute.name}: "{labels[code_].as_py()}" is not a number; '
                "allowed are whole numbers and decimals such as 42, -3.5 or 1e6"
            )
        plain = pc.replace_substring_regex(labels, r"^[+]", "")
        if pc.all(pc.match_substring_regex(plain, _WHOLE)).as_py():
            return pc.cast(plain, pa.int64()).to_numpy()
        numbers = pc.cast(plain, pa.float64()).to_numpy()
    finite = np.isfinite(numbers)
    if not finite.all():
        row, code_ = _first(codes, ~finite)
        raise DataError(f"{where(row)}, column {attribute.name}: {numbers[code_]} is not a finite number")
    return numbers + 0.0  # −0 is 0


def _dates(attribute: Attribute, codes: NDArray[np.int32], values: pa.Array, where: Where) -> NDArray[np.int64]:
    if pa.types.is_date(values.type) or pa.types.is_timestamp(values.type):
        # A time of day is part of a timestamp, not of a date: it goes, as it does when a date is written.
        return values.cast(pa.date32(), safe=False).cast(pa.int32()).to_numpy().astype(np.int64)
    labels = texts(values)
    numbers = np.zeros(len(labels), np.int64)
    bad = np.zeros(len(labels), bool)
    wellformed = pc.match_substring_regex(labels, _DATE).to_pylist()
    for position, (label, good) in enumerate(zip(labels.to_pylist(), wellformed, strict=True)):
        try:
            numbers[position] = _day(label) if good else 0
            bad[position] = not good
        except ValueError:  # a day that no calendar has
            bad[position] = True
    if bad.any():
        row, code_ = _first(codes, bad)
        raise DataError(
            f'{where(row)}, column {attribute.name}: "{labels[code_].as_py()}" is not a date; '
            "allowed are dates such as 1980-12-31"
        )
    return numbers


def _day(text: str) -> int:
    import datetime

    return days(datetime.date.fromisoformat(text))


def _check_bounds(
    attribute: Attribute,
    codes: NDArray[np.int32],
    numbers: NDArray[np.int64] | NDArray[np.float64],
    where: Where,
) -> None:
    outside = np.zeros(numbers.size, bool)
    if attribute.lower is not None:
        outside |= numbers < attribute.lower
    if attribute.upper is not None:
        outside |= numbers >= attribute.upper
    if outside.any():
        row, code_ = _first(codes, outside)
        kind = _kind(attribute)
        allowed = [
            f"{word} {write_number(bound, kind)}"
            for word, bound in (("at least", attribute.lower), ("below", attribute.upper))
            if bound is not None
        ]
        raise DataError(
            f"{where(row)}, column {attribute.name}: {write_number(numbers[code_].item(), kind)} is out of bounds; "
            f"allowed is {' and '.join(allowed)}"
        )


def _in_intervals(
    attribute: Attribute,
    taxonomy: Taxonomy,
    codes: NDArray[np.int32],
    numbers: NDArray[np.int64] | NDArray[np.float64],
    where: Where,
) -> Column:
    edges = np.asarray(taxonomy.edges)
    ranks = np.searchsorted(edges, numbers, side="right") - 1
    outside = (ranks < 0) | (ranks >= taxonomy.size)
    if outside.any():
        row, code_ = _first(codes, outside)
        kind = _kind(attribute)
        raise DataError(
            f"{where(row)}, column {attribute.name}: {write_number(numbers[code_].item(), kind)} is in no interval of "
            f"taxonomy {taxonomy.source}, which covers {write_number(edges[0].item(), kind)} up to "
            f"{write_number(edges[-1].item(), kind)}"
        )
    return Column(attribute.name, ranks.astype(np.int32)[codes], taxonomy)
