"""Requirements on another party's sensitive attribute, prepared so that a circuit can judge groups by shared counts.

The holder of the attribute tells those who may have to ask how many labels its values have. Each of them and the holder
then set up a pair: the holder garbles, and so decides what is asked. What is asked about, and what comes out, is up to
the method: see `remote_checks.py` (top-down specialization) and `multidimensional/cut_checks.py` (Mondrian).

    who                    learns
    who may have to ask    once: how many different sensitive values the common records have (of those that the
                           requirement lists, where it lists some)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto.circuit import Bits, Circuit, to_bits
from masquerade.crypto.count_circuits import sized
from masquerade.data.column import Coded
from masquerade.engine.counts import value_counts
from masquerade.engine.numbering import renumber
from masquerade.errors import PeerBrokeProtocol
from masquerade.net.script import Message, Receive, Script, Send
from masquerade.privacy.requirement import GroupRequirement, SharedRow
from masquerade.protocol.contract import Contract
from masquerade.protocol.joint_histogram.histogram import Bounds
from masquerade.protocol.joint_histogram.pair import BackEnd, Pair, prepare_pair
from masquerade.protocol.remote_sensitive import least_size, remote_qid

Labels = NDArray[np.uint64]


class SensitiveValues(Message, tag="sensitive-values", frozen=True):
    """The number of labels of the holder's values in a check; the requirement bounds the first `bounded` of them."""

    labels: int
    bounded: int


@dataclass(frozen=True)
class Check:
    """One requirement, its holder, and the parties that have to ask it."""

    part: GroupRequirement
    holder: int
    asking: frozenset[int]
    least: int  # records of a group that is not empty
    n_values: int
    n_bounded: int

    def bounds(self, n_records: int) -> Bounds:
        """Return the size of the histogram: the holder's values, and the groups of the one who asks."""
        return Bounds(n_records, (self.n_values, max(1, n_records // self.least)))

    def circuit(self, n_records: int, width: int, together: int = 1) -> Circuit:
        """Return the test of one group, whose counts have `width` binary digits; `together` counts share one number."""
        row = SharedRow(self.n_values, self.n_bounded, n_records, width, together)
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


Checks = TypeVar("Checks", bound=SensitiveChecks)


def prepare_checks(
    kind: type[Checks], me: int, contract: Contract, sensitive: dict[str, Coded], n_records: int
) -> Script[Checks | None]:
    """Agree on all checks of a session, and set up the pairs that make them; return None when none is needed."""
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
    pairs: dict[tuple[int, int], Pair] = {}
    wanted = {(each.holder, asker) for each in checks for asker in each.asking if me in (each.holder, asker)}
    for at, asker in sorted(wanted):
        pairs[at, asker] = yield from prepare_pair(
            int(me == asker), (parties[at], parties[asker]), contract.hash
        )
    return kind(me, contract, tuple(checks), tuple(own), pairs, n_records)


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
