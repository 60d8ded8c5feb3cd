"""Draft a job: read a table, find out what its columns are, and write a job that runs as it is.

Nothing is guessed that would make a release less private: what identifies people is left out, also where that is only
likely. What is sensitive and what the class is must be said, but for diagnoses, which are proposed as sensitive; every
other column that is released is generalised. Whatever cannot be, is left out.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from masquerade.data import (
    ISO_DATE,
    MISSING_VALUES,
    USUAL_NUMBERS,
    NumberStyle,
    RawTable,
    TableFile,
    Taxonomy,
    chosen,
    interval_taxonomy,
    outline_of_rows,
)
from masquerade.engine import pair_counts, which_occur
from masquerade.errors import AnswerIsNo, ParameterError, TaxonomyError
from masquerade.files import FileExists, replacing_together
from masquerade.jobs.drafts import trees
from masquerade.jobs.drafts.column_names import always_identifies, names_people
from masquerade.jobs.drafts.profile import ColumnType, Profile, also_read_as, profile
from masquerade.jobs.drafts.roles import RoleProposal, propose_roles
from masquerade.jobs.outputs import Outputs
from masquerade.progress import OnStage, Stage, silent

# --- toml text ----------------------------------------------------------------------------------------------
# Texts, names and paths as a TOML file has them.


def quoted(text: str) -> str:
    """Write a text in quotes."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def listed(names: Iterable[str]) -> str:
    """Write a list of texts."""
    return f"[{', '.join(map(quoted, names))}]"


def key(name: str) -> str:
    """Write a key, in quotes where it needs them."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else quoted(name)


def relative(path: Path, job: Path) -> str:
    """Write a path as seen from the job's folder."""
    return Path(os.path.relpath(path, job.parent)).as_posix()


def comment(text: str) -> list[str]:
    """Write a text as comment lines; what would end a line is a space."""
    plain = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    return [f"# {line}" for line in textwrap.wrap(plain, 110)] or ["#"]


# --- attribute text -----------------------------------------------------------------------------------------
# What a job file says of an attribute: its type, and the taxonomy that is found or made for it.

_TREES: dict[ColumnType, tuple[Callable[[Profile], trees.Paths], str]] = {
    "number": (trees.round_intervals, "intervals with round ends, each level in about two"),
    "date": (trees.calendar, "days, months, quarters, years, decades"),
    "code": (trees.prefixes, "prefixes"),
}
_KINDS: dict[ColumnType, str] = {"number": "continuous", "date": "date"}


@dataclass(frozen=True)
class AttributeText:
    """The lines of an attribute's section; the taxonomy's file and text, if one is made; and what it is.

    Of `has_short_names`, the labels leave out values: a release needs the list of them beside it.
    """

    lines: tuple[str, ...]
    file: Path | None
    text: str
    tree: str
    has_short_names: bool = False


def attribute_text(
    column: Profile, table: Path | None, job: Path, taken: set[Path], likeness: Sequence[float] | None
) -> AttributeText:
    """Find a taxonomy beside the table, or make one; where neither works, it is flat, or grows at run time."""
    found = trees.beside(table, column) if table is not None else None
    misfit = ""
    if found is not None and not found.misfit:
        lines = (*_written(column, found.kind), f"taxonomy = {quoted(relative(found.path, job))}")
        return AttributeText(lines, None, "", f"the taxonomy in {found.path.name}")
    if found is not None:
        misfit = f"; {found.path.name} does not fit: {found.misfit}"
    kind = _KINDS.get(column.type, "categorical")
    made, words = _made(column, likeness)
    words += _reading(column)
    if made is None:
        flat = () if kind != "categorical" else ('taxonomy = "flat"',)
        return AttributeText((*_written(column, kind), *flat), None, "", f"{words}{misfit}")
    file = _free_name(column.name, job, taken)
    lines = (*_written(column, kind), f"taxonomy = {quoted(relative(file, job))}")
    short = column.type not in _TREES and trees.has_short_names(column, likeness)
    return AttributeText(lines, file, made, f"{words}{misfit}", short)


def _reading(column: Profile) -> str:
    """Say how numbers and dates were read that somebody may have meant otherwise."""
    if column.type == "number" and not column.numbers.is_usual:
        return f"; {_numbers_read(column.numbers)}"
    if column.type == "date" and column.format != ISO_DATE:
        other = also_read_as(column)
        return f"; its dates are read as {column.format}" + (f", though {other} fits, too" if other else "")
    return ""


