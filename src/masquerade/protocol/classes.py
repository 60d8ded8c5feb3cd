"""The class of the common records, which all parties of a mashup share.

Either every party holds it: then every two parties test whether theirs are equal, and learn that one bit
(protocol/equality.py). Where two differ, all parties stop, since nobody can be equal to both; nobody is told how many
records differ, nor which. Or one party shares it with the others, because the contract says so.
"""

from __future__ import annotations

import hashlib

import numpy as np

from masquerade.data.column import Coded
from masquerade.errors import DataError, PeerBrokeProtocol
from masquerade.net.script import Message, Receive, Script, Send
from masquerade.protocol.contract import Contract
from masquerade.protocol.equality import who_differs


class ClassColumn(Message, tag="class-column", frozen=True):
    """The sender's classes of the common records: labels, and four bytes per record."""

    labels: tuple[str, ...]
    codes: bytes


def share_class(me: str, contract: Contract, own: Coded | None, n_rows: int) -> Script[Coded | None]:
    """Return the class of the common records, the same for all parties; None when the contract has none."""
    name = contract.class_name
    if name is None:
        return None
    if contract.class_from is None:
        assert own is not None
        yield from insist_on_same_classes(me, contract, own, n_rows)
        return own
    if contract.class_from == me:
        assert own is not None
        yield Send(tuple(party for party in contract.parties if party != me), _column(own))
        return own
    return _coded((yield Receive(contract.class_from, ClassColumn)), contract.class_from, name, n_rows)


def insist_on_same_classes(me: str, contract: Contract, own: Coded, n_rows: int) -> Script[None]:
    """Test with every other party whether it has the same classes; DataError where one has others."""
    number, session = contract.parties.index(me), b"same classes\0" + contract.hash
    different = yield from who_differs(number, contract.parties, _digest(own), session)
    if different:
        raise DataError(
            f"class {contract.class_name}: {me} has other classes than {', '.join(different)} for some of the {n_rows} "
            "common records; agree on them, or let one party share its class"
        )


def _digest(coded: Coded) -> bytes:
    digest = hashlib.sha256(len(coded.labels).to_bytes(4, "little"))
    for label in coded.labels:
        digest.update(len(label.encode()).to_bytes(4, "little") + label.encode())
    digest.update(coded.codes.astype("<u4").tobytes())
    return digest.digest()


def _column(coded: Coded) -> ClassColumn:
    return ClassColumn(coded.labels, coded.codes.astype("<u4").tobytes())


def _coded(message: ClassColumn, sender: str, name: str, n_rows: int) -> Coded:
    codes = np.frombuffer(message.codes, "<u4") if len(message.codes) == 4 * n_rows else None
    if codes is None or (codes.size and int(codes.max()) >= len(message.labels)):
        raise PeerBrokeProtocol(sender, f"sent classes that do not fit the {n_rows} common records")
    return Coded(name, codes.astype(np.int32), tuple(message.labels))
