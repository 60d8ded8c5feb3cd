"""What two parties set up once per session to compute jointly: transfers both ways, tables, garbled circuits.

Party 0 garbles and party 1 evaluates; either may send or choose in a transfer. Everything is fresh for the session:
both parties' nonces are in every text that keys a primitive, and each use gets a text of its own.

Setup: one nonce and one message of 128 base transfers each way (about 8 kB), 0.08 s of curve arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

import msgspec
import numpy as np

from masquerade.crypto import (
    Bits,
    Circuit,
    Delta,
    Evaluation,
    Evaluator,
    Garbler,
    Garbling,
    Labels,
    ReceivedBatch,
    TableReceiver,
    TableSender,
    TransferReceiver,
    TransferSender,
    derive_key,
    random_bytes,
)
from masquerade.errors import Bug, ParameterError, PeerBrokeProtocol
from masquerade.net import Message, Receive, Script, Send

# --- blaming ------------------------------------------------------------------------------------------------
# Report an ill-fitting message as its sender's fault.


@contextmanager
def blaming(name: str, what: str = "a message") -> Iterator[None]:
    """Turn a ParameterError raised in the block into a PeerBrokeProtocol that names this peer."""
    try:
        yield
    except ParameterError as error:
        raise PeerBrokeProtocol(name, f"sent {what} that cannot be right: {error}") from None


Read = TypeVar("Read")


def received(peer: str, kind: type[Message], read: Callable[..., Read], *more: Any) -> Script[Read]:
    """Receive a message, and return what `read` makes of its fields and `more`; what it refuses is the peer's fault."""
    message = yield Receive(peer, kind)
    with blaming(peer):
        return read(*msgspec.structs.astuple(message), *more)


# --- pairwise setup -----------------------------------------------------------------------------------------
# What every two parties set up before they compute jointly: nonces, and base transfers in one direction.
#
# Everything is fresh for the session: the nonces of both parties are in the text that all primitives of a
# pair are keyed with, so that nothing of one session fits in another.
#
# Cost: one nonce to each peer, then 128 base transfers a pair (about 8 kB and 0.04 s of curve arithmetic).

_NONCE_BYTES = 32


class SessionNonce(Message, tag="session-nonce", frozen=True):
    """Makes the session's setups differ from those of all others."""

    data: bytes


class BaseTransfers(Message, tag="base-transfers", frozen=True):
    """Half of the base transfers of a pair."""

    data: bytes


def exchange_nonces(me: int, parties: Sequence[str]) -> Script[tuple[bytes, ...]]:
    """Exchange fresh nonces. Return one per party, in the parties' order."""
    own = random_bytes(_NONCE_BYTES)
    yield Send(tuple(name for number, name in enumerate(parties) if number != me), SessionNonce(own))
    nonces = []
    for number, name in enumerate(parties):
        if number == me:
            nonces.append(own)
            continue
        nonce = yield Receive(name, SessionNonce)
        if len(nonce.data) != _NONCE_BYTES:
            raise PeerBrokeProtocol(name, f"sent a nonce of {len(nonce.data)} bytes instead of {_NONCE_BYTES}")
        nonces.append(nonce.data)
    return tuple(nonces)


def set_up_pairs(
    me: int, parties: Sequence[str], purpose: bytes
) -> Script[tuple[dict[int, TransferSender], dict[int, TransferReceiver], dict[int, bytes]]]:
    """Set up transfers between every two parties. Return this party's senders and receivers, by peer.

    Return also, by peer, the text that names purpose, session and pair.
    """
    peers = {number: name for number, name in enumerate(parties) if number != me}
    nonces = yield from exchange_nonces(me, parties)
    senders: dict[int, TransferSender] = {}
    receivers: dict[int, TransferReceiver] = {}
    sessions: dict[int, bytes] = {}
    for number, name in peers.items():
        left, right = sorted((me, number))
        sessions[number] = session = purpose + b"\0" + nonces[left] + nonces[right] + b"%d %d" % (left, right)
        # Alternating, so that each party sends to about half of its peers.
        side: TransferSender | TransferReceiver
        if (left if (left + right) % 2 else right) == me:
            side = senders[number] = TransferSender(session)
        else:
            side = receivers[number] = TransferReceiver(session)
        yield Send((name,), BaseTransfers(side.setup()))
    for number, name in peers.items():
        half = yield Receive(name, BaseTransfers)
        with blaming(name, "half of the base transfers"):
            (senders[number] if number in senders else receivers[number]).finish_setup(half.data)
    return senders, receivers, sessions


