"""The first step of every method: refuse what it, the requirement or the records do not allow, and bind the two.

Where attributes have boundaries (`data/boundary.py`), records that no release within them can hold are left out here,
so that what follows starts from groups that satisfy (`boundaries.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from masquerade.anonymize.method import TableMethod, insist, records_of
from masquerade.data import (
    KEPT,
    Boundary,
    Coded,
    Column,
    Generalised,
    Histograms,
    Outcome,
    Records,
    ReleasedCodes,
    Schema,
    Step,
    Table,
    codes_of,
    ranks_of,
    with_products,
)
from masquerade.engine import (
    Arrays,
    Chunk,
    Chunks,
    Counts,
    Flags,
    Ints,
    Rows,
    SparseCounts,
    counted_keys,
    group_rows,
    rows_by_rank,
    value_counts,
    weighted_counts,
)
from masquerade.errors import ParameterError, RequirementUnreachable
from masquerade.privacy import Conjunction, GroupRequirement, Requirement, without_redundant
from masquerade.utility import number_groups


@dataclass(frozen=True, eq=False)
class Prepared:
    """The columns to generalise, and the requirements that must hold afterwards.

    Ranks and codes are in the chunks. Of a table that a method needs as a whole, they are in the columns, too, and
    `sensitive` has the attributes that the requirements are about.
    """

    records: Records  # that all this is about
    parts: tuple[GroupRequirement, ...]  # of the requirement, without those that others cover
    columns: tuple[Column, ...]  # the QID attributes, in the order of the schema
    chunks: Chunks | None = None  # of those records, where they are not all
    sensitive: Mapping[str, Coded] = field(default_factory=dict)
    kept: Rows | None = None  # the table's rows that all this is about; None for all

    @property
    def n_rows(self) -> int:
        """The number of records that all this is about."""
        return len(self.records)

    def here(self, coded: Coded) -> Coded:
        """Return a column of the table for just the rows that this is about."""
        return coded if self.kept is None else coded.of_rows(self.kept)

    def outcome(
        self,
        columns: Iterable[Generalised],
        steps: tuple[Step, ...] = (),
        kept: Rows | None = None,
        *,
        codes: Mapping[str, ReleasedCodes] | None = None,
        released: str | None = None,
    ) -> Outcome:
        """Return what a method made of it, which has codes in the columns, or says where they are.

        `kept` are those of these rows that it releases, None for all; in chunks the array `released` has them.
        """
        if codes is not None:
            return Outcome(tuple(columns), steps, codes=codes, released=released, chunks=self.chunks)
        if self.kept is not None:
            kept = self.kept if kept is None else self.kept.take(kept)
        return Outcome(tuple(columns), steps, kept)

    def held(self) -> Prepared:
        """Return the same of records that are one chunk here, with their ranks and codes."""
        read = self.records.chunks.only(0, dict)
        labelled = {part.sensitive: self.records.coded[part.sensitive] for part in self.parts if part.sensitive}
        return replace(
            self,
            columns=tuple(replace(each, ranks=read[ranks_of(each.name)]) for each in self.columns),
            sensitive={name: replace(each, codes=read[codes_of(name)]) for name, each in labelled.items()},
            kept=read[KEPT].astype(np.intp) if self.chunks is not None else None,
        )


def prepare(of: Table | Records, requirement: Requirement, method: TableMethod) -> Prepared:
    """Refuse what the method or these records cannot do, and bind the requirement to their sensitive values.

    Of a method that keeps to boundaries, leave out the records that violate even at them. Of a table, the columns have
    ranks.
    """
    parts = parts_for(of.schema, requirement, method)
    records = records_of(of, requirement, method.target) if isinstance(of, Table) else of
    records = with_products(records, (part.sensitive for part in parts))
    for part in parts:
        part.bind(records.coded[part.sensitive].labels if part.sensitive is not None else ())
    sensitive = {name: (records.whole[name], coded.labels) for name, coded in records.coded.items()}
    refuse_violating_whole(records.name, len(records), hopeless_at_once(parts, method.leaves_out), sensitive)
    columns = tuple(records.columns[name] for name in records.schema.names if name in records.columns)
    if method.boundaries == "ignored":
        columns = tuple(replace(column, boundary=None) for column in columns)
    task = Prepared(records, parts, columns)
    if any(column.boundary is not None for column in columns):
        # A part of a violating group may be saved, unless no part of it satisfies.
        judged = [part for part in parts if part.hereditary] if method.boundaries == "parts" else parts
        left = reachable(records, judged, columns, whole_columns=method.boundaries == "columns")
        if not len(left):
            raise RequirementUnreachable(
                f"{records.name}: {Conjunction(parts)} cannot be reached within max_generalization and max_width: "
                "every record is in a group that violates even at them; allow more, or ask for less",
                violated=tuple(map(str, parts)),
            )
        task = Prepared(left, parts, columns, None if left is records else left.chunks)
    return task.held() if isinstance(of, Table) else task


def parts_for(schema: Schema, requirement: Requirement, method: TableMethod) -> tuple[GroupRequirement, ...]:
    """Return the parts of a requirement that no other covers; refuse what the method cannot do with any records."""
    parts = without_redundant(requirement.parts)
    sensitive = {part.sensitive for part in parts}
    for part in parts:  # a class or sensitive attribute is published as it is, and cannot be generalised
        for name in part.qid:
            if name == method.target or name in sensitive:
                kind = "class" if name == method.target else "sensitive"
                raise ParameterError(f"{kind} attribute {name}: it is inside the QID of {part}; take it out of the QID")
    insist(method.refusals(parts, schema))
    for name in requirement.qid_attributes:
        schema[name]  # an unknown name is an error that lists the known ones
    return parts


def hopeless_at_once(parts: Iterable[GroupRequirement], leaves_out: bool) -> tuple[GroupRequirement, ...]:
    """Return those parts that no release can satisfy if all records in one group violate them.

    Of a method that leaves out groups that violate, these are the parts that no group of fewer records satisfies.
    """
    return tuple(part for part in parts if part.hereditary or not leaves_out)


def different_qids(parts: Sequence[GroupRequirement]) -> Iterator[str]:
    """Yield a complaint for each requirement whose QID differs from that of the first."""
    for other in parts[1:]:
        if set(other.qid) != set(parts[0].qid):
            yield (
                f"all requirements must be over the same QID; {parts[0].model} is over {', '.join(parts[0].qid)}, "
                f"and {other.model} over {', '.join(other.qid)}"
            )


def refuse_violating_whole(
    source: str, n: int, parts: Sequence[GroupRequirement], sensitive: Mapping[str, tuple[Counts, tuple[str, ...]]]
) -> None:
    """Raise `RequirementUnreachable` where n records in one group, with these histograms and labels, violate.

    Then every release does; for a requirement that is not monotone, every one that is made by cutting that group.
    """
    if n == 0:
        raise RequirementUnreachable(f"{source}: no records are left to release")
    problems, violated = [], []
    everybody: tuple[Counts, tuple[str, ...]] = (np.array([[n]], np.int64), ())
    for part in parts:
        histogram, names = everybody if part.sensitive is None else sensitive[part.sensitive]
        if not part.holds(histogram, histogram, names)[0]:
            figure = float(part.figures(histogram, histogram, names)[0])
            whole = f"the group of all records {part.complaint(figure, n)}"
            violated.append(str(part))
            why = f"cannot be reached: even {whole}" if part.monotone else f"cannot be reached by cutting: {whole}"
            problems.append(f"{source}: {part} {why}")
    if problems:
        raise RequirementUnreachable(*problems, violated=tuple(violated))


# --- boundaries -------------------------------------------------------------------------------------------
# Where methods start that keep to boundaries: every value at its maximal allowed generalisation, and no further.
#
# That table is the **maximum allowed microdata** (MAM, Definition 9 of constrained k-anonymity). Every group of a
# release within the boundaries lies in one of its groups (Property 1). So a group of it that has fewer than k records
# cannot be released at all, and together these are OUT, which is exactly what must be suppressed for k-anonymity
# (Properties 4 to 6). Of the other requirements, a group of the MAM that violates is left out as a whole by the
# methods that cut groups or generalise columns: at least one part of it would violate, however it is cut. Clustering
# may save a part of it (`k_member/`), unless the requirement is hereditary: then no part satisfies.
#
# The groups of the MAM are numbered over all chunks; whether each satisfies follows from counts. Records that must
# stay out are left in their chunks, and the method gets chunks of the others.

_STAYS = "stays"  # 1 for the records that a release within the boundaries can hold
_ALL = 1 << 31  # groups; no more rows than that are numbered


def start_groups(columns: Sequence[Column], n_rows: int, *, whole_columns: bool = False) -> tuple[Counts, int]:
    """Return each row's group of the MAM over these columns, and the number of groups; without boundaries, one.

    With `whole_columns` values are generalised alike for all records, as far as their boundaries allow.
    """
    return group_rows(
        [boundary_codes(column, whole_columns=whole_columns) for column in columns if column.boundary is not None],
        n_rows,
    )


def rows_by_boundary(columns: Sequence[Column], n_rows: int) -> list[Rows]:
    """Return the rows of each group of the MAM over these columns."""
    return rows_by_label(*start_groups(columns, n_rows))


def rows_by_label(labels: Counts, n_labels: int) -> list[Rows]:
    """Return the rows of each label."""
    return np.split(rows_by_rank(labels, n_labels), np.cumsum(value_counts(labels, n_labels))[:-1])


def boundary_codes(column: Column, *, whole_columns: bool = False) -> tuple[Ints, int]:
    """Return the number of each row's most general allowed value, from left to right, and how many there are."""
    assert column.boundary is not None
    code_of_rank, size = boundary_code_of_rank(column.boundary, whole_columns=whole_columns)
    return code_of_rank.take(column.ranks), size


