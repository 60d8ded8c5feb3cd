"""One provider's part of a session: hand its records to a trusted third party, or take part without one.

Without one, all providers walk the same tree of cuts (`tree`), each with its own records; every question about
a part is answered by all of them jointly (`secret_counts`). Then each labels its own records and hands in the rows,
in random order. The assembler gets the rows of the release by provider, for it verifies against coalitions.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from masquerade.anonymize.release import shuffled
from masquerade.data.table import Table
from masquerade.data.taxonomy import Taxonomy
from masquerade.errors import Bug, DataError, ParameterError, PeerBrokeProtocol
from masquerade.net.progress import OnStage, Stage
from masquerade.net.script import Receive, Script, Send
from masquerade.protocol.collaborate import circuits
from masquerade.protocol.collaborate.axes import CategoryAxis
from masquerade.protocol.collaborate.counting import CountingJudge, SensitiveCodes
from masquerade.protocol.collaborate.criterion import Criterion
from masquerade.protocol.collaborate.domains import (
    SIGNALS,
    Bits,
    all_values,
    axis_of,
    is_value,
    ranges_of,
    sensitive_codes,
    values_of,
)
from masquerade.protocol.collaborate.joined_records import refuse_unusable
from masquerade.protocol.collaborate.messages import (
    Axes,
    Records,
    Rows,
    Size,
    Values,
    checked_length,
    plain_columns,
)
from masquerade.protocol.collaborate.secret_counts import SecretJudge
from masquerade.protocol.collaborate.shared_bits import SharedBits, prepare
from masquerade.protocol.collaborate.terms import (
    collaboration_of,
    column_names,
    criterion_of,
    provider_column,
    qid_names,
    refuse_impossible,
    refuse_private_leaves,
)
from masquerade.protocol.collaborate.tree import Group, Settings, partition, providers_apart
from masquerade.protocol.collaborate.written_schema import digest_of, write_schema
from masquerade.protocol.columns import Received, write_columns
from masquerade.protocol.contract import Contract
from masquerade.protocol.method import ASSEMBLER, Seat
from masquerade.utility.comparison import compare
from masquerade.utility.losses import AttributeLoss
from masquerade.utility.queries import holders_error

MOST_SIZE_BITS = 40
CUTTING_OWN = Stage("cutting", detail="its own groups")  # their number stays private


def provider(seat: Seat) -> Script[int]:
    """Run this provider's part. Return how many of its records are released.

    What `seat.on_stage` raises ends the session, too: the only way to stop a long computation
    that waits for nobody.
    """
    contract, table, left_out = seat.contract, seat.table, seat.left_out
    on_stage = seat.on_stage
    refuse_impossible(contract)
    if not len(table):
        raise DataError.about(table.origin.name, "no complete row is left")
    handed: Records | Rows
    if collaboration_of(contract).third_party == "trusted":
        on_stage(Stage("preparing the records"))
        handed = _records(contract, table, tuple(left_out))
    else:
        refuse_private_leaves(contract, table.schema)
        refuse_unusable(contract, table)
        seat.before_showing()
        handed = yield from _without_third_party(seat.name, contract, table, tuple(left_out), on_stage)
    seat.before_showing()
    on_stage(Stage("handing in"))
    yield Send((ASSEMBLER,), handed)
    del handed  # the assembler may take its time
    yield Receive(ASSEMBLER, Received)
    return len(table)


def _records(contract: Contract, table: Table, left_out: tuple[str, ...]) -> Records:
    """Return this provider's records unchanged, after checking that the third party can use them."""
    names = column_names(contract)
    schema = write_schema(table.schema, qid_names(contract))
    refuse_unusable(contract, table)
    cells = plain_columns({each: table.standard_cells(each) for each in names}, names)
    return Records(write_columns(cells), left_out, schema)


def _without_third_party(
    name: str, contract: Contract, table: Table, left_out: tuple[str, ...], on_stage: OnStage
) -> Script[Rows]:
    criterion = criterion_of(contract)
    me = contract.parties.index(name)
    started = time.perf_counter()
    on_stage(Stage("preparing the circuits"))
    yield from _compare_axes(name, contract, table)
    shared = yield from prepare(me, contract.parties, contract.hash)
    sensitive = yield from _agree_on_values(criterion, table)
    sizes: list[int] = []
    if collaboration_of(contract).provider_aware or criterion.on_counts:
        sizes = yield from _agree_on_sizes(shared, len(table))
    settings = yield from _settings(shared, contract, table, criterion, sizes)
    prepared = time.perf_counter()

    def on_round(tried: int, groups: int) -> None:
        on_stage(Stage("cutting", tried=tried, detail=f"{groups} groups at work"))

    on_stage(Stage("cutting"))
    own = CountingJudge(criterion, np.full(len(table), me, np.int64), sensitive)
    secret = SecretJudge(criterion, shared, sensitive, sum(sizes))
    groups = yield from partition(settings, secret, own, me, on_round, lambda *_: on_stage(CUTTING_OWN))
    cells = labelled(contract, table, settings, groups)
    finished = time.perf_counter()
    return Rows(
        write_columns(shuffled(cells)),
        losses_of_groups(settings, groups),
        left_out,
        {"prepare": prepared - started, "protocol": finished - prepared},
        holders_error(compare(table, Table(cells), qid_names(contract))),
    )


