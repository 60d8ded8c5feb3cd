"""A commitment to a table that reveals nothing of it; an auditor who gets the table and a key can check both.

Each column is cut into chunks of rows, each chunk is hashed, and the hashes are joined in a Merkle tree; the tree's
root, keyed, is the column's commitment. The table's commitment is a hash over those of its columns. So one column can
be checked without the others, with a key that opens no other column.

The key of a snapshot is derived from the dataset's secret and the snapshot's content: the same table has the same
commitment, by which a ledger and a cache recognise it, and a key given to an auditor opens one snapshot, not those
before and after.

Cells are hashed by type: text as UTF-8 byte for byte, integers of any width alike (17.0 too, where all numbers of a
column are whole), NaN as null. The text "17" and the number 17 are different, so an audit reads the table from the
same kind of source. Row order counts; column order does not.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from masquerade.data import Table, TableFile, is_text, texts
from masquerade.errors import DataError, ParameterError, hint
from masquerade.files import read_file
from masquerade.forms import json_decoder
from masquerade.service.agree.signing import SignedContract
from masquerade.service.agree.terms import Provision
from masquerade.service.canonical import digest

CHUNK = 1 << 16  # rows
KEY_BYTES = 32

_EXACT = 2**53  # every whole number up to it is a float


class Commitment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a party publishes: the root, which the contract names, and the column commitments behind it."""

    root: str
    columns: dict[str, str]


@dataclass(frozen=True)
class Snapshot:
    """What a party keeps: the commitment, and the key that opens it."""

    commitment: Commitment
    key: bytes = field(repr=False)


def make_secret() -> bytes:
    """Make a secret for a dataset from the system's randomness."""
    return secrets.token_bytes(KEY_BYTES)


def take_snapshot(table: Table, secret: bytes) -> Snapshot:
    """Commit to a table with a key of its own."""
    _check_key(secret)
    roots = _roots(table)
    whole = digest({name: root.hex() for name, root in roots.items()})
    key = keyed(secret, "snapshot", whole)
    return Snapshot(_committed(roots, key), key)


def commit(table: Table, key: bytes) -> Commitment:
    """Commit to a table under a snapshot's key."""
    _check_key(key)
    return _committed(_roots(table), key)


def column_key(key: bytes, name: str) -> bytes:
    """Derive the key that opens one column of a snapshot, which an auditor needs to check it."""
    return keyed(key, "column", name.encode())


def check_table(root: str, table: Table, key: bytes) -> bool:
    """Return whether this is the table that was committed to."""
    return hmac.compare_digest(commit(table, key).root, root)


def check_column(root: str, commitment: Commitment, name: str, cells: Any, key: bytes) -> bool:
    """Return whether these are the cells of a column of the table that was committed to.

    `root` is the one that the contract names; `commitment` and the column's `key` are what the party shows now.
    """
    _check_key(key)
    if name not in commitment.columns:
        known = commitment.columns
        raise ParameterError(f'the commitment has no column "{name}"{hint(name, known)}; it has {", ".join(known)}')
    column = cells if isinstance(cells, pa.ChunkedArray) else pa.chunked_array([pa.array(cells)])
    same = hmac.compare_digest(keyed(key, "root", _column_root(name, column)).hex(), commitment.columns[name])
    return same and hmac.compare_digest(_joined(commitment.columns), root)


def _committed(roots: dict[str, bytes], key: bytes) -> Commitment:
    columns = {name: keyed(column_key(key, name), "root", root).hex() for name, root in roots.items()}
    return Commitment(_joined(columns), columns)


def _joined(columns: dict[str, str]) -> str:
    return digest(columns).hex()


def keyed(key: bytes, what: str, content: bytes) -> bytes:
    """Return the digest of a content under a key, for one use of it."""
    return hmac.digest(key, f"masquerade {what}\0".encode() + content, "sha256")


def _check_key(key: bytes) -> None:
    if len(key) != KEY_BYTES:
        raise ParameterError(f"a snapshot's key has {KEY_BYTES} bytes; got {len(key)}")


