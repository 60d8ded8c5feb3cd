"""Tables of plain frames: what their columns probably mean, by the rules by which `masquerade init` drafts a job."""

from __future__ import annotations

import sys
import tomllib
import warnings
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from masquerade.data import MISSING_VALUES, Attribute, RawTable, Schema, Table as DataTable, Taxonomy
from masquerade.errors import ParameterError, given, is_ours
from masquerade.privacy import Requirement

if TYPE_CHECKING:
    from masquerade.jobs.drafts.draft import ProfiledColumns

# --- column names -------------------------------------------------------------------------------------------
# Lists of column names, as functions of the Python surface take them.


def names_of(parameter: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return names of columns: several, or just one."""
    listed = (names,) if isinstance(names, str) else tuple(names) if isinstance(names, Iterable) else (names,)
    if not all(isinstance(name, str) and name for name in listed):
        raise ParameterError(f"The {parameter} parameter must list names of columns. Got {given(names)} instead.")
    return listed


# --- guessing -----------------------------------------------------------------------------------------------

_FEW = 5  # columns that a note names


class Table(DataTable):
    """Rows and columns with their schema. Immutable: every operation returns a new table.

    `frame` is anything with `__arrow_c_stream__` (pandas, polars, pyarrow, DuckDB, another Table). Without a
    schema, number columns are continuous, date columns are dates, and all others are categorical; `taxonomies` then
    gives some of them theirs: a folder of files named after the columns, or a mapping from a column to its taxonomy,
    file or "flat".
    """

    @classmethod
    def guess(cls, frame: Any, *, target: str | None = None, sensitive: Iterable[str] = ()) -> Table:
        """Return a table with the types and taxonomies that `masquerade init` would draft for a frame.

        `target` is the class, by which categories are grouped; it and the `sensitive` columns are released as they are.
        Identifiers, free text and columns with one value are left out. A warning says what was made of each column.
        """
        given = cls(frame, origin=frame.origin if isinstance(frame, DataTable) else None)
        protected = names_of("sensitive", sensitive)
        columns = _looked_at(given, target, protected)
        left_out = _left_out(columns)
        origin = replace(given.origin, missing_values=(*MISSING_VALUES, *columns.missing_words))
        as_they_are = columns.named("sensitive")
        trees, words = _drafted(
            columns, [name for name in columns.profiles if name not in {*left_out, *as_they_are, target}], target
        )
        kept = [trees.get(each.name, each) for each in given.schema if each.name not in left_out]
        identifiers = [name for name in left_out if columns.roles[name].role == "identifier"]
        proposed = columns.named("quasi-identifier")
        found: dict[str, list[str]] = {}
        for name in trees:
            found.setdefault(words[name], []).append(name)
        note = [
            *(f"{kind}: {', '.join(names)}" for kind, names in found.items()),
            f"quasi-identifiers as init would propose: {', '.join(proposed) or 'none'}",
            *([f"sensitive, released as they are: {', '.join(as_they_are)}"] if as_they_are else []),
            *_of_left_out(columns, left_out),
        ]
        _warn(f"Guessed: {'; '.join(note)}. Look through the table's schema before you publish.")
        return cls(given.arrow, Schema(kept, identifiers), origin=origin)


def table_of(
    frame: Any, requirement: Requirement, target: str | None = None, sensitive: Sequence[str] = ()
) -> DataTable:
    """Return a table as it is; of a plain frame, a table that the requirement's QIDs can be generalised in.

    There a category of a QID is published or becomes "*", and columns that `masquerade init` would take for identifiers
    or free text are left out unless the caller names them. A warning says so.
    """
    if isinstance(frame, DataTable):
        return frame
    given = Table(frame)
    qid = set(requirement.qid_attributes)
    named = {*qid, *requirement.special_columns, *sensitive, *([target] if target is not None else [])}
    columns = _looked_at(given, None, ())
    left_out = {
        name: None
        for name in _left_out(columns)
        if name not in named and len(columns.profiles[name].cells) > 1  # one value alone tells nothing
    }
    bare = [
        each.name for each in given.schema if each.kind == "categorical" and each.name in qid and each.taxonomy is None
    ]
    schema = Schema(
        (
            replace(each, taxonomy="flat") if each.name in bare else each
            for each in given.schema
            if each.name not in left_out
        ),
        [name for name in left_out if columns.roles[name].role == "identifier"],
    )
    note = list(_of_left_out(columns, left_out))
    if bare:
        note.insert(0, f'no taxonomy for {_listed(bare)}: a value is published or becomes "*"')
    if note:
        unchanged = [name for name in schema.names if name not in named]
        if unchanged:
            note.append(f"published as they are, being in no QID: {_listed(unchanged)}")
        _warn(f"{'; '.join(note)}. mq.Table.guess(frame) makes taxonomies; mq.Table(frame, schema) says what they are.")
    return given.with_schema(schema)


def _looked_at(table: DataTable, target: str | None, sensitive: Sequence[str]) -> ProfiledColumns:
    from masquerade.jobs.drafts.draft import look_at

    names = tuple(table.arrow.column_names)
    return look_at(RawTable(table.arrow, names, table.origin), target, sensitive)


def _left_out(columns: ProfiledColumns) -> dict[str, None]:
    """Return the columns that no release should hold: not those that are one quasi-identifier too many."""
    from masquerade.jobs.drafts.roles import TOO_MANY

    return {
        name: None
        for name, each in columns.roles.items()
        if each.role == "identifier" or (each.role == "other" and each.reason != TOO_MANY)
    }


def _drafted(
    columns: ProfiledColumns, names: Sequence[str], target: str | None
) -> tuple[dict[str, Attribute], dict[str, str]]:
    """Return the attributes that a drafted job has for these columns, and what their taxonomies are."""
    from masquerade.forms import Problems, read_form
    from masquerade.jobs.drafts.draft import attribute_text, key, likeness
    from masquerade.jobs.model import Job, schema_of

    lines, words, job = list[str](), dict[str, str](), Path("job.toml")
    taxonomies = dict[Path, str]()  # which are never written
    for name in names:
        made = attribute_text(columns.profiles[name], None, job, set(taxonomies), likeness(columns, name, target))
        lines += [f"[attributes.{key(name)}]", *made.lines]
        words[name] = made.tree
        if made.file is not None:
            taxonomies[made.file] = made.text
    problems = Problems("table")
    drafted = read_form(Job, tomllib.loads("\n".join(lines)), "table")
    schema = schema_of(drafted, names, job.parent, problems, taxonomies)
    problems.settle()
    return {each.name: _named(each) for each in schema}, words


def _named(attribute: Attribute) -> Attribute:
    """Let messages name the column rather than a file that is gone."""
    if not isinstance(attribute.taxonomy, Taxonomy):
        return attribute
    return replace(attribute, taxonomy=replace(attribute.taxonomy, source=f"guessed for {attribute.name}"))


def _of_left_out(columns: ProfiledColumns, names: Collection[str]) -> Iterable[str]:
    """Say which columns no release holds, and why."""
    for role, text in (("identifier", "never released"), ("other", "left out")):
        found = [name for name in names if columns.roles[name].role == role]
        if found:
            reasons = [f"{name} ({columns.roles[name].reason.removeprefix('left out: ')})" for name in found]
            yield f"{text}: {_listed(reasons)}"


def _listed(words: Sequence[str], most: int = _FEW) -> str:
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return f"{', '.join(words[:most])}{more}"


def _warn(text: str) -> None:
    """Warn at the line of the caller's own code."""
    frame, level = sys._getframe(), 1
    while is_ours(frame) and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, UserWarning, stacklevel=level)
