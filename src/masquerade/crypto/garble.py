"""Garbled circuits: two parties evaluate a circuit on secret inputs and learn only the agreed outputs.

The garbler gives each wire two random labels, W and W ⊕ Δ, for false and true; the evaluator walks through the circuit
with one label per wire and cannot tell which it is. XOR is free (Kolesnikov, Schneider 2008: one secret difference Δ
for all wires), an AND is two blocks (Zahur, Rosulek, Evans 2015, "Two Halves Make a Whole": half gates), the lowest
bit of a label says which row to use (point and permute; hence the lowest bit of Δ is 1), and the hash is that of
hashing.py under the session's key, with a tweak for every half gate and instance.

    garbler                                    evaluator
    garble(circuit, …, own inputs)
        tables, seed  ─────────────────────▶   evaluate(circuit, …, tables, labels, seed)
    decode ◀──────────────────────  labels     where the garbler may learn an output
    reveal ─────────────────────▶  decode      where the evaluator may
    shares                         shares      where nobody may: the XOR of both is the output

Of the garbler's own inputs the evaluator sees one label each, random whatever the input is: so the garbler draws those
from a seed that it sends, and takes the others by Δ. (`encode` gives labels one by one, of inputs that come later.)

The evaluator's own labels come from oblivious transfers that are correlated by Δ (`SentBatch.correlate_xor`): if one
made ahead gave the garbler w and the evaluator w ⊕ r·Δ, the evaluator sends x ⊕ r and the garbler takes
`corrected(w, x ⊕ r)` as its label for false. Δ is fresh and has nothing to do with the secret of the transfers.

Cost: 32 bytes per AND and instance, 16 per bit of the evaluator's inputs and per revealed output bit; four hashes per
AND for the garbler, two for the evaluator; one message each way. An evaluator that deviates learns no more, as its
transfers are checked. A garbler that does may garble another circuit; nothing here would detect it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto.bits import Bits
from masquerade.crypto.circuit import Circuit, Gates
from masquerade.crypto.hashing import BLOCK_BYTES, TweakCounter, TweakedHash, expand_blocks, random_blocks, random_bytes
from masquerade.errors import BadMessage, ParameterError

Labels = NDArray[np.uint64]  # uint64[bits of the word, instances, 2]

_AND_BYTES = 2 * BLOCK_BYTES
_HEADER_BYTES = 8  # the first tweak
_TAG_BYTES = 8
_CHUNK_BYTES = 1 << 23  # of labels at a time: wide operations that stay near the cache
_ONE = np.uint64(1)


class Delta:
    """The secret difference between a wire's two labels, for one garbler and one session.

    It is drawn for this alone: what showed of it would show nothing of the secret of the transfers, nor the other way.
    """

    def __init__(self) -> None:
        self.block: NDArray[np.uint64] = random_blocks(1)[0].copy()
        self.block[0] |= _ONE
        self._in_use = False

    def claim(self) -> NDArray[np.uint64]:
        """Return the block to the one garbler that uses it; ParameterError on a second claim."""
        if self._in_use:
            raise ParameterError("this difference of labels belongs to another garbler: draw a fresh one")
        self._in_use = True
        return self.block


def corrected(zero_labels: Labels, flips: Bits, delta: Delta) -> Labels:
    """Return the labels for false, given where the evaluator's input differs from its choice in the transfer."""
    return zero_labels ^ _where(flips[..., None], delta.block)


