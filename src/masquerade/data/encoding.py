"""Encode raw cells as ranks: find the distinct cells, rank each, and map the ranks back to the rows.

Parsing and look-up touch each distinct cell once, never each row.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from masquerade.data.boundary import pruned
from masquerade.data.column import Coded, Column, Ranks
from masquerade.data.continuum import (
    ISO_DATE,
    ISO_TIMES,
    MISSING_CELL,
    NUMBER,
    Continuum,
    Kind,
    NumberStyle,
    days,
    read_date,
    read_number,
    write_number,
)
from masquerade.data.schema import Attribute
from masquerade.data.taxonomy import Taxonomy
from masquerade.engine import distinct_values, renumber
from masquerade.errors import DataError, Problem, nearest, shown

Wrong = Callable[[str, int, str], Problem]  # the message, the table's row and the column
Codes = NDArray[np.int32]
Numbers = NDArray[np.int64] | NDArray[np.float64]

SPACE = " \t\r\n"  # stripped from both ends of a cell
MISSING_VALUES = ("", MISSING_CELL)  # the texts that count as missing cells, unless a job says otherwise

_NUMBER = f"^{NUMBER}$"
_WHOLE = "^-?[0-9]+$"
_FIRST_DAY, _LAST_DAY = days(datetime.date.min), days(datetime.date.max)


def missing_rows(column: pa.ChunkedArray, missing_values: Sequence[str] = MISSING_VALUES) -> NDArray[np.bool_] | None:
    """Mark the rows that are null, NaN or one of these texts; return None if no row is."""
    # A plain column is checked row by row: finding its distinct cells first would cost more.
    codes, values = distinct(column) if pa.types.is_dictionary(column.type) else (slice(None), column)
    empty = pc.is_null(values, nan_is_null=True)
    if is_text(values.type):
        trimmed = pc.ascii_trim(values, SPACE)
        empty = pc.or_kleene(empty, pc.is_in(trimmed, pa.array(missing_values, trimmed.type)))
    flags: NDArray[np.bool_] = empty.to_numpy(zero_copy_only=False)
    if not flags.any():
        return None
    rows = flags[codes]
    return rows if rows.any() else None


def distinct(column: pa.ChunkedArray) -> tuple[Codes, pa.Array]:
    """Return each row's code, and the distinct values by code (null counts as a value)."""
    foreign = pa.types.is_dictionary(column.type)
    if not foreign:
        column = column.dictionary_encode("encode")
    elif column.num_chunks > 1:
        column = column.unify_dictionaries()
    chunks = [chunk for chunk in column.chunks if len(chunk)]
    if not chunks:
        return np.empty(0, np.int32), pa.array([], column.type.value_type)
    values = chunks[0].dictionary
    # All chunks have one dictionary by now. Arrow compares them when it combines chunks, and NaN differs from itself.
    indices = pa.concat_arrays([chunk.indices for chunk in chunks]).cast(pa.int32())
    if indices.null_count:
        values = pa.concat_arrays([values, pa.nulls(1, values.type)])
        indices = indices.fill_null(len(values) - 1)
    codes: Codes = indices.to_numpy()
    if foreign and len(values.unique()) < len(values):  # the dictionary lists a value twice
        once = values.dictionary_encode("encode")
        return once.indices.to_numpy().astype(np.int32, copy=False)[codes], once.dictionary
    return codes, values


def is_text(arrow_type: pa.DataType) -> bool:
    """Return whether an Arrow type holds text."""
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(is_kind(arrow_type) for is_kind in kinds)


def texts(values: pa.Array) -> pa.Array:
    """Write the values as text: stripped, numbers without a trailing `.0`, nulls as empty text."""
    kind = values.type
    if is_text(kind):
        written = pc.utf8_trim(values.cast(pa.string()), SPACE)
    elif pa.types.is_floating(kind):
        written = _each(write_number, values)
    elif pa.types.is_decimal(kind):
        written = _each(_exact, values)
    elif pa.types.is_boolean(kind):
        written = _each(str, values)
    else:
        written = values.cast(pa.string())
    return written.fill_null("")


