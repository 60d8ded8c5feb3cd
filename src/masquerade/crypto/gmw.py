"""n-party Boolean sharing (Goldreich, Micali, Wigderson 1987): every wire is the XOR of one share per holder.

XOR is local. An AND of x and y uses up a triple of shared random bits (a, b, c = a ∧ b) made ahead (Beaver 1991): the
holders open x ⊕ a and y ⊕ b, and then x ∧ y = c ⊕ (x⊕a) ∧ b ⊕ (y⊕b) ∧ a ⊕ (x⊕a) ∧ (y⊕b). All ANDs of a layer share one
opening, so the number of rounds is the depth of the circuit, plus one to open results.

An input that one party knows is held by that party alone, and a wire by those whose inputs it depends on (`holders`);
the share of everybody else is 0.

Private against any n − 1 curious parties that follow the protocol. Before the results, nothing is opened but operands
under masks that each holder drew for this one AND, so that every share that comes from the last party is a uniform
bit, whatever its share of the operand. Results are opened under a fresh sharing of zero among all parties
(`ZeroShares`): the shares that come are uniform, but for their sum. A party that does not follow the protocol can flip
results unnoticed.

Cost for each AND and instance: 1 triple; online 2 bits from each holder, and 2 to each party.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto import BadMessage
from masquerade.crypto.bits import pack
from masquerade.crypto.circuit import AndGates, Bits, Gates
from masquerade.crypto.hashing import Stream, derive_key
from masquerade.crypto.holders import HeldCircuit, Places, is_first
from masquerade.crypto.triples import Triples
from masquerade.errors import ParameterError

Rows = NDArray[np.uint8]  # one row per wire: its shares of all instances, packed


class InputMasks:
    """Shares inputs without further messages: owner and peer stretch a seed that the owner drew and sent once.

    The peer's share is the next part of the stream; the owner's is its input XOR the shares of all peers. All parties
    must request the inputs of a session in the same order.
    """

    def __init__(self, me: int, sent: Mapping[int, bytes], heard: Mapping[int, bytes]) -> None:
        if set(sent) != set(heard) or me in sent:
            raise ParameterError("input masks need a seed to and a seed from every other party, and no other")
        if len({*sent.values(), *heard.values()}) != len(sent) + len(heard):
            raise ParameterError("every direction between two parties needs a seed of its own")
        self._me = me
        self._sent = {peer: Stream(seed) for peer, seed in sent.items()}
        self._heard = {peer: Stream(seed) for peer, seed in heard.items()}

    def own(self, bits: Bits) -> Bits:
        """Return this party's share of its own input."""
        share = bits.copy()
        for stream in self._sent.values():
            share ^= _next_bits(stream, bits.shape)
        return share

    def of(self, owner: int, shape: tuple[int, int]) -> Bits:
        """Return this party's share of another's input."""
        if owner not in self._heard:
            raise ParameterError(f"party {owner} has no seed here")
        return _next_bits(self._heard[owner], shape)


class ZeroShares:
    """Shares of zero among all parties without a message: every two parties stretch a seed that one of them drew.

    All parties must draw the same shapes in the same order.
    """

    def __init__(self, me: int, sent: Mapping[int, bytes], heard: Mapping[int, bytes]) -> None:
        self._streams = [
            Stream(derive_key(sent[peer] if me < peer else heard[peer], b"shares of zero")) for peer in sent
        ]

    def draw(self, shape: tuple[int, ...]) -> Bits:
        """Return this party's next share."""
        share = np.zeros(shape, np.uint8)
        for stream in self._streams:
            share ^= _next_bits(stream, shape)
        return share


