"""The key that a party gives an auditor with its table or one column of it: it opens the commitment to that.

    key = key_of(table, secret, party="clinic", dataset="patients", column="disease")
    fits(key, contract, "clinic", table)

It opens one snapshot, or one column of it, and no other. The auditor trusts the root in the contract, which all
parties signed; everything else in the key is checked against that root.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from masquerade.data.read import TableFile
from masquerade.data.table import Table
from masquerade.errors import ParameterError, hint
from masquerade.files import read_file
from masquerade.forms.decoders import json_decoder
from masquerade.service.signing import SignedContract
from masquerade.service.snapshot import Commitment, check_column, check_table, take_snapshot
from masquerade.service.terms import Provision


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
    key = snapshot.key if column is None else snapshot.column_key(column)
    return SnapshotKey(
        party, dataset, commitment.root, commitment.columns, key.hex(), column, separator, encoding
    )


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