def _numbers_read(style: NumberStyle) -> str:
    words = {",": "commas", ".": "points", " ": "spaces", "'": "apostrophes"}
    parts = ["its commas are taken for decimal points"] if style.decimal == "," else []
    if style.thousands:
        parts.append(f"its {words[style.thousands]} stand between thousands")
    return ", ".join([*parts, *([f'"{style.unit}" is its unit'] if style.unit else [])])


def _written(column: Profile, kind: str) -> tuple[str, ...]:
    """The type, and how dates and numbers are written where that is not the usual way."""
    if kind == "categorical":
        return ()
    lines = [f"type = {quoted(kind)}"]
    if kind == "date" and column.format != ISO_DATE:
        lines.append(f"format = {quoted(column.format)}")
    if kind == "continuous":
        for word in ("decimal", "thousands", "unit"):
            if (sign := getattr(column.numbers, word)) != getattr(USUAL_NUMBERS, word):
                lines.append(f"{word} = {quoted(sign)}")
    return tuple(lines)


def _made(column: Profile, likeness: Sequence[float] | None) -> tuple[str | None, str]:
    """Return the file of a taxonomy that fits the column, and what it is; None if none could be made."""
    if column.type in _TREES:
        make, words = _TREES[column.type]
        paths = make(column)
    else:
        words = trees.words_of_order(column, likeness)
        paths = trees.balanced(column, likeness)
    text = _rows(paths)
    try:
        tree = outline_of_rows(text, column.name)
        if column.type in _KINDS:
            interval_taxonomy(tree, "date" if column.type == "date" else "continuous", column.name)
        elif not Taxonomy(tree.branch(), column.name).rank.keys() >= set(column.cells):
            return None, "one root over all values"
    except TaxonomyError:  # names that stand for something in the format
        return None, "one root over all values"
    return text, words


def _rows(paths: trees.Paths) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=";", lineterminator="\n").writerows(paths)
    return text.getvalue()


def _free_name(name: str, job: Path, taken: set[Path]) -> Path:
    """Return a new file for a column's taxonomy, in the job's own folder of taxonomies."""
    stem = re.sub(r"[^\w-]+", "-", name).strip("-") or "column"
    folder, at = job.parent / f"{job.stem}-taxonomies", 1
    path = folder / f"{stem}.csv"
    while path in taken:
        at += 1
        path = folder / f"{stem}-{at}.csv"
    taken.add(path)
    return path


# --- draft --------------------------------------------------------------------------------------------------

_MOST_DROPPED = 0.05  # of the rows; if more have a missing cell, missing cells are kept as values
_FEW = 3  # columns of which an error gives the reason
DEFAULT_K, DIVERSITY = 5, 2


@dataclass(frozen=True)
class Draft:
    """A job's text, the taxonomies it needs, and what was proposed for each column."""

    job: Path
    text: str
    taxonomies: dict[Path, str] = field(default_factory=dict)
    attributes: tuple[dict[str, str], ...] = ()

    @property
    def summary(self) -> dict[str, Any]:
        """The JSON summary of `init`."""
        files = [str(path) for path in self.taxonomies]
        return {"job": str(self.job), "attributes": list(self.attributes), "taxonomies": files}

    def write(self) -> None:
        """Write all files, the job last; what exists under its name is not replaced."""
        refuse_existing(self.job)
        with replacing_together() as opened:
            for path, text in {self.job: self.text, **self.taxonomies}.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                with opened(path) as file:
                    file.write(text.encode())


def refuse_existing(job: Path) -> None:
    """Refuse to write over a file, which may have been worked on."""
    if job.exists():
        raise FileExists.at(job, "there is such a file already; name another with --output")


@dataclass(frozen=True, eq=False)
class ProfiledColumns:
    """A table's columns, and the roles proposed for them."""

    source: RawTable
    profiles: dict[str, Profile]
    roles: dict[str, RoleProposal]

    def named(self, role: str) -> list[str]:
        """The columns of a role, in the order of the table."""
        return [name for name in self.profiles if self.roles[name].role == role]

    @property
    def missing_words(self) -> list[str]:
        """The texts that mean a missing cell, beside the usual ones."""
        words = (word for each in self.profiles.values() for word in each.missing_words)
        return list(dict.fromkeys(words))


@dataclass(frozen=True, eq=False)
class FileColumns(ProfiledColumns):
    """The columns of a table in a file or database."""

    file: TableFile


