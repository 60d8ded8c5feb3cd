"""Figures 7 and 8 of the m-privacy paper with uniform and exponential shares, and over the providers' fitness.

The groups of `m_privacy_verification` (k = 50, ℓ = 4, m = 5), whose providers have shares that fall exponentially, or
are alike. Checks do not depend on the machine. Each strategy stands beside `direct`, in the same run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from _figures import Figure, Say, save_chart, tell
from m_privacy_verification import PROVIDERS, SEED, STRATEGIES, M, Records
from masquerade.privacy.m_privacy.constraint import VERIFICATION_WEIGHT, score
from masquerade.privacy.m_privacy.strategies import ProviderGroup
from masquerade.report.charts import Series, line_chart

GROUPS = 5
SHARES = {"exponential": 3.0, "uniform": 0.0}  # how fast they fall
SIZES = (150, 750)
NUMBERS = (6, 10, 15, 20)
EACH = (2, 4, 6, 8, 10, 15, 20, 30, 50)  # records a provider
PAPER_SLOPE, PAPER_START, PAPER_R2 = 0.04, 0.33, 0.97
WAYS = ("direct", "top-down", "bottom-up", "binary", "exact")

Checks = Mapping[str, float]  # by strategy, in the mean over groups


def run(say: Say, save: Path | None) -> dict[str, Any]:
    records = Records()
    figures: list[Figure] = []
    results: dict[str, Any] = {}
    for name, falling in SHARES.items():
        for size in SIZES:
            by_n = {n: _checks(_groups(records, n, size, falling)) for n in NUMBERS}
            results[f"figure 7, {name}, {size}"] = by_n
            _say(say, f"Figure 7, {name} shares, {size} records, m = {M}", "providers", by_n)
            _draw(save, f"m-privacy-7-{name}-{size}", f"{size} records, {name} shares", "providers", by_n)
            figures.append(
                _best(f"Figure 7, {name} shares, {size} records, {NUMBERS[-1]} providers", by_n[NUMBERS[-1]])
            )
        drawn = {each: _groups(records, PROVIDERS, PROVIDERS * each, falling) for each in EACH}
        by_each = {each: _checks(groups) for each, groups in drawn.items()}
        fitness = {each: fmean(_fitness(group) for group in groups) for each, groups in drawn.items()}
        by_fitness = {fitness[each]: checks for each, checks in by_each.items()}
        results[f"figure 8, {name}"] = {"records": by_each, "fitness": fitness}
        _say(say, f"Figure 8, {name} shares, {PROVIDERS} providers, m = {M}", "records/provider", by_each, fitness)
        _draw(
            save, f"m-privacy-8-records-{name}", f"{PROVIDERS} providers, {name} shares", "records a provider", by_each
        )
        _draw(
            save, f"m-privacy-8-fitness-{name}", f"{PROVIDERS} providers, {name} shares",
            "mean fitness of the providers", by_fitness,
        )  # fmt: skip
        figures += _line(name, fitness)
    return {"figures": tell(say, figures), **results}


def _groups(records: Records, n: int, size: int, falling: float) -> list[ProviderGroup]:
    return [records.group(n, size, seed, falling=falling) for seed in range(SEED, SEED + GROUPS)]


def _checks(groups: list[ProviderGroup]) -> Checks:
    """The mean checks of each strategy; all must agree on every group."""
    outcomes = {way: [STRATEGIES[way](group, M) for group in groups] for way in WAYS}
    assert len({tuple(each.private for each in seen) for seen in outcomes.values()}) == 1
    return {way: fmean(each.checks for each in seen) for way, seen in outcomes.items()}


def _fitness(group: ProviderGroup) -> float:
    """The mean fitness score of the records that each provider has in the group (Equation 1)."""
    return float(score(group.constraints, group.matrices, VERIFICATION_WEIGHT).mean())


def _best(what: str, checks: Checks) -> Figure:
    best = min((way for way in WAYS if way not in ("direct", "exact")), key=lambda way: checks[way])
    return Figure(
        f"{what}: checks of the best of top-down, bottom-up, binary",
        f"{checks[best]:,.0f} ({best})",
        f"direct {checks['direct']:,.0f}, exact {checks['exact']:,.0f}",
        f"{checks[best] / checks['direct']:.3f} of direct's",
    )


def _line(name: str, fitness: Mapping[int, float]) -> Iterator[Figure]:
    """The paper's regression of the fitness on the records a provider has."""
    x, y = np.array(list(fitness)), np.array(list(fitness.values()))
    slope, start = np.polyfit(x, y, 1)
    yield Figure(
        f"Figure 8, {name} shares: fitness over records a provider",
        f"{slope:.3f} · x + {start:.2f}, R² {np.corrcoef(x, y)[0, 1] ** 2:.2f}",
        f"paper {PAPER_SLOPE} · x + {PAPER_START}, R² {PAPER_R2}",
        f"slope {slope / PAPER_SLOPE:.2f} of the paper's",
    )


def _say(
    say: Say, title: str, x_name: str, by_x: Mapping[int, Checks], fitness: Mapping[int, float] | None = None
) -> None:
    say(f"{title}: checks")
    say(f"{x_name:>16}" + "".join(f"{way:>12}" for way in WAYS) + ("     fitness" if fitness else ""))
    for x, checks in by_x.items():
        last = f"{fitness[x]:>12.2f}" if fitness else ""
        say(f"{x:16}" + "".join(f"{checks[way]:>12,.0f}" for way in WAYS) + last)
    say("")


def _draw(save: Path | None, name: str, title: str, x_name: str, by_x: Mapping[Any, Checks]) -> None:
    chart = line_chart(
        [Series(way, [(x, float(np.log10(max(each[way], 1)))) for x, each in by_x.items()]) for way in WAYS],
        title=f"Verifying m-privacy: {title}, m = {M}",
        x_name=x_name,
        y_name="checks, logarithmic",
        write=lambda y: f"{10**y:,.0f}",
    )
    save_chart(save, name, chart)
