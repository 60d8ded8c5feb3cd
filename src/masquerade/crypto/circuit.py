"""Boolean circuits: built once, evaluated for many instances at once.

A circuit is a list of XOR and AND gates on numbered wires. NOT costs no gate: a builder works with **literals**, twice
the wire's number, plus one when inverted. Wire 0 is false, so `FALSE` is literal 0 and `TRUE` literal 1; gates on
constants are folded away, equal gates are built once, and gates that no output needs are dropped.

`Builder.build` sorts the gates into layers by the number of ANDs before them. An AND layer costs a round in n-party
sharing (gmw.py) and 32 bytes per gate when garbled (garble.py); every evaluator processes a layer's gates in one numpy
operation, over all instances.
"""

from __future__ import annotations

import hashlib
from bisect import insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto.bits import Bits
from masquerade.engine import Rows
from masquerade.errors import ParameterError

Literal = int
Word = list[Literal]  # the least significant bit first
Wires = NDArray[np.intp]

FALSE: Literal = 0
TRUE: Literal = 1


class CircuitError(ParameterError):
    """A circuit built or used incorrectly: words of different widths, a missing input."""


@dataclass(frozen=True)
class Gates:
    """Mutually independent gates of one kind; their outputs are the wires `first`, `first` + 1, …"""

    left: Wires
    right: Wires
    first: int

    def __len__(self) -> int:
        return len(self.left)

    @property
    def outputs(self) -> slice:
        """The wires that these gates set."""
        return slice(self.first, self.first + len(self.left))


@dataclass(frozen=True)
class AndGates(Gates):
    """AND gates, with flags for the operands that are inverted first."""

    left_inverted: NDArray[np.bool_]
    right_inverted: NDArray[np.bool_]


@dataclass(frozen=True)
class Layer:
    """All XORs at one AND depth, in steps of independent gates, and then the next ANDs."""

    xors: tuple[Gates, ...]
    ands: AndGates


@dataclass(frozen=True)
class Circuit:
    """A finished circuit: named input words, layers of gates, XORs after the last AND, named output words."""

    n_wires: int
    inputs: Mapping[str, slice]
    layers: tuple[Layer, ...]
    last_xors: tuple[Gates, ...]
    outputs: Mapping[str, NDArray[np.intp]]  # literals

    @cached_property
    def digest(self) -> bytes:
        """A hash of all gates and words, which is the same in every process that builds the circuit.

        Neither the object nor its address tells: caches let go of circuits, and threads may build one twice.
        """
        found = hashlib.sha256(repr((self.n_wires, dict(self.inputs), [*self.outputs])).encode())
        gates = (each for layer in self.layers for each in (*layer.xors, layer.ands))
        for each in (*gates, *self.last_xors):
            found.update(b"%d %d\0" % (each.first, len(each)))
            for array in vars(each).values():
                found.update(b"" if isinstance(array, int) else array.tobytes())
        for word in self.outputs.values():
            found.update(word.tobytes() + b"\0")
        return found.digest()

    @property
    def n_and(self) -> int:
        """The number of AND gates per instance."""
        return sum(len(layer.ands) for layer in self.layers)

    @property
    def depth(self) -> int:
        """The number of ANDs on the longest path: the rounds of an n-party evaluation."""
        return len(self.layers)

    def width(self, name: str) -> int:
        """Return the number of bits of an input word."""
        if name not in self.inputs:
            raise CircuitError(f'no input "{name}"; the circuit has {", ".join(self.inputs)}')
        wires = self.inputs[name]
        return int(wires.stop) - int(wires.start)

    def output_literals(self, names: Iterable[str]) -> NDArray[np.intp]:
        """Return the literals of these output words, concatenated."""
        words = []
        for name in names:
            if name not in self.outputs:
                raise CircuitError(f'no output "{name}"; the circuit has {", ".join(self.outputs)}')
            words.append(self.outputs[name])
        return np.concatenate(words) if words else np.zeros(0, np.intp)


