"""Survival of lung cancer patients of three sites: joint, single-site and pooled models (§§5–6 of the P3DM'08 paper).

Figures 2 to 5: support vector machines and Cox regression on records that the sites have mapped by a random matrix B of
n − 1 rows, beside models of each site alone and of the pooled records; trained on 40 % and 60 % of each site's
patients, tested on all others, over random splits. The paper's patients are not published: lifelines' lung data
instead, and generated patients of the paper's six predictors and numbers. The models of `svm` and `cox` are the pooled
ones, which one run on shares shows.
"""

from __future__ import annotations

import resource
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from _figures import Figure, Say, save_chart, tell
from _patients import SITES, Numbers, Patients, generated, joined, lung
from masquerade.errors import AnswerIsNo
from masquerade.net import Script
from masquerade.net.memory import run_together
from masquerade.protocol import concordance
from masquerade.protocol.learn.cox import CoxModel, Survival, cox_model, in_steps, pooled_cox
from masquerade.protocol.learn.models import area_under_curve
from masquerade.protocol.learn.projection import Projection, newton_svm, random_matrix
from masquerade.protocol.learn.shared_numbers import prepare_shared_numbers
from masquerade.protocol.learn.sums import prepare_aggregation
from masquerade.report.charts import Bar, Series, bar_chart, line_chart

SPLITS = 100
SHARES = (0.2, 0.4, 0.6, 0.8)
SHOWN = (0.4, 0.6)  # of Figures 2 and 4
DAYS = 365.25
TIE = 0.01  # what differs by less ties
JOINT, POOLED = "joint", "pooled"

Scores = dict[str, list[float]]


def run(say: Say, save: Path | None) -> dict[str, Any]:
    """Measure both tables, and one Cox model on shares."""
    figures: list[Figure] = []
    results: dict[str, Any] = {}
    for name, deal in (("generated", generated), ("lung", lung)):
        sites = deal(1)
        say(f"{name}: {', '.join(f'{len(each)} ({each.followed.sum()} followed)' for each in sites)} patients")
        found = _experiment(sites, SPLITS)
        results[name] = {key: {who: _mean(each) for who, each in some.items()} for key, some in found.items()}
        figures += _figures(name, found)
        _draw(save, name, found, sites[0].x.shape[1])
    figures.append(_on_shares(lung(1)))
    return {"figures": tell(say, figures), "means": results, "splits": SPLITS}


def _experiment(sites: Sequence[Patients], splits: int) -> dict[str, Scores]:
    """Return the scores of each model over all splits, by "svm" or "cox" and setting."""
    found: dict[str, Scores] = defaultdict(lambda: defaultdict(list))
    n = sites[0].x.shape[1]
    for split in range(splits):
        for share in SHARES:
            train, test = _split(sites, share, np.random.default_rng((split, int(100 * share))))
            prepared = _normal(train)
            for who, some, rows in _contenders(train, split, n - 1):
                project = _mapping(prepared, rows, split)
                svm, cox, area = _judged(some, test, project)
                found[f"svm {share}"][who].append(svm)
                found[f"cox {share}"][who].append(cox)
                found[f"cox AUC {share}"][who].append(area)
            if share == SHOWN[0]:
                for rows in range(1, n):
                    svm, cox, _ = _judged(joined(train), test, _mapping(prepared, rows, split + 1000 * rows))
                    found["svm rows"][str(rows)].append(svm)
                    found["cox rows"][str(rows)].append(cox)
    return found


def _contenders(train: Sequence[Patients], split: int, rows: int) -> list[tuple[str, Patients, int | None]]:
    everybody = joined(train)
    alone = [(name, own, None) for name, own in zip(SITES, train, strict=True)]
    return [(JOINT, everybody, rows), (POOLED, everybody, None), *alone]


def _split(sites: Sequence[Patients], share: float, random: np.random.Generator) -> tuple[list[Patients], Patients]:
    """Take a share of each site's patients to train; all others are the test."""
    train, test = [], []
    for site in sites:
        order = random.permutation(len(site))
        cut = max(2, round(share * len(site)))
        train.append(site.take(order[:cut]))
        test.append(site.take(order[cut:]))
    return train, joined(test)


def _normal(train: Sequence[Patients]) -> Projection:
    """Means, smallest and largest values over all sites' training patients, as the sites agree on them."""
    x = joined(train).x
    return Projection(np.eye(x.shape[1]), np.nanmean(x, axis=0), np.nanmin(x, axis=0), np.nanmax(x, axis=0))


def _mapping(prepared: Projection, rows: int | None, seed: int) -> Projection:
    """Return the mapping by a random matrix of so many rows; by none, records stay as they are."""
    if rows is None:
        return prepared
    matrix = random_matrix(b"survival %d" % seed, rows, prepared.matrix.shape[1])
    return Projection(matrix, prepared.means, prepared.low, prepared.high)


