"""The frame in which every method learns: what a party and the collector do, whatever the model.

A party aligns its records where the parties hold different columns, agrees on the columns' values, learns, and hands in
the model with its masked counts. The collector, which is no party, compares the models and adds up the counts. Where a
method lets sites drop out, those that are left go on, or start over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from masquerade.crypto.rings import Elements
from masquerade.data.table import Table
from masquerade.net.progress import Stage
from masquerade.net.script import Receive, Script, Send
from masquerade.protocol.classes import insist_on_same_classes
from masquerade.protocol.columns import Received
from masquerade.protocol.common_records import find_common_rows, refuse_nobody
from masquerade.protocol.contract import Contract
from masquerade.protocol.learn.aggregate import Openings
from masquerade.protocol.learn.drop_out import Survivors
from masquerade.protocol.learn.handing_in import (
    COUNTS,
    LearnedModel,
    as_counts,
    handed_by,
    handed_in_spite,
    masked_counts,
    the_one_model,
    total_counts,
    written_model,
)
from masquerade.protocol.learn.learned import Learned
from masquerade.protocol.learn.means import filled
from masquerade.protocol.learn.models.model import Model
from masquerade.protocol.learn.site import Site, attributes_of
from masquerade.protocol.learn.values import agree_on_values
from masquerade.protocol.method import ASSEMBLER, Seat

if TYPE_CHECKING:
    from masquerade.protocol.learn.method import Collection, LearningMethod

Result = TypeVar("Result")

TRAINING = "the training records"  # what metrics are computed on


def party(method: LearningMethod, seat: Seat) -> Script[int]:
    """Align, agree on values, learn, hand in. Return how many records this party had in the session."""
    started = time.perf_counter()
    table = yield from _records(seat)
    aligned = time.perf_counter()
    seat.on_stage(Stage(method.activity))
    seat.before_showing()
    survivors = _survivors(method, seat)
    model, masked = yield from _among_the_present(method, seat, table, survivors, partial(_counted, method))
    seat.before_showing()
    seconds = {"align": aligned - started, "protocol": time.perf_counter() - aligned}
    message = LearnedModel(written_model(model), COUNTS.encode(masked), seconds, survivors.lost)
    yield Send((ASSEMBLER,), message)
    yield Receive(ASSEMBLER, Received)
    return len(table)


def among_parties(method: LearningMethod, seat: Seat) -> Script[Model]:
    """Learn the model without a collector, for parties that need nobody to write it."""
    table = yield from _records(seat)
    seat.before_showing()
    learn = partial(_kept, method)
    return (yield from _among_the_present(method, seat, table, _survivors(method, seat), learn))


def _survivors(method: LearningMethod, seat: Seat) -> Survivors:
    return Survivors(seat.name, seat.contract.parties, method.drop_out)


def _among_the_present(
    method: LearningMethod,
    seat: Seat,
    table: Table,
    survivors: Survivors,
    learn: Callable[[Site], Script[Result]],
) -> Script[Result]:
    """Learn with all parties; or, where that is agreed, with those that are left when some drop out."""
    if not method.outlives_parties:
        return (yield from learn((yield from _site(method, seat, table, seat.contract.parties, None))))
    agreed: Site | None = None

    def attempt(present: tuple[str, ...]) -> Script[Result]:
        nonlocal agreed
        if agreed is None or not survivors.openings.rounds:  # what a sum was opened by stays
            agreed = yield from _site(method, seat, table, present, survivors.openings)
        return (yield from learn(replace(agreed, parties=present)))

    return (yield from survivors.run(attempt))


def _kept(method: LearningMethod, site: Site) -> Script[Model]:
    """Return the model; before anybody can have it, the site keeps what it needs to use it."""
    model = yield from method.learn(site)
    if (kept := method.kept(site, model)) is not None:
        site.keep(site.contract.hash.hex(), kept)
    return model


def _counted(method: LearningMethod, site: Site) -> Script[tuple[Model, Elements]]:
    """Return the model, and the masked counts by which it is judged."""
    model = yield from _kept(method, site)
    if site.openings is not None:
        site.openings.under_way = True  # everything is open: nothing is made again
    site.on_stage(Stage("handing in"))
    return model, (yield from _masked(method, site, model))


def _site(
    method: LearningMethod, seat: Seat, table: Table, parties: tuple[str, ...], openings: Openings | None
) -> Script[Site]:
    """Agree on the columns' values, and fill in missing numbers."""
    name, contract = seat.name, seat.contract
    me = parties.index(name)
    categories = [
        each for each in method.categories(contract, table.schema) if each in table.arrow.column_names
    ]
    agreed = yield from agree_on_values(me, parties, table, categories)
    if agreed.has_gaps:
        table = yield from filled(
            table,
            [each for each in attributes_of(contract) if each in table.schema and each not in categories],
            me,
            parties,
            b"means\0" + contract.hash,
            pooled=contract.arrangement == "horizontal",
            openings=openings,
        )
    return Site(
        name,
        contract,
        table,
        agreed.values,
        agreed.most_bits,
        parties,
        seat.on_stage,
        openings,
        seat.keep,
    )


