"""What every two parties set up before they compute jointly: nonces, and base transfers in one direction.

Everything is fresh for the session: the nonces of both parties are in the text that all primitives of a pair are keyed
with, so that nothing of one session fits in another.

Cost: one nonce to each peer, then 128 base transfers a pair (about 8 kB and 0.04 s of curve arithmetic).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from masquerade.errors import PeerBrokeProtocol
from masquerade.net.script import Message, Receive, Script, Send
from masquerade.protocol.blaming import blaming

_NONCE_BYTES = 32


class SessionNonce(Message, tag="session-nonce", frozen=True):
    """Makes the session's setups differ from those of all others."""

    data: bytes


class BaseTransfers(Message, tag="base-transfers", frozen=True):
    """Half of the base transfers of a pair."""

    data: bytes


class Side(Protocol):
    """One side of a pair's transfers."""

    def setup(self) -> bytes:
        """Return our half of the base transfers."""
        ...

    def finish_setup(self, message: bytes) -> None:
        """Process the peer's half."""
        ...


Offering = TypeVar("Offering", bound=Side)
Choosing = TypeVar("Choosing", bound=Side)


def exchange_nonces(me: int, parties: Sequence[str]) -> Script[tuple[bytes, ...]]:
    """Exchange fresh nonces. Return one per party, in the parties' order."""
    own = os.urandom(_NONCE_BYTES)
    yield Send(tuple(name for number, name in enumerate(parties) if number != me), SessionNonce(own))
    nonces = []
    for number, name in enumerate(parties):
        if number == me:
            nonces.append(own)
            continue
        nonce = yield Receive(name, SessionNonce)
        if len(nonce.data) != _NONCE_BYTES:
            raise PeerBrokeProtocol(
                name, f"sent a nonce of {len(nonce.data)} bytes instead of {_NONCE_BYTES}"
            )
        nonces.append(nonce.data)
    return tuple(nonces)


def set_up_pairs(
    me: int,
    parties: Sequence[str],
    purpose: bytes,
    offer: Callable[[bytes, int], Offering],
    choose: Callable[[bytes, int], Choosing],
) -> Script[tuple[dict[int, Offering], dict[int, Choosing]]]:
    """Set up transfers between every two parties. Return this party's offering and choosing sides, by peer.

    `offer` and `choose` make a side from a text that names purpose, session and pair, and from the peer's number.
    """
    peers = {number: name for number, name in enumerate(parties) if number != me}
    nonces = yield from exchange_nonces(me, parties)
    offering: dict[int, Offering] = {}
    choosing: dict[int, Choosing] = {}
    for number, name in peers.items():
        left, right = sorted((me, number))
        session = purpose + b"\0" + nonces[left] + nonces[right] + b"%d %d" % (left, right)
        side: Side
        if _who_offers(left, right) == me:
            side = offering[number] = offer(session, number)
        else:
            side = choosing[number] = choose(session, number)
        yield Send((name,), BaseTransfers(side.setup()))
    for number, name in peers.items():
        half = yield Receive(name, BaseTransfers)
        with blaming(name, "half of the base transfers"):
            (offering[number] if number in offering else choosing[number]).finish_setup(half.data)
    return offering, choosing


def _who_offers(left: int, right: int) -> int:
    """Return which of the two offers, alternating so that each party offers to about half of its peers."""
    return left if (left + right) % 2 else right
