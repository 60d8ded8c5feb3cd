"""The same work beside other programs: anonymising, checking a table, and finding common records.

Adult's 8 categorical-and-age quasi-identifiers with ARX's hierarchies, k = 5 and k = 50, beside anjana, a plain-Python
Mondrian, and ARX where the variable ARX_JAR names its jar. Programs that suppress records are compared at the same
share (anjana's README uses 50 %); a suppressed record costs 1 a cell. All go from a pandas frame in memory to an
anonymised one, each in a process of its own, with their own checks; seconds are of the processor. A table's k, ℓ and t
are found beside pycanon, common records beside openmined.psi.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import _adult
import align
import masquerade as mq
from _figures import Figure, Say, duration, tell
from masquerade.data import Generalised
from masquerade.errors import ParameterError
from masquerade.utility import Comparison, measure
from masquerade.utility.classification import Classification
from masquerade.utility.measures import discernibility

QID = ("age", "workclass", "education", "marital-status", "occupation", "race", "sex", "native-country")
KS = (5, 50)
SUPPRESSION = (0, 5, 10, 20, 50)  # percent of the records
TIME_CAP = 300  # seconds for one call
GOAL_FACTOR = 50
IDENTIFIERS = 100_000  # of each party, for the common records
OURS, RECODERS = ("masquerade-tds",), ("masquerade-mondrian", "masquerade-cheapest-box")

HERE = Path(__file__).resolve().parent
ANJANA = HERE.parent / ".venv-anjana" / "bin" / "python"


@dataclass(frozen=True)
class Result:
    """One release of one program."""

    program: str
    k: int
    level: int  # percent of the records that may be suppressed
    seconds: float
    added_bytes: int  # to the memory of the process
    ncp: float
    discernibility: int
    error: float  # of classification, percent
    suppressed: int


def run(say: Say, save: Path | None) -> dict[str, Any]:
    if not ANJANA.exists():
        raise ParameterError("bench peers: anjana lives in .venv-anjana, which is missing; `make bench` makes it")
    _adult.require_data()
    contest = Contest(_adult.adult())
    results = [each for each in contest.results(say) if each is not None]
    for each in results:
        say(
            f"k = {each.k:<3} up to {each.level:>2} % suppressed  {each.program:24} {duration(each.seconds):>8}  "
            f"{each.added_bytes / 2**20:6.0f} MB  ncp {each.ncp:.3f}  discernibility {each.discernibility:.2e}  "
            f"error {each.error:.1f} %  {each.suppressed:>6,} suppressed"
        )
    say("")
    figures = [*_figures(results), *_checking(contest.table), *_common_records()]
    return {"figures": tell(say, figures), "results": [asdict(each) for each in results]}


class Contest:
    """Adult, on which every program is asked for the same, and by which every release is judged."""

    def __init__(self, everything: pa.Table) -> None:
        self.table = everything.select([*QID, _adult.CLASS])
        schema = mq.Schema(mq.Attribute(name, "categorical", mq.read_taxonomy(_hierarchy(name))) for name in QID)
        self.original = mq.Table(self.table, schema)
        train = np.arange(len(self.original)) < _adult.TRAINING_RECORDS
        self.task = Classification(self.original, _adult.CLASS, train=train)

    def results(self, say: Say) -> Iterator[Result | None]:
        """Each program at each k, and at each share of records that it may suppress."""
        for k in KS:
            for level in SUPPRESSION:
                for program in (*OURS, "anjana"):
                    yield self._result(say, program, k, level)
            for program in (*RECODERS, "plain-mondrian", *(("arx",) if "ARX_JAR" in os.environ else ())):
                yield self._result(say, program, k, 0)

    def _result(self, say: Say, program: str, k: int, level: int) -> Result | None:
        """What a program makes of it; None when it takes too long."""
        with tempfile.TemporaryDirectory() as folder:
            source = _adult.write_csv(self.table, Path(folder) / "adult.csv")
            out = Path(folder) / "released.csv"
            command = [*_command(program), source, _hierarchies(), out, str(k), str(level), *QID]
            try:
                ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=TIME_CAP)
            except subprocess.TimeoutExpired:
                say(f"{program}, k = {k}, {level} % suppression: not done after {TIME_CAP} s")
                return None
            told = json.loads(ran.stdout)
            judged = self.judge(pd.read_csv(out, dtype=str))
        return Result(program, k, level, told["seconds"], told["added_bytes"], *judged)

    def judge(self, published: pd.DataFrame) -> tuple[float, int, float, int]:
        """By our own metrics: penalty, discernibility, classification error, and how many records are left out."""
        found = compared(self.original, published)
        penalty = measure(found)["ncp"]
        assert penalty is not None
        error = 100 * self.task.integration_error(found.released, found.kept)
        return penalty, discernibility(found), error, found.suppressed


def _command(program: str) -> list[str | Path]:
    if program == "arx":
        return ["java", "-cp", os.environ["ARX_JAR"], HERE / "_ArxRunner.java"]
    python = ANJANA if program == "anjana" else Path(sys.executable)
    return [python, "-W", "ignore", HERE / "_peer_runner.py", program]


def _hierarchies() -> Path:
    return _adult.data() / "arx_hierarchies"


def _hierarchy(name: str) -> Path:
    return _hierarchies() / f"adult_hierarchy_{name}.csv"


def compared(original: mq.Table, published: pd.DataFrame) -> Comparison:
    """A program's release beside the original; `row` says which record each row is."""
    published = published.assign(row=published["row"].astype(int)).sort_values("row")
    released = tuple(_read_back(name, published[name], original) for name in QID)
    return Comparison(original.columns(QID), released, None, published["row"].to_numpy(np.intp), {})


