"""Taxonomies over numbers and dates: fixed intervals, or the numbers themselves as leaves.

Leaves that are intervals `[lo, hi)` must be contiguous, without gap or overlap, and a node covers a run of
them; the tree is ordered by lower ends, regardless of the order of the file. Leaves that are numbers (ARX's file
of ages) are values like any other, in the order of the file. Names that are intervals or leaves are written
as a release writes them, so that `[0,10.0)` and `[0, 10)` are one name.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise

from masquerade.data.continuum import Kind, Number, read_interval, read_number, write_interval, write_number
from masquerade.data.taxonomy import Branch, Taxonomy
from masquerade.data.taxonomy_files import Outline, Place, refuse
from masquerade.errors import Problem, shown

Interval = tuple[Number, Number]


def interval_taxonomy(tree: Outline, kind: Kind, source: str) -> Taxonomy:
    """Build the taxonomy of fixed intervals, or of numbers, that the tree describes."""
    intervals = {leaf: ends for leaf in tree.leaves if (ends := read_interval(leaf, kind)) is not None}
    numbers = {leaf: number for leaf in tree.leaves if (number := _number(leaf, kind)) is not None}
    refuse(source, _strange_leaves(tree, intervals, numbers, kind))
    if numbers:
        return _of_numbers(tree, numbers, kind, source)
    return _of_intervals(tree, intervals, kind, source)


def _number(text: str, kind: Kind) -> Number | None:
    try:
        number = read_number(text, kind)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _strange_leaves(
    tree: Outline, intervals: dict[str, Interval], numbers: dict[str, Number], kind: Kind
) -> list[Problem]:
    one, example = ("a date", "[1980-01-01, 1990-01-01)") if kind == "date" else ("a number", "[0, 10)")
    strange = [leaf for leaf in tree.leaves if leaf not in intervals and leaf not in numbers]
    if strange:
        return [
            Problem(
                f"leaf {shown(leaf)} is neither an interval such as {example} nor {one}",
                line=tree.lines[leaf],
            )
            for leaf in strange
        ]
    if intervals and numbers:
        interval, number = tree.place(next(iter(intervals))), tree.place(next(iter(numbers)))
        both = f"the leaf {interval} is an interval and {number} is {one}"
        return [Problem(f"{both}; leaves must be all of one kind")]
    return []


def _of_numbers(tree: Outline, numbers: dict[str, Number], kind: Kind, source: str) -> Taxonomy:
    problems = []
    first: dict[Number, str] = {}
    for leaf, number in numbers.items():
        if first.setdefault(number, leaf) != leaf:
            problems.append(Problem(f"{tree.place(first[number])} and {tree.place(leaf)} are the same leaf"))
    names = {leaf: write_number(number, kind) for leaf, number in numbers.items()}
    written = {name: leaf for leaf, name in names.items()}
    for inner in tree.children:
        if inner in written:
            problems.append(
                Problem(f"{tree.place(inner)} and the leaf {tree.place(written[inner])} have one name")
            )
    refuse(source, problems)
    allowed = tuple(names.get(name, name) for name in tree.marked)
    return Taxonomy(_renamed(tree.branch(), names), source, allowed=allowed)


def _renamed(branch: Branch, names: dict[str, str]) -> Branch:
    children = tuple(_renamed(child, names) for child in branch.children)
    return Branch(names.get(branch.name, branch.name), children)


def _of_intervals(tree: Outline, leaves: dict[str, Interval], kind: Kind, source: str) -> Taxonomy:
    ordered = sorted(leaves, key=lambda leaf: leaves[leaf])
    problems = _misfits(tree, leaves, ordered)
    refuse(source, problems)

    def grow(name: str) -> tuple[Branch, Interval]:  # at most MAX_LEVELS deep
        if name in leaves:
            return Branch(_written(name, kind)), leaves[name]
        sound = len(problems)
        below = sorted((grow(child) for child in tree.children[name]), key=lambda each: each[1])
        ends = (below[0][1][0], below[-1][1][1])
        for (left, (_, left_end)), (right, (right_start, _)) in pairwise(below):
            if left_end != right_start and len(problems) == sound:  # else the error is further down
                both = f"{shown(left.name)} and {shown(right.name)}"
                text = f"{tree.place(name)} covers {both}, but not what is between them"
                problems.append(Problem(f"{text}; a node must cover one run of intervals"))
        stated = read_interval(name, kind)
        if stated is not None and stated != ends:
            union = write_interval(*ends, kind)
            problems.append(Problem(f"{tree.place(name)} is not the union of its children, which is {union}"))
        return Branch(_written(name, kind), tuple(branch for branch, _ in below)), ends

    root, _ = grow(tree.root)
    refuse(source, problems)
    edges = (*(leaves[leaf][0] for leaf in ordered), leaves[ordered[-1]][1])
    return Taxonomy(root, source, edges, tuple(_written(name, kind) for name in tree.marked))


def _written(name: str, kind: Kind) -> str:
    """Return a name as a release writes it."""
    ends = read_interval(name, kind)
    return name if ends is None else write_interval(*ends, kind)


def _misfits(tree: Outline, leaves: dict[str, Interval], ordered: Iterable[str]) -> list[Problem]:
    """Report neighbouring intervals that overlap or leave a gap."""
    problems = []
    farthest: tuple[Number, Place] | None = None
    for leaf in ordered:
        lo, hi = leaves[leaf]
        here = tree.place(leaf)
        if farthest is not None and lo < farthest[0]:
            problems.append(Problem(f"the intervals {farthest[1]} and {here} overlap"))
        elif farthest is not None and lo > farthest[0]:
            problems.append(Problem(f"there is a gap between the intervals {farthest[1]} and {here}"))
        if farthest is None or hi > farthest[0]:
            farthest = (hi, here)
    return problems