def _roots(table: Table) -> dict[str, bytes]:
    """Compute each column's root, which must stay secret: with it, a guess at the cells could be confirmed."""
    return {name: _column_root(name, table.cells(name)) for name in table.arrow.column_names}


def _column_root(name: str, column: pa.ChunkedArray) -> bytes:
    kind, write = _writer(name, column)
    leaves = [
        hashlib.sha256(b"\0" + b"".join(write(_one(column.slice(start, CHUNK))))).digest()
        for start in range(0, len(column), CHUNK)
    ]
    head = struct.pack("<Q", len(column)) + struct.pack("<Q", len(kind)) + kind.encode()
    return hashlib.sha256(b"\2" + head + name.encode() + b"\0" + _merkle(leaves)).digest()


def _merkle(nodes: Sequence[bytes]) -> bytes:
    """Join leaves into a root; a node without a sibling moves up as it is, and no leaf can pass for a node."""
    if not nodes:
        return hashlib.sha256(b"\3").digest()
    while len(nodes) > 1:
        pairs = [b"".join(nodes[at : at + 2]) for at in range(0, len(nodes), 2)]
        nodes = [hashlib.sha256(b"\1" + pair).digest() if len(pair) > 32 else pair for pair in pairs]
    return nodes[0]


Writer = Callable[[pa.Array], list[bytes]]


def _writer(name: str, column: pa.ChunkedArray) -> tuple[str, Writer]:
    """Return the kind of a column's cells, and the function that encodes a chunk of them."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if is_text(kind):
        return "text", _text
    if pa.types.is_null(kind):
        return "null", lambda chunk: [struct.pack("<Q", len(chunk))]
    if pa.types.is_boolean(kind):
        return "boolean", lambda chunk: _fixed(chunk.cast(pa.uint8()).cast(pa.int64()))
    if pa.types.is_integer(kind) and (kind != pa.uint64() or _fits(column)):
        return "whole", lambda chunk: _fixed(chunk.cast(pa.int64()))
    if pa.types.is_floating(kind):
        if all(_all_whole(chunk) for chunk in column.chunks):
            return "whole", lambda chunk: _fixed(_without_nan(chunk).cast(pa.int64()))
        return "decimal", lambda chunk: _fixed(pc.add(_without_nan(chunk), 0.0))  # −0 is 0
    if pa.types.is_date(kind):
        return "date", lambda chunk: _fixed(chunk.cast(pa.date32()).cast(pa.int32()).cast(pa.int64()))
    if pa.types.is_timestamp(kind):
        return str(kind), lambda chunk: _fixed(chunk.cast(pa.int64()))
    try:
        texts(pa.nulls(0, kind))
    except (pa.ArrowException, TypeError):
        raise DataError(f"column {name}: cells of type {kind} cannot be committed to") from None
    written = "whole" if kind == pa.uint64() else str(kind)
    return f"{written} as text", lambda chunk: _text(pc.if_else(chunk.is_valid(), texts(chunk), None))


def _one(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array without dictionary encoding."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return pa.concat_arrays(column.chunks) if column.num_chunks != 1 else column.chunk(0)


def _text(chunk: pa.Array) -> list[bytes]:
    valid = _valid(chunk)
    filled = chunk.cast(pa.large_string()).fill_null("")
    offsets = np.frombuffer(filled.buffers()[1], np.int64)[filled.offset : filled.offset + len(filled) + 1]
    data = filled.buffers()[2]
    cells = b"" if data is None else memoryview(data)[int(offsets[0]) : int(offsets[-1])]
    return [struct.pack("<Q", len(chunk)), valid, (offsets - offsets[0]).astype("<i8").tobytes(), bytes(cells)]


def _fixed(chunk: pa.Array) -> list[bytes]:
    """Encode 64-bit integers and floats, nulls as 0."""
    values: NDArray[Any] = chunk.fill_null(0).to_numpy(zero_copy_only=False)
    written = values.astype("<i8" if values.dtype.kind == "i" else "<f8", copy=False)
    return [struct.pack("<Q", len(chunk)), _valid(chunk), written.tobytes()]


def _valid(chunk: pa.Array) -> bytes:
    flags: NDArray[np.bool_] = chunk.is_valid().to_numpy(zero_copy_only=False)
    return np.packbits(flags, bitorder="little").tobytes()


def _without_nan(chunk: pa.Array) -> pa.Array:
    wide = chunk.cast(pa.float64())
    return pc.if_else(pc.is_nan(wide), None, wide)


def _fits(column: pa.ChunkedArray) -> bool:
    """Return whether unsigned 64-bit numbers fit into 63 bits."""
    plain = column.cast(pa.uint64()) if pa.types.is_dictionary(column.type) else column
    largest = pc.max(plain).as_py()
    return largest is None or largest < 1 << 63


def _all_whole(chunk: pa.Array) -> bool:
    numbers = chunk.dictionary if pa.types.is_dictionary(chunk.type) else chunk
    wide = numbers.cast(pa.float64()).drop_null().to_numpy(zero_copy_only=False)
    real = wide[~np.isnan(wide)]
    return bool(np.all((np.abs(real) <= _EXACT) & (real == np.trunc(real))))


# --- snapshot key -------------------------------------------------------------------------------------------
# The key that a party gives an auditor with its table or one column of it: it opens the commitment to that.
#
#     key = key_of(table, secret, party="clinic", dataset="patients", column="disease")
#     fits(key, contract, "clinic", table)
#
# It opens one snapshot, or one column of it, and no other. The auditor trusts the root in the contract,
# which all parties signed; everything else in the key is checked against that root.


class SnapshotKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A key with everything needed to use it, as stored in its file (JSON). A secret."""

    party: str
    dataset: str
    snapshot: str
    columns: dict[str, str]  # the commitment to each
    key: str  # hexadecimal
    column: str | None = None  # None: it opens all of them
    separator: str | None = None  # how the party reads its table, where that is CSV
    encoding: str = "utf-8"

    def __repr__(self) -> str:
        return f"SnapshotKey({self.party}, {self.dataset}, {self.snapshot}, {self.column})"

    def table(self, source: str, query: str | None = None) -> Table:
        """Read the columns that this key opens, from a file or a database, as the party reads them."""
        columns = list(self.columns) if self.column is None else [self.column]
        read = TableFile(source, query, self.separator, self.encoding).read(columns)
        return Table(read.table, origin=read.origin)


