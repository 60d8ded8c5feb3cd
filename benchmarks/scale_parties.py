"""Figure 12 with parties: runtime of Algorithm 1 between two processes over TLS, over the number of records.

Adult is blown up as in `scale`, and split as the paper does (immigration and taxation department). AllAttQID is one QID
of all 14 attributes; of MultiQID's 30 random requirements the first few are run. k = 50. Time is the protocol's, as the
paper's: without reading, writing and aligning. The paper takes 340 s for 200,000 records with AllAttQID.
"""

from __future__ import annotations

import statistics
import tempfile
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

import _adult
import mashup
import masquerade as mq
from _blow_up import blow_up
from _figures import Figure, Say, duration, save_chart, tell
from figure_12 import PAPER_SECONDS, SEED, K, random_requirements
from masquerade.jobs import mashup_job
from masquerade.privacy import Requirement
from masquerade.report.charts import Series, line_chart

PAPER_RECORDS = MOST = 200_000  # also run are a quarter and a half of it
REQUIREMENTS = 1  # of MultiQID, at each number of records

Seconds = dict[int, list[tuple[float, float]]]  # by number of records: of the parties, and of one table


def run(say: Say, save: Path | None) -> dict[str, Any]:
    original, meaning = _adult.adult(), _adult.schema()
    several = list(islice(random_requirements(), REQUIREMENTS))
    found: dict[str, Seconds] = {"AllAttQID": {}, "MultiQID": {}}
    with tempfile.TemporaryDirectory() as folder:
        for n in (MOST // 4, MOST // 2, MOST):
            table = people(original, n)
            mashup._write_tables(table, Path(folder), mashup.PAPER)
            joined = _adult.write_csv(table, Path(folder) / "adult.csv")
            whole = mq.Table(table, meaning)
            for name, requirements in (("AllAttQID", [mq.KAnonymity(_adult.ALL14, K)]), ("MultiQID", several)):
                found[name][n] = [_both(Path(folder), joined, whole, each) for each in requirements]
                spent = ", ".join(f"{duration(both)} (one table {duration(one)})" for both, one in found[name][n])
                say(f"{name}, {n:,} records: {spent}")
    save_chart(save, "scale-parties", _chart(found))
    return {"figures": tell(say, _figures(found)), **found}


def people(original: pa.Table, n: int) -> pa.Table:
    """So many records: the first of Adult, or all of them and variations."""
    return original.slice(0, n) if n < original.num_rows else blow_up(original, _adult.ALL14, n, SEED)


def _both(base: Path, joined: Path, whole: mq.Table, requirement: Requirement) -> tuple[float, float]:
    """Seconds of the parties' protocol and of the same on one table; both releases make the same steps."""
    alone = mq.anonymize(whole, requirement, mq.TopDownSpecialization(_adult.CLASS))
    made = mashup_job(_job(base, joined, requirement)).release
    assert [step.value for step in made.steps] == [step.value for step in alone.steps]
    return made.seconds["protocol"], alone.seconds["anonymize"]


def _job(base: Path, joined: Path, requirement: Requirement) -> Path:
    first, *others = [part.qid for part in requirement.parts]
    path = mashup._job(base, joined, tuple(first), K, mashup.PAPER, "plain")
    more = "".join(f'[[privacy]]\nmodel = "k-anonymity"\nqid = {list(qid)}\nk = {K}\n' for qid in others)
    text = path.read_text(encoding="utf-8").replace("[output]\n", f"{more}[output]\n")
    path.write_text(text, encoding="utf-8")
    return path


def _figures(found: dict[str, Seconds]) -> list[Figure]:
    figures = []
    for name, by_n in found.items():
        for n, spent in by_n.items():
            both, one = (statistics.mean(each) for each in zip(*spent, strict=True))
            paper = name == "AllAttQID" and n == PAPER_RECORDS
            beside = f"one table {duration(one)}" + (f"; paper {PAPER_SECONDS:.0f} s" if paper else "")
            goal, met = (f"under {PAPER_SECONDS:.0f} s", both < PAPER_SECONDS) if paper else ("", None)
            figures.append(
                Figure(f"{name}, {n:,} records: two parties", duration(both), beside, f"{both / one:.1f}", goal, met)
            )
    return figures


def _chart(found: dict[str, Seconds]) -> str:
    return line_chart(
        [
            Series(f"{name}, {who}", [(n, statistics.mean(each[at] for each in of)) for n, of in by_n.items()])
            for name, by_n in found.items()
            for at, who in enumerate(("two parties", "one table"))
        ],
        title="Figure 12: runtime between two parties over the number of records",
        x_name="records",
        y_name="seconds",
        from_zero=True,
        write=duration,
    )
