"""A sum over n parties without revealing any summand, by pairwise masks that cancel.

Each pair of parties agrees on a seed (X25519); in every round the one with the smaller number adds the expanded seed,
the other subtracts it. A party's message is uniform for everybody who lacks one of its seeds, so n − 1 parties
together learn the sum and what follows from it, and nothing else (Chaum's DC-net 1988; Bonawitz et al., "Practical
Secure Aggregation", CCS 2017, without its recovery from parties that vanish).

Cost: n − 1 key agreements per party once; one element per value and party in each round. It does not protect against a
party that lies about its summand, and a round fails if a party vanishes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from nacl import bindings
from nacl.exceptions import CryptoError
from numpy.typing import ArrayLike

from masquerade.crypto.hashing import BLOCK_BYTES, TweakCounter, derive_key, random_bytes
from masquerade.crypto.rings import Elements, PowerOfTwo
from masquerade.errors import BadMessage, ParameterError

KEY_BYTES = 32


class MaskKey:
    """One party's secret key, fresh for a session; everybody gets its public half."""

    def __init__(self) -> None:
        self._secret = random_bytes(KEY_BYTES)
        self.public: bytes = bindings.crypto_scalarmult_base(self._secret)

    def seed(self, peer_public: bytes, session: bytes) -> bytes:
        """Return the 16 bytes that only we and this peer know."""
        if len(peer_public) != KEY_BYTES:
            raise BadMessage(f"a public key has {KEY_BYTES} bytes. Got {len(peer_public)} instead.")
        if peer_public == self.public:
            raise BadMessage("the public key is our own")
        try:
            shared = bindings.crypto_scalarmult(self._secret, peer_public)
        except (CryptoError, RuntimeError):
            raise BadMessage("the public key is a point of small order") from None
        both = sorted((self.public, peer_public))
        return derive_key(shared, b"pairwise-mask", session, *both)


class PairwiseMasks:
    """The masks of party number `me`, given each peer's number and seed; each round's masks are used once."""

    def __init__(self, me: int, seeds: Mapping[int, bytes], ring: PowerOfTwo) -> None:
        if not seeds or me in seeds:
            raise ParameterError("masks need the seeds of all other parties, and of at least one")
        if len(set(seeds.values())) != len(seeds) or any(len(seed) != BLOCK_BYTES for seed in seeds.values()):
            raise ParameterError(f"each two parties need their own seed of {BLOCK_BYTES} bytes")
        self._me = me
        self._seeds = dict(seeds)
        self._ring = ring
        self._rounds = TweakCounter()

    def mask(self, values: ArrayLike, round_number: int) -> Elements:
        """Mask values for this round. Round numbers must increase: reusing one would reveal a difference of values."""
        ring = self._ring
        total = ring.elements(values)
        self._rounds.claim(round_number, 1)
        for peer, seed in self._seeds.items():
            fresh = derive_key(seed, b"round", round_number.to_bytes(8, "big"))
            masks = ring.from_seed(fresh, total.shape)
            total = ring.add(total, masks) if self._me < peer else ring.subtract(total, masks)
        return total


def unmask_sum(masked: Sequence[Elements], ring: PowerOfTwo) -> Elements:
    """Return the sum of all parties' values, from their masked values of one round."""
    if len({part.shape for part in masked}) != 1:
        raise BadMessage("all parties must show arrays of one shape")
    return reduce(ring.add, masked)