def boundary_code_of_rank(boundary: Boundary, *, whole_columns: bool = False) -> tuple[Ints, int]:
    """Return the number of each rank's most general allowed value, and how many there are."""
    if not whole_columns:
        return boundary.codes, max(boundary.size, 1)
    lengths = np.diff(np.append(boundary.cut, boundary.domain.size))
    return np.repeat(np.arange(boundary.cut.size), lengths), boundary.cut.size


def reachable_rows(
    parts: Sequence[GroupRequirement],
    columns: Sequence[Column],
    sensitive: Mapping[str, Coded],
    n_rows: int,
    *,
    whole_columns: bool = False,
) -> Rows:
    """Return the rows whose groups of the MAM satisfy, over the QID of every requirement.

    Records that are left out are missing in other groups and in the whole table, so all are judged again, until nobody
    has to leave. For k-anonymity over one QID nobody has to after the first round: those are OUT.
    """
    rows = np.arange(n_rows)
    starts = {
        part.qid: start_groups(
            [column for column in columns if column.name in part.qid], n_rows, whole_columns=whole_columns
        )
        for part in parts
    }
    while rows.size:
        good = np.ones(rows.size, bool)
        for part in parts:
            labels, n_groups = group_rows([(starts[part.qid][0].take(rows), starts[part.qid][1])], rows.size)
            if part.sensitive is None:
                sizes = value_counts(labels, n_groups).reshape(-1, 1)
                holds = part.holds(sizes, np.array([[rows.size]]), ())
            else:
                coded = sensitive[part.sensitive].of_rows(rows)
                holds = part.holds(coded.histograms(labels, n_groups), coded.histogram(), coded.labels)
            good &= holds[labels]
        if good.all():
            break
        rows = rows[good]
    return rows


