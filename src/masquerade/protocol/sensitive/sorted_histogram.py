"""The joint histogram where a party's groups are large: sort the records by its labels, and count within short blocks.

Among some neighbours in the order of the sorter's labels there are few labels, if each has many records. So a record's
row is added to one of some few, not of all:

    sort      the other party's labels, shared, in the sorter's order (crypto/oblivious_permutation)
    unit      shares of a unit vector for each label that nobody knows any more (crypto/unit_vectors)
    add up    the other party's shares of the vectors, by label, in blocks of s records (crypto/block_products); the
              sorter adds up its own
    join      the rows of labels that go on into the next block, as records of their own (crypto/unit_products)

s records have at most w = ⌊s / least⌋ labels that are whole within the block, one that comes from the block before and
one that goes on into the next: w + 2 leaves. The table has a row for each of the w, and one for the label that is cut
between two blocks: ⌈n/s⌉·(w + 1) in all, with s = (w + 1)·least − 1 about n / least. The sorter knows which row each
of its labels has become. So s, w and every size are public. Records whose label is rarer than `least` are counted
nowhere, and neither are those with the label "never", the last in the order.

Cost for n records and Q labels of the other party: n·log₂ n transfers of two labels; n vectors of Q words; (n·(w + 2) +
2·⌈n/s⌉²)·Q words of AES, where `histogram.py` has n·P·Q. With the best s for groups of k that is about
n·Q·(n/k)^(2/3), and n·Q·n/k there. Messages that wait for each other: 2·⌈log₂(Q / 8)⌉ + 8 for each batch of some
thousand records, and 4.

Who learns what: nothing beyond the numbers of records, the bounds and `least`; every message is masked or a share.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto import (
    LANES,
    BlockReceiver,
    BlockSender,
    Orderer,
    Owner,
    UnitReceiver,
    UnitSender,
    UnitVectors,
    Words,
    WordType,
    batch_size,
    batches,
    random_words,
)
from masquerade.errors import Bug
from masquerade.net import Message, Receive, Script, Send
from masquerade.protocol.pairs import Pair, blaming, received, slices
from masquerade.protocol.sensitive.histogram import (
    Bounds,
    Counted,
    Labels,
    TreesSent,
    TreesWanted,
    checked_labels,
    receive_rows,
)

# --- shared vectors -----------------------------------------------------------------------------------------
# Unit vectors at places that two parties share: the messages of `crypto/unit_vectors`, a batch at a time.
#
# Messages that wait for each other: 2·⌈log₂(size / 8)⌉ + 6. Who learns what: the numbers of vectors and of
# places, which are public.


class VectorBits(Message, tag="vector-ask", frozen=True):
    """A party's shares of some places' digits, or of signs, hidden in transfers."""

    columns: bytes


class VectorProducts(Message, tag="vector-products", frozen=True):
    """What a party's numbers would be times the other's bits, masked."""

    masked: bytes


class VectorCorrections(Message, tag="vector-corrections", frozen=True):
    """A party's shares of what corrects both parties' trees."""

    shares: bytes


def unit_vectors(pair: Pair, vectors: UnitVectors, places: Labels, *, offers: bool, word: WordType) -> Script[Words]:
    """Return this party's shares of unit vectors, from those of their places; one party offers tables."""
    peer = (pair.peer,)
    yield Send(peer, VectorBits(vectors.begin(places)))
    yield from received(pair.peer, VectorBits, vectors.hear)
    for _ in range(vectors.depth):
        yield Send(peer, VectorProducts(vectors.grow()))
        correction = yield from received(pair.peer, VectorProducts, vectors.correct)
        yield Send(peer, VectorCorrections(correction))
        yield from received(pair.peer, VectorCorrections, vectors.descend)
    if offers:
        low = random_words((len(places), LANES), word)
        tables = yield from received(pair.peer, VectorBits, pair.table_sender.offer, vectors.table(low))
        yield Send(peer, VectorProducts(tables))
    else:
        yield Send(peer, VectorBits(pair.table_receiver.ask(vectors.low, LANES)))
        size = LANES * word.itemsize
        heard = yield from received(pair.peer, VectorProducts, pair.table_receiver.receive, size)
        low = np.ascontiguousarray(heard).view(word)
    yield Send(peer, VectorBits(vectors.finish(low)))
    yield Send(peer, VectorProducts((yield from received(pair.peer, VectorBits, vectors.multiply))))
    yield Send(peer, VectorCorrections((yield from received(pair.peer, VectorProducts, vectors.tell))))
    return (yield from received(pair.peer, VectorCorrections, vectors.vectors))


