"""The report's contents, section by section, as plain values for the template.

Everything comes from the release itself, except what docs/leakage.md lists: the sequence of specializations
with their scores, how many rows were read and dropped, and metrics that compare with the original.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from html import escape as escape_text
from importlib import metadata, resources
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from jinja2 import Environment, FunctionLoader, StrictUndefined
from jinja2.bccache import Bucket, FileSystemBytecodeCache
from markupsafe import Markup, escape

from masquerade.anonymize import VerifiedRelease
from masquerade.arrangement import chosen_lines
from masquerade.data import Choice, Generalised, Step, code, distinct, texts
from masquerade.methods import described
from masquerade.privacy import Verdict
from masquerade.report.charts import SizeLine, share_bar, size_histogram, tree_chart
from masquerade.report.charts.svg import chart_style, clean, clip
from masquerade.report.cuts import cut_tree, is_flat, widths_section
from masquerade.report.risks import attacks_on, risks_section
from masquerade.report.verdict import (
    METRICS,
    bare_name,
    count,
    counted,
    duration,
    figure,
    headline,
    looks_like_place,
    percent,
)
from masquerade.utility import NCP

# --- sensitive ----------------------------------------------------------------------------------------------
# The distribution of sensitive values, in the release and, as far as it may be shown, before it.

_SHOWN = 12  # values, the most frequent first


def _distribution(release: VerifiedRelease, name: str) -> dict[str, Any]:
    """Return the section of a sensitive column; only values of the release are named."""
    after = release.values_after.get(name)
    if not after:
        coded = code(name, release.table.column(name))
        after = dict(zip(coded.labels, coded.histogram()[0].tolist(), strict=True))
    before = release.sensitive_before.get(name) if release.suppressed else after
    ordered = sorted(after, key=lambda value: (-after[value], value))
    total, total_before = sum(after.values()), sum((before or {}).values())

    def row(label: str, n: int, n_before: int | None) -> dict[str, Any]:
        share = n / total if total else 0.0
        share_before = None if n_before is None else n_before / total_before if total_before else 0.0
        return {
            "value": label,
            "before": "" if share_before is None else percent(share_before),
            "before_bar": "" if share_before is None else share_bar(share_before, "quiet"),
            "after": percent(share),
            "after_bar": share_bar(share),
            "records": count(n),
        }

    rows = [row(value, after[value], before.get(value, 0) if before else None) for value in ordered[:_SHOWN]]
    rest = ordered[_SHOWN:]
    gone = [value for value in before or {} if value not in after]
    if rest or gone:
        words = f"{counted(len(rest), 'other value')}" if rest else "values that no released record has"
        others = [*rest, *gone]
        n_before = sum(before.get(value, 0) for value in others) if before else None
        rows.append(row(words, sum(after[value] for value in rest), n_before))
    return {
        "name": name,
        "values": counted(len(after), "value"),
        "rows": rows,
        "same": not release.suppressed,
        "untold": bool(release.suppressed) and before is None,
        "suppressed": counted(release.suppressed, "suppressed row"),
    }


# --- settings -----------------------------------------------------------------------------------------------
# The settings of a release: a table of names and values, and the job as a file that could be run again.
#
# A path is shown by its file name, a database by its kind, and what may be secret not at all.

MOST = 400  # settings that are shown
_PLACES = ("source", "taxonomy", "taxonomies", "table", "report", "job_file", "path", "file")
_UNTOLD = ("password", "secret", "token", "query")
_ELSEWHERE = ("job", "job_file", "method", "choice")  # they have places of their own in the report


def settings_section(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rows of the settings' table, and the lines of the job."""
    rows = []
    for name, value in _flattened({key: each for key, each in settings.items() if key not in _ELSEWHERE}):
        if name == "source" and settings.get("parties"):
            continue  # would name the parties again
        rows.append((name, _told(name.rsplit(".", 1)[-1], value)))
    job = list(_toml(settings["job"])) if isinstance(settings.get("job"), Mapping) else []
    return {
        "rows": rows[:MOST],
        "left_out": max(0, len(rows) - MOST),
        "job": bool(job),
        "job_text": escape("\n".join(map(clean, job[:MOST]))),  # lines are short, the text may be long
        "job_left_out": max(0, len(job) - MOST),
    }


