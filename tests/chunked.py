"""Small tables as partitioned Parquet, anonymised in chunks and as a whole."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

import masquerade as mq
from masquerade.anonymize import Folder, Provenance, TableMethod, publish_records, wanted_of
from masquerade.data import partitioned_files, read_chunks
from masquerade.engine import Engine, LocalEngine

MISSING = ("", "?")


def write_parts(table: pa.Table, folder: Path, n_files: int = 4) -> None:
    """Write a table as files of two or three row groups each."""
    folder.mkdir()
    rows = -(-table.num_rows // n_files)
    for at in range(n_files):
        part = table.slice(at * rows, rows)
        pyarrow.parquet.write_table(part, folder / f"part-{at}.parquet", row_group_size=rows // 2 + 1)


def in_chunks(
    table: mq.Table,
    requirement: mq.Requirement,
    method: TableMethod,
    folder: Path,
    *,
    sensitive: tuple[str, ...] = (),
    missing: Any = "drop",
    shuffle: bool = False,
    engine: Engine | None = None,
) -> tuple[mq.Release, pa.Table]:
    """Anonymise in chunks of a few rows; return the release, and all of its rows."""
    write_parts(table.arrow, folder / "table")
    (folder / "release").mkdir()
    with engine or LocalEngine(threads=2, folder=folder) as used:
        wanted = wanted_of(table.schema, requirement, method.target, sensitive, missing, MISSING)
        chunked = read_chunks(_in_small_parts(folder), wanted, used)
        release, _ = publish_records(
            chunked,
            requirement,
            method,
            Folder(folder / "release", shuffle, MISSING),
            sensitive=sensitive,
            provenance=Provenance(dropped=()),
        )
    files = sorted((folder / "release").iterdir())
    return mq.Release.of(release), plain(pa.concat_tables(pyarrow.parquet.read_table(file) for file in files))


def same_in_chunks(
    table: mq.Table, requirement: mq.Requirement, method: TableMethod, folder: Path, **more: Any
) -> tuple[mq.Release, mq.Release]:
    """The releases in chunks and of the whole table, of which rows and summaries are the same."""
    release, rows = in_chunks(table, requirement, method, folder, **more)
    whole = mq.anonymize(table, requirement, method, order="input", **more)
    assert rows.equals(plain(whole.table))
    assert told(release) == told(whole)
    return release, whole


def _in_small_parts(folder: Path) -> Any:
    files = partitioned_files("table", folder)
    object.__setattr__(files, "parts", lambda _: type(files).parts(files, 40))
    return files


def plain(table: pa.Table) -> pa.Table:
    """Without dictionaries, which files may choose as they like."""
    columns = {name: table.column(name) for name in table.column_names}
    return pa.table(
        {
            name: (cells.cast(cells.type.value_type) if pa.types.is_dictionary(cells.type) else cells)
            for name, cells in columns.items()
        }
    ).combine_chunks()


def rows_of(table: pa.Table) -> Counter[tuple[Any, ...]]:
    """Rows as a multiset: the order of a shuffled release is secret."""
    return Counter(zip(*(plain(table)[name].to_pylist() for name in sorted(table.column_names)), strict=True))


def told(release: mq.Release) -> dict[str, Any]:
    """The summary, without what depends on the machine."""
    summary = release.summary
    return {name: summary[name] for name in summary if name not in ("seconds", "dropped", "query_error")}