class Builder:
    """Collects gates; every method returns the literal of its result."""

    def __init__(self) -> None:
        self._gates: list[tuple[bool, Literal, Literal] | None] = [None]  # None: wire 0 and the inputs
        self._known: dict[tuple[bool, Literal, Literal], int] = {}
        self._depths = [0]
        self._inputs: dict[str, slice] = {}
        self._outputs: dict[str, list[Literal]] = {}

    def input(self, name: str, width: int) -> Word:
        """Add an input word. Inputs must precede all gates."""
        if name in self._inputs or self._known or width < 1:
            raise CircuitError(f'input "{name}" must be new, come before any gate and have at least one bit')
        first = len(self._gates)
        self._gates.extend([None] * width)
        self._depths.extend([0] * width)
        self._inputs[name] = slice(first, first + width)
        return [2 * wire for wire in range(first, first + width)]

    def output(self, name: str, word: Sequence[Literal]) -> None:
        """Declare a word as the output of this name."""
        if name in self._outputs:
            raise CircuitError(f'output "{name}" is named twice')
        self._outputs[name] = list(word)

    def xor(self, left: Literal, right: Literal) -> Literal:
        """Return the XOR of two literals."""
        if left >> 1 == right >> 1 or left <= TRUE or right <= TRUE:
            return left ^ right
        return self._gate(False, left & ~1, right & ~1) ^ ((left ^ right) & 1)

    def both(self, left: Literal, right: Literal) -> Literal:
        """Return the AND of two literals."""
        if left == FALSE or right == FALSE or left == right ^ 1:
            return FALSE
        if left in (TRUE, right):
            return right
        return left if right == TRUE else self._gate(True, left, right)

    def either(self, left: Literal, right: Literal) -> Literal:
        """Return the OR of two literals."""
        return self.both(left ^ 1, right ^ 1) ^ 1

    def depth(self, literal: Literal) -> int:
        """Return how many ANDs are on the longest path to a literal."""
        return self._depths[literal >> 1]

    def all_of(self, literals: Sequence[Literal]) -> Literal:
        """Return the AND of any number of literals, as a tree; those of the least depth meet first."""
        level = sorted(literals, key=self.depth)
        while len(level) > 1 and self.depth(level[0]) < self.depth(level[-1]):
            insort(level, self.both(level.pop(0), level.pop(0)), key=self.depth)
        while len(level) > 1:
            paired = [self.both(*level[at : at + 2]) for at in range(0, len(level) - 1, 2)]
            level = paired + level[len(level) & ~1 :]
        return level[0] if level else TRUE

    def any_of(self, literals: Sequence[Literal]) -> Literal:
        """Return the OR of any number of literals, as a tree."""
        return self.all_of([each ^ 1 for each in literals]) ^ 1

    def parity(self, literals: Sequence[Literal]) -> Literal:
        """Return the XOR of any number of literals."""
        return reduce(self.xor, literals, FALSE)

    def include(self, circuit: Circuit, inputs: Mapping[str, Word]) -> dict[str, Word]:
        """Add the gates of a finished circuit, on these input words. Return its output words."""
        found = [FALSE] * circuit.n_wires
        for name, wires in circuit.inputs.items():
            if len(inputs[name]) != circuit.width(name):
                raise CircuitError(f'input "{name}" must have {circuit.width(name)} bits')
            found[wires] = inputs[name]

        def combine(xors: Iterable[Gates]) -> None:
            for gates in xors:
                operands = zip(gates.left.tolist(), gates.right.tolist(), strict=True)
                found[gates.outputs] = [self.xor(found[left], found[right]) for left, right in operands]

        for layer in circuit.layers:
            combine(layer.xors)
            ands = layer.ands
            left = zip(ands.left.tolist(), ands.left_inverted.tolist(), strict=True)
            right = zip(ands.right.tolist(), ands.right_inverted.tolist(), strict=True)
            found[ands.outputs] = [
                self.both(found[a] ^ a_inverted, found[b] ^ b_inverted)
                for (a, a_inverted), (b, b_inverted) in zip(left, right, strict=True)
            ]
        combine(circuit.last_xors)
        return {
            name: [found[each >> 1] ^ (each & 1) for each in word.tolist()] for name, word in circuit.outputs.items()
        }

    def _gate(self, is_and: bool, left: Literal, right: Literal) -> Literal:
        gate = (is_and, min(left, right), max(left, right))
        wire = self._known.get(gate)
        if wire is None:
            wire = self._known[gate] = len(self._gates)
            self._gates.append(gate)
            self._depths.append(max(self.depth(left), self.depth(right)) + is_and)
        return 2 * wire

    def build(self) -> Circuit:
        """Return the circuit, with gates in layers and wires renumbered in the order in which they are set."""
        if not self._outputs:
            raise CircuitError("a circuit needs an output")
        stages = self._stages()
        n_inputs = sum(each.stop - each.start for each in self._inputs.values())
        numbers = [*range(1 + n_inputs), *[0] * (len(self._gates) - 1 - n_inputs)]
        first = 1 + n_inputs
        layers: list[Layer] = []
        xors: list[Gates] = []
        for place in sorted(stages):
            wires = stages[place]
            gates = [gate for wire in wires if (gate := self._gates[wire]) is not None]
            left = np.array([numbers[gate[1] >> 1] for gate in gates], np.intp)
            right = np.array([numbers[gate[2] >> 1] for gate in gates], np.intp)
            for number, wire in enumerate(wires, first):
                numbers[wire] = number
            if place & _AND_STEP != _AND_STEP:
                xors.append(Gates(left, right, first))
            else:
                inverted = np.array([(gate[1] & 1, gate[2] & 1) for gate in gates], np.bool_)
                ands = AndGates(left, right, first, inverted[:, 0], inverted[:, 1])
                layers.append(Layer(tuple(xors), ands))
                xors = []
            first += len(wires)
        outputs = {
            name: np.array([2 * numbers[each >> 1] + (each & 1) for each in word], np.intp)
            for name, word in self._outputs.items()
        }
        return Circuit(first, dict(self._inputs), tuple(layers), tuple(xors), outputs)

    def _stages(self) -> dict[int, list[int]]:
        """Return the gates that an output needs, by their places: ANDs before, XORs in order, then `_AND_STEP`."""
        needed = bytearray(len(self._gates))
        for word in self._outputs.values():
            for each in word:
                needed[each >> 1] = True
        for wire in range(len(self._gates) - 1, 0, -1):
            if needed[wire] and (gate := self._gates[wire]) is not None:
                needed[gate[1] >> 1] = needed[gate[2] >> 1] = True
        ready = [0] * len(self._gates)  # the place after which each wire is set
        stages: defaultdict[int, list[int]] = defaultdict(list)
        for wire, gate in enumerate(self._gates):
            if gate is None or not needed[wire]:
                continue
            place = max(ready[gate[1] >> 1], ready[gate[2] >> 1]) + 1
            ready[wire] = place
            if gate[0]:
                place |= _AND_STEP
                ready[wire] = place + 1
            stages[place].append(wire)
        return stages


