"""The table that a job names, for commands that ask about a table: `keys JOB`, `mask JOB`.

Of the job count `[data]`, `[engine]` and the names of the attributes; what would be made of the table does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from masquerade.data.read import TableFile
from masquerade.forms.toml import read_toml
from masquerade.job.joint_question import QuestionPlan
from masquerade.job.tables import section_file
from masquerade.library.chunked_jobs import opened_engine

if TYPE_CHECKING:
    from masquerade.engine.chunks import Engine


# A table, the columns that are looked at unless others are named (None for all), and the engine that counts its rows.
AskedTable = tuple[TableFile, tuple[str, ...] | None, "Engine | None"]


def is_about_parties(job: str | Path) -> bool:
    """Return whether the tables of a job are those of parties."""
    return "parties" in read_toml(Path(job))


@contextmanager
def opened_job_table(job: str | Path) -> Iterator[AskedTable]:
    """Open the table of a job, and the engine that it names."""
    plan = QuestionPlan(Path(job))
    data = plan.data()
    plan.settle()
    file = section_file(data, plan.base)
    columns = tuple(plan.job.attributes) or None
    if plan.job.engine is None:
        yield file, columns, None
        return
    with opened_engine(plan.job.engine, plan) as engine:
        yield file, columns, engine
