"""The joint histogram of two parties: shares of how often each pair of their labels occurs, and tests on it.

Each party has a label for every common record: the group of its own columns that the record is in. Together they
obtain shares of the table of joint counts, and from it, for every record, a share of "its joint group has at least k
records". Nothing is opened here.

    step            what                                                     cost for n records, P × Q labels
    histogram       products of unit vectors (crypto/unit_products)          n·P·Q words of AES on each side;
                    where groups are large, sorted first (`sorted_histogram.py`)   a tenth of it and less
    look-up         each record's count, by one-of-N transfers both ways     n·(P + Q) words of table
    threshold       the sign of count − k by a garbled circuit               n·(w − 1) ANDs, about 1.2 kB a record

The label `bound` itself (one past the last) stands for "never": such a record is counted nowhere, and its count is 0.
A party gives it to records whose own group is smaller than k: no joint group of theirs can reach k.

Looking counts up before comparing them costs n circuits; the alternative, comparing every cell first, costs P·Q,
which for groups of at least k records is n/k² times as many.

Who learns what: the numbers of records and the bounds on labels are public; a party's view is random otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto import (
    Bits,
    UnitReceiver,
    UnitSender,
    Words,
    WordType,
    as_indices,
    batch_size,
    random_words,
    reached,
    word_for,
)
from masquerade.engine import value_counts
from masquerade.errors import ParameterError
from masquerade.net import Message, Receive, Script, Send
from masquerade.protocol.pairs import Pair, blaming, received, shared_outputs, slices

Labels = NDArray[np.uint64]

MOST_CELLS = 1 << 29  # a gigabyte of 16-bit counts, of which about four are kept
_TABLE_BYTES = 1 << 23  # of look-up tables in one message


@dataclass(frozen=True)
class Bounds:
    """How many records there are, and how many labels either party may have: public, and the same on both sides.

    Records whose label has fewer than `least` of its party's records are counted nowhere.
    """

    records: int
    labels: tuple[int, int]
    least: tuple[int, int] = (1, 1)

    def __post_init__(self) -> None:
        if self.records < 1 or min(self.labels) < 1 or min(self.least) < 1:
            raise ParameterError("a joint histogram takes at least one record and one label a party")
        if math.prod(self.labels) > MOST_CELLS:
            raise ParameterError(
                f"a joint histogram of {self.labels[0]:,} × {self.labels[1]:,} groups does not fit into memory; "
                f"at most {MOST_CELLS:,} cells are possible: take a larger k"
            )

    @property
    def word(self) -> WordType:
        """The word type of counts and their shares."""
        return word_for(self.records)

    @property
    def width(self) -> int:
        """Binary digits of a count, including a sign."""
        return self.records.bit_length() + 1

    @property
    def receiver(self) -> int:
        """The party whose labels are the rows, chosen to make each record's tree cheaper."""
        lanes = 16 // self.word.itemsize
        work = [(rows + 1) * (4 + -(-columns // lanes)) for rows, columns in (self.labels, self.labels[::-1])]
        return work.index(min(work))


@dataclass(frozen=True, eq=False)
class Counted:
    """A party's share of a table of joint counts, and the labels by which its records are found in it."""

    table: Words  # [labels of party 0 + 1, labels of party 1 + 1]; the last ones are counted nowhere
    labels: Labels
    bounds: Bounds


class TreesWanted(Message, tag="histogram-ask", frozen=True):
    """A receiver's labels of some records, hidden in transfers."""

    columns: bytes


class TreesSent(Message, tag="histogram-trees", frozen=True):
    """The sender's answer: all but one leaf of each tree, and the masked rows."""

    trees: bytes
    rows: bytes


class EntriesWanted(Message, tag="look-up-ask", frozen=True):
    """The labels of some records, hidden in transfers."""

    columns: bytes


class EntriesOffered(Message, tag="look-up-tables", frozen=True):
    """One row of shared counts per record, masked."""

    tables: bytes


def checked_labels(labels: Labels, me: int, bounds: Bounds) -> Labels:
    """Return this party's labels, "never" for those that too few records have.

    Raise unless there is one per record and none beyond the bound.
    """
    own = as_indices(labels, bounds.labels[me] + 1)
    if len(own) != bounds.records:
        raise ParameterError(f"a joint histogram of {bounds.records} records takes as many labels. Got {len(own)}.")
    if bounds.least[me] > 1:
        sizes = value_counts(own.astype(np.int64), bounds.labels[me] + 1)
        own[(sizes < bounds.least[me])[own]] = bounds.labels[me]
    return own


def checked_threshold(at_least: int, bounds: Bounds) -> int:
    """Return the threshold; raise unless a count may reach it."""
    if not 0 <= at_least <= bounds.records:
        raise ParameterError(f"a threshold must lie between 0 and the number of records. Got {at_least}.")
    return at_least


def joint_histogram(pair: Pair, labels: Labels, bounds: Bounds) -> Script[Words]:
    """Return this party's share of the table of joint counts, [labels of party 0 + 1, labels of party 1 + 1].

    The last row and column belong to the label that is counted nowhere, and are zero.
    """
    own = checked_labels(labels, pair.me, bounds)
    pair.histograms_by.add("transfers")
    receiver = bounds.receiver
    rows, columns = bounds.labels[receiver] + 1, bounds.labels[1 - receiver]
    session = pair.fresh(b"histogram")
    batches = list(slices(bounds.records, batch_size(rows, columns)))
    if pair.me == receiver:
        receiving = UnitReceiver(session, pair.receiver, rows, columns, bounds.word)
        share = yield from receive_rows(pair, receiving, own, batches)
    else:
        sending = UnitSender(session, pair.sender, rows, columns, bounds.word)
        for part in batches:
            sent = yield from received(pair.peer, TreesWanted, sending.answer, own[part])
            yield Send((pair.peer,), TreesSent(*sent))
        share = sending.share()
    table = np.zeros((rows, columns + 1), bounds.word)
    table[:-1, :-1] = share[:-1]
    return table if receiver == 0 else np.ascontiguousarray(table.T)


def row_bits(rows: Words, width: int) -> Bits:
    """Return rows of numbers as a circuit's input, [bits of a row, rows]: the digits of each, the lowest first."""
    bits = (rows.astype(np.uint64)[:, :, None] >> np.arange(width, dtype=np.uint64)) & np.uint64(1)
    return np.ascontiguousarray(bits.reshape(len(rows), -1).T.astype(np.uint8))


def receive_rows(pair: Pair, receiving: UnitReceiver, labels: Labels, batches: Sequence[slice]) -> Script[Words]:
    """Run the receiver's part for its labels, and return its share of the sums."""
    for part in batches[:1]:
        yield Send((pair.peer,), TreesWanted(receiving.ask(labels[part])))
    for at in range(len(batches)):
        for part in batches[at + 1 : at + 2]:  # one ahead, so that neither side waits
            yield Send((pair.peer,), TreesWanted(receiving.ask(labels[part])))
        yield from received(pair.peer, TreesSent, receiving.receive)
    return receiving.share()


def looked_up(pair: Pair, table: Words, labels: Labels, bounds: Bounds) -> Script[Words]:
    """Return this party's additive share of the count in each record's cell.

    Cells may be rows of several counts; then so are the shares.
    """
    own = checked_labels(labels, pair.me, bounds)
    mine = table if pair.me == 0 else table.swapaxes(0, 1)  # row by own label
    entries, cell = mine.shape[1], mine.shape[2:]  # the peer chooses among its labels
    choices = bounds.labels[pair.me] + 1
    size = bounds.word.itemsize * math.prod(cell)
    shares = np.empty((bounds.records, *cell), bounds.word)
    for part in slices(bounds.records, max(1, _TABLE_BYTES // (size * max(table.shape[:2])))):
        count = part.stop - part.start
        yield Send((pair.peer,), EntriesWanted(pair.table_receiver.ask(own[part], choices)))
        wanted = yield Receive(pair.peer, EntriesWanted)
        masks = random_words((count, *cell), bounds.word)
        offered = mine[own[part].astype(np.intp)] - masks[:, None]
        cells = np.ascontiguousarray(offered).view(np.uint8).reshape(count, entries, size)
        with blaming(pair.peer):
            tables = pair.table_sender.offer(wanted.columns, cells)
        yield Send((pair.peer,), EntriesOffered(tables))
        heard = yield from received(pair.peer, EntriesOffered, pair.table_receiver.receive, size)
        shares[part] = masks + np.ascontiguousarray(heard).view(bounds.word).reshape(masks.shape)
    return shares


def reached_shares(pair: Pair, shares: Words, at_least: int, bounds: Bounds) -> Script[Bits]:
    """Return this party's XOR share of "the shared count is ≥ `at_least`", one bit per count."""
    offset = np.array(checked_threshold(at_least, bounds) if pair.me == 1 else 0, bounds.word)
    bits = row_bits((shares - offset)[:, None], bounds.width)
    out = yield from shared_outputs(pair, reached(bounds.width), len(shares), {f"share {pair.me}": bits})
    return np.asarray(out["reached"][0])
