"""The outline of a taxonomy file: which name is under which, and on which line.

Every format is read as paths from a leaf to the root; here the paths become one tree, or a list of problems.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from masquerade.data.taxonomy import Branch
from masquerade.errors import Problem, TaxonomyError, shown

MAX_LEVELS = 100  # deeper than any real taxonomy; a file beyond it is a mistake
_MAX_PROBLEMS = 20
_MARKED = re.compile(r"\*\s*([^*\s](?:[^*]*[^*\s])?)\s*\*")


@dataclass(frozen=True)
class Place:
    """A name in a file, and its line."""

    name: str
    line: int

    def __str__(self) -> str:
        return f"{shown(self.name)} (line {self.line})"


Path = Sequence[Place]  # from a leaf to the root


@dataclass(frozen=True)
class Outline:
    """A valid tree of names: each but the root has exactly one parent."""

    root: str
    children: Mapping[str, Sequence[str]]  # of inner nodes, in the order of the file
    lines: Mapping[str, int]  # the first line of each name
    marked: Sequence[
        str
    ] = ()  # as maximal allowed generalisations: *name*, as "Constrained k-Anonymity" draws them

    @property
    def leaves(self) -> tuple[str, ...]:
        """The names without children, in the order of the file."""
        return tuple(name for name in self.lines if name not in self.children)

    def place(self, name: str) -> Place:
        """Return a name with its line."""
        return Place(name, self.lines[name])

    def branch(self) -> Branch:
        """Convert the outline into nested branches."""

        def grow(name: str) -> Branch:  # at most MAX_LEVELS deep
            return Branch(name, tuple(grow(child) for child in self.children.get(name, ())))

        return grow(self.root)


def refuse(source: str, problems: Sequence[Problem]) -> None:
    """Raise one error with all problems of a file, if there are any."""
    if not problems:
        return
    shown_first = list(problems[:_MAX_PROBLEMS])
    if len(problems) > _MAX_PROBLEMS:
        shown_first.append(Problem(f"{len(problems) - _MAX_PROBLEMS} more problems like these"))
    raise TaxonomyError(*(problem.at(source=source) for problem in shown_first))


def outline(paths: Iterable[Path], source: str, known_problems: Sequence[Problem] = ()) -> Outline:
    """Build the tree that the paths describe; repeated paths are harmless.

    Raise one error with all problems, those that the file's reader already found first.
    """
    parents: dict[str, Place] = {}
    roots: dict[str, Place] = {}
    leaves: dict[str, Place] = {}
    inner: dict[str, Place] = {}
    children: dict[str, dict[str, None]] = {}
    problems = dict.fromkeys(known_problems)  # in order, each once
    marked: dict[str, None] = {}
    for path in paths:
        path = _without_padding([_unmarked(place, marked) for place in path])
        if len(path) > MAX_LEVELS:
            text = f"{len(path)} levels; allowed are at most {MAX_LEVELS}"
            problems[Problem(text, line=path[0].line)] = None
            continue
        if problem := _repetition(path):
            problems[problem] = None
            continue
        leaves.setdefault(path[0].name, path[0])
        roots.setdefault(path[-1].name, path[-1])
        for child, parent in pairwise(path):
            inner.setdefault(parent.name, parent)
            known = parents.setdefault(child.name, Place(parent.name, child.line))
            if known.name != parent.name:
                both = f"{known} and {Place(parent.name, child.line)}"
                problems[Problem(f"{shown(child.name)} stands under two parents: {both}")] = None
            else:
                children.setdefault(parent.name, {})[child.name] = None
    for name in leaves:
        if name in inner:
            text = f"{leaves[name]} is a leaf, and {inner[name]} an inner node; it can be one of them"
            problems[Problem(text)] = None
    for cycle in _cycles(parents):
        text = f"{shown(cycle[0])} is its own ancestor: {' under '.join(map(shown, cycle))}"
        problems[Problem(text)] = None
    if problem := _several_roots(list(roots.values())):
        problems[problem] = None
    if not problems and not roots:
        problems[Problem("the file is empty; expected is one row a leaf: leaf;parent;…;root")] = None
    refuse(source, list(problems))
    lines = {place.name: place.line for places in (leaves, inner) for place in places.values()}
    below = {name: tuple(names) for name, names in children.items()}
    return Outline(next(iter(roots)), below, lines, tuple(marked))


def _unmarked(place: Place, marked: dict[str, None]) -> Place:
    """Return a name without the asterisks around it, which mark it; one that holds more of them is a name as it is."""
    found = _MARKED.fullmatch(place.name)
    if found is None:
        return place
    marked[found[1]] = None
    return Place(found[1], place.line)


def _without_padding(path: Path) -> Path:
    """Merge repeated names, with which short branches are padded (`Other;Other;*`), into one node."""
    return [place for at, place in enumerate(path) if at == 0 or place.name != path[at - 1].name]


def _repetition(path: Path) -> Problem | None:
    seen: dict[str, Place] = {}
    for place in path:
        if place.name in seen:
            text = f"{shown(place.name)} is its own ancestor: it stands in one path twice"
            return Problem(text, line=seen[place.name].line)
        seen[place.name] = place
    return None


def _cycles(parents: Mapping[str, Place]) -> list[list[str]]:
    """Find each cycle of names, in which every name is a child of the next."""
    cycles: list[list[str]] = []
    settled: set[str] = set()
    for start in parents:
        trail: dict[str, None] = {}
        name = start
        while name in parents and name not in settled and name not in trail:
            trail[name] = None
            name = parents[name].name
        if name in trail:
            circle = list(trail)
            circle = circle[circle.index(name) :]
            cycles.append([*circle, name])
        settled.update(trail)
    return cycles


def _several_roots(roots: Sequence[Place]) -> Problem | None:
    if len(roots) < 2:
        return None
    first, others = roots[0], roots[1:]
    named = ", ".join(map(str, others[:4])) + (f" and {len(others) - 4} more" if len(others) > 4 else "")
    count = "two" if len(roots) == 2 else str(len(roots))
    return Problem(f"{count} roots: {first} and {named}; all paths must end in one root")
