"""The report's contents, section by section, as plain values for the template.

Everything comes from the release itself, except what docs/leakage.md lists: the sequence of specializations
with their scores, how many rows were read and dropped, and metrics that compare with the original.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from typing import Any

import numpy as np
from markupsafe import Markup

from masquerade.anonymize.cautions import cautions
from masquerade.anonymize.outcome import Step
from masquerade.anonymize.release import Release
from masquerade.data.column import Generalised
from masquerade.privacy.check import Verdict
from masquerade.report.charts import SizeLine, share_bar, size_histogram, tree_chart
from masquerade.report.cuts import cut_tree, is_flat
from masquerade.report.wording import (
    METRICS,
    bare_name,
    count,
    counted,
    duration,
    figure,
    looks_like_place,
    percent,
)

Section = dict[str, Any]

STEPS_OPEN, STEPS_ALL = 60, 1000
CHILDREN = 8
TREES_OPEN = 16
TREE_ROWS, ALL_ROWS = 60, 2400
SETTINGS = 400
_PLACES = ("source", "taxonomy", "taxonomies", "table", "report", "job", "path", "file")
_UNTOLD = ("password", "secret", "token", "query")


def contents(release: Release) -> Section:
    """Return all sections by their name in the template."""
    return {
        "headline": _headline(release),
        "requirements": [_requirement(verdict) for verdict in release.verdicts],
        "dropped": list(release.dropped),
        "groups": _groups(release),
        "attributes": [_attribute(column, release) for column in release.columns],
        "unchanged": list(release.unchanged),
        "trees": _trees(release),
        "fold_trees": len(release.columns) > TREES_OPEN,
        "steps": _steps(release),
        "metrics": [
            (name.replace("_", " "), figure(value), METRICS.get(name, ""))
            for name, value in _metrics(release).items()
        ],
        "settings": _settings(release.settings),
        "seconds": [(name, duration(seconds)) for name, seconds in release.seconds.items()],
        "versions": [("Masquerade", _version("masquerade")), ("Python", platform.python_version())]
        + [(name, _version(name)) for name in ("numpy", "pyarrow")],
    }


def _headline(release: Release) -> Section:
    bad = [verdict for verdict in release.verdicts if not verdict.holds]
    if not release.verdicts:
        verdict, state = "No requirement was checked", "unknown"
    elif not bad:
        n = len(release.verdicts)
        verdict = {1: "The requirement holds", 2: "Both requirements hold"}.get(
            n, f"All {n} requirements hold"
        )
        state = "good"
    elif len(release.verdicts) == 1:
        verdict, state = "The requirement does not hold", "bad"
    else:
        verb = "does" if len(bad) == 1 else "do"
        verdict, state = f"{len(bad)} of {len(release.verdicts)} requirements {verb} not hold", "bad"
    dropped = release.dropped_rows
    figures = [
        ("Rows read", count(release.rows)),
        *([] if dropped is None else [("Dropped for missing cells", count(dropped))]),
        ("Suppressed", count(release.suppressed)),
        ("Released", count(int(release.table.num_rows))),
        ("Groups", count(int(release.group_sizes.size))),
    ]
    if release.seconds:
        figures.append(("Time", duration(sum(release.seconds.values()))))
    return {
        "source": _source(release.settings),
        "verdict": verdict,
        "state": state,
        "cautions": list(cautions(release)),
        "failing": [str(verdict.requirement) for verdict in bad],
        "figures": figures,
    }


def _source(settings: Mapping[str, Any]) -> str:
    """Return the records' origin: the parties, or a file name without its folder."""
    parties = [str(name) for name in settings.get("parties") or ()]
    if parties:
        return " and ".join([", ".join(parties[:-1]), parties[-1]] if parties[1:] else parties)
    return bare_name(str(settings.get("source") or "table"))


def _metrics(release: Release) -> dict[str, float | None]:
    queries = {"query_error": release.query_error.mean} if release.query_error is not None else {}
    return {**release.metrics, **queries}


def _requirement(verdict: Verdict) -> Section:
    wraps = ("of",) if verdict.requirement.wrapped else ()  # these have their own rows
    return {
        "model": verdict.requirement.model,
        "qid": list(verdict.requirement.qid),
        "parameters": [
            (name, _plain(value))
            for name, value in verdict.requirement.parameters().items()
            if name not in wraps
        ],
        "value": figure(verdict.value),
        "meaning": verdict.requirement.figure_meaning,
        "groups": count(verdict.groups),
        "holds": verdict.holds,
        "first_violating": [(name, value) for name, value in (verdict.group or {}).items()],
    }


