"""Align two lists by an oblivious pseudo-random function: symmetric cryptography but for a few hundred transfers.

The party with the shorter list receives F at its identifiers, the other holds F (oprf_exchange.py). The holder sends F
of its own list, sorted, with as many bits as make a chance match unlikely (2⁻⁴⁰ for the whole session); the receiver
answers which of the values it has, too. Their order by F is the common order: F is keyed with secrets of both, so
nobody who later sees records in that order, the assembler for one, can test guesses at identifiers with it.

    who       learns
    both      which of its own people the other has; how long both lists are
    holder    nothing else: its view are masked columns and the answer
    receiver  nothing else: F at other identifiers than its own is random to it

    bytes     about 75 for each identifier of the shorter list, 10 for each of the longer, and a bit of each answer
    work      some 1 µs an identifier and party, and 464 base transfers (0.15 to 0.2 s each)

A receiver can put more identifiers into its stores than it announced, but not more than they can hold: 1.3 times as
many, and in theory 1.7 times, if ten billion identifiers are possible (docs/crypto.md). A holder can send values that
are F of nothing; they match nothing. An answer is one bit for each value that was sent, so nothing outside the list can
be claimed; what is claimed falsely the check of the people finds out (same_people.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from masquerade.crypto.bits import pack, unpack
from masquerade.crypto.group import OnDone
from masquerade.crypto.oblivious_prf import PrfReceiver, PrfSender
from masquerade.engine.counts import Rows
from masquerade.errors import PeerBrokeProtocol
from masquerade.net.script import Message, Receive, Script, Send
from masquerade.protocol.oprf_exchange import Items, evaluate, pair_text, query, set_up, steps
from masquerade.protocol.prf_values import Values, matched, value_bytes


class PrfValues(Message, tag="prf-values", frozen=True):
    """F of the holder's identifiers in ascending order, 8 to 12 bytes each."""

    values: bytes


class CommonPlaces(Message, tag="common-places", frozen=True):
    """Which of the values that were sent the receiver has, too: a bit for each."""

    bits: bytes


@dataclass(frozen=True)
class Announced:
    """What all parties have announced: the sizes of their lists, and a text that names this alignment."""

    sizes: tuple[int, ...]
    text: bytes


def align_two(
    me: int,
    parties: Sequence[str],
    identifiers: Sequence[bytes],
    announced: Announced,
    on_done: OnDone | None = None,
) -> Script[Rows]:
    """Return the rows of this party's records that the other has, too, in the order of F. Nothing is checked yet."""
    if not min(announced.sizes):
        return np.empty(0, np.intp)
    receives = me == (0 if announced.sizes[0] < announced.sizes[1] else 1)
    peer, size = parties[1 - me], announced.sizes[1 - me]
    items = Items.of(identifiers, announced.text)
    pair = pair_text(announced.text, 0, 1)
    work = steps(on_done, len(parties) + 1)
    if receives:
        receiver = PrfReceiver(pair)
        yield from set_up({peer: receiver})
        return (yield from find_by_query(receiver, peer, size, items, work))
    sender = PrfSender(pair, items.family)
    yield from set_up({peer: sender})
    return (yield from find_by_values(sender, peer, size, items, work))


def find_by_query(
    receiver: PrfReceiver, peer: str, size: int, items: Items, on_done: OnDone | None = None
) -> Script[Rows]:
    """Return the rows of common records as the one who gets F; the peer has `size` identifiers."""
    width = value_bytes(len(items), size)
    own = Values.of((yield from query({peer: receiver}, items, on_done))[peer], width)
    theirs = _sorted_values((yield Receive(peer, PrfValues)), peer, size, width)
    rows, places = matched(own, theirs)
    bits = np.zeros(len(theirs), np.uint8)
    bits[places] = 1
    yield Send((peer,), CommonPlaces(pack(bits).tobytes()))
    return rows


def find_by_values(
    sender: PrfSender, peer: str, size: int, items: Items, on_done: OnDone | None = None
) -> Script[Rows]:
    """Return the rows of common records as the one who holds F; the peer has `size` identifiers."""
    width = value_bytes(len(items), size)
    values = Values.of((yield from evaluate(sender, peer, size, items, on_done)), width)
    order = values.order()
    message = PrfValues(values.take(order).packed(width))
    del values
    yield Send((peer,), message)
    del message
    answer = yield Receive(peer, CommonPlaces)
    return order[_places(answer, peer, len(order))]


def _sorted_values(message: PrfValues, sender: str, size: int, width: int) -> Values:
    if len(message.values) != size * width:
        raise PeerBrokeProtocol(sender, f"announced {size} identifiers and sent another number of values")
    values = Values.unpacked(message.values, width)
    if not values.ascend():
        raise PeerBrokeProtocol(sender, "sent values that do not ascend: one is on its list twice")
    return values


def _places(message: CommonPlaces, sender: str, size: int) -> Rows:
    if len(message.bits) != -(-size // 8):
        raise PeerBrokeProtocol(sender, f"answered {size} values with {len(message.bits)} bytes of bits")
    bits = np.unpackbits(np.frombuffer(message.bits, np.uint8), bitorder="little")
    if bits[size:].any():
        raise PeerBrokeProtocol(sender, "answered with places outside the list")
    return np.flatnonzero(unpack(np.frombuffer(message.bits, np.uint8), size))
