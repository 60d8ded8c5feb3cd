"""m-privacy of a group: checks and time of the paper's five strategies and of ours (Figures 6, 7, 8 and 11).

Groups of Adult's records, occupation sensitive (14 values), spread over providers by an exponential distribution;
k-anonymity and distinct ℓ-diversity with the paper's defaults: k = 50, ℓ = 4, m = 5, n_G = 15. Mean of ten groups.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

import masquerade as mq
from _adult import adult
from _figures import Figure, Say, duration, save_chart, tell
from masquerade.data import Table
from masquerade.engine import pair_counts
from masquerade.privacy import constraint_of
from masquerade.privacy.m_privacy.search import MPrivacyOutcome, TooManyCoalitions
from masquerade.privacy.m_privacy.strategies import STRATEGIES, ProviderGroup, adaptive
from masquerade.report.charts import Series, line_chart

K, L, M, PROVIDERS, GROUPS, SEED = 50, 4, 5, 15, 10, 7
SIZES = (150, 750)
HEURISTICS = tuple(name for name in STRATEGIES if name != "exact")
Means = Mapping[str, tuple[float, float]]  # by strategy: checks and seconds


class Records:
    """Adult's occupations, from which groups are drawn."""

    def __init__(self) -> None:
        coded = Table(adult().select(["occupation"])).coded("occupation")
        self.codes, self.labels = coded.codes, coded.labels
        self.whole = coded.histogram()

    def group(self, n: int, size: int, seed: int, k: int = K, falling: float = 3) -> ProviderGroup:
        """A group of `size` records of n providers, each with at least one; shares fall exponentially, or by 0 not."""
        random = np.random.default_rng(seed)
        weights = np.exp(-falling * np.arange(n) / n)
        providers = np.concatenate([np.arange(n), random.choice(n, size - n, p=weights / weights.sum())])
        counts = pair_counts(providers, random.choice(self.codes, size), n, len(self.labels))
        sizes = constraint_of(mq.KAnonymity("q", k), self.whole.sum(axis=1, keepdims=True), ())
        values = constraint_of(mq.LDiversity("q", L, "occupation"), self.whole, self.labels)
        return ProviderGroup([sizes, values], [counts.sum(axis=1, keepdims=True), counts])


def run(say: Say, save: Path | None) -> dict[str, Any]:
    records = Records()
    figures: list[Figure] = []
    results: dict[str, Any] = {}
    for size in SIZES:
        by_m = {m: _means(records, PROVIDERS, size, m) for m in range(1, PROVIDERS)}
        _say_table(say, f"{size} records, {PROVIDERS} providers", "m", by_m)
        _charts(save, f"m-privacy-m-{size}", f"{size} records of {PROVIDERS} providers", "colluding providers m", by_m)
        results[f"figure 6, {size}"] = by_m
        figures.append(_fewest_checks(size, by_m))
        by_n = {n: _means(records, n, size, M) for n in (6, 8, 10, 12, 15, 18, 20)}
        _say_table(say, f"{size} records, m = {M}", "providers", by_n)
        _charts(save, f"m-privacy-providers-{size}", f"{size} records, m = {M}", "providers of the group", by_n)
        results[f"figure 7, {size}"] = by_n
    by_records = {each: _means(records, PROVIDERS, PROVIDERS * each, M) for each in (2, 4, 6, 8, 10, 15, 20, 30, 50)}
    _say_table(say, f"{PROVIDERS} providers, m = {M}", "records/provider", by_records)
    _charts(save, "m-privacy-records", f"{PROVIDERS} providers, m = {M}", "records a provider", by_records)
    results["figure 8"] = by_records
    figures += _thirty(say, records, results)
    figures += _two_hundred(records)
    figures += _adaptive(save, records, results)
    return {"figures": tell(say, figures), **results}


def _means(
    records: Records, n: int, size: int, m: int, ways: Iterable[str] = STRATEGIES, groups: int = GROUPS
) -> Means:
    """The mean checks and seconds of each strategy; all must agree on every group."""
    outcomes: dict[str, list[tuple[MPrivacyOutcome, float]]] = {way: [] for way in ways}
    for seed in range(SEED, SEED + groups):
        for way, seen in outcomes.items():
            seen.append(_timed(lambda group, way=way: STRATEGIES[way](group, m), records.group(n, size, seed)))
    verdicts = {tuple(outcome.private for outcome, _ in seen) for seen in outcomes.values()}
    assert len(verdicts) == 1, "the strategies do not agree"
    return {
        way: (fmean(outcome.checks for outcome, _ in seen), fmean(seconds for _, seconds in seen))
        for way, seen in outcomes.items()
    }


def _timed(verify: Callable[[ProviderGroup], MPrivacyOutcome], group: ProviderGroup) -> tuple[MPrivacyOutcome, float]:
    """The outcome, and the best time of three (slow ones once); a group's sums are made anew each time."""
    best, repeats = float("inf"), 3
    while repeats:
        fresh = ProviderGroup(group.constraints, group.matrices)
        started = time.perf_counter()
        outcome = verify(fresh)
        best = min(best, time.perf_counter() - started)
        repeats = repeats - 1 if best < 0.2 else 0
    return outcome, best


def _fewest_checks(size: int, by_m: Mapping[int, Means]) -> Figure:
    """The best heuristic is the one whose worst m takes the fewest checks."""
    worst = {way: max(means[way][0] for means in by_m.values()) for way in HEURISTICS}
    best = min(worst, key=worst.__getitem__)
    ours = max(means["exact"][0] for means in by_m.values())
    return Figure(
        f"{size} records, {PROVIDERS} providers: checks at the worst m",
        f"{ours:,.0f}",
        f"{worst[best]:,.0f} ({best})",
        f"{worst[best] / ours:,.0f} times fewer",
        "100 times fewer",
        worst[best] >= 100 * ours,
    )


