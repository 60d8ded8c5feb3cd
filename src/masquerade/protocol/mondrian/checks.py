"""Test cuts against requirements on another party's sensitive attribute: one bit a cut, before anybody sees the cut.

Bids come first, so that nobody asks about a cut that would not be made anyway. Each winner then asks the holder of each
such attribute about its cuts of all groups that it has just won, at once: they obtain shares of the joint histogram of
the parts and the sensitive values of these groups' records, and a circuit says of each cut whether all its parts
satisfy (`protocol/sensitive/checks.py`). Where one does not, the winner withdraws the cut for good, and the group is
bid for again. Asking about every party's every cut before the bids would settle a level in one go, at the price of as
many histograms as there are attributes, and of telling each party about cuts that were never going to be made.

So that one bit is enough, what a cut is must not depend on the verdicts of its parts: it is strict, or `merge` is
"small" (anonymize/mondrian/cuts.py).

    who                    learns, each time that groups are bid for
    winner and holder      of each cut whether it satisfies the requirement: one bit
    everyone               of each group whether its winner cuts it, or withdraws
    who may have to ask    once: how many different sensitive values there are (`protocol/sensitive/checks.py`)

A winner may lie about its parts, so the circuit itself adds up each one, and refuses what is neither empty nor as large
as the requirements make every group (s): what is asked about fewer people is answered no, whatever they have; nor can
it add people who are not there (`protocol/sensitive/verdict.py`). The holder garbles, and so decides what is asked. It
sees every cut that is made, and judges it again by its own values. A party that withdraws more cuts of one group than
it has attributes is named: so a person is in at most one question more than these on each level, for each requirement.
Rows are padded to ⌊g / s⌋ for a group of g records, and no more than the winner may cut a group into: from what
travels, the holder cannot tell along which attribute or into how many parts a refused cut goes.

Cost: as in `protocol/sensitive/checks.py`, for the groups won. A group is bid for again whenever its cut is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from masquerade.anonymize import Batch
from masquerade.engine import Counts, Flags
from masquerade.errors import PeerBrokeProtocol
from masquerade.net import Message, Receive, Script, Send
from masquerade.privacy import GroupRequirement
from masquerade.protocol.mondrian.own_cuts import BestCuts, PartsOfGroups
from masquerade.protocol.sensitive.checks import Labels, PublicGroups, SensitiveChecks, remote_parts


class CutsSettled(Message, tag="cuts-settled", frozen=True):
    """Of each group that the sender has just won, in order, whether it cuts it; otherwise it withdraws its cut."""

    cuts: bytes


@dataclass
class CutChecks(SensitiveChecks):
    """One party's side of all checks of a mashup by Mondrian, or those of one QID."""

    parts: Sequence[GroupRequirement] = ()  # the requirements on that QID

    def of(self, parts: Sequence[GroupRequirement]) -> CutChecks:
        """Return the checks of these requirements, which are all those on one QID."""
        which = [at for at, check in enumerate(self.checks) if check.part in parts]
        checks, own = tuple(self.checks[at] for at in which), tuple(self.own[at] for at in which)
        return replace(self, checks=checks, own=own, parts=parts)

    @cached_property
    def least(self) -> int:
        """Records that every group has."""
        return max(part.implied_size for part in self.parts)

    @cached_property
    def askers(self) -> frozenset[int]:
        """The parties that have to ask somebody about their cuts."""
        holder, parties = self.contract.holders, self.contract.parties
        return frozenset(
            parties.index(holder[name])
            for part in remote_parts(self.contract)
            if part in self.parts
            for name in part.qid
            if holder[name] != holder[str(part.sensitive)]
        )

    def withdrawn(self, won: Counts, batch: Batch, best: BestCuts) -> Script[Flags]:
        """Return which groups' winners withdraw their cuts; `won` has each winner, -1 where there is nothing to ask."""
        parties = self.contract.parties
        withdrawn = np.zeros(batch.n_groups, bool)
        for number, name in enumerate(parties):
            theirs = won == number
            if number not in self.askers or not theirs.any():
                continue
            if number == self.me:
                kept = yield from self._ask(batch.only(theirs), best.of(theirs))
                peers = tuple(each for each in parties if each != name)
                yield Send(peers, CutsSettled(np.packbits(kept).tobytes()))
            else:
                kept = yield from self._answer(number, batch.only(theirs))
            withdrawn[theirs] = ~kept
        return withdrawn

    def _ask(self, asked: Batch, cuts: PartsOfGroups) -> Script[Flags]:
        """Return which of our cuts, which pass all tests we can make alone, also pass the others."""
        kept = np.ones(asked.n_groups, bool)
        for at, check in enumerate(self.checks):
            if self.me in check.asking:
                kept &= yield from self._judged(at, self.me, asked, cuts.part_of_row.astype(np.uint64))
        return kept

    def _answer(self, asker: int, asked: Batch) -> Script[Flags]:
        """Answer the checks of attributes that we hold. Return which cuts the asker makes, and may."""
        name, allowed = self.contract.parties[asker], np.ones(asked.n_groups, bool)
        for at, check in enumerate(self.checks):
            if check.holder == self.me and asker in check.asking:
                allowed &= yield from self._judged(at, asker, asked)
        settled = yield Receive(name, CutsSettled)
        if len(settled.cuts) != -(-asked.n_groups // 8):
            raise PeerBrokeProtocol(name, f"settled other groups than the {asked.n_groups} that it won")
        told = np.unpackbits(np.frombuffer(settled.cuts, np.uint8), count=asked.n_groups)
        kept: Flags = told.astype(bool)
        if (kept & ~allowed).any():
            raise PeerBrokeProtocol(name, "goes on with a cut that our check refused")
        return kept

    def _judged(self, at: int, asker: int, asked: Batch, parts: Labels | None = None) -> Script[Flags]:
        """Return which groups' parts all satisfy; only the asker has the parts."""
        most = self.most_parts[asker]
        groups = PublicGroups(asked.rows, asked.sizes, asked.sizes // self.least, most, whole=True)
        blocks = groups.n_parts.tolist()
        return (yield from self._parts_satisfy(at, asker, groups, parts, self.least, blocks))