def _judged(train: Patients, test: Patients, project: Projection) -> tuple[float, float, float]:
    """Return a support vector machine's AUC, and Cox regression's concordance and AUC, on the test patients."""
    some, known = train.take(train.followed), test.take(test.followed)
    svm = 0.5
    if np.unique(some.labels).size == 2:
        u, threshold = newton_svm(project(some.x), some.labels)
        svm = area_under_curve(project(known.x) @ u - threshold, known.labels > 0)
    steps = in_steps(train.years * DAYS, 1.0)
    try:
        model = pooled_cox(Survival(project(train.x), steps, train.died))
    except AnswerIsNo:  # too few patients of one site: no finite coefficients
        return svm, 0.5, 0.5
    u = np.array(model.coefficients)
    area = area_under_curve(-(project(known.x) @ u), known.labels > 0)
    return svm, concordance(project(test.x) @ u, test.years, test.died), area


def _figures(name: str, found: dict[str, Scores]) -> list[Figure]:
    figures = []
    for key, what in (("svm", "SVM, AUC"), ("cox", "Cox, concordance"), ("cox AUC", "Cox, AUC")):
        for share in SHOWN:
            scores = found[f"{key} {share}"]
            best = max(SITES, key=lambda site: _mean(scores[site]))
            joint, single, pooled = (_mean(scores[who]) for who in (JOINT, best, POOLED))
            figures.append(
                Figure(
                    f"{name}, {what}, {share:.0%} training: joint, B of n − 1 rows",
                    f"{joint:.3f} ± {np.std(scores[JOINT]):.3f}",
                    f"best site {single:.3f} ({best}), pooled {pooled:.3f}",
                    f"{joint / single:.3f}",
                    "at least ties with every site",
                    joint >= single - TIE,
                )
            )
    return figures


def _on_shares(sites: Sequence[Patients]) -> Figure:
    """Fit one Cox model of three sites on shares, and compare it with the pooled one."""
    everybody = joined(sites)
    means = np.nanmean(everybody.x, axis=0)
    parts = [
        Survival(np.where(np.isnan(each.x), means, each.x)[:, :3], in_steps(each.years * DAYS, 1.0), each.died)
        for each in sites
    ]

    def site(me: int) -> Script[CoxModel]:
        sums = yield from prepare_aggregation(me, SITES, b"survival")
        shared = yield from prepare_shared_numbers(me, SITES, b"survival")
        return (yield from cox_model(sums, shared, parts[me]))

    started = _processor()
    model = run_together({name: site(me) for me, name in enumerate(SITES)})[SITES[0]]
    spent = _processor() - started
    pooled = pooled_cox(
        Survival(*(np.concatenate([getattr(each, part) for each in parts]) for part in ("x", "steps", "died")))
    )
    off = np.abs(np.array(model.coefficients) / np.array(pooled.coefficients) - 1).max()
    return Figure(
        f"lung, Cox on shares of three sites, {model.n_deaths} deaths, 3 attributes: processor seconds of all sites",
        f"{spent:.1f} s",
        f"coefficients differ from the pooled ones by {off:.0e}",
        goal="at most 1e-4",
        met=bool(off <= 1e-4),
    )


def _draw(save: Path | None, name: str, found: dict[str, Scores], n: int) -> None:
    """Draw Figures 2 to 5."""
    for figure, key, what in ((2, "svm", "AUC of SVM"), (4, "cox", "concordance of Cox regression")):
        for share in SHOWN:
            scores = found[f"{key} {share}"]
            bars = [Bar(who, _mean(each), f"± {np.std(each):.3f}") for who, each in scores.items()]
            title = f"Figure {figure}, {name}: {what}, {share:.0%} training"
            save_chart(save, f"survival-{name}-{figure}-{100 * share:.0f}", bar_chart(bars, title=title, maximum=1.0))
        lines = [
            Series(who, [(100 * share, _mean(found[f"{key} {share}"][who])) for share in SHARES])
            for who in (JOINT, POOLED, *SITES)
        ]
        chart = line_chart(
            lines, title=f"Figure {figure + 1}, {name}: {what} by training patients", x_name="% training"
        )
        save_chart(save, f"survival-{name}-{figure + 1}-training", chart)
        rows = [(float(rows), _mean(found[f"{key} rows"][str(rows)])) for rows in range(1, n)]
        pooled = _mean(found[f"{key} {SHOWN[0]}"][POOLED])
        chart = line_chart(
            [Series(JOINT, rows), Series(POOLED, [(at, pooled) for at, _ in rows])],
            title=f"Figure {figure + 1}, {name}: {what} by rows of B, 40 % training",
            x_name="rows of B",
        )
        save_chart(save, f"survival-{name}-{figure + 1}-rows", chart)


def _mean(scores: Sequence[float] | Numbers) -> float:
    return float(np.nanmean(scores))


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
