"""Sums of real numbers over n sites, of which nobody learns another's summand.

Pairwise masks that cancel (`crypto/secure_sum.py`), on numbers in fixed point modulo 2^512: 2^-256 is the last digit,
and a sum may have 2^255 before the point, so that attributes may be in any unit. One modulus for the whole number: sums
of its parts would tell the carries.

Between two sites a sum tells each the other's summand: what is aggregated must bear that.

Cost: once, a nonce and a key to each peer; then 64 bytes a number and peer. A site that vanishes ends the sum, and is
named; nothing of a sum is known until all have sent.

Where a sum may have to be made again without a site (`frame.py`), it is opened in two messages: each site adds a
mask of its own, and tells its seed when it has everybody's masked summands. So nobody can read a sum before every site
has agreed to open it, and a site that has not sent its seed knows that nobody ever will.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto import (
    BLOCK_BYTES,
    Builder,
    Circuit,
    Elements,
    MaskKey,
    PairwiseMasks,
    PowerOfTwo,
    WidePowerOfTwo,
    digits,
    random_bytes,
    unmask_sum,
    words,
)
from masquerade.errors import ParameterError, PeerBrokeProtocol
from masquerade.net import Message, Receive, Script, Send
from masquerade.protocol.pairs import blaming, exchange_nonces
from masquerade.protocol.providers.shared_counts import SharedBits

Numbers = NDArray[np.float64]

_RING = WidePowerOfTwo()
_PLACES = 256
_LARGEST = float(1 << 240)  # of a summand: a sum over thousands still has its sign


class SumKey(Message, tag="sum-key", frozen=True):
    """A site's public key, from which each two sites derive their masks."""

    public: bytes


class MaskedSummands(Message, tag="sum-masked", frozen=True):
    """A site's summands, masked."""

    data: bytes


class SumOpening(Message, tag="sum-opening", frozen=True):
    """The seed of the mask that a site has added by itself."""

    seed: bytes


@dataclass
class Openings:
    """What a site has let the others open: how many sums, and whether one more is being opened, or no more may be."""

    rounds: int = 0
    under_way: bool = False


class OneSite:
    """The sums over one site."""

    def total(self, numbers: Numbers) -> Script[Numbers]:
        """Return the numbers themselves."""
        yield from ()
        return numbers


class Aggregation:
    """One site's side; `prepare_aggregation` makes it."""

    def __init__(self, peers: Sequence[str], masks: PairwiseMasks, openings: Openings | None = None) -> None:
        self._peers, self._masks, self._openings = tuple(peers), masks, openings
        self._rounds = 0

    def total(self, numbers: Numbers) -> Script[Numbers]:
        """Return the sums over all sites, number by number; every site gives equally many."""
        self._rounds += 1
        masked = self._masks.mask(_fixed(numbers), self._rounds)
        if self._openings is None:
            found = yield from self._sum(masked)
        else:
            found = yield from self._opened_together(masked, self._openings)
        return np.array([float(Fraction(each, 1 << _PLACES)) for each in _RING.signed(found)])

    def _sum(self, masked: Elements) -> Script[Elements]:
        """Show our masked summands to all. Return the sum of everybody's."""
        yield Send(self._peers, MaskedSummands(_RING.encode(masked)))
        shown = [masked]
        for name in self._peers:
            heard = yield Receive(name, MaskedSummands)
            with blaming(name):
                shown.append(_RING.decode(heard.data, masked.size))
        return unmask_sum(shown, _RING)

    def _opened_together(self, masked: Elements, openings: Openings) -> Script[Elements]:
        """Add up under masks of each site's own, then open these."""
        own = random_bytes(BLOCK_BYTES)
        total = yield from self._sum(_RING.add(masked, _RING.from_seed(own, masked.shape)))
        openings.under_way = True
        yield Send(self._peers, SumOpening(own))
        seeds = [own]
        for name in self._peers:
            seed = (yield Receive(name, SumOpening)).seed
            if len(seed) != BLOCK_BYTES:
                raise PeerBrokeProtocol(name, f"sent a seed of {len(seed)} bytes instead of {BLOCK_BYTES}")
            seeds.append(seed)
        for seed in seeds:
            total = _RING.subtract(total, _RING.from_seed(seed, masked.shape))
        openings.rounds, openings.under_way = openings.rounds + 1, False
        return total


AddsUp = Aggregation | OneSite


def prepare_aggregation(
    me: int, parties: Sequence[str], purpose: bytes, openings: Openings | None = None
) -> Script[Aggregation]:
    """Agree on masks with every other site; all give the same names and purpose.

    `openings` keeps account of what is opened, where a sum may have to be made again with fewer sites.
    """
    masks = yield from agree_on_masks(me, parties, purpose, _RING)
    peers = tuple(name for number, name in enumerate(parties) if number != me)
    return Aggregation(peers, masks, openings)


