"""A party of a mashup that counts on an engine, beside one that counts in its own memory.

Two parties of generated people, whose common records are found already, specialise towards a class with plain scores:
once both with their groups in one memory, once both with them in an engine's chunks. Then they cut by Mondrian, where
the best cut of each group is found in the open: comparing under sharing takes as long wherever groups are. The same
rounds and groups, or the run fails. Seconds are of the processor, for all that both parties do in the rounds.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import masquerade as mq
from _figures import Figure, Say, duration, tell
from masquerade.anonymize import CHOICES, Dimensions, LocalView, PublicState, judge_of_records
from masquerade.data import Records
from masquerade.engine import LocalEngine, value_counts
from masquerade.net.memory import run_together
from masquerade.protocol.common_records import on_engine
from masquerade.protocol.mondrian.own_cuts import OwnGroups, PartsOfGroups
from masquerade.protocol.tds.party import JointSchema, mashup
from masquerade.utility import score_named

RECORDS = 1_000_000
MEMORY = 8 << 30
PARTIES = ("bank", "clinic")
HOLDERS = {"birth_date": 0, "salary": 0, "sex": 1, "town": 1, "children": 1}
SCHEMA = mq.Schema(
    [
        mq.Attribute("birth_date", "date"),
        mq.Attribute("salary", "continuous"),
        mq.Attribute("sex", taxonomy="flat"),
        mq.Attribute("town", taxonomy="flat"),
        mq.Attribute("children", "continuous"),
    ]
)


def run(say: Say, save: Path | None) -> dict[str, Any]:
    figures = []
    for n in (RECORDS // 10, RECORDS):
        table = mq.Table(mq.generate_people(n, missing=0), SCHEMA)
        alone, rounds = _specialised(table, on_engines=False)
        there, same = _specialised(table, on_engines=True)
        assert rounds == same, "the rounds do not depend on where groups are counted"
        what = f"{n:,} records, {len(rounds)} rounds: counting on an engine"
        figures.append(Figure(what, duration(there), f"in one memory {duration(alone)}", f"{there / alone:.2f}"))
        alone, groups = _cut(table, on_engines=False)
        there, same_groups = _cut(table, on_engines=True)
        assert groups == same_groups, "the groups do not depend on where they are cut"
        what = f"{n:,} records, {len(groups)} groups: cutting on an engine"
        figures.append(Figure(what, duration(there), f"in one memory {duration(alone)}", f"{there / alone:.2f}"))
    return {"figures": tell(say, figures)}


def _specialised(table: mq.Table, *, on_engines: bool) -> tuple[float, list[Any]]:
    """Return the processor's seconds that all rounds take, and what was specialised in each."""
    names = tuple(HOLDERS)
    requirement = mq.KAnonymity(names, k=max(len(table) // 1000, 2))
    classes, score = table.coded("approved"), score_named(None, True)
    schema = JointSchema(names, tuple(HOLDERS.values()))
    with LocalEngine(MEMORY) as one, LocalEngine(MEMORY) as other:
        started = time.process_time()
        scripts = {}
        for me, engine in enumerate((one, other)):
            own = {at: table.column(name) for at, name in enumerate(names) if HOLDERS[name] == me}
            records = Records.of(table, [column.name for column in own.values()], [classes.name])
            if on_engines:
                records = on_engine(records, engine)
            state = PublicState(records, names, [requirement], {})
            view = LocalView(own, state.scored(tuple(own.values()), classes.name), score)
            scripts[PARTIES[me]] = mashup(me, PARTIES, schema, view, state, classes)
        found = run_together(scripts)
        spent = time.process_time() - started
    return spent, [(each.party, each.attribute, each.score) for each in found[PARTIES[0]]]


def _cut(table: mq.Table, *, on_engines: bool) -> tuple[float, list[int]]:
    """Return the processor's seconds that both parties take on all levels, and the sizes of the groups."""
    names = tuple(HOLDERS)
    parts = [mq.KAnonymity(names, k=max(len(table) // 1000, 2))]
    with LocalEngine(MEMORY) as one, LocalEngine(MEMORY) as other:
        started = time.process_time()
        sides: list[OwnGroups] = []
        for me, engine in enumerate((one, other)):
            records = Records.of(table, [name for name in names if HOLDERS[name] == me])
            if on_engines:
                records = on_engine(records, engine)
            judge = judge_of_records(records, parts, None, "violating")
            own = Dimensions(tuple(records.columns.values()))
            sides.append(OwnGroups(records, own, judge, CHOICES["certainty"], False))
        while sides[0].open is not None:
            _cut_level(sides)
        labels = sides[0].done().labels
        spent = time.process_time() - started
    return spent, value_counts(labels, int(labels.max()) + 1).tolist()


def _cut_level(sides: Sequence[OwnGroups]) -> None:
    batches = [side.open for side in sides if side.open is not None]
    best = [side.best() for side in sides]
    scores = np.stack([each.scores for each in best])
    won = np.where(scores.max(axis=0) == -np.inf, -1, scores.argmax(axis=0))
    is_cut = won >= 0
    n_parts = np.ones(won.size, np.int64)
    part_of_row = np.zeros(batches[0].n_records, np.uint32)
    for me, (each, batch) in enumerate(zip(best, batches, strict=True)):
        if (won == me).any():
            cuts = each.of(won == me)
            n_parts[won == me] = cuts.n_parts
            part_of_row[np.repeat(won == me, batch.sizes)] = cuts.part_of_row
    made = PartsOfGroups(n_parts[is_cut], part_of_row[np.repeat(is_cut, batches[0].sizes)])
    for me, side in enumerate(sides):
        side.cut(made, is_cut, best[me], won == me)