class Garbler:
    """Garbles any number of circuits within a session, never reusing a tweak."""

    def __init__(self, session_key: bytes, delta: Delta) -> None:
        self._hash = TweakedHash(session_key)
        self._delta = delta.claim()
        self._tweaks = TweakCounter()

    def garble(
        self,
        circuit: Circuit,
        n_instances: int,
        transferred: Mapping[str, Labels] | None = None,
        own: Mapping[str, Bits] | None = None,
    ) -> Garbling:
        """Garble `n_instances` instances; `transferred` are the labels for false that a transfer fixed, by input.

        `own` are the inputs that the garbler gives now, by the garbling's seed. Tables take 32 bytes of memory per AND
        and instance: process millions of instances in parts.
        """
        seed = random_bytes(BLOCK_BYTES)
        zeros = self._input_labels(circuit, n_instances, transferred or {}, own or {}, seed)
        first = self._tweaks.take(_n_tweaks(circuit, n_instances))
        tables = np.empty((circuit.n_and * n_instances, 4), np.uint64)
        literals = circuit.output_literals(circuit.outputs)
        outputs = np.empty((len(literals), n_instances, 2), np.uint64)
        done, tweak = 0, first
        for part in _chunks(circuit, n_instances):
            labels = np.zeros((circuit.n_wires, part.stop - part.start, 2), np.uint64)
            labels[1 : 1 + len(zeros)] = zeros[:, part]
            for layer in circuit.layers:
                _combine(labels, layer.xors)
                ands = layer.ands
                left, right = labels[ands.left], labels[ands.right]
                left[ands.left_inverted] ^= self._delta
                right[ands.right_inverted] ^= self._delta
                size = left.shape[0] * left.shape[1]
                made, tables[done : done + size] = self._half_gates(
                    left.reshape(size, 2), right.reshape(size, 2), tweak
                )
                labels[ands.outputs] = made.reshape(left.shape)
                done, tweak = done + size, tweak + 2 * size
            _combine(labels, circuit.last_xors)
            outputs[:, part] = labels[literals >> 1] ^ _where((literals & 1)[:, None, None], self._delta)
        message = first.to_bytes(_HEADER_BYTES, "little") + tables.tobytes()
        garbling = Garbling(circuit, n_instances, message, seed, zeros, outputs, self._delta, self._hash, tweak)
        garbling._encoded.update(own or {})
        return garbling

    def _half_gates(self, left: Labels, right: Labels, tweak: int) -> tuple[Labels, Labels]:
        """Garble left ∧ right, given their labels for false; return (labels for false of the outputs, tables)."""
        size = len(left)
        operands = np.empty((2, 2, size, 2), np.uint64)  # false and true; left and right
        operands[0, 0], operands[0, 1] = left, right
        np.bitwise_xor(operands[0], self._delta, out=operands[1])
        tweaks = np.arange(tweak, tweak + 2 * size, dtype=np.uint64)
        hashed = self._hash.hash(operands.reshape(-1, 2), np.concatenate((tweaks, tweaks)))
        hashed = hashed.reshape(2, 2, size, 2)
        difference = hashed[0] ^ hashed[1]
        left_colour, right_colour = _masks(left), _masks(right)
        difference[0] ^= right_colour & self._delta  # the garbler's half: it knows the right operand's colour
        made = left_colour & difference[0]
        made ^= right_colour & difference[1]
        made ^= hashed[0, 0]
        made ^= hashed[0, 1]
        difference[1] ^= left  # the evaluator's half
        return made, difference.transpose(1, 0, 2).reshape(size, 4)

    def _input_labels(
        self,
        circuit: Circuit,
        n_instances: int,
        transferred: Mapping[str, Labels],
        own: Mapping[str, Bits],
        seed: bytes,
    ) -> Labels:
        n_bits = sum(circuit.width(name) for name in circuit.inputs)
        zeros = random_blocks(n_bits * n_instances).reshape(n_bits, n_instances, 2)
        if transferred or own:
            zeros = zeros.copy()
        for name, labels in transferred.items():
            if labels.shape != (circuit.width(name), n_instances, 2):
                raise ParameterError(
                    f'input "{name}" takes uint64[{circuit.width(name)}, {n_instances}, 2] labels. '
                    f"Got {list(labels.shape)} instead."
                )
            zeros[circuit.inputs[name].start - 1 : circuit.inputs[name].stop - 1] = labels
        for name, labels in _seeded(circuit, n_instances, [*own], seed).items():
            _check_bits(circuit, name, n_instances, own[name])
            wires = circuit.inputs[name]
            zeros[wires.start - 1 : wires.stop - 1] = labels ^ _where(own[name][..., None], self._delta)
        return zeros


