"""The same k-anonymity beside anjana: seconds, and the normalised certainty penalty of the releases.

Adult's 8 categorical-and-age quasi-identifiers with ARX's hierarchies, k = 5 and k = 50. anjana generalises whole
columns and may suppress records up to a given share; we run it at several shares (its README uses 50 %). A suppressed
record costs 1 a cell. Both start from a pandas frame in memory; ours also encodes, verifies and measures in its time.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import _adult
import masquerade as mq
from _figures import Figure, Say, clocked, duration, in_turn, tell
from masquerade.data.column import Generalised
from masquerade.errors import ParameterError
from masquerade.utility.comparison import Comparison
from masquerade.utility.metrics import measure

QID = ("age", "workclass", "education", "marital-status", "occupation", "race", "sex", "native-country")
KS = (5, 50)
SUPPRESSION = (0, 1, 5, 10, 20, 50)  # percent of the records
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
    setting: str
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
            results += [_ours(table, schema, k, score) for score in ("discernibility", "gain-ratio")]
            for level in SUPPRESSION:
                seconds = _anjana(source, Path(folder) / "anjana.csv", k, level)
                if seconds is None:
                    say(f"anjana, k = {k}, {level} % suppression: not done after {TIME_CAP} s")
                    continue
                published = pd.read_csv(Path(folder) / "anjana.csv", dtype=str)
                penalty, suppressed = _penalty(mq.Table(table, schema), published)
                results.append(
                    Result("anjana", k, f"up to {level} % suppressed", seconds, penalty, suppressed)
                )
    for each in results:
        say(
            f"k = {each.k:<3} {each.program:10} {each.setting:22} {duration(each.seconds):>8}  "
            f"ncp {each.ncp:.3f}  {each.suppressed:>6,} suppressed"
        )
    say("")
    return {"figures": tell(say, _figures(results)), "results": [asdict(each) for each in results]}


def _hierarchy(name: str) -> Path:
    return HIERARCHIES / f"adult_hierarchy_{name}.csv"


def _ours(table: pa.Table, schema: mq.Schema, k: int, score: str) -> Result:
    frame = table.to_pandas()
    algorithm = mq.TopDownSpecialization(None if score == "discernibility" else _adult.CLASS, score)
    releases: list[mq.Release] = []

    def call() -> None:
        releases.append(mq.anonymize(mq.Table(frame, schema), mq.KAnonymity(QID, k), algorithm))

    spent = in_turn({"ours": clocked(call)}, REPEATS)["ours"]["total"]
    penalty = releases[0].metrics["ncp"]
    assert penalty is not None
    return Result("masquerade", k, score, spent.best, penalty, 0)


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
    """Ours, the better of its two scores, beside anjana with the same promise, at its best and at its fastest."""
    for k in KS:
        ours = min((each for each in results if each.k == k and each.program == "masquerade"), key=_by_ncp)
        theirs = [each for each in results if each.k == k and each.program == "anjana"]
        whole = [each for each in theirs if not each.suppressed]
        for name, rival in (
            ("anjana, nothing suppressed", min(whole, key=_by_ncp, default=None)),
            ("anjana at its lowest penalty", min(theirs, key=_by_ncp, default=None)),
            ("anjana at its fastest", min(theirs, key=lambda each: each.seconds, default=None)),
        ):
            if rival is None:  # none was done in time
                continue
            yield Figure(
                f"k = {k}: seconds",
                f"{ours.setting} {duration(ours.seconds)}",
                f"{name} {duration(rival.seconds)}",
                f"1/{rival.seconds / ours.seconds:.0f}",
                f"{GOAL_FACTOR} times faster",
                rival.seconds >= GOAL_FACTOR * ours.seconds,
            )
            yield Figure(
                f"k = {k}: ncp",
                f"{ours.setting} {ours.ncp:.3f}",
                f"{name} {rival.ncp:.3f} ({rival.suppressed:,} suppressed)",
                f"{ours.ncp / rival.ncp:.2f}",
                "lower",
                ours.ncp < rival.ncp,
            )


def _by_ncp(result: Result) -> float:
    return result.ncp