def plain(value: object) -> str:
    """Write a value for a person."""
    if value is None:
        return figure(None)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {plain(each)}" for key, each in value.items()) or figure(None)
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Markup):
        return ", ".join(plain(each) for each in value) or figure(None)
    text = str(value)
    return bare_name(text) if looks_like_place(text) else text


def _told(key: str, value: Any) -> str:
    if _is_untold(key):
        return "(not shown)"
    return bare_name(value) if isinstance(value, str) and key in _PLACES else plain(value)


def _is_untold(key: str) -> bool:
    return any(word in key.casefold() for word in _UNTOLD)


def _flattened(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in settings.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from _flattened(value, f"{name}.")
        elif _is_list_of_tables(value):
            for position, each in enumerate(value, start=1):
                yield from _flattened(each, f"{name}[{position}].")
        else:
            yield name, value


def _toml(content: Mapping[str, Any], name: str = "") -> Iterator[str]:
    """Write a table of TOML: its values first, then the tables in it."""
    inner = {key: value for key, value in content.items() if isinstance(value, Mapping)}
    lists = {key: value for key, value in content.items() if _is_list_of_tables(value)}
    for key, value in content.items():
        if key not in inner and key not in lists:
            yield f"{_key(key)} = {_value(key, value)}"
    for key, table in inner.items():
        path = f"{name}{_key(key)}"
        if any(not isinstance(value, Mapping) for value in table.values()) or not table:
            yield f"[{path}]"
        yield from _toml(table, f"{path}.")
    for key, tables in lists.items():
        for table in tables:
            yield f"[[{name}{_key(key)}]]"
            yield from _toml(table, f"{name}{_key(key)}.")


def _is_list_of_tables(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(each, Mapping) for each in value)


def _key(name: str) -> str:
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else json.dumps(clip(name, _LONGEST), ensure_ascii=False)


def _value(key: str, value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(key, each) for each in value)}]"
    if isinstance(value, bool | int | float) and not _is_untold(key):
        return json.dumps(value)
    return json.dumps(clip(_told(key, value), _LONGEST), ensure_ascii=False)


# --- contents -----------------------------------------------------------------------------------------------

Section = dict[str, Any]

STEPS = 1000
CHILDREN = 8
TREES_OPEN = 16
TREE_ROWS, ALL_ROWS = 60, 2400
INTERVALS = 24  # that are drawn each, where no tree of splits is known
SAMPLE, SAMPLE_COLUMNS = 6, 40


def contents(release: VerifiedRelease, table_sha256: str = "") -> Section:
    """Return all sections by their name in the template."""
    attacks = attacks_on(release)
    queries = {"query_error": release.query_error.mean} if release.query_error is not None else {}
    return {
        "headline": headline(release, attacks),
        "about": _about(release, table_sha256),
        "requirements": [_requirement(verdict) for verdict in release.verdicts],
        "dropped": list(release.dropped),
        "groups": _groups(release),
        "attributes": [_attribute(column, release) for column in release.columns],
        "unchanged": list(release.unchanged),
        "sensitive": [_distribution(release, name) for name in release.sensitive],
        "risks": risks_section(release, attacks),
        "sample": _sample(release),
        "trees": _trees(release),
        "fold_trees": len(release.columns) > TREES_OPEN,
        "steps": _steps(release),
        "metrics": [
            (name.replace("_", " "), figure(value), METRICS.get(name, ""))
            for name, value in {**release.metrics, **release.purpose, **queries}.items()
        ],
        "choice": _choice(release.choice) if release.choice is not None else None,
        "settings": settings_section(release.settings),
        "seconds": [(name, duration(seconds)) for name, seconds in release.seconds.items()],
        "versions": [("Masquerade", _version("masquerade")), ("Python", platform.python_version())]
        + [(name, _version(name)) for name in ("numpy", "pyarrow")],
    }


def _about(release: VerifiedRelease, table_sha256: str) -> list[tuple[str, str]]:
    """Return what identifies the release: when and by what it was made, and its file's digest."""
    job = release.settings.get("job_file")
    return [
        ("Made", release.made.strftime("%Y-%m-%d %H:%M UTC")),
        *([("Job", bare_name(str(job)))] if job else []),
        ("By", f"Masquerade {_version('masquerade')}"),
        *_method(release),
        *([("SHA-256 of the table", table_sha256)] if table_sha256 else []),
    ]


