"""Arrow streams of cells, written here by hand: nothing is in them but the cells and the values of the cut."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

Cells = Sequence[Any] | tuple[Sequence[int], Sequence[str]]  # values, or codes and labels


def by_first(values: Sequence[Any]) -> Cells:
    """Codes and labels of texts, in the order in which they first occur; other values as they are."""
    if not all(isinstance(value, str) for value in values):
        return values
    labels = list(dict.fromkeys(values))
    return [labels.index(value) for value in values], labels


def stream_of(cells: Mapping[str, Cells], numbers: pa.DataType | None = None) -> bytes:
    """The stream of these columns; a pair of codes and labels is one with a dictionary, its numbers of this type."""
    arrays = {}
    for name, each in cells.items():
        if isinstance(each, tuple):
            codes, labels = each
            arrays[name] = pa.DictionaryArray.from_arrays(
                pa.array(codes, numbers or pa.int32()), pa.array(labels, pa.string())
            )
        else:
            arrays[name] = pa.array(list(each))
    table = pa.table(arrays)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()