def _each(write: Callable[[Any], str], values: pa.Array) -> pa.Array:
    return pa.array([None if value is None else write(value) for value in values.to_pylist()], pa.string())


def _exact(decimal: Any) -> str:
    """Write a decimal without trailing zeros, avoiding floats: values may differ only in the 30th digit."""
    text = f"{decimal:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def encode(attribute: Attribute, column: pa.ChunkedArray, wrong: Wrong, *, keep_missing: bool = False) -> Column:
    """Encode an attribute's cells as ranks. With `keep_missing` a missing cell is a value of its own, else an error."""
    encoded = _coarsened(_encode_all(attribute, column, wrong, keep_missing), attribute)
    return replace(encoded, boundary=attribute.boundary(encoded.domain)) if attribute.is_bounded else encoded


def _coarsened(column: Column, attribute: Attribute) -> Column:
    """Return the column without what must not be told apart: leaves below nodes, or numbers within a cell of a grid."""
    domain, width = column.domain, attribute.min_width
    coarse: Taxonomy | Continuum
    if isinstance(domain, Taxonomy) and attribute.min_generalization:
        coarse, of_rank = pruned(domain, attribute.min_generalization)
    elif isinstance(domain, Continuum) and width is not None:
        starts, of_value = distinct_values(np.floor_divide(domain.values, width) * width)
        of_rank = np.concatenate([np.arange(domain.first), of_value + domain.first])
        coarse = replace(domain, values=starts)
    else:
        return column
    return Column(column.name, of_rank.astype(np.int32).take(column.ranks), coarse)


def encoded_rows(attribute: Attribute, column: Column, rows: NDArray[np.intp]) -> Column | None:
    """Return what `encode` makes of these rows' cells, from all rows' ranks; None where that takes the cells."""
    if attribute.is_bounded or attribute.is_coarsened:
        return None
    domain, ranks = column.domain, column.ranks.take(rows)
    if domain is attribute.taxonomy:
        return Column(column.name, ranks, domain)
    if isinstance(domain, Continuum) and not domain.missing and domain.values.dtype == np.int64:
        numbers, used = renumber(ranks, domain.size)
        return Column(column.name, numbers.astype(np.int32, copy=False), replace(domain, values=domain.values[used]))
    return None  # leaves of a flat taxonomy are the cells that occur; decimals among whole numbers may be gone


def _encode_all(attribute: Attribute, column: pa.ChunkedArray, wrong: Wrong, keep_missing: bool) -> Column:
    absent = missing_rows(column, (MISSING_CELL,)) if keep_missing else None
    if absent is None:
        return _encode(attribute, column, wrong)
    rows = np.flatnonzero(~absent)
    there = _encode(attribute, column.take(pa.array(rows)), lambda text, row, name: wrong(text, int(rows[row]), name))
    domain = there.domain
    if isinstance(domain, Continuum):
        domain, nothing, shift = replace(domain, missing=True), 0, 1
    elif not rows.size and attribute.taxonomy == "flat":
        domain, nothing, shift = Taxonomy.flat([MISSING_CELL]), 0, 0
    else:
        if MISSING_CELL not in domain.rank:
            domain = domain.with_missing(MISSING_CELL)
        nothing, shift = domain.rank[MISSING_CELL], 0
    ranks = np.full(absent.size, nothing, np.int32)
    ranks[rows] = there.ranks + shift
    return Column(attribute.name, ranks, domain)


def mark_missing(column: pa.ChunkedArray, absent: NDArray[np.bool_]) -> pa.ChunkedArray:
    """Write these cells all alike: as a text, or among numbers and dates as nothing."""
    plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    mark = MISSING_CELL if is_text(plain.type) else None
    marked: pa.ChunkedArray = pc.if_else(pa.chunked_array([pa.array(absent)]), pa.scalar(mark, plain.type), plain)
    return marked


