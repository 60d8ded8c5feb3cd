"""Classification error of releases (IE) by each score over k, for Top5, Top7 and Top9, beside the paper's figures.

The scores are those of top-down specialization; beside them, Mondrian with cuts chosen by information about the class.

A pruned entropy tree learns from the released records of adult.data and is tested on those of adult.test. BE is its
error on raw records, UE without the attributes of the QID.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import _adult
import masquerade as mq
from _figures import Figure, Say, save_chart, tell
from masquerade.anonymize import TableMethod
from masquerade.report.charts import Reference, Series, line_chart
from masquerade.utility.classification import Classification

KS = (20, 40, 60, 80, 100, 140, 180, 200, 300, 400, 600, 800, 1000)
METHODS: dict[str, TableMethod] = {
    **{
        score: mq.TopDownSpecialization(_adult.CLASS, score)
        for score in ("gain-ratio", "info-gain", "info-gain-per-anonymity-loss")
    },
    "mondrian, class-first": mq.Mondrian(_adult.CLASS, "class-first"),
    "mondrian, information-gain": mq.Mondrian(_adult.CLASS, "information-gain"),
}
GOAL = ("Top9", 100, 15.5)  # of Mondrian: the QID, k, percent
QIDS = {"Top5": _adult.TOP5, "Top7": _adult.TOP7, "Top9": _adult.TOP9}
PAPER_BE = 14.7
PAPER_UE = {"Top5": 20.4, "Top7": 21.5, "Top9": 22.4}
# What the paper's text says of IE: from this k to that one, percent, and in which words.
PAPER_IE = {
    "Top5": [(20, 180, 14.8, "14.8 %")],
    "Top7": [(20, 180, 15.7, "below 15.7 %"), (200, 200, 15.7, "below 15.7 %")],
    "Top9": [(80, 1000, 17.6, "above 17.6 %")],
}

Errors = dict[str, dict[int, float]]  # by score or method and k, in percent


def run(say: Say, save: Path | None) -> dict[str, Any]:
    table = mq.Table(_adult.adult(), _adult.schema())
    task = Classification(table, _adult.CLASS, train=np.arange(len(table)) < _adult.TRAINING_RECORDS)
    base = 100 * task.base_error
    figures = [Figure("BE", _percent(base), f"paper {PAPER_BE} %", f"{base - PAPER_BE:+.1f}")]
    results: dict[str, Any] = {"BE": base}
    for name, qid in QIDS.items():
        upper = 100 * task.upper_bound_error(qid)
        errors = {way: {k: _error(task, table, qid, k, method) for k in KS} for way, method in METHODS.items()}
        _say_errors(say, name, errors)
        save_chart(save, f"scores-{name.lower()}", _chart(name, errors, base, upper))
        figures += _figures(name, errors, upper)
        results[name] = {"UE": upper, "IE": errors}
    return {"figures": tell(say, figures), **results}


def _error(task: Classification, table: mq.Table, qid: tuple[str, ...], k: int, method: TableMethod) -> float:
    release = mq.anonymize(table, mq.KAnonymity(qid, k), method)
    return 100 * task.integration_error(release.columns)


def _say_errors(say: Say, name: str, errors: Errors) -> None:
    say(f"IE, {name}".ljust(30) + "".join(f"{k:>6}" for k in KS))
    for score, by_k in errors.items():
        say(f"{score:30}" + "".join(f"{by_k[k]:6.1f}" for k in KS))
    say("")


def _figures(name: str, errors: Errors, upper: float) -> Iterator[Figure]:
    yield Figure(f"UE, {name}", _percent(upper), f"paper {PAPER_UE[name]} %", f"{upper - PAPER_UE[name]:+.1f}")
    for first, last, paper, wording in PAPER_IE[name]:
        for score, by_k in errors.items():
            found = [by_k[k] for k in KS if first <= k <= last]
            measured = " … ".join(dict.fromkeys(map(_percent, (min(found), max(found)))))
            span = f"k = {first}" if first == last else f"k = {first}…{last}"
            yield Figure(f"IE, {name}, {span}, {score}", measured, f"paper {wording}", f"{max(found) - paper:+.1f}")
    qid, k, most = GOAL
    if name == qid:
        way = "mondrian, information-gain"
        reached, rival = errors[way][k], errors["gain-ratio"][k]
        yield Figure(
            f"IE, {name}, k = {k}, {way}",
            _percent(reached),
            f"tds {_percent(rival)}",
            f"{reached / rival:.2f}",
            f"at most {most} %",
            reached <= most,
        )


def _percent(error: float) -> str:
    return f"{error:.1f} %"


def _chart(name: str, errors: Errors, base: float, upper: float) -> str:
    spoken = {k: level for first, last, level, _ in PAPER_IE[name] for k in (first, last)}
    return line_chart(
        [
            *(Series(score, list(by_k.items())) for score, by_k in errors.items()),
            Series(f"the paper: {PAPER_IE[name][0][-1]}", list(spoken.items())),
        ],
        title=f"Classification error of releases, {name}",
        x_name="k",
        y_name="IE, percent",
        x_scale="log",
        references=[Reference(base, "BE, raw records"), Reference(upper, "UE, without the QID")],
        write=_percent,
    )
