"""DkA-Datafly on Adult, 30,162 records: two processes with real cryptography; precision beside central Datafly's.

The eight categorical attributes of Table 4, with the heights of its hierarchies, k-anonymous over both parties'
columns. Figure 4 compares the precision for splits of 1–7 to 4–4 attributes, five random ones each; of its values the
text has those for k = 100 and 4–4 alone. Table 5 has the work of all rounds in multiples of the first's, and in days.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import _adult
from _figures import Figure, Say, duration, save_chart, tell
from masquerade.anonymize import Datafly, publish
from masquerade.data import Branch, Column, Schema, Table, Taxonomy
from masquerade.jobs import Mashup, mashup_job
from masquerade.net import Script
from masquerade.net.memory import Wire, run_together
from masquerade.privacy import KAnonymity
from masquerade.progress import Stage
from masquerade.protocol.dka.plain import plain_dka
from masquerade.protocol.dka.side import Side
from masquerade.protocol.pairs import prepare_pair
from masquerade.protocol.sensitive.back_ends import shared_tests
from masquerade.protocol.sensitive.costs import sorting_for
from masquerade.protocol.sensitive.histogram import Bounds
from masquerade.report.charts import Series, line_chart
from masquerade.utility import Comparison, losses_of
from masquerade.utility.measures import precision

NAMES = (
    *("education", "marital-status", "native-country", "occupation"),
    *("race", "relationship", "sex", "workclass"),
)
LEFT, RIGHT = NAMES[:4], NAMES[4:]
HEIGHTS = dict(zip(NAMES, (4, 3, 3, 2, 2, 2, 1, 4), strict=True))  # of the hierarchies: Table 4
PAPER_DAYS = {100: 16.11, 50: 12.53, 20: 10.14}
PAPER_WORK = {  # Table 5: least, mean and most of all splits, in multiples of the first round's encryptions
    100: (1.11, 2.43, 2.89),
    50: (1.11, 1.89, 2.35),
    20: (1.07, 1.53, 1.75),
}
PAPER_PRECISION = {(100, 4): "0.62 (0.60 to 0.63)"}  # Figure 4, by k and split, as far as the text has it
GOAL_SECONDS = {100: 15, 50: 15, 20: 30}
PRECISION_KS = (2, 5, 10, 20, 50, 100)
SPLITS, PARTITIONINGS = (1, 2, 3, 4), 5
WORSE_AT_MOST = 0.05
ROUND_K = 50
PHASES = ("counting", "looking up", "comparing", "opening")
MESSAGES = {"counting": ("sort", "vector", "block", "histogram"), "look-ups": ("look",), "circuits": ("circuit",)}


@dataclass(frozen=True)
class Precisions:
    """What several partitionings of one split keep, and what the central Datafly keeps."""

    k: int
    split: int
    central: float
    found: tuple[float, ...]
    work: tuple[float, ...]  # encryptions of the paper's protocol, in multiples of its first round's

    @property
    def parts(self) -> str:
        """How many attributes either party has."""
        return f"{self.split}–{len(NAMES) - self.split}"


def run(say: Say, save: Path | None) -> dict[str, Any]:
    table = _adult.adult().slice(0, _adult.TRAINING_RECORDS)
    precisions = list(_precisions(table))
    figures = [*_precision_figures(precisions), *_work_figures(precisions)]
    save_chart(save, "dka-precision", _precision_chart(precisions))
    figures += _one_round(table.num_rows, ROUND_K)
    with tempfile.TemporaryDirectory() as folder:
        for k, days in PAPER_DAYS.items():
            figures += _round_trip(table, Path(folder), k, days)
            say(f"k = {k} is done")
    return {"figures": tell(say, figures)}


def paper_schema(names: Sequence[str]) -> Schema:
    """The attributes with hierarchies as high as the paper's: countries without the level of the US alone."""
    return Schema(
        replace(attribute, taxonomy=_without_us(attribute.taxonomy))
        if attribute.name == "native-country" and isinstance(attribute.taxonomy, Taxonomy)
        else attribute
        for attribute in _adult.schema(names)
    )


def _without_us(countries: Taxonomy) -> Taxonomy:
    def spliced(branch: Branch) -> Iterator[Branch]:
        children = tuple(below for child in branch.children for below in spliced(child))
        if branch.name == "US":
            yield from children
        else:
            yield replace(branch, children=children)

    (root,) = spliced(countries.root)
    return replace(countries, root=root)


