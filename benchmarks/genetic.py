"""Figure 9 of the data-integration paper: classification error beside Iyengar's genetic algorithm, by LM and by CM.

Adult's 30,162 training records with Iyengar's eight attributes, all of them in the QID, 10-fold cross-validation. The
rival is run here, too, with as many evaluations as `evaluations` says; the paper quotes his results (18 hours each).
Times are of the processor. Two parties, processes over TLS, run Algorithm 1 as well: they make the same steps, so IE is
theirs, too; their time is the protocol's.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import _adult
import mashup
import masquerade as mq
from _figures import Figure, Say, duration, save_chart, tell
from _genetic import Search
from masquerade.data import Outcome
from masquerade.jobs import mashup_job
from masquerade.report.charts import Reference, Series, line_chart
from masquerade.utility.classification import Classification

QID = (*("age", "workclass", "education", "marital-status"), *("occupation", "race", "sex", "native-country"))
KS = (10, 50, 200)
EVALUATIONS = 1500  # of a search
FOLDS, SEED = 10, 7
OURS, LM, CM = "Algorithm 1", "genetic, LM", "genetic, CM"

Found = dict[str, dict[int, tuple[float, float, int]]]  # by method and k: IE in percent, seconds, suppressed


def run(say: Say, save: Path | None) -> dict[str, Any]:
    training = _adult.adult().select([*QID, _adult.CLASS]).slice(0, _adult.TRAINING_RECORDS)
    table = mq.Table(pa.table(training), _adult.schema(QID))
    task = Classification(table, _adult.CLASS, folds=FOLDS, seed=SEED)
    base = 100 * task.base_error
    columns, classes = table.columns(QID), table.coded(_adult.CLASS)
    found: Found = {OURS: {}, LM: {}, CM: {}}
    parties = dict(_parties(training, table))
    for k in KS:
        runs = {
            OURS: lambda k=k: mq.TopDownSpecialization(_adult.CLASS).run_on_table(table, mq.KAnonymity(QID, k)),
            LM: lambda k=k: Search(columns, classes, k, "loss", SEED).run(EVALUATIONS),
            CM: lambda k=k: Search(columns, classes, k, "classification", SEED).run(EVALUATIONS),
        }
        for name, make in runs.items():
            started = time.process_time()
            outcome: Outcome = make()
            seconds = time.process_time() - started
            left_out = 0 if outcome.kept is None else len(table) - outcome.kept.size
            error = 100 * task.integration_error(outcome.columns, outcome.kept)
            found[name][k] = (error, seconds, left_out)
            say(f"k = {k}, {name}: IE {error:.1f} %, {duration(seconds)}, {left_out:,} records left out")
    save_chart(save, "genetic", _chart(found, base))
    figures = [Figure("BE of the eight attributes", f"{base:.1f} %"), *_figures(found)]
    figures += [
        Figure(f"k = {k}: protocol of two parties, the same {steps} steps", duration(seconds))
        for k, (steps, seconds) in parties.items()
    ]
    return {"figures": tell(say, figures), "BE": base, "found": found}


def _parties(training: pa.Table, table: mq.Table) -> Iterator[tuple[int, tuple[int, float]]]:
    """By k, the steps of two parties, which are those of one table, and the seconds of their protocol."""
    split = {name: [each for each in own if each in QID] for name, own in mashup.PAPER.items()}
    with tempfile.TemporaryDirectory() as folder:
        joined = _adult.write_csv(training, Path(folder) / "adult.csv")
        mashup._write_tables(training, Path(folder), split)
        for k in KS:
            alone = mq.TopDownSpecialization(_adult.CLASS).run_on_table(table, mq.KAnonymity(QID, k))
            made = mashup_job(mashup._job(Path(folder), joined, QID, k, split, "plain", QID)).release
            assert [step.value for step in made.steps] == [step.value for step in alone.steps]
            yield k, (len(made.steps), made.seconds["protocol"])


def _figures(found: Found) -> Iterator[Figure]:
    for k in KS:
        ours, seconds, _ = found[OURS][k]
        for rival in (LM, CM):
            error, took, left_out = found[rival][k]
            below = rival == LM  # the paper: clearly below LM, and comparable to CM
            yield Figure(
                f"k = {k}: IE of Algorithm 1 beside {rival}",
                f"{ours:.1f} %",
                f"{error:.1f} % ({left_out:,} records left out)",
                f"{ours - error:+.1f}; time 1/{took / max(seconds, 1e-4):,.0f}",
                "below" if below else "at most 1 above",
                ours < error if below else ours <= error + 1,
            )


def _chart(found: Found, base: float) -> str:
    return line_chart(
        [Series(name, [(k, of[0]) for k, of in by_k.items()]) for name, by_k in found.items()],
        title="Figure 9: classification error beside Iyengar's genetic algorithm",
        x_name="k",
        y_name="IE, percent",
        x_scale="log",
        references=[Reference(base, "BE, raw records")],
        write="{:.1f} %".format,
    )
