"""Candidate cuts of a batch's groups along all taxonomies, from a tally instead of the records."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from masquerade.anonymize.mondrian.axes import Batch
from masquerade.anonymize.mondrian.candidates import Candidates
from masquerade.anonymize.mondrian.groups import Cells
from masquerade.anonymize.mondrian.judge import Judge
from masquerade.anonymize.mondrian.parts import Parts, judged
from masquerade.anonymize.mondrian.tally import Tally
from masquerade.engine.counts import Counts, Flags


@dataclass(frozen=True, eq=False)
class TaxonomyCandidates(Candidates):
    """The cuts of each group along every taxonomy, into the children of the lowest node that covers it."""

    tally: Tally
    trees: Counts  # of each cut
    children: Counts  # those that have records, in order
    cut_of_child: Counts
    part_of_child: Counts

    def narrow(self, cells: Cells, cuts: Counts) -> None:
        """Do nothing: cells along taxonomies are narrowed at the end."""

    def labels(self, chosen: Flags, cut: Batch, numbers: Counts) -> Counts:
        """Look the part up in a table by group and column."""
        known, width = self.tally.trees, self.tally.trees.n_columns
        made = np.flatnonzero(chosen[self.cut_of_child])
        lo, hi = known.lo[self.children[made]], known.hi[self.children[made]]
        lengths = hi - lo
        group = (np.cumsum(chosen) - 1)[self.cut_of_child[made]]
        first = group * width + lo - np.cumsum(lengths) + lengths
        places = np.repeat(first, lengths) + np.arange(lengths.sum())
        part = np.empty(cut.n_groups * width, np.int64)  # only entries that rows use are filled, and read
        part[places] = np.repeat(numbers[self.part_of_child[made]], lengths)
        of_row = cut.rows * known.n_trees
        of_row += np.repeat(self.trees[chosen], cut.sizes)
        column = known.columns.ravel().take(of_row)
        return part.take(np.repeat(np.arange(0, part.size, width), cut.sizes) + column)


def taxonomy_candidates(batch: Batch, tally: Tally, judge: Judge, strict: bool) -> TaxonomyCandidates | None:
    """Return the cuts along all taxonomies, judged by record counts alone; None when no group can be cut."""
    known = tally.trees
    nodes = tally.nodes.ravel()
    pairs = np.flatnonzero(known.n_children[nodes])
    if not pairs.size:
        return None
    groups, trees = np.divmod(pairs, known.n_trees)
    nodes = nodes[pairs]
    children, cut = known.children(nodes)
    records = tally.records(groups[cut], children)
    found = np.flatnonzero(records)
    children, cut, records = children[found], cut[found], records[found]
    widths = known.widths[nodes]
    parts = Parts(cut, (records.reshape(-1, 1),), known.widths[children])
    parts, part_of_child, allowed = judged(parts, widths, judge, strict)
    return TaxonomyCandidates(
        batch.sizes[groups],
        widths,
        parts,
        known.axes[trees],
        groups,
        allowed,
        tally,
        trees,
        children,
        cut,
        part_of_child,
    )
