"""AND triples for n parties: shares of random bits a and b, and of c = a ∧ b; made ahead, each used once.

A triple is for one gate of one instance: a is shared among the holders of the gate's left operand, b among those of
its right one (`holders`), and the shares of all others are 0. c = ⊕ᵢ aᵢbᵢ ⊕ ⊕ᵢ≠ⱼ aᵢbⱼ. Each party knows its own aᵢbᵢ.
For each pair, aᵢbⱼ comes from one random oblivious transfer of a bit in which j chose with bⱼ: i got (m₀, m₁) and j got
m_b; i sends m₀ ⊕ m₁ ⊕ aᵢ, j adds that to m_b where bⱼ = 1, and m₀ and m₀ ⊕ aᵢbⱼ are the pair's shares (Gilboa 1999,
for one bit). bᵢaⱼ comes the same way from a second transfer in which j chose with aⱼ; so one direction of transfers
between a pair is enough, whichever it is.

Private against any n − 1 curious parties, as the transfers are. Cost of a triple: a transfer and a bit for each holder
of the left operand and each other holder of the right one; where all n parties hold both, n(n − 1).
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto import BadMessage
from masquerade.crypto.bits import Bits, Packed, pack
from masquerade.crypto.holders import HeldCircuit, Places, held_by
from masquerade.errors import ParameterError

Rows = NDArray[np.uint8]  # one row per gate: its bits in all instances, packed


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
        parts = zip(self._left(), more._left(), strict=True)
        a, b, c = (np.packbits(np.concatenate(pair, axis=1), axis=1, bitorder="little") for pair in parts)
        return Triples(a, b, c, len(self) + len(more))

    def _left(self) -> tuple[Bits, Bits, Bits]:
        a, b, c = (
            np.unpackbits(part, axis=1, count=self._count, bitorder="little")[:, self._used :]
            for part in self._parts
        )
        return a, b, c


class TripleMaking:
    """One party's part of making triples for some instances of a circuit, a multiple of 8.

    Each pair of parties runs `transfers` random transfers of a bit. The receiver's choice bits are `choices`.
    """

    def __init__(self, held: HeldCircuit, me: int, instances: int) -> None:
        if instances < 8 or instances % 8:
            raise ParameterError(f"instances of triples must be a multiple of 8. Got {instances} instead.")
        self._held, self._me, self._n_parties, self._instances = held, me, held.n_parties, instances
        left, right = (
            np.concatenate([np.zeros(0, np.uint64), *layers]) for layers in (held.left, held.right)
        )
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
            raise BadMessage(
                f"corrections of {len(correction)} bytes; {self.transfers(peer)} bits were expected"
            )
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
    rows[drawn] = np.frombuffer(os.urandom(count * instances // 8), np.uint8).reshape(count, instances // 8)
    return rows
