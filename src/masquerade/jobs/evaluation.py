"""Measure the utility of a release against the table it came from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from masquerade import utility
from masquerade.data import Missing, Table
from masquerade.engine import Flags
from masquerade.errors import ParameterError, given
from masquerade.jobs.guessing import names_of
from masquerade.jobs.one_table import checked_requirement
from masquerade.privacy import Requirement
from masquerade.progress import OnStage, Stage, silent
from masquerade.risk import GroupCounts, Scene, attack

if TYPE_CHECKING:
    from masquerade.data import PartitionedFiles, Schema
    from masquerade.jobs.plan import Plan


# What looks at single rows needs all of them in one memory: of tables in chunks this is left out, or refused if asked
# for (`rows.py`). All else follows from counts.
BY_ROWS, BY_ROWS_AND_CLASS = ("query_error",), ("classification", "accuracy")


def evaluate(
    original: Any,
    release: Any,
    requirement: Requirement,
    target: str | None = None,
    *,
    sensitive: Iterable[str] = (),
    missing: Missing = "drop",
    queries: int = 2500,
    train: int | None = None,
    folds: int = 10,
    sources: Mapping[str, Sequence[str]] | None = None,
    workload: str | Path | None = None,
    predict: Iterable[str] = (),
    clusters: int = 0,
    seed: int = 7,
    on_stage: OnStage = silent,
) -> dict[str, Any]:
    """Return the metrics of a release whose row i is row i of the original's complete rows (`order="input"`).

    `metrics`; `weighted_overlap`; `attribute_losses`; `attribute_information`, the share of its
    information that each attribute keeps; `query_error` over this many random range `queries` (0 for
    none); and, with a class attribute `target`, `classification`: the errors BE, UE, IE, and SE for each source (a
    party's name and its attributes), of decision trees grown on the first `train` rows and tested on the rest, or
    without `train` cross-validated in `folds` parts (0 for none). With a file of SQL queries, `workload`, also
    `selection`: how exactly the release answers which records they mean. `accuracy` is that of naive Bayes and of the
    tree for the class, `prediction` the same for each attribute in `predict`; with `clusters`, so many of them are
    found in the release and judged by the original (`clustering`). Without the extra `mining` there are no decision
    trees: `left_out` names what is missing, and `note` says why. `attacks` says what an attacker gets, and who is most
    exposed. `sensitive` are the columns that the release was made with, whose missing cells count, too.
    """
    table = original if isinstance(original, Table) else Table(original)
    published = release if isinstance(release, Table) else Table(release)
    qid = checked_requirement(requirement).qid_attributes
    _check_numbers(
        queries=queries, folds=folds, seed=seed, clusters=clusters, **({} if train is None else {"train": train})
    )
    special = [name for name in requirement.special_columns if name not in requirement.provider_columns]
    published_too = names_of("sensitive", sensitive)
    used = [*table.schema.names, *([target] if target is not None else []), *special, *published_too]
    complete = table.complete(dict.fromkeys(used), missing)
    if train is not None and not 1 <= train < len(complete):
        raise ParameterError(
            f"The train parameter of evaluate must leave rows to test on: of {len(complete)} complete rows, "
            f"1 to {len(complete) - 1}. Got {train} instead."
        )
    comparison = utility.compare(complete, published, qid, target)
    utility.refuse_other_order(complete, published, (name for name in used if name not in qid))
    scene = Scene(published, complete.schema, tuple(qid), tuple(special), target, complete)
    asked = _Asked(queries, train, folds, sources, workload, names_of("predict", predict), clusters, seed, on_stage)
    return _figures(comparison, scene, complete.rows_read, complete.dropped_rows, asked)


def evaluate_files(
    original: PartitionedFiles,
    release: PartitionedFiles,
    plan: Plan,
    schema: Schema,
    workload: str | Path | None = None,
    on_stage: OnStage = silent,
) -> dict[str, Any]:
    """Return what `evaluate` tells of tables in many files, which an engine counts; `left_out` names the rest."""
    from masquerade.anonymize import read_release_back
    from masquerade.data import Wanted, partitioned_files, read_chunks
    from masquerade.jobs.model import DataSection
    from masquerade.jobs.rows import opened_engine

    requirement, target, data = plan.requirement, plan.job.roles.class_, plan.job.data or DataSection()
    qid = [name for name in schema.names if name in requirement.qid_attributes]
    special = [name for name in requirement.special_columns if name not in requirement.provider_columns]
    coded = tuple(dict.fromkeys([*([target] if target is not None else []), *special]))
    used = tuple(dict.fromkeys([*schema.names, *coded, *plan.published]))
    wanted = Wanted(schema, used, tuple(qid), coded, data.missing, tuple(data.missing_values))
    files = [partitioned_files(each.name, Path(), columns) for each, columns in ((original, used), (release, qid))]
    with opened_engine(plan.job.engine, plan.path) as engine:
        on_stage(Stage("reading"))
        engine.on_chunk = lambda done, total: on_stage(Stage("measuring", detail=f"{done} of {total} chunks"))
        records = read_chunks(files[0], wanted, engine)
        engine.check_files([str(path) for path in release.paths])
        unchanged = [name for name in used if name not in qid and name in release.columns]
        comparison = utility.Comparison.of(records, read_release_back(records, release, qid, unchanged), target)
        values = comparison.values_of_groups([records.coded[name] for name in coded], engine.summing_memory)
        counted = GroupCounts(comparison.group_sizes, values)
        shown = Table(pa.table({name: pa.array([], pa.string()) for name in (*qid, *coded)}))
        scene = Scene(shown, schema, tuple(qid), tuple(special), target, counted=counted)
        asked = _Asked(workload=workload, on_stage=on_stage)
        return _figures(comparison, scene, records.rows_read, records.dropped_rows, asked)


@dataclass(frozen=True)
class _Asked:
    """What is to be measured beside what every release is measured by."""

    queries: int = 0
    train: int | None = None
    folds: int = 0
    sources: Mapping[str, Sequence[str]] | None = None
    workload: str | Path | None = None
    predict: Sequence[str] = ()
    clusters: int = 0
    seed: int = 7
    on_stage: OnStage = silent


def _figures(comparison: utility.Comparison, scene: Scene, rows: int, dropped: int, asked: _Asked) -> dict[str, Any]:
    """Return what counts tell, and what single rows do if the scene has those of the original."""
    on_stage, original = asked.on_stage, scene.original
    on_stage(Stage("measuring"))
    losses = utility.losses_of(comparison)
    summary: dict[str, Any] = {
        "rows": rows,
        "dropped_rows": dropped,
        "released": comparison.released_rows,
        "groups": int(comparison.group_sizes.size),
        "metrics": utility.measure(comparison, losses),
        "weighted_overlap": utility.weighted_overlap(comparison),
        "attribute_losses": utility.certainty_losses(losses),
        "attribute_information": utility.information_kept(losses),
    }
    on_stage(Stage("attacking"))
    summary["attacks"] = [finding.summary() for finding in attack(scene)]
    if original is not None and asked.queries:
        from masquerade.utility import query_error

        on_stage(Stage(f"asking {asked.queries} queries"))
        summary["query_error"] = query_error(comparison, asked.queries, asked.seed).summary()
    if asked.workload is not None:
        from masquerade.data import kept_query_log
        from masquerade.utility import selections

        on_stage(Stage("asking the workload"))
        log = kept_query_log(asked.workload)
        summary["selection"] = selections(comparison, original, log).summary()
    if original is None:
        summary["left_out"] = [*BY_ROWS, *(BY_ROWS_AND_CLASS if scene.target is not None else ())]
        return summary
    return summary | _mined(comparison, original, scene.target, asked)


def _mined(comparison: utility.Comparison, table: Table, target: str | None, asked: _Asked) -> dict[str, Any]:
    """Return what is learned from the release and judged by the original."""
    on_stage, folds, seed = asked.on_stage, asked.folds, asked.seed
    mask = None if asked.train is None else np.arange(len(table)) < asked.train
    found: dict[str, Any] = {}
    if target is not None and (asked.train is not None or folds > 0):
        from masquerade.utility import NEEDS_EXTRA, accuracies, classification_errors, has_sklearn

        on_stage(Stage("growing decision trees"))
        if has_sklearn():
            found["classification"] = classification_errors(
                table, comparison, train=mask, folds=folds, seed=seed, sources=asked.sources or None
            )
        else:
            found |= {"left_out": ["classification"], "note": NEEDS_EXTRA}
        found["accuracy"] = accuracies(table, target, comparison.released, train=mask, folds=folds, seed=seed)
    if asked.predict:
        on_stage(Stage("predicting"))
        found["prediction"] = {
            name: _prediction(table, comparison, name, mask, folds or 10, seed) for name in asked.predict
        }
    if asked.clusters:
        from masquerade.utility import clustering

        on_stage(Stage("finding clusters"))
        found["clustering"] = clustering(table, comparison.released, asked.clusters, seed)
    return found


def _prediction(
    table: Table, comparison: utility.Comparison, name: str, train: Flags | None, folds: int, seed: int
) -> dict[str, Any]:
    """Measure how well the other attributes predict one, in the original and as released."""
    from masquerade.utility import accuracies, prediction_task

    task = prediction_task(table, name)
    others = [column for column in comparison.released if column.name != name]
    return accuracies(task, name, others, train=train, folds=folds, seed=seed)


def _check_numbers(**numbers: object) -> None:
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 0:
            raise ParameterError(
                f"The {name} parameter of evaluate must be a whole number of at least 0. Got {given(number)} instead."
            )
