"""Figure 9 of the m-privacy paper by several ways to make one score of a cut's parts: which one has its query error?

Algorithm 2 makes the cut "with the highest fitness", and does not say how the scores of a cut's parts become one. The
setting is `m_privacy_anonymization`'s (Adult, 10 providers, k = 30, ℓ = 4), with exponential and with uniform shares.
The paper's provider-aware error stays where it is for every m, and at or below the baseline's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import _adult
import m_privacy_anonymization as experiment
import masquerade as mq
from _figures import Figure, Say, duration, save_chart, tell
from masquerade.anonymize import Choice, Judge
from masquerade.anonymize.mondrian.cuts import Cuts
from masquerade.privacy import GroupRequirement
from masquerade.report.charts import Series, line_chart
from masquerade.utility import FIXED_ONE

MS = (1, 3, 5, 7, 9)
RECORDS = 10_000  # 45222 for all
ALPHAS = (0.8, 0.3)
Scores = NDArray[np.float64]
Ways = Mapping[str, Callable[[Scores, Scores, NDArray[np.int64]], Scores]]

# From the parts' scores, their records, and where the parts of each cut begin.
WAYS: Ways = {
    "least fit part": lambda scores, sizes, starts: np.minimum.reduceat(scores, starts),
    "fittest part": lambda scores, sizes, starts: np.maximum.reduceat(scores, starts),
    "sum": lambda scores, sizes, starts: np.add.reduceat(scores, starts),
    "mean": lambda scores, sizes, starts: _mean(scores, np.ones_like(sizes), starts),
    "mean over records": lambda scores, sizes, starts: _mean(scores, sizes, starts),
    "product": lambda scores, sizes, starts: np.multiply.reduceat(scores, starts),
}


def _mean(scores: Scores, weights: Scores, starts: NDArray[np.int64]) -> Scores:
    mean: Scores = np.add.reduceat(scores * weights, starts) / np.add.reduceat(weights, starts)
    return mean


@dataclass(frozen=True)
class Fittest(mq.ProviderAwareMondrian):
    """Algorithm 2 with another score of a cut; `first` makes allowed cuts between providers before all others."""

    way: str = "least fit part"
    first: bool = False

    def _choice(self, judge: Judge, parts: Sequence[GroupRequirement], n_rows: int) -> Choice:
        def score(cuts: Cuts) -> Scores:
            if self.first and not cuts.released:
                return np.full(cuts.sizes.size, np.inf)
            parts = cuts.parts
            scores = judge.fitness(parts.counts, self.alpha)
            one = WAYS[self.way](scores, parts.sizes.astype(float), parts.starts(cuts.sizes.size))
            return np.rint(one * FIXED_ONE)

        return score


def run(say: Say, save: Path | None) -> dict[str, Any]:
    adult = _adult.adult()
    some = np.sort(np.random.default_rng(experiment.SEED).permutation(adult.num_rows)[:RECORDS])
    methods: dict[str, Any] = {"baseline (widest)": mq.Mondrian(choose="widest")}
    methods |= {
        f"{way}, α = {alpha}": Fittest(choose="fitness", alpha=alpha, way=way) for way in WAYS for alpha in ALPHAS
    }
    methods["providers first, then least fit"] = Fittest(choose="fitness", first=True)
    methods["ours (certainty)"] = mq.ProviderAwareMondrian()
    methods["baseline (certainty)"] = mq.Mondrian()
    figures: list[Figure] = []
    results: dict[str, Any] = {}
    for shares in ("exponential", "uniform"):
        setting = experiment.Setting(_provided(adult, shares).take(pa.array(some)))
        found = {name: [_measure(setting, method, m) for m in MS] for name, method in methods.items()}
        results[shares] = found
        _say(say, shares, found)
        figures += _verdicts(shares, found)
        chart = line_chart(
            [Series(name, [(m, each[0]) for m, each in zip(MS, of, strict=True)]) for name, of in found.items()],
            title=f"Figure 9, {shares} shares: query error by the score of a cut",
            x_name="m",
            y_name="mean relative error of 2,500 queries",
        )
        save_chart(save, f"m-privacy-9-fitness-{shares}", chart)
    return {"figures": tell(say, figures), **results}


def _provided(adult: pa.Table, shares: str) -> pa.Table:
    """Adult with a column of providers."""
    table = experiment.provided(adult)
    if shares == "exponential":
        return table
    n = experiment.N_PROVIDERS
    drawn = np.random.default_rng(experiment.SEED).integers(0, n, table.num_rows)
    names = pa.array([f"P{number:02}" for number in range(1, n + 1)])
    at = table.column_names.index(experiment.PROVIDER)
    return table.set_column(at, experiment.PROVIDER, names.take(pa.array(drawn)))


def _measure(setting: experiment.Setting, method: Any, m: int) -> tuple[float, int, float, float]:
    """Query error, groups, providers of a group in the mean, and seconds of the processor."""
    qid = experiment.QID
    plain = mq.KAnonymity(qid, experiment.K) & mq.LDiversity(qid, experiment.L, experiment.SENSITIVE)
    started = time.process_time()
    outcome = method.run_on_table(setting.table, mq.MPrivacy(m, plain, experiment.PROVIDER))
    seconds = time.process_time() - started
    return (*setting.worth(outcome), seconds)


def _say(say: Say, shares: str, found: Mapping[str, list[tuple[float, int, float, float]]]) -> None:
    for at, what, write in (
        (0, "query error", "{:.3f}".format),
        (2, "providers of a group", "{:.1f}".format),
        (3, "processor time", duration),
    ):
        say(f"{shares} shares: {what}, m =".ljust(44) + "".join(f"{m:>10}" for m in MS))
        for name, of in found.items():
            say(name.ljust(44) + "".join(f"{write(each[at]):>10}" for each in of))
        say("")


def _verdicts(shares: str, found: Mapping[str, list[tuple[float, int, float, float]]]) -> Iterator[Figure]:
    """The paper's two claims of each way: at most the baseline's error at every m, and no growth with m."""
    baseline = found["baseline (widest)"]
    for name, of in found.items():
        if name.startswith("baseline"):
            continue
        held = sum(each[0] <= rival[0] for each, rival in zip(of, baseline, strict=True))
        growth = of[-1][0] / of[0][0]
        yield Figure(
            f"{shares} shares, {name}: error",
            f"{min(each[0] for each in of):.2f} to {max(each[0] for each in of):.2f}",
            f"at most the widest baseline's at {held} of {len(MS)} m",
            f"m = {MS[-1]} is {growth:.2f} of m = {MS[0]} (baseline {baseline[-1][0] / baseline[0][0]:.2f})",
            "as the paper: at every m, and 1.2 at most",
            held == len(MS) and growth <= 1.2,
        )
