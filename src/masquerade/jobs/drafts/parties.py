"""Draft the mashup of several tables, each another party's: the same people, or the same columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from masquerade.data import TableFile
from masquerade.errors import AnswerIsNo, ParameterError
from masquerade.jobs.drafts.draft import (
    Draft,
    FileColumns,
    attribute_lines,
    attribute_text,
    comment,
    data_lines,
    diversity_lines,
    kept_rows,
    key,
    listed,
    look_at_file,
    nothing_left,
    output_lines,
    privacy_lines,
    profiles_of,
    quoted,
    roles_lines,
    told,
)
from masquerade.jobs.drafts.profile import Profile
from masquerade.jobs.drafts.roles import propose_roles
from masquerade.jobs.outputs import Outputs
from masquerade.progress import OnStage, Stage, silent


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
            lines += [*attribute_lines(table, name, section), ""]
            attributes.append(told(table, name, section))
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
