"""Cells beyond their boundary: counted with the original beside them, or as far as a release alone tells.

A release alone tells a violation for certain when its cell is beyond the boundary of every value that it covers. Where
one maximal allowed generalisation is above another, a cell may be allowed for some of its values and not for others:
such cells are counted apart, as possible ones. Boundaries by width follow from the original's values; without it
they are not checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from masquerade.data.boundary import Boundary, named_boundary
from masquerade.data.released_range import allowed_cells, released_range
from masquerade.data.schema import Attribute
from masquerade.data.table import Table
from masquerade.data.taxonomy import Taxonomy
from masquerade.engine.counts import value_counts
from masquerade.errors import DataError, one_line, shown
from masquerade.privacy.check import Verdict
from masquerade.privacy.requirement import plural


@dataclass(frozen=True)
class Violations:
    """The cells of a release that are beyond a boundary, by attribute."""

    certain: Mapping[str, int] = field(default_factory=dict)
    possible: Mapping[str, int] = field(
        default_factory=dict
    )  # beyond that of some value, and allowed for others
    unchecked: tuple[str, ...] = ()  # attributes whose boundaries follow from the original

    def summary(self) -> dict[str, object]:
        """The entries of a JSON summary; none where there are no boundaries."""
        if not self.certain and not self.unchecked:
            return {}
        return {
            "violations": sum(self.certain.values()),
            "possible_violations": sum(self.possible.values()),
            "unchecked_boundaries": list(self.unchecked),
        }


def violations_alone(release: Table, names: Sequence[str]) -> Violations:
    """Count the cells of these attributes that are beyond a boundary of the release's own schema."""
    certain: dict[str, int] = {}
    possible: dict[str, int] = {}
    unchecked = []
    for attribute in release.schema:
        if attribute.name not in names or not attribute.is_bounded:
            continue
        if attribute.max_width is not None:
            unchecked.append(attribute.name)
            continue
        coded = release.coded(attribute.name)
        counts = value_counts(coded.codes, len(coded.labels)).tolist()
        surely, maybe = _beyond(attribute, coded.labels, release)
        certain[attribute.name] = sum(counts[code] for code in surely)
        possible[attribute.name] = sum(counts[code] for code in maybe if code not in surely)
    return Violations(certain, possible, tuple(unchecked))


def _beyond(attribute: Attribute, labels: Sequence[str], release: Table) -> tuple[set[int], set[int]]:
    """Return the cells that are beyond the boundary of all values that they cover, and of some of them."""
    boundary = _boundary(attribute, labels)
    surely, maybe = set(), set()
    for code, label in enumerate(labels):
        covered = released_range(boundary.domain, label)
        if covered is None:
            column = release.coded(attribute.name)
            row = int((column.codes == code).argmax())
            text = (
                f"{shown(label)} is no value of the attribute; allowed are {allowed_cells(boundary.domain)}"
            )
            raise DataError(release.problem(text, row, attribute.name))
        if boundary.possibly_exceeded(*covered):
            maybe.add(code)
            if boundary.certainly_exceeded(*covered):
                surely.add(code)
    return surely, maybe


def _boundary(attribute: Attribute, labels: Sequence[str]) -> Boundary:
    """Return an attribute's boundary; the values of a flat taxonomy are those that are named, and those that occur."""
    taxonomy = attribute.taxonomy
    if not isinstance(taxonomy, Taxonomy):
        top = Taxonomy.flat([]).root.name
        values = sorted({*labels, *attribute.max_generalization} - {top})
        taxonomy = Taxonomy.flat(values)
        if len(values) < 2:  # a single value is its own root
            return named_boundary(taxonomy, [taxonomy.nodes[0].name])
    found = attribute.boundary(taxonomy)
    assert found is not None
    return found


def with_violations(
    verdicts: Sequence[Verdict], cells: Mapping[str, int], source: str
) -> tuple[Verdict, ...]:
    """Return the verdicts, where a requirement that is about boundaries holds only without cells beyond them."""
    return tuple(_judged(verdict, cells, source) for verdict in verdicts)


def _judged(verdict: Verdict, cells: Mapping[str, int], source: str) -> Verdict:
    part = verdict.requirement
    if not part.within_boundaries:
        return verdict
    beyond = {name: cells[name] for name in part.qid if cells.get(name)}
    total = sum(beyond.values())
    if not total:
        return replace(verdict, violations=0)
    listed = ", ".join(f"{plural(count, 'cell')} of {name}" for name, count in beyond.items())
    text = verdict.violation or one_line(
        f"{source}: {part} does not hold: beyond their boundary are {listed}"
    )
    return replace(verdict, holds=False, violations=total, violation=text)
