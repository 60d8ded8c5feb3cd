"""What the one does who publishes: join the records or the rows of all providers, verify, drop the provider, shuffle.

As a **trusted third party** it gets the records and runs the algorithm itself. Otherwise it is only the assembler, and
gets finished rows. Either way it knows each row's provider, for it verifies m-privacy independently of what made
the groups, and nothing is published that does not hold.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from masquerade.anonymize.release import Release, publish, shuffled
from masquerade.data.column import Generalised
from masquerade.data.continuum import Continuum
from masquerade.data.encode import distinct, texts
from masquerade.data.table import Origin, Table
from masquerade.engine.counts import value_counts
from masquerade.errors import PeerBrokeProtocol
from masquerade.net.progress import Stage
from masquerade.net.script import Receive, Script, Send
from masquerade.privacy.check import Verdict, insist, verify
from masquerade.protocol.collaborate.counting import CountingJudge
from masquerade.protocol.collaborate.domains import (
    all_values,
    axis_of,
    is_value,
    ranges_of,
    sensitive_codes,
    values_of,
)
from masquerade.protocol.collaborate.joined_records import joined, told_schema
from masquerade.protocol.collaborate.messages import Records, Rows, Values, checked_length, read_rows, stacked
from masquerade.protocol.collaborate.provider import (
    groups_of_rows,
    losses_of_groups,
    provider_axis,
    rounded_size,
)
from masquerade.protocol.collaborate.terms import (
    algorithm_of,
    collaboration_of,
    column_names,
    criterion_of,
    provider_column,
    qid_names,
    refuse_impossible,
    requirement_of,
)
from masquerade.protocol.collaborate.tree import Settings, partition, providers_apart
from masquerade.protocol.columns import Received
from masquerade.protocol.contract import Contract
from masquerade.protocol.listed_values import refuse_unknown_values
from masquerade.protocol.method import Assembly
from masquerade.utility.comparison import Comparison, compare
from masquerade.utility.losses import AttributeLoss
from masquerade.utility.metrics import measure
from masquerade.utility.queries import query_error

Losses = dict[str, AttributeLoss]

_UNKNOWN = Continuum(np.empty(0, np.int64))


def third_party(assembly: Assembly) -> Script[Release]:
    """The verified release.

    Providers must all generalise alike, also where the third party has a schema of its own. What `assembly.on_stage`
    raises ends the computation.
    """
    contract, schema, weights = assembly.contract, assembly.schema, assembly.weights
    refuse_impossible(contract)
    if collaboration_of(contract).third_party == "trusted":
        if schema is not None:
            _ = [
                schema[name] for name in qid_names(contract)
            ]  # what it lacks is told before records are handed in
        release = yield from _trusted(assembly)
    else:
        release = yield from _assembled(contract, weights)
    yield Send(contract.parties, Received())
    return release


def _trusted(assembly: Assembly) -> Script[Release]:
    contract, schema, weights = assembly.contract, assembly.schema, assembly.weights
    seed, on_stage = assembly.seed, assembly.on_stage
    terms = collaboration_of(contract)
    handed: dict[str, Records] = {}
    for name in contract.parties:
        handed[name] = yield Receive(name, Records)
    started = time.perf_counter()
    told = told_schema(contract, handed, weights)
    table = joined(contract, handed, schema if schema is not None else told)
    left_out = tuple(dict.fromkeys(name for message in handed.values() for name in message.left_out))
    del handed
    if terms.choose != "public":
        return _by_algorithm(contract, table, left_out, seed, started)
    raw = table.arrow
    settings, judge = public_settings(contract, table)

    def on_round(tried: int, groups: int) -> None:
        on_stage(Stage("cutting", tried=tried, detail=f"{groups} groups at work"))

    groups = yield from partition(settings, judge, judge, None, on_round, on_round)
    of_row = groups_of_rows(settings, groups)
    cells = {name: raw.column(name) for name in (*column_names(contract), provider_column(contract))}
    for at, axis in enumerate(settings.released):
        labels = pa.array([axis.label(group.cells[at]) for group in groups], pa.string())
        cells[axis.name] = pa.chunked_array([labels.take(pa.array(of_row))])
    seconds = {"protocol": time.perf_counter() - started}
    release = _release(
        contract, pa.table(cells), losses_of_groups(settings, groups), left_out, seconds, weights
    )
    beside = compare(table, Table(pa.table(cells)), qid_names(contract))
    return replace(release, query_error=query_error(beside, seed=seed))


def public_settings(contract: Contract, table: Table) -> tuple[Settings, CountingJudge]:
    """The shared algorithm's settings and its judge, where all records are in one table with their providers."""
    terms, criterion = collaboration_of(contract), criterion_of(contract)
    names = qid_names(contract)
    asked = ranges_of(table, names)
    pairs = [
        axis_of(table, name, asked[name].signals(table.column(name)) if name in asked else None)
        for name in names
    ]
    coded = table.coded(provider_column(contract))
    number = np.array([contract.parties.index(label) for label in coded.labels], np.int64)
    providers = number[coded.codes]
    sizes = [1 << rounded_size(count) for count in value_counts(providers, len(contract.parties)).tolist()]
    settings = Settings(
        (*(axis for axis, _ in pairs), provider_axis(contract)),
        (*(ranks for _, ranks in pairs), providers),
        criterion.k,
        terms.strict,
        bool(terms.provider_aware),
        providers_apart(sizes, contract.m) if terms.provider_aware else (),
    )
    sensitive = [
        sensitive_codes(table, name, all_values([values_of(table, name)]))
        for name, _ in criterion.diversities
    ]
    return settings, CountingJudge(criterion, providers, sensitive)