def labelled(contract: Contract, table: Table, settings: Settings, groups: Sequence[Group]) -> pa.Table:
    """Return this provider's rows of the release, in its own order."""
    of_row = groups_of_rows(settings, groups)
    if (of_row < 0).any():
        raise Bug("some record is in no group; nothing was handed in")
    columns: dict[str, pa.Array | pa.ChunkedArray] = {
        each: table.cells(each) for each in column_names(contract)
    }
    for at, axis in enumerate(settings.released):
        cells = pa.array([axis.label(group.cells[at]) for group in groups], pa.string())
        columns[axis.name] = cells.take(pa.array(of_row))
    return plain_columns(columns, column_names(contract))


def groups_of_rows(settings: Settings, groups: Sequence[Group]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return each row's group number; −1 for a row in none."""
    of_row = np.full(settings.ranks[0].size, -1, np.int64)
    for number, group in enumerate(groups):
        of_row[group.rows] = number
    return of_row


def losses_of_groups(settings: Settings, groups: Sequence[Group]) -> dict[str, AttributeLoss]:
    """Measure what each attribute loses over this holder's rows."""
    of_row = groups_of_rows(settings, groups)
    return {
        axis.name: axis.loss(settings.ranks[at], [group.cells[at] for group in groups], of_row)
        for at, axis in enumerate(settings.released)
    }


def provider_axis(contract: Contract) -> CategoryAxis:
    """Return the providers as a flat taxonomy."""
    # The names are public; providers are numbered in the contract's order.
    return CategoryAxis(provider_column(contract), Taxonomy.flat(contract.parties, "(all)"))


def _settings(
    shared: SharedBits, contract: Contract, table: Table, criterion: Criterion, sizes: Sequence[int]
) -> Script[Settings]:
    terms = collaboration_of(contract)
    names = qid_names(contract)
    asked = ranges_of(table, names)
    signals: dict[str, Bits] = {}
    if asked:
        own = np.concatenate([each.signals(table.column(name)) for name, each in asked.items()])
        found = yield from shared.evaluate(circuits.any_of(len(contract.parties)), own[None], "any")
        for at, name in enumerate(asked):
            signals[name] = found[0, at * SIGNALS : (at + 1) * SIGNALS]
    apart = providers_apart(sizes, contract.m) if terms.provider_aware else ()
    axes, ranks = zip(*(axis_of(table, name, signals.get(name)) for name in names), strict=True)
    return Settings(
        (*axes, provider_axis(contract)),
        (*ranks, np.full(len(table), shared.me, np.int64)),
        criterion.k,
        terms.strict,
        bool(terms.provider_aware),
        apart,
    )


def _compare_axes(name: str, contract: Contract, table: Table) -> Script[None]:
    """Check that all providers generalise alike; otherwise they would walk different trees."""
    names = qid_names(contract)
    own = tuple(digest_of(each, contract.hash) for each in write_schema(table.schema, names))
    peers = tuple(each for each in contract.parties if each != name)
    yield Send(peers, Axes(own))
    told = {}
    for peer in peers:
        heard = yield Receive(peer, Axes)
        checked_length("digests of attributes", len(heard.digests), len(own), peer)
        told[peer] = heard.digests
    for at, attribute in enumerate(names):
        others = [peer for peer in peers if told[peer][at] != own[at]]
        if not others:
            continue
        held = Counter([own[at], *(told[peer][at] for peer in peers)])
        if held.most_common(1)[0][1] > held[own[at]]:  # more of them agree with each other than with us
            raise ParameterError(
                f"attribute {attribute}: our kind, taxonomy or bounds are not those of {', '.join(others)}"
            )
        raise PeerBrokeProtocol(
            others[0],
            f"generalises attribute {attribute} otherwise than we do: kind, taxonomy or bounds differ",
        )


def _agree_on_values(criterion: Criterion, table: Table) -> Script[list[SensitiveCodes]]:
    """Exchange values through the assembler, which sees them in the rows anyway; the others will, in the release."""
    names = criterion.attributes
    if not names:
        return []
    yield Send((ASSEMBLER,), Values(tuple(tuple(values_of(table, name)) for name in names)))
    told = yield Receive(ASSEMBLER, Values)
    codes = []
    for at, name in enumerate(names):
        values = told.values[at] if len(told.values) == len(names) else ()
        own = set(values_of(table, name))
        if not own <= set(values) or not all(is_value(value, name) for value in values):
            raise PeerBrokeProtocol(ASSEMBLER, f"sent values of {name} that do not fit ours")
        codes.append(sensitive_codes(table, name, all_values([values])))
    criterion.bind([each.labels for each in codes])
    return codes


def rounded_size(records: int) -> int:
    """Return the binary digits of the number of records, the only size that providers reveal to each other."""
    return int(records).bit_length()


def _agree_on_sizes(shared: SharedBits, records: int) -> Script[list[int]]:
    own = rounded_size(records)
    yield Send(shared.peers, Size(own))
    sizes = []
    for name in shared.parties:
        bits = own
        if name in shared.peers:
            told = yield Receive(name, Size)
            bits = told.bits
            if not 0 <= bits <= MOST_SIZE_BITS:
                raise PeerBrokeProtocol(name, f"says that it has about 2^{bits} records")
        sizes.append(1 << bits)
    return sizes