def look_at(
    source: RawTable,
    target: str | None,
    sensitive: Sequence[str],
    *,
    qid: Sequence[str] | None = None,
    lists_all: bool = True,
    on_stage: OnStage = silent,
) -> ProfiledColumns:
    """Propose a role for each column of a table; with `lists_all` those named must all be there."""
    asked = [*([target] if target is not None else []), *sensitive, *(qid or ())]
    if lists_all:
        chosen(source.origin.name, source.all_columns, asked)
    if target is not None and target in sensitive:
        raise ParameterError(f"{target}: both the class and sensitive; name it once")
    for name in qid or ():
        if name == target or name in sensitive:
            raise ParameterError(f"{name}: a quasi-identifier, and also the class or sensitive; name it once")
    profiles = profiles_of(source.table, source.all_columns, on_stage)
    on_stage(Stage("looking for what identifies rows"))
    return ProfiledColumns(source, profiles, propose_roles(list(profiles.values()), target, sensitive, qid))


def look_at_file(
    file: TableFile,
    target: str | None,
    sensitive: Sequence[str],
    *,
    qid: Sequence[str] | None = None,
    lists_all: bool = True,
    on_stage: OnStage = silent,
) -> FileColumns:
    """Read a table, and propose a role for each column as `look_at` does."""
    on_stage(Stage("reading"))
    found = look_at(file.read(), target, sensitive, qid=qid, lists_all=lists_all, on_stage=on_stage)
    return FileColumns(found.source, found.profiles, found.roles, file)


def profiles_of(table: pa.Table, names: Sequence[str], on_stage: OnStage = silent) -> dict[str, Profile]:
    """Find out what each of these columns holds.

    A job has one list of words for missing cells: what means one in a column means it in all.
    """
    found = {}
    for at, name in enumerate(names, start=1):
        on_stage(Stage(f"looking at column {at} of {len(names)}", detail=name))
        found[name] = profile(name, table.column(name), MISSING_VALUES)
    words = {
        word
        for name, each in found.items()
        if not (always_identifies(name) or names_people(name))
        for word in each.missing_words
    }
    for name, each in found.items():
        if not words.isdisjoint(each.cells):
            found[name] = profile(name, table.column(name), [*MISSING_VALUES, *words])
        elif not words.issuperset(each.missing_words):  # of a column that identifies people, and is not released
            found[name] = replace(each, missing_words=())
    return found


def draft_job(
    file: TableFile,
    job: Path,
    *,
    target: str | None = None,
    sensitive: Sequence[str] = (),
    k: int = DEFAULT_K,
    qid: Sequence[str] | None = None,
    method: str | None = None,
    output: Outputs | None = None,
    lowers_k: bool = True,
    on_stage: OnStage = silent,
) -> Draft:
    """Draft the job of one table. Nothing is written yet.

    Without `qid` the quasi-identifiers are proposed, without `method` it is the best one, without `output` the release
    is named after the table. With `lowers_k` a k that no release could have is lowered.
    """
    if k < 1:
        raise ParameterError(f"k must be a whole number of at least 1; got {k}")
    columns = look_at_file(file, target, sensitive, qid=qid, on_stage=on_stage)
    qid = columns.named("quasi-identifier")
    sensitive = columns.named("sensitive")
    if not qid:
        raise nothing_left([columns])
    kept, missing = kept_rows(columns, [*qid, *sensitive, *([target] if target is not None else [])])
    taxonomies: dict[Path, str] = {}
    lines = [
        *comment("Drafted by `masquerade init`. Look it through; it runs as it is: masquerade anonymize " + job.name),
        "",
        "[data]",
        *data_lines(columns, job),
        *missing,
    ]
    attributes, short_names = [], []
    for name in columns.profiles:
        section = None
        if name in qid:
            on_stage(Stage("finding or making a taxonomy", detail=name))
            section = attribute_text(
                columns.profiles[name], file.path, job, set(taxonomies), likeness(columns, name, target)
            )
            if section.file is not None:
                taxonomies[section.file] = section.text
        own_lines, told = attribute_lines(columns, name, section)
        lines += ["", *own_lines]
        attributes.append(told)
        if section is not None and section.has_short_names:
            short_names.append(name)
    lines += ["", *roles_lines(target, sensitive, columns.named("identifier"))]
    lines += [*privacy_lines(qid, min(k, int(kept.sum())) if lowers_k else k, k)]
    for name in sensitive:
        lines += diversity_lines(columns.profiles[name], qid, kept)
    if method is not None:
        lines += ["", "[algorithm]", f"name = {quoted(method)}"]
    stem = "table" if file.path is None else file.path.stem
    files = output or Outputs(Path(f"{stem}-release.csv"), Path(f"{stem}-report.html"))
    lines += ["", *output_lines(files, short_names)]
    return Draft(job, "\n".join(lines) + "\n", taxonomies, tuple(attributes))


