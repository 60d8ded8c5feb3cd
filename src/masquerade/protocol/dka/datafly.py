"""DkA-Datafly (Algorithm 6): round by round, find the records whose joint group has k, and generalise the others.

    each round   every record's own group at either party becomes a label; through the joint histogram both obtain
                 shares of "its joint group has at least k records" (the paper's SSI_t, once for each record)
    then         both open the shares: χ says which of the records that are left pass, and they leave with the
                 values that they have now
    the others   climb one step at each party, by the same rule; fewer than k that are left at the end are suppressed

Who learns what: both parties χ of every round, that is, which of their identified common people are released in which
round; of the other party's columns nothing but what the release shows. Theorem 10's simulator needs χ: it does not
follow from a release without identifiers (docs/leakage.md).

Rounds of messages: six a round of the algorithm, besides batches. Cost: see `protocol/joint_histogram/`; the label
counts are padded to ⌊n/k⌋ of the first round's n in every round.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
from numpy.typing import NDArray

from masquerade.crypto.bits import Bits, pack, unpack
from masquerade.errors import PeerBrokeProtocol
from masquerade.net.progress import OnStage, Stage, silent
from masquerade.net.script import Message, Receive, Script, Send
from masquerade.protocol.dka.datafly_side import DataflySide
from masquerade.protocol.joint_histogram.back_ends import shared_tests
from masquerade.protocol.joint_histogram.histogram import Bounds
from masquerade.protocol.joint_histogram.pair import Pair

OnRound = Callable[[NDArray[np.bool_]], None]


class ChiShare(Message, tag="dka-chi", frozen=True):
    """A share of χ: one bit per remaining record."""

    bits: bytes


def dka_datafly(
    pair: Pair,
    side: DataflySide,
    *,
    on_stage: OnStage = silent,
    on_round: OnRound | None = None,
) -> Script[None]:
    """Run rounds until fewer than k records are left; the result is in `side`.

    `side` must be at the start of a round. `on_round` is called after each round with the records that passed.
    """
    if side.k == 1:  # every group passes: no test is needed
        side.hear(np.ones(side.left.size, bool))
    while not side.over:
        bounds = Bounds(side.left.size, (side.bound, side.bound))
        tell = _numbered(side.round + 1, on_stage)
        share = yield from shared_tests(pair, side.labels(), side.k, bounds, tell)
        tell(Stage("opening"))
        passes = (yield from _opened(pair, share)).astype(bool)
        side.hear(passes)
        if on_round is not None:
            on_round(passes)


def _opened(pair: Pair, share: Bits) -> Script[Bits]:
    """Exchange XOR shares, and return the bits."""
    message = pack(share).tobytes()
    yield Send((pair.peer,), ChiShare(message))
    theirs = yield Receive(pair.peer, ChiShare)
    if len(theirs.bits) != len(message):
        raise PeerBrokeProtocol(
            pair.peer, f"sent {len(theirs.bits)} bytes of χ where {share.size} records have {len(message)}"
        )
    return share ^ unpack(np.frombuffer(theirs.bits, np.uint8), share.size)


def _numbered(number: int, on_stage: OnStage) -> OnStage:
    return lambda stage: on_stage(msgspec.structs.replace(stage, round=number))
