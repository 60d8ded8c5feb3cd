"""The page about a model: how it was learned, how good it is, and the model drawn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

from markupsafe import Markup

from masquerade import protocol
from masquerade.anonymize import MethodResult, SideBySide
from masquerade.methods import described, learning_methods
from masquerade.report.charts import Bar, Series, bar_chart, line_chart
from masquerade.report.charts.bars import signed_bar_chart
from masquerade.report.charts.tree import decision_tree_chart, net_chart
from masquerade.report.release import render
from masquerade.report.verdict import METRICS, bare_name, count, duration, figure, percent
from masquerade.risk import Measure

# --- answer -------------------------------------------------------------------------------------------------
# The page about joint keys: the ratio of each set of columns, and what it means.

LEADS: dict[Measure, str] = {
    "distinct": "Different records / records. Near 1, whoever knows these columns of a person finds that person.",
    "separation": "The share of all pairs of records that differ. Near 1, hardly two are alike in these columns.",
}


def render_answer(found: protocol.JointRatios) -> str:
    """Return the page's HTML, which is deterministic for an answer."""
    return render(
        "answer.html",
        measure=found.measure,
        precision=found.precision,
        records=count(found.records),
        compared="" if found.sampled is None else count(found.sampled),
        parties=list(found.parties),
        lead=LEADS[found.measure],
        chart=ratio_chart(found.answers()),
        answers=[{**each, "ratio": figure(each["ratio"])} for each in found.answers()],
        seconds=[(part, duration(took)) for part, took in found.seconds.items()],
    )


def ratio_chart(answers: Sequence[dict[str, Any]]) -> Markup:
    """Draw the ratios, each between 0 and 1."""
    bars = [Bar(", ".join(each["key"]), float(each["ratio"])) for each in answers]
    return bar_chart(bars, title="Ratio of each set of columns", maximum=1.0)


# --- model --------------------------------------------------------------------------------------------------

MODEL_METRICS = {
    "accuracy": "Share of the records whose class the model says.",
    "auc": "Area under the ROC curve: how often a record of the second class scores above one of the first.",
    "concordance": "How often, of two people, the one at higher risk had the event first.",
}


@dataclass(frozen=True)
class Section:
    """One part of the page: a heading, a sentence and a chart."""

    name: str
    lead: str
    chart: Markup
    head: tuple[str, ...] = ()  # of a table under the chart; its first column is text, the others are numbers
    rows: tuple[tuple[str, ...], ...] = ()


def render_model(learned: protocol.Learned) -> str:
    """Return the page's HTML, which is deterministic for a model."""
    method = learning_methods().get(str(learned.algorithm["name"]))  # None: of a package that is not here
    return render(
        "model.html",
        name=str(learned.algorithm["name"]),
        settings=described({**learned.algorithm, "name": "settings"}) if len(learned.algorithm) > 1 else "",
        parties=list(learned.parties),
        dropped_out=list(learned.dropped_out),
        of_records=method.of_records if method is not None else "",
        records=count(learned.n_records),
        roles=list(learned.roles.items()),
        on=learned.metrics.get("on", ""),
        metrics=[
            (name, percent(value) if name == "accuracy" else figure(value), MODEL_METRICS.get(name, ""))
            for name, value in learned.metrics.items()
            if isinstance(value, int | float)
        ],
        sections=[*drawings(learned.model), *curves_of(learned.curves)],
        seconds=[(part, duration(took)) for part, took in learned.seconds.items()],
    )


@singledispatch
def drawings(model: protocol.Model) -> list[Section]:
    """Return the model, drawn; each kind of models has its own."""
    return []


@drawings.register
def _tree(model: protocol.TreeModel) -> list[Section]:
    lead = "From the left: each box asks for an attribute, and each of its values leads on, until the class is known."
    return [Section("Decision tree", lead, decision_tree_chart(model.tree, title="The decision tree"))]


@drawings.register
def _net(model: protocol.NetModel) -> list[Section]:
    lead = "An arrow leads from an attribute to one whose value depends on it."
    return [Section("Bayes net", lead, net_chart(model.parents, title="The structure of the net"))]


@drawings.register
def _linear(model: protocol.LinearClassifier) -> list[Section]:
    lead = (
        f"In each attribute’s own unit; to the right speaks for {model.positive}, to the left for {model.negative}. "
        f"The intercept is {figure(model.intercept)}."
    )
    return [Section("Coefficients", lead, _coefficients(model.coefficients))]


@drawings.register
def _logistic(model: protocol.LogisticModel) -> list[Section]:
    (plain,) = _linear(model)
    return [_with_inference(plain, model.inference, model.conditional_on)]


@drawings.register
def _survival(model: protocol.CoxSurvival) -> list[Section]:
    lead = "Logarithms of hazard ratios, in each attribute’s own unit; to the right, the event comes earlier."
    plain = Section("Coefficients", lead, _coefficients(model.coefficients))
    return [_with_inference(plain, model.inference, model.conditional_on)]


