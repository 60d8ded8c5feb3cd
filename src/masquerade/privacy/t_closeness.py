"""t-closeness: the sensitive values of each group are distributed almost as in the whole table.

Monotone under specialization: a union's distribution is a weighted mean of its parts', and all three distances are
convex.

All three are sums of absolute differences with public weights: over values, over prefixes of their order, over the
edges of their tree. The circuit on shared counts is for the first two: the edges of a tree tell which values occur.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from masquerade.data import MISSING_VALUES, ProductColumn, Taxonomy, outline_of_rows
from masquerade.engine import Counts
from masquerade.errors import ParameterError, TaxonomyError, hint, shown
from masquerade.forms import Rule, choice, number, optional, parameter, parameter_error
from masquerade.privacy.confidence_bounding import largest_within
from masquerade.privacy.m_privacy.constraint import CornerConstraint, largest_contributors, least_left
from masquerade.privacy.m_privacy.search import MPrivacyOutcome
from masquerade.privacy.requirement import (
    GIVEN_ONCE,
    TOLERANCE,
    CircuitCounts,
    GroupRequirement,
    SharedRow,
    beside,
    limit,
    qid,
    requirement,
    sensitive,
    settled,
)

if TYPE_CHECKING:
    from masquerade.crypto import Builder, Circuit, Literal as Bit
    from masquerade.privacy.sql import GroupTest, SqlWords

# --- value tree ---------------------------------------------------------------------------------------------
# The tree of a sensitive attribute's values, by which some are nearer to each other than others.
#
# It is a parameter of a requirement, so that whoever holds the requirement can check it: as rows
# `leaf;parent;…;root`, which a contract can hold. Rows are sorted, because the order of leaves makes no
# difference.
#
# Li, Li and Venkatasubramanian (2007): two values are as far apart as their lowest common ancestor is high,
# beside the height of the tree. That is the length of the path between them when every edge is as long as
# its ends differ in height, over twice the height of the tree. On a tree the earth mover carries what a
# subtree has too much over the edge above it, so the distance of two distributions is a sum over edges, of
# length times surplus. The sum is the paper's.

Rows = tuple[str, ...]

_LISTED = 10  # values that an error names


def taxonomy(help: str) -> Any:
    """Declare the tree of the sensitive values; in a job file it is the attribute's taxonomy."""
    schema = {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1}
    return parameter(
        optional(Rule('a taxonomy: a list of rows "leaf;parent;…;root"', _checked, schema)), None, help=help
    )


def rows_of(tree: Taxonomy) -> Rows:
    """Write a taxonomy as sorted rows."""
    return tuple(sorted(_row(tree, leaf) for leaf in tree.leaves))


def edges_above(rows: Rows, labels: Sequence[str], name: str) -> NDArray[np.float64]:
    """A row a label and a column an edge that leads to some of them: its length where it leads to this one, else 0.

    A missing cell hangs on the root. ParameterError tells which labels of the attribute are no leaf of the tree.
    """
    tree = _tree(rows)
    unknown = [label for label in labels if label not in tree.rank and label not in MISSING_VALUES]
    if unknown:
        more = f" and {len(unknown) - _LISTED} more" if len(unknown) > _LISTED else ""
        named = ", ".join(map(shown, unknown[:_LISTED])) + more
        text = f"the taxonomy of {name} lacks {named}{hint(unknown[0], tree.rank)}"
        raise ParameterError(text)
    return _edges(rows, tuple(labels))


def edges_by_path(rows: Rows) -> tuple[list[tuple[str, int, int]], int]:
    """The leaves below each edge with its number and length, from the rows alone; the unit is what counts as 1.

    It is for the check in SQL, which shares nothing with the other.
    """
    paths = [tuple(next(csv.reader([row], delimiter=";"))) for row in rows]
    heights: dict[tuple[str, ...], int] = {}
    for path in paths:
        for at in range(len(path)):
            heights[path[at:]] = max(heights.get(path[at:], 0), at)
    number = {node: at for at, node in enumerate(heights)}
    height = max(heights.values())
    edges = [
        (path[0], number[path[at:]], heights[path[at + 1 :]] - heights[path[at:]])
        for path in paths
        for at in range(len(path) - 1)
    ]
    leaves = {path[0] for path in paths}
    absent = [value for value in ("", "?") if value not in leaves]
    edges += [(value, len(number) + at, max(height, 1)) for at, value in enumerate(absent)]
    return edges, 2 * max(height, 1)


