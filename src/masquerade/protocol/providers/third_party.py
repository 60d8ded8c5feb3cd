"""The publisher's part: join the records or rows of all providers, verify, drop the provider column, shuffle.

As a **trusted third party** it gets the records and runs the algorithm itself. Otherwise it is only the assembler, and
gets finished rows. Either way it knows each row's provider, for it verifies m-privacy independently of what made
the groups, and nothing is published that fails.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from masquerade.anonymize import VerifiedRelease, anonymised, shuffled
from masquerade.data import Attribute, Origin, Schema, Table, missing_rows
from masquerade.engine import value_counts
from masquerade.errors import BadInput, DataError, PeerBrokeProtocol
from masquerade.net import Receive, Script, Send
from masquerade.protocol.assembling import check_losses, joined_release, parties_of, rows_read
from masquerade.protocol.common_records import refuse_unknown_values
from masquerade.protocol.contract import Contract, agreed_table
from masquerade.protocol.hand_in import Received
from masquerade.protocol.method import Assembly
from masquerade.protocol.providers.cuts import losses_of, rounded_size, settings_of
from masquerade.protocol.providers.domains import all_values, is_value, ranges_of, sensitive_codes, values_of
from masquerade.protocol.providers.messages import (
    ProviderRecords,
    Rows,
    Values,
    checked_length,
    difference,
    read_rows,
    read_schema,
    stacked,
)
from masquerade.protocol.providers.method import (
    Collaboration,
    algorithm_of,
    criteria_of,
    provider_column,
    qid_names,
    qids_of,
    refuse_impossible,
    requirement_of,
    sensitive_names,
)
from masquerade.protocol.providers.provider import cut_from_start, refuse_unusable
from masquerade.protocol.providers.third_party_counts import CountingJudge
from masquerade.protocol.providers.tree import Settings
from masquerade.utility import compare, joined_error, joined_losses, query_error, with_suppressed


def third_party(assembly: Assembly) -> Script[VerifiedRelease]:
    """Make the verified release.

    All providers must generalise alike, even where the third party has a schema of its own. What `assembly.on_stage`
    raises ends the computation.
    """
    contract, schema = assembly.contract, assembly.schema
    refuse_impossible(contract)
    if Collaboration.of(contract).third_party == "trusted":
        if schema is not None:
            _ = [
                schema[name] for name in qid_names(contract)
            ]  # anything lacking is reported before records are handed in
        release = yield from _trusted(assembly)
    else:
        release = yield from _assembled(assembly)
    yield Send(contract.parties, Received())
    return release


def _trusted(assembly: Assembly) -> Script[VerifiedRelease]:
    contract, schema = assembly.contract, assembly.schema
    terms = Collaboration.of(contract)
    handed: dict[str, ProviderRecords] = {}
    for name in contract.parties:
        handed[name] = yield Receive(name, ProviderRecords)
    started = time.perf_counter()
    told = told_schema(contract, handed)
    table = joined(contract, handed, schema if schema is not None else told)
    left_out = tuple(dict.fromkeys(name for message in handed.values() for name in message.left_out))
    del handed
    if not terms.at_public_places:
        return _by_algorithm(assembly, table, left_out, started)

    sides = public_settings(contract, table)
    left, finished = yield from cut_from_start(
        contract, sides, [judges for _, judges in sides], None, assembly.on_stage
    )
    suppressed = len(table) - int(left.size)
    if suppressed:
        table = table.take(left)
    raw = table.arrow
    cells = {name: raw.column(name) for name in (*contract.release_order, provider_column(contract))}
    for cut in finished:
        cells |= {name: pa.chunked_array([labels]) for name, labels in cut.labels().items()}
    seconds = {"protocol": time.perf_counter() - started}
    beside = compare(table, Table(pa.table(cells)), qid_names(contract))
    return joined_release(
        assembly,
        requirement_of(contract),
        pa.table(cells),
        {name: with_suppressed(loss, int(left.size), suppressed) for name, loss in losses_of(finished).items()},
        dropped=left_out,
        settings=_settings(contract),
        seconds=seconds,
        suppressed=suppressed,
        query_error=query_error(beside, seed=assembly.seed),
    )


def public_settings(contract: Contract, table: Table) -> list[tuple[Settings, list[CountingJudge]]]:
    """Return settings and judges of each set of linked QIDs, for one table of all records with their providers."""
    signals = {name: each.signals(table.column(name)) for name, each in ranges_of(table, qid_names(contract)).items()}
    coded = table.coded(provider_column(contract))
    number = np.array([contract.parties.index(label) for label in coded.labels], np.int64)
    providers = number[coded.codes]
    sizes = [1 << rounded_size(count) for count in value_counts(providers, len(contract.parties)).tolist()]
    criteria = criteria_of(contract)
    sensitive = {
        name: sensitive_codes(table, name, all_values([values_of(table, name)])) for name in sensitive_names(criteria)
    }
    for criterion in criteria:
        criterion.bind([sensitive[name].labels for name in criterion.attributes])
    return [
        (
            settings_of(contract, table, qids, signals, providers, sizes),
            [
                CountingJudge(qid.criterion, providers, [sensitive[name] for name in qid.criterion.attributes])
                for qid in qids
            ],
        )
        for qids in qids_of(contract)
    ]


def _by_algorithm(assembly: Assembly, table: Table, left_out: tuple[str, ...], started: float) -> VerifiedRelease:
    """Run an algorithm that needs all counts: for a trusted third party only."""
    contract, provenance, algorithm = assembly.contract, assembly.provenance, algorithm_of(assembly.contract)
    refuse_unknown_values(contract.requirement.parts, table.coded)
    others = {*qid_names(contract), contract.class_name}
    names = [name for name in contract.release_order if name not in others]
    kept = [provider_column(contract)] if contract.keep_provider else []
    made = anonymised(table, requirement_of(contract), algorithm, sensitive=[*names, *kept], missing="error")
    seconds = {"protocol": time.perf_counter() - started}
    return VerifiedRelease.measured(
        shuffled(made.cells),
        made.verdicts,
        made.comparison,
        steps=made.outcome.steps,
        rows=rows_read(assembly, made.comparison),
        dropped_rows=provenance.dropped_rows,
        dropped=left_out,
        settings={
            **parties_of(contract),
            "algorithm": algorithm.settings(),
            "class": algorithm.target,
            **_settings(contract),
            **provenance.settings,
        },
        seconds=seconds,
        providers=made.providers,
        query_error=made.queries(algorithm, assembly.seed),
    )


def _assembled(assembly: Assembly) -> Script[VerifiedRelease]:
    contract = assembly.contract
    sensitive = sensitive_names(criteria_of(contract))
    if sensitive:
        yield from _gather_values(contract, sensitive)
    handed: dict[str, Rows] = {}
    for name in contract.parties:
        handed[name] = yield Receive(name, Rows)
    rows = {
        name: read_rows(
            message.table, name, contract.release_order, contract.most_records, may_be_none=message.suppressed > 0
        )
        for name, message in handed.items()
    }
    if not any(table.num_rows for table in rows.values()):
        raise PeerBrokeProtocol("", "no provider handed in a record, though some group may stand")
    cells = stacked(rows, provider_column(contract))
    for name, message in handed.items():
        check_losses(name, set(qid_names(contract)), message.losses)
        if not all(np.isfinite(seconds) and seconds >= 0 for seconds in message.seconds.values()):
            raise PeerBrokeProtocol(name, "told that something took no time that there is")
        if message.suppressed and not (contract.bounded and 0 < message.suppressed <= contract.most_records):
            raise PeerBrokeProtocol(name, f"says that it left {message.suppressed} records out")
    left_out = tuple(dict.fromkeys(name for message in handed.values() for name in message.left_out))
    seconds = {
        part: max(message.seconds.get(part, 0.0) for message in handed.values()) for part in ("prepare", "protocol")
    }
    suppressed = sum(message.suppressed for message in handed.values())
    having = {name: table.num_rows for name, table in rows.items() if table.num_rows}
    losses = {
        attribute: with_suppressed(
            joined_losses([handed[name].losses[attribute] for name in having], [*having.values()]),
            cells.num_rows,
            suppressed,
        )
        for attribute in qid_names(contract)
    }
    return joined_release(
        assembly,
        requirement_of(contract),
        cells,
        losses,
        dropped=left_out,
        settings=_settings(contract),
        seconds=seconds,
        suppressed=suppressed,
        query_error=joined_error(
            [handed[name].query_error for name in having], [*having.values()], "each provider's own records"
        ),
    )


def _gather_values(contract: Contract, names: Sequence[str]) -> Script[None]:
    """Collect all providers' sensitive values, and send every provider the union."""
    lists: list[list[tuple[str, ...]]] = [[] for _ in names]
    for provider in contract.parties:
        told = yield Receive(provider, Values)
        checked_length("lists of sensitive values", len(told.values), len(names), provider)
        for at, name in enumerate(names):
            if not all(is_value(value, name) for value in told.values[at]):
                raise PeerBrokeProtocol(provider, f"sent values of {name} that are none")
            lists[at] += told.values[at]
    yield Send(contract.parties, Values(tuple(all_values([values]) for values in lists)))


