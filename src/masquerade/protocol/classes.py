"""The class of the common records, which all parties of a mashup share.

Either every party holds it: then digests are compared, and nothing is shown if they agree. If they do not, the
first party gets all parties' classes and counts the records that disagree; the error says how many, not which. Or one
party shares it with the others, because the contract says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from masquerade.data.column import Coded
from masquerade.errors import DataError, PeerBrokeProtocol
from masquerade.net.script import Message, Receive, Script, Send
from masquerade.protocol.contract import Contract


class ClassDigest(Message, tag="class-digest", frozen=True):
    """A digest of the sender's classes, keyed with the session."""

    digest: bytes


class ClassColumn(Message, tag="class-column", frozen=True):
    """The sender's classes of the common records: labels, and four bytes per record."""

    labels: tuple[str, ...]
    codes: bytes


class Disagreement(Message, tag="disagreement", frozen=True):
    """How many common records have different classes at different parties."""

    records: int


def share_class(me: str, contract: Contract, own: Coded | None, n_rows: int) -> Script[Coded | None]:
    """Return the class of the common records, the same for all parties; None when the contract has none."""
    name = contract.class_name
    if name is None:
        return None
    peers = tuple(party for party in contract.parties if party != me)
    if contract.class_from is not None:
        if contract.class_from == me:
            assert own is not None
            yield Send(peers, _column(own))
            return own
        return _coded((yield Receive(contract.class_from, ClassColumn)), contract.class_from, name, n_rows)
    assert own is not None
    digest = _digest(own, contract.hash)
    yield Send(peers, ClassDigest(digest))
    others = {}
    for party in peers:
        others[party] = (yield Receive(party, ClassDigest)).digest
    different = [party for party, other in others.items() if other != digest]
    if not different:
        return own
    records = yield from _count_disagreements(me, contract.parties, own, name, n_rows)
    if records == 0:
        raise PeerBrokeProtocol(different[0], "sent a digest that is not that of its classes")
    raise DataError(
        f"class {name}: {records} of {n_rows} common records have different classes at different parties; "
        "agree on them, or let one party share its class"
    )


def _count_disagreements(me: str, parties: Sequence[str], own: Coded, name: str, n_rows: int) -> Script[int]:
    first, others = parties[0], tuple(parties[1:])
    if me != first:
        yield Send((first,), _column(own))
        heard: Disagreement = yield Receive(first, Disagreement)
        return heard.records
    differs = np.zeros(n_rows, bool)
    mine = np.array(own.labels, object)[own.codes]
    for party in others:
        coded = _coded((yield Receive(party, ClassColumn)), party, name, n_rows)
        differs |= np.array(coded.labels, object)[coded.codes] != mine
    records = int(np.count_nonzero(differs))
    yield Send(others, Disagreement(records))
    return records


def _digest(coded: Coded, session: bytes) -> bytes:
    digest = hashlib.sha256(session)
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
