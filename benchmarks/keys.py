"""Finding and masking quasi-identifiers, beside the tables and the figure of Motwani and Xu (P3DM'08).

From ranks in memory: Adult (30,162 × 14, without fnlwgt and with the class, as the paper has it), and a generated table
as large as covtype, whose smallest key is known. Then a table as large as census, from a file in one pass. References
are the seconds of the paper, on a Pentium of 2.4 GHz.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

import _adult
import _wide_tables
from _figures import Figure, Say, duration, save_chart, tell
from masquerade.data import Table, TableFile
from masquerade.errors import ParameterError
from masquerade.net import Script
from masquerade.net.memory import Wire, run_together
from masquerade.protocol.joint_keys import RatioScale, joint_ratios
from masquerade.protocol.providers.shared_counts import prepare
from masquerade.report.charts import Series, line_chart
from masquerade.risk import MEASURES, CodedRows, Measure, RowSample, SeparatedRows, greedy_key
from masquerade.risk.keys import exact_key
from masquerade.risk.masking import publishable
from masquerade.risk.sampling import SampledPairs, at_most, draw_pairs, masked_beta, pairs_for_key, tuples_for_key
from masquerade.risk.separation import Extent, Separation, ratio

ROWS, COLUMNS, KEY = 581_012, 54, 5
BIG_ROWS, BIG_COLUMNS, BIG_KEY = 10_000_000, 41, 4  # 0 rows: leave it out
COMMON = 2_000  # records of two parties
SAMPLES = (2_000, 5_000, 10_000, 20_000, 30_000, 50_000)
DELTA = 0.01
_GIGABYTE = 1 << 30
HERE = Path(__file__).parent
_LOOP = """
import sys, pyarrow.parquet
with pyarrow.parquet.ParquetFile(sys.argv[1]) as opened:
    for _ in opened.iter_batches(1 << 16):
        pass
"""
RUNNER = HERE / "_ratios_runner.py"
OTHERS = HERE.parent / ".venv-anjana" / "bin" / "python"


def run(say: Say, save: Path | None) -> dict[str, Any]:
    figures = _on_adult() + _on_wide(say)
    if BIG_ROWS:
        figures += _on_big(say)
    figures += _of_parties(say)
    return {"figures": tell(say, figures), "sample_sizes": _against_sample_size(say, save)}


def _on_adult() -> list[Figure]:
    """Without fnlwgt and with the class, which are the paper's 14 attributes: its sizes come out."""
    arrow = _adult.adult().slice(0, _adult.TRAINING_RECORDS).drop_columns(["fnlwgt"])
    table = CodedRows.of(Table(arrow))
    return [
        *_finding("Adult", table, (35.5, 8.8, 3.11), (1.0, None, None)),
        _timed("Adult: smallest key, by search", lambda: len(exact_key(table, _ones(table))), "columns"),
        _masking("Adult", table, "distinct", 0.5, 36, 1.0),
        _masking("Adult", table, "separation", 0.8, 19, None),
        *_beside_others(arrow),
    ]


def _on_wide(say: Say) -> list[Figure]:
    say(f"generating {ROWS:,} × {COLUMNS}; the smallest key has {KEY} columns")
    table = _wide_tables.wide_table(ROWS, COLUMNS, KEY)
    return [
        *_finding("wide", table, (964, 78.1, 27.1), (20.0, 2.0, 0.5)),
        _timed("wide: smallest key, by search", lambda: len(exact_key(table, _ones(table))), "columns"),
        _masking("wide", table, "distinct", 0.5, None, None),
        _masking("wide", table, "separation", 0.8, 7200, 60.0),
    ]


def _finding(name: str, table: CodedRows, paper: tuple[float, ...], goals: tuple[float | None, ...]) -> list[Figure]:
    """The three columns of the paper's Table 4."""

    def greedy() -> int:
        return len(_key(SeparatedRows.of(table), table))

    def sampled_tuples() -> int:
        return len(_key(_tuples(table, tuples_for_key(table.width, table.rows, 0.1, DELTA)), table))

    def sampled_pairs() -> int:
        return len(_key(_pairs(table, pairs_for_key(table.width, 0.001, DELTA)), table))

    runs = {"greedy key": greedy, "distinct (0.1, 0.01)": sampled_tuples, "separation (0.001, 0.01)": sampled_pairs}
    return [
        _timed(f"{name}: {what}", call, "columns", seconds, goal)
        for (what, call), seconds, goal in zip(runs.items(), paper, goals, strict=True)
    ]


def _masking(
    name: str, table: CodedRows, measure: Measure, beta: float, paper: float | None, goal: float | None
) -> Figure:
    def publish() -> int:
        return _published(SeparatedRows.of(table), table, measure, beta)

    return _timed(f"{name}: {beta}-{measure} masking", publish, "published", paper, goal)


def _published(separation: Separation, table: CodedRows, measure: Measure, beta: float) -> int:
    most = at_most(beta, separation.whole, measure)
    return len(publishable(separation, range(table.width), measure, most, _ones(table)))


