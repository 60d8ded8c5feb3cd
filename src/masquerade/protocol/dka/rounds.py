"""The rounds of DkA: test the joint groups, open what the side asks for, go on; for any side and any test.

    Algorithm 6   DkA-Datafly (`datafly_side.py`): χ is opened, which says of the records that are left which pass.
                  They leave with the values that they have now, the others climb one step at each party
    Algorithm 4   the framework (`side.py`): one bit is opened, whether all records pass; if not, all go one step
                  further. Top-down (§7), also whether nobody has a finer step

Who learns what: of the other parties' columns nothing but what the release shows, and what is opened. That is χ of
every round in Algorithm 6: which identified common people are released in which round. Theorem 10's simulator needs
χ: it does not follow from a release without identifiers (docs/leakage.md). In Algorithm 4 it is the number of
rounds, which each could tell from the release and its own table (Algorithm 5's simulator does).

Rounds of messages and cost are those of the test (`joint_tests.py`). The label counts are padded to ⌊n/k⌋ of the first
round's n in every round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec
import numpy as np

from masquerade.crypto.bits import Bits, pack, unpack
from masquerade.errors import PeerBrokeProtocol
from masquerade.net.progress import OnStage, Stage, silent
from masquerade.net.script import Message, Receive, Script, Send
from masquerade.protocol.dka.side import Opened, Side, Tested

OnRound = Callable[[Opened], None]

MOST_ROUNDS = 1_000
"""Far more than all columns have levels. Whoever lets every test fail would otherwise keep the others for ever."""


class ChiShare(Message, tag="dka-chi", frozen=True):
    """A share of χ, one bit per remaining record, or of the one bit whether all pass."""

    bits: bytes


class JointTests(Protocol):
    """What all parties compute together; every party calls the same in the same order."""

    @property
    def peers(self) -> Sequence[str]:
        """The other parties."""

    def good_groups(self, side: Tested, on_stage: OnStage) -> Script[Bits]:
        """Return this party's XOR share of "the record's joint group is good", one bit a remaining record."""

    def conjunction(self, share: Bits) -> Script[Bits]:
        """Return this party's XOR share of the one bit whether all shared bits are set."""

    def all_set(self, shares: Bits) -> Script[Bits]:
        """Return this party's XOR share of the conjunction of each column."""

    def unanimous(self, own: bool) -> Script[bool]:
        """Return whether all parties say yes, and let nobody learn more."""


def play(
    tests: JointTests, side: Side, *, on_stage: OnStage = silent, on_round: OnRound | None = None
) -> Script[None]:
    """Run rounds to the end; the result is in `side`. `on_round` is called with everything that was opened."""
    while not side.over:
        if side.round == MOST_ROUNDS:
            failing = f"let groups fail in {MOST_ROUNDS} rounds"
            if len(tests.peers) == 1:
                raise PeerBrokeProtocol(tests.peers[0], failing)
            raise PeerBrokeProtocol("", f"{' or '.join(tests.peers)} {failing}")
        opened = yield from _asked(tests, side, _numbered(side.round + 1, on_stage))
        side.hear(opened)
        if on_round is not None:
            on_round(opened)


def _asked(tests: JointTests, side: Side, on_stage: OnStage) -> Script[Opened]:
    """Find out what the side asks for."""
    if side.opens == "end":
        return np.array([(yield from tests.unanimous(side.stuck))])
    if side.k == 1:  # every group passes: no test is needed
        return np.ones(side.left.size if side.opens == "each" else 1, bool)
    share = yield from tests.good_groups(side, on_stage)
    on_stage(Stage("opening"))
    if side.opens == "all":
        share = yield from tests.conjunction(share)
    return (yield from open_shares(tests.peers, share)).astype(bool)


def open_shares(peers: Sequence[str], share: Bits) -> Script[Bits]:
    """Exchange XOR shares, and return the bits."""
    message = pack(share).tobytes()
    yield Send(tuple(peers), ChiShare(message))
    for peer in peers:
        theirs = yield Receive(peer, ChiShare)
        if len(theirs.bits) != len(message):
            raise PeerBrokeProtocol(
                peer, f"sent {len(theirs.bits)} bytes of χ where {share.size} records have {len(message)}"
            )
        share = share ^ unpack(np.frombuffer(theirs.bits, np.uint8), share.size)
    return share


def _numbered(number: int, on_stage: OnStage) -> OnStage:
    return lambda stage: on_stage(msgspec.structs.replace(stage, round=number))
