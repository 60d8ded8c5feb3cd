"""The check in SQL beside our own: the same release, counted by DuckDB and by us, for each requirement.

The release is Adult, several times over, with its ages in decades; each check reads the file for itself.
`--set copies=100` takes more rows.
"""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import _adult
from _figures import Durations, Figure, Say, in_turn, tell
from masquerade.data import TableFile
from masquerade.privacy import (
    ConfidenceBounding,
    EntropyLDiversity,
    GroupRequirement,
    KAnonymity,
    LDiversity,
    RecursiveLDiversity,
    TCloseness,
    Verdict,
    check_in_sql,
    verify,
)

COPIES = 10
REPEATS = 3
QID = ("age", "education", "marital-status", "race", "sex")
SENSITIVE = "occupation"
REQUIREMENTS: tuple[GroupRequirement, ...] = (
    KAnonymity(QID, 2),
    LDiversity(QID, 2, SENSITIVE),
    EntropyLDiversity(QID, 2, SENSITIVE),
    RecursiveLDiversity(QID, 3, 2, SENSITIVE),
    ConfidenceBounding(QID, 0.8, SENSITIVE),
    TCloseness(QID, 0.3, SENSITIVE),
    TCloseness(QID, 0.3, SENSITIVE, "ordered"),
)


def run(say: Say, save: Path | None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="masquerade-sql-") as folder:
        release = Path(folder) / "release.parquet"
        frame = pa.concat_tables([_adult.adult()] * COPIES)
        decades = pc.utf8_slice_codeunits(frame["age"].cast(pa.string()), 0, 1)
        frame = frame.set_column(frame.column_names.index("age"), "age", decades)
        pq.write_table(frame, release)
        figures = [_figure(part, release, frame.num_rows) for part in REQUIREMENTS]
    return {"figures": tell(say, figures)}


def _figure(part: GroupRequirement, release: Path, rows: int) -> Figure:
    """Time both checks of one requirement, and see that they agree."""
    ours = partial(_ours, part, release)
    verdict = ours()
    [told] = check_in_sql(release, [verdict])
    calls = {"ours": lambda: _processor(ours), "sql": lambda: _processor(lambda: check_in_sql(release, [verdict]))}
    spent = {name: each["processor"] for name, each in in_turn(calls, REPEATS).items()}
    name = f"{part.model} {getattr(part, 'distance', '')}".strip()
    return Figure(
        f"{name}, {rows:,} rows, {told.groups:,} groups",
        f"SQL {spent['sql']}",
        f"ours {spent['ours']}",
        f"{spent['sql'].best / spent['ours'].best:.1f}",
        "the same verdict",
        not told.differs and told.group == verdict.group,
    )


def _ours(part: GroupRequirement, release: Path) -> Verdict:
    names = [*part.qid, *([part.sensitive] if part.sensitive is not None else [])]
    return verify(TableFile(str(release)).read(names, names).table, part)[0]


def _processor(action: Any) -> Durations:
    before = time.process_time()
    action()
    return {"processor": time.process_time() - before}