def _method(release: VerifiedRelease) -> list[tuple[str, str]]:
    """Return the method that parties agreed on; if it was chosen, why."""
    if (method := release.settings.get("method")) is None:
        return []
    choice = release.settings.get("choice")
    return [("Method", described(method)), *([("Chosen", "; ".join(chosen_lines(choice)))] if choice else [])]


def _sample(release: VerifiedRelease) -> Section:
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
            (name, plain(value)) for name, value in verdict.requirement.shown_parameters().items() if name not in wraps
        ],
        "value": figure(verdict.value),
        "meaning": verdict.requirement.figure_meaning,
        "groups": count(verdict.groups),
        "holds": verdict.holds,
        "first_violating": [(name, value) for name, value in (verdict.group or {}).items()],
    }


def _groups(release: VerifiedRelease) -> Section:
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


def _attribute(column: Generalised, release: VerifiedRelease) -> Section:
    lost = release.attribute_losses.get(column.name)
    values = int(np.count_nonzero(column.counts()))
    return {
        "name": column.name,
        "lost": percent(lost) if lost is not None else figure(None),
        "bar": share_bar(lost) if lost is not None else "",
        "kept": percent(kept) if (kept := release.attribute_information.get(column.name)) is not None else figure(None),
        "values": count(values),
    }


def _trees(release: VerifiedRelease) -> list[Section]:
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


def _steps(release: VerifiedRelease) -> Section:
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
            "score": f"{step.score:.4f}" if abs(step.score) < 1000 else figure(step.score),
            "bar": share_bar(step.score / top if top > 0 else 0.0),
        }

    return {
        "rows": [row(position, step) for position, step in enumerate(release.steps[:STEPS], start=1)],
        "left_out": max(0, len(release.steps) - STEPS),
        "total": counted(len(release.steps), "step") if release.steps else "",
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # an uninstalled source tree
        return "unknown"


# --- html ---------------------------------------------------------------------------------------------------
# One self-contained HTML file about a release: no script, and nothing from the network.

_LONGEST = 300  # characters of one external text; charts shorten further


def render_report(release: VerifiedRelease, table_sha256: str = "") -> str:
    """Return the report's HTML, which is deterministic for a release; it may name the file that holds the table."""
    return render("release.html", **contents(release, table_sha256))


def render(template: str, **values: Any) -> str:
    """Return a page of this room with the values in it, all of them escaped, and the style of every page."""
    return pages().get_template(template).render(style=page_style(), **values)


def framed(page: str) -> str:
    """Return a page in a frame of its own, for notebooks."""
    source = escape_text(page, quote=True)
    return f'<iframe srcdoc="{source}" style="width: 100%; height: 36rem; border: 0" sandbox></iframe>'


@cache
def pages() -> Environment:
    """Return the templates of this room; each extends `page.html`, which has what a page may load: nothing."""
    return Environment(
        loader=FunctionLoader(_file),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_presentable,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=_CompiledBesideModules(),
    )


class _CompiledBesideModules(FileSystemBytecodeCache):
    """Keeps templates compiled where Python keeps this module compiled: to compile them takes longer than to fill them.

    What cannot be written there is compiled the next time, too.
    """

    def __init__(self) -> None:
        super().__init__(str(Path(cache_from_source(__file__)).parent), f"%s.{sys.implementation.cache_tag}.page")

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Write a compiled template, unless Python is told to write none."""
        if not sys.dont_write_bytecode:
            with suppress(OSError):
                super().dump_bytecode(bucket)


@cache
def page_style() -> Markup:
    """Return the style of every page and of the charts in it."""
    return Markup(chart_style() + _file("style.css"))  # noqa: S704 # our own files


def _file(name: str) -> str:
    return resources.files("masquerade.report").joinpath(name).read_text("utf-8")


def _presentable(value: Any) -> Any:
    """Shorten external texts and remove characters that are not allowed in a document."""
    return clean(clip(value, _LONGEST)) if isinstance(value, str) and not isinstance(value, Markup) else value