def nothing_left(tables: Sequence[ProfiledColumns]) -> AnswerIsNo:
    """Return the error about tables without a quasi-identifier, with the reasons of the first few columns."""
    reasons = [f"{name} ({each.reason})" for table in tables for name, each in table.roles.items()]
    more = f", and {len(reasons) - _FEW:,} more" if len(reasons) > _FEW else ""
    names = " and ".join(table.source.origin.name for table in tables)
    return AnswerIsNo(
        f"{names}: no column is left that could be generalised and released: {', '.join(reasons[:_FEW])}{more}"
    )


def kept_rows(columns: ProfiledColumns, used: Iterable[str]) -> tuple[NDArray[np.bool_], list[str]]:
    """Return which rows a job keeps that uses these columns, and the line with which it keeps missing cells, if any."""
    complete: NDArray[np.bool_] = np.logical_and.reduce([columns.profiles[name].codes >= 0 for name in used])
    if complete.mean() >= 1 - _MOST_DROPPED:
        return complete, []
    lacking = f"{int((~complete).sum()):,} of {complete.size:,} rows lack a cell"
    return np.ones(complete.size, bool), [f'missing = "keep"  # {lacking}']


def attribute_lines(
    columns: ProfiledColumns, name: str, section: AttributeText | None
) -> tuple[list[str], dict[str, str]]:
    """Write the section of an attribute, or a comment on a column that has none, and what the summary says of it."""
    role, reason = columns.roles[name].role, _reason(columns, name, section)
    lines = comment(f"{name}: {role}; {reason}")
    lines += [] if section is None else [f"[attributes.{key(name)}]", *section.lines]
    return lines, {"name": name, "role": role, "type": columns.profiles[name].type, "reason": reason}


def roles_lines(target: str | None, sensitive: Sequence[str], identifiers: Sequence[str] = ()) -> list[str]:
    """Write `[roles]`."""
    lines = ["[roles]"]
    if target is not None:
        lines.append(f"class = {quoted(target)}")
    if sensitive:
        lines.append(f"sensitive = {listed(sensitive)}  # released as they are")
    if identifiers:
        lines.append(f"identifiers = {listed(identifiers)}  # never released")
    return [*lines, ""]


def privacy_lines(qid: Iterable[str], k: int, asked: int) -> list[str]:
    """Write the k-anonymity of the draft."""
    why = "" if k == asked else f"  # not {asked}: there are no more records"
    return ["[[privacy]]", 'model = "k-anonymity"', f"qid = {listed(qid)}", f"k = {k}{why}"]


def output_lines(files: Outputs, short_names: Sequence[str] = ()) -> list[str]:
    """Write `[output]`."""
    lines = ["[output]", f"table = {quoted(files.table.as_posix())}"]
    if files.report is not None:
        lines.append(f"report = {quoted(files.report.as_posix())}")
    if short_names:
        lines.append(
            f"labels = {listed(short_names)}  # {files.table.stem}-labels.csv says what their labels stand for"
        )
    return lines


def data_lines(columns: FileColumns, job: Path) -> list[str]:
    """Write where a table is and how it is written."""
    file = columns.file
    where = file.source if file.path is None else relative(file.path, job)
    lines = [f"source = {quoted(where)}"]
    if file.query is not None:
        lines.append(f"query = {quoted(file.query)}")
    if file.separator is not None:
        lines.append(f"separator = {quoted(file.separator)}")
    if file.found_encoding != "utf-8":
        lines.append(f"encoding = {quoted(file.found_encoding)}")
    if missing_words := columns.missing_words:
        lines.append(f"missing_values = {listed([*MISSING_VALUES, *missing_words])}")
    return lines


def diversity_lines(column: Profile, qid: Sequence[str], kept: NDArray[np.bool_]) -> list[str]:
    """Write the ℓ-diversity of a sensitive attribute, where it has values enough."""
    codes = column.codes[kept] + np.int32(1)
    different = int(which_occur(codes, len(column.cells) + 1).sum())
    if different < DIVERSITY:
        return ["", *comment(f"{column.name} has a single value, so no group can be diverse in it")]
    return [
        "",
        "[[privacy]]",
        'model = "l-diversity"',
        f"qid = {listed(qid)}",
        f"sensitive = {quoted(column.name)}",
        f"l = {DIVERSITY}  # different values in a group, at least",
    ]


