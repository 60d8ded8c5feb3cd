"""n-party Boolean sharing (Goldreich, Micali, Wigderson 1987): every wire is the XOR of one share per party.

XOR is local. An AND of x and y uses up a triple of shared random bits (a, b, c = a ∧ b) made ahead (Beaver 1991): all
parties exchange their shares of x ⊕ a and y ⊕ b, and then x ∧ y = c ⊕ (x⊕a) ∧ b ⊕ (y⊕b) ∧ a ⊕ (x⊕a) ∧ (y⊕b). All ANDs
of a layer share one message, so the number of rounds is the depth of the circuit, plus one to open results.

Private against any n − 1 curious parties that follow the protocol: without the last share, every message that they
see is a uniform bit. A party that does not follow it can flip results unnoticed.

Cost for each party, AND and instance: 1 triple; online 2 bits to each of n − 1 peers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto import BadMessage
from masquerade.crypto.bits import pack
from masquerade.crypto.circuit import Bits, Circuit, Gates
from masquerade.crypto.hashing import Stream
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


class SharedEvaluation:
    """One party's part of evaluating a circuit on shared inputs.

    `message` is the next message to every peer, or None when the outputs are ready; `hear` takes the peers' messages of
    that round. Party 0 applies the inversions.
    """

    def __init__(
        self, circuit: Circuit, me: int, n_parties: int, inputs: Mapping[str, Bits], triples: Triples
    ) -> None:
        if not 0 <= me < n_parties or n_parties < 2:
            raise ParameterError(f"party {me} of {n_parties} cannot take part: at least 2, counted from 0")
        shapes = {name: bits.shape for name, bits in inputs.items()}
        self._n = next(iter(shapes.values()))[1]
        if shapes != {name: (circuit.width(name), self._n) for name in circuit.inputs}:
            raise ParameterError("shares of the inputs do not fit the circuit")
        self._circuit = circuit
        self._inverts = np.uint8(0xFF if me == 0 else 0)
        self._n_peers = n_parties - 1
        self._triples = triples
        self._wires: Rows = np.zeros((circuit.n_wires, -(-self._n // 8)), np.uint8)
        for name, bits in inputs.items():
            self._wires[circuit.inputs[name]] = _packed_rows(bits)
        self._layer = 0
        self._opening: tuple[Rows, Rows, Rows, Rows] | None = None  # d, e, and the triples' a and b
        self._product: Rows | None = None
        self.message: bytes | None = self._prepare()

    def hear(self, messages: Sequence[bytes]) -> bytes | None:
        """Take the peers' messages of this round; return our next one."""
        if self._opening is None or self._product is None:
            raise ParameterError("this evaluation is over")
        d, e, a, b = self._opening
        both = np.concatenate((d, e))
        for heard in self._checked(messages, len(both) * self._n):
            both ^= _sparse(heard, len(both), self._n)
        d, e = both[: len(d)], both[len(d) :]
        product = (
            self._product ^ (d & b) ^ (e & a) ^ (d & e & self._inverts)
        )  # d ∧ e is added by one party only
        self._wires[self._circuit.layers[self._layer].ands.outputs] = product
        self._layer += 1
        self.message = self._prepare()
        return self.message

    def shares(self, *names: str) -> Bits:
        """Return this party's shares of the outputs, concatenated."""
        if self.message is not None:
            raise ParameterError("the evaluation is not over yet")
        literals = self._circuit.output_literals(names)
        rows = self._wires[literals >> 1] ^ ((literals & 1).astype(np.uint8)[:, None] * self._inverts)
        return np.unpackbits(rows, axis=1, count=self._n, bitorder="little")

    def _checked(self, messages: Sequence[bytes], n_bits: int) -> Sequence[bytes]:
        if len(messages) != self._n_peers:
            raise ParameterError(f"{len(messages)} messages from {self._n_peers} peers")
        for message in messages:
            if len(message) != -(-n_bits // 8):
                raise BadMessage(f"shares of {len(message)} bytes; {n_bits} bits were expected")
        return messages

    def _prepare(self) -> bytes | None:
        """Advance to the next ANDs and mask their operands."""
        if self._layer == self._circuit.depth:
            self._combine(self._circuit.last_xors)
            self._opening = self._product = None
            return None
        layer = self._circuit.layers[self._layer]
        self._combine(layer.xors)
        ands = layer.ands
        x = self._wires[ands.left] ^ (ands.left_inverted[:, None] * self._inverts)
        y = self._wires[ands.right] ^ (ands.right_inverted[:, None] * self._inverts)
        a, b, self._product = (
            _packed_rows(bits.reshape(len(ands), self._n)) for bits in self._triples.take(len(ands) * self._n)
        )
        self._opening = (x ^ a, y ^ b, a, b)
        return _dense(np.concatenate(self._opening[:2]), self._n)

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
