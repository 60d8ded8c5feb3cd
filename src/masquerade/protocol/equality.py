"""Find out which peers hold the same secret, such as a list of people, without showing it.

Every two parties run a test of their own (crypto/equality.py), so no third party can answer for another.

    who        learns
    everyone   which peers hold the same secret; a peer that deviates, whether one guess of its own was right
"""

from __future__ import annotations

from collections.abc import Sequence

from masquerade.crypto.equality import EqualityTest
from masquerade.net.script import Message, Receive, Script, Send
from masquerade.protocol.blaming import blaming


class EqualityShare(Message, tag="equality-share", frozen=True):
    """The sender's share of a test."""

    point: bytes


class EqualityProof(Message, tag="equality-proof", frozen=True):
    """Proof that the sender knows the secret, if it is ours."""

    proof: bytes


def who_differs(me: int, parties: Sequence[str], secret: bytes, session: bytes) -> Script[tuple[str, ...]]:
    """Return the peers that do not hold this secret. `session` is fresh, public, and names the purpose."""
    peers = {number: name for number, name in enumerate(parties) if number != me}
    tests: dict[int, EqualityTest] = {}
    for number, name in peers.items():
        pair = b"\0%d %d" % (min(me, number), max(me, number))
        tests[number] = EqualityTest(secret, session + pair, first=me < number)
        yield Send((name,), EqualityShare(tests[number].share))
    for number, name in peers.items():
        share = yield Receive(name, EqualityShare)
        with blaming(name, "a share of an equality test"):
            proof = tests[number].prove(share.point)
        yield Send((name,), EqualityProof(proof))
    differing = []
    for number, name in peers.items():
        if not tests[number].accepts((yield Receive(name, EqualityProof)).proof):
            differing.append(name)
    return tuple(differing)