# A place in a circuit is a number: how many ANDs come before, and in these lower bits how many XORs since.
_AND_STEP = (1 << 40) - 1  # after every XOR of its layer


def evaluate(circuit: Circuit, inputs: Mapping[str, Bits]) -> dict[str, Bits]:
    """Evaluate in the clear: the reference for the secure evaluations."""
    values = np.zeros((circuit.n_wires, instances_of(circuit, inputs)), np.uint8)
    for name, wires in circuit.inputs.items():
        values[wires] = inputs[name]

    def combine(xors: Iterable[Gates]) -> None:
        for gates in xors:
            values[gates.outputs] = values[gates.left] ^ values[gates.right]

    for layer in circuit.layers:
        combine(layer.xors)
        ands = layer.ands
        left = values[ands.left] ^ ands.left_inverted[:, None]
        values[ands.outputs] = left & (values[ands.right] ^ ands.right_inverted[:, None])
    combine(circuit.last_xors)
    return {name: values[word >> 1] ^ (word & 1).astype(np.uint8)[:, None] for name, word in circuit.outputs.items()}


def instances_of(circuit: Circuit, inputs: Mapping[str, Bits]) -> int:
    """Return the number of instances in these inputs; `CircuitError` when they do not fit the circuit."""
    if set(inputs) != set(circuit.inputs):
        raise CircuitError(f"the circuit's inputs are {', '.join(circuit.inputs)}; got {', '.join(inputs)}")
    counts: set[int] = set()
    for name, bits in inputs.items():
        if bits.ndim != 2 or len(bits) != circuit.width(name):
            raise CircuitError(f'input "{name}" must have {circuit.width(name)} rows of bits')
        counts.add(bits.shape[1])
    if len(counts) != 1:
        raise CircuitError("all inputs must have the same number of instances")
    return counts.pop()


def to_bits(numbers: Sequence[int] | NDArray[np.integer], width: int) -> Bits:
    """Convert integers of any size to words modulo 2^width, so two's complement when negative."""
    n_bytes = -(-width // 8)
    mask = (1 << width) - 1
    data = b"".join((int(each) & mask).to_bytes(n_bytes, "little") for each in numbers)
    rows = np.frombuffer(data, np.uint8).reshape(len(numbers), n_bytes)
    return np.ascontiguousarray(np.unpackbits(rows, axis=1, bitorder="little")[:, :width].T)


# --- sorting network ----------------------------------------------------------------------------------------
# Batcher's merge exchange (Knuth, *Sorting and Searching*, Algorithm 5.2.2M): sorts any number of keys.
#
# Which places are compared depends on the number of keys alone, so that the comparisons can be made on
# shares. Layers: about (log₂ n)² / 2; comparators: about n·(log₂ n)² / 4.


def layers(n: int) -> Iterator[tuple[Rows, Rows]]:
    """Yield the places that each layer compares: after it the smaller key is at the first of two, all disjoint."""
    if n < 2:
        return
    top = 1 << ((n - 1).bit_length() - 1)
    stride = top
    while stride:
        step, phase, distance = top, 0, stride
        while True:
            low = np.arange(n - distance)
            low = low[(low & stride) == phase]
            yield low, low + distance
            if step == stride:
                break
            distance, step, phase = step - stride, step >> 1, stride
        stride >>= 1
