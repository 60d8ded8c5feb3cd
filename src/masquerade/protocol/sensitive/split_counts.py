"""Judge splits of public groups by a value that one party holds: trees once for the column, then one message a split.

Where both parties know the groups, and one of them wants to split them by attributes of its own, its labels need not
cover all groups (`histogram.py`): only the part within each group is hidden. And the values stay the same, so the
transfers about them are made once (crypto/split_counts).

    who      sends                                          when
    holder   its values, hidden in ⌈log₂ values⌉ transfers  once, 16 bytes each
    asker    trees                                          once, 32 bytes a transfer
    asker    a masked row of words per record, a word a part   each split

Who learns what: nothing here; the shares of the counts are for circuits (`verdict.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from masquerade.crypto import BLOCK_BYTES, Bits, Labels, Rows, ValueReceiver, ValueSender, Words, tree_batches
from masquerade.engine import Counts
from masquerade.net import Message, Receive, Script, Send
from masquerade.protocol.pairs import Pair, blaming

_MOST_BYTES = 1 << 28  # of seeds that a party keeps


class ValuesHidden(Message, tag="values-ask", frozen=True):
    """The holder's values of some records, hidden in transfers."""

    columns: bytes


class ValueTrees(Message, tag="values-trees", frozen=True):
    """All but one leaf of the tree of each of these records."""

    trees: bytes


class SplitGroups(Message, tag="split-groups", frozen=True):
    """The part of each record of the groups that are split, masked."""

    rows: bytes


@dataclass(frozen=True, eq=False)
class PublicGroups:
    """Public groups of records, one after the other; each may be split into so many parts, and no more than `most`."""

    rows: Rows
    sizes: Counts  # none is 0
    allowed: Counts
    most: int

    @property
    def starts(self) -> Counts:
        """Return where each group begins."""
        return np.cumsum(self.sizes) - self.sizes

    @property
    def n_parts(self) -> Counts:
        """Return the rows of counts that each group takes."""
        return np.minimum(np.maximum(self.allowed, 1), self.most)

    @property
    def width(self) -> int:
        """Return the binary digits of a count."""
        return int(self.sizes.max()).bit_length()


def keeps_trees(records: int, values: int) -> bool:
    """Return whether a party can keep the seeds of this many records and values."""
    return records * max(values, 2) * BLOCK_BYTES <= _MOST_BYTES


def hide_values(pair: Pair, values: Labels | None, records: int, n_values: int) -> Script[ValueReceiver | ValueSender]:
    """Prepare the splits by one column; its holder gives the values, the other party None."""
    session, leaves = pair.fresh(b"split-counts"), max(n_values, 2)
    batches = list(tree_batches(records))
    if values is not None:
        receiving = ValueReceiver(session, pair.receiver, leaves, records)
        for part in batches:
            yield Send((pair.peer,), ValuesHidden(receiving.ask(values[part])))
            answer = yield Receive(pair.peer, ValueTrees)
            with blaming(pair.peer):
                receiving.receive(answer.trees)
        return receiving
    sending = ValueSender(session, pair.sender, leaves, records)
    for part in batches:
        wanted = yield Receive(pair.peer, ValuesHidden)
        with blaming(pair.peer):
            trees = sending.answer(wanted.columns, part.stop - part.start)
        yield Send((pair.peer,), ValueTrees(trees))
    return sending


def split_rows(
    pair: Pair, trees: ValueReceiver | ValueSender, groups: PublicGroups, parts: Labels | None, n_values: int
) -> Script[Bits]:
    """Return this party's share of all parts' counts as a circuit's input, [bits of a row, rows].

    The sender gives the part of each record within its group, `groups.most` where it counts nowhere.
    """
    pair.histograms_by.add("transfers")
    if isinstance(trees, ValueSender):
        assert parts is not None
        message, share = trees.split(groups.rows, groups.starts, parts.astype(np.int64), groups.most)
        yield Send((pair.peer,), SplitGroups(message))
    else:
        heard = yield Receive(pair.peer, SplitGroups)
        with blaming(pair.peer):
            share = trees.split(heard.rows, groups.rows, groups.starts, groups.most)
    used = np.arange(groups.most) < groups.n_parts[:, None]
    return _bits(share[used][:, :n_values], groups.width)


def _bits(rows: Words, width: int) -> Bits:
    places = np.arange(width, dtype=np.uint64)
    bits = (rows.astype(np.uint64)[:, :, None] >> places) & np.uint64(1)
    return np.ascontiguousarray(bits.reshape(len(rows), -1).T.astype(np.uint8))
