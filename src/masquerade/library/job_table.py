"""The table that a job names, for commands that ask about a table: `keys JOB`, `mask JOB`.

Of the job count `[data]`, `[engine]` and the names of the attributes; what would be made of the table does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from masquerade.data.database_url import database_scheme
from masquerade.data.table_file import TableFile
from masquerade.forms.toml import read_toml
from masquerade.job.joint_question import QuestionPlan
from masquerade.library.chunked_jobs import opened_engine

if TYPE_CHECKING:
    from masquerade.engine.chunks import Engine


@dataclass(frozen=True)
class JobTable:
    """A table, the columns that are looked at unless others are named, and where it is counted."""

    file: TableFile
    columns: tuple[str, ...] | None  # None for all
    engine: Engine | None


def is_about_parties(job: str | Path) -> bool:
    """Return whether the tables of a job are those of parties."""
    return "parties" in read_toml(Path(job))


@contextmanager
def opened_job_table(job: str | Path) -> Iterator[JobTable]:
    """Open the table of a job, and the engine that it names."""
    plan = QuestionPlan(Path(job))
    data = plan.data()
    plan.settle()
    source = data.source if database_scheme(data.source) is not None else str(plan.base / data.source)
    file = TableFile(source, data.query, data.separator, data.encoding)
    columns = tuple(plan.job.attributes) or None
    if plan.job.engine is None:
        yield JobTable(file, columns, None)
        return
    with opened_engine(plan.job.engine, plan) as engine:
        yield JobTable(file, columns, engine)
