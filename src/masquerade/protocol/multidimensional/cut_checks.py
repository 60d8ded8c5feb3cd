"""Test cuts against requirements on another party's sensitive attribute: one bit a cut, before anybody sees the cut.

Bids come first, so that nobody asks about a cut that would not be made anyway. Each winner then asks the holder of each
such attribute about its cuts of all groups that it has just won, at once: they obtain shares of the joint histogram of
the parts and the sensitive values of these groups' records, and a circuit says of each cut whether all its parts
satisfy (protocol/joint_histogram*). Where one does not, the winner withdraws the cut for good, and the group is bid for
again. Asking about every party's every cut before the bids would settle a level in one go, at the price of as many
histograms as there are attributes, and of telling each party about cuts that were never going to be made.

So that one bit is enough, what a cut is must not depend on the verdicts of its parts: it is strict, or `merge` is
"small" (anonymize/mondrian/parts.py).

    who                    learns, each time that groups are bid for
    winner and holder      of each cut whether it satisfies the requirement: one bit
    everyone               of each group whether its winner cuts it, or withdraws
    who may have to ask    once: how many different sensitive values there are (`sensitive_checks.py`)

A winner may lie about its parts, so the circuit itself adds up each one, and refuses what is neither empty nor as large
as the requirements make every group (s): what is asked about fewer people is answered no, whatever they have. The
holder garbles, and so decides what is asked. It sees every cut that is made, and judges it again by its own values.
A party that withdraws more cuts of one group than it has attributes is named: so a person is in at most one question
more than these on each level, for each requirement. Rows are padded to ⌊g / s⌋ for a group of g records: from what
travels, the holder cannot tell along which attribute or into how many parts a refused cut goes.

Cost, for groups with n records, P of these rows in all and Q sensitive values: n·P·Q words of AES on each side, and a
circuit of some 4·w·P·Q ANDs. Groups of few rows are judged a piece at a time, each with counts of its own records
alone, so that on deep levels P is that of a piece. A group is bid for again as often as a cut of it is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from masquerade.anonymize.mondrian.axes import Batch
from masquerade.crypto.circuit import Bits
from masquerade.engine.counts import Counts, Flags
from masquerade.errors import PeerBrokeProtocol
from masquerade.net.script import Message, Receive, Script, Send
from masquerade.privacy.requirement import GroupRequirement
from masquerade.protocol.joint_histogram.back_ends import blocks_satisfy
from masquerade.protocol.joint_histogram.histogram import Bounds
from masquerade.protocol.multidimensional.own_cuts import BestCuts, Cuts
from masquerade.protocol.sensitive_checks import Check, Labels, SensitiveChecks, holders_of, remote_parts

_ROWS_AT_ONCE = 64  # more cost more counting, fewer more messages that wait for each other


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
        holder, parties = holders_of(self.contract), self.contract.parties
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
                kept = yield from self._ask(batch.only(theirs), best.of(theirs, batch))
                peers = tuple(each for each in parties if each != name)
                yield Send(peers, CutsSettled(np.packbits(kept).tobytes()))
            else:
                kept = yield from self._answer(number, batch.only(theirs))
            withdrawn[theirs] = ~kept
        return withdrawn

    def _ask(self, asked: Batch, cuts: Cuts) -> Script[Flags]:
        """Return which of our cuts, which pass all tests we can make alone, also pass the others."""
        labels = self._parts(asked, cuts).astype(np.uint64)
        kept = np.ones(asked.n_groups, bool)
        for check in self.checks:
            if self.me in check.asking:
                kept &= yield from self._judged(check, self.me, asked, labels, {})
        return kept

    def _answer(self, asker: int, asked: Batch) -> Script[Flags]:
        """Answer the checks of attributes that we hold. Return which cuts the asker makes, and may."""
        name, allowed = self.contract.parties[asker], np.ones(asked.n_groups, bool)
        for check, own in zip(self.checks, self.own, strict=True):
            if own is not None and asker in check.asking:
                allowed &= yield from self._judged(
                    check, asker, asked, own[asked.rows], self._whole(check, own)
                )
        settled = yield Receive(name, CutsSettled)
        if len(settled.cuts) != -(-asked.n_groups // 8):
            raise PeerBrokeProtocol(name, f"settled other groups than the {asked.n_groups} that it won")
        told = np.unpackbits(np.frombuffer(settled.cuts, np.uint8), count=asked.n_groups)
        kept: Flags = told.astype(bool)
        if (kept & ~allowed).any():
            raise PeerBrokeProtocol(name, "goes on with a cut that our check refused")
        return kept

    def _parts(self, asked: Batch, cuts: Cuts) -> Counts:
        """Return each record's part, numbered across the groups of a piece: each has as many as its size allows."""
        first = np.zeros(asked.n_groups, np.int64)
        for piece, rows in self._pieces(asked):
            first[piece] = np.cumsum(rows) - rows
        return np.repeat(first, asked.sizes) + cuts.part_of_row

    def _pieces(self, asked: Batch) -> Iterator[tuple[slice, Counts]]:
        """Yield neighbouring groups that are judged at once, and the rows of each: as many parts as it may have."""
        rows = asked.sizes // self.least
        start = 0
        while start < rows.size:
            many = int(np.searchsorted(np.cumsum(rows[start:]), _ROWS_AT_ONCE, "right"))
            piece = slice(start, start + max(many, 1))
            yield piece, rows[piece]
            start = piece.stop

    def _judged(
        self, check: Check, asker: int, asked: Batch, labels: Labels, whole: dict[str, Bits]
    ) -> Script[Flags]:
        """Return which groups' parts all satisfy, one piece after the other."""
        pair, circuit = self.pairs[check.holder, asker], replace(check, least=self.least).circuit
        good, ends = np.zeros(asked.n_groups, bool), np.append(asked.starts, asked.rows.size)
        for piece, rows in self._pieces(asked):
            own = labels[ends[piece.start] : ends[piece.stop]]
            good[piece] = yield from blocks_satisfy(
                pair,
                own,
                partial(circuit, self.n_records),
                Bounds(own.size, (check.n_values, int(rows.sum()))),
                rows.tolist(),
                grouped_by=1,
                own=whole,
            )
        return good
