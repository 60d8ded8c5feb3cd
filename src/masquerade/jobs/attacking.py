"""What an attacker gets from a release; see `masquerade.risk.attacks`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from masquerade.anonymize import VerifiedRelease
from masquerade.arrangement import PROVIDER
from masquerade.data import PartitionedFiles, Schema, Table, TableFile, chosen, database_scheme, partitioned_files
from masquerade.errors import ParameterError
from masquerade.jobs.guessing import names_of
from masquerade.jobs.model import DataSection
from masquerade.jobs.one_table import checked_requirement, table_of_release
from masquerade.privacy import Conjunction, MPrivateGroups, Requirement
from masquerade.risk import Finding, GroupCounts, Scene, attack as play

if TYPE_CHECKING:  # a release at hand needs no job
    from masquerade.jobs.plan import Plan


def attack(
    release: Any,
    requirement: Requirement | None = None,
    *,
    schema: Schema | None = None,
    sensitive: Iterable[str] = (),
    target: str | None = None,
    original: Any = None,
    outside: Any = None,
    earlier: Sequence[Any] = (),
    provider: str | None = None,
    population: int | None = None,
) -> list[Finding]:
    """Play every attack on a release for which there is what it needs, over the attributes of the requirement's QIDs.

    A `Release` knows its requirements, its taxonomies, its class and its sensitive columns; of a table, say them.
    `schema` says what generalised cells cover; by default it is that of the original, the outside table or the release.
    `target` is the class, which a group may tell as it may tell a sensitive value. `outside` is a table of people that
    shares columns, `earlier` are other releases of the same table, `provider` is the release's column that names
    providers, `population` the number of people of whom the release is a sample. With the `original`, findings name its
    most exposed rows.
    """
    protected = names_of("sensitive", sensitive)
    if isinstance(release, VerifiedRelease):
        if release.table.num_rows < release.released:  # a release in many files
            text = "of this release some rows are in memory alone; attack_job plays on the files of all of them"
            raise ParameterError(text)
        if requirement is None:
            requirement = Conjunction(verdict.requirement for verdict in release.verdicts)
        protected = tuple(dict.fromkeys([*protected, *release.sensitive]))
        target = release.settings.get("class") if target is None else target
        if schema is None and not isinstance(original, Table):
            schema = table_of_release(release).schema
    asked = checked_requirement(requirement, protected)
    tables = [_table(each) for each in (original, outside, release) if each is not None]
    return play(
        _scene(
            tables[-1],
            schema if schema is not None else tables[0].schema,
            asked,
            protected,
            target,
            original=None if original is None else _table(original),
            outside=None if outside is None else _table(outside),
            earlier=tuple(map(_table, earlier)),
            provider=provider,
            population=population,
        )
    )


def attack_job(
    release: str | Path,
    job: str | Path,
    *,
    original: str | Path | None = None,
    outside: str | Path | None = None,
    earlier: Sequence[str | Path] = (),
    population: int | None = None,
) -> list[Finding]:
    """Play every attack on a job's release; see `attack`.

    Of a release in many files that exceed the memory of the job's engine, those that need no other table are played, by
    counts of its groups.
    """
    from masquerade.jobs.plan import Plan
    from masquerade.jobs.rows import beyond_memory, refuse_rows
    from masquerade.jobs.run import as_released

    plan = Plan(Path(job))
    schema = plan.schema()
    plan.settle()
    data = plan.job.data or DataSection()
    class_ = plan.job.roles.class_
    sensitive = tuple(name for name in plan.published if name != class_ or name in plan.job.roles.sensitive)
    if (large := beyond_memory(plan, str(release))) is not None:
        refuse_rows("attack", original=original, outside=outside, earlier=earlier)
        return play(_scene_of_files(large[0], plan, schema, sensitive, population))

    def read(source: str | Path) -> Table:
        found = as_released(TableFile(str(source), encoding="utf-8").read(), plan)
        return Table(found.table, schema, origin=found.origin)

    def read_raw(file: TableFile) -> Table:
        """Read a table of raw cells, and leave out or keep rows that lack one, as the job does."""
        found = file.read()
        origin = replace(found.origin, missing_values=tuple(data.missing_values))
        table = Table(found.table, schema, origin=origin)
        held = [each for each in plan.requirement.qid_attributes if each in found.all_columns]
        return table.complete(held, data.missing)

    own = None
    if original is not None:
        query = data.query if database_scheme(str(original)) is not None else None
        own = TableFile(str(original), query, data.separator, data.encoding)
    return play(
        _scene(
            read(release),
            schema,
            plan.requirement,
            sensitive,
            class_,
            original=None if own is None else read_raw(own),
            outside=None if outside is None else read_raw(TableFile(str(outside))),
            earlier=tuple(map(read, earlier)),
            provider=plan.provider,
            population=population,
        )
    )


def _scene_of_files(
    files: PartitionedFiles, plan: Plan, schema: Schema, sensitive: Sequence[str], population: int | None
) -> Scene:
    """Return the scene of a release that stays in its files, of which the groups are counted on the job's engine."""
    from masquerade.data import rows_of_chunks
    from masquerade.jobs.rows import opened_engine
    from masquerade.privacy import count_groups

    qid = plan.requirement.qid_attributes
    partitioned_files(files.name, Path(), qid)  # that is, it has these
    empty = Table(pa.table({name: pa.array([], pa.string()) for name in files.columns}), schema)
    target = plan.job.roles.class_
    scene = _scene(empty, schema, plan.requirement, sensitive, target, provider=plan.provider, population=population)
    named = [*scene.learnable, *([scene.provider] if scene.provider is not None else [])]
    with opened_engine(plan.job.engine, plan.path) as engine:
        engine.check_files([str(path) for path in files.paths])
        parts = files.parts(rows_of_chunks(files, len(qid) + len(named), engine))
        counted = count_groups(engine, parts, qid, [name for name in named if name in files.columns])
    return replace(scene, counted=GroupCounts(*counted))


def _scene(
    release: Table,
    schema: Schema,
    requirement: Requirement,
    sensitive: Sequence[str],
    target: str | None,
    *,
    provider: str | None,
    **held: Any,
) -> Scene:
    named = [each for each in (*requirement.provider_columns, provider, PROVIDER) if each is not None]
    columns = release.arrow.column_names
    chosen(release.origin.name, columns, requirement.qid_attributes)  # that is, it has these
    looked_at = [name for name in requirement.special_columns if name not in requirement.provider_columns]
    wrapped = [part.m for part in requirement.parts if isinstance(part, MPrivateGroups)]
    return Scene(
        release,
        schema,
        tuple(requirement.qid_attributes),
        tuple(name for name in dict.fromkeys([*sensitive, *looked_at]) if name not in named),
        target,
        provider=next((name for name in named if name in columns), None),
        colluding=max([1, *wrapped]),
        **held,
    )


def _table(frame: Any) -> Table:
    if isinstance(frame, VerifiedRelease):
        return table_of_release(frame)
    return frame if isinstance(frame, Table) else Table(frame)
