"""The same k-anonymity beside anjana: seconds, and the normalised certainty penalty of the releases.

Adult's 8 categorical-and-age quasi-identifiers with ARX's hierarchies, k = 5 and k = 50. Both programs may suppress
records up to a share, and are compared at the same one (anjana's README uses 50 %). A suppressed record costs 1 a cell.
Both are timed from a pandas frame in memory to an anonymised pandas frame, with their own checks and without metrics.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import _adult
import masquerade as mq
from _figures import Durations, Figure, Say, duration, in_turn, tell
from masquerade.data.column import Generalised
from masquerade.errors import ParameterError
from masquerade.utility.comparison import Comparison
from masquerade.utility.metrics import measure

QID = ("age", "workclass", "education", "marital-status", "occupation", "race", "sex", "native-country")
KS = (5, 50)
SUPPRESSION = (0, 5, 10, 20, 50)  # percent of the records
SCORES = {"certainty": None, "gain-ratio": _adult.CLASS}  # with the class that each looks at
REPEATS = 7
TIME_CAP = 300  # seconds for one call of anjana
GOAL_FACTOR = 50

HIERARCHIES = _adult.DATA / "arx_hierarchies"
ROOT = Path(__file__).resolve().parents[1]
PYTHON = ROOT / ".venv-anjana" / "bin" / "python"


@dataclass(frozen=True)
class Result:
    """One release of one program."""

    program: str
    k: int
    level: int  # percent of the records that may be suppressed
    score: str
    seconds: float
    ncp: float
    suppressed: int


def run(say: Say, save: Path | None) -> dict[str, Any]:
    if not PYTHON.exists():
        raise ParameterError(
            "bench peers: anjana lives in .venv-anjana, which is missing; `make bench` makes it"
        )
    _adult.require_data()
    table = _adult.adult().select([*QID, _adult.CLASS])
    schema = mq.Schema(mq.Attribute(name, "categorical", mq.read_taxonomy(_hierarchy(name))) for name in QID)
    results: list[Result] = []
    with tempfile.TemporaryDirectory() as folder:
        source = _adult.write_csv(table, Path(folder) / "adult.csv")
        for k in KS:
            for level in SUPPRESSION:
                results += [_ours(table, schema, k, level, score) for score in SCORES]
                seconds = _anjana(source, Path(folder) / "anjana.csv", k, level)
                if seconds is None:
                    say(f"anjana, k = {k}, {level} % suppression: not done after {TIME_CAP} s")
                    continue
                published = pd.read_csv(Path(folder) / "anjana.csv", dtype=str)
                penalty, suppressed = _penalty(mq.Table(table, schema), published)
                results.append(Result("anjana", k, level, "", seconds, penalty, suppressed))
    for each in results:
        say(
            f"k = {each.k:<3} up to {each.level:>2} % suppressed  {each.program:10} {each.score:10} "
            f"{duration(each.seconds):>8}  ncp {each.ncp:.3f}  {each.suppressed:>6,} suppressed"
        )
    say("")
    return {"figures": tell(say, _figures(results)), "results": [asdict(each) for each in results]}


def _hierarchy(name: str) -> Path:
    return HIERARCHIES / f"adult_hierarchy_{name}.csv"


def _ours(table: pa.Table, schema: mq.Schema, k: int, level: int, score: str) -> Result:
    frame = table.to_pandas()
    algorithm = mq.TopDownSpecialization(SCORES[score], score, level / 100)

    def release() -> mq.Release:
        return mq.anonymize(mq.Table(frame, schema), mq.KAnonymity(QID, k), algorithm)

    def call() -> Durations:
        started = time.perf_counter()
        made = release()
        made.table.to_pandas()
        return {"total": time.perf_counter() - started - made.seconds["metrics"]}

    spent = in_turn({"ours": call}, REPEATS)["ours"]["total"]
    made = release()
    penalty = made.metrics["ncp"]
    assert penalty is not None
    return Result("masquerade", k, level, score, spent.best, penalty, made.suppressed)


def _anjana(source: Path, out: Path, k: int, level: int) -> float | None:
    """The seconds of anjana's call, in its own environment; None when it takes too long."""
    runner = Path(__file__).with_name("_anjana_runner.py")
    words: list[str | Path] = [
        PYTHON,
        "-W",
        "ignore",
        runner,
        source,
        HIERARCHIES,
        out,
        str(k),
        str(level),
        *QID,
    ]
    try:
        finished = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, timeout=TIME_CAP)
    except subprocess.TimeoutExpired:
        return None
    return float(finished.stdout.split()[-1])


def _penalty(original: mq.Table, published: pd.DataFrame) -> tuple[float, int]:
    """The penalty of anjana's release by our own metric, and how many records it suppressed."""
    kept = published["row"].to_numpy(np.intp)
    released = tuple(_read_back(name, published[name], original) for name in QID)
    comparison = Comparison(original.columns(QID), released, None, kept, {})
    penalty = measure(comparison)["ncp"]
    assert penalty is not None
    return penalty, comparison.suppressed


def _read_back(name: str, cells: pd.Series[str], original: mq.Table) -> Generalised:
    """A column of anjana's release: each label as the range of the leaves that ARX's file puts under it."""
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


def _figures(results: list[Result]) -> Iterator[Figure]:
    """At each share: ours, by the score with the lower penalty, beside anjana."""
    for k in KS:
        for level in SUPPRESSION:
            same = [each for each in results if (each.k, each.level) == (k, level)]
            ours = min((each for each in same if each.program == "masquerade"), key=lambda each: each.ncp)
            rival = next((each for each in same if each.program == "anjana"), None)
            if rival is None:  # it was not done in time
                continue
            what = f"k = {k}, up to {level} % suppressed"
            yield Figure(
                f"{what}: seconds",
                f"{ours.score} {duration(ours.seconds)}",
                f"anjana {duration(rival.seconds)}",
                f"1/{rival.seconds / ours.seconds:.0f}",
                f"{GOAL_FACTOR} times faster",
                rival.seconds >= GOAL_FACTOR * ours.seconds,
            )
            yield Figure(
                f"{what}: ncp",
                f"{ours.score} {ours.ncp:.3f} ({ours.suppressed:,} suppressed)",
                f"anjana {rival.ncp:.3f} ({rival.suppressed:,} suppressed)",
                f"{ours.ncp / rival.ncp:.2f}",
                "lower",
                ours.ncp < rival.ncp,
            )
