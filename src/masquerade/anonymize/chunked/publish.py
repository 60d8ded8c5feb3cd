"""Make a verified release of a table in chunks: run the method, write the files, count them again, measure them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from masquerade.anonymize.chunked.checking import count_release
from masquerade.anonymize.chunked.shared_people import shared_people_of_chunks
from masquerade.anonymize.chunked.writing import (
    WrittenFile,
    digest_of,
    remove_withheld,
    sample_of,
    write_release,
)
from masquerade.anonymize.method import TableMethod
from masquerade.anonymize.outcome import OnStep
from masquerade.anonymize.release import Provenance, Release
from masquerade.anonymize.sensitive_values import counts_before
from masquerade.anonymize.workload_key import WORKLOAD
from masquerade.data.column import Coded
from masquerade.data.query_log import kept_query_log
from masquerade.data.records import Records, Wanted
from masquerade.data.schema import Schema
from masquerade.data.table import Missing
from masquerade.engine.counts import Counts
from masquerade.errors import Bug
from masquerade.net.progress import OnStage, Stage, silent
from masquerade.privacy.boundary_check import with_violations
from masquerade.privacy.requirement import Requirement
from masquerade.utility.comparison import Comparison, codes_of_groups
from masquerade.utility.measures import Measurer


def published_columns(
    schema: Schema, requirement: Requirement, target: str | None, sensitive: Sequence[str]
) -> tuple[str, ...]:
    """Return the columns of the release: the attributes, the class, the sensitive ones; no provider unless named."""
    named = [*schema.names, *([target] if target is not None else []), *sensitive]
    looked_at = [name for name in requirement.special_columns if name not in requirement.provider_columns]
    return tuple(dict.fromkeys([*named, *looked_at]))


def wanted_of(
    schema: Schema,
    requirement: Requirement,
    target: str | None,
    sensitive: Sequence[str],
    missing: Missing,
    missing_values: Sequence[str],
) -> Wanted:
    """Return what a method and the metrics need to know of each row."""
    special = [*([target] if target is not None else []), *sensitive, *requirement.special_columns]
    return Wanted(
        schema,
        tuple(dict.fromkeys([*schema.names, *special])),
        tuple(name for name in schema.names if name in requirement.qid_attributes),
        tuple(dict.fromkeys(special)),
        missing,
        tuple(missing_values),
        requirement.provider_columns,
    )


def publish_chunks(
    table: Records,
    requirement: Requirement,
    algorithm: TableMethod,
    folder: Path,
    *,
    sensitive: Sequence[str] = (),
    shuffle: bool = True,
    missing_values: Sequence[str],
    identifier: str | None = None,
    provenance: Provenance,
    on_step: OnStep | None = None,
    on_stage: OnStage = silent,
) -> tuple[Release, str]:
    """Anonymise a table in chunks into files of a folder, which the caller puts into its place.

    `identifier` is a column of the source that tells people apart, for those whom several providers have. Return the
    release, which holds some of its rows, and the digest of the files. Nothing is returned unless the files pass the
    independent check.
    """
    started = time.perf_counter()
    on_stage(Stage("anonymising"))
    algorithm = algorithm.in_chunks()
    everybody = table
    made = algorithm.run(table, requirement, on_step)
    table, outcome = made.beside(table)
    cut = time.perf_counter()
    on_stage(Stage("writing"))
    published = published_columns(table.schema, requirement, algorithm.target, sensitive)
    files = write_release(
        table,
        outcome,
        published,
        folder,
        shuffle=shuffle,
        missing_values=missing_values,
        withheld=[name for name in requirement.provider_columns if name not in published],
    )
    written = time.perf_counter()
    on_stage(Stage("verifying"))
    # The method has bound the requirement to the whole table; a release may lack some of its values.
    verdicts = count_release(table.engine, files, requirement, table.name)
    remove_withheld(files)
    comparison = Comparison.of(everybody, made, algorithm.target)
    if any(part.within_boundaries for part in requirement.parts):
        verdicts = with_violations(verdicts, comparison.violations, table.name)
    if not all(verdict.holds for verdict in verdicts):
        raise Bug(f"{algorithm.name} made a release that its requirement refuses; nothing was written")
    verified = time.perf_counter()
    on_stage(Stage("measuring"))
    provider = next(iter(requirement.provider_columns), None)
    _check_rows(files, comparison)
    secret = [name for name in sensitive if name not in (algorithm.target, *requirement.provider_columns)]
    after = [table.coded[name] for name in dict.fromkeys([*secret, *_protected(requirement)])]
    shown = [name for name in (*secret, *requirement.special_columns, algorithm.target) if name in published]
    workload = getattr(algorithm, WORKLOAD, None)
    measurer = Measurer(None, workload=kept_query_log(workload) if workload is not None else None)
    release = provenance.kind.measured(
        sample_of(files),
        verdicts,
        comparison,
        providers=table.coded[provider] if provider is not None else None,
        steps=outcome.steps,
        choice=outcome.choice,
        purpose=measurer.purpose(comparison),
        rows=table.rows_read,
        dropped_rows=table.dropped_rows,
        dropped=provenance.dropped or (),
        settings={
            "source": table.name,
            "algorithm": algorithm.settings(),
            "class": algorithm.target,
            **provenance.settings,
        },
        sensitive=secret,
        seconds={
            "read": provenance.read_seconds,
            "anonymize": cut - started,
            "write": written - cut,
            "verify": verified - written,
        },
        released_rows=comparison.released_rows,
        values_after=_counted(after, comparison.value_counts(after)),
        sensitive_before=counts_before(everybody, comparison, requirement, [each.name for each in after]),
        shared=(
            shared_people_of_chunks(table, identifier, provider, missing_values)
            if identifier is not None and provider is not None
            else None
        ),
        group_codes=codes_of_groups(table, outcome),
        group_values=comparison.values_of_groups(
            [table.coded[name] for name in dict.fromkeys(shown)], table.engine.summing_memory
        ),
    )
    release.seconds["metrics"] = time.perf_counter() - verified
    return release, digest_of(files)


def _check_rows(files: Sequence[WrittenFile], comparison: Comparison) -> None:
    """Raise unless the files hold every released row once: workers may have come and gone."""
    if sum(each.rows for each in files) != comparison.released_rows:
        raise Bug("the files do not hold the rows that were counted; nothing was written")


def _counted(columns: Sequence[Coded], counts: Sequence[Counts]) -> dict[str, dict[str, int]]:
    """Return how many rows have each value that some have."""
    return {
        each.name: {label: n for label, n in zip(each.labels, rows.tolist(), strict=True) if n}
        for each, rows in zip(columns, counts, strict=True)
    }


def _protected(requirement: Requirement) -> list[str]:
    return [name for name in requirement.special_columns if name not in requirement.provider_columns]
