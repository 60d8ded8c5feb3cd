"""Any bytes as each message of an alignment by pseudo-random functions: taken, or the error that names its sender."""

from __future__ import annotations

import numpy as np

from fuzz.oracle import PEER, allowing
from masquerade.crypto import ItemStore, PrfReceiver, PrfSender, StoreLayout
from masquerade.crypto.oblivious_prf import ANSWER_BYTES
from masquerade.errors import PeerError
from masquerade.protocol.align.oprf import (
    CommonPlaces,
    CommonValues,
    Items,
    PrfOutputs,
    PrfValues,
    ShareStore,
    _named_rows,
    _places,
    _slots,
    _sorted_values,
)
from masquerade.protocol.pairs import blaming

ITEMS = Items.of([b"one", b"two", b"three"], b"fuzz")
OWN = PrfOutputs(np.array([9, 5, 7], np.uint64), np.zeros(3, np.uint64))
RECEIVER, SENDER = PrfReceiver(b"fuzz"), PrfSender(b"fuzz", ITEMS.family)
_HALVES = RECEIVER.setup(), SENDER.setup()
RECEIVER.finish_setup(_HALVES[1])
SENDER.finish_setup(_HALVES[0])
STORE = ItemStore(ITEMS.digests, 3, ITEMS.family)


def fuzz(data: bytes) -> None:
    with allowing(PeerError):
        _sorted_values(PrfValues(data), PEER, 3, 8)
    with allowing(PeerError):
        assert _places(CommonPlaces(data), PEER, 5).max(initial=0) < 5
    with allowing(PeerError):
        _slots(ShareStore(data), PEER, StoreLayout(3))
    with allowing(PeerError):
        rows = _named_rows(CommonValues(data), PEER, OWN, 8)
        assert len(set(rows.tolist())) == len(rows) <= 3
    with allowing(PeerError), blaming(PEER):
        PrfReceiver(b"other").finish_setup(data)
    with allowing(PeerError), blaming(PEER):
        RECEIVER.query(STORE).answer(data)
    held = SENDER.store(3)
    with allowing(PeerError), blaming(PEER):
        held.take(data)
    if len(data) == ANSWER_BYTES:
        (columns,) = RECEIVER.query(STORE).messages()
        held = SENDER.store(3)
        held.take(columns)
        held.challenge()
        with allowing(PeerError), blaming(PEER):
            held.check(data)


def seeds() -> dict[str, bytes]:
    (columns,) = RECEIVER.query(STORE).messages()
    return {
        "values": np.array([5, 7, 9], np.uint64).tobytes(),
        "named-twice": np.array([5, 5], np.uint64).tobytes(),
        "places": b"\x15",
        "outside": b"\xff",
        "slots": bytes(8 * StoreLayout(3).size),
        "seed": bytes(32),
        "answer": bytes(ANSWER_BYTES),
        "columns": columns,
    }