def _read_back(name: str, cells: pd.Series[str], original: mq.Table) -> Generalised:
    """A column of a release: each label as the range of the leaves that ARX's file puts under it."""
    domain = original.column(name).domain
    assert isinstance(domain, mq.Taxonomy)
    below: dict[str, list[int]] = {}
    for line in _hierarchy(name).read_text(encoding="utf-8").splitlines():
        leaf, *ancestors = line.split(";")
        for label in {leaf, *ancestors}:
            below.setdefault(label, []).append(domain.rank[leaf])
    codes, labels = pd.factorize(cells)
    lo = np.array([min(below[label]) for label in labels])
    hi = np.array([max(below[label]) + 1 for label in labels])
    return Generalised(name, codes.astype(np.int32), tuple(labels), lo, hi, domain)


def _figures(results: Sequence[Result]) -> Iterator[Figure]:
    """Ours beside anjana at each share; local recoding beside the plain Mondrian, and beside ARX."""
    at = {(each.program, each.k, each.level): each for each in results}
    for k in KS:
        for level in SUPPRESSION:
            ours, rival = at["masquerade-tds", k, level], at.get(("anjana", k, level))
            if rival is not None:  # it was done in time
                yield from _beside(f"k = {k}, up to {level} % suppressed", ours, rival, GOAL_FACTOR)
        for rival in (at.get((name, k, 0)) for name in ("plain-mondrian", "arx")):
            if rival is not None:
                for name in RECODERS:
                    yield from _beside(f"k = {k}, {name}", at[name, k, 0], rival)


def _beside(what: str, ours: Result, rival: Result, factor: int | None = None) -> Iterator[Figure]:
    times = rival.seconds / ours.seconds
    yield Figure(
        f"{what}: seconds",
        duration(ours.seconds),
        f"{rival.program} {duration(rival.seconds)}",
        f"1/{times:.1f}",
        f"{factor} times faster" if factor else "",
        times >= factor if factor else None,
    )
    yield Figure(
        f"{what}: ncp",
        f"{ours.ncp:.3f} ({ours.suppressed:,} suppressed)",
        f"{rival.program} {rival.ncp:.3f} ({rival.suppressed:,} suppressed)",
        f"{ours.ncp / rival.ncp:.2f}",
        "lower",
        ours.ncp < rival.ncp,
    )
    yield Figure(
        f"{what}: discernibility",
        f"{ours.discernibility:.2e}",
        f"{rival.program} {rival.discernibility:.2e}",
        f"{ours.discernibility / rival.discernibility:.2f}",
    )
    yield Figure(f"{what}: error", f"{ours.error:.1f} %", f"{rival.program} {rival.error:.1f} %")
    yield Figure(
        f"{what}: memory added",
        f"{ours.added_bytes / 2**20:.0f} MB",
        f"{rival.program} {rival.added_bytes / 2**20:.0f} MB",
    )


def _checking(table: pa.Table) -> Iterator[Figure]:
    """k, ℓ and t of Adult itself, from a frame in memory, beside pycanon, which lives where anjana lives."""
    qid, sensitive = QID[:4], "occupation"
    asked: dict[str, Callable[[], mq.Requirement]] = {
        "k_anonymity": partial(mq.KAnonymity, qid, 2),
        "l_diversity": partial(mq.LDiversity, qid, 2, sensitive),
        "t_closeness": partial(mq.TCloseness, qid, 0.5, sensitive),
    }
    with tempfile.TemporaryDirectory() as folder:
        source = _adult.write_csv(table.slice(0, _adult.TRAINING_RECORDS), Path(folder) / "adult.csv")
        words = [ANJANA, "-W", "ignore", HERE / "_pycanon_runner.py", source, sensitive, *qid]
        theirs = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)
        frame = pd.read_csv(source, dtype=str)
    for name, requirement in asked.items():
        seconds = float("inf")
        for _ in range(3):
            started = time.process_time()
            found = mq.verify(pa.Table.from_pandas(frame[[*qid, sensitive]]), requirement())
            seconds = min(seconds, time.process_time() - started)
        value = found.verdicts[0].value
        assert abs(float(value) - theirs[name]["value"]) < 1e-3, (name, value, theirs[name])
        yield Figure(
            f"checking, {name.replace('_', '-')} of {len(frame):,} records",
            duration(seconds),
            f"pycanon {duration(theirs[name]['seconds'])}",
            f"1/{theirs[name]['seconds'] / seconds:.1f}",
        )


def _common_records() -> Iterator[Figure]:
    """Two processes over TLS; both programs by the processor seconds of both parties."""
    ours = align.aligned(2, IDENTIFIERS, "oprf")["processor_seconds"]
    theirs = align.openmined_takes([align.people(me, IDENTIFIERS) for me in range(2)])
    yield Figure(
        f"common records of two parties, {IDENTIFIERS:,} each",
        duration(ours),
        f"openmined.psi {duration(theirs)}",
        f"1/{theirs / ours:.1f}",
    )