def _by_algorithm(
    contract: Contract, table: Table, left_out: tuple[str, ...], seed: int, started: float
) -> Release:
    """The algorithms that look at all counts: for a trusted third party only."""
    refuse_unknown_values(contract.requirement.parts, table)
    others = {*qid_names(contract), contract.class_name}
    names = [name for name in column_names(contract) if name not in others]
    kept = [provider_column(contract)] if contract.keep_provider else []
    made = publish(
        table,
        requirement_of(contract),
        algorithm_of(contract),
        sensitive=[*names, *kept],
        missing="error",
        order="shuffle",
        seed=seed,
    )
    return replace(
        made,
        dropped_rows=None,
        dropped=left_out,
        settings={**made.settings, **_settings(contract)},
        seconds={"protocol": time.perf_counter() - started - made.seconds["metrics"]},
    )


def _assembled(contract: Contract, weights: Mapping[str, float]) -> Script[Release]:
    criterion = criterion_of(contract)
    if criterion.diversities:
        yield from _gather_values(contract, [name for name, _ in criterion.diversities])
    handed: dict[str, Rows] = {}
    for name in contract.parties:
        handed[name] = yield Receive(name, Rows)
    cells = stacked(
        {name: read_rows(message.table, name, column_names(contract)) for name, message in handed.items()},
        provider_column(contract),
    )
    losses: Losses = {}
    for name, message in handed.items():
        _check_figures(contract, name, message)
        for attribute, loss in message.losses.items():
            losses[attribute] = _added(losses.get(attribute), loss)
    left_out = tuple(dict.fromkeys(name for message in handed.values() for name in message.left_out))
    seconds = {
        part: max(message.seconds.get(part, 0.0) for message in handed.values())
        for part in ("prepare", "protocol")
    }
    return _release(contract, cells, losses, left_out, seconds, weights)


def _gather_values(contract: Contract, names: list[str]) -> Script[None]:
    """Tell all providers which sensitive values there are."""
    lists: list[list[tuple[str, ...]]] = [[] for _ in names]
    for provider in contract.parties:
        told = yield Receive(provider, Values)
        checked_length("lists of sensitive values", len(told.values), len(names), provider)
        for at, name in enumerate(names):
            if not all(is_value(value, name) for value in told.values[at]):
                raise PeerBrokeProtocol(provider, f"sent values of {name} that are none")
            lists[at] += told.values[at]
    yield Send(contract.parties, Values(tuple(all_values([values]) for values in lists)))


def _release(
    contract: Contract,
    cells: pa.Table,
    losses: Losses,
    left_out: tuple[str, ...],
    seconds: dict[str, float],
    weights: Mapping[str, float],
) -> Release:
    """What was put together, once it is verified with its providers; then they are dropped, unless agreed otherwise."""
    verdicts: tuple[Verdict, ...] = verify(
        Table(cells, origin=Origin("the joined release")), requirement_of(contract), bind=False
    )
    insist(verdicts)
    released = tuple(_generalised(name, cells) for name in qid_names(contract))
    classes = Table(cells).coded(contract.class_name) if contract.class_name is not None else None
    comparison = Comparison((), released, classes, None, dict(weights))
    rows = cells.num_rows
    providers = Table(cells).coded(provider_column(contract))
    published = cells if contract.keep_provider else cells.drop_columns([provider_column(contract)])
    return Release(
        table=shuffled(published),
        verdicts=verdicts,
        columns=released,
        steps=(),
        group_sizes=comparison.group_sizes,
        rows=rows,
        dropped_rows=None,
        dropped=left_out,
        metrics=measure(comparison, losses),
        attribute_losses={name: loss.certainty / max(rows, 1) for name, loss in losses.items()},
        settings=_settings(contract),
        seconds=seconds,
        group_providers=comparison.providers_of_groups(providers),
    )


def _settings(contract: Contract) -> dict[str, object]:
    terms = collaboration_of(contract)
    return {
        "source": " and ".join(contract.parties),
        "parties": list(contract.parties),
        "contract": contract.hash.hex(),
        "third_party": terms.third_party,
        "choose": terms.choose,
    }


def _check_figures(contract: Contract, name: str, handed: Rows) -> None:
    losses = handed.losses
    if set(losses) != set(qid_names(contract)) or not all(
        np.isfinite([loss.leaves, loss.certainty, loss.height]).all() for loss in losses.values()
    ):
        raise PeerBrokeProtocol(name, "told figures of other attributes than it handed in")
    if not all(np.isfinite(seconds) and seconds >= 0 for seconds in handed.seconds.values()):
        raise PeerBrokeProtocol(name, "told that something took no time that there is")


def _added(total: AttributeLoss | None, more: AttributeLoss) -> AttributeLoss:
    if total is None:
        return more
    return AttributeLoss(
        total.leaves + more.leaves,
        total.certainty + more.certainty,
        total.height + more.height,
        total.climbed + more.climbed,
        total.path + more.path,
    )


def _generalised(name: str, cells: pa.Table) -> Generalised:
    codes, values = distinct(cells.column(name))
    nowhere = np.zeros(len(values), np.int64)
    return Generalised(name, codes, tuple(texts(values).to_pylist()), nowhere, nowhere, _UNKNOWN)
