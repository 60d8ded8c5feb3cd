"""Mondrian's cuts of a table whose columns are spread over n parties: all groups of a level at once.

On each level every party bids, for each group that may still be cut, the score of its best cut along its own
attributes. One batch of secure comparisons finds each group's winner, and the winners tell the others into which part
each record goes. `OwnGroups` cuts as the one-table algorithm does, so the release is the one that a trusted party with
the joined table would make. Where a requirement is on another party's sensitive values, the winners first ask about
their cuts (`checks.py`), and groups whose cut is refused are bid for again.

    who        learns, on each level
    everyone   for each group who has the best cut of it, and its attribute, or that nobody has one; before, whose cuts
               of it were refused
    everyone   the part of each record of a group that is cut: for its own people, cells that are those of the release
               or more general

Cost of a level with g groups: the comparisons of g bids, and about one bit a record from each winner to n − 1 peers;
and what `checks.py` says.
The levels are about log2(n / k).

Scores come from the winner's own cells, and nobody sees them: a party that claims too high a score gets its own
attributes cut in place of others, and may ask about more groups where there is something to ask (`checks.py`).
Everybody checks that each part satisfies what it can judge; a peer whose cut does not fit what was agreed is named, and
the session ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from masquerade.anonymize import Batch
from masquerade.engine import Counts, Flags
from masquerade.errors import PeerBrokeProtocol
from masquerade.net import Message, Receive, Script, Send
from masquerade.protocol.comparing.argmax import Bid, SecureArgMax
from masquerade.protocol.mondrian.checks import CutChecks
from masquerade.protocol.mondrian.own_cuts import BestCuts, FinishedGroups, OwnGroups, PartsOfGroups
from masquerade.protocol.tds.instruction_code import pack, unpack
from masquerade.protocol.tds.party import JointSchema, insist_on_same_groups

SCORE_BITS = 64  # of a score as the ordered bits of a double


def cut_together(
    me: int,
    parties: Sequence[str],
    schema: JointSchema,
    groups: OwnGroups,
    argmax: SecureArgMax,
    checks: CutChecks | None,
    on_level: Callable[[], None],
) -> Script[FinishedGroups]:
    """Run this party's part; return the groups with its own cells."""
    peers = tuple(name for number, name in enumerate(parties) if number != me)
    positions = np.flatnonzero(np.array(schema.holders) == me)
    # A level at a time: a batch of comparisons takes the same messages for one group as for thousands.
    while groups.open is not None:
        batch = groups.open
        won, best = yield from _winners(parties, schema, me, batch, groups.best(), argmax, checks)
        is_cut, mine = won >= 0, won == me
        n_parts, part_of_row = np.ones(batch.n_groups, np.int64), np.zeros(batch.n_records, np.uint32)
        made = []  # by each winner
        if is_cut.any():
            own = best.of(mine)
            made.append((mine, own))
            yield Send(peers, write_cuts(positions[best.axis[mine]], own))
            for number, name in enumerate(parties):
                if number != me:
                    message = yield Receive(name, LevelCuts)
                    theirs = won == number
                    made.append((theirs, understood(message, name, number, schema, groups, batch, theirs)))
        for flags, cuts in made:
            n_parts[flags], part_of_row[np.repeat(flags, batch.sizes)] = cuts.n_parts, cuts.part_of_row
        # All at once: parts are numbered in the order of their groups, whoever cuts those.
        all_cuts = PartsOfGroups(n_parts[is_cut], part_of_row[np.repeat(is_cut, batch.sizes)])
        groups.cut(all_cuts, is_cut, best, mine)
        on_level()
    finished = groups.done()
    yield from insist_on_same_groups(peers, finished.each_label())
    return finished


