"""Boundaries between parties on Adult: two holders of columns, and three providers of records, beside one table.

10,000 records drawn at random, k = 10, Mondrian; all parties in one process, in memory, so that the seconds are those
of the processor for all parties together. Bounded are the native country, at ten regions, and the marital status; then
the age as well, by 20 years. The same session without boundaries, and one table with them, run beside each.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import _adult
import masquerade as mq
from _figures import Figure, Say, duration, tell
from masquerade.data import read_taxonomy
from masquerade.methods import written_method
from masquerade.net.memory import Wire, run_together
from masquerade.protocol import (
    ASSEMBLER,
    EVERYBODY,
    Assembly,
    Contract,
    Contribution,
    Participant,
    SessionMethod,
    identifiers,
    terms_of,
    written_requirement,
)
from masquerade.protocol.mondrian.method import JointMondrian
from masquerade.protocol.providers.method import Collaboration

N_RECORDS, K, SEED = 10_000, 10, 7
BANK, CLINIC = ("native-country", "workclass", "age"), ("marital-status", "education", "sex")
QID = (*BANK, *CLINIC)
NODES = {
    "native-country": (
        *("North-America", "Central-America", "South-America", "Caribbean"),
        *("Western-Europe", "Southern-Europe", "Eastern-Europe"),
        *("Eastern-Asia", "South-eastern-Asia", "Other-Asia"),
    )
}
WIDTH, BOUNDS = 20, {"lower": 0, "upper": 128}
CASES = (("native-country", "marital-status"), ("native-country", "marital-status", "age"))


@dataclass(frozen=True)
class Made:
    """A release, the processor's seconds that it took all parties, and what they sent."""

    release: Any
    seconds: float
    sent: int = 0


def run(say: Say, save: Path | None) -> dict[str, Any]:
    return {"figures": tell(say, list(figures(N_RECORDS)))}


def figures(n_records: int) -> Iterator[Figure]:
    chosen = np.sort(np.random.default_rng(SEED).permutation(_adult.adult().num_rows)[:n_records])
    records = _adult.adult().select(QID).take(chosen)
    for names in CASES:
        table = mq.Table(records, schema(names))
        where = " and ".join((", ".join(names[:-1]), names[-1]))
        alone = _timed(lambda table=table: mq.anonymize(table, mq.KAnonymity(QID, K), mq.Mondrian()))  # type: ignore[misc] # bound here
        free = mq.Table(records, schema(()))
        yield from _compared(f"two holders, {where}", _joined(table), _joined(free), alone)
        yield from _compared(
            f"three providers, {where}",
            _collaborated(table, "secure"),
            _collaborated(free, "secure"),
            _collaborated(table, "trusted"),
        )


def schema(limited: Sequence[str]) -> mq.Schema:
    """The attributes, with boundaries where they are limited."""
    found = []
    for name in QID:
        if name == "age":
            width = WIDTH if name in limited else None
            found.append(mq.Attribute(name, "continuous", **BOUNDS, max_width=width))  # type: ignore[arg-type] # BOUNDS are numbers
            continue
        taxonomy = read_taxonomy(_adult.taxonomies() / f"{name}.csv")
        nodes = NODES.get(name) or tuple(taxonomy.nodes[child].name for child in taxonomy.nodes[0].children)
        plain = mq.Attribute(name, taxonomy=taxonomy)
        found.append(replace(plain, max_generalization=nodes) if name in limited else plain)
    return mq.Schema(found)


def _compared(where: str, within: Made, free: Made, reference: Made) -> Iterator[Figure]:
    same = _bag(within.release.table) == _bag(reference.release.table)
    yield Figure(
        f"{where}: records left out",
        str(within.release.suppressed),
        f"one table {reference.release.suppressed}",
        "",
        "the same release",
        same,
    )
    yield Figure(
        f"{where}: seconds of the processor",
        duration(within.seconds),
        f"one table {duration(reference.seconds)}",
        f"{within.seconds / reference.seconds:.1f}",
    )
    yield Figure(
        f"{where}: beside no boundaries",
        f"{duration(within.seconds)}, {within.sent / 1e6:.1f} MB",
        f"{duration(free.seconds)}, {free.sent / 1e6:.1f} MB",
        f"{within.seconds / free.seconds:.2f}",
    )


def _joined(table: mq.Table) -> Made:
    """Two holders of different columns of the same people."""
    holders = {name: "bank" if name in BANK else "clinic" for name in QID}
    contract = _contract(table, JointMondrian(), holders, ("bank", "clinic"))
    ids = pa.array([f"id-{row}" for row in range(len(table))])
    tables = {}
    for number, party in enumerate(contract.parties):
        order = pa.array(np.random.default_rng(number).permutation(len(table)))
        own = table.arrow.select([name for name in QID if holders[name] == party]).append_column("id", ids)
        tables[party] = mq.Table(own.take(order), table.schema)
    return _played(contract, JointMondrian(), tables)


def _collaborated(table: mq.Table, third_party: str) -> Made:
    """Three providers of the same columns about different people."""
    method = Collaboration(third_party=third_party, choose="public", provider_aware=False)
    names = ("north", "south", "west")
    contract = _contract(table, method, dict.fromkeys(QID, EVERYBODY), names, provider="provider")
    tables = {
        name: mq.Table(table.arrow.take(pa.array(np.arange(at, len(table), 3))), table.schema)
        for at, name in enumerate(names)
    }
    return _played(contract, method, tables)


def _contract(
    table: mq.Table, method: SessionMethod, holders: dict[str, str], parties: tuple[str, ...], **terms: Any
) -> Contract:
    requirement = mq.KAnonymity(QID, K)
    return Contract(
        parties=parties,
        columns=tuple(Contribution(name, holders[name], "attribute") for name in QID),
        requirements=(written_requirement(requirement),),
        method=written_method(method.fitted((requirement,), 0, None)),
        attributes=terms_of(table.schema),
        **terms,
    )


def _played(contract: Contract, method: SessionMethod, tables: dict[str, mq.Table]) -> Made:
    wire = Wire()
    scripts: dict[str, Any] = {ASSEMBLER: method.assembler(Assembly(contract))}
    for name, table in tables.items():
        people = identifiers(table, "id", "strip") if contract.provider is None else ()
        scripts[name] = method.party(Participant(name, contract, table, people))
    made = _timed(lambda: run_together(scripts, wire)[ASSEMBLER])
    return replace(made, sent=sum(len(message.data) for message in wire.heard))


def _timed(call: Any) -> Made:
    started = time.process_time()
    release = call()
    return Made(release, time.process_time() - started)


def _bag(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in table.select(QID).to_pylist())