def collector(method: LearningMethod, collection: Collection) -> Script[Learned]:
    """Run the part of the collector, which is no party: compare the models, add up the counts."""
    contract = collection.contract
    built = yield from method.build(collection)
    handed = yield from (
        handed_in_spite(contract.parties) if method.outlives_parties else handed_by(contract.parties)
    )
    if built is not None:
        ours = LearnedModel(written_model(built), b"", {})
        the_one_model(method.learns, {ASSEMBLER: ours, **handed})
    model = the_one_model(method.learns, handed)
    learned = _learned(method, contract, tuple(handed), model, total_counts(handed))
    seconds = {
        part: max(message.seconds.get(part, 0.0) for message in handed.values())
        for part in ("align", "protocol")
    }
    yield Send(tuple(handed), Received())
    return replace(learned, seconds=seconds, session=contract.hash.hex())


def learned_alone(method: LearningMethod, site: Site) -> Learned:
    """Return the model of one table, with its metrics."""
    model = method.alone(site)
    masked = result_of(_masked(method, site, model))
    return _learned(method, site.contract, site.parties, model, [int(each) for each in masked])


def _masked(method: LearningMethod, site: Site, model: Model) -> Script[Elements]:
    """Return the number of records and the counts of the model, masked."""
    everybody = site.arrangement == "vertical" and site.me > 0  # whose records the first party has counted
    counts = as_counts([0 if everybody else len(site.table)])
    if method.evaluate:
        counts = np.concatenate((counts, (yield from method.counts(site, model))))
    return (yield from masked_counts(site.me, site.parties, counts, site.purpose("figures")))


def _learned(
    method: LearningMethod, contract: Contract, parties: tuple[str, ...], model: Model, counts: Sequence[int]
) -> Learned:
    metrics, curves = method.metrics(model, counts[0], counts[1:]) if method.evaluate else ({}, {})
    roles: dict[str, str] = {
        column.role: column.name for column in contract.columns if column.role in ("duration", "event")
    }
    if contract.class_name is not None:
        roles["class"] = contract.class_name
    on = {"on": TRAINING} if metrics else {}
    return Learned(
        method.settings(),
        model,
        roles,
        parties,
        counts[0],
        {**metrics, **on},
        curves,
        dropped_out=tuple(name for name in contract.parties if name not in parties),
    )


def _records(seat: Seat) -> Script[Table]:
    """Return this party's records: its own, or of those that all parties have, in the common order."""
    if seat.contract.arrangement == "horizontal":
        return seat.table
    rows = yield from find_common_rows(seat)
    refuse_nobody(seat.contract, rows)
    table = seat.table.take(rows)
    if (target := seat.contract.class_name) is not None and seat.contract.class_from is None:
        seat.before_showing()
        yield from insist_on_same_classes(seat.name, seat.contract, table.coded(target), len(table))
    return table


def result_of(script: Script[Any]) -> Any:
    """Run a script that has nobody to talk to."""
    try:
        while True:
            move = next(script)
            assert isinstance(move, Send)
            assert not move.peers
    except StopIteration as end:
        return end.value


def alone_at(method: LearningMethod, contract: Contract, table: Table) -> Site:
    """Return the site that holds every column, and has nobody to agree with."""
    names = [each for each in method.categories(contract, table.schema) if each in table.arrow.column_names]
    agreed = result_of(agree_on_values(0, contract.parties, table, names))
    if agreed.has_gaps:
        numbers = [each for each in table.schema.names if each not in names]
        table = result_of(filled(table, numbers, 0, contract.parties, b"", pooled=True))
    return Site(contract.parties[0], contract, table, agreed.values, agreed.most_bits, contract.parties)
