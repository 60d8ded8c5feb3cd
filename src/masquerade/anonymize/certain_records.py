"""A least size against colluding providers, shown by merging groups of which each withstands them.

When m providers take their records out of an earlier group, at least k₀ records stay, whoever they are; of a union of g
such groups at least g · k₀ stay. A release does not tell which records those are, and nobody needs to know: k₀ of each
earlier group are marked, and a new group must have k that are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from masquerade.data.encode import distinct
from masquerade.engine.counts import Counts, value_counts
from masquerade.engine.numbering import group_rows, rows_by_rank
from masquerade.forms.rules import whole
from masquerade.privacy.parameters import limit, qid
from masquerade.privacy.requirement import GroupRequirement, plural

MARKS = "stays for certain"  # a column beside the release, which is not published
_MARKED = "yes"


@dataclass(frozen=True)
class CertainRecords(GroupRequirement):
    """Groups in which at least k records are marked; over the groups of `with_marks`.

    Monotone under specialization, as k-anonymity is: a union has the marks of its parts.
    """

    model: ClassVar[str] = "k-anonymity against providers"
    promise = "at least k records in each group, whoever of the providers takes theirs out"
    figure_meaning = "records in the smallest group that stay for certain"
    sensitive = MARKS
    provider_column = MARKS  # for the check, and not to be released

    qid: Sequence[str] = qid()
    k: int = limit(whole(), stricter="larger", symbol="k", example=5, help="records that stay, at least")

    @property
    def limit(self) -> int:
        """k."""
        return self.k

    def figures(self, histogram: Counts, whole: Counts, labels: Sequence[str] = ()) -> Counts:
        """Each group's marked records."""
        marked: Counts = histogram[:, [label == _MARKED for label in labels]].sum(axis=1)
        return marked

    def allows(self, figures: NDArray[Any]) -> NDArray[np.bool_]:
        """At least k marked records."""
        return figures >= self.k

    def complaint(self, figure: float, size: int) -> str:
        """How many stay, and how many must."""
        return f"keeps {plural(int(figure), 'record')} for certain; at least {self.k} are required"


def with_marks(release: pa.Table, names: Sequence[str], least: int) -> pa.Table:
    """Mark `least` records of each group over these columns; each group is known to keep that many."""
    columns = [distinct(release.column(name)) for name in names]
    labels, n_groups = group_rows(((codes, len(values)) for codes, values in columns), release.num_rows)
    order = rows_by_rank(labels, n_groups)
    starts = np.cumsum(value_counts(labels, n_groups)) - value_counts(labels, n_groups)
    place = np.empty(release.num_rows, np.int64)
    place[order] = np.arange(release.num_rows) - starts[labels[order]]
    return release.append_column(MARKS, pa.array(np.where(place < least, _MARKED, "no")))