def _timed(
    what: str, call: Callable[[], int], of: str, paper: float | None = None, goal: float | None = None
) -> Figure:
    """Processor seconds, the better of two runs: the machine may be busy."""
    spent, answer = [], 0
    for _ in range(2):
        started = time.process_time()
        answer = call()
        spent.append(time.process_time() - started)
    best = min(spent)
    return Figure(
        what,
        f"{duration(best)}, {answer} {of}",
        f"{paper:,} s" if paper is not None else "",
        f"{best / paper:.4f}" if paper is not None else "",
        f"< {goal} s" if goal is not None else "",
        best < goal if goal is not None else None,
    )


def _beside_others(arrow: pa.Table) -> list[Figure]:
    """Both ratios and the groups over all columns, from a frame of texts in memory, beside those who have them."""
    names = list(arrow.column_names)
    if not OTHERS.exists():
        return [Figure("Adult: ratios of all 14 columns", "", "QIDLearningLib lives in .venv-anjana: make bench")]
    with tempfile.TemporaryDirectory() as folder:
        source = _adult.write_csv(arrow, Path(folder) / "adult.csv")
        words = [str(OTHERS), "-W", "ignore", str(RUNNER), str(source), *names]
        ran = subprocess.run(words, check=False, capture_output=True, text=True)
        if ran.returncode:
            raise ParameterError(
                f"bench keys: {ran.stderr.strip().rpartition(chr(10))[2]}; make .venv-anjana anew: "
                "remove the folder and run `make bench`"
            )
        theirs = json.loads(ran.stdout)
        frame = pa.Table.from_pandas(pd.read_csv(source, dtype=str))

    def extent() -> Extent:
        coded = CodedRows.of(Table(frame))
        return SeparatedRows.of(coded, range(coded.width)).extent

    whole = CodedRows.of(Table(frame)).whole
    spent = []
    for _ in range(2):
        started = time.process_time()
        found = extent()
        spent.append(time.process_time() - started)
    ours = min(spent)  # both ratios and the groups at once
    values = {measure: ratio(found, whole, measure) for measure in MEASURES} | {"groups": found.groups}
    figures = []
    for what, value in values.items():
        told = theirs[what]
        assert abs(told["value"] - value) < 1e-9, (what, told["value"], value)
        program = "pycanon" if what == "groups" else "QIDLearningLib"
        kind = what if what == "groups" else f"{what} ratio"
        figures.append(
            Figure(
                f"Adult: {kind} of all 14 columns, from a frame",
                f"{duration(ours)}, {value:.6g}",
                f"{program} {duration(told['seconds'])}",
                f"1/{told['seconds'] / ours:.1f}",
            )
        )
    return figures


def _against_sample_size(say: Say, save: Path | None) -> dict[str, Any]:
    """The paper's Figure 1, on the wide table: processor seconds and utility of masking against the sample size."""
    table = _wide_tables.wide_table(ROWS, COLUMNS, KEY)
    found: dict[str, Any] = {}
    for measure, beta in (("distinct", 0.5), ("separation", 0.8)):
        rows = []
        for size in SAMPLES:
            separation = _tuples(table, size) if measure == "distinct" else _pairs(table, size)
            limit = masked_beta(table.width, size, beta, DELTA)
            started = time.process_time()
            utility = _published(separation, table, measure, limit) if limit > 0 else 0  # type: ignore[arg-type] # one of the two
            rows.append({"sample": size, "seconds": time.process_time() - started, "published": utility})
        whole = _published(SeparatedRows.of(table), table, measure, beta)  # type: ignore[arg-type] # one of the two
        found[measure] = {"samples": rows, "published_by_all_rows": whole}
        for row in rows:
            say(
                f"{beta}-{measure} masking, sample {row['sample']:,}: {duration(row['seconds'])}, "
                f"{row['published']} published (all rows: {whole})"
            )
    for figure in ("published", "seconds"):
        chart = line_chart(
            [
                Series(measure, [(row["sample"], row[figure]) for row in each["samples"]])
                for measure, each in found.items()
            ],
            title=f"Masking against the sample size: {figure}",
            x_name="tuples, or pairs",
            y_name="columns published" if figure == "published" else "processor seconds",
            from_zero=True,
        )
        save_chart(save, f"keys-{figure}", chart)
    return found


