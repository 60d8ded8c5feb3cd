"""Anonymising for a purpose: prioritised Mondrian beside plain Mondrian, Figures 1 to 4 of the paper, and a workload.

Plain is Mondrian along the widest attribute, prioritised is priority = { spread = 1, weight = 1 }. Figures 1 and 2 are
on Adult's 30,162 complete training records (sex or age weighs 1, all others 0), Figures 3 and 4 on the 653 complete
records of crx with its six numbers. Figure 3 has three sets of weights: A8, A11 and A15, which alone predict the class
best, weigh 1 and the others 0; learned from single-attribute accuracy; learned from information about the class. Its
accuracy is that of naive Bayes, the mean over ten 10-fold cross-validations; the original's is the reference.

Figure 4 predicts A3 in ranges of equal width from the others in ten of them each, as the paper recodes them. The paper
names neither the number of ranges nor the weights, so four of each are tried, and all of them count. Equi-width
recoding, its rival, cuts every number into as many ranges of equal width as leave k records in each group.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import _adult
import _crx
import masquerade as mq
from _figures import Figure, Say, tell
from masquerade.anonymize.publication import comparison_of
from masquerade.data import Column, Generalised, kept_query_log
from masquerade.errors import ParameterError
from masquerade.jobs.weights import from_accuracy, from_information
from masquerade.utility import (
    Comparison,
    naive_bayes_accuracy,
    prediction_task,
    raw_feature,
    training_splits,
    weighted_overlap,
)
from masquerade.utility.accuracy import Category, NumericFeature, bayes_accuracy, equal_width, released_feature
from masquerade.utility.measures import discernibility, weighted_discernibility
from masquerade.utility.workloads import SelectionMeasurer

QID = ("age", "workclass", "education", "marital-status", "occupation", "race", "sex", "native-country")
KS = (2, 5, 10, 20, 50, 100, 200)
PRIORITY = {"spread": 1, "weight": 1}
METHODS = {"plain": mq.Mondrian(choose="widest"), "prioritised": mq.Mondrian(priority=PRIORITY)}
FEATURES = ("A8", "A11", "A15")
PREDICTED, PREDICTED_RANGES, FEATURE_RANGES = "A3", (10, 5, 4, 3), 10
GIVEN = (("A2",), ("A2", "A8"), FEATURES)  # for Figure 4, beside what tells most about A3
MOST_RANGES, REPEATS, REPEATS_OF_SWEEP = 64, 10, 3
QUERIES = """SELECT AVG(education) FROM adult WHERE age >= 65;
SELECT COUNT(*) FROM adult WHERE age BETWEEN 18 AND 24 AND sex = 'Female';
SELECT occupation FROM adult WHERE age < 30 AND "marital-status" = 'Never-married';
SELECT COUNT(*) FROM adult WHERE sex = 'Male' AND age >= 50;
"""
METRICS = ("discernibility", "weighted_discernibility", "weighted_overlap")
Row = dict[str, float]


def run(say: Say, save: Path | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    figures: list[Figure] = []
    for part in (_figures_1_and_2, _workload, _figure_3, _figure_4):
        rows, more = part(say)
        found |= rows
        figures += more
    return {"figures": tell(say, figures), **found}


# --- Adult ---


def _adult_table(say: Say, weights: Mapping[str, float]) -> mq.Table | None:
    try:
        everything = _adult.adult()
    except ParameterError as missing:
        say(f"skipped: {missing}")
        return None
    schema = mq.Schema(replace(each, weight=weights.get(each.name, 0)) for each in _adult.schema(QID))
    return mq.Table(everything.select(QID).slice(0, _adult.TRAINING_RECORDS), schema)


def _figures_1_and_2(say: Say) -> tuple[dict[str, Any], list[Figure]]:
    found: dict[str, Any] = {}
    figures: list[Figure] = []
    for number, name in ((1, "sex"), (2, "age")):
        table = _adult_table(say, {name: 1})
        if table is None:
            return {}, []
        rows = {k: {each: _metrics(_made(method, table, QID, k)) for each, method in METHODS.items()} for k in KS}
        _print(say, f"Figure {number}: Adult, {name} prioritised", rows)
        found[f"figure {number}"] = rows
        figures += _never_worse(f"Figure {number}", rows)
    return found, figures


def _workload(say: Say) -> tuple[dict[str, Any], list[Figure]]:
    table = _adult_table(say, {})
    if table is None:
        return {}, []
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "queries.sql"
        path.write_text(QUERIES, encoding="utf-8")
        asked = SelectionMeasurer(table, kept_query_log(path))
        for k in (10, 50, 200):
            plain, made = (
                asked.measure(_made(method, table, QID, k))
                for method in (mq.Mondrian(), mq.Mondrian(workload=str(path)))
            )
            for what in ("precision", "recall"):
                before, after = getattr(plain, what), getattr(made, what)
                figures.append(
                    Figure(
                        f"Adult, four queries, k = {k}: {what} of their selections",
                        f"{after:.3f}",
                        f"without the workload {before:.3f}",
                        f"{after / before:.2f}",
                        "no lower",
                        after >= before,
                    )
                )
    return {}, figures


# --- crx ---


def _figure_3(say: Say) -> tuple[dict[str, Any], list[Figure]]:
    frame = _crx.crx()
    if frame is None:
        say(f"skipped: no {_crx.NAME} in ../shared/data/crx beside the checkout, for Figures 3 and 4")
        return {}, []
    raw = mq.Table(frame, mq.Schema(_number(name, {}) for name in _crx.NUMBERS))
    original = _accuracy(raw, _crx.CLASS, ())
    sets = {
        "A8, A11, A15": dict.fromkeys(FEATURES, 1.0),
        "by accuracy": from_accuracy(raw, _crx.CLASS, _crx.NUMBERS).weights,
        "by information": from_information(raw, _crx.CLASS, _crx.NUMBERS).weights,
    }
    found: dict[str, Any] = {"original": original}
    figures: list[Figure] = []
    for name, weights in sets.items():
        table = mq.Table(frame, mq.Schema(_number(each, weights) for each in _crx.NUMBERS))
        rows = {k: _with_accuracy(table, _crx.CLASS, _crx.NUMBERS, k) for k in KS}
        title = f"Figure 3, weights {name}"
        _print(say, f"{title}; accuracy on the original {original:.3f}", rows)
        figures += [*_never_worse(title, rows), _least_ahead(title, rows, original)]
        correlations = {what: _correlation(what, rows) for what in METRICS}
        told = ", ".join(f"{what} {value:.2f}" for what, value in correlations.items())
        figures.append(Figure(f"{title}: rank correlation with accuracy", told, "-1 is best"))
        found[title] = {"rows": rows, "correlations": correlations}
    return found, figures


def _figure_4(say: Say) -> tuple[dict[str, Any], list[Figure]]:
    frame = _crx.crx()
    if frame is None:
        return {}, []
    names = tuple(name for name in _crx.NUMBERS if name != PREDICTED)
    found: dict[str, Any] = {}
    ahead = {"plain": [0, 0, 0], "equi-width": [0, 0, 0]}  # above, as high, below
    for ranges in PREDICTED_RANGES:
        raw = _prediction(frame, {}, ranges)
        learned = from_information(raw, PREDICTED, names).weights
        for weights in (learned, *(dict.fromkeys(each, 1.0) for each in GIVEN)):
            task = _prediction(frame, weights, ranges)
            row = {"original": _range_accuracy(task, names, ()), "most frequent": _most_frequent(task)}
            for k in KS:
                made = {name: _made(method, task, names, k) for name, method in METHODS.items()}
                made["equi-width"] = _equal_width_recoding(task, names, k)
                told = {name: _range_accuracy(task, names, each.released) for name, each in made.items()}
                row |= {f"k = {k}, {name}": value for name, value in told.items()}
                for rival, counts in ahead.items():
                    counts[1 + int(np.sign(round(told[rival] - told["prioritised"], 4)))] += 1
            title = f"{ranges} ranges, " + ("learned" if weights is learned else ", ".join(weights))
            found[title] = row
            say(f"Figure 4, {title}: " + ", ".join(f"{name} {value:.3f}" for name, value in row.items()))
    say("")
    figures = [
        Figure(
            f"Figure 4: accuracy above that of {rival}, of {sum(counts)} runs",
            f"{counts[0]} (as high in {counts[1]}, below in {counts[2]})",
            rival,
            f"{counts[0] / sum(counts):.2f}",
            "always",
            counts[0] == sum(counts),
        )
        for rival, counts in ahead.items()
    ]
    return {"figure 4": found}, figures


def _prediction(frame: pa.Table, weights: Mapping[str, float], ranges: int) -> mq.Table:
    schema = mq.Schema(_number(name, weights) for name in _crx.NUMBERS)
    return prediction_task(mq.Table(frame.drop_columns([_crx.CLASS]), schema), PREDICTED, ranges)


def _most_frequent(task: mq.Table) -> float:
    return round(int(task.coded(PREDICTED).histogram().max()) / len(task), 4)


def _range_accuracy(task: mq.Table, names: Sequence[str], released: Sequence[Generalised]) -> float:
    """Naive Bayes from ranges of equal width, an interval counting as the range that its middle is in."""
    generalised = {column.name: column for column in released}
    features = []
    for name in names:
        raw = raw_feature(task, name)
        seen = released_feature(generalised[name], ordered=True) if name in generalised else raw
        assert isinstance(raw, NumericFeature)
        assert isinstance(seen, NumericFeature)
        within = equal_width(np.append(seen.values, [raw.values.min(), raw.values.max()]), FEATURE_RANGES)
        features.append(Category(within[:-2].astype(np.int32), FEATURE_RANGES))
    classes = task.coded(PREDICTED)
    found = [
        naive_bayes_accuracy(features, classes.codes, len(classes.labels), training_splits(len(task), None, 10, seed))
        for seed in range(REPEATS_OF_SWEEP)
    ]
    return round(float(np.mean(found)), 4)


def _number(name: str, weights: Mapping[str, float]) -> mq.Attribute:
    return mq.Attribute(name, "continuous", weight=weights.get(name, 0.0))


def _with_accuracy(table: mq.Table, target: str, qid: Sequence[str], k: int) -> dict[str, Row]:
    rows = {}
    for name, method in METHODS.items():
        made = _made(method, table, qid, k)
        rows[name] = _metrics(made) | {"accuracy": _accuracy(table, target, made.released)}
    return rows


def _accuracy(table: mq.Table, target: str, released: Sequence[Generalised]) -> float:
    found = [
        bayes_accuracy(table, target, released, None, training_splits(len(table), None, 10, seed))
        for seed in range(REPEATS)
    ]
    return round(float(np.mean(found)), 4)


def _equal_width_recoding(table: mq.Table, names: Sequence[str], k: int) -> Comparison:
    """Every number in as many ranges of equal width as leave at least k records in each group."""
    columns = table.columns(names)
    for ranges in range(MOST_RANGES, 0, -1):
        recoded = tuple(_recoded(column, ranges) for column in columns)
        made = Comparison(columns, recoded, None, None, {name: table.schema[name].weight for name in names})
        if made.group_sizes.min() >= k:
            return made
    raise AssertionError("one range is one group")


def _recoded(column: Column, ranges: int) -> Generalised:
    parts = equal_width(column.domain.values.astype(np.float64), ranges)  # type: ignore[union-attr] # numbers
    return column.generalise(np.flatnonzero(np.diff(parts, prepend=-1)))


# --- both ---


def _made(method: mq.Mondrian, table: mq.Table, qid: Sequence[str], k: int) -> Comparison:
    return comparison_of(table, method.run_on_table(table, mq.KAnonymity(qid, k)), None)


def _metrics(made: Comparison) -> Row:
    overlap = weighted_overlap(made)
    assert overlap is not None
    return dict(zip(METRICS, (discernibility(made), weighted_discernibility(made), overlap), strict=True))


def _never_worse(figure: str, rows: Mapping[int, Mapping[str, Row]]) -> Iterator[Figure]:
    for what in METRICS[1:]:
        ratios = {k: each["prioritised"][what] / each["plain"][what] for k, each in rows.items()}
        worst = max(ratios, key=ratios.__getitem__)
        yield Figure(
            f"{figure}: {what}, k = {worst} (worst of all k)",
            f"{rows[worst]['prioritised'][what]:,.0f}",
            f"plain {rows[worst]['plain'][what]:,.0f}",
            f"{ratios[worst]:.2f}; best {min(ratios.values()):.2f}",
            "never worse",
            ratios[worst] <= 1,
        )


def _least_ahead(figure: str, rows: Mapping[int, Mapping[str, Row]], original: float) -> Figure:
    gains = {k: each["prioritised"]["accuracy"] - each["plain"]["accuracy"] for k, each in rows.items()}
    worst = min(gains, key=gains.__getitem__)
    ours, theirs = (rows[worst][name]["accuracy"] for name in ("prioritised", "plain"))
    return Figure(
        f"{figure}: accuracy, k = {worst} (least ahead of all k)",
        f"{ours:.3f} (original {original:.3f})",
        f"plain {theirs:.3f}",
        f"{ours / theirs:.2f}",
        "above plain",
        ours > theirs,
    )


def _correlation(what: str, rows: Mapping[int, Mapping[str, Row]]) -> float:
    """Spearman's, over all releases of a figure: of the places."""
    pairs = [(row[what], row["accuracy"]) for each in rows.values() for row in each.values()]
    places = [np.argsort(np.argsort(each)) for each in zip(*pairs, strict=True)]
    return round(float(np.corrcoef(*places)[0, 1]), 2)


def _print(say: Say, title: str, rows: Mapping[int, Mapping[str, Row]]) -> None:
    say(title)
    for k, each in rows.items():
        parts = (
            f"{name}: " + ", ".join(f"{value:,.0f}" if value > 1 else f"{value:.3f}" for value in row.values())
            for name, row in each.items()
        )
        say(f"  k = {k:<4} " + "   ".join(parts))
    say("")
