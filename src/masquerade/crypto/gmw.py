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
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto.bits import Bits, Packed, pack
from masquerade.crypto.circuit import AndGates, Circuit, Gates
from masquerade.crypto.hashing import Stream, derive_key, random_bytes
from masquerade.errors import BadMessage, ParameterError

# --- holders ------------------------------------------------------------------------------------------------
# Which parties hold a share of each wire, when several evaluate a circuit together.
#
# An input that one party knows need not be shared with the others: its owner holds it, and everybody else's
# share is 0. A wire is then held by those whose inputs it depends on. That is what an AND costs: one
# product for each party that holds the left operand and each other party that holds the right one.
# Comparing two parties' numbers concerns these two alone, however many take part.
#
# Parties are sets of bits: party p is bit p.

Parties = NDArray[np.uint64]  # one set of parties per gate or wire
Places = NDArray[np.intp]

MOST_PARTIES = 64


class Duties(NamedTuple):
    """What one of the holders must do in a layer: invert operands, left ones, then right ones; add d ∧ e."""

    inverts: NDArray[np.bool_]
    adds: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class HeldCircuit:
    """A circuit with the holders of its wires; `left` and `right` are those of its ANDs' operands, layer by layer."""

    circuit: Circuit
    n_parties: int
    wires: Parties
    left: tuple[Parties, ...]
    right: tuple[Parties, ...]
    _opened: dict[int, list[Places]] = field(default_factory=dict, init=False)
    _products: dict[tuple[int, int], tuple[Places, Places]] = field(default_factory=dict, init=False)
    _duties: dict[int, list[Duties]] = field(default_factory=dict, init=False)

    @cached_property
    def most_products(self) -> int:
        """How many products an instance takes of the two parties that have most of them."""
        left, right = self.sides
        holds = [(held_by(each, left), held_by(each, right)) for each in range(self.n_parties)]
        return max(int((a & d).sum() + (b & c).sum()) for (a, b), (c, d) in combinations(holds, 2))

    def opened_by(self, party: int) -> list[Places]:
        """Return the operands that a party opens of each layer, left ones, then right ones; found once."""
        if party not in self._opened:
            self._opened[party] = [np.flatnonzero(held_by(party, each)) for each in self._operands]
        return self._opened[party]

    def products_of(self, party: int, peer: int) -> tuple[Places, Places]:
        """Return the ANDs whose left operand a party holds and whose right one a peer, and the reverse; found once."""
        if (party, peer) not in self._products:
            left, right = self.sides
            self._products[party, peer] = (
                np.flatnonzero(held_by(party, left) & held_by(peer, right)),
                np.flatnonzero(held_by(party, right) & held_by(peer, left)),
            )
        return self._products[party, peer]

    def duties_of(self, party: int) -> list[Duties]:
        """Return what a party, as the first of some holders, does alone in each layer; found once."""
        if party not in self._duties:
            found = []
            for layer, holders in zip(self.circuit.layers, self._operands, strict=True):
                ands = layer.ands
                inverted = np.concatenate((ands.left_inverted, ands.right_inverted))
                either = holders[: len(ands)] | holders[len(ands) :]
                found.append(Duties(is_first(party, holders) & inverted, is_first(party, either)))
            self._duties[party] = found
        return self._duties[party]

    @cached_property
    def _operands(self) -> list[Parties]:
        return [np.concatenate(pair) for pair in zip(self.left, self.right, strict=True)]

    @cached_property
    def sides(self) -> tuple[Parties, Parties]:
        """The holders of all left operands, and of all right ones."""
        nobody = np.zeros(0, np.uint64)
        return np.concatenate([nobody, *self.left]), np.concatenate([nobody, *self.right])


