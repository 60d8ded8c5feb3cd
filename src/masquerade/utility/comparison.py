"""A release alongside its original: the input of every metric.

An anonymizer passes both sides directly. `compare` instead reads a finished release back: row i of
the release is row i of the input; each cell must be a value of its attribute, and cover the original value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from masquerade.data.column import Coded, Column, Generalised
from masquerade.data.continuum import MISSING_CELL
from masquerade.data.encode import missing_rows
from masquerade.data.released_range import allowed_cells, released_range
from masquerade.data.table import Table
from masquerade.engine.counts import Counts, Ints, value_counts
from masquerade.engine.numbering import distinct_codes, group_rows
from masquerade.errors import DataError


@dataclass(frozen=True, eq=False)
class Comparison:
    """The kept input rows and their released values, attribute by attribute."""

    originals: tuple[Column, ...]  # of all kept input rows
    released: tuple[Generalised, ...]  # the same attributes; codes of released rows only
    classes: Coded | None  # of all kept input rows
    kept: NDArray[np.intp] | None  # which input rows were released, in order; None when all were
    weights: Mapping[str, float]  # of the attributes; one that is missing weighs 1
    unseen: int = 0  # further suppressed rows, of which only the number is known here
    told_violations: int | None = (
        None  # where others have the originals: what they say of cells beyond boundaries
    )

    @property
    def rows(self) -> int:
        """The number of input rows, released or suppressed."""
        return self._seen + self.unseen

    @property
    def released_rows(self) -> int:
        """The number of released rows."""
        return self._seen if self.kept is None else int(self.kept.size)

    @property
    def _seen(self) -> int:
        if self.originals:
            return int(self.originals[0].ranks.size)
        if self.classes is not None:
            return int(self.classes.codes.size)
        return int(self.released[0].codes.size) if self.released else 0

    @property
    def suppressed(self) -> int:
        """The number of suppressed rows."""
        return self.rows - self.released_rows

    @cached_property
    def groups(self) -> Counts:
        """The group of each released row: rows of one group agree on every released attribute."""
        return self._grouped[0]

    @cached_property
    def group_sizes(self) -> Counts:
        """The number of rows in each group."""
        labels, n_groups = self._grouped
        return value_counts(labels, n_groups)

    @cached_property
    def _grouped(self) -> tuple[Counts, int]:
        columns = [(column.codes, len(column.labels)) for column in self.released if len(column.labels) > 1]
        return group_rows(columns, self.released_rows)

    def providers_of_groups(self, providers: Coded) -> Counts:
        """Count the providers of each group, given the provider of every kept input row."""
        codes = providers.codes if self.kept is None else providers.codes[self.kept]
        return distinct_codes(self.groups, codes, self.group_sizes.size, max(len(providers.labels), 1))

    @cached_property
    def code_counts(self) -> tuple[Counts, ...]:
        """The number of released rows with each code, one array per column."""
        return tuple(column.counts() for column in self.released)

    def rank_counts(self, at: int) -> Counts:
        """Count the released rows with each original rank, in the column at this place."""
        original = self.originals[at]
        ranks = original.ranks if self.kept is None else original.ranks.take(self.kept)
        return value_counts(ranks, original.domain.size)

    def all_rank_counts(self, at: int) -> Counts:
        """Count all kept rows with each original rank, the suppressed ones, too."""
        original = self.originals[at]
        return (
            self.rank_counts(at) if self.kept is None else value_counts(original.ranks, original.domain.size)
        )

    @cached_property
    def majorities(self) -> int | None:
        """The number of released rows that have the most frequent class of their group; None without a class."""
        classes = self.released_classes
        if classes is None or self.classes is None:
            return None
        pairs: list[tuple[Ints, int]] = [
            (self.groups, self.group_sizes.size),
            (classes, len(self.classes.labels)),
        ]
        labels, n_pairs = group_rows(pairs, self.released_rows)
        group_of_pair = np.empty(n_pairs, np.int64)
        group_of_pair[labels] = self.groups
        return largest_of_groups(group_of_pair, value_counts(labels, n_pairs))

    @cached_property
    def released_classes(self) -> NDArray[np.int32] | None:
        """The class of each released row."""
        if self.classes is None:
            return None
        return self.classes.codes if self.kept is None else self.classes.codes[self.kept]

    @cached_property
    def violations(self) -> dict[str, int]:
        """The number of cells of each attribute that has boundaries which go beyond that of their original value."""
        found = {}
        for original, column in zip(self.originals, self.released, strict=True):
            if (boundary := original.boundary) is not None:
                ranks = original.ranks if self.kept is None else original.ranks.take(self.kept)
                beyond = boundary.exceeded(ranks, column.lo.take(column.codes), column.hi.take(column.codes))
                found[original.name] = int(np.count_nonzero(beyond))
        return found


def largest_of_groups(groups: Counts, counts: Counts) -> int:
    """Add up the largest count of each group; counts of one group follow each other."""
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    return int(np.maximum.reduceat(counts, starts).sum()) if starts.size else 0


def compare(
    original: Table, release: Any, qid_attributes: Iterable[str], target: str | None = None
) -> Comparison:
    """Read a release back and compare it with its original, whose incomplete rows have been dropped.

    `release` is a Table or anything a Table can be made from. All invalid columns are reported at once.
    """
    finished = release if isinstance(release, Table) else Table(release)
    wanted = tuple(qid_attributes)
    for name in wanted:
        original.schema[name]  # an unknown name is an error that lists the known ones
    names = [name for name in original.schema.names if name in wanted]
    refuse_other_rows(finished.origin.name, len(finished), original.origin.name, len(original))
    originals = original.columns(names)
    released, errors = [], []
    for column in originals:
        try:
            released.append(read_back(column, finished))
        except DataError as error:
            errors.append(error)
    if gathered := DataError.gather(errors):
        raise gathered
    return Comparison(
        originals=originals,
        released=tuple(released),
        classes=original.coded(target) if target is not None else None,
        kept=None,
        weights={name: original.schema[name].weight for name in names},
    )


def refuse_other_rows(release: str, released: int, original: str, complete: int) -> None:
    """Raise DataError unless a release has as many rows as its original has complete ones."""
    if released != complete:
        raise DataError.about(
            release,
            f"{released} rows, but {original} has {complete} complete ones; "
            'row i of the release must be row i of the input (order = "input", nothing suppressed)',
        )


def read_back(original: Column, release: Table) -> Generalised:
    """Read a release's column back, each distinct cell as its range of ranks."""
    name, domain = original.name, original.domain
    empty = missing_rows(release.cells(name))
    if empty is not None and domain.range_of(MISSING_CELL) is None:
        raise DataError(release.problem("the cell is missing", int(np.argmax(empty)), name))
    coded = release.coded(name)

    def wrong(row: int, text: str) -> DataError:
        return DataError(release.problem(f'"{coded.labels[coded.codes[row]]}" {text}', row, name))

    ranges = [released_range(domain, label) for label in coded.labels]
    unknown = np.array([found is None for found in ranges], bool)
    if unknown.any():
        text = f"is no value of the attribute; allowed are {allowed_cells(domain)}"
        raise wrong(int(np.argmax(unknown[coded.codes])), text)
    lo, hi = np.array([found or (0, 0) for found in ranges], np.int64).reshape(-1, 2).T
    outside = (original.ranks < lo[coded.codes]) | (original.ranks >= hi[coded.codes])
    if outside.any():
        text = 'is not a generalisation of its original: is this release in input order (order = "input")?'
        raise wrong(int(np.argmax(outside)), text)
    return Generalised(name, coded.codes, coded.labels, lo, hi, domain)


def refuse_other_order(original: Table, release: Table, names: Iterable[str]) -> None:
    """Raise DataError if columns published unchanged show that the rows are in another order."""
    for name in dict.fromkeys(names):
        if name not in release.arrow.column_names or _written_anew(original.cells(name).type):
            continue
        before, after = original.coded(name), release.coded(name)
        place = {label: code for code, label in enumerate(before.labels)}
        same = np.array([place.get(label, -1) for label in after.labels], np.int64)
        different = same[after.codes] != before.codes
        if different.any():
            row = int(np.argmax(different))
            cells = f'"{after.labels[after.codes[row]]}" was "{before.labels[before.codes[row]]}"'
            text = f'{cells} in {original.problem("", row).place}: is this release in input order (order = "input")?'
            raise DataError(release.problem(text, row, name))


def _written_anew(kind: pa.DataType) -> bool:
    """Return whether files may write such values differently from how they are shown: then texts prove nothing."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_temporal(kind) or pa.types.is_decimal(kind))
