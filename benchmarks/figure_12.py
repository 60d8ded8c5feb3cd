"""Figure 12: runtime over the number of records, with one QID of 14 attributes and with several QIDs.

Adult is blown up: each record gets variations with random values on random attributes. AllAttQID is one QID of all 14
attributes; MultiQID averages 30 random requirements of 3 to 7 QIDs, all of one length between 2 and 9. k = 50.
The paper takes 340 s for 200,000 records with AllAttQID.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import _adult
import masquerade as mq
from _blow_up import blow_up
from _figures import Durations, Figure, Say, Spent, duration, in_turn, save_chart, tell
from masquerade.privacy import Conjunction, Requirement, without_redundant
from masquerade.report.charts import Series, line_chart

SEED = 7
K = 50
RECORDS = (50_000, 100_000, 150_000, 200_000)
LARGE, LARGE_K = 800_000, 200
REQUIREMENTS = 30
REPEATS = 7
PAPER_SECONDS = 340.0
GOAL_SECONDS, GOAL_FACTOR = 0.5, 5


def run(say: Say, save: Path | None) -> dict[str, Any]:
    original, meaning = _adult.adult(), _adult.schema()
    tables = {n: mq.Table(blow_up(original, _adult.ALL14, n, SEED), meaning) for n in (*RECORDS, LARGE)}

    say(f"AllAttQID, k = {K}; {LARGE:,} records with k = {LARGE_K}")
    calls = {
        str(n): partial(_anonymize, table, mq.KAnonymity(_adult.ALL14, LARGE_K if n == LARGE else K))
        for n, table in tables.items()
    }
    single = {int(n): parts["anonymize"] for n, parts in in_turn(calls, REPEATS).items()}

    multi: dict[int, list[float]] = {}
    for n in RECORDS:
        say(f"MultiQID, k = {K}: {REQUIREMENTS} requirements on {n:,} records")
        multi[n] = [_anonymize(tables[n], requirement)["anonymize"] for requirement in random_requirements()]

    save_chart(save, "figure-12", _chart(single, multi))
    return {
        "figures": tell(say, _figures(single, multi)),
        "all_att_qid": {n: single[n].best for n in single},
        "multi_qid": {n: statistics.mean(seconds) for n, seconds in multi.items()},
    }


def _anonymize(table: mq.Table, requirement: Requirement) -> Durations:
    """Seconds from ranks to verified groups."""
    return mq.anonymize(table, requirement, mq.TopDownSpecialization(_adult.CLASS)).seconds


def random_requirements() -> Iterator[Requirement]:
    """MultiQID's requirements; a QID that is drawn twice counts once, so another is drawn."""
    random = np.random.default_rng(SEED)
    for _ in range(REQUIREMENTS):
        wanted, length = int(random.integers(3, 8)), int(random.integers(2, 10))
        parts: tuple[Any, ...] = ()
        while len(parts) < wanted:
            chosen = np.sort(random.choice(len(_adult.ALL14), length, replace=False))
            parts = without_redundant([*parts, mq.KAnonymity([_adult.ALL14[at] for at in chosen], K)])
        yield Conjunction(parts)


def _figures(single: dict[int, Spent], multi: dict[int, list[float]]) -> Iterator[Figure]:
    largest = RECORDS[-1]
    for n in RECORDS[:-1]:
        yield Figure(f"AllAttQID, {n:,} records", str(single[n]))
    best = single[largest].best
    yield Figure(
        f"AllAttQID, {largest:,} records",
        str(single[largest]),
        f"paper {PAPER_SECONDS:.0f} s",
        f"1/{PAPER_SECONDS / best:,.0f}",
        f"under {GOAL_SECONDS} s",
        best < GOAL_SECONDS,
    )
    factor = single[LARGE].best / best
    yield Figure(
        f"AllAttQID, {LARGE:,} records, k = {LARGE_K}",
        str(single[LARGE]),
        f"{largest:,} records {duration(best)}",
        f"{factor:.2f}",
        f"at most {GOAL_FACTOR} ×",
        factor <= GOAL_FACTOR,
    )
    for n, seconds in multi.items():
        yield Figure(
            f"MultiQID, {n:,} records",
            f"mean {duration(statistics.mean(seconds))} (most {duration(max(seconds))})",
            f"AllAttQID {duration(single[n].best)}",
            f"{statistics.mean(seconds) / single[n].best:.2f}",
        )


def _chart(single: dict[int, Spent], multi: dict[int, list[float]]) -> str:
    return line_chart(
        [
            Series("AllAttQID", [(n, single[n].best) for n in RECORDS]),
            Series("MultiQID, mean of 30", [(n, statistics.mean(seconds)) for n, seconds in multi.items()]),
        ],
        title="Runtime over the number of records",
        x_name="records",
        y_name="seconds from ranks to verified groups",
        from_zero=True,
    )
