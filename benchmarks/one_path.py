"""One path for rows: a release being made of a table in memory, and of the same rows in chunks of an engine.

Adult's complete records, and ten times as many. A table in memory is one chunk, so what this shows is what it costs
that rows are in several: seconds of the processor from records to released codes, threads included, and the same
release both times. For a comparison with another version of Masquerade, run it with each.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import _adult
import masquerade as mq
from _figures import Figure, Say, Spent, duration, tell
from masquerade.anonymize import TableMethod
from masquerade.anonymize.method import records_of
from masquerade.data import Outcome, Records
from masquerade.engine import Chunk, LocalEngine
from masquerade.protocol.common_records import on_engine

QID = ("age", "workclass", "education", "marital-status", "occupation", "relationship", "race", "sex", "native-country")
TREES = QID[1:]  # Datafly generalises along taxonomies
K, TIMES, REPEATS, CHUNKS = 50, (1, 10), 5, 3
METHODS: dict[str, tuple[TableMethod, tuple[str, ...]]] = {
    "tds": (mq.TopDownSpecialization(_adult.CLASS), QID),
    "tds, no class": (mq.TopDownSpecialization(), QID),
    "datafly": (mq.Datafly(), TREES),
    "datafly, whole columns": (mq.Datafly(whole_columns=True), TREES),
    "mondrian": (mq.Mondrian(), QID),
}


class _InChunks(LocalEngine):
    """So many chunks, however many rows there are."""

    rows = 1

    def rows_at_once(self, bytes_per_row: int) -> int:
        return self.rows


def run(say: Say, save: Path | None) -> dict[str, Any]:
    figures = []
    everything = _adult.adult()
    for times in TIMES:
        table = mq.Table(pa.concat_tables([everything] * times), _adult.schema(_adult.ALL14))
        for what, (method, qid) in METHODS.items():
            requirement = mq.KAnonymity(qid, K)
            here = records_of(table, requirement, method.target)
            alone, whole = _spent(partial(method.run, here, requirement))
            with _InChunks() as engine:
                engine.rows = -(-len(table) // CHUNKS)
                there = on_engine(replace(here, table=None), engine)
                together, chunked = _spent(partial(method.run, there, requirement))
                same = _codes(there, chunked) == _codes(here, whole)
            assert same, f"{what}: the release does not depend on where rows are"
            figures.append(
                Figure(
                    f"{what}, {len(table):,} rows: {CHUNKS} chunks",
                    duration(together.best),
                    f"in memory {duration(alone.best)}",
                    f"{together.best / alone.best:.2f}",
                )
            )
    return {"figures": tell(say, figures)}


def _spent(make: Callable[[], Outcome]) -> tuple[Spent, Outcome]:
    """Return the processor's seconds of several runs, and what the last made."""
    seconds = []
    outcome = make()
    for _ in range(REPEATS):
        started = time.process_time()
        outcome = make()
        seconds.append(time.process_time() - started)
    return Spent.of(seconds), outcome


def _codes(records: Records, outcome: Outcome) -> list[tuple[tuple[str, ...], list[int]]]:
    """Return each released column: its labels, and the code of each released row."""
    here, made = outcome.beside(records)

    def read(chunk: Chunk) -> list[np.ndarray]:
        rows = made.rows(chunk)
        codes = [made.codes[column.name](chunk) for column in made.columns]
        return codes if rows is None else [each.take(rows) for each in codes]

    pieces = zip(*here.chunks.each(read), strict=True)
    return [(column.labels, np.concatenate(each).tolist()) for column, each in zip(made.columns, pieces, strict=True)]
