"""Unit vectors at places that two parties share: the messages of `crypto/unit_vectors`, a batch at a time.

Messages that wait for each other: 2·⌈log₂(size / 8)⌉ + 6. Who learns what: the numbers of vectors and of places, which
are public.
"""

from __future__ import annotations

import numpy as np

from masquerade.crypto.pseudorandom_row_sums import Word, Words, random_words
from masquerade.crypto.unit_vectors import LANES, UnitVectors
from masquerade.net.script import Message, Receive, Script, Send
from masquerade.protocol.blaming import blaming
from masquerade.protocol.joint_histogram.histogram import Labels
from masquerade.protocol.joint_histogram.pair import Pair


class VectorBits(Message, tag="vector-ask", frozen=True):
    """A party's shares of some places' digits, or of signs, hidden in transfers."""

    columns: bytes


class VectorProducts(Message, tag="vector-products", frozen=True):
    """What a party's numbers would be times the other's bits, masked."""

    masked: bytes


class VectorCorrections(Message, tag="vector-corrections", frozen=True):
    """A party's shares of what corrects both parties' trees."""

    shares: bytes


def unit_vectors(
    pair: Pair, vectors: UnitVectors, places: Labels, *, offers: bool, word: Word
) -> Script[Words]:
    """Return this party's shares of unit vectors, from those of their places; one party offers tables."""
    peer = (pair.peer,)
    yield Send(peer, VectorBits(vectors.begin(places)))
    asked = yield Receive(pair.peer, VectorBits)
    with blaming(pair.peer):
        vectors.hear(asked.columns)
    for _ in range(vectors.depth):
        yield Send(peer, VectorProducts(vectors.grow()))
        products = yield Receive(pair.peer, VectorProducts)
        with blaming(pair.peer):
            correction = vectors.correct(products.masked)
        yield Send(peer, VectorCorrections(correction))
        told = yield Receive(pair.peer, VectorCorrections)
        with blaming(pair.peer):
            vectors.descend(told.shares)
    if offers:
        low = random_words((len(places), LANES), word)
        asked = yield Receive(pair.peer, VectorBits)
        with blaming(pair.peer):
            tables = pair.table_sender.offer(asked.columns, vectors.table(low))
        yield Send(peer, VectorProducts(tables))
    else:
        yield Send(peer, VectorBits(pair.table_receiver.ask(vectors.low, LANES)))
        products = yield Receive(pair.peer, VectorProducts)
        with blaming(pair.peer):
            heard = pair.table_receiver.receive(products.masked, LANES * word.itemsize)
        low = np.ascontiguousarray(heard).view(word)
    yield Send(peer, VectorBits(vectors.finish(low)))
    asked = yield Receive(pair.peer, VectorBits)
    with blaming(pair.peer):
        signed = vectors.multiply(asked.columns)
    yield Send(peer, VectorProducts(signed))
    products = yield Receive(pair.peer, VectorProducts)
    with blaming(pair.peer):
        correction = vectors.tell(products.masked)
    yield Send(peer, VectorCorrections(correction))
    told = yield Receive(pair.peer, VectorCorrections)
    with blaming(pair.peer):
        return vectors.vectors(told.shares)