def _with_inference(section: Section, rows: Sequence[protocol.InferenceRow], given: str) -> Section:
    """Return the section with a table of standard errors and what they tell, if there are any."""
    if not rows:
        return section
    also = f" Standard errors, z, p and bounds are conditional on the penalty ({given})." if given else ""
    return replace(
        section,
        lead=section.lead + also,
        head=("Of", "Coefficient", "Standard error", "z", "p", "95 % from", "to"),
        rows=tuple(_inference_cells(row) for row in rows),
    )


def _inference_cells(row: protocol.InferenceRow) -> tuple[str, ...]:
    told = row.inference
    if row.is_reference:
        return (row.label, "reference", *[""] * 5)
    likely = "" if told.p is None else "< 0.0001" if told.p < 0.0001 else f"{told.p:.4f}"
    ends = (figure(told.lower_95), figure(told.upper_95))
    z = "" if told.z is None else f"{told.z:.2f}"
    return (row.label, figure(told.coefficient), figure(told.standard_error), z, likely, *ends)


def _coefficients(coefficients: Mapping[str, protocol.Coefficient]) -> Markup:
    bars = []
    for name, coefficient in coefficients.items():
        if isinstance(coefficient, Mapping):
            bars += [Bar(f"{name} = {value}", each) for value, each in coefficient.items()]
        else:
            bars.append(Bar(name, coefficient))
    return signed_bar_chart(bars, title="Coefficients by attribute")


def curves_of(curves: Mapping[str, Any]) -> Iterator[Section]:
    """Yield what is drawn of the model's figures, for those that there are."""
    if roc := curves.get("roc"):
        points = list(zip(roc["false_positive"], roc["true_positive"], strict=True))
        lines = [Series("model", points), Series("guessing", [(0.0, 0.0), (1.0, 1.0)])]
        chart = line_chart(
            lines, title="ROC curve", x_name="false positives", y_name="true positives", from_zero=True, write=percent
        )
        yield Section("ROC curve", "How many of each class score above a bound, for every bound.", chart)
    if survival := curves.get("survival"):
        lines = [Series(name, list(zip(own["times"], own["shares"], strict=True))) for name, own in survival.items()]
        chart = line_chart(
            lines, title="Survival curves", x_name="time", y_name="without the event", from_zero=True, write=percent
        )
        yield Section("Survival curves", "The share of people without the event, by time.", chart)


# --- side by side -------------------------------------------------------------------------------------------
# The page of `compare`: methods side by side, and risk against loss in one chart.


def render_comparison(found: SideBySide) -> str:
    """Return the page's HTML."""
    headline = found.headline
    others = [
        name
        for name in found.rows[0].metrics
        if name not in headline and any(row.metrics[name] is not None for row in found.rows)
    ]
    best = found.best
    return render(
        "side_by_side.html",
        source=bare_name(found.source),
        chart=risk_chart(found),
        measure=found.measure.replace("_", " "),
        best=[(_k(row), described(row.method), figure(row.metrics[found.measure])) for row in best],
        metrics=_named(headline),
        others=_named(others),
        rows=[_row(row, headline, others, row in best) for row in found.rows],
        refused=[(name, [str(each) for each in problems]) for name, problems in found.refused.items()],
    )


def _named(names: Sequence[str]) -> list[tuple[str, str]]:
    """Return each figure's name and meaning."""
    return [(name.replace("_", " "), METRICS.get(name, "")) for name in names]


def risk_chart(found: SideBySide) -> Markup:
    """Draw the mean risk of being found against the measure: a point for each release, a line for each method."""
    series: dict[str, list[tuple[float, float | None]]] = {}
    for row in found.rows:
        if row.risk.mean > 0:
            series.setdefault(described(row.method), []).append((row.risk.mean, row.metrics[found.measure]))
    drawn = [Series(name, points) for name, points in series.items() if any(value is not None for _, value in points)]
    if not drawn:
        return Markup()
    measure = found.measure.replace("_", " ")
    return line_chart(
        drawn,
        title=f"Risk of being found against {measure}",
        x_name="mean risk of being found",
        y_name=measure,
        x_scale="log",
    )


def _row(row: MethodResult, headline: Sequence[str], others: Sequence[str], is_best: bool) -> dict[str, Any]:
    return {
        "name": described(row.method),
        "k": _k(row),
        "best": is_best,
        "figures": [figure(row.metrics.get(name)) for name in headline],
        "others": [figure(row.metrics[name]) for name in others],
        "highest": percent(row.risk.highest),
        "mean": percent(row.risk.mean),
        "unique": count(row.risk.unique),
        "groups": count(row.groups),
        "suppressed": count(row.suppressed),
        "seconds": duration(row.seconds),
    }


def _k(row: MethodResult) -> str:
    return "" if row.k is None else count(row.k)
