"""Requirements on another party's sensitive attribute, prepared so that a circuit can judge groups by shared counts.

The holder of the attribute tells those who may have to ask how many labels its values have, and they tell it into how
many parts they may split a group. Each of them and the holder then set up a pair, with the values in trees
(joint_histogram/split_counts): the holder garbles, and so decides what is asked. What is asked about, and what comes
out, is up to the method: see `remote_checks.py` (top-down specialization) and `multidimensional/cut_checks.py`
(Mondrian).

    who                    learns
    who may have to ask    once: how many different sensitive values the common records have (of those that the
                           requirement lists, where it lists some)
    holder                 once, of each who may have to ask: the most children that a value has in its taxonomies,
                           rounded up to a power of two, and 4 at least; a number without taxonomy has two

Groups are public, so an asker hides only the part within its group. Each group takes as many rows as its size allows
parts, and no more than that number: from what travels, the holder cannot tell along which attribute or into how many
parts a refused split goes.

Cost, for n records, Q sensitive values and C parts at most: once ⌈log₂ Q⌉ transfers a record, 36 bytes each but 4 for
the first; a split takes 2·C (or 4·C) bytes a record, n·Q words of AES on each side, and a circuit of some 4·w·Q ANDs
for each row, with w the digits of the largest group's size; of w·Q for distinct values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto.circuit import Bits, Circuit, to_bits
from masquerade.crypto.count_circuits import sized
from masquerade.crypto.split_counts import ValuePicker, ValuePlanter
from masquerade.data.column import Coded, Column
from masquerade.data.taxonomy import Taxonomy
from masquerade.engine.counts import Counts, Flags, value_counts
from masquerade.engine.numbering import renumber
from masquerade.errors import Bug, PeerBrokeProtocol
from masquerade.net.script import Message, Receive, Script, Send
from masquerade.privacy.requirement import GroupRequirement, SharedRow
from masquerade.protocol.contract import Contract
from masquerade.protocol.joint_histogram.back_ends import blocks_satisfy
from masquerade.protocol.joint_histogram.histogram import Bounds
from masquerade.protocol.joint_histogram.pair import BackEnd, Pair, prepare_pair
from masquerade.protocol.joint_histogram.split_counts import Groups, keeps_trees, plant_values, split_rows
from masquerade.protocol.joint_histogram.verdict import blocks_of_rows_satisfy
from masquerade.protocol.remote_sensitive import least_size, remote_qid

Labels = NDArray[np.uint64]


class SensitiveValues(Message, tag="sensitive-values", frozen=True):
    """The number of labels of the holder's values in a check; the requirement bounds the first `bounded` of them."""

    labels: int
    bounded: int


class MostParts(Message, tag="most-parts", frozen=True):
    """Into how many parts the sender may split a group, at most."""

    parts: int


@dataclass(frozen=True)
class Check:
    """One requirement, its holder, and the parties that have to ask it."""

    part: GroupRequirement
    holder: int
    asking: frozenset[int]
    least: int  # records of a group that is not empty
    n_values: int
    n_bounded: int

    def circuit(self, n_records: int, width: int, together: int = 1, *, prepared: bool = False) -> Circuit:
        """Return the test of one group, whose counts have `width` binary digits; `together` counts share one number.

        With `prepared`, parties give what the circuit asks for in place of their shares (`count_circuits`).
        """
        row = SharedRow(self.n_values, self.n_bounded, n_records, width, together, prepared)
        return _circuit(self.part, row, self.least)


@lru_cache(maxsize=64)
def _circuit(part: GroupRequirement, row: SharedRow, least: int) -> Circuit:
    return sized(part.circuit(row), row.width, least, row.together)