# --- pair ---------------------------------------------------------------------------------------------------

BackEnd = Literal["transfers", "encryption"]  # back ends of a joint histogram

_PART_BYTES = 1 << 25  # of garbled circuits in one message


class PairBase(Message, tag="pair-base", frozen=True):
    """The base transfers of both directions, this party's halves."""

    sending: bytes
    receiving: bytes


class CircuitInput(Message, tag="circuit-input", frozen=True):
    """The evaluator's inputs, as hidden choices of transfers."""

    columns: bytes


class GarbledCircuit(Message, tag="circuit-garbled", frozen=True):
    """Tables, the seed of the labels of the garbler's inputs, what gives the evaluator its own, and tags of outputs."""

    tables: bytes
    seed: bytes
    chosen: bytes
    tags: bytes


class CircuitOutput(Message, tag="circuit-output", frozen=True):
    """The labels of opened outputs, for the garbler to read."""

    labels: bytes


class Pair:
    """One party's side of a session between two; `prepare_pair` makes it."""

    def __init__(self, me: int, parties: Sequence[str], session: bytes) -> None:
        self.me, self.name, self.peer = me, parties[me], parties[1 - me]
        self.session = session
        self.histograms_by: set[BackEnd] = set()  # the back ends that were used, for the summary
        self._uses = 0
        ways = [session + b"/%d to %d" % (way, 1 - way) for way in (0, 1)]
        self.sender, self.receiver = TransferSender(ways[me]), TransferReceiver(ways[1 - me])
        self.table_sender = TableSender(ways[me], self.sender)
        self.table_receiver = TableReceiver(ways[1 - me], self.receiver)
        key = derive_key(session, b"circuits")
        self._delta = Delta()
        self._garbler = Garbler(key, self._delta) if me == 0 else None
        self._evaluator = Evaluator(key) if me == 1 else None

    def fresh(self, purpose: bytes) -> bytes:
        """Return a text unique within this session; both parties must call in the same order."""
        self._uses += 1
        return self.session + b"/%d/" % self._uses + purpose

    def garble(
        self, circuit: Circuit, size: int, inputs: Mapping[str, Bits], columns: bytes, *, tagged: bool
    ) -> tuple[Garbling, GarbledCircuit]:
        """Run the garbler's part of `size` instances, given the evaluator's hidden choices."""
        if self._garbler is None:
            raise Bug("party 1 does not garble")
        theirs = [name for name in circuit.inputs if name not in inputs]
        batch = self.sender.extend(columns, sum(circuit.width(name) for name in theirs) * size)
        zeros, chosen = batch.correlate_xor(self._delta.block)
        garbling = self._garbler.garble(circuit, size, _by_input(circuit, theirs, size, zeros), inputs)
        tags = garbling.reveal(*circuit.outputs) if tagged else b""
        return garbling, GarbledCircuit(garbling.tables, garbling.seed, chosen, tags)

    def garble_on(self, circuit: Circuit, zeros: Mapping[str, Labels]) -> tuple[Garbling, GarbledCircuit]:
        """Garble a circuit whose inputs are outputs of others, by their labels for false; both may read its outputs."""
        if self._garbler is None:
            raise Bug("party 1 does not garble")
        garbling = self._garbler.garble(circuit, 1, zeros)
        return garbling, GarbledCircuit(garbling.tables, garbling.seed, b"", garbling.reveal(*circuit.outputs))

    def evaluate(
        self, circuit: Circuit, size: int, inputs: Mapping[str, Bits], batch: ReceivedBatch, heard: GarbledCircuit
    ) -> Evaluation:
        """Run the evaluator's part on what the garbler sent."""
        if self._evaluator is None:
            raise Bug("party 0 does not evaluate")
        mine = [name for name in circuit.inputs if name in inputs]
        labels = _by_input(circuit, mine, size, batch.correlated_xor(heard.chosen))
        return self._evaluator.evaluate(circuit, size, heard.tables, labels, heard.seed)

    def evaluate_on(self, circuit: Circuit, labels: Mapping[str, Labels], heard: GarbledCircuit) -> Evaluation:
        """Evaluate a circuit whose inputs are outputs of others, by their labels."""
        if self._evaluator is None:
            raise Bug("party 0 does not evaluate")
        return self._evaluator.evaluate(circuit, 1, heard.tables, labels, heard.seed)