@dataclass
class Garbling:
    """The garbler's state of one garbled circuit, and the messages it can make from it."""

    circuit: Circuit
    n_instances: int
    tables: bytes
    seed: bytes  # of the labels of the inputs that were given to be garbled
    _zeros: Labels
    _outputs: Labels
    _delta: NDArray[np.uint64]
    _hash: TweakedHash
    _tag_tweak: int
    _encoded: set[str] = field(default_factory=set)

    def encode(self, name: str, bits: Bits) -> bytes:
        """Return the labels of one of the garbler's own inputs. Only once: labels of two values would reveal Δ."""
        if name in self._encoded:
            raise ParameterError(f'input "{name}" of this garbling was encoded before')
        _check_bits(self.circuit, name, self.n_instances, bits)
        self._encoded.add(name)
        wires = self.circuit.inputs[name]
        return (self._zeros[wires.start - 1 : wires.stop - 1] ^ _where(bits[..., None], self._delta)).tobytes()

    def reveal(self, *names: str) -> bytes:
        """Return the tags of both labels, with which the evaluator can read these outputs."""
        zeros = self.zeros(*names)
        tweaks = _tag_tweaks(self.circuit, self.n_instances, self._tag_tweak, names)
        tags = [_tags(self._hash, labels, tweaks) for labels in (zeros, zeros ^ self._delta)]
        return np.stack(tags).tobytes()

    def decode(self, message: bytes, *names: str) -> dict[str, Bits]:
        """Return these outputs, from the evaluator's labels."""
        zeros = self.zeros(*names)
        labels = _from_bytes(message, zeros.shape, "labels of the outputs")
        differences = labels ^ zeros
        ones = (differences == self._delta).all(axis=2)
        if not (ones | (differences == 0).all(axis=2)).all():
            raise BadMessage("a label that is none of its wire's")
        return _by_name(self.circuit, ones.astype(np.uint8), names)

    def shares(self, *names: str) -> dict[str, Bits]:
        """Return the garbler's XOR share of these outputs."""
        colours = (self.zeros(*names)[..., 0] & _ONE).astype(np.uint8)
        return _by_name(self.circuit, colours, names)

    def zeros(self, *names: str) -> Labels:
        """Return these outputs' labels for false: a further circuit may take them as those of its inputs."""
        return self._outputs[_output_rows(self.circuit, names)]

    def weigh(self, name: str, weights: NDArray[np.uint64]) -> tuple[bytes, NDArray[np.uint64]]:
        """Return a message, and a number modulo 2^64 for each instance, for sums of an output's bits by secret weights.

        From its labels and the message the evaluator has that sum, Σ w·b, more than our number (`Evaluation.weighed`),
        and from no other labels. Weights are one for each bit of the word. An output's labels serve this once.
        """
        labels = self.zeros(name)
        of_zeros = (labels[..., 0] & _ONE).astype(bool)  # the bit whose label has the colour 0
        labels = labels ^ _where(of_zeros[..., None], self._delta)
        tweaks = _tag_tweaks(self.circuit, self.n_instances, self._tag_tweak, (name,))
        plain, coloured = (_pads(self._hash, each, tweaks) for each in (labels, labels ^ self._delta))
        factors = np.broadcast_to(weights[:, None], plain.shape)
        masks = plain - np.where(of_zeros, factors, np.uint64(0))
        told = plain - coloured + np.where(of_zeros, np.uint64(0) - factors, factors)
        return told.tobytes(), masks.sum(axis=0, dtype=np.uint64)