@dataclass
class SensitiveChecks:
    """One party's side of all checks; `prepare_checks` makes it."""

    me: int
    contract: Contract
    checks: tuple[Check, ...]  # those in which this party has a part
    own: tuple[Labels | None, ...]  # this party's sensitive values, where it is the holder
    pairs: dict[tuple[int, int], Pair]  # by holder, which garbles, and asker
    n_records: int
    most_parts: dict[int, int]  # of a group that an asker splits, by asker
    trees: tuple[
        dict[int, ValuePicker | ValuePlanter], ...
    ]  # of each check's values, by asker; none of too many

    @property
    def histograms_by(self) -> tuple[BackEnd, ...]:
        """Return the back ends that our checks used for joint histograms."""
        return tuple(sorted(set[BackEnd]().union(*(pair.histograms_by for pair in self.pairs.values()))))

    def _whole(self, check: Check, labels: Labels) -> dict[str, Bits]:
        """Return the counts of the whole table, as the holder's input of a requirement that compares with them."""
        if self.me != check.holder or not check.part.compares_with_whole:
            return {}
        counts = value_counts(labels.astype(np.int64), check.n_values)
        return {"whole": to_bits(counts, self.n_records.bit_length()).T.ravel()}

    def _groups(self, asker: int, rows: Counts, sizes: Counts, least: int) -> Groups:
        """Return public groups, one after the other, that an asker may split into parts of at least `least` records."""
        return Groups(rows, sizes, sizes // least, self.most_parts[asker])

    def _parts_satisfy(
        self, at: int, asker: int, groups: Groups, parts: Labels | None, least: int, blocks: Sequence[int]
    ) -> Script[Flags]:
        """Return of which blocks of neighbouring rows all satisfy a check; the asker gives each record's part.

        A part of `groups.most` counts nowhere. `least` is the size below which a part is refused in any case.
        """
        if (
            parts is not None
            and (parts < groups.most)[parts >= np.repeat(groups.n_parts, groups.sizes)].any()
        ):
            raise Bug("a split makes more parts of a group than its size allows")
        check, own = replace(self.checks[at], least=least), self.own[at]
        pair, circuit = self.pairs[check.holder, asker], partial(check.circuit, self.n_records)
        whole = self._whole(check, own) if own is not None else {}
        if asker in self.trees[at]:
            rows = yield from split_rows(pair, self.trees[at][asker], groups, parts, check.n_values)
            judge = circuit(groups.width, prepared=True)
            return (yield from blocks_of_rows_satisfy(pair, rows, judge, blocks, whole))
        n_rows = int(groups.n_parts.sum())
        labels = own[groups.rows] if own is not None else _across(groups, parts, n_rows)
        bounds = Bounds(groups.rows.size, (check.n_values, n_rows))
        return (yield from blocks_satisfy(pair, labels, circuit, bounds, blocks, grouped_by=1, own=whole))


Checks = TypeVar("Checks", bound=SensitiveChecks)


def _across(groups: Groups, parts: Labels | None, nowhere: int) -> Labels:
    """Number parts across all groups."""
    assert parts is not None  # at who asks
    first = np.repeat(np.cumsum(groups.n_parts) - groups.n_parts, groups.sizes).astype(np.uint64)
    return np.where(parts < groups.most, first + parts, np.uint64(nowhere))


def most_children(columns: Iterable[Column]) -> int:
    """Return the most children that a value of these columns has, rounded up to a power of two, and 4 at least."""
    trees = [column.domain for column in columns if isinstance(column.domain, Taxonomy)]
    most = max((len(node.children) for tree in trees for node in tree), default=2)
    return max(4, 1 << (most - 1).bit_length())


def prepare_checks(
    kind: type[Checks],
    me: int,
    contract: Contract,
    sensitive: dict[str, Coded],
    columns: Iterable[Column],
    n_records: int,
) -> Script[Checks | None]:
    """Agree on all checks of a session, and set up the pairs that make them; return None when none is needed.

    `columns` are our own ones of the QIDs.
    """
    parties = contract.parties
    holder = holders_of(contract)
    remote = remote_parts(contract)
    if not remote:
        return None
    checks: list[Check] = []
    own: list[Labels | None] = []
    for part in remote:
        assert part.sensitive is not None  # otherwise nothing is remote from it
        at = parties.index(holder[part.sensitive])
        asking = frozenset(parties.index(holder[name]) for name in part.qid) - {at}
        labels: Labels | None = None
        if me == at:
            labels, told = labelled_values(part, sensitive[part.sensitive])
            yield Send(tuple(parties[number] for number in sorted(asking)), told)
        elif me not in asking:
            continue
        else:
            told = yield Receive(parties[at], SensitiveValues)
            if not 1 <= told.labels <= n_records or not 0 <= told.bounded <= told.labels:
                raise PeerBrokeProtocol(parties[at], f"told of {told.labels} values for {n_records} records")
        checks.append(Check(part, at, asking, least_size(part, contract.parts), told.labels, told.bounded))
        own.append(labels)
    most_parts = yield from _exchange_parts(me, parties, checks, columns, n_records)
    pairs: dict[tuple[int, int], Pair] = {}
    wanted = {(each.holder, asker) for each in checks for asker in each.asking if me in (each.holder, asker)}
    for at, asker in sorted(wanted):
        pairs[at, asker] = yield from prepare_pair(
            int(me == asker), (parties[at], parties[asker]), contract.hash
        )
    trees: list[dict[int, ValuePicker | ValuePlanter]] = []
    for check, values in zip(checks, own, strict=True):
        trees.append({})
        for asker in sorted(check.asking):
            if me in (check.holder, asker) and keeps_trees(n_records, check.n_values):
                pair = pairs[check.holder, asker]
                trees[-1][asker] = yield from plant_values(pair, values, n_records, check.n_values)
    return kind(me, contract, tuple(checks), tuple(own), pairs, n_records, most_parts, tuple(trees))


def _exchange_parts(
    me: int, parties: Sequence[str], checks: Sequence[Check], columns: Iterable[Column], n_records: int
) -> Script[dict[int, int]]:
    """Tell holders into how many parts we may split a group, and hear it of those who ask us."""
    found: dict[int, int] = {}
    holders = sorted({check.holder for check in checks if me in check.asking})
    if holders:
        found[me] = most_children(columns)
        yield Send(tuple(parties[number] for number in holders), MostParts(found[me]))
    for asker in sorted({asker for check in checks if check.holder == me for asker in check.asking}):
        told = yield Receive(parties[asker], MostParts)
        if not 2 <= told.parts <= max(4, 2 * n_records):
            raise PeerBrokeProtocol(
                parties[asker], f"may split a group of {n_records} into {told.parts} parts"
            )
        found[asker] = told.parts
    return found


def holders_of(contract: Contract) -> dict[str, str]:
    """Return the party that holds each column."""
    return {column.name: column.holder for column in contract.columns}


def remote_parts(contract: Contract) -> list[GroupRequirement]:
    """Return the requirements on a sensitive attribute that another party holds than some attribute of their QID."""
    holder = holders_of(contract)
    return [part for part in contract.parts if remote_qid(part, holder)]


def labelled_values(part: GroupRequirement, coded: Coded) -> tuple[Labels, SensitiveValues]:
    """Encode the holder's values as labels, those that the requirement bounds first; all others share one label."""
    codes, present = renumber(coded.codes, len(coded.labels))
    names = [coded.labels[code] for code in present]
    if part.values is None:
        return codes.astype(np.uint64), SensitiveValues(len(names), len(names))
    bounded = [number for number, name in enumerate(names) if name in part.values]
    label = np.full(len(names), len(bounded), np.uint64)
    label[bounded] = np.arange(len(bounded), dtype=np.uint64)
    rest = len(names) > len(bounded)
    return label[codes], SensitiveValues(len(bounded) + int(rest), len(bounded))