def _encode(attribute: Attribute, column: pa.ChunkedArray, wrong: Wrong) -> Column:
    codes, values = _used(column)
    if attribute.kind == "categorical":
        return _categorical(attribute, codes, texts(values), wrong)
    numbers = _numbers(attribute, codes, values, wrong)
    _check_bounds(attribute, codes, numbers, wrong)
    kind = _kind(attribute)
    if attribute.taxonomy is None:
        points, ranks = distinct_values(numbers)
        lower = float("-inf") if attribute.lower is None else attribute.lower
        upper = float("inf") if attribute.upper is None else attribute.upper
        domain = Continuum(points, kind, lower, upper)  # type: ignore[arg-type] # unique keeps the dtype
        return Column(attribute.name, ranks.astype(np.int32).take(codes), domain)
    if isinstance(attribute.taxonomy, Taxonomy) and attribute.taxonomy.edges is not None:
        return _in_intervals(attribute, attribute.taxonomy, codes, numbers, wrong)
    written = [write_number(number, kind) for number in numbers.tolist()]
    return _categorical(attribute, codes, pa.array(written, pa.string()), wrong)


def standard_cells(
    attribute: Attribute, column: pa.ChunkedArray, wrong: Wrong, *, keep_missing: bool = False
) -> pa.ChunkedArray:
    """Return the cells as others read them: dates in ISO format, decimals with a point."""
    if attribute.format == ISO_DATE and attribute.numbers.is_usual:
        return column
    absent = missing_rows(column, (MISSING_CELL,)) if keep_missing else None
    if absent is not None:
        rows = np.flatnonzero(~absent)
        there = standard_cells(
            attribute, column.take(pa.array(rows)), lambda text, row, name: wrong(text, int(rows[row]), name)
        )
        place = np.full(absent.size, rows.size)
        place[rows] = np.arange(rows.size)
        cells = [*there.chunks, pa.array([MISSING_CELL], there.type)]
        return pa.chunked_array(cells).take(pa.array(place))
    codes, values = _used(column)
    numbers = _numbers(attribute, codes, values, wrong)
    written = [write_number(number, _kind(attribute)) for number in numbers.tolist()]
    return pa.chunked_array([pa.array(written, pa.string()).take(pa.array(codes))])


def code(name: str, column: pa.ChunkedArray) -> Coded:
    """Encode a column that is not generalised: codes in numeric order if all cells are numbers, else as text."""
    codes, values = _used(column)
    written = texts(values)
    labels: list[str] = written.to_pylist()
    ordered = labels_in_order(written)
    rank = {label: position for position, label in enumerate(ordered)}
    rank_of_code = np.array([rank[label] for label in labels], np.int32)
    return Coded(name, rank_of_code.take(codes), tuple(ordered))


def labels_in_order(written: pa.Array) -> list[str]:
    """Return the different texts, in numeric order if all are numbers."""
    labels: list[str] = written.to_pylist()
    if pc.all(pc.match_substring_regex(written, _NUMBER)).as_py():
        numbers = dict(zip(labels, pc.cast(written, pa.float64()).to_pylist(), strict=True))
        return sorted(numbers, key=lambda label: (numbers[label], label))
    return sorted(set(labels))  # cells that differ only in surrounding space are one value


def _used(column: pa.ChunkedArray) -> tuple[Codes, pa.Array]:
    """Return the same as `distinct`, without values that no row has (a filtered table keeps its dictionary)."""
    codes, values = distinct(column)
    numbers, used = renumber(codes, len(values))
    if used.size == len(values):
        return codes, values
    return numbers.astype(np.int32, copy=False), values.take(pa.array(used))