def start_labels(table: Records, columns: Sequence[Column], label: str, *, whole_columns: bool = False) -> Counts:
    """Give each record its group at the boundaries of these columns, as array `label`; return the groups' sizes."""
    return number_groups(table, _at_boundaries(columns, whole_columns), label, _ALL)


def start_cells(table: Records, columns: Sequence[Column], label: str, sizes: Counts) -> NDArray[np.int64]:
    """Return the cells `[lo, hi)` of those groups, by column: the most general values that their records may have."""
    outcome = _at_boundaries(columns, whole_columns=False)
    sums = table.chunks.total(partial(_code_sums, outcome=outcome, label=label, n_groups=sizes.size))
    codes = {name: np.rint(total / sizes).astype(np.int64) for name, total in zip(outcome.codes, sums, strict=True)}
    cells = []
    for column in columns:
        if (boundary := column.boundary) is None:
            ends = np.repeat([[0], [max(column.domain.size, 1)]], sizes.size, axis=1).astype(np.int64)
        else:
            rank = np.empty(max(boundary.size, 1), np.int64)  # one with each code
            rank[boundary.codes] = np.arange(boundary.codes.size)
            of_group = rank.take(codes[column.name])
            ends = np.stack([boundary.lo.take(of_group), boundary.hi.take(of_group)])
        cells.append(ends)
    return np.stack(cells)


