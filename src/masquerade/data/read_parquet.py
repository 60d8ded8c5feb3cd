"""Read Parquet files, loading only the requested columns."""

from __future__ import annotations

from collections.abc import Container, Sequence
from pathlib import Path

import pyarrow as pa

from masquerade.data.cell_types import plain_table
from masquerade.data.encode import is_text
from masquerade.data.reading import Source, check_names, chosen, why_unreadable
from masquerade.data.table import Origin
from masquerade.errors import DataError


def read_parquet(path: Path, *, columns: Sequence[str] | None = None, coded: Container[str] = ()) -> Source:
    """Read a Parquet file; only `columns`, if given; text columns in `coded` are dictionary-encoded."""
    import pyarrow.parquet  # not for tables in other formats: it takes longer than most of them

    name = str(path)
    try:
        with path.open("rb") as file:
            schema = pyarrow.parquet.read_schema(file)
            check_names(name, schema.names)
            wanted = chosen(name, schema.names, columns)
            plain_table(schema.empty_table().select(wanted), name)  # checked before any data is read
            file.seek(0)
            texts = [column for column in wanted if column in coded and is_text(schema.field(column).type)]
            opened = pyarrow.parquet.ParquetFile(file, read_dictionary=texts)
            table = opened.read(columns=wanted).select(wanted)  # "a" also reads a column named "a.b"
    except (pa.ArrowException, UnicodeError) as error:
        raise DataError.about(path, f"not a sound Parquet file ({_first_line(error)})") from None
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is None:  # raised by Arrow, about the content
            raise DataError.about(path, f"not a sound Parquet file ({_first_line(error)})") from None
        raise why_unreadable(path, error) from None
    if table.num_rows == 0:
        raise DataError.about(path, "there is no row of data")
    return Source(plain_table(table, name, coded).unify_dictionaries(), tuple(schema.names), Origin(name))


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")
