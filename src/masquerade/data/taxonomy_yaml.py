"""Taxonomies as nested YAML: a node is a key, and its children are a mapping, a list, or a single leaf.

    Any-job:
      White-collar: [Manager, Lawyer]
      Blue-collar:
        - Baker
        - Technical: [Welder, Electrician]

Names are kept exactly as written (`no`, `007` and `1.0` are names like any other), so the file is read
as a stream of events, and nothing in it is resolved: no types, no tags, no anchors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from masquerade.data.encode import SPACE
from masquerade.data.taxonomy_outline import MAX_LEVELS, Outline, Path, Place, outline, refuse
from masquerade.errors import Problem, TaxonomyError, shown

_NOTHING = ("", "~", "null")  # given as a key's children: it has none


def outline_of_yaml(text: str, source: str) -> Outline:
    """Build the tree that the document describes."""
    reader = _Reader(source)
    paths = [path for event in _events(text, source) for path in reader.read(event)]
    if reader.documents == 0:
        refuse(source, [Problem("the file is empty; expected is one key, the root, over its children")])
    return outline(paths, source, reader.problems)


def _events(text: str, source: str) -> Iterator[Any]:
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

    def read(self, event: Any) -> Iterator[Path]:
        """Yield the paths that this event completes."""
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

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> Iterator[Path]:
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

    def _end(self) -> Iterator[Path]:
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

    def _path(self, *leaf: Place) -> Path:
        return [*leaf, *reversed(self._ancestors)]

    def _named(self, place: Place) -> Place:
        if not place.name:
            self.problems.append(Problem("an empty name", line=place.line))
        return place

    def _stop(self, line: int, problem: str) -> None:
        """Raise the problems found so far, because the rest of the file cannot be interpreted."""
        refuse(self.source, [*self.problems, Problem(problem, line=line)])