def _winners(
    parties: Sequence[str],
    schema: JointSchema,
    me: int,
    batch: Batch,
    best: BestCuts,
    argmax: SecureArgMax,
    checks: CutChecks | None,
) -> Script[tuple[Counts, BestCuts]]:
    """Return who cuts each group (-1: nobody), and our best cuts among those that nobody has refused."""
    positions = np.flatnonzero(np.array(schema.holders) == me)
    won = np.full(batch.n_groups, -1)
    withdrawals = np.zeros((len(parties), batch.n_groups), np.int64)
    waiting = np.ones(batch.n_groups, bool)
    while waiting.any():
        # Before anything is asked: about a cut that would not be made nobody is to learn a bit.
        yield from argmax.stock_up(int(waiting.sum()))
        bids = zip(ordered(best.scores[waiting]), best.axis[waiting], strict=True)
        winners = yield from argmax.each(
            [Bid(int(score), int(positions[axis])) if axis >= 0 else None for score, axis in bids]
        )
        won[waiting] = [winner.party if winner is not None else -1 for winner in winners]
        if checks is None:
            break
        waiting = yield from checks.withdrawn(np.where(waiting, won, -1), batch, best)
        withdrawals[won[waiting], np.flatnonzero(waiting)] += 1
        for number, name in enumerate(parties):
            held = schema.holders.count(number)
            if (withdrawals[number] > held).any():
                raise PeerBrokeProtocol(name, f"withdrew more cuts of a group than it has attributes, {held}")
        # Refused for good, so that each group is bid for again at most once for each attribute.
        best = best.without(waiting & (won == me))
    return won, best


def understood(
    message: LevelCuts, sender: str, number: int, schema: JointSchema, groups: OwnGroups, batch: Batch, won: Flags
) -> PartsOfGroups:
    """Decode a peer's cuts; raise unless they are of the groups it won, and satisfy what we can judge."""
    cut = batch.only(won)
    positions, cuts = read_cuts(message, sender, cut)
    held = np.flatnonzero(np.array(schema.holders) == number)
    if not np.isin(positions, held).all():
        raise PeerBrokeProtocol(sender, "cut along an attribute that it does not hold")
    if cut.n_groups and not groups.satisfied(cuts, cut).all():
        raise PeerBrokeProtocol(sender, "cut a group against the requirement")
    return cuts


# --- cuts as they travel ------------------------------------------------------------------------------------
# A party's cuts on one level, as they travel: along which attribute, into how many parts, and each record's part.


_WIDE = np.dtype("<u4")


class LevelCuts(Message, tag="level-cuts", frozen=True):
    """A party's cuts on one level: of each group it cuts, the attribute and how many parts, then each record's part."""

    positions: bytes
    n_parts: bytes
    parts: bytes


def write_cuts(positions: Counts, cuts: PartsOfGroups) -> LevelCuts:
    """Write cuts, each along the attribute at its position."""
    parts = pack(cuts.part_of_row.astype(np.uint32), int(cuts.n_parts.max())) if cuts.n_parts.size else b""
    return LevelCuts(write_numbers(positions), write_numbers(cuts.n_parts), parts)


def read_cuts(message: LevelCuts, sender: str, cut: Batch) -> tuple[Counts, PartsOfGroups]:
    """Read a peer's cuts of these groups, with their attributes; raise unless every record has a part of its group."""
    positions, n_parts = (read_numbers(data, cut.n_groups) for data in (message.positions, message.n_parts))
    if positions is None or n_parts is None:
        raise PeerBrokeProtocol(sender, f"cut other groups than the {cut.n_groups} that it won")
    if not cut.n_groups:
        if message.parts:
            raise PeerBrokeProtocol(sender, "sent parts of records whose groups it did not win")
        return positions, PartsOfGroups(n_parts, np.zeros(0, np.int64))
    if not ((n_parts >= 2) & (n_parts <= cut.sizes)).all():
        raise PeerBrokeProtocol(sender, "cut a group into more parts than it has records, or into one")
    try:
        parts = unpack(message.parts, int(n_parts.max()), cut.n_records)
    except ValueError as error:
        raise PeerBrokeProtocol(sender, f"sent cuts that cannot be read: {error}") from None
    if (parts >= np.repeat(n_parts, cut.sizes)).any():
        raise PeerBrokeProtocol(sender, "put a record into a part that there is not")
    return positions, PartsOfGroups(n_parts, parts)


def write_numbers(numbers: Counts) -> bytes:
    """Write small numbers, four bytes each."""
    return numbers.astype(_WIDE).tobytes()


def read_numbers(data: bytes, count: int) -> Counts | None:
    """Read `count` numbers; None where there are not as many."""
    if len(data) != count * _WIDE.itemsize:
        return None
    return np.frombuffer(data, _WIDE).astype(np.int64)


def ordered(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return integers in the order of these doubles, which are equal where they are."""
    bits = (scores + 0.0).view(np.int64)  # without negative zeros
    return np.where(bits < 0, bits ^ np.int64(0x7FFF_FFFF_FFFF_FFFF), bits)