def _thirty(say: Say, records: Records, results: dict[str, Any]) -> Iterator[Figure]:
    """Thirty providers, every m: the fastest heuristic that can do it at all, beside ours."""
    for size in (2 * SIZES[0], SIZES[1]):
        slowest: dict[str, float] = {}
        told = {}
        for m in (2, 5, 8, 11, 14):
            group, seen = records.group(30, size, SEED), dict[str, float]()
            for way in STRATEGIES:
                try:
                    seen[way] = _timed(lambda each, way=way, m=m: STRATEGIES[way](each, m), group)[1]
                except TooManyCoalitions:
                    seen[way] = float("inf")
            told[m] = {way: seconds for way, seconds in seen.items() if seconds < float("inf")}
            say(
                f"30 providers, {size} records, m = {m}: " + ", ".join(f"{w} {duration(s)}" for w, s in told[m].items())
            )
            # Where there is no room for it, `adaptive` is `exact`: then it is no rival.
            for way in ("direct", "top-down", "bottom-up", "binary"):
                slowest[way] = max(slowest.get(way, 0.0), seen[way])
            slowest["exact"] = max(slowest.get("exact", 0.0), seen["exact"])
        results[f"30 providers, {size}"] = told
        best = min((way for way in slowest if way != "exact"), key=slowest.__getitem__)
        ratio = slowest[best] / slowest["exact"]
        yield Figure(
            f"{size} records, 30 providers: time at the worst m",
            f"{1e6 * slowest['exact']:.0f} µs",
            f"{duration(slowest[best])} ({best})",
            f"{ratio:,.0f} times faster",
            "100 times faster",
            ratio >= 100,
        )


def _two_hundred(records: Records) -> Iterator[Figure]:
    for size in (400, 2000, 10_000):
        outcome, seconds = _timed(lambda group: STRATEGIES["exact"](group, 10), records.group(200, size, SEED))
        yield Figure(
            f"{size:,} records, 200 providers, m = 10, ℓ = 4 of 14",
            f"{1e3 * seconds:.2f} ms",
            f"{outcome.checks} checks",
            "",
            "10 ms",
            seconds < 0.01,
        )


def _adaptive(save: Path | None, records: Records, results: dict[str, Any]) -> Iterator[Figure]:
    """The groups that halving makes of |T| records of ten providers (k = 30, m = 3), and which threshold is good."""
    ways = {name: STRATEGIES[name] for name in ("binary", "top-down", "adaptive", "exact")}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for total in (100, 300, 1000, 3000, 10_000):
        groups = [*_halved(records, total)]
        for name, way in ways.items():
            seconds = sum(_timed(lambda group, way=way: way(group, 3), group)[1] for group in groups)
            times[name].append((total, seconds * 1000))
    results["figure 11"] = times
    chart = line_chart(
        [Series(name, [(x, np.log10(y)) for x, y in points]) for name, points in times.items()],
        title="Verifying all groups of |T| records: 10 providers, m = 3, k = 30, ℓ = 4",
        x_name="records |T|",
        y_name="milliseconds, logarithmic",
        x_scale="log",
        write=lambda y: f"{10**y:.3g}",
    )
    save_chart(save, "m-privacy-adaptive", chart)
    groups = [*_halved(records, 3000)] + [records.group(PROVIDERS, size, SEED) for size in (60, 150, 300, 750)]
    for alpha in (0.3, 0.7):
        for threshold in (0.5, 0.85, 1.2, 2.0):
            found = [_timed(lambda group, t=threshold, a=alpha: adaptive(group, 3, t, a), group) for group in groups]
            yield Figure(
                f"adaptive with α = {alpha}, top-down from {threshold}",
                f"{sum(outcome.checks for outcome, _ in found):,} checks",
                duration(sum(seconds for _, seconds in found)),
            )


def _halved(records: Records, total: int) -> Iterator[ProviderGroup]:
    size = total
    while size >= 2 * 30:
        for number in range(min(total // size, 20)):
            yield records.group(10, size, SEED + number, 30)
        size //= 2


def _say_table(say: Say, title: str, x_name: str, by_x: Mapping[int, Means]) -> None:
    say(f"{title}: checks (time)")
    say(f"{x_name:>16}" + "".join(f"{way:>22}" for way in STRATEGIES))
    for x, means in by_x.items():
        cells = (f"{checks:,.0f} ({1e6 * seconds:,.0f} µs)" for checks, seconds in means.values())
        say(f"{x:16}" + "".join(f"{cell:>22}" for cell in cells))
    say("")


def _charts(save: Path | None, name: str, title: str, x_name: str, by_x: Mapping[int, Means]) -> None:
    """Checks and time, on logarithmic axes."""
    for at, what, unit in ((0, "checks", 1.0), (1, "microseconds", 1e6)):
        series: Sequence[Series] = [
            Series(way, [(x, float(np.log10(max(means[way][at] * unit, 1)))) for x, means in by_x.items()])
            for way in STRATEGIES
        ]
        chart = line_chart(
            series,
            title=f"Verifying m-privacy: {title}",
            x_name=x_name,
            y_name=f"{what}, logarithmic",
            write=lambda y: f"{10**y:,.0f}",
        )
        save_chart(save, f"{name}-{what}", chart)