def hold(circuit: Circuit, n_parties: int, owners: Mapping[str, int] | None = None) -> HeldCircuit:
    """Find the holders of all wires, given the owner of each input that one party alone knows.

    All parties hold the other inputs.
    """
    if not 2 <= n_parties <= MOST_PARTIES:
        raise ParameterError(f"between 2 and {MOST_PARTIES} parties share a circuit. Got {n_parties} instead.")
    everybody = (1 << n_parties) - 1
    wires: Parties = np.zeros(circuit.n_wires, np.uint64)
    for name, place in circuit.inputs.items():
        wires[place] = 1 << owners[name] if owners is not None and name in owners else everybody
    left, right = [], []

    def combine(xors: Iterable[Gates]) -> None:
        for gates in xors:
            wires[gates.outputs] = wires[gates.left] | wires[gates.right]

    for layer in circuit.layers:
        combine(layer.xors)
        left.append(wires[layer.ands.left])
        right.append(wires[layer.ands.right])
        wires[layer.ands.outputs] = left[-1] | right[-1]
    combine(circuit.last_xors)
    return HeldCircuit(circuit, n_parties, wires, tuple(left), tuple(right))


def held_by(party: int, holders: Parties) -> NDArray[np.bool_]:
    """Return where a party is among the holders."""
    return (holders >> np.uint64(party) & np.uint64(1)).astype(bool)


def is_first(party: int, holders: Parties) -> NDArray[np.bool_]:
    """Return where a party is the first of the holders, who does what one of them must; party 0 where nobody is."""
    first = holders & (~holders + np.uint64(1))
    is_it: NDArray[np.bool_] = first == np.uint64(1 << party)
    return is_it if party else is_it | (holders == 0)


# --- triples ------------------------------------------------------------------------------------------------
# AND triples for n parties: shares of random bits a and b, and of c = a ∧ b; made ahead, each used once.
#
# A triple is for one gate of one instance: a is shared among the holders of the gate's left operand, b
# among those of its right one (`holders`), and the shares of all others are 0. c = ⊕ᵢ aᵢbᵢ ⊕ ⊕ᵢ≠ⱼ aᵢbⱼ.
# Each party knows its own aᵢbᵢ. For each pair, aᵢbⱼ comes from one random oblivious transfer of a bit in
# which j chose with bⱼ: i got (m₀, m₁) and j got m_b; i sends m₀ ⊕ m₁ ⊕ aᵢ, j adds that to m_b where bⱼ =
# 1, and m₀ and m₀ ⊕ aᵢbⱼ are the pair's shares (Gilboa 1999, for one bit). bᵢaⱼ comes the same way from a
# second transfer in which j chose with aⱼ; so one direction of transfers between a pair is enough,
# whichever it is.
#
# Private against any n − 1 curious parties, as the transfers are. Cost of a triple: a transfer and a bit
# for each holder of the left operand and each other holder of the right one; where all n parties hold both,
# n(n − 1).


