"""The settings of a release: a table of names and values, and the job as a file that could be run again.

A path is shown by its file name, a database by its kind, and what may be secret not at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from markupsafe import Markup, escape

from masquerade.report.charts.svg import clean, clip
from masquerade.report.wording import bare_name, figure, looks_like_place

MOST = 400  # settings that are shown
_LONGEST = 300  # characters of one text
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
    return (
        isinstance(value, list | tuple) and bool(value) and all(isinstance(each, Mapping) for each in value)
    )


def _key(name: str) -> str:
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else json.dumps(clip(name, _LONGEST), ensure_ascii=False)


def _value(key: str, value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(key, each) for each in value)}]"
    if isinstance(value, bool | int | float) and not _is_untold(key):
        return json.dumps(value)
    return json.dumps(clip(_told(key, value), _LONGEST), ensure_ascii=False)