def _settings(contract: Contract) -> dict[str, object]:
    terms = Collaboration.of(contract)
    return {"third_party": terms.third_party, "choose": terms.choose}


# --- joined records -----------------------------------------------------------------------------------------
# The records of all providers at a trusted third party: read, checked against their common schema, and joined.
#
# Records that do not fit are reported as their provider's fault, in words that show no cell.


def told_schema(contract: Contract, handed: Mapping[str, ProviderRecords]) -> Schema:
    """Return the schema that all providers sent; attributes that are not generalised have only a name."""
    names, first = qid_names(contract), contract.parties[0]
    told = {name: read_schema(message.schema, name, names) for name, message in handed.items()}
    for name, message in handed.items():
        for ours, theirs in zip(handed[first].schema, message.schema, strict=True):
            if how := difference(ours, theirs):
                raise PeerBrokeProtocol(name, f"generalises attribute {theirs.name} otherwise than {first} does: {how}")
    known = {attribute.name: attribute for attribute in told[first]}
    columns = [column.name for column in contract.columns if column.role == "attribute"]
    return Schema(known.get(name, Attribute(name)) for name in columns)


def joined(contract: Contract, handed: Mapping[str, ProviderRecords], schema: Schema) -> Table:
    """Stack all records, with their providers; raise PeerBrokeProtocol for records that do not fit."""
    parts = {
        name: _with_dates(read_rows(message.table, name, contract.release_order, contract.most_records), schema)
        for name, message in handed.items()
    }
    for name, part in parts.items():
        for column in part.column_names:
            if missing_rows(part.column(column), ()) is not None:
                raise PeerBrokeProtocol(name, f"handed in column {column} with missing cells")
    stack = Table(stacked(parts, provider_column(contract)), schema, origin=Origin("the joined records"))
    table = agreed_table(stack, contract.attributes)
    try:
        refuse_unusable(contract, table)
    except BadInput:  # its text may show another provider's cell
        for name, part in parts.items():
            try:
                refuse_unusable(contract, Table(part, table.schema))
            except BadInput:
                raise PeerBrokeProtocol(name, "handed in records that do not fit how they are generalised") from None
        raise DataError(
            "the joined records: they fit the schema at each provider, but not together; "
            "columns of a quasi-identifier must be stored alike everywhere"
        ) from None
    return table


def _with_dates(part: pa.Table, schema: Schema) -> pa.Table:
    """Convert dates, which providers may store with a time of day or as text, to one type for stacking."""
    for at, name in enumerate(part.column_names):
        if name in schema and schema[name].kind == "date" and pa.types.is_timestamp(part.column(at).type):
            part = part.set_column(at, name, part.column(at).cast(pa.date32(), safe=False))
    return part
