"""AND triples for n parties: shares of random bits a and b, and of c = a ∧ b; made ahead, each used once.

c = ⊕ᵢ aᵢbᵢ ⊕ ⊕ᵢ≠ⱼ aᵢbⱼ. Each party knows its own aᵢbᵢ. For each pair, aᵢbⱼ comes from one random oblivious transfer of
a bit in which j chose with bⱼ: i got (m₀, m₁) and j got m_b; i sends m₀ ⊕ m₁ ⊕ aᵢ, j adds that to m_b where bⱼ = 1, and
m₀ and m₀ ⊕ aᵢbⱼ are the pair's shares (Gilboa 1999, for one bit). bᵢaⱼ comes the same way from a second transfer in
which j chose with aⱼ; so one direction of transfers between a pair is enough, whichever it is.

Private against any n − 1 curious parties, as the transfers are. Cost of a triple for each of the n(n − 1)/2 pairs: two
transfers and 2 bits.
"""

from __future__ import annotations

import os

import numpy as np

from masquerade.crypto import BadMessage
from masquerade.crypto.bits import Bits, Packed, pack
from masquerade.errors import ParameterError


class Triples:
    """One party's shares of triples, handed out once."""

    def __init__(self, a: Packed, b: Packed, c: Packed, count: int) -> None:
        if not len(a) == len(b) == len(c) == -(-count // 8):
            raise ParameterError(f"{count} triples take {-(-count // 8)} bytes for each of a, b and c")
        self._parts = (a, b, c)
        self._count = count
        self._used = 0

    def __len__(self) -> int:
        return self._count - self._used

    def take(self, count: int) -> tuple[Bits, Bits, Bits]:
        """Return the next `count` shares of a, b and c. All parties must take the same counts in the same order."""
        if count > len(self):
            raise ParameterError(f"{count} triples are needed and {len(self)} are left: make more ahead")
        first, stop = self._used, self._used + count
        self._used = stop
        a, b, c = (
            np.unpackbits(part[first // 8 : -(-stop // 8)], bitorder="little")[first % 8 :][:count]
            for part in self._parts
        )
        return a, b, c


class TripleMaking:
    """One party's part of making `count` triples.

    Each pair of parties runs 2 · `count` random transfers of a bit. The receiver's choice bits are `choices`.
    """

    def __init__(self, count: int) -> None:
        if count < 1:
            raise ParameterError(f"the number of triples must be at least 1. Got {count} instead.")
        self._count = count
        self._a, self._b = _random_bits(count), _random_bits(count)
        self._c = self._a & self._b
        self._done: set[int] = set()

    @property
    def choices(self) -> Bits:
        """The choice bits of this party in transfers that it receives: its bits b, then a."""
        return np.concatenate((self._b, self._a))

    def correct(self, peer: int, zeros: Bits, ones: Bits) -> bytes:
        """Return the correction to send to `peer`, for the transfers in which it chose and we got both messages."""
        self._once(peer, zeros, ones)
        self._add(zeros)
        return pack(zeros ^ ones ^ np.concatenate((self._a, self._b))).tobytes()

    def absorb(self, peer: int, chosen: Bits, correction: bytes) -> None:
        """Take the chosen bits and the peer's correction, for the transfers in which this party chose."""
        if len(correction) != -(-2 * self._count // 8):
            raise BadMessage(f"corrections of {len(correction)} bytes; {2 * self._count} bits were expected")
        self._once(peer, chosen)
        told = np.unpackbits(np.frombuffer(correction, np.uint8), count=2 * self._count, bitorder="little")
        self._add(chosen ^ (self.choices & told))

    def triples(self, n_parties: int) -> Triples:
        """Return the triples, once the transfers with all n − 1 peers are done."""
        if len(self._done) != n_parties - 1:
            raise ParameterError(
                f"transfers with {len(self._done)} peers make no triples of {n_parties} parties"
            )
        return Triples(pack(self._a), pack(self._b), pack(self._c), self._count)

    def _add(self, shares: Bits) -> None:
        self._c = self._c ^ shares[: self._count] ^ shares[self._count :]

    def _once(self, peer: int, *transferred: Bits) -> None:
        if any(bits.shape != (2 * self._count,) for bits in transferred):
            raise ParameterError(f"{self._count} triples take {2 * self._count} transfers with each peer")
        if peer in self._done:
            raise ParameterError(f"the transfers with party {peer} were used before")
        self._done.add(peer)


def _random_bits(count: int) -> Bits:
    packed = np.frombuffer(os.urandom(-(-count // 8)), np.uint8)
    return np.unpackbits(packed, count=count, bitorder="little")
