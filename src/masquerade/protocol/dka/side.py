"""One party's own work in DkA, between two tests: what the rounds ask of it, and the framework's two forms of it.

    side            a test opens                                 after it
    `DataflySide`   for each record whether its group is good    who passed leaves; the others climb (`side.py`)
    `BottomUpSide`  whether all records' groups are              if not, everybody goes one step further (Algorithm 4)
    `TopDownSide`   the same                                     as long as they are, one step down; else back (§7)

What was opened is all that a side ever hears, so that hearing the same again leads to where it was.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from masquerade.anonymize import BottomUpColumns
from masquerade.crypto import Bits, pack, unpack
from masquerade.data import Column, Generalised
from masquerade.engine import Rows
from masquerade.errors import Bug, PeerBrokeProtocol
from masquerade.net import Message, Receive, Script, Send
from masquerade.progress import OnStage, Stage, silent
from masquerade.protocol.dka.anonymizers import Descent, Labels, LocalAnonymizer, labels_of, most_groups, refuse_few

Opened = NDArray[np.bool_]
Opening = Literal["each", "all", "end"]  # a bit a record; whether all pass; whether nobody has a further step


class Tested(Protocol):
    """One party's groups of the common records, as a joint test looks at them."""

    @property
    def k(self) -> int:
        """The least size of a joint group."""

    @property
    def bound(self) -> int:
        """The public bound on the number of own groups, and the label of records that cannot pass."""

    @property
    def left(self) -> Rows:
        """The records that are still tested."""

    def labels(self) -> Labels:
        """Return the own groups of the remaining records."""


class Side(ABC):
    """One party's columns over the common records, as general as the rounds so far have made them."""

    opens: Opening  # what is opened next

    def __init__(self, n_records: int, k: int) -> None:
        self.k = k
        self.bound = most_groups(n_records, k)  # of the first round, in every round
        self.left: Rows = np.arange(n_records)
        self.round = 0  # how many are over; top-down, how many have passed
        self.over = False
        self.stuck = False  # whether this party had no further step

    @abstractmethod
    def labels(self) -> Labels:
        """Return the own groups of the remaining records (step 6 of Algorithm 6)."""

    @abstractmethod
    def hear(self, opened: Opened) -> None:
        """Take in what was opened: one bit, or where `opens` is "each" one a remaining record."""

    @property
    def passed(self) -> Rows:
        """The records that are released, in the common order."""
        return self.left

    @abstractmethod
    def released(self) -> tuple[Generalised, ...]:
        """Return the columns of the released records."""


class _FrameworkSide(Side):
    """Base of both directions: all records are tested in every round, and all are released."""

    opens: Opening = "all"

    def __init__(self, own: LocalAnonymizer, n_records: int, k: int) -> None:
        super().__init__(n_records, k)
        self._anonymizer = own
        own.start()

    def labels(self) -> Labels:
        """Return the own groups of all records."""
        return labels_of(self._anonymizer, self.left, self.k, self.bound)

    def released(self) -> tuple[Generalised, ...]:
        """Return all records' columns, as general as they are now."""
        return self._anonymizer.released(self.left)


class BottomUpSide(_FrameworkSide):
    """More general from round to round, until all pass; at the top of all taxonomies they do."""

    def hear(self, opened: Opened) -> None:
        """Go one step further unless all records passed."""
        self.round += 1
        self.over = _only(opened)
        if not self.over:
            self._anonymizer.further()


class TopDownSide(_FrameworkSide):
    """More specific from round to round, until a test fails or nobody has a finer step."""

    def __init__(self, own: Descent, n_records: int, k: int) -> None:
        super().__init__(own, n_records, k)
        self._own = own

    def hear(self, opened: Opened) -> None:
        """Go one step down after a test that passed; undo the step that a failed one was about."""
        if self.opens == "end":
            self.over, self.opens = _only(opened), "all"
        elif _only(opened):
            self.round += 1
            self.stuck, self.opens = not self._own.further(), "end"
        else:
            if not self.stuck and self.round:
                self._own.back()
            self.over = True


def _only(opened: Opened) -> bool:
    if opened.shape != (1,):
        raise Bug(f"{opened.size} answers to one question")
    return bool(opened[0])


