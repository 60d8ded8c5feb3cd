"""A CSV file or a query's result as Parquet: written once, a batch at a time, to be read in chunks from then on."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from masquerade.data.read import TableFile
from masquerade.data.read_parquet import PartedFiles, parted_files
from masquerade.errors import DataError


@contextmanager
def staged_parquet(
    file: TableFile, columns: Sequence[str] | None, also: Sequence[str] = ()
) -> Iterator[PartedFiles]:
    """Copy these columns of a table, or all, into a private folder until the block ends.

    Columns in `also` are copied where the table has them.
    """
    with file.in_batches() as looked_at:
        first = next(looked_at.batches, None)
        names = tuple(first.column_names) if first is not None else ()
    if columns is not None:
        columns = list(dict.fromkeys([*columns, *(name for name in also if name in names)]))
    with tempfile.TemporaryDirectory(prefix="masquerade-") as folder:
        path = Path(folder) / "table.parquet"
        with file.in_batches(columns) as opened:
            _write(opened.batches, path, opened.origin.name)
            name = opened.origin.name
        yield replace(parted_files(str(path), Path(), columns or ()), name=name, columns=names, copy_of=name)


def _write(batches: Iterator[pa.Table], path: Path, name: str) -> None:
    import pyarrow.parquet  # here: jobs that copy nothing do without

    first = next(batches, None)
    if first is None:
        raise DataError.about(name, "there is no row of data")
    with pyarrow.parquet.ParquetWriter(path, first.schema) as writer:
        writer.write_table(first, row_group_size=_ROWS)
        for batch in batches:
            writer.write_table(batch, row_group_size=_ROWS)


_ROWS = 1 << 18  # of a row group