class Triples:
    """One party's shares of a circuit's triples, handed out once: one row per gate, one column per instance."""

    def __init__(self, a: Rows, b: Rows, c: Rows, instances: int) -> None:
        if not a.shape == b.shape == c.shape or a.shape[1:] != (-(-instances // 8),):
            raise ParameterError(f"triples of {instances} instances take {-(-instances // 8)} bytes a gate")
        self._parts = (a, b, c)
        self._count = instances
        self._used = 0

    def __len__(self) -> int:
        return self._count - self._used

    def take(self, instances: int) -> tuple[Rows, Rows, Rows]:
        """Return shares of a, b and c for the next instances. All parties must take as many, in the same order."""
        if instances > len(self):
            raise ParameterError(
                f"triples of {instances} instances are needed and of {len(self)} are left: make more ahead"
            )
        first, self._used = self._used, self._used + instances
        a, b, c = (_columns(part, first, instances) for part in self._parts)
        return a, b, c

    def joined(self, more: Triples) -> Triples:
        """Return what is left of these, and then of other ones."""
        left, others = (
            [np.unpackbits(part, axis=1, count=each._count, bitorder="little")[:, each._used :] for part in each._parts]
            for each in (self, more)
        )
        a, b, c = (_packed_rows(np.concatenate(pair, axis=1)) for pair in zip(left, others, strict=True))
        return Triples(a, b, c, len(self) + len(more))


class TripleMaking:
    """One party's part of making triples for some instances of a circuit, a multiple of 8.

    Each pair of parties runs `transfers` random transfers of a bit. The receiver's choice bits are `choices`.
    """

    def __init__(self, held: HeldCircuit, me: int, instances: int) -> None:
        if instances < 8 or instances % 8:
            raise ParameterError(f"instances of triples must be a multiple of 8. Got {instances} instead.")
        self._held, self._me, self._n_parties, self._instances = held, me, held.n_parties, instances
        left, right = held.sides
        self._a = _random_rows(held_by(me, left), instances)
        self._b = _random_rows(held_by(me, right), instances)
        self._c = self._a & self._b
        self._done: set[int] = set()

    def transfers(self, peer: int) -> int:
        """Return how many transfers this pair needs."""
        return sum(map(len, self._products(peer))) * self._instances

    def choices(self, peer: int) -> Bits:
        """Return the choice bits of this party in transfers that it receives: its bits b, then a."""
        with_a, with_b = self._products(peer)
        return np.unpackbits(np.concatenate((self._b[with_b], self._a[with_a])), bitorder="little")

    def correct(self, peer: int, zeros: Bits, ones: Bits) -> bytes:
        """Return the correction to send to `peer`, for the transfers in which it chose and we got both messages."""
        self._once(peer, zeros, ones)
        with_a, with_b = self._products(peer)
        kept, other = self._rows(zeros), self._rows(ones)
        self._add(kept, with_a, with_b)
        other ^= kept
        other ^= np.concatenate((self._a[with_a], self._b[with_b]))
        return other.tobytes()

    def absorb(self, peer: int, chosen: Bits, correction: bytes) -> None:
        """Take the chosen bits and the peer's correction, for the transfers in which this party chose."""
        if 8 * len(correction) != self.transfers(peer):
            raise BadMessage(f"corrections of {len(correction)} bytes; {self.transfers(peer)} bits were expected")
        self._once(peer, chosen)
        with_a, with_b = self._products(peer)
        told = np.frombuffer(correction, np.uint8).reshape(-1, self._instances // 8)
        mine = np.concatenate((self._b[with_b], self._a[with_a]))
        self._add(self._rows(chosen) ^ (mine & told), with_b, with_a)

    def triples(self) -> Triples:
        """Return the triples, once the transfers with all peers are done."""
        missing = [
            peer
            for peer in range(self._n_parties)
            if peer != self._me and peer not in self._done and self.transfers(peer)
        ]
        if missing:
            raise ParameterError(f"the transfers with party {missing[0]} are missing")
        return Triples(self._a, self._b, self._c, self._instances)

    def _products(self, peer: int) -> tuple[Places, Places]:
        """Return the gates of which our a, and those of which our b, meets the peer's share of the other operand."""
        return self._held.products_of(self._me, peer)

    def _rows(self, bits: Bits) -> Rows:
        return pack(bits).reshape(-1, self._instances // 8)

    def _add(self, shares: Rows, first: Places, then: Places) -> None:
        self._c[first] ^= shares[: len(first)]
        self._c[then] ^= shares[len(first) :]

    def _once(self, peer: int, *transferred: Bits) -> None:
        count = self.transfers(peer)
        if any(bits.shape != (count,) for bits in transferred):
            raise ParameterError(f"the triples with party {peer} take {count} transfers")
        if peer in self._done:
            raise ParameterError(f"the transfers with party {peer} were used before")
        self._done.add(peer)


def _columns(rows: Rows, first: int, count: int) -> Rows:
    """Return some columns of packed rows."""
    whole: Packed = rows[:, first // 8 : -(-(first + count) // 8)]
    if first % 8 == 0 and count % 8 == 0:
        return whole
    bits = np.unpackbits(whole, axis=1, bitorder="little")[:, first % 8 :][:, :count]
    return np.packbits(bits, axis=1, bitorder="little")


def _random_rows(drawn: NDArray[np.bool_], instances: int) -> Rows:
    """Draw a row for each gate that is marked; the others are zeros."""
    rows = np.zeros((len(drawn), instances // 8), np.uint8)
    count = int(drawn.sum())
    rows[drawn] = np.frombuffer(random_bytes(count * instances // 8), np.uint8).reshape(count, instances // 8)
    return rows


# --- gmw ----------------------------------------------------------------------------------------------------

Rows = NDArray[np.uint8]  # one row per wire: its shares of all instances, packed


class InputMasks:
    """Shares inputs without further messages: owner and peer expand a seed that the owner drew and sent once.

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
    """Shares of zero among all parties without a message: every two parties expand a seed that one of them drew.

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
