"""Measure a release in many files against a table in many files, neither of which fits the memory, by counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from masquerade.anonymize.chunked.counting import CountedComparison, values_of_groups
from masquerade.anonymize.chunked.measuring import selections
from masquerade.anonymize.chunked.read_back import read_release_back
from masquerade.data.file_kinds import is_parted
from masquerade.data.parquet_parts import PartedFiles, parted_files
from masquerade.data.records import Wanted, read_chunks
from masquerade.data.schema import Schema
from masquerade.data.table import Table
from masquerade.engine.memory_size import read_size
from masquerade.errors import ParameterError
from masquerade.job.model import DEFAULT_MEMORY, DataSection, EngineSection
from masquerade.job.plan import Plan
from masquerade.library.chunked_jobs import in_memory, opened_engine
from masquerade.net.progress import OnStage, Stage, silent
from masquerade.risk.attacks.attack import GroupCounts, Scene
from masquerade.risk.attacks.registry import attack
from masquerade.utility.losses import certainty_losses, information_kept, losses_of
from masquerade.utility.metrics import measure, weighted_overlap


def beyond_memory(plan: Plan, *sources: str) -> tuple[PartedFiles, ...] | None:
    """Return the files of tables in many files that are larger than the memory of the job's engine; else None."""
    engine = plan.job.engine or EngineSection()
    if not all(is_parted(source, Path()) for source in sources):
        return None
    files = tuple(parted_files(source, Path()) for source in sources)
    most = engine.memory_bytes if engine.name == "local" else read_size(DEFAULT_MEMORY)
    return files if sum(map(in_memory, files)) > most else None


def refuse_whole(function: str, **asked: Any) -> None:
    """Refuse what somebody asked for that needs the tables in one memory."""
    for name, value in asked.items():
        if value:
            raise ParameterError(
                f"The {name} parameter of {function} needs all rows in one memory, and these are larger than "
                "[engine] memory; leave it out, or take some of the files"
            )


def evaluate_chunks(
    original: PartedFiles,
    release: PartedFiles,
    plan: Plan,
    schema: Schema,
    workload: str | None = None,
    on_stage: OnStage = silent,
) -> dict[str, Any]:
    """Return what `evaluate` tells, as far as counts do; `left_out` names the rest."""
    requirement, target, data = plan.requirement, plan.job.roles.class_, plan.job.data or DataSection()
    qid = [name for name in schema.names if name in requirement.qid_attributes]
    special = [name for name in requirement.special_columns if name not in requirement.provider_columns]
    coded = tuple(dict.fromkeys([*([target] if target is not None else []), *special]))
    used = tuple(dict.fromkeys([*schema.names, *coded, *plan.published]))
    wanted = Wanted(schema, used, tuple(qid), coded, data.missing, tuple(data.missing_values))
    files = [parted_files(each.name, Path(), columns) for each, columns in ((original, used), (release, qid))]
    with opened_engine(plan.job.engine, plan) as engine:
        on_stage(Stage("reading"))
        engine.on_chunk = lambda done, total: on_stage(Stage("measuring", detail=f"{done} of {total} chunks"))
        table = read_chunks(files[0], wanted, engine)
        engine.check_files([str(path) for path in release.paths])
        outcome = read_release_back(
            table, release, qid, [name for name in used if name not in qid and name in release.columns]
        )
        comparison = CountedComparison.of(table, outcome, target)
        losses = losses_of(comparison)
        summary: dict[str, Any] = {
            "rows": table.rows_read,
            "dropped_rows": table.dropped_rows,
            "released": comparison.released_rows,
            "groups": int(comparison.group_sizes.size),
            "metrics": measure(comparison, losses),
            "weighted_overlap": weighted_overlap(comparison),
            "attribute_losses": certainty_losses(losses),
            "attribute_information": information_kept(losses),
        }
        on_stage(Stage("attacking"))
        values = values_of_groups(table, outcome, coded, int(comparison.group_sizes.size))
        counted = GroupCounts(comparison.group_sizes, values)
        shown = Table(pa.table({name: pa.array([], pa.string()) for name in (*qid, *coded)}))
        scene = Scene(shown, schema, tuple(qid), tuple(special), target, counted=counted)
        summary["attacks"] = [finding.summary() for finding in attack(scene)]
        if workload is not None:
            on_stage(Stage("asking the workload"))
            summary["selection"] = selections(table, outcome, workload).summary()
    summary["left_out"] = ["query_error", *(["classification", "accuracy"] if target is not None else [])]
    return summary
