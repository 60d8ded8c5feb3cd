"""Draft a first job file; see `masquerade.jobs.drafts`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from masquerade.data import OnStep, TableFile
from masquerade.errors import ParameterError
from masquerade.jobs.drafts.draft import DEFAULT_K, Draft, draft_job, draft_mashup, refuse_existing
from masquerade.jobs.guessing import names_of
from masquerade.jobs.outputs import outputs_beside
from masquerade.jobs.plan import Plan, known_method
from masquerade.jobs.run import Written, anonymize_plan
from masquerade.progress import OnStage, silent

Tables = str | Path | TableFile | Sequence[str | Path | TableFile]


def anonymize_table(
    table: str | Path | TableFile,
    *,
    k: int | None = None,
    qid: Sequence[str] | None = None,
    method: str | None = None,
    output: str | Path | None = None,
    target: str | None = None,
    sensitive: Sequence[str] = (),
    quick: bool = False,
    on_draft: Callable[[Draft], None] | None = None,
    on_stage: OnStage = silent,
    on_step: OnStep | None = None,
) -> Written:
    """Draft a job for a table as `draft` does, and run it; nothing is written but the release and the report.

    They go where we are, named after the table, or to `output`. `on_draft` gets the draft before it runs.
    """
    file = table if isinstance(table, TableFile) else TableFile(str(table))
    stem = "table" if file.path is None else file.path.stem
    made = draft_job(
        file,
        Path(f"{stem}.toml"),
        target=target,
        sensitive=names_of("sensitive", sensitive),
        k=DEFAULT_K if k is None else k,
        qid=None if qid is None else names_of("qid", qid),
        method=None if method is None else known_method(method),
        output=None if output is None else outputs_beside(Path(output)),
        lowers_k=k is None,
        on_stage=on_stage,
    )
    if on_draft is not None:
        on_draft(made)
    return anonymize_plan(Plan(made.job, drafted=made), quick=quick, on_stage=on_stage, on_step=on_step)


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