@lru_cache(maxsize=64)
def _edges(rows: Rows, labels: tuple[str, ...]) -> NDArray[np.float64]:
    tree = _tree(rows)
    height = max(tree.height, 1)
    lengths = [
        (node.lo, node.hi, (tree.nodes[node.parent].height - node.height) / (2 * height)) for node in tree.nodes[1:]
    ]
    places = [tree.rank.get(label, -1) for label in labels]
    columns = [[length * (lo <= at < hi) for at in places] for lo, hi, length in lengths]
    columns += [[0.5 * (other == at) for other in range(len(labels))] for at, place in enumerate(places) if place < 0]
    used = [column for column in columns if any(column)]
    return np.array(used, float).reshape(len(used), len(labels)).T


@lru_cache(maxsize=64)
def _tree(rows: Rows) -> Taxonomy:
    return Taxonomy(outline_of_rows("\n".join(rows), "taxonomy").branch())


def _checked(value: Any) -> Rows:
    if isinstance(value, Taxonomy):
        return rows_of(value)
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValueError
    rows = tuple(value)
    if not rows or not all(isinstance(row, str) and row for row in rows):
        raise ValueError
    try:
        return rows_of(_tree(rows))
    except TaxonomyError as error:
        raise ValueError(f"a taxonomy ({error.problems[0]})") from None


def _row(tree: Taxonomy, leaf: str) -> str:
    path, at = [leaf], tree.find(leaf).parent
    while at >= 0:
        path.append(tree.nodes[at].name)
        at = tree.nodes[at].parent
    written = io.StringIO()
    csv.writer(written, delimiter=";", lineterminator="").writerow(path)
    return written.getvalue()


# --- t closeness --------------------------------------------------------------------------------------------

_MOST_SETS = 1 << 16  # of values; beyond, providers are searched
_AT_A_TIME = 1 << 12  # sets
_ROUNDING = 1e-15  # more than it can change a distance by, for each value


class MostDistance(CornerConstraint):
    """A distance of at most t, against coalitions.

    The distance is the largest of many linear functions, one for each set of values or pattern of signs. For each, the
    coalition that leaves the fewest of the records that speak against it is worst. Where these are too many, providers
    are searched.
    """

    part: TCloseness
    both_ends = True

    def corner_order(self, rest: Counts, total: Counts) -> NDArray[np.intp]:
        """The values in their order, or else those first that can be the most frequent beside the whole table."""
        if self.part.distance == "ordered":
            return np.broadcast_to(np.arange(total.size), rest.shape)
        return np.argsort(-(total / np.maximum(self.whole, 1e-9) + 0 * rest), axis=1)

    def bound_holds(self, low: Counts, high: Counts) -> NDArray[np.bool_]:
        """Where an upper bound of the distance is small enough."""
        edges = self._edges
        if edges is None:
            return _distance_bound(low, high, self.whole, self.part.distance == "ordered") <= self.part.t
        return _bound_on_tree(low, high, self.whole, edges) <= self.part.t

    @cached_property
    def _edges(self) -> NDArray[np.float64] | None:
        """The edges of the values' tree, none above values that no record has; None without a tree."""
        if self.part.distance != "hierarchical":
            return None
        occurring = np.flatnonzero(self.whole[0])
        found = self.part.edges([self.labels[at] for at in occurring.tolist()])
        edges = np.zeros((self.whole.shape[1], found.shape[1]))
        edges[occurring] = found
        return edges

    def worst_coalition(self, matrix: Counts, power: int) -> MPrivacyOutcome:
        """One candidate for each linear function."""
        t, whole = self.part.t + TOLERANCE, self.whole[0]
        if self.part.distance == "ordered":
            occurring = whole > 0
            if 1 << (np.count_nonzero(occurring) - 1) <= _MOST_SETS:
                shares = whole[occurring] / whole[occurring].sum()
                return _worst_signs(matrix[:, occurring], shares, _steps(shares.size), t, power)
        elif (edges := self._edges) is not None:
            if 1 << edges.shape[1] <= _MOST_SETS:
                return _worst_signs(matrix, whole / whole.sum(), edges, t, power)
        else:
            present = np.flatnonzero(matrix.any(axis=0))
            if 1 << present.size <= _MOST_SETS:
                return _worst_set(matrix[:, present], whole[present] / whole.sum(), t, power)
        return super().worst_coalition(matrix, power)