def _on_big(say: Say) -> list[Figure]:
    """One pass over a file, in a process whose processor time (its start included) and peak of memory are measured."""
    say(f"writing {BIG_ROWS:,} × {BIG_COLUMNS}")
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "census.parquet"
        writer = None
        for batch in _wide_tables.batches(BIG_ROWS, BIG_COLUMNS, BIG_KEY):
            writer = writer or pyarrow.parquet.ParquetWriter(path, batch.schema)
            writer.write_table(batch)
        assert writer is not None
        writer.close()
        reading = _read_alone(path)
        passing = _sampled_pass(path)
        figures.append(
            Figure(
                "big: one pass that draws 50,000 tuples",
                duration(passing),
                f"reading alone {duration(reading)}",
                f"{passing / reading:.2f} of reading",
            )
        )
        alone = _measured([sys.executable, "-c", _LOOP, str(path)])["processor_seconds"]
        for what, words, paper in (
            ("distinct (0.1, 0.01)", ["keys", "--epsilon", "0.1", "--delta", "0.01"], 808),
            (
                "separation (0.001, 0.01)",
                ["keys", "--measure", "separation", "--epsilon", "0.001", "--delta", "0.01"],
                120,
            ),
            (
                "0.5-distinct masking, 30,000 tuples",
                ["mask", "--measure", "distinct", "--beta", "0.5", "--sample", "30000", "--delta", "0.01"],
                755,
            ),
            (
                "0.8-separation masking, 50,000 pairs",
                ["mask", "--measure", "separation", "--beta", "0.8", "--sample", "50000", "--delta", "0.01"],
                170,
            ),
        ):
            command = [sys.executable, "-m", "masquerade", words[0], str(path), *words[1:], "--json"]
            told = _measured(command)
            answer = json.loads(told["output"])
            columns, memory = answer.get("key", answer.get("published")), told["peak_bytes"] / _GIGABYTE
            spent = told["processor_seconds"]
            figures.append(
                Figure(
                    f"big: {what}, with reading",
                    f"{duration(spent)}, {len(columns)} columns, {memory:.1f} GB",
                    f"{paper} s; a process that reads alone {duration(alone)}",
                    f"{spent / alone:.2f} of reading",
                    "< 4 GB",
                    memory < 4,
                )
            )
    return figures


def _of_parties(say: Say) -> list[Figure]:
    """The ratio of columns of two parties, both in this process, beside counting in one table."""
    say(f"comparing {COMMON:,} common records of two parties under sharing")
    draw = np.random.default_rng(7)
    groups = draw.integers(0, COMMON // 10, (2, COMMON))
    names, figures = ("one", "other"), []
    for measure in MEASURES:
        scale, wire = RatioScale(COMMON, measure), Wire()
        started = time.process_time()
        opened = run_together({name: _party(at, names, groups[at], scale) for at, name in enumerate(names)}, wire)
        spent = time.process_time() - started
        started = time.process_time()
        table = CodedRows.of(Table(pa.table(dict(zip(names, groups, strict=True)))))
        plain = ratio(SeparatedRows.of(table, range(2)).extent, table.whole, measure)
        alone = time.process_time() - started
        assert abs(scale.ratio(opened["one"][0]) - plain) < 1e-12
        sent = sum(len(each.data) for each in wire.heard)
        figures.append(
            Figure(
                f"two parties, {COMMON:,} common records: {measure} ratio",
                f"{duration(spent)} of both, {sent / 1e6:.0f} MB, {len(wire.heard):,} messages",
                f"one table {duration(alone)}",
                f"{spent / alone:,.0f}",
            )
        )
    return figures


def _party(me: int, names: tuple[str, ...], own: NDArray[np.int64], scale: RatioScale) -> Script[list[int]]:
    shared = yield from prepare(me, names, b"bench")
    return (yield from joint_ratios(shared, [own], scale))


def _read_alone(path: Path) -> float:
    """Processor seconds of Arrow's own loop over the file, the better of two."""

    def loop() -> None:
        with pyarrow.parquet.ParquetFile(path) as opened:
            for _ in opened.iter_batches(1 << 16):
                pass

    return min(_spent(loop), _spent(loop))


def _measured(command: list[str]) -> dict[str, Any]:
    """Run a command; return its output, processor seconds and peak of memory, the better of two runs."""
    words = [sys.executable, str(HERE / "_peak.py"), *command]
    runs = [subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    told: dict[str, Any] = min((json.loads(each.stdout) for each in runs), key=lambda each: each["processor_seconds"])
    return told


def _sampled_pass(path: Path) -> float:
    """Processor seconds of what `keys` and `mask` do until they have their sample, without the start of a process."""

    def loop() -> None:
        with TableFile(str(path)).in_batches() as opened:
            sample = RowSample(lambda _: 50_000, 7, expected=opened.rows)
            for batch in opened.batches:
                sample.add(batch)
            assert sample.result().num_rows == 50_000

    return min(_spent(loop), _spent(loop))


def _spent(call: Callable[[], None]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


def _key(separation: Separation, table: CodedRows) -> tuple[int, ...]:
    everything = separation
    for column in range(table.width):
        everything = everything.refined(column)
    goal = everything.extent.pairs
    found = greedy_key(separation, range(table.width), lambda extent: extent.pairs == goal, _ones(table))
    assert found is not None
    return found


def _tuples(table: CodedRows, size: int) -> SeparatedRows:
    return SeparatedRows.of(table.take(np.random.default_rng(7).permutation(table.rows)[:size]))


def _pairs(table: CodedRows, size: int) -> SampledPairs:
    order = np.random.default_rng(7).permutation(table.rows)
    return SampledPairs.of(table, *draw_pairs(table.rows, size, order, 7))


def _ones(table: CodedRows) -> list[float]:
    return [1.0] * table.width