class Evaluator:
    """Evaluates any number of garbled circuits within a session, each once."""

    def __init__(self, session_key: bytes) -> None:
        self._hash = TweakedHash(session_key)
        self._tweaks = TweakCounter()

    def evaluate(
        self,
        circuit: Circuit,
        n_instances: int,
        tables: bytes,
        labels: Mapping[str, Labels | bytes],
        seed: bytes | None = None,
    ) -> Evaluation:
        """Evaluate the circuit with one label per input bit; labels given as bytes are the garbler's.

        The garbler's `seed` gives the labels of all inputs that are not in `labels`.
        """
        expected = _HEADER_BYTES + circuit.n_and * n_instances * _AND_BYTES
        if len(tables) != expected:
            raise BadMessage(f"tables of {len(tables)} bytes; this circuit has {expected}")
        if seed is not None:
            if len(seed) != BLOCK_BYTES:
                raise BadMessage(f"a seed of {len(seed)} bytes instead of {BLOCK_BYTES}")
            missing = [name for name in circuit.inputs if name not in labels]
            labels = {**labels, **_seeded(circuit, n_instances, missing, seed)}
        held = self._input_labels(circuit, n_instances, labels)
        first = int.from_bytes(tables[:_HEADER_BYTES], "little")
        self._tweaks.claim(first, _n_tweaks(circuit, n_instances))
        rows = np.frombuffer(tables, np.uint64, offset=_HEADER_BYTES).reshape(-1, 2, 2)
        literals = circuit.output_literals(circuit.outputs)
        outputs = np.empty((len(literals), n_instances, 2), np.uint64)
        done, tweak = 0, first
        for part in _chunks(circuit, n_instances):
            wires = np.zeros((circuit.n_wires, part.stop - part.start, 2), np.uint64)
            wires[1 : 1 + len(held)] = held[:, part]
            for layer in circuit.layers:
                _combine(wires, layer.xors)
                left, right = wires[layer.ands.left], wires[layer.ands.right]
                size = left.shape[0] * left.shape[1]
                made = self._half_gates(left.reshape(size, 2), right.reshape(size, 2), rows[done : done + size], tweak)
                wires[layer.ands.outputs] = made.reshape(left.shape)
                done, tweak = done + size, tweak + 2 * size
            _combine(wires, circuit.last_xors)
            outputs[:, part] = wires[literals >> 1]
        return Evaluation(circuit, n_instances, outputs, self._hash, tweak)

    def _half_gates(self, left: Labels, right: Labels, tables: Labels, tweak: int) -> Labels:
        hashed = self._hash.hash(np.concatenate((left, right)), tweak)
        made = hashed[: len(left)] ^ hashed[len(left) :]
        made ^= _masks(left) & tables[:, 0]
        made ^= _masks(right) & (tables[:, 1] ^ left)
        return made

    def _input_labels(self, circuit: Circuit, n_instances: int, labels: Mapping[str, Labels | bytes]) -> Labels:
        if set(labels) != set(circuit.inputs):
            raise ParameterError(
                f"labels are needed for the inputs {', '.join(circuit.inputs)}; got {', '.join(labels)}"
            )
        words = []
        for name in circuit.inputs:
            given, shape = labels[name], (circuit.width(name), n_instances, 2)
            word = _from_bytes(given, shape, f'labels of "{name}"') if isinstance(given, bytes) else given
            if word.shape != shape:
                raise ParameterError(f'input "{name}" takes {list(shape)} labels. Got {list(word.shape)} instead.')
            words.append(word)
        return np.concatenate(words)


@dataclass(frozen=True)
class Evaluation:
    """The output labels of one evaluation."""

    circuit: Circuit
    n_instances: int
    _outputs: Labels
    _hash: TweakedHash
    _tag_tweak: int

    def labels(self, *names: str) -> bytes:
        """Return the labels of these outputs, for the garbler to decode."""
        return self.held(*names).tobytes()

    def held(self, *names: str) -> Labels:
        """Return these outputs' labels: a further circuit may take them as those of its inputs."""
        return self._outputs[_output_rows(self.circuit, names)]

    def weighed(self, name: str, message: bytes) -> NDArray[np.uint64]:
        """Return, for each instance, the garbler's number and the sum of this output's bits by its secret weights."""
        labels = self.held(name)
        if len(message) != 8 * labels.shape[0] * labels.shape[1]:
            raise BadMessage(
                f"weights of {len(message)} bytes; this output has {labels.shape[0]} × {labels.shape[1]} bits"
            )
        pads = _pads(self._hash, labels, _tag_tweaks(self.circuit, self.n_instances, self._tag_tweak, (name,)))
        told = np.frombuffer(message, np.uint64).reshape(pads.shape)
        sums: NDArray[np.uint64] = (pads + np.where(labels[..., 0] & _ONE, told, np.uint64(0))).sum(axis=0)
        return sums

    def decode(self, message: bytes, *names: str) -> dict[str, Bits]:
        """Return these outputs, using the garbler's tags."""
        held = self._outputs[_output_rows(self.circuit, names)]
        tags = _tags(self._hash, held, _tag_tweaks(self.circuit, self.n_instances, self._tag_tweak, names))
        if len(message) != 2 * _TAG_BYTES * tags.size:
            raise BadMessage(f"tags of {len(message)} bytes; these outputs have {2 * _TAG_BYTES * tags.size}")
        zeros, ones = np.frombuffer(message, np.uint64).reshape(2, *tags.shape) == tags
        if not (zeros ^ ones).all():
            raise BadMessage("an output's label that fits neither of its tags")
        return _by_name(self.circuit, ones.astype(np.uint8), names)

    def shares(self, *names: str) -> dict[str, Bits]:
        """Return the evaluator's XOR share of these outputs."""
        colours = (self._outputs[_output_rows(self.circuit, names), :, 0] & _ONE).astype(np.uint8)
        return _by_name(self.circuit, colours, names)


