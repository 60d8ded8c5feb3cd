"""Mondrian's cuts over several QIDs that share attributes, of a table whose columns are spread over n parties.

As on one table (`anonymize/mondrian/method.py`), the union of the QIDs is cut first, which `levels.py` does, and every
party then tells, of each of its attributes, which groups have equal cells: those are one group of a QID that has no
other attributes, and may be cut further. Whether this comes first follows from the contract, and where there are
boundaries from the sizes of the groups at them.

From there on (`anonymize/mondrian/linked.py`) a cut along an attribute is of all records that are linked by it,
and it is made where it is the best of all groups, of all QIDs, that it touches. On each level every party bids for each
group of each QID whose best cut may have changed, along its own attributes; one batch of secure comparisons finds the
winners, who tell the attributes. From these everybody knows which cuts are made, and their owners tell the parts.

    who        learns, before
    everyone   what `levels.py` says of the groups over the union: for its own people, cells that are those of the
               release or more general
    everyone   for each attribute which of these groups have the same such cell, by a number that says nothing else

    who        learns, on each level
    everyone   for each group of each QID who has the best cut of it, and its attribute, or that nobody has one; also
               where the cut is not made, because another is better in a group that it touches
    everyone   the part of each record that is cut: for its own people, cells that are those of the release or more
               general

Cost of a level: the comparisons of one bid for each such group, and about one bit a record from the owners of the cuts
to n − 1 peers. The levels are more than with one QID: where cuts touch the same groups, the best goes first.

Everybody checks that each part satisfies what it can judge; a peer whose cut does not fit what was agreed is named, and
the session ends. A party that tells other cells equal than are may bring the release to violate, which the assembler
finds. Requirements on sensitive values that another party holds are refused here (`method.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from masquerade.anonymize import Axis, Batch
from masquerade.data import Generalised
from masquerade.engine import Counts, Ints, first_rows, renumber
from masquerade.errors import PeerBrokeProtocol
from masquerade.net import Message, Receive, Script, Send
from masquerade.protocol.comparing.argmax import Bid, SecureArgMax
from masquerade.protocol.mondrian.levels import (
    LevelCuts,
    cut_together,
    ordered,
    read_cuts,
    read_numbers,
    write_cuts,
    write_numbers,
)
from masquerade.protocol.mondrian.linked_groups import BestOfGroups, LinkedGroups
from masquerade.protocol.mondrian.own_cuts import FinishedGroups, OwnGroups, PartsOfGroups
from masquerade.protocol.tds.instruction_code import pack, unpack
from masquerade.protocol.tds.party import JointSchema, insist_on_same_groups


class BestAttributes(Message, tag="best-attributes", frozen=True):
    """The attribute of the best cut of each group that the sender has just won, in order."""

    positions: bytes


class EqualCells(Message, tag="equal-cells", frozen=True):
    """The sender's attributes, in the joint order: how many different cells the groups have, and which each has.

    Cells are numbered as they first occur among the groups, so that the numbers say nothing about values.
    """

    counts: tuple[int, ...]
    cells: tuple[bytes, ...]


Alike = Sequence[tuple[Ints, int]]  # the number of each group's cell along each attribute, and how many there are


def begin_with_union(
    me: int,
    parties: Sequence[str],
    schema: JointSchema,
    groups: OwnGroups,
    argmax: SecureArgMax,
    on_level: Callable[[], None],
) -> Script[tuple[FinishedGroups, Alike]]:
    """Cut the union of the QIDs; return its groups with our own cells, and which have equal cells."""
    union = yield from cut_together(me, parties, schema, groups, argmax, None, on_level)
    n_groups = union.cells.shape[2]
    own = [_as_they_occur(axis, cells) for axis, cells in zip(groups.axes, union.cells, strict=True)]
    told = {me: own}
    counts = tuple(count for _, count in own)
    cells = tuple(pack(numbers.astype(np.uint32), count) for numbers, count in own)
    yield Send(tuple(name for number, name in enumerate(parties) if number != me), EqualCells(counts, cells))
    for number, name in enumerate(parties):
        if number != me:
            message = yield Receive(name, EqualCells)
            told[number] = _equal_cells(message, name, schema.holders.count(number), n_groups)
    queues = {number: iter(each) for number, each in told.items()}
    return union, [next(queues[holder]) for holder in schema.holders]


def _as_they_occur(axis: Axis, cells: Counts) -> tuple[Ints, int]:
    """Number the groups' cells along an axis in the order in which they first occur."""
    width = axis.column.domain.size + 1
    numbers, found = renumber(cells[0] * width + cells[1], width * width)
    first = first_rows(numbers, found.size)
    return np.argsort(np.argsort(first)).take(numbers), found.size