def _groups(release: Release) -> Section:
    """Draw the sizes of groups that agree on every QID attribute; a k over fewer attributes is about larger groups."""
    together = {column.name for column in release.columns}
    sizes = np.asarray(release.group_sizes, np.int64)
    required: dict[int, bool] = {}
    looser = []
    for verdict in release.verdicts:
        k = verdict.requirement.required_size
        if k is None:
            continue
        exact = set(verdict.requirement.qid) == together
        required[k] = required.get(k, False) or exact
        if not exact and verdict.requirement.only_sizes:
            looser.append({"qid": list(verdict.requirement.qid), "k": k, "smallest": figure(verdict.value)})
    lines = [SizeLine(k, f"k = {count(k)}", exact) for k, exact in sorted(required.items())]
    facts = [("groups", "Groups", count(int(sizes.size)))]
    if sizes.size:
        facts += [
            ("smallest", "Smallest", count(int(sizes.min()))),
            ("median", "Median", figure(float(np.median(sizes)))),
            ("largest", "Largest", count(int(sizes.max()))),
            ("unique", "Unique records", count(release.unique)),
        ]
    return {
        "chart": size_histogram(sizes, lines, title="Histogram of group sizes") if sizes.size else None,
        "facts": facts,
        "together": [column.name for column in release.columns],
        "unique": counted(release.unique, "record") if release.unique else "",
        "dashed": not all(required.values()),
        "looser": looser,
    }


def _attribute(column: Generalised, release: Release) -> Section:
    lost = release.attribute_losses.get(column.name)
    values = int(np.count_nonzero(column.counts()))
    return {
        "name": column.name,
        "lost": percent(lost) if lost is not None else figure(None),
        "bar": share_bar(lost) if lost is not None else "",
        "values": count(values),
    }


def _trees(release: Release) -> list[Section]:
    rows = max(6, min(TREE_ROWS, ALL_ROWS // max(1, len(release.columns))))
    by_attribute: dict[str, list[Step]] = {}
    for step in release.steps:
        by_attribute.setdefault(step.attribute, []).append(step)
    trees = []
    for column in release.columns:
        nodes = cut_tree(column, by_attribute.get(column.name, ()), rows)
        values = int(np.count_nonzero(column.counts()))
        title = f"{column.name}: the tree and its cut"
        trees.append(
            {
                "name": column.name,
                "values": counted(values, "released value"),
                "chart": tree_chart(nodes, title=title, total=int(release.table.num_rows)) if nodes else None,
            }
        )
    return trees


def _steps(release: Release) -> Section:
    top = max((step.score for step in release.steps), default=0.0)
    released = {
        column.name: {label for label, n in zip(column.labels, column.counts().tolist(), strict=True) if n}
        for column in release.columns
        if is_flat(column)
    }

    def row(position: int, step: Step) -> Section:
        # The values of a flat taxonomy come from the data: only released ones are shown.
        told = released.get(step.attribute)
        children = [child for child in step.children if told is None or child in told]
        return {
            "number": count(position),
            "attribute": step.attribute,
            "party": step.party or "",
            "value": step.value,
            "children": children[:CHILDREN],
            "more": count(len(children) - CHILDREN) if len(children) > CHILDREN else "",
            "score": _score(step.score),
            "bar": share_bar(step.score / top if top > 0 else 0.0),
        }

    rows = [row(position, step) for position, step in enumerate(release.steps[:STEPS_ALL], start=1)]
    return {
        "first": rows[:STEPS_OPEN],
        "rest": rows[STEPS_OPEN:],
        "left_out": max(0, len(release.steps) - STEPS_ALL),
        "total": len(release.steps),
    }


def _score(score: float) -> str:
    return f"{score:.4f}" if abs(score) < 1000 else figure(score)


def _settings(settings: Mapping[str, Any]) -> Section:
    rows = []
    for name, value in _flattened(settings):
        if name == "source" and settings.get("parties"):
            continue  # would name the parties again
        last = name.rsplit(".", 1)[-1]
        text = _plain(value)
        if any(word in last.casefold() for word in _UNTOLD):
            text = "(not shown)"
        elif isinstance(value, str) and (last in _PLACES or looks_like_place(value)):
            text = bare_name(value)
        rows.append((name, text))
    return {"rows": rows[:SETTINGS], "left_out": max(0, len(rows) - SETTINGS)}


def _flattened(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in settings.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from _flattened(value, f"{name}.")
        elif isinstance(value, list | tuple) and value and all(isinstance(each, Mapping) for each in value):
            for position, each in enumerate(value, start=1):
                yield from _flattened(each, f"{name}[{position}].")
        else:
            yield name, value


def _plain(value: object) -> str:
    if value is None:
        return figure(None)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {_plain(each)}" for key, each in value.items()) or figure(None)
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Markup):
        return ", ".join(_plain(each) for each in value) or figure(None)
    text = str(value)
    return bare_name(text) if looks_like_place(text) else text


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # an uninstalled source tree
        return "unknown"