def key_of(
    table: Table,
    secret: bytes,
    *,
    party: str,
    dataset: str,
    column: str | None = None,
    separator: str | None = None,
    encoding: str = "utf-8",
) -> SnapshotKey:
    """Make the key of a table, or of one of its columns, with its dataset's secret."""
    snapshot = take_snapshot(table, secret)
    commitment = snapshot.commitment
    if column is not None and column not in commitment.columns:
        known = commitment.columns
        raise ParameterError(
            f'{dataset}: no column "{column}" is committed to{hint(column, known)}; there are {", ".join(known)}'
        )
    key = snapshot.key if column is None else column_key(snapshot.key, column)
    return SnapshotKey(party, dataset, commitment.root, commitment.columns, key.hex(), column, separator, encoding)


def read_key(path: Path) -> SnapshotKey:
    """Read the key in a file; no error message shows any of it."""
    data = read_file(path)
    try:
        found = json_decoder(SnapshotKey).decode(data)
        bytes.fromhex(found.key)
    except (ValueError, RecursionError):
        raise ParameterError(f"{path}: not a key as `masquerade party snapshot-key` writes it") from None
    return found


def provision_of(contract: SignedContract, party: str) -> Provision:
    """Return what a party committed itself to contribute."""
    provision = contract.deal.terms.provision(party)
    if provision is None:
        raise ParameterError(
            f'"{party}" is none of the contract\'s parties{hint(party, contract.parties)}; they are '
            f"{', '.join(contract.parties)}"
        )
    return provision


def fits(key: SnapshotKey, contract: SignedContract, party: str, table: Table) -> bool:
    """Return whether a table, or the column that the key opens, is what the party committed to in a contract."""
    root, secret = provision_of(contract, party).snapshot, bytes.fromhex(key.key)
    if key.column is None:
        return check_table(root, table, secret)
    cells = table.cells(key.column)
    return check_column(root, Commitment(root, key.columns), key.column, cells, secret)