def likeness(columns: ProfiledColumns, name: str, target: str | None) -> list[float] | None:
    """Return the share of the most common class among the rows of each cell."""
    if target is None:
        return None
    column, label = columns.profiles[name], columns.profiles[target]
    both = (column.codes >= 0) & (label.codes >= 0)
    if not both.any():
        return None
    counts = pair_counts(column.codes[both], label.codes[both], len(column.cells), len(label.cells))
    most = int(counts.sum(axis=0).argmax())
    rows = counts.sum(axis=1)
    shares: list[float] = np.round(counts[:, most] / np.maximum(rows, 1), 6).tolist()
    return shares


def _reason(columns: ProfiledColumns, name: str, section: AttributeText | None) -> str:
    """Say why a column has its role, what its taxonomy is, and what of its cells should be looked at."""
    proposal, column = columns.roles[name], columns.profiles[name]
    parts = [proposal.reason, *([section.tree] if section is not None else [])]
    if proposal.role in ("quasi-identifier", "sensitive", "class"):
        if column.missing_words:
            several = "counts" if len(column.missing_words) == 1 else "count"
            parts.append(f"{_named(column.missing_words)} {several} as missing")
        if alike := column.alike:
            pairs = ", ".join(" and ".join(f'"{cell}"' for cell in cells) for cells in alike[:_FEW])
            more = f" and {len(alike) - _FEW:,} more such groups" if len(alike) > _FEW else ""
            parts.append(
                f"{pairs}{more} differ only in capitals or spaces, and are different values: make them one in the table"
            )
    return "; ".join(parts)


def _named(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(f'"{word}"' for word in words[:-1]), f'"{words[-1]}"']))


# --- parties ------------------------------------------------------------------------------------------------
# Draft the mashup of several tables, each another party's: the same people, or the same columns.


def draft_mashup(
    files: Sequence[TableFile],
    job: Path,
    *,
    target: str | None = None,
    sensitive: Sequence[str] = (),
    k: int = 5,
    on_stage: OnStage = silent,
) -> Draft:
    """Draft the job of `masquerade mashup`. Nothing is written yet."""
    tables = [look_at_file(file, target, sensitive, lists_all=False, on_stage=on_stage) for file in files]
    for name in (*([target] if target is not None else []), *sensitive):
        if not any(name in table.profiles for table in tables):
            raise ParameterError(f'no table has a column "{name}"')
    sensitive = list(dict.fromkeys([*sensitive, *(name for each in tables for name in each.named("sensitive"))]))
    names = _party_names(files)
    if len({tuple(sorted(table.profiles)) for table in tables}) == 1:
        on_stage(Stage("making taxonomies"))
        return _same_columns(tables, names, job, sensitive, k)
    on_stage(Stage("finding the people in common, and making taxonomies"))
    return _same_people(tables, names, job, target, sensitive, k)


def _same_people(
    tables: list[FileColumns], names: list[str], job: Path, target: str | None, sensitive: Sequence[str], k: int
) -> Draft:
    """Join what several parties know of the same people; the first who has an attribute contributes it."""
    ids = _identifiers(tables)
    contributors: dict[str, int] = {}
    for at, table in enumerate(tables):
        for name in (*table.named("quasi-identifier"), *table.named("sensitive"), *table.named("class")):
            if name != ids[at]:
                contributors.setdefault(name, at)
    holders = {name: at for name, at in contributors.items() if name != target and name not in sensitive}
    if not holders:
        raise nothing_left(tables)
    if target is not None and all(target in table.profiles for table in tables):
        del contributors[target]  # nobody needs to share it
    lines, people = _head(job), list[set[str]]()
    for at, (table, party) in enumerate(zip(tables, names, strict=True)):
        own = [name for name, holder in contributors.items() if holder == at]
        shared = [target] if target is not None and target not in contributors else []
        kept, missing = kept_rows(table, [ids[at], *own, *shared])
        identifier = table.profiles[ids[at]]
        people.append({identifier.cells[code] for code in identifier.codes[kept].tolist()})
        lines += [
            "",
            f"[parties.{key(party)}]",
            *data_lines(table, job),
            *missing,
            f"id = {quoted(ids[at])}  # identifies people, and is never released",
            f"attributes = {listed(own)}",
        ]
    least = max(1, min(k, len(set.intersection(*people))))
    return _finished([*lines, ""], tables, holders, job, least, k, target, sensitive)


