"""Sums of real numbers over n sites, of which nobody learns another's summand.

Pairwise masks that cancel (`crypto/secure_sum.py`), on numbers in fixed point modulo 2^128: 2^-60 is the last digit,
and a sum may have 2^66 before the point. One modulus for the whole number: sums of its parts would tell the carries.

Between two sites a sum tells each the other's summand: what is aggregated must bear that.

Cost: once, a nonce and a key to each peer; then 16 bytes a number and peer. A site that vanishes ends the sum, and is
named; nothing of a sum is known until all have sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto.rings import Elements, WidePowerOfTwo
from masquerade.crypto.secure_sum import MaskKey, PairwiseMasks, unmask_sum
from masquerade.errors import ParameterError
from masquerade.net.script import Message, Receive, Script, Send
from masquerade.protocol.blaming import blaming
from masquerade.protocol.pairwise_setup import exchange_nonces

Numbers = NDArray[np.float64]

_RING = WidePowerOfTwo()
_PLACES = 60
_LARGEST = 1 << 58  # of a summand: a sum of hundreds still has its sign


class SumKey(Message, tag="sum-key", frozen=True):
    """A site's public key, from which each two sites derive their masks."""

    public: bytes


class MaskedSummands(Message, tag="sum-masked", frozen=True):
    """A site's summands, masked."""

    data: bytes


class Aggregation:
    """One site's side; `prepare_aggregation` makes it."""

    def __init__(self, peers: Sequence[str], masks: PairwiseMasks) -> None:
        self._peers, self._masks = tuple(peers), masks
        self._rounds = 0

    def total(self, numbers: Numbers) -> Script[Numbers]:
        """Return the sums over all sites, number by number; every site gives equally many."""
        self._rounds += 1
        own = self._masks.mask(_fixed(numbers), self._rounds)
        yield Send(self._peers, MaskedSummands(_RING.encode(own)))
        shown = [own]
        for name in self._peers:
            heard = yield Receive(name, MaskedSummands)
            with blaming(name):
                shown.append(_RING.decode(heard.data, own.size))
        total = _RING.signed(unmask_sum(shown, _RING))
        return np.array([float(Fraction(each, 1 << _PLACES)) for each in total])


def prepare_aggregation(me: int, parties: Sequence[str], purpose: bytes) -> Script[Aggregation]:
    """Agree on masks with every other site; all give the same names and purpose."""
    nonces = yield from exchange_nonces(me, parties)
    session = purpose + b"\0" + b"".join(nonces)
    peers = {number: name for number, name in enumerate(parties) if number != me}
    key = MaskKey()
    yield Send(tuple(peers.values()), SumKey(key.public))
    seeds = {}
    for number, name in peers.items():
        heard = yield Receive(name, SumKey)
        with blaming(name):
            seeds[number] = key.seed(heard.public, session)
    return Aggregation(tuple(peers.values()), PairwiseMasks(me, seeds, _RING))


def _fixed(numbers: Numbers) -> Elements:
    """Return the numbers in fixed point."""
    flat = numbers.ravel()
    if not np.isfinite(flat).all() or (np.abs(flat) >= _LARGEST).any():
        raise ParameterError(
            f"numbers to add up must be below {_LARGEST:.1e}; give the attributes in larger units"
        )
    return _RING.elements([int(Fraction(number) * (1 << _PLACES)) for number in flat.tolist()])