def _one_round(n_records: int, k: int) -> Iterator[Figure]:
    """The first round's test by itself, both parties in this process: its work does not depend on the labels.

    Once with the records sorted first, as rounds of that size are, and once without.
    """
    bound = n_records // k
    what = f"one round, k = {k}, {bound} × {bound} groups"
    unsorted = Bounds(n_records, (bound, bound))
    assert sorting_for(unsorted) is None
    reference, _ = _spent(unsorted, k)
    spent, sent = _spent(replace(unsorted, least=(k, k)), k)
    yield Figure(
        f"{what}: counting, processor time a party",
        duration(spent["counting"] / 2),
        f"unsorted {duration(reference['counting'] / 2)}",
        f"1/{reference['counting'] / spent['counting']:.1f}",
    )
    for phase in PHASES[1:3]:
        yield Figure(f"{what}: {phase}, processor time a party", duration(spent[phase] / 2))
    yield Figure(
        f"{what}: bytes, both directions",
        f"{sum(sent.values()) / 1e6:.0f} MB",
        ", ".join(f"{phase} {sum(sent[kind] for kind in kinds) / 1e6:.0f}" for phase, kinds in MESSAGES.items()),
    )


def _spent(bounds: Bounds, k: int) -> tuple[dict[str, float], dict[str, int]]:
    """Processor seconds of both parties by phase, and bytes by the first word of a message's kind."""
    random = np.random.default_rng(k)
    heard: list[tuple[float, str]] = []

    def part(me: int) -> Script[Any]:
        pair = yield from prepare_pair(me, ("left", "right"), b"bench")
        labels = np.minimum(np.arange(bounds.records) // k, bounds.labels[me]).astype(np.uint64)

        def on_stage(stage: Stage) -> None:
            if me == 0:
                heard.append((time.process_time(), stage.name))

        return (yield from shared_tests(pair, random.permutation(labels), k, bounds, on_stage))

    wire = Wire()
    run_together({"left": part(0), "right": part(1)}, wire)
    sent: dict[str, int] = defaultdict(int)
    for message in wire.heard:
        sent[message.kind.partition("-")[0]] += len(message.data)
    return _phases(heard, time.process_time()), sent


def _round_trip(table: pa.Table, base: Path, k: int, days: float) -> Iterator[Figure]:
    """The whole command: two party processes over TLS, from their CSV files to the verified release."""
    heard: list[tuple[float, str]] = []

    def on_party(party: str, stage: Stage) -> None:
        if party == "left":
            heard.append((time.perf_counter(), stage.name))

    job, started, before = _job(table, base, k), time.perf_counter(), _processor_seconds()
    made = mashup_job(job, on_party=on_party)
    ended, used = time.perf_counter(), _processor_seconds() - before
    sides = plain_dka([_columns(table, names) for names in (LEFT, RIGHT)], table.num_rows, k)
    assert _cells(made.release.table) == _plain_cells(sides)
    goal = GOAL_SECONDS[k]
    yield Figure(
        f"k = {k}: the whole command, {sides[0].round} rounds",
        duration(ended - started),
        f"paper {days} days",
        f"1/{days * 86_400 / (ended - started):,.0f}",
        f"under {goal} s on two idle cores",
        ended - started < goal,
    )
    yield Figure(f"k = {k}: processor time of all processes", duration(used))
    spent = _phases(heard, ended)
    yield Figure(f"k = {k}: aligning", duration(made.release.seconds["align"]))
    for phase in PHASES:
        yield Figure(f"k = {k}: {phase}, all rounds", duration(spent[phase]))
    yield Figure(f"k = {k}: sent by both parties", f"{sum(made.bytes_sent.values()) / 1e6:,.0f} MB", _paper_bytes())
    yield _suppressed(made, k)


def _processor_seconds() -> float:
    """This process's, and that of its children that have ended."""
    return sum(os.times()[:4])


def _phases(heard: Sequence[tuple[float, str]], ended: float) -> dict[str, float]:
    """How long one party was in each phase, all rounds together."""
    spent: dict[str, float] = defaultdict(float)
    ends = [at for at, _ in heard[1:]] + [ended]
    for (at, stage), end in zip(heard, ends, strict=True):
        spent[stage] += end - at
    return spent


def _paper_bytes() -> str:
    """One vector of n ciphertexts of 1,024 bits for each record, in the first round alone."""
    return f"paper {_adult.TRAINING_RECORDS**2 * 128 / 1e9:,.0f} GB in round 1"


def _suppressed(made: Mashup, k: int) -> Figure:
    return Figure(
        f"k = {k}: suppressed", str(made.release.suppressed), goal=f"below {k}", met=made.release.suppressed < k
    )


def _job(table: pa.Table, base: Path, k: int) -> Path:
    ids = pa.array([f"{row:08d}" for row in range(table.num_rows)])
    random = np.random.default_rng(1)
    for party, names in (("left", LEFT), ("right", RIGHT)):
        own = table.select(list(names)).append_column("id", ids)
        _adult.write_csv(own.take(pa.array(random.permutation(own.num_rows))), base / f"{party}.csv")
    for attribute in paper_schema(NAMES):
        rows = [";".join(path) for path in _paths(attribute.taxonomy.root)]
        (base / f"{attribute.name}.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    lines = [f'[attributes.{name}]\ntaxonomy = "{name}.csv"' for name in NAMES]
    lines += ["[[privacy]]", 'model = "k-anonymity"', f"qid = {list(NAMES)}", f"k = {k}"]
    lines += ["[algorithm]", 'name = "dka-datafly"']
    lines += [f'[parties.{name}]\nsource = "{name}.csv"\nid = "id"' for name in ("left", "right")]
    lines += ["[output]", f'table = "dka-{k}.csv"', "report = false"]
    job = base / f"dka-{k}.toml"
    job.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return job


def _paths(branch: Branch) -> Iterator[tuple[str, ...]]:
    """The way from each leaf up."""
    if not branch.children:
        yield (branch.name,)
    for child in branch.children:
        yield from ((*path, branch.name) for path in _paths(child))


def _precisions(table: pa.Table) -> Iterator[Precisions]:
    """Figure 4 and Table 5: the same rounds by plain counting."""
    whole = Table(table.select(list(NAMES)), paper_schema(NAMES))
    for k in PRECISION_KS:
        central = publish(whole, KAnonymity(NAMES, k), Datafly()).metrics["precision"]
        assert central is not None
        random = np.random.default_rng(k)
        for split in SPLITS:
            found, work = [], []
            for _ in range(PARTITIONINGS):
                dealt = random.permutation(len(NAMES))
                parts = [[NAMES[at] for at in sorted(half)] for half in (dealt[:split], dealt[split:])]
                tested: list[int] = []  # records, by round
                sides = plain_dka(
                    [_columns(table, part) for part in parts],
                    table.num_rows,
                    k,
                    on_round=lambda opened, tested=tested: tested.append(opened.size),
                )
                found.append(_precision(table, sides))
                work.append(sum(size**2 for size in tested) / table.num_rows**2)
            yield Precisions(k, split, central, tuple(found), tuple(work))


def _precision_figures(precisions: Sequence[Precisions]) -> Iterator[Figure]:
    for each in precisions:
        worst, paper = min(each.found), PAPER_PRECISION.get((each.k, each.split))
        yield Figure(
            f"k = {each.k}, {each.parts}: precision",
            f"{np.mean(each.found):.3f} ({worst:.3f} to {max(each.found):.3f})",
            f"central {each.central:.3f}" + (f"; paper {paper}" if paper else ""),
            f"{worst - each.central:+.3f}",
            f"at least −{WORSE_AT_MOST}",
            worst >= each.central - WORSE_AT_MOST,
        )


def _work_figures(precisions: Sequence[Precisions]) -> Iterator[Figure]:
    """Table 5: what the paper's protocol would encrypt, over all splits and partitionings."""
    for k, (least, mean, most) in PAPER_WORK.items():
        work = [each for of in precisions if of.k == k for each in of.work]
        yield Figure(
            f"k = {k}: encryptions of the paper's protocol, in multiples of its first round",
            f"{np.mean(work):.2f} ({min(work):.2f} to {max(work):.2f})",
            f"paper {mean} ({least} to {most})",
            f"{np.mean(work) / mean:.2f}",
        )


def _precision_chart(precisions: Sequence[Precisions]) -> str:
    """The paper's Figure 4: one line a split, the mean of its partitionings, and one of the central Datafly."""
    lines: dict[str, dict[float, float]] = defaultdict(dict)
    for each in precisions:
        lines["central Datafly"][each.k] = each.central
        lines[f"DkA, {each.parts} attributes"][each.k] = float(np.mean(each.found))
    return line_chart(
        [Series(name, list(points.items())) for name, points in lines.items()],
        title="Precision of DkA-Datafly and of the central Datafly",
        x_name="k",
        y_name=f"precision, mean of {PARTITIONINGS} partitionings",
        x_scale="log",
        write=lambda value: f"{value:.3f}",
    )


def _precision(table: pa.Table, sides: Sequence[Side]) -> float:
    kept = sides[0].passed
    released = tuple(column for side in sides for column in side.released())
    originals = tuple(
        Column(column.name, column.ranks[kept], column.domain)
        for column in _columns(table, [each.name for each in released])
    )
    found = precision(losses_of(Comparison(originals, released, None, None, {})))
    assert found is not None
    return found


def _columns(table: pa.Table, names: Sequence[str]) -> tuple[Column, ...]:
    return Table(table.select(list(names)), paper_schema(names)).columns(names)


def _cells(release: pa.Table) -> list[tuple[str, ...]]:
    return sorted(zip(*(release.column(name).to_pylist() for name in NAMES), strict=True))


def _plain_cells(sides: Sequence[Side]) -> list[tuple[str, ...]]:
    cells = {column.name: column.to_arrow().to_pylist() for side in sides for column in side.released()}
    return sorted(zip(*(cells[name] for name in NAMES), strict=True))
