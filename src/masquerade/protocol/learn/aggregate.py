"""Sums of real numbers over n sites, of which nobody learns another's summand.

Pairwise masks that cancel (`crypto/secure_sum.py`), on numbers in fixed point: 2^-60 is the last digit, and a sum may
have 2^58 before the point. A number of that many digits is sent as three elements of 40 bits each, which leaves room
for the carries of millions of sites.

Between two sites a sum tells each the other's summand: what is aggregated must bear that.

Cost: once, a nonce and a key to each peer; then 24 bytes a number and peer. A site that vanishes ends the sum, and is
named; nothing of a sum is known until all have sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto.rings import Elements, PowerOfTwo
from masquerade.crypto.secure_sum import MaskKey, PairwiseMasks, unmask_sum
from masquerade.errors import ParameterError
from masquerade.net.script import Message, Receive, Script, Send
from masquerade.protocol.blaming import blaming
from masquerade.protocol.pairwise_setup import exchange_nonces

Numbers = NDArray[np.float64]

_RING = PowerOfTwo(64)
_PLACES, _LIMB_BITS, _LIMBS = 60, 40, 3
_LARGEST = 1 << 58


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
        own = self._masks.mask(_limbs(numbers), self._rounds)
        yield Send(self._peers, MaskedSummands(_RING.encode(own)))
        shown = [own]
        for name in self._peers:
            heard = yield Receive(name, MaskedSummands)
            with blaming(name):
                shown.append(_RING.decode(heard.data, own.size))
        return _joined(unmask_sum(shown, _RING))


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


def _limbs(numbers: Numbers) -> Elements:
    """Return the numbers in fixed point, as elements; the lowest part of all first."""
    flat = numbers.ravel()
    if not np.isfinite(flat).all() or (np.abs(flat) >= _LARGEST).any():
        raise ParameterError(
            f"numbers to add up must be below {_LARGEST:.1e}; give the attributes in larger units"
        )
    scaled = [int(Fraction(number) * (1 << _PLACES)) for number in flat.tolist()]
    mask = (1 << _LIMB_BITS) - 1
    low = [[number >> _LIMB_BITS * at & mask for number in scaled] for at in range(_LIMBS - 1)]
    high = [number >> _LIMB_BITS * (_LIMBS - 1) for number in scaled]  # the only part with a sign
    return _RING.elements(np.array([*low, high], np.int64).ravel())


def _joined(elements: Elements) -> Numbers:
    """Return the sums that these elements are of."""
    signed = elements.view(np.int64).reshape(_LIMBS, -1).astype(object)
    whole = sum(int(1 << _LIMB_BITS * at) * limb for at, limb in enumerate(signed))
    return np.array([float(Fraction(int(each), 1 << _PLACES)) for each in np.atleast_1d(whole)])