def prepare_pair(me: int, parties: Sequence[str], purpose: bytes) -> Script[Pair]:
    """Set up a session between exactly two parties; both give the same names and purpose."""
    if len(parties) != 2:
        raise ParameterError(f"this computation takes exactly 2 parties. Got {len(parties)} instead.")
    peer = parties[1 - me]
    nonces = yield from exchange_nonces(me, parties)
    pair = Pair(me, parties, b"masquerade/pair/1\0" + purpose + b"\0" + b"".join(nonces))
    yield Send((peer,), PairBase(pair.sender.setup(), pair.receiver.setup()))
    half = yield Receive(peer, PairBase)
    with blaming(peer):
        pair.sender.finish_setup(half.receiving)
        pair.receiver.finish_setup(half.sending)
    return pair


def shared_outputs(pair: Pair, circuit: Circuit, size: int, inputs: Mapping[str, Bits]) -> Script[dict[str, Bits]]:
    """Evaluate a circuit for `size` instances. Return this party's XOR shares of all outputs.

    Each party supplies the bits of its own inputs; together they must supply all of them.
    """
    return (yield from _outputs(pair, circuit, size, inputs, opens=False))


def read_outputs(pair: Pair, circuit: Circuit, size: int, inputs: Mapping[str, Bits]) -> Script[dict[str, Bits]]:
    """Evaluate a circuit so that both parties read all outputs."""
    return (yield from _outputs(pair, circuit, size, inputs, opens=True))


def _outputs(
    pair: Pair, circuit: Circuit, size: int, inputs: Mapping[str, Bits], *, opens: bool
) -> Script[dict[str, Bits]]:
    parts = instance_slices(circuit, size)
    found = yield from (_garbled if pair.me == 0 else _evaluated)(pair, circuit, parts, inputs, opens)
    return {name: np.concatenate([each[name] for each in found], axis=1) for name in circuit.outputs}


def instance_slices(circuit: Circuit, size: int) -> list[slice]:
    """Return slices of instances that fit in one message each; the same on both sides."""
    bits = sum(circuit.width(name) for name in circuit.inputs)
    return list(slices(size, max(1, _PART_BYTES // (32 * (circuit.n_and + bits)))))


def _garbled(
    pair: Pair, circuit: Circuit, parts: Sequence[slice], inputs: Mapping[str, Bits], opens: bool
) -> Script[list[dict[str, Bits]]]:
    found = []
    for part in parts:
        heard = yield Receive(pair.peer, CircuitInput)
        mine = {name: bits[:, part] for name, bits in inputs.items()}
        with blaming(pair.peer):
            kept, message = pair.garble(circuit, part.stop - part.start, mine, heard.columns, tagged=opens)
        yield Send((pair.peer,), message)
        if opens:
            found.append((yield from received(pair.peer, CircuitOutput, kept.decode, *circuit.outputs)))
        else:
            found.append(kept.shares(*circuit.outputs))
    return found


def _evaluated(
    pair: Pair, circuit: Circuit, parts: Sequence[slice], inputs: Mapping[str, Bits], opens: bool
) -> Script[list[dict[str, Bits]]]:
    found = []
    waiting: list[ReceivedBatch] = []

    def order(part: slice) -> Send:
        mine = [inputs[name][:, part].ravel() for name in circuit.inputs if name in inputs]
        columns, batch = pair.receiver.extend(np.concatenate(mine) if mine else np.zeros(0, np.uint8))
        waiting.append(batch)
        return Send((pair.peer,), CircuitInput(columns))

    for part in parts[:1]:
        yield order(part)
    for at, part in enumerate(parts):
        following = parts[at + 1 : at + 2]
        if not opens:  # one ahead, so that the garbler never waits; otherwise it waits for our answer first
            yield from map(order, following)
        heard = yield Receive(pair.peer, GarbledCircuit)
        mine = {name: bits[:, part] for name, bits in inputs.items()}
        with blaming(pair.peer):
            held = pair.evaluate(circuit, part.stop - part.start, mine, waiting.pop(0), heard)
            found.append(held.decode(heard.tags, *circuit.outputs) if opens else held.shares(*circuit.outputs))
        if opens:
            yield Send((pair.peer,), CircuitOutput(held.labels(*circuit.outputs)))
            yield from map(order, following)
    return found


def _by_input(circuit: Circuit, names: Sequence[str], size: int, blocks: Labels) -> dict[str, Labels]:
    """Split a row of labels by the input that they belong to."""
    found, at = {}, 0
    for name in names:
        width = circuit.width(name)
        found[name] = blocks[at : at + width * size].reshape(width, size, 2)
        at += width * size
    return found


def slices(total: int, size: int) -> Iterator[slice]:
    """Cut `total` things into runs of `size`."""
    for at in range(0, total, size):
        yield slice(at, min(at + size, total))
