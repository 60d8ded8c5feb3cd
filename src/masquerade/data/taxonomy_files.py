"""Taxonomy files: rows `leaf;parent;…;root` (.csv, .txt) or a nested tree (.yaml, .yml)."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from masquerade.data.boundary import boundary_problems
from masquerade.data.continuum import Kind, Number, read_interval, read_number, write_interval, write_number
from masquerade.data.encoding import SPACE
from masquerade.data.schema import Attribute, AttributeKind, Schema
from masquerade.data.taxonomy import Branch, Taxonomy
from masquerade.errors import Problem, TaxonomyError, shown

if TYPE_CHECKING:
    import yaml

# --- taxonomy outline ---------------------------------------------------------------------------------------
# The outline of a taxonomy file: which name is under which, and on which line.
#
# Every format is read as paths from a leaf to the root; here the paths become one tree, or a list of
# problems.

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


PlacePath = Sequence[Place]  # from a leaf to the root


@dataclass(frozen=True)
class Outline:
    """A valid tree of names: each but the root has exactly one parent."""

    root: str
    children: Mapping[str, Sequence[str]]  # of inner nodes, in the order of the file
    lines: Mapping[str, int]  # the first line of each name
    marked: Sequence[str] = ()  # as maximal allowed generalisations: *name*, as "Constrained k-Anonymity" draws them

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


def outline(paths: Iterable[PlacePath], source: str, known_problems: Sequence[Problem] = ()) -> Outline:
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
        path = [_unmarked(place, marked) for place in path]
        # Repeated names, with which short branches are padded (`Other;Other;*`), are one node.
        path = [place for at, place in enumerate(path) if at == 0 or place.name != path[at - 1].name]
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
    if len(roots) > 1:
        first, *others = roots.values()
        named = ", ".join(map(str, others[:4])) + (f" and {len(others) - 4} more" if len(others) > 4 else "")
        count = "two" if len(roots) == 2 else str(len(roots))
        problems[Problem(f"{count} roots: {first} and {named}; all paths must end in one root")] = None
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


def _repetition(path: PlacePath) -> Problem | None:
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


# --- taxonomy csv -------------------------------------------------------------------------------------------
# Taxonomies as rows `leaf;parent;…;root`, as ARX writes them; rows may differ in depth.


def outline_of_rows(text: str, source: str) -> Outline:
    """Build the tree that the rows describe."""
    if ";" not in text and "," in text:
        text = 'there is no ";" in it, but ","; rows are leaf;parent;…;root, separated by ";"'
        refuse(source, [Problem(text)])
    problems: list[Problem] = []
    paths: list[PlacePath] = []
    for line, cells in _rows(text, source):
        while cells and not cells[-1]:  # spreadsheets fill short rows with empty cells
            cells.pop()
        if not cells:
            problems.append(Problem("all cells are empty", line=line))
        elif "" in cells:
            before = f"cell {cells.index('') + 1} is empty, before {shown(cells[-1])}"
            problems.append(Problem(f"{before}; a short row just has fewer cells", line=line))
        else:
            paths.append([Place(cell, line) for cell in cells])
    return outline(paths, source, problems)


def _rows(text: str, source: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each non-blank row with its starting line."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=";", skipinitialspace=True, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise TaxonomyError.about(source, str(error), line=line) from None
        if row is None:
            return
        cells = [cell.strip(SPACE) for cell in row]
        if cells and cells != [""]:
            yield line, cells


# --- taxonomy files -----------------------------------------------------------------------------------------

Taxonomies = str | Path | Mapping[str, Taxonomy | str | Path]  # a folder of files, or each column's

_MAX_BYTES = 256 << 20  # a larger file is probably the table, named by mistake


def read_taxonomy(
    path: str | Path, kind: AttributeKind = "categorical", *, source: str | None = None, text: str | None = None
) -> Taxonomy:
    """Read the taxonomy in a file, for an attribute of that kind; `text` is that of a file that is not written.

    Errors refer to the file as `source`, by default its path. They report all problems
    of the file at once where one does not hide the others.
    """
    path, source = Path(path), source if source is not None else str(path)
    outline_of = _FORMATS.get(path.suffix.lower())
    if outline_of is None:
        allowed = ", ".join(_FORMATS)
        raise TaxonomyError.about(source, f'a taxonomy file ends in {allowed}; got "{path.suffix}"')
    tree = outline_of(_text(path, source) if text is None else text, source)
    if kind == "categorical":
        taxonomy = Taxonomy(tree.branch(), source, allowed=tuple(tree.marked))
    else:
        taxonomy = interval_taxonomy(tree, kind, source)
    if taxonomy.allowed:  # where some values have a mark above them, all must
        refuse(source, boundary_problems(taxonomy, taxonomy.allowed))
    return taxonomy


def find_taxonomies(folder: Path) -> dict[str, Path]:
    """Map each attribute to its taxonomy file in a folder: the one named after it, plus an extension."""
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix.lower() in _FORMATS and path.is_file())
    except OSError as error:
        raise TaxonomyError.about(folder, f"{error.strerror or error}; expected is a folder of taxonomies") from None
    found: dict[str, Path] = {}
    for path in files:
        if path.stem in found:
            both = f"{found[path.stem].name} and {path.name}"
            raise TaxonomyError.about(folder, f"two taxonomies for {path.stem}: {both}; keep one")
        found[path.stem] = path
    return found


def _text(path: Path, source: str) -> str:
    try:
        size = path.stat().st_size
        if size > _MAX_BYTES:
            raise TaxonomyError.about(source, f"{size} bytes; a taxonomy has at most {_MAX_BYTES}")
        raw = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: an impossible path
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise TaxonomyError.about(source, f"cannot be read: {reason}") from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise TaxonomyError.about(source, "the text is not UTF-8; save the file as UTF-8", line=line) from None


def with_taxonomies(schema: Schema, taxonomies: Taxonomies) -> Schema:
    """Return the schema with the taxonomies of a folder, each for the column of its name, or those of a mapping.

    In a mapping, a taxonomy is a `Taxonomy`, a file or "flat".
    """
    if isinstance(taxonomies, Mapping):
        for name in taxonomies:
            schema[name]  # an unknown name is an error that lists the known ones
        found: Mapping[str, Taxonomy | str | Path] = taxonomies
    else:
        found = find_taxonomies(Path(taxonomies))

    def attribute(known: Attribute) -> Attribute:
        given = found.get(known.name)
        if given is None:
            return known
        if isinstance(given, Taxonomy):
            return replace(known, taxonomy=given)
        if given == "flat":
            return replace(known, taxonomy="flat")
        return replace(known, taxonomy=read_taxonomy(Path(given), known.kind))

    return Schema((attribute(each) for each in schema), schema.identifiers)


# --- taxonomy yaml ------------------------------------------------------------------------------------------
# Taxonomies as nested YAML: a node is a key, and its children are a mapping, a list, or a single leaf.
#
#     Any-job:
#       White-collar: [Manager, Lawyer]
#       Blue-collar:
#         - Baker
#         - Technical: [Welder, Electrician]
#
# Names are kept exactly as written (`no`, `007` and `1.0` are names like any other), so the file is read as
# a stream of events, and nothing in it is resolved: no types, no tags, no anchors.

_NOTHING = ("", "~", "null")  # given as a key's children: it has none


def outline_of_yaml(text: str, source: str) -> Outline:
    """Build the tree that the document describes."""
    reader = _Reader(source)
    paths = [path for event in _events(text, source) for path in reader.read(event)]
    if reader.documents == 0:
        refuse(source, [Problem("the file is empty; expected is one key, the root, over its children")])
    return outline(paths, source, reader.problems)


def _events(text: str, source: str) -> Iterator[Any]:
    import yaml  # which takes longer to load than most jobs to run

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # CBaseLoader needs a C library
    try:
        yield from yaml.parse(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else None
        advice = '; quote a name that begins with "*" or "&"' if "alias" in str(error.context) else ""
        text = f"not YAML: {error.problem or error.context}{advice}"
        raise TaxonomyError.about(source, text, line=line) from None
    except yaml.reader.ReaderError as error:
        number = text.count("\n", 0, error.position) + 1
        raise TaxonomyError.about(source, f"not YAML: {error.reason}", line=number) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise TaxonomyError.about(source, f"not YAML: {' '.join(str(error).split())}") from None


@dataclass
class _Level:
    """A mapping or list that is being read."""

    line: int
    is_list: bool
    keys: dict[str, int] = field(default_factory=dict)
    open_key: bool = False  # a key was read, and its children come next
    empty: bool = True


class _Reader:
    """Turns events into paths: the open keys are the ancestors of the next node."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.problems: list[Problem] = []
        self.documents = 0
        self._levels: list[_Level] = []
        self._ancestors: list[Place] = []

    def read(self, event: Any) -> Iterator[PlacePath]:
        """Yield the paths that this event completes."""
        import yaml

        line = event.start_mark.line + 1
        if isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                self._stop(line, "a second document begins; a taxonomy is one")
        elif isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            self._stop(line, 'anchors and aliases ("&", "*") have no place in a taxonomy; quote such a name')
        elif isinstance(event, yaml.ScalarEvent):
            yield from self._scalar(event, line)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._begin(isinstance(event, yaml.SequenceStartEvent), line)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            yield from self._end()

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> Iterator[PlacePath]:
        if not self._levels:
            self._stop(line, "expected is one key, the root, over its children")
        level = self._levels[-1]
        name = event.value.strip(SPACE)
        place = Place(name, line)
        if level.open_key:
            plain = event.implicit[0]
            nothing = plain and name in _NOTHING
            yield self._path() if nothing else self._path(self._named(place))
            self._close_key()
        elif level.is_list:
            level.empty = False
            yield self._path(self._named(place))
        else:
            level.empty = False
            self._named(place)
            if name in level.keys:
                text = f"the key {shown(name)} stands already in line {level.keys[name]}"
                self.problems.append(Problem(text, line=line))
            level.keys[name] = line
            level.open_key = True
            self._ancestors.append(place)
            if len(self._ancestors) > MAX_LEVELS:
                self._stop(line, f"more than {MAX_LEVELS} levels; allowed are at most {MAX_LEVELS}")

    def _begin(self, is_list: bool, line: int) -> None:
        if not self._levels and is_list:
            self._stop(line, "a list at the top; expected is one key, the root, over its children")
        if self._levels:
            above = self._levels[-1]
            above.empty = False
            if above.is_list and is_list:
                self._stop(line, "a list directly in a list; expected is a leaf, or a key over its children")
            if not above.is_list and not above.open_key:
                self._stop(line, "a key that is no plain name; expected is a name over its children")
        self._levels.append(_Level(line, is_list))

    def _end(self) -> Iterator[PlacePath]:
        level = self._levels.pop()
        if level.empty:
            if not self._ancestors:
                self._stop(level.line, "no key at all; expected is one key, the root, over its children")
            yield self._path()
        if self._levels and self._levels[-1].open_key:
            self._close_key()

    def _close_key(self) -> None:
        self._levels[-1].open_key = False
        self._ancestors.pop()

    def _path(self, *leaf: Place) -> PlacePath:
        return [*leaf, *reversed(self._ancestors)]

    def _named(self, place: Place) -> Place:
        if not place.name:
            self.problems.append(Problem("an empty name", line=place.line))
        return place

    def _stop(self, line: int, problem: str) -> None:
        """Raise the problems found so far, because the rest of the file cannot be interpreted."""
        refuse(self.source, [*self.problems, Problem(problem, line=line)])