@requirement
class TCloseness(GroupRequirement):
    """Groups whose sensitive values are at most t away from the whole table's.

    The distance is the earth mover's: "equal" when any two values are as far from each other as any other
    two; "ordered" when values are as far as their ranks among the table's values (numbers in their order,
    text in its); "hierarchical" when they are as far as their lowest common ancestor in `taxonomy` is high.
    Neither of the two is ever larger than "equal".
    """

    model: ClassVar[str] = "t-closeness"
    promise = "sensitive values distributed as in the whole table, up to t"
    figure_meaning = "largest distance of a group from the whole table"
    worst = "largest"
    compares_with_whole = True
    constraint = MostDistance

    qid: Sequence[str] = qid()
    t: float = limit(
        number(0, 1), stricter="smaller", symbol="t", example=0.3, help="the distance from the whole table, at most"
    )
    sensitive: str = sensitive(default=GIVEN_ONCE)
    distance: Literal["equal", "ordered", "hierarchical"] = parameter(
        choice("equal", "ordered", "hierarchical"),
        default="equal",
        help="how far values are from each other: all alike, by their order, or by their taxonomy",
    )
    taxonomy: Sequence[str] | None = taxonomy(
        'the tree of the sensitive values, for distance = "hierarchical"; in a job file the attribute\'s own'
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.distance == "hierarchical":
            if isinstance(self.sensitive, ProductColumn):
                raise parameter_error(self, "distance", '"equal" for several sensitive attributes', self.distance)
            if self.taxonomy is None:
                allowed = f'a taxonomy of {self.sensitive} for distance = "hierarchical"'
                raise parameter_error(self, "taxonomy", allowed, None)
        elif self.taxonomy is not None:
            raise parameter_error(self, "distance", '"hierarchical" where a taxonomy is given', self.distance)

    @classmethod
    def needs_taxonomy(cls, given: Mapping[str, Any]) -> bool:
        """For the hierarchical distance alone."""
        return given.get("distance") == "hierarchical"

    def bind(self, labels: Sequence[str]) -> None:
        """Refuse a table with values that are not in the taxonomy."""
        if self.distance == "hierarchical":
            self.edges(labels)

    def edges(self, labels: Sequence[str]) -> NDArray[np.float64]:
        """The edges of the taxonomy above these values; see `edges_above`."""
        assert self.taxonomy is not None  # __post_init__ has refused it otherwise
        return edges_above(tuple(self.taxonomy), labels, self.sensitive)

    @property
    def limit(self) -> float:
        """t."""
        return self.t

    @property
    def has_circuit(self) -> bool:
        """But for the hierarchical distance, whose circuit would show which values occur."""
        return self.declares("circuit") and self.distance != "hierarchical"

    def circuit(self, row: SharedRow) -> Circuit:
        """The distance in whole numbers: N·n times as large."""
        from masquerade.crypto import row_close

        scale = max(row.n_values - 1, 1) if self.distance == "ordered" else 1
        most = largest_within(self._exact_bound * row.n_records * scale, row.n_records)
        return row_close(row.n_values, row.width, most, row.n_records, ordered=self.distance == "ordered")

    @property
    def has_shared_test(self) -> bool:
        """For the equal distance: providers that know each other's values only as text do not know their order."""
        return self.distance == "equal"

    def shared_test(self, build: Builder, counts: CircuitCounts) -> Bit:
        """The same, in a shallow circuit; the whole table's size is secret, too."""
        from masquerade.crypto import close, words

        most = largest_within(self._exact_bound, counts.most_records**2)
        size = words.total(build, counts.whole, shallow=True)
        return close(build, counts.cells, counts.whole, most, size, ordered=False, scaled=True, shallow=True)

    @property
    def _exact_bound(self) -> Fraction:
        return Fraction(self.t) + Fraction(TOLERANCE)

    def figures(self, histogram: Counts, whole: Counts, labels: Sequence[str] = ()) -> NDArray[np.float64]:
        """Each group's distance from the whole table."""
        occurring = whole[0] > 0
        if not occurring.all():
            histogram, whole = histogram[:, occurring], whole[:, occurring]
            labels = [label for label, there in zip(labels, occurring, strict=False) if there]
        # One array of the histogram's size is all the room it takes.
        difference: NDArray[np.float64] = histogram / histogram.sum(axis=1, keepdims=True)
        difference -= whole / whole.sum()
        if self.distance == "hierarchical":
            on_edges: NDArray[np.float64] = np.abs(difference @ self.edges(labels)).sum(axis=1)
            return on_edges
        if self.distance == "ordered":
            np.cumsum(difference, axis=1, out=difference)
        np.abs(difference, out=difference)
        total: NDArray[np.float64] = difference.sum(axis=1)
        return total / (max(whole.shape[1] - 1, 1) if self.distance == "ordered" else 2)

    def holds(self, histogram: Counts, whole: Counts, labels: Sequence[str] = ()) -> NDArray[np.bool_]:
        """At most t away, in fractions where it is close."""
        figures = self.figures(histogram, whole, labels)
        if self.distance == "hierarchical":
            return self.allows(figures)
        rounding = _ROUNDING * (whole.shape[1] + 1)

        def near(group: int) -> bool:
            return self._exact_distance(histogram[group].tolist(), whole[0].tolist()) <= self._exact_bound

        return settled(self.allows(figures), np.abs(figures - self.t - TOLERANCE) <= rounding, near)

    def _exact_distance(self, here: list[int], there: list[int]) -> Fraction:
        n, size = sum(here), sum(there)
        away = [Fraction(h, n) - Fraction(w, size) for h, w in zip(here, there, strict=True) if w]
        if self.distance == "ordered":
            return sum(map(abs, accumulate(away)), Fraction()) / max(len(away) - 1, 1)
        return sum(map(abs, away), Fraction()) / 2

    def allows(self, figures: NDArray[Any]) -> NDArray[np.bool_]:
        """At most t away."""
        return figures <= self.t + TOLERANCE

    def sql(self, words: SqlWords) -> GroupTest:
        """A larger distance: what the group has too much, or what the edges of a tree, or of the order, carry."""
        qid = words.qid
        sized = f"sized AS (\n     SELECT *, sum(records) OVER (PARTITION BY {qid}) AS size FROM counts)"
        if self.distance == "equal":
            relation = (
                f"(WITH {sized}\n"
                f"   SELECT * FROM sized JOIN (\n"
                f"     SELECT v, sum(records) AS of_all, sum(sum(records)) OVER () AS total\n"
                f"     FROM counts GROUP BY v) USING (v))"
            )
            moved, all_ = "sum(greatest(records * total - of_all * size, 0))", "(max(size) * max(total))"
        else:
            edges, unit = self._sql_edges(words)
            relation = (
                f"(WITH {sized},\n"
                f"   whole AS (SELECT v, sum(records) AS of_all FROM counts GROUP BY v),\n"
                f"   {edges},\n"
                f"   carried AS (\n"
                f"     SELECT edge, length, sum(of_all) AS of_all\n"
                f"     FROM edges JOIN whole USING (v) GROUP BY edge, length),\n"
                f"   totals AS (\n"
                f"     SELECT (SELECT sum(of_all) FROM whole) AS total, {unit} AS unit,\n"
                f"       (SELECT coalesce(sum(of_all * length), 0) FROM carried) AS everywhere)\n"
                f"   SELECT {qid}, coalesce(length, 0) AS length, sum(records) AS records, max(size) AS size,\n"
                f"     coalesce(max(of_all), 0) AS of_all, max(total) AS total, max(unit) AS unit,\n"
                f"     max(everywhere) AS everywhere\n"
                f"   FROM sized LEFT JOIN edges USING (v) LEFT JOIN carried USING (edge, length) CROSS JOIN totals\n"
                f"   GROUP BY {qid}, edge, length)"
            )
            moved = (
                "(sum(abs(records * total - of_all * size) * length)"
                " + max(size) * (max(everywhere) - sum(of_all * length)))"
            )
            all_ = "(max(size) * max(total) * max(unit))"
        return words.test(f"{moved} / {all_}", f"NOT ({words.at_most(moved, all_, self.t)})", relation)

    def _sql_edges(self, words: SqlWords) -> tuple[str, str]:
        """Return the relation of the values below each edge, with its length, and how long a way counts as 1."""
        if self.distance == "hierarchical":
            assert self.taxonomy is not None  # __post_init__ has refused it otherwise
            edges, unit = edges_by_path(tuple(self.taxonomy))
            rows = ", ".join(f"({words.text(value)}, {edge}, {length})" for value, edge, length in edges)
            return f"edges(v, edge, length) AS (VALUES {rows})", f"{unit}"
        columns, order = words.order(self.sensitive)
        places = (
            f"places AS (\n     SELECT v, row_number() OVER (ORDER BY {order}) AS place\n"
            f"     FROM (SELECT v, {columns} FROM whole))"
        )
        last = "(SELECT max(place) FROM places)"
        edges_ = (
            f"edges AS (\n     SELECT here.v, there.place AS edge, 1 AS length\n"
            f"     FROM places AS here JOIN places AS there ON here.place <= there.place\n"
            f"     WHERE there.place < {last})"
        )
        return f"{places},\n   {edges_}", f"greatest({last} - 1, 1)"

    def complaint(self, figure: float, size: int) -> str:
        """Its distance, and the largest allowed."""
        shown = beside(figure, self.t)
        return (
            f"has values of {self.sensitive} at a distance of {shown} from the whole table's; "
            f"at most {self.t} is allowed"
        )

    def as_strict_as(self, other: GroupRequirement) -> bool:
        """A smaller t implies a larger one; the equal distance is never below another one."""
        if not isinstance(other, TCloseness) or self.t > other.t:
            return False
        return self.distance == "equal" or (self.distance, self.taxonomy) == (other.distance, other.taxonomy)


def _distance_bound(low: Counts, high: Counts, whole: Counts, ordered: bool) -> NDArray[np.float64]:
    """An upper bound of the distance from the whole table: every share by itself as far from its own as it can be."""
    there = whole / whole.sum()
    if ordered:
        low, high = np.cumsum(low, axis=1), np.cumsum(high, axis=1)
        least, most, there = low, high, np.cumsum(there, axis=1)
        sum_low, sum_high = low[:, -1:], high[:, -1:]
    else:
        least, most = low, high
        sum_low, sum_high = low.sum(axis=1, keepdims=True), high.sum(axis=1, keepdims=True)
    smallest = least / np.maximum(least + sum_high - high, 1)
    largest = most / np.maximum(most + sum_low - low, 1)
    if ordered:
        further: NDArray[np.float64] = np.maximum(largest - there, there - smallest).sum(axis=1)
        return further / max(int(np.count_nonzero(whole)) - 1, 1)
    above = np.maximum(largest - there, 0).sum(axis=1)
    below = np.maximum(there - smallest, 0).sum(axis=1)
    bound: NDArray[np.float64] = np.minimum(above, below)
    return bound


def _bound_on_tree(low: Counts, high: Counts, whole: Counts, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same on a tree: what every edge carries is by itself as much as it can be; the equal distance is no less."""
    below = (edges > 0).astype(float)
    least, most, there = low @ below, high @ below, (whole / whole.sum()) @ below
    smallest = least / np.maximum(least + high.sum(axis=1, keepdims=True) - most, 1)
    largest = most / np.maximum(most + low.sum(axis=1, keepdims=True) - least, 1)
    carried: NDArray[np.float64] = np.maximum(largest - there, there - smallest) @ edges.max(axis=0, initial=0)
    return np.minimum(carried, _distance_bound(low, high, whole, ordered=False))


def _worst_set(matrix: Counts, shares: NDArray[np.float64], t: float, power: int) -> MPrivacyOutcome:
    """Sets A of values: the distance is the largest p(A) − q(A)."""
    total, sizes, checks = matrix.sum(axis=0), matrix.sum(axis=1, keepdims=True), 0
    for chosen in _subsets(matrix.shape[1]):
        inside = (total @ chosen).astype(float)
        outside = sizes - matrix @ chosen
        surplus = inside / np.maximum(inside + least_left(outside, power), 1) - shares @ chosen
        bad = np.flatnonzero(surplus > t)
        checks += chosen.shape[1]
        if bad.size:
            return MPrivacyOutcome(False, largest_contributors(outside[:, bad[0]], power), checks)
    return MPrivacyOutcome(True, None, checks)


def _steps(n_values: int) -> NDArray[np.float64]:
    """A row a value and a column a step between neighbours: its length where it leads over this value, else 0."""
    return np.triu(np.ones((n_values, n_values - 1))) / max(n_values - 1, 1)


def _worst_signs(
    matrix: Counts, shares: NDArray[np.float64], edges: NDArray[np.float64], t: float, power: int
) -> MPrivacyOutcome:
    """Patterns of signs: the distance is the largest Σ σₑ (p − q)·e, and (Σ wᵥ hᵥ) / (Σ hᵥ) is one with σ's weights.

    It exceeds a bound λ where Σ (wᵥ − λ) hᵥ > 0: values above have all of their records, those below the fewest.
    """
    total, checks = matrix.sum(axis=0), 0
    for chosen in _subsets(edges.shape[1]):
        weights = edges @ (2.0 * chosen - 1)
        above = weights - (t + shares @ weights)
        pull = matrix @ np.maximum(-above, 0)
        bad = np.flatnonzero(total @ np.maximum(above, 0) > least_left(pull, power))
        checks += chosen.shape[1]
        if bad.size:
            return MPrivacyOutcome(False, largest_contributors(pull[:, bad[0]], power), checks)
    return MPrivacyOutcome(True, None, checks)


def _subsets(n: int) -> Iterator[NDArray[np.int64]]:
    """All subsets of n things, as columns of 0 and 1, some at a time."""
    for first in range(0, 1 << n, _AT_A_TIME):
        numbers = np.arange(first, min(first + _AT_A_TIME, 1 << n))
        yield (numbers >> np.arange(n)[:, None]) & 1