def _equal_cells(message: EqualCells, sender: str, n_attributes: int, n_groups: int) -> list[tuple[Ints, int]]:
    """Decode which of the groups have equal cells along each of a peer's attributes."""
    if not len(message.counts) == len(message.cells) == n_attributes:
        raise PeerBrokeProtocol(sender, f"told cells of other attributes than the {n_attributes} that it holds")
    found: list[tuple[Ints, int]] = []
    for count, cells in zip(message.counts, message.cells, strict=True):
        if not 1 <= count <= n_groups:
            raise PeerBrokeProtocol(sender, f"told {count} different cells of {n_groups} groups")
        try:
            found.append((unpack(cells, count, n_groups).astype(np.int64), count))
        except ValueError as error:
            raise PeerBrokeProtocol(sender, f"told cells that cannot be read: {error}") from None
    return found


def cut_linked_together(
    me: int,
    parties: Sequence[str],
    schema: JointSchema,
    qids: Sequence[frozenset[str]],
    groups: LinkedGroups,
    argmax: SecureArgMax,
    on_level: Callable[[], None],
) -> Script[tuple[Generalised, ...]]:
    """Run this party's part; return its own released columns. `qids` are in the order of the groups'."""
    table = _Table(me, parties, schema, qids, groups)
    peers = tuple(name for number, name in enumerate(parties) if number != me)
    while True:
        best = groups.best()
        # A best cut stays what it was until a record that is linked to its group is cut: the others need no bid.
        asked = table.asked()
        if asked:
            yield from argmax.stock_up(len(asked))
            winners = yield from argmax.each([_bid(best[qid], group) for qid, group in asked])
            won = np.array([winner.party if winner is not None else -1 for winner in winners])
            yield Send(peers, BestAttributes(write_numbers(table.own(best, asked, won))))
            told = {me: table.own(best, asked, won)}
            for number, name in enumerate(parties):
                if number != me:
                    message = yield Receive(name, BestAttributes)
                    told[number] = table.attributes(message, name, number, asked, won)
            table.note(asked, won, told)
        # The attributes are told first: which cuts are made follows from those of all QIDs, and their parts from that.
        settled = groups.settled(table.dimensions())
        if not settled:
            break
        made = {at: PartsOfGroups(*groups.parts(at, batch)) for at, batch in settled if schema.holders[at] == me}
        yield Send(peers, _own_cuts(settled, made))
        for number, name in enumerate(parties):
            if number != me:
                message = yield Receive(name, LevelCuts)
                made |= table.cuts(message, name, number, settled)
        for at, batch in settled:
            groups.cut(at, batch, made[at].n_parts, made[at].part_of_row)
        table.changed(np.concatenate([batch.rows for _, batch in settled]))
        on_level()
    yield from insist_on_same_groups(peers, (numbers for numbers, _ in groups.groups))
    return groups.released()


Asked = list[tuple[int, int]]  # a QID, and one of its groups
Settled = list[tuple[int, Batch]]  # along which attribute which records are cut