def reachable(
    table: Records, parts: Sequence[GroupRequirement], columns: Sequence[Column], *, whole_columns: bool
) -> Records:
    """Return the table of the records whose groups at the boundaries satisfy; see `reachable_rows`."""
    qids = list(dict.fromkeys(part.qid for part in parts))
    sizes = {
        qid: start_labels(
            table, [column for column in columns if column.name in qid], _label(qid), whole_columns=whole_columns
        )
        for qid in qids
    }
    table.chunks.change(partial(_everybody, like=ranks_of(columns[0].name)))
    left = len(table)
    while left:
        good = {qid: np.ones(sizes[qid].size, bool) for qid in qids}
        for part in parts:
            good[part.qid] &= _satisfying(table, part, sizes[part.qid].size, left)
        table.chunks.change(partial(_leave_groups, good={_label(qid): flags for qid, flags in good.items()}))
        before, left = left, int(table.chunks.total(_count_staying))
        if left == before:
            break
    if left in (0, len(table)):
        return table if left else replace(table, sizes=(0,) * len(table.sizes))
    chunks = table.chunks.derive(_take_staying)
    coded = {name: len(each.labels) for name, each in table.coded.items()}
    whole = chunks.total(Histograms(coded))
    return replace(
        table,
        chunks=chunks,
        sizes=tuple(chunks.each(_size)),
        whole={name: counts.reshape(1, -1) for name, counts in zip(coded, whole, strict=True)},
    )


def _label(qid: Sequence[str]) -> str:
    return f"at boundaries {' '.join(qid)}"


def _satisfying(table: Records, part: GroupRequirement, n_groups: int, left: int) -> Flags:
    """Return which groups satisfy by the records that are left; groups without any do."""
    good = np.ones(n_groups, bool)
    kernel = partial(_staying_of_chunk, label=_label(part.qid), n_groups=n_groups)
    if part.sensitive is None:
        counted = counted_keys(table.chunks, kernel, table.engine)
        good[counted.keys] = part.holds(counted.counts.reshape(-1, 1), np.array([[left]]), ())
        return good
    n_values = len(table.coded[part.sensitive].labels)
    counted = table.chunks.total(partial(kernel, codes=codes_of(part.sensitive), n_values=n_values))
    groups, values = np.divmod(counted.keys, n_values)
    there = np.flatnonzero(value_counts(groups, n_groups))
    histogram = np.zeros((there.size, n_values), np.int64)
    histogram[np.searchsorted(there, groups), values] = counted.counts
    whole = histogram.sum(axis=0, keepdims=True)
    good[there] = part.holds(histogram, whole, table.coded[part.sensitive].labels)
    return good


def _at_boundaries(columns: Sequence[Column], whole_columns: bool) -> Outcome:
    """Return the release in which every value is as general as its boundary allows."""
    released, codes = [], {}
    for column in columns:
        if column.boundary is None:
            continue
        code_of_rank, size = boundary_code_of_rank(column.boundary, whole_columns=whole_columns)
        nothing = np.zeros(size, np.int64)
        released.append(Generalised(column.name, np.empty(0, np.int32), ("",) * size, nothing, nothing, column.domain))
        codes[column.name] = ReleasedCodes(ranks_of(column.name), code_of_rank)
    return Outcome(tuple(released), codes=codes)


def _everybody(chunk: Chunk, *, like: str) -> Arrays:
    return {_STAYS: np.ones(chunk[like].size, np.uint8)}


def _code_sums(chunk: Chunk, *, outcome: Outcome, label: str, n_groups: int) -> tuple[NDArray[np.float64], ...]:
    """Add up the boundary codes of each group's records: all are the same, so the mean is the code."""
    labels = chunk[label]
    return tuple(weighted_counts(labels, codes(chunk), n_groups) for codes in outcome.codes.values())


def _staying_of_chunk(
    chunk: Chunk, *, label: str, n_groups: int, codes: str | None = None, n_values: int = 1
) -> SparseCounts:
    """Count the records that are left, by group and if asked by sensitive value."""
    rows = np.flatnonzero(chunk[_STAYS])
    keys = chunk[label].take(rows).astype(np.int64)
    if codes is not None:
        keys = keys * n_values + chunk[codes].take(rows)
    return SparseCounts.of(keys, n_groups * n_values)


def _leave_groups(chunk: Chunk, *, good: dict[str, Flags]) -> Arrays:
    """Take note of the records whose groups violate."""
    stays = chunk[_STAYS].astype(bool)
    for label, flags in good.items():
        stays &= flags.take(chunk[label])
    return {_STAYS: stays.astype(np.uint8)}


def _count_staying(chunk: Chunk) -> int:
    return int(np.count_nonzero(chunk[_STAYS]))


def _take_staying(chunk: Chunk) -> Arrays:
    rows = np.flatnonzero(chunk[_STAYS])
    n_rows = chunk[_STAYS].size
    taken = {name: chunk[name].take(rows) for name in chunk if chunk[name].size == n_rows}
    if KEPT not in taken:
        taken[KEPT] = rows.astype(np.int32)
    return taken


def _size(chunk: Chunk) -> int:
    return int(chunk[_STAYS].size)