# --- sorted histogram ---------------------------------------------------------------------------------------

BATCH = 1 << 13  # records whose vectors are made at a time, about
_BATCH_WORDS = 1 << 24  # of their vectors, at most
_MOST_WHOLE = 64  # labels that are whole within a block


class SwitchesSet(Message, tag="sort-ask", frozen=True):
    """Some switches of the sorter's network, hidden in transfers."""

    columns: bytes


class SwitchesPassed(Message, tag="sort-switches", frozen=True):
    """The other party's labels, masked, before the first switches; then what each switch does to masks."""

    labels: bytes
    changes: bytes


class BlockLabels(Message, tag="block-ask", frozen=True):
    """The sorter's labels of some records, numbered within their blocks, hidden in transfers."""

    columns: bytes


class BlockTrees(Message, tag="block-trees", frozen=True):
    """All but one leaf of the short tree of each of some records."""

    trees: bytes


class BlockRows(Message, tag="block-rows", frozen=True):
    """The other party's shares of these records' unit vectors, masked."""

    rows: bytes


@dataclass(frozen=True)
class Sorting:
    """How the records are sorted and cut: public, and the same on both sides."""

    sorter: int
    block: int  # records
    whole: int  # labels that may be whole within a block

    @staticmethod
    def of(bounds: Bounds, sorter: int) -> Sorting:
        """Choose the block for which the fewest rows are expanded."""
        least = bounds.least[sorter]
        blocks = (min(bounds.records, (whole + 1) * least - 1) for whole in range(1, _MOST_WHOLE + 1))
        choices = [Sorting(sorter, max(block, 1), max(block, 1) // least) for block in blocks]
        return min(choices, key=lambda each: each.expanded(bounds.records))

    @property
    def leaves(self) -> int:
        """How many rows a record may be added to."""
        return self.whole + 2

    def blocks(self, records: int) -> int:
        """Return the number of blocks."""
        return -(-records // self.block)

    def rows(self, records: int) -> int:
        """Return the rows of the table: for the whole labels of all blocks, and for those that are cut."""
        return self.blocks(records) * (self.whole + 1)

    def expanded(self, records: int) -> int:
        """Return how many rows are expanded: for the records, and to join the rows of labels that are cut."""
        return records * self.leaves + 2 * self.blocks(records) * (self.blocks(records) + 1)


def sorted_histogram(pair: Pair, labels: Labels, bounds: Bounds, sorting: Sorting) -> Script[Counted]:
    """Return this party's share of a table of joint counts, in which the sorter has other labels than before."""
    own = checked_labels(labels, pair.me, bounds)
    pair.histograms_by.add("transfers")
    sorts = pair.me == sorting.sorter
    rows, columns = sorting.rows(bounds.records), bounds.labels[1 - sorting.sorter]
    sizes = (rows, columns) if sorting.sorter == 0 else (columns, rows)
    vectors = UnitVectors(pair.fresh(b"unit-vectors"), pair.me, (pair.sender, pair.receiver), columns + 1, bounds.word)
    if sorts:
        order = np.argsort(own, kind="stable")
        sorter = _Sorter(pair, bounds, sorting, own[order])
        own[order] = sorter.rows.astype(np.uint64)
        mine: _Sorter | _Other = sorter
        places = yield from _places_in_order(pair, order, _label_word(columns))
    else:
        mine = _Other(pair, bounds, sorting)
        places = yield from _own_places(pair, own, _label_word(columns))
    places = places.astype(np.uint64) & np.uint64((1 << vectors.digits) - 1)
    # Whole blocks, as many as memory has room for their vectors.
    blocks = max(1, min(BATCH, _BATCH_WORDS // columns) // sorting.block)
    for part in slices(bounds.records, sorting.block * blocks):
        yield from mine.exchange_trees(part)
        shares = yield from unit_vectors(pair, vectors, places[part], offers=not sorts, word=bounds.word)
        yield from mine.add(part, shares[:, :columns])
    table = np.zeros((rows + 1, columns + 1), bounds.word)
    table[:-1, :-1] = yield from mine.joined()
    table = table if sorting.sorter == 0 else np.ascontiguousarray(table.T)
    return Counted(table, own, Bounds(bounds.records, sizes))


class _Sorter:
    """The party that knows which records have the same label; `ordered` are its labels, sorted."""

    def __init__(self, pair: Pair, bounds: Bounds, sorting: Sorting, ordered: Labels) -> None:
        self._pair, self._word, self._sorting = pair, bounds.word, sorting
        self._columns = bounds.labels[1 - pair.me]
        self._n_blocks, self._n_rows = sorting.blocks(len(ordered)), sorting.rows(len(ordered))
        self._place(ordered.astype(np.int64), bounds.labels[pair.me])
        self._receiving = BlockReceiver(
            pair.fresh(b"blocks"), pair.receiver, sorting.leaves, self._columns, sorting.block, self._word
        )
        self._sums = np.zeros((self._n_rows + 1, self._columns), self._word)

    def _place(self, ordered: NDArray[np.int64], never: int) -> None:
        """Find each record's leaf within its block and its row of the table, and the rows of the cut labels' leaves."""
        size, whole, nowhere = self._sorting.block, self._sorting.whole, self._n_rows
        first = np.flatnonzero(np.diff(ordered, prepend=-1))  # of each label
        last = np.append(first[1:], len(ordered)) - 1
        starts, ends = first // size, last // size  # blocks
        counted = ordered[first] < never
        inside = counted & (starts == ends)
        number = np.cumsum(inside) - 1  # of the whole labels, in each block from 0
        number -= np.searchsorted(starts[inside], starts)
        if number[inside].max(initial=-1) >= whole:
            raise Bug(f"a block of {size} records has more than {whole} labels")
        row_of = np.where(inside, starts * whole + number, self._n_blocks * whole + starts)
        row_of[~counted] = nowhere
        label = np.repeat(np.arange(first.size), last - first + 1)
        block = np.arange(len(ordered)) // size
        cut = np.where(block > starts[label], whole, whole + 1)
        self._leaf = np.where(inside[label], number[label], cut).astype(np.uint64)
        self.rows = row_of[label]
        self._of_cut = np.full((self._n_blocks, 2), nowhere)
        cuts = ~inside[label]
        self._of_cut[block[cuts], cut[cuts] - whole] = self.rows[cuts]

    def exchange_trees(self, part: slice) -> Script[None]:
        """Get these records' trees, and add up what their leaves expand to."""
        yield Send((self._pair.peer,), BlockLabels(self._receiving.ask(self._leaf[part])))
        by_leaf = yield from received(self._pair.peer, BlockTrees, self._receiving.expand)
        whole, first = self._sorting.whole, part.start // self._sorting.block
        blocks = slice(first * whole, (first + len(by_leaf)) * whole)
        self._sums[blocks] += by_leaf[:, :whole].reshape(-1, self._columns)
        np.add.at(self._sums, self._of_cut[first : first + len(by_leaf)], by_leaf[:, whole:])

    def add(self, part: slice, shares: Words) -> Script[None]:
        """Add up these records' vectors by label."""
        completed = yield from received(self._pair.peer, BlockRows, self._receiving.complete)
        rows = self.rows[part]
        starts = np.flatnonzero(np.diff(rows, prepend=-1))
        self._sums[rows[starts]] += np.add.reduceat(completed + shares, starts, axis=0, dtype=self._word)

    def joined(self) -> Script[Words]:
        """Join the other party's rows of cut labels; return this party's share of the table's rows."""
        first = self._n_blocks * self._sorting.whole
        cuts = (self._of_cut.ravel() - first).astype(np.uint64)
        receiving = UnitReceiver(
            self._pair.fresh(b"joined-blocks"), self._pair.receiver, self._n_blocks + 1, self._columns, self._word
        )
        parts = slices(len(cuts), batch_size(self._n_blocks + 1, self._columns))
        self._sums[first:] += yield from receive_rows(self._pair, receiving, cuts, list(parts))
        return self._sums[:-1]


class _Other:
    """The party whose shares are added up by labels that it does not know."""

    def __init__(self, pair: Pair, bounds: Bounds, sorting: Sorting) -> None:
        self._pair, self._word, self._whole = pair, bounds.word, sorting.whole
        self._columns = bounds.labels[pair.me]
        self._sending = BlockSender(
            pair.fresh(b"blocks"), pair.sender, sorting.leaves, self._columns, sorting.block, self._word
        )
        self._blocks: list[Words] = []

    def exchange_trees(self, part: slice) -> Script[None]:
        """Send these records' trees, and add up what their leaves expand to."""
        size = part.stop - part.start
        trees = yield from received(self._pair.peer, BlockLabels, self._sending.answer, size)
        yield Send((self._pair.peer,), BlockTrees(trees))
        self._blocks.append(self._sending.expand())

    def add(self, _part: slice, shares: Words) -> Script[None]:
        """Mask these records' vectors."""
        yield Send((self._pair.peer,), BlockRows(self._sending.mask(shares)))

    def joined(self) -> Script[Words]:
        """Mask the rows of cut labels; return this party's share of the table's rows."""
        blocks = np.concatenate(self._blocks)
        cuts = blocks[:, self._whole :].reshape(-1, self._columns)
        session = self._pair.fresh(b"joined-blocks")
        sending = UnitSender(session, self._pair.sender, len(blocks) + 1, self._columns, self._word)
        for part in slices(len(cuts), batch_size(len(blocks) + 1, self._columns)):
            sent = yield from received(self._pair.peer, TreesWanted, sending.answer_rows, cuts[part])
            yield Send((self._pair.peer,), TreesSent(*sent))
        whole = blocks[:, : self._whole].reshape(-1, self._columns)
        return np.concatenate((whole, sending.share()[:-1]))


def _places_in_order(pair: Pair, order: NDArray[np.int64], word: WordType) -> Script[Words]:
    """Return the sorter's shares of the other party's labels, in its order."""
    orderer = Orderer(pair.receiver, order, word)
    for stages in batches(len(order)):
        yield Send((pair.peer,), SwitchesSet(orderer.ask(stages)))
        answer = yield Receive(pair.peer, SwitchesPassed)
        with blaming(pair.peer):
            if stages.start == 0:
                orderer.start(answer.labels)
            orderer.receive(answer.changes)
    return orderer.share()


def _own_places(pair: Pair, own: Labels, word: WordType) -> Script[Words]:
    """Return the other party's shares of its labels in the sorter's order."""
    owner = Owner(pair.sender, own.astype(word))
    for stages in batches(len(own)):
        changes = yield from received(pair.peer, SwitchesSet, owner.answer, stages)
        yield Send((pair.peer,), SwitchesPassed(owner.start if stages.start == 0 else b"", changes))
    return owner.share()


def _label_word(bound: int) -> WordType:
    return np.dtype(np.uint16) if bound < 1 << 16 else np.dtype(np.uint32)