_FORMATS: dict[str, Callable[[str, str], Outline]] = {
    ".csv": outline_of_rows,
    ".txt": outline_of_rows,
    ".yaml": outline_of_yaml,
    ".yml": outline_of_yaml,
}


# --- interval taxonomy --------------------------------------------------------------------------------------
# Taxonomies over numbers and dates: fixed intervals, or the numbers themselves as leaves.
#
# Leaves that are intervals `[lo, hi)` must be contiguous, without gap or overlap, and a node covers a run
# of them; the tree is ordered by lower ends, regardless of the order of the file. Leaves that are numbers
# (ARX's file of ages) are values like any other, in the order of the file. Names that are intervals or
# leaves are written as a release writes them, so that `[0,10.0)` and `[0, 10)` are one name.


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
            Problem(f"leaf {shown(leaf)} is neither an interval such as {example} nor {one}", line=tree.lines[leaf])
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
            problems.append(Problem(f"{tree.place(inner)} and the leaf {tree.place(written[inner])} have one name"))
    refuse(source, problems)
    allowed = tuple(names.get(name, name) for name in tree.marked)
    return Taxonomy(_renamed(tree.branch(), names), source, allowed=allowed)


def _renamed(branch: Branch, names: dict[str, str]) -> Branch:
    children = tuple(_renamed(child, names) for child in branch.children)
    return Branch(names.get(branch.name, branch.name), children)


def _of_intervals(tree: Outline, leaves: dict[str, Interval], kind: Kind, source: str) -> Taxonomy:
    ordered = sorted(leaves, key=lambda leaf: leaves[leaf])
    refuse(source, _misfits(tree, leaves, ordered))
    problems: list[Problem] = []

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