class _Table:
    """What all parties know of the best cuts, by row, as groups are numbered anew on each level."""

    def __init__(
        self, me: int, parties: Sequence[str], schema: JointSchema, qids: Sequence[frozenset[str]], groups: LinkedGroups
    ) -> None:
        self._me, self._parties, self._schema, self._qids, self._groups = me, parties, schema, qids, groups
        n_rows = groups.groups[0][0].size
        self._best = [np.full(n_rows, -1) for _ in qids]  # the attribute, -1 for none
        self._open = [np.ones(n_rows, bool) for _ in qids]  # whether it must be asked for

    def asked(self) -> Asked:
        """Return the groups whose best cut is not known, and that are large enough to have one."""
        found: Asked = []
        large = self._groups.large_enough()
        for qid, (numbers, n_groups) in enumerate(self._groups.groups):
            waiting = np.zeros(n_groups, bool)
            waiting[numbers[self._open[qid]]] = True
            found += [(qid, group) for group in np.flatnonzero(waiting & large[qid]).tolist()]
        return found

    def own(self, best: Sequence[BestOfGroups], asked: Asked, won: Counts) -> Counts:
        """Return the attributes of the groups that we have won."""
        mine = [asked[at] for at in np.flatnonzero(won == self._me)]
        return np.array([best[qid].dimensions[group] for qid, group in mine], np.int64)

    def attributes(self, message: BestAttributes, sender: str, number: int, asked: Asked, won: Counts) -> Counts:
        """Decode the attributes of the groups that a peer has won."""
        theirs = [asked[at] for at in np.flatnonzero(won == number)]
        positions = read_numbers(message.positions, len(theirs))
        if positions is None:
            raise PeerBrokeProtocol(sender, f"named attributes of other groups than the {len(theirs)} that it won")
        names, holders = self._schema.attributes, self._schema.holders
        for (qid, _), at in zip(theirs, positions.tolist(), strict=True):
            if at >= len(names) or holders[at] != number:
                raise PeerBrokeProtocol(sender, "cut along an attribute that it does not hold")
            if names[at] not in self._qids[qid]:
                raise PeerBrokeProtocol(sender, "cut a group along an attribute that its QID does not have")
        return positions

    def note(self, asked: Asked, won: Counts, told: dict[int, Counts]) -> None:
        """Take note of the best cuts of the groups asked for."""
        found = np.full(won.size, -1)
        for number, positions in told.items():
            found[won == number] = positions
        for qid, (numbers, n_groups) in enumerate(self._groups.groups):
            here = [(group, at) for (of, group), at in zip(asked, found.tolist(), strict=True) if of == qid]
            best = np.full(n_groups, -1)
            is_asked = np.zeros(n_groups, bool)
            for group, at in here:
                best[group], is_asked[group] = at, True
            rows = is_asked[numbers]
            self._best[qid][rows] = best[numbers[rows]]
            self._open[qid][:] = False

    def dimensions(self) -> list[Counts]:
        """Return for each QID the attribute of each group's best cut."""
        found = []
        for best, (numbers, n_groups) in zip(self._best, self._groups.groups, strict=True):
            of_group = np.full(n_groups, -1)
            of_group[numbers] = best
            found.append(of_group)
        return found

    def cuts(self, message: LevelCuts, sender: str, number: int, settled: Settled) -> dict[int, PartsOfGroups]:
        """Decode a peer's cuts; raise unless they are the settled ones, and satisfy what we can judge."""
        theirs = [(at, batch) for at, batch in settled if self._schema.holders[at] == number]
        whole = _joined([batch for _, batch in theirs])
        told, cuts = read_cuts(message, sender, whole)
        if not np.array_equal(told, _positions(theirs)):
            raise PeerBrokeProtocol(sender, "cut along other attributes than those it named")
        found, first_group, first_row = {}, 0, 0
        for at, batch in theirs:
            n_parts = cuts.n_parts[first_group : first_group + batch.n_groups]
            part_of_row = cuts.part_of_row[first_row : first_row + batch.rows.size]
            if not self._groups.satisfied(at, batch, n_parts, part_of_row):
                raise PeerBrokeProtocol(sender, "cut a group against the requirement")
            found[at] = PartsOfGroups(n_parts, part_of_row)
            first_group, first_row = first_group + batch.n_groups, first_row + batch.rows.size
        return found

    def changed(self, rows: Counts) -> None:
        """Forget the best cuts of the groups that these rows, which were cut, are linked to."""
        for best, open_, touched in zip(self._best, self._open, self._groups.changed(rows), strict=True):
            open_ |= touched
            best[touched] = -1


def _bid(best: BestOfGroups, group: int) -> Bid | None:
    at = int(best.dimensions[group])
    return Bid(int(ordered(best.scores[group : group + 1])[0]), at) if at >= 0 else None


def _own_cuts(settled: Settled, made: dict[int, PartsOfGroups]) -> LevelCuts:
    own = [(at, batch) for at, batch in settled if at in made]
    cuts = PartsOfGroups(
        np.concatenate([np.zeros(0, np.int64), *(made[at].n_parts for at, _ in own)]),
        np.concatenate([np.zeros(0, np.int64), *(made[at].part_of_row for at, _ in own)]),
    )
    return write_cuts(_positions(own), cuts)


def _positions(cuts: Settled) -> Counts:
    """Return the attribute of each cut."""
    return np.repeat([at for at, _ in cuts], [batch.n_groups for _, batch in cuts]).astype(np.int64)


def _joined(batches: Sequence[Batch]) -> Batch:
    nothing = np.zeros(0, np.int64)
    return Batch(
        np.concatenate([nothing, *(batch.rows for batch in batches)]),
        np.concatenate([nothing, *(batch.sizes for batch in batches)]),
    )