def _same_columns(tables: list[FileColumns], names: list[str], job: Path, sensitive: Sequence[str], k: int) -> Draft:
    """Providers of different people: taxonomies must cover the values of all of them."""
    first = _joined(tables, sensitive)
    qid = first.named("quasi-identifier")
    if not qid:
        raise nothing_left([first])
    kept, missing = kept_rows(first, [*qid, *sensitive])
    lines = _head(job)
    for table, name in zip(tables, names, strict=True):
        lines += ["", f"[parties.{key(name)}]", *data_lines(table, job), *missing]
    advice = 'against providers that collude, add [[privacy]] with model = "m-privacy" and m = 1'
    lines += ["", "[algorithm]", f'name = "mondrian"  # {advice}']
    least = min(k, int(kept.sum()))
    return _finished([*lines, ""], [first], dict.fromkeys(qid, 0), job, least, k, None, sensitive)


def _joined(tables: list[FileColumns], sensitive: Sequence[str]) -> FileColumns:
    """All providers' records, as one table."""
    order = tables[0].source.table.column_names
    arrow = pa.concat_tables([table.source.table.select(order) for table in tables], promote_options="permissive")
    profiles = profiles_of(arrow, order)
    source = replace(tables[0].source, table=arrow)
    return FileColumns(source, profiles, propose_roles(list(profiles.values()), None, sensitive), tables[0].file)


def _finished(
    lines: list[str],
    tables: list[FileColumns],
    holders: dict[str, int],
    job: Path,
    k: int,
    asked: int,
    target: str | None,
    sensitive: Sequence[str],
) -> Draft:
    """Add the attributes, each as its holder has it, the roles and the requirements."""
    qid, taxonomies = list(holders), dict[Path, str]()
    attributes, seen = list[dict[str, str]](), set[str]()
    for at, table in enumerate(tables):
        for name in table.profiles:
            if name in seen or (name in holders and holders[name] != at):
                continue
            seen.add(name)
            section = None
            if name in holders:
                section = attribute_text(table.profiles[name], table.file.path, job, set(taxonomies), None)
                if section.file is not None:
                    taxonomies[section.file] = section.text
            own_lines, told = attribute_lines(table, name, section)
            lines += [*own_lines, ""]
            attributes.append(told)
    lines += [*roles_lines(target, sensitive), *privacy_lines(qid, k, asked)]
    for name in sensitive:
        column = next(table.profiles[name] for table in tables if name in table.profiles)
        lines += diversity_lines(column, qid, column.codes >= 0)
    lines += ["", *output_lines(Outputs(Path("joint-release.csv"), Path("joint-report.html")))]
    return Draft(job, "\n".join(lines) + "\n", taxonomies, tuple(attributes))


def _identifiers(tables: Sequence[FileColumns]) -> list[str]:
    """Return each table's column that identifies people, with most people whom all tables have."""
    best: tuple[int, list[str]] = (0, [])
    for name, column in tables[0].profiles.items():
        if not _is_key(column):
            continue
        common, chosen = set(column.cells), [name]
        for other in tables[1:]:
            keys = [each for each in other.profiles.values() if _is_key(each)]
            match = max(keys, key=lambda each: (len(common & set(each.cells)), each.name == name), default=None)
            if match is None:
                break
            common &= set(match.cells)
            chosen.append(match.name)
        else:
            best = max(best, (len(common), chosen), key=lambda each: each[0])
    if not best[0]:
        raise AnswerIsNo(
            "the tables have no people in common: in each, a column must identify people, with values that occur in all"
        )
    return best[1]


def _is_key(column: Profile) -> bool:
    """Return whether each row has its own value, as an identifier must."""
    return column.present == column.codes.size == len(column.cells)


def _party_names(files: Sequence[TableFile]) -> list[str]:
    """Name the parties after their files."""
    names = list[str]()
    for at, file in enumerate(files, start=1):
        stem = re.sub(r"[^a-z0-9]+", "-", file.path.stem.lower()).strip("-") if file.path is not None else ""
        name = stem if stem and stem not in names else f"party-{at}"
        names.append(name)
    return names


def _head(job: Path) -> list[str]:
    return comment("Drafted by `masquerade init`. Look it through; it runs as it is: masquerade mashup " + job.name)