def agree_on_masks(me: int, parties: Sequence[str], purpose: bytes, ring: PowerOfTwo) -> Script[PairwiseMasks]:
    """Return masks of this ring that cancel out in the sum over all sites."""
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
    return PairwiseMasks(me, seeds, ring)


def _fixed(numbers: Numbers) -> Elements:
    """Return the numbers in fixed point."""
    flat = numbers.ravel()
    if not np.isfinite(flat).all() or (np.abs(flat) >= _LARGEST).any():
        raise ParameterError(f"numbers to add up must be below {_LARGEST:.0e}; give the attributes in larger units")
    return _RING.elements([int(Fraction(number) * (1 << _PLACES)) for number in flat.tolist()])


# --- coin toss ----------------------------------------------------------------------------------------------
# Common coins: random bytes that no site could choose, though it knew the others' coins first.
#
# Each site draws its coin and sends a commitment to it; when all are there, everybody opens its own. The
# common coin is a hash of all (Blum, "Coin Flipping by Telephone", 1981). A site that opens another coin
# than it has committed to is named. One that dislikes the outcome can only leave, which names it, too.
#
# Cost: two messages of at most 64 bytes to each peer.

_COIN_BYTES = 32


class CoinCommitment(Message, tag="coin-commitment", frozen=True):
    """The hash of a coin and of random bytes that hide it."""

    digest: bytes


class CoinOpening(Message, tag="coin-opening", frozen=True):
    """The coin, and the bytes that hid it."""

    coin: bytes
    blinding: bytes


def tossed(me: int, parties: Sequence[str], purpose: bytes) -> Script[bytes]:
    """Return 32 random bytes that are the same for all sites; `purpose` names the session and the use."""
    peers = {number: name for number, name in enumerate(parties) if number != me}
    own = CoinOpening(random_bytes(_COIN_BYTES), random_bytes(_COIN_BYTES))
    yield Send(tuple(peers.values()), CoinCommitment(_digest(own, me, purpose)))
    committed: dict[int, bytes] = {}
    for number, name in peers.items():
        committed[number] = (yield Receive(name, CoinCommitment)).digest
    yield Send(tuple(peers.values()), own)
    coins = {me: own.coin}
    for number, name in peers.items():
        opened = yield Receive(name, CoinOpening)
        if len(opened.coin) != _COIN_BYTES or _digest(opened, number, purpose) != committed[number]:
            raise PeerBrokeProtocol(name, "opened another coin than it had committed to")
        coins[number] = opened.coin
    return hashlib.sha256(b"masquerade/coin\0" + purpose + b"".join(coins[at] for at in sorted(coins))).digest()


def _digest(opening: CoinOpening, site: int, purpose: bytes) -> bytes:
    """Return the commitment; the site's number is in it, so that nobody can repeat another's."""
    text = b"masquerade/coin-commitment\0%d\0" % site + purpose + b"\0"
    return hashlib.sha256(text + opening.blinding + opening.coin).digest()


# --- extremes -----------------------------------------------------------------------------------------------
# The largest of numbers that n sites have, one each, and nothing of the others; the smallest is that of
# negatives.
#
# A knock-out tournament in a circuit on XOR shares (`protocol/providers/shared_counts.py`): 2·w·(n − 1)
# ANDs for numbers of w digits. All sites learn the largest number, not whose it is; who has it knows that
# the others have none larger.

_SIGN = np.uint64(1 << 63)


def largest(shared: SharedBits, own: Numbers) -> Script[Numbers]:
    """Return the largest of all sites' numbers, entry by entry."""
    bits = np.ascontiguousarray(own, np.float64).view(np.uint64)
    # The order of floats is that of their bits, once negative ones are inverted and positive ones moved above them.
    ordered = np.where(bits & _SIGN, ~bits, bits | _SIGN)
    found = yield from shared.evaluate(_largest_circuit(len(shared.parties)), digits(ordered, 64), "largest")
    places = np.arange(64, dtype=np.uint64)[:, None]
    whole = (found.astype(np.uint64) << places).sum(axis=0, dtype=np.uint64)
    numbers: Numbers = np.where(whole & _SIGN, whole & ~_SIGN, ~whole).view(np.float64)
    return numbers


def smallest(shared: SharedBits, own: Numbers) -> Script[Numbers]:
    """Return the smallest of all sites' numbers, entry by entry."""
    return -(yield from largest(shared, -own))


@lru_cache(maxsize=8)
def _largest_circuit(n_parties: int) -> Circuit:
    build = Builder()
    numbers = [build.input(f"provider {number}", 64) for number in range(n_parties)]
    build.output("largest", words.arg_max(build, numbers, shallow=True)[1])
    return build.build()