# --- datafly side -------------------------------------------------------------------------------------------
# One party's own work in DkA-Datafly (Algorithm 6): everything between two tests, without the other parties.
#
# The remaining records get more general from round to round; those that passed keep their values. Fewer
# than k that are left at the end are suppressed, and so is a last group that fails though nobody can
# generalise it further, as may happen where more than its size matters.


class DataflySide(Side):
    """The columns of one party over the common records, as general as the rounds so far have made them."""

    def __init__(self, columns: Sequence[Column], n_records: int, k: int, *, only_sizes: bool = True) -> None:
        refuse_few(n_records, k)
        super().__init__(n_records, k)
        self._generalised = BottomUpColumns(columns)
        self._passed = np.zeros(n_records, bool)
        self.opens, self._only_sizes = "each", only_sizes
        rest = self.left  # records in a group of k are not generalised further (step 1)
        while rest.size >= k:
            rest = rest[labels_of(self._generalised, rest, k, self.bound) == self.bound]
            if rest.size < k or self._generalised.climb(rest) is None:
                break

    def labels(self) -> Labels:
        """Return the own groups of the remaining records."""
        return labels_of(self._generalised, self.left, self.k, self.bound)

    def hear(self, opened: Opened) -> None:
        """Remove the records that pass (step 10), and generalise the others one step (step 11).

        Records that one k cannot be reached for are fewer than k. Where more matters, the parties ask for the end.
        """
        if self.opens == "end":
            self.over, self.opens = bool(opened.all()), "each"
            return
        if opened.shape != self.left.shape:
            raise Bug(f"{opened.size} answers for {self.left.size} records")
        self.round += 1
        self._passed[self.left[opened]] = True
        self.left = self.left[~opened]
        self.over = self.left.size < self.k  # too few for another round (step 12)
        if not self.over:
            self.stuck = self._generalised.climb(self.left) is None
            self.opens = "each" if self._only_sizes else "end"

    @property
    def passed(self) -> Rows:
        """The records that are released, in the common order."""
        return np.flatnonzero(self._passed)

    def released(self) -> tuple[Generalised, ...]:
        """Return the columns of the released records."""
        return self._generalised.released(self.passed)


# --- rounds -------------------------------------------------------------------------------------------------
# The rounds of DkA: test the joint groups, open what the side asks for, go on; for any side and any test.
#
#     Algorithm 6   DkA-Datafly (`side.py`): χ is opened, which says of the records that are left which pass.
#                   They leave with the values that they have now, the others climb one step at each party
#     Algorithm 4   the framework (`side.py`): one bit is opened, whether all records pass; if not, all go one step
#                   further. Top-down (§7), also whether nobody has a finer step
#
# Who learns what: of the other parties' columns nothing but what the release shows, and what is opened. That is χ of
# every round in Algorithm 6: which identified common people are released in which round. Theorem 10's simulator needs
# χ: it does not follow from a release without identifiers (docs/leakage.md). In Algorithm 4 it is the number of rounds,
# which each could tell from the release and its own table (Algorithm 5's simulator does).
#
# Rounds of messages and cost are those of the test (`checks.py`). The label counts are padded to ⌊n/k⌋ of
# the first round's n in every round.

OnRound = Callable[[Opened], None]

MOST_ROUNDS = 1_000
"""Far more than all columns have levels. Whoever lets every test fail would otherwise keep the others for ever."""


class ChiShare(Message, tag="dka-chi", frozen=True):
    """A share of χ, one bit per remaining record, or of the one bit whether all pass."""

    bits: bytes


class JointTests(ABC):
    """What all parties compute together; every party calls the same in the same order."""

    peers: Sequence[str]  # the other parties

    @abstractmethod
    def good_groups(self, side: Tested, on_stage: OnStage) -> Script[Bits]:
        """Return this party's XOR share of "the record's joint group is good" (the paper's ω), one bit a record."""

    @abstractmethod
    def all_set(self, shares: Bits) -> Script[Bits]:
        """Return this party's XOR share of the conjunction of each column."""

    @abstractmethod
    def unanimous(self, own: bool) -> Script[bool]:
        """Return whether all parties say yes, and let nobody learn more."""


def play(tests: JointTests, side: Side, *, on_stage: OnStage = silent, on_round: OnRound | None = None) -> Script[None]:
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
        share = yield from tests.all_set(share[:, None])  # whether all pass (step 8 of Algorithm 4)
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
