"""Common coins: random bytes that no site could choose, though it knew the others' coins first.

Each site draws its coin and sends a commitment to it; when all are there, everybody opens its own. The common coin is a
hash of all (Blum, "Coin Flipping by Telephone", 1981). A site that opens another coin than it has committed to is
named. One that dislikes the outcome can only leave, which names it, too.

Cost: two messages of at most 64 bytes to each peer.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence

from masquerade.errors import PeerBrokeProtocol
from masquerade.net.script import Message, Receive, Script, Send

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
    own = CoinOpening(os.urandom(_COIN_BYTES), os.urandom(_COIN_BYTES))
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
    return hashlib.sha256(
        b"masquerade/coin\0" + purpose + b"".join(coins[at] for at in sorted(coins))
    ).digest()


def _digest(opening: CoinOpening, site: int, purpose: bytes) -> bytes:
    """Return the commitment; the site's number is in it, so that nobody can repeat another's."""
    text = b"masquerade/coin-commitment\0%d\0" % site + purpose + b"\0"
    return hashlib.sha256(text + opening.blinding + opening.coin).digest()