class SharedEvaluation:
    """One party's part of evaluating a circuit on shared inputs.

    `message` is what this party opens of the next layer, or None when the outputs are ready. Either everybody tells it
    to everybody (`hear`), or one party combines them all (`combine`) and tells everybody the result (`take`).
    """

    def __init__(self, held: HeldCircuit, me: int, inputs: Mapping[str, Bits], triples: Triples) -> None:
        if not 0 <= me < held.n_parties:
            raise ParameterError(f"party {me} of {held.n_parties} cannot take part: they are counted from 0")
        circuit = held.circuit
        shapes = {name: bits.shape for name, bits in inputs.items()}
        self._n = next(iter(shapes.values()))[1]
        if shapes != {name: (circuit.width(name), self._n) for name in circuit.inputs}:
            raise ParameterError("shares of the inputs do not fit the circuit")
        self._held, self._circuit, self._me = held, circuit, me
        self._peers = [each for each in range(held.n_parties) if each != me]
        self._triples = triples.take(self._n)
        self._wires: Rows = np.zeros((circuit.n_wires, -(-self._n // 8)), np.uint8)
        for name, bits in inputs.items():
            self._wires[circuit.inputs[name]] = _packed_rows(bits)
        self._layer = 0
        self._first_gate = 0
        self._masked: Rows | None = None  # our shares of the left operands, then of the right ones
        self.message: bytes | None = self._prepare()

    def hear(self, messages: Sequence[bytes]) -> bytes | None:
        """Take the peers' messages of this layer, in the parties' order; return our next one."""
        return self._advance(self._combined(messages))

    def combine(self, messages: Sequence[bytes]) -> bytes:
        """Return what opens this layer, for every peer, from the peers' messages in the parties' order."""
        return _dense(self._combined(messages), self._n)

    def take(self, combined: bytes) -> bytes | None:
        """Take what opens this layer from the party that has combined it; return our next message."""
        n_rows = 2 * len(self._gates)
        self._check(combined, n_rows)
        return self._advance(_sparse(combined, n_rows, self._n))

    def shares(self, *names: str) -> Bits:
        """Return this party's shares of the outputs, concatenated."""
        if self.message is not None:
            raise ParameterError("the evaluation is not over yet")
        literals = self._circuit.output_literals(names)
        flipped = (literals & 1).astype(bool) & is_first(self._me, self._held.wires[literals >> 1])
        rows = self._wires[literals >> 1] ^ _full(flipped)
        return np.unpackbits(rows, axis=1, count=self._n, bitorder="little")

    @property
    def _gates(self) -> AndGates:
        if self.message is None:
            raise ParameterError("this evaluation is over")
        return self._circuit.layers[self._layer].ands

    @property
    def message_bytes(self) -> list[int]:
        """The length of each peer's message of this layer, in the parties' order."""
        return [-(-len(self._opened_by(peer)) * self._n // 8) for peer in self._peers]

    def _combined(self, messages: Sequence[bytes]) -> Rows:
        if len(messages) != len(self._peers):
            raise ParameterError(f"{len(messages)} messages from {len(self._peers)} peers")
        self._gates  # noqa: B018 - raises when the evaluation is over
        assert self._masked is not None
        both = self._masked.copy()
        for peer, message in zip(self._peers, messages, strict=True):
            rows = self._opened_by(peer)
            self._check(message, len(rows))
            both[rows] ^= _sparse(message, len(rows), self._n)
        return both

    def _advance(self, both: Rows) -> bytes | None:
        """Compute the layer's results, of which the opened operands are these."""
        ands, layer = self._gates, self._layer
        d, e = both[: len(ands)], both[len(ands) :]
        gates = slice(self._first_gate, self._first_gate + len(ands))
        a, b, c = (part[gates] for part in self._triples)
        adds = self._held.duties_of(self._me)[layer].adds  # d ∧ e, which one party adds
        self._wires[ands.outputs] = c ^ (d & b) ^ (e & a) ^ (d & e & _full(adds))
        self._layer += 1
        self._first_gate += len(ands)
        self.message = self._prepare()
        return self.message

    def _opened_by(self, party: int) -> Places:
        """Return the operands of this layer that a party holds: left ones, then right ones."""
        return self._held.opened_by(party)[self._layer]

    def _check(self, message: bytes, n_rows: int) -> None:
        if len(message) != -(-n_rows * self._n // 8):
            raise BadMessage(f"shares of {len(message)} bytes; {n_rows * self._n} bits were expected")

    def _prepare(self) -> bytes | None:
        """Advance to the next ANDs and mask their operands."""
        if self._layer == self._circuit.depth:
            self._combine(self._circuit.last_xors)
            self._masked = None
            return None
        layer = self._circuit.layers[self._layer]
        self._combine(layer.xors)
        ands = layer.ands
        gates = slice(self._first_gate, self._first_gate + len(ands))
        a, b, _ = (part[gates] for part in self._triples)
        self._masked = np.concatenate((self._wires[ands.left] ^ a, self._wires[ands.right] ^ b))
        self._masked ^= _full(self._held.duties_of(self._me)[self._layer].inverts)
        return _dense(self._masked[self._opened_by(self._me)], self._n)

    def _combine(self, xors: Iterable[Gates]) -> None:
        for gates in xors:
            np.bitwise_xor(self._wires[gates.left], self._wires[gates.right], out=self._wires[gates.outputs])


def opened(own: Bits, messages: Sequence[bytes]) -> Bits:
    """Reconstruct outputs from this party's shares and the packed shares (`share_message`) of all others."""
    result = own.copy()
    for message in messages:
        if len(message) != -(-own.size // 8):
            raise BadMessage(f"shares of {len(message)} bytes; {own.size} bits were expected")
        result ^= _unpacked(message, own.size).reshape(own.shape)
    return result


def share_message(share: Bits) -> bytes:
    """Pack shares of outputs for the peers that may learn them."""
    return pack(share.ravel()).tobytes()


def _full(flags: NDArray[np.bool_]) -> Rows:
    """Return rows of ones where a flag is set, of zeros elsewhere."""
    return (np.uint8(0) - flags.astype(np.uint8))[:, None]


def _next_bits(stream: Stream, shape: tuple[int, ...]) -> Bits:
    size = int(np.prod(shape))
    return np.unpackbits(stream.read(-(-size // 8)), count=size, bitorder="little").reshape(shape)


def _packed_rows(bits: Bits) -> Rows:
    return np.packbits(bits, axis=1, bitorder="little")


def _dense(rows: Rows, n: int) -> bytes:
    """Pack rows of n instances each without the unused bits at their ends."""
    if n % 8 == 0:
        return rows.tobytes()
    return pack(np.unpackbits(rows, axis=1, count=n, bitorder="little").ravel()).tobytes()


def _sparse(data: bytes, n_rows: int, n: int) -> Rows:
    """Unpack the rows that `_dense` packed."""
    if n % 8 == 0:
        return np.frombuffer(data, np.uint8).reshape(n_rows, n // 8)
    return _packed_rows(_unpacked(data, n_rows * n).reshape(n_rows, n))


def _unpacked(data: bytes, count: int) -> Bits:
    return np.unpackbits(np.frombuffer(data, np.uint8), count=count, bitorder="little")
