"""The report's contents, section by section, as plain values for the template.

Everything comes from the release itself, except what docs/leakage.md lists: the sequence of specializations
with their scores, how many rows were read and dropped, and metrics that compare with the original.
"""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Any

import numpy as np
import pyarrow as pa

from masquerade.anonymize.outcome import Choice, Step
from masquerade.anonymize.release import Release
from masquerade.data.column import Generalised
from masquerade.data.encode import distinct, texts
from masquerade.methods import described
from masquerade.privacy.check import Verdict
from masquerade.protocol.method_choice import chosen_lines
from masquerade.report.charts import SizeLine, share_bar, size_histogram, tree_chart
from masquerade.report.cuts import cut_tree, is_flat
from masquerade.report.risks import attacks_on, risks_section
from masquerade.report.sensitive import distributions
from masquerade.report.settings import plain, settings_section
from masquerade.report.verdict import headline
from masquerade.report.widths import widths_section
from masquerade.report.wording import METRICS, bare_name, count, counted, duration, figure, percent
from masquerade.utility.measures import NCP

Section = dict[str, Any]

STEPS = 1000
CHILDREN = 8
TREES_OPEN = 16
TREE_ROWS, ALL_ROWS = 60, 2400
INTERVALS = 24  # that are drawn each, where no tree of splits is known
SAMPLE, SAMPLE_COLUMNS = 6, 40


def contents(release: Release, table_sha256: str = "") -> Section:
    """Return all sections by their name in the template."""
    attacks = attacks_on(release)
    return {
        "headline": headline(release, attacks),
        "about": _about(release, table_sha256),
        "requirements": [_requirement(verdict) for verdict in release.verdicts],
        "dropped": list(release.dropped),
        "groups": _groups(release),
        "attributes": [_attribute(column, release) for column in release.columns],
        "unchanged": list(release.unchanged),
        "sensitive": distributions(release),
        "risks": risks_section(release, attacks),
        "sample": _sample(release),
        "trees": _trees(release),
        "fold_trees": len(release.columns) > TREES_OPEN,
        "steps": _steps(release),
        "metrics": [
            (name.replace("_", " "), figure(value), METRICS.get(name, ""))
            for name, value in _metrics(release).items()
        ],
        "choice": _choice(release.choice) if release.choice is not None else None,
        "settings": settings_section(release.settings),
        "seconds": [(name, duration(seconds)) for name, seconds in release.seconds.items()],
        "versions": [("Masquerade", _version("masquerade")), ("Python", platform.python_version())]
        + [(name, _version(name)) for name in ("numpy", "pyarrow")],
    }


def _about(release: Release, table_sha256: str) -> list[tuple[str, str]]:
    """Return what identifies the release: when and by what it was made, and its file's digest."""
    job = release.settings.get("job_file")
    return [
        ("Made", release.made.strftime("%Y-%m-%d %H:%M UTC")),
        *([("Job", bare_name(str(job)))] if job else []),
        ("By", f"Masquerade {_version('masquerade')}"),
        *_method(release),
        *([("SHA-256 of the table", table_sha256)] if table_sha256 else []),
    ]


def _method(release: Release) -> list[tuple[str, str]]:
    """Return the method that parties agreed on; if it was chosen, why."""
    if (method := release.settings.get("method")) is None:
        return []
    choice = release.settings.get("choice")
    return [("Method", described(method)), *([("Chosen", "; ".join(chosen_lines(choice)))] if choice else [])]


def _sample(release: Release) -> Section:
    """Take a few rows of the release, evenly spread, so that nobody's position is shown."""
    rows = int(release.table.num_rows)
    at = sorted({position * rows // SAMPLE for position in range(SAMPLE)}) if rows else []
    names = release.table.column_names
    taken = release.table.select(names[:SAMPLE_COLUMNS]).take(pa.array(at, pa.int64()))
    cells = [_written(column) for column in taken.columns]
    return {
        "columns": names[:SAMPLE_COLUMNS],
        "rows": [list(row) for row in zip(*cells, strict=True)],
        "left_out": max(0, len(names) - SAMPLE_COLUMNS),
    }


def _written(column: pa.ChunkedArray) -> list[str]:
    codes, values = distinct(column)
    words = texts(values).to_pylist()
    return [words[code] for code in codes.tolist()]


def _metrics(release: Release) -> dict[str, float | None]:
    queries = {"query_error": release.query_error.mean} if release.query_error is not None else {}
    return {**release.metrics, **release.purpose, **queries}


def _choice(choice: Choice) -> Section:
    """Return the methods that were tried, with what each gave."""
    return {
        "measure": choice.measure.replace("_", " "),
        "meaning": METRICS.get(choice.measure, ""),
        "others": choice.measure != NCP,
        "rows": [
            {
                "name": described(each.method),
                "value": figure(each.value),
                "ncp": figure(each.ncp),
                "chosen": each == choice.chosen,
            }
            for each in choice.tried
        ],
        "left_out": [described(each) for each in choice.left_out],
        "failed": [f"{described(each.method)} {each.reason}" for each in choice.failed],
    }


def _requirement(verdict: Verdict) -> Section:
    wraps = ("of",) if verdict.requirement.wrapped else ()  # these have their own rows
    return {
        "model": verdict.requirement.model,
        "qid": list(verdict.requirement.qid),
        "parameters": [
            (name, plain(value))
            for name, value in verdict.requirement.shown_parameters().items()
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
        "kept": percent(kept)
        if (kept := release.attribute_information.get(column.name)) is not None
        else figure(None),
        "values": count(values),
    }


def _trees(release: Release) -> list[Section]:
    rows = max(6, min(TREE_ROWS, ALL_ROWS // max(1, len(release.columns))))
    by_attribute: dict[str, list[Step]] = {}
    for step in release.steps:
        by_attribute.setdefault(step.attribute, []).append(step)
    trees, total = [], release.released
    for column in release.columns:
        splits = by_attribute.get(column.name, ())
        widths = widths_section(column, total, rows if splits else INTERVALS)
        nodes = cut_tree(column, splits, rows, release.boundaries.get(column.name, ()))
        values = int(np.count_nonzero(column.counts()))
        title = f"{column.name}: the tree and its cut"
        trees.append(
            {
                "name": column.name,
                "values": counted(values, "released value"),
                "chart": tree_chart(nodes, title=title, total=total) if nodes and not widths else None,
                "widths": widths,
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

    return {
        "rows": [row(position, step) for position, step in enumerate(release.steps[:STEPS], start=1)],
        "left_out": max(0, len(release.steps) - STEPS),
        "total": counted(len(release.steps), "step") if release.steps else "",
    }


def _score(score: float) -> str:
    return f"{score:.4f}" if abs(score) < 1000 else figure(score)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # an uninstalled source tree
        return "unknown"