def _seeded(circuit: Circuit, n_instances: int, names: Iterable[str], seed: bytes) -> dict[str, Labels]:
    """Return the labels that a seed gives for these inputs, in the order of the circuit."""
    chosen = [name for name in circuit.inputs if name in {*names}]
    blocks = expand_blocks(seed, sum(circuit.width(name) for name in chosen) * n_instances)
    found, at = {}, 0
    for name in chosen:
        size = circuit.width(name) * n_instances
        found[name] = blocks[at : at + size].reshape(-1, n_instances, 2)
        at += size
    return found


def _check_bits(circuit: Circuit, name: str, n_instances: int, bits: Bits) -> None:
    if bits.shape != (circuit.width(name), n_instances):
        raise ParameterError(f'input "{name}" takes {circuit.width(name)} × {n_instances} bits')


def _combine(labels: Labels, xors: Iterable[Gates]) -> None:
    for gates in xors:
        np.bitwise_xor(labels[gates.left], labels[gates.right], out=labels[gates.outputs])


def _masks(labels: Labels) -> NDArray[np.uint64]:
    """Return all ones where a label's colour, its lowest bit, is 1, as a column to be ANDed with blocks."""
    return np.uint64(0) - (labels[:, :1] & _ONE)


def _where(bits: NDArray[np.integer], block: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the block where the bit is 1, else zeros, without branching on the bit."""
    return (np.uint64(0) - bits.astype(np.uint64)) & block


def _chunks(circuit: Circuit, n_instances: int) -> Iterator[slice]:
    """Yield parts of the instances; tables and tweaks follow this order, so it is part of the format."""
    size = max(64, _CHUNK_BYTES // (BLOCK_BYTES * circuit.n_wires))
    for at in range(0, n_instances, size):
        yield slice(at, min(at + size, n_instances))


def _n_tweaks(circuit: Circuit, n_instances: int) -> int:
    """Count the tweaks: two per AND for its halves, then one per output bit for its tags."""
    return (2 * circuit.n_and + sum(len(word) for word in circuit.outputs.values())) * n_instances


def _output_rows(circuit: Circuit, names: tuple[str, ...]) -> NDArray[np.intp]:
    """Return the positions of these outputs' bits among those of all outputs."""
    circuit.output_literals(names)  # rejects unknown names
    starts, at = {}, 0
    for name, word in circuit.outputs.items():
        starts[name], at = at, at + len(word)
    rows = [np.arange(starts[name], starts[name] + len(circuit.outputs[name])) for name in names]
    return np.concatenate(rows) if rows else np.zeros(0, np.intp)


def _tag_tweaks(circuit: Circuit, n_instances: int, first: int, names: tuple[str, ...]) -> NDArray[np.uint64]:
    rows = _output_rows(circuit, names)[:, None] * n_instances + np.arange(n_instances)
    return rows.astype(np.uint64).ravel() + np.uint64(first)


def _pads(hash_: TweakedHash, labels: Labels, tweaks: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a number for each label, of the half of its hash that no tag is made of."""
    return hash_.hash(labels.reshape(-1, 2), tweaks)[:, 1].reshape(labels.shape[:2])


def _tags(hash_: TweakedHash, labels: Labels, tweaks: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return hash_.hash(labels.reshape(-1, 2), tweaks)[:, 0].reshape(labels.shape[:2])


def _by_name(circuit: Circuit, bits: Bits, names: tuple[str, ...]) -> dict[str, Bits]:
    ends = np.cumsum([len(circuit.outputs[name]) for name in names])
    return dict(zip(names, np.split(bits, ends[:-1]), strict=True))


def _from_bytes(data: bytes, shape: tuple[int, ...], what: str) -> Labels:
    expected = 8 * int(np.prod(shape))
    if len(data) != expected:
        raise BadMessage(f"{what}: {len(data)} bytes instead of {expected}")
    return np.frombuffer(data, np.uint64).reshape(shape)
