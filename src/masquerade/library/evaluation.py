"""Measure the utility of a release against the table it came from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from masquerade.data.table import Missing, Table
from masquerade.errors import ParameterError, given
from masquerade.library.column_names import names_of
from masquerade.library.python_api import checked_requirement
from masquerade.net.progress import OnStage, Stage, silent
from masquerade.privacy.requirement import Requirement
from masquerade.risk.attacks.attack import Scene
from masquerade.risk.attacks.registry import attack
from masquerade.utility.comparison import Comparison, compare, refuse_other_order
from masquerade.utility.losses import certainty_losses, information_kept, losses_of
from masquerade.utility.metrics import measure, weighted_overlap


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
        queries=queries,
        folds=folds,
        seed=seed,
        clusters=clusters,
        **({} if train is None else {"train": train}),
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
    comparison = compare(complete, published, qid, target)
    refuse_other_order(complete, published, (name for name in used if name not in qid))

    on_stage(Stage("measuring"))
    losses = losses_of(comparison)
    summary: dict[str, Any] = {
        "rows": complete.rows_read,
        "dropped_rows": complete.dropped_rows,
        "released": len(published),
        "groups": int(comparison.group_sizes.size),
        "metrics": measure(comparison, losses),
        "weighted_overlap": weighted_overlap(comparison),
        "attribute_losses": certainty_losses(losses),
        "attribute_information": information_kept(losses),
    }
    on_stage(Stage("attacking"))
    scene = Scene(published, complete.schema, tuple(qid), tuple(special), target, complete)
    summary["attacks"] = [finding.summary() for finding in attack(scene)]
    if queries:
        from masquerade.utility.queries import query_error

        on_stage(Stage(f"asking {queries} queries"))
        summary["query_error"] = query_error(comparison, queries, seed).summary()
    if workload is not None:
        from masquerade.data.query_log import kept_query_log
        from masquerade.utility.workload import SelectionMeasurer

        on_stage(Stage("asking the workload"))
        measured = SelectionMeasurer(complete, kept_query_log(workload)).measure(comparison)
        summary["selection"] = measured.summary()
    if target is not None and (train is not None or folds):
        from masquerade.utility.accuracy import accuracies
        from masquerade.utility.classification import NEEDS_EXTRA, classification_errors, has_sklearn

        on_stage(Stage("growing decision trees"))
        mask = None if train is None else np.arange(len(complete)) < train
        if has_sklearn():
            summary["classification"] = classification_errors(
                complete, comparison, train=mask, folds=folds, seed=seed, sources=sources or None
            )
        else:
            summary["left_out"] = ["classification"]
            summary["note"] = NEEDS_EXTRA
        summary["accuracy"] = accuracies(
            complete, target, comparison.released, train=mask, folds=folds, seed=seed
        )
    if predicted := names_of("predict", predict):
        on_stage(Stage("predicting"))
        summary["prediction"] = {
            name: _prediction(complete, comparison, name, train, folds or 10, seed) for name in predicted
        }
    if clusters:
        from masquerade.utility.clustering import clustering

        on_stage(Stage("finding clusters"))
        summary["clustering"] = clustering(complete, comparison.released, clusters, seed)
    return summary


def _prediction(
    table: Table, comparison: Comparison, name: str, train: int | None, folds: int, seed: int
) -> dict[str, Any]:
    """Measure how well the other attributes predict one, in the original and as released."""
    from masquerade.utility.accuracy import accuracies, prediction_task

    task = prediction_task(table, name)
    others = [column for column in comparison.released if column.name != name]
    mask = None if train is None else np.arange(len(table)) < train
    return accuracies(task, name, others, train=mask, folds=folds, seed=seed)


def _check_numbers(**numbers: object) -> None:
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 0:
            raise ParameterError(
                f"The {name} parameter of evaluate must be a whole number of at least 0. "
                f"Got {given(number)} instead."
            )
