"""Draft a first job file; see `masquerade.job.draft`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from masquerade.data.table_file import TableFile
from masquerade.errors import ParameterError
from masquerade.job.draft.draft import DEFAULT_K, Draft, draft_job, refuse_existing
from masquerade.job.draft.parties import draft_mashup
from masquerade.library.column_names import names_of
from masquerade.net.progress import OnStage, silent

Tables = str | Path | TableFile | Sequence[str | Path | TableFile]


def draft(
    tables: Tables,
    job: str | Path = "job.toml",
    *,
    target: str | None = None,
    sensitive: Sequence[str] = (),
    k: int = DEFAULT_K,
    parties: bool = False,
    on_stage: OnStage = silent,
) -> Draft:
    """Write a job for a table (a file, or a database's `TableFile`) that runs as it is, with the taxonomies it needs.

    `target` is the class. With `parties` it is a mashup of several tables, each another party's.
    """
    several = tables if isinstance(tables, Sequence) and not isinstance(tables, str) else (tables,)
    files = [each if isinstance(each, TableFile) else TableFile(str(each)) for each in several]
    path, hidden = Path(job), names_of("sensitive", sensitive)
    refuse_existing(path)
    if parties and len(files) < 2:
        raise ParameterError("--parties: name the tables of two or more parties")
    if not parties and len(files) != 1:
        raise ParameterError("name one table, or give --parties to join those of several")
    if parties:
        made = draft_mashup(files, path, target=target, sensitive=hidden, k=k, on_stage=on_stage)
    else:
        made = draft_job(files[0], path, target=target, sensitive=hidden, k=k, on_stage=on_stage)
    made.write()
    return made
