"""The join of the DkA paper (§1.2): the two parties join their released records under encryption, without a third.

The records are already in one order that both know (`align` compares the encrypted identifiers of the paper's Figure
1), so that the join itself is simple; what must be lost is who is in which row:

    P1 → P2   the number of each record's row of cells, encrypted under P1's key (Okamoto–Uchiyama), in the common order
    P2 → P1   the same ciphertexts with fresh noise, shuffled and then sorted by P2's cells, and those cells beside them
    P1 → P2   the rows, decrypted and joined: the release, sorted

P1 sees nothing but joined rows, since it recognises neither noise nor order; P2 sees ciphertexts, and the sorted
release. Each checks what it can before it goes on: P1 that it gets its own rows back, each as often as it gave it, and
that the release satisfies the requirement, before P2 sees any of it; P2 that its own cells are in it unchanged.

Who learns what: both parties the release. P1 is the first of the contract. A P1 that lies may number the records
instead of their rows and so learn P2's cells of each of its people: the paper's bound, "at most the other party's
locally k-anonymous data" (§7). A P2 that lies learns a release that satisfies, or nothing.

Cost for n records: n encryptions and decryptions at P1, n fresh noises at P2; 2·256·n bytes and the cells. Messages
that wait for each other: 3.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from masquerade.crypto import OkamotoUchiyamaPublic, SecretKey, generate_okamoto_uchiyama, random_bytes
from masquerade.data import Origin, Table, distinct
from masquerade.engine import Rows, first_rows, group_rows
from masquerade.errors import PeerBrokeProtocol
from masquerade.net import Message, Receive, Script, Send
from masquerade.privacy import Requirement, insist, verify
from masquerade.protocol.hand_in import BadStream, read_stream, write_columns
from masquerade.protocol.pairs import received, slices

_BATCH = 1 << 14  # ciphertexts in one message: 4 MB


class JoinKey(Message, tag="join-key", frozen=True):
    """P1's public key."""

    key: bytes


class EncryptedRows(Message, tag="join-rows", frozen=True):
    """The encrypted numbers of P1's rows for some records."""

    rows: bytes


class PairedCells(Message, tag="join-cells", frozen=True):
    """P2's cells, sorted: one record beside each ciphertext."""

    table: bytes


class JoinedCells(Message, tag="join-release", frozen=True):
    """The joined rows, sorted."""

    table: bytes


def join_first(
    peer: str,
    own: pa.Table,
    theirs: Sequence[str],
    order: Sequence[str],
    requirement: Requirement,
    key: SecretKey | None = None,
) -> Script[pa.Table]:
    """Run P1's part. Return the joined table.

    `own` are this party's cells of the released records in the common order, `theirs` the names of the other's columns,
    `order` those of all columns of the release. `key` is made here unless given.
    """
    own = _plain(own)
    # Number the distinct rows: each record's number, and a record of each number.
    coded = [(codes, len(values)) for codes, values in map(distinct, own.columns)]
    numbers, n_distinct = group_rows(coded, own.num_rows)
    firsts = first_rows(numbers, n_distinct)
    key = generate_okamoto_uchiyama() if key is None else key
    public = key.public
    yield Send((peer,), JoinKey(public.to_bytes()))
    for part in slices(own.num_rows, _BATCH):
        ciphertexts = [key.encrypt(int(number)) for number in numbers[part]]
        yield Send((peer,), EncryptedRows(public.encode(ciphertexts)))
    found: list[int] = []
    for part in slices(own.num_rows, _BATCH):
        ciphertexts = yield from received(peer, EncryptedRows, public.decode, part.stop - part.start)
        found += map(key.decrypt, ciphertexts)
    if sorted(found) != sorted(numbers.tolist()):
        raise PeerBrokeProtocol(peer, "returned other rows than it was given to join")
    beside = _read(peer, (yield Receive(peer, PairedCells)).table, theirs, own.num_rows)
    mine = own.take(pa.array(firsts[np.array(found, np.intp)]))
    cells = dict(zip((*mine.column_names, *theirs), (*mine.columns, *beside.columns), strict=True))
    joined = _in_order(pa.table({name: cells[name] for name in order}))
    _check(joined, requirement)
    yield Send((peer,), JoinedCells(write_columns(joined)))
    return joined


def join_second(peer: str, own: pa.Table, order: Sequence[str], requirement: Requirement) -> Script[pa.Table]:
    """Run P2's part. Return the joined table."""
    own = _plain(own)
    public = yield from received(peer, JoinKey, OkamotoUchiyamaPublic.from_bytes)
    ciphertexts: list[int] = []
    for part in slices(own.num_rows, _BATCH):
        ciphertexts += yield from received(peer, EncryptedRows, public.decode, part.stop - part.start)
    shuffled = np.argsort(np.frombuffer(random_bytes(8 * own.num_rows), np.uint64), kind="stable")
    way = shuffled[_sorting(own.take(pa.array(shuffled)))]
    for part in slices(own.num_rows, _BATCH):
        renewed = [public.rerandomise(ciphertexts[at]) for at in way[part]]
        yield Send((peer,), EncryptedRows(public.encode(renewed)))
    mine = own.take(pa.array(way))
    yield Send((peer,), PairedCells(write_columns(mine)))
    joined = _read(peer, (yield Receive(peer, JoinedCells)).table, order, own.num_rows)
    if not _same_cells(_in_order(joined.select(own.column_names)), mine):
        raise PeerBrokeProtocol(peer, "joined other cells than it was given")
    _check(joined, requirement)
    return joined


def _read(peer: str, data: bytes, names: Sequence[str], n_records: int) -> pa.Table:
    try:
        table = read_stream(data, names, n_records)
    except BadStream as error:
        raise PeerBrokeProtocol(peer, f"sent cells that cannot be read: {error}") from None
    if table.column_names != list(names) or table.num_rows != n_records:
        raise PeerBrokeProtocol(
            peer, f"sent other columns or records than the {n_records} records of {', '.join(names)}"
        )
    return _plain(table)


def _same_cells(left: pa.Table, right: pa.Table) -> bool:
    if left.schema != right.schema:
        return False
    n = left.num_rows
    codes = [distinct(column)[0] for column in pa.concat_tables([left, right]).columns]  # by which NaN is NaN
    return all(np.array_equal(each[:n], each[n:]) for each in codes)


def _check(joined: pa.Table, requirement: Requirement) -> None:
    insist(verify(Table(joined, origin=Origin("the joined release")), requirement, bind=False))


def _plain(table: pa.Table) -> pa.Table:
    """Return the cells without dictionaries, which have an order of their own, each column in one piece."""
    columns = {
        name: column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    return pa.table(columns).combine_chunks()


def _in_order(table: pa.Table) -> pa.Table:
    return table.take(pa.array(_sorting(table)))


def _sorting(table: pa.Table) -> Rows:
    """Return the order that sorts the rows by their cells; equal rows stay as they are."""
    keys = [(name, "ascending") for name in table.column_names]
    return np.asarray(pc.sort_indices(table, sort_keys=keys))