def without_unused(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Drop the values that no row has from the column's dictionary, if it has one.

    Arrow keeps the whole dictionary when it takes rows, and Parquet writes it: it would reveal values of rows that
    were removed.
    """
    if not pa.types.is_dictionary(column.type):
        return column
    codes, values = _used(column)
    indices = pa.array(codes).cast(column.type.index_type)
    return pa.chunked_array([pa.DictionaryArray.from_arrays(indices, values, ordered=column.type.ordered)])


def _kind(attribute: Attribute) -> Kind:
    return "date" if attribute.kind == "date" else "continuous"


def _first(codes: Codes, bad: NDArray[np.bool_]) -> tuple[int, int]:
    """Return the first row whose value is bad, and that value's code."""
    row = int(np.argmax(bad[codes]))
    return row, int(codes[row])


def _categorical(attribute: Attribute, codes: Codes, labels: pa.Array, wrong: Wrong) -> Column:
    taxonomy = attribute.taxonomy
    if taxonomy is None:
        raise DataError(
            f'attribute {attribute.name}: a categorical attribute of a QID needs a taxonomy; name a file, or "flat"'
        )
    cells: list[str] = labels.to_pylist()
    if not isinstance(taxonomy, Taxonomy):
        taxonomy = Taxonomy.flat(leaves_in_order(attribute, set(cells)))
    unknown = taxonomy.size
    ranks: Ranks = np.array([taxonomy.rank.get(cell, unknown) for cell in cells], np.int32)
    if (ranks == unknown).any():
        row, code_ = _first(codes, ranks == unknown)
        value = cells[code_]
        meant = nearest(value, taxonomy.leaves)
        advice = "the nearest leaf is" if meant else "its leaves are like"
        text = f"{shown(value)} is no leaf of taxonomy {taxonomy.source}"
        text += f"; {advice} {shown(meant or taxonomy.leaves[0])}"
        raise DataError(wrong(text, row, attribute.name))
    return Column(attribute.name, ranks.take(codes), taxonomy)


def leaves_in_order(attribute: Attribute, labels: set[str]) -> list[str]:
    """Return the leaves of a flat taxonomy, in the order of what they say."""
    if attribute.kind == "categorical":
        return sorted(labels)
    return sorted(labels, key=lambda label: read_number(label, _kind(attribute)))


def _numbers(attribute: Attribute, codes: Codes, values: pa.Array, wrong: Wrong) -> Numbers:
    """Parse the distinct cells as numbers: int64 if all are integers, else float64; dates as days."""
    if attribute.kind == "date":
        return _dates(attribute, codes, values, wrong)
    if pa.types.is_integer(values.type):
        return _whole(values)
    if pa.types.is_floating(values.type) or pa.types.is_decimal(values.type):
        numbers = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    else:
        labels = _usual(texts(values), attribute.numbers)
        good = pc.match_substring_regex(labels, _NUMBER).to_numpy(zero_copy_only=False)
        if not good.all():
            row, code_ = _first(codes, ~good)
            raise DataError(wrong(_not_a_number(texts(values)[code_].as_py(), attribute), row, attribute.name))
        plain = pc.replace_substring_regex(labels, "^[+]", "")
        all_whole = pc.all(pc.match_substring_regex(plain, _WHOLE)).as_py()
        numbers = _whole(plain) if all_whole else plain.cast(pa.float64()).to_numpy()
    finite = np.isfinite(numbers)
    if not finite.all():
        row, code_ = _first(codes, ~finite)
        cell = texts(values.slice(code_, 1))[0].as_py()
        raise DataError(wrong(f"{cell} is not a finite number", row, attribute.name))
    unsigned_zero: Numbers = numbers + 0  # −0 is 0
    return unsigned_zero


def _usual(labels: pa.Array, style: NumberStyle) -> pa.Array:
    """Write numbers of a style in the usual way; a text that is none becomes one that is none either."""
    if style.is_usual:
        return labels
    fits = pc.match_substring_regex(labels, f"^(?:{style.pattern})$")
    bare = pc.replace_substring_regex(labels, style.clutter, "")
    return pc.if_else(fits, pc.replace_substring(bare, style.decimal, "."), pa.scalar("."))


def _not_a_number(cell: str, attribute: Attribute) -> str:
    example = "42, -3,5 or 1e6" if attribute.decimal == "," else "42, -3.5 or 1e6"
    text = f"{shown(cell)} is not a number; allowed are whole numbers and decimals such as {example}"
    if attribute.decimal != "," and re.fullmatch(NUMBER, cell.replace(",", ".")):
        text += '; for a decimal comma set decimal = ","'
    elif attribute.numbers.is_usual and re.search(r"[0-9][., '][0-9]{3}|[$€£%]", cell):
        text += '; for signs between thousands set thousands = ",", for a currency unit = "$"'
    return text


def _whole(values: pa.Array) -> Numbers:
    """Convert integers exactly, unless one is too large for 64 bits."""
    try:
        exact: NDArray[np.int64] = values.cast(pa.int64()).to_numpy()
    except pa.ArrowInvalid:
        rounded: NDArray[np.float64] = values.cast(pa.float64(), safe=False).to_numpy()
        return rounded
    return exact


def _dates(attribute: Attribute, codes: Codes, values: pa.Array, wrong: Wrong) -> NDArray[np.int64]:
    if pa.types.is_date(values.type) or pa.types.is_timestamp(values.type):
        # Drop the time of day of a timestamp, as is done when a date is written.
        since_1970: NDArray[np.int64] = (
            values.cast(pa.date32(), safe=False).cast(pa.int32()).to_numpy().astype(np.int64)
        )
        outside = (since_1970 < _FIRST_DAY) | (since_1970 > _LAST_DAY)
        if outside.any():
            row, code_ = _first(codes, outside)
            text = f"the date {since_1970[code_]} days after 1970-01-01 is out of range"
            raise DataError(wrong(f"{text}; allowed are the years 1 to 9999", row, attribute.name))
        return since_1970
    labels = texts(values)
    numbers = np.zeros(len(labels), np.int64)
    bad = np.zeros(len(labels), bool)
    for position, label in enumerate(labels.to_pylist()):
        try:
            numbers[position] = read_date(label, attribute.format)
        except ValueError:
            bad[position] = True
    if bad.any():
        row, code_ = _first(codes, bad)
        form = ISO_DATE if attribute.format == ISO_TIMES else attribute.format
        example = datetime.datetime(1980, 12, 31, tzinfo=datetime.UTC).strftime(form)
        text = f"{shown(labels[code_].as_py())} is not a date; allowed are dates such as {example}"
        if attribute.format == ISO_DATE:
            try:
                read_date(labels[code_].as_py(), ISO_TIMES)
                other = '"iso"'
            except ValueError:
                other = '"%d/%m/%Y" or the like'
            text += f"; for another way of writing them set format = {other}"
        raise DataError(wrong(text, row, attribute.name))
    return numbers


def _check_bounds(attribute: Attribute, codes: Codes, numbers: Numbers, wrong: Wrong) -> None:
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
        text = f"{write_number(numbers[code_].item(), kind)} is out of bounds; allowed is {' and '.join(allowed)}"
        raise DataError(wrong(text, row, attribute.name))


def _in_intervals(attribute: Attribute, taxonomy: Taxonomy, codes: Codes, numbers: Numbers, wrong: Wrong) -> Column:
    assert taxonomy.edges is not None
    first, *inner, last = taxonomy.edges
    outside = (numbers < first) | (numbers >= last)
    if outside.any():
        row, code_ = _first(codes, outside)
        kind = _kind(attribute)
        covers = f"{write_number(first, kind)} up to {write_number(last, kind)}"
        text = f"{write_number(numbers[code_].item(), kind)} is in no interval of taxonomy {taxonomy.source}"
        raise DataError(wrong(f"{text}, which covers {covers}", row, attribute.name))
    # The outer ends may be infinite; without them, integers are compared as integers.
    ranks = np.searchsorted(np.array(inner), numbers, side="right").astype(np.int32)
    return Column(attribute.name, ranks.take(codes), taxonomy)
