"""The drawn tree of errors is the real one, and every error and exit code has its place in docs/errors.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from masquerade import errors
from masquerade.errors import JobError, MasqueradeError, hint, nearest

PAGE = Path(__file__).parents[1] / "docs" / "errors.md"


def family(root: type[MasqueradeError]) -> Iterator[tuple[int, str, int]]:
    """Each class of the tree, with its depth and its exit code, as the code has it."""

    def walk(kind: type[MasqueradeError], depth: int) -> Iterator[tuple[int, str, int]]:
        yield depth, kind.__name__, kind.exit_code
        for child in kind.__subclasses__():
            if child.__module__ == root.__module__:  # a room may tell its own apart; others do not see it
                yield from walk(child, depth + 1)

    return walk(root, 0)


def drawn(text: str) -> Iterator[tuple[int, str, int | None]]:
    """Each class of a drawn tree, with its depth and the exit code beside it."""
    for line in text.splitlines():
        match = re.match(r"(?: {4})?([│├└─ ]*)([A-Z]\w+)(?: +exit (\d))?", line)
        if match and (match[1].strip() or match[2] == "MasqueradeError"):
            yield len(match[1]) // 4, match[2], int(match[3]) if match[3] else None


def with_inherited_codes(tree: Iterator[tuple[int, str, int | None]]) -> list[tuple[int, str, int]]:
    found: list[tuple[int, str, int]] = []
    for depth, name, code in tree:
        parent = next((each for each in reversed(found) if each[0] == depth - 1), (0, "", 4))
        found.append((depth, name, parent[2] if code is None else code))
    return found


def test_the_drawn_tree_is_the_real_one() -> None:
    real = list(family(MasqueradeError))
    assert len(real) >= 10
    assert with_inherited_codes(drawn(errors.__doc__ or "")) == real


def test_the_page_draws_the_same_tree() -> None:
    assert with_inherited_codes(drawn(PAGE.read_text("utf-8"))) == list(family(MasqueradeError))


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4])
def test_every_exit_code_has_a_section(code: int) -> None:
    assert re.search(rf"^## Exit code {code}$", PAGE.read_text("utf-8"), re.MULTILINE)


@pytest.mark.parametrize(("name", "code"), [each[1:] for each in family(MasqueradeError) if each[0]])
def test_every_error_is_described_under_its_code(name: str, code: int) -> None:
    sections = dict(
        re.findall(r"^## Exit code (\d+)\n(.*?)(?=^## |\Z)", PAGE.read_text("utf-8"), re.M | re.S)
    )
    assert f"`{name}`" in sections[str(code)]


def test_problems_are_kept_and_joined() -> None:
    error = JobError("one", "two")
    assert error.lines == ("one", "two")
    assert str(error) == "one\ntwo"
    gathered = MasqueradeError.gather([error, JobError("three")])
    assert gathered is not None
    assert gathered.lines == ("one", "two", "three")
    assert JobError.gather([]) is None


def test_the_nearest_word() -> None:
    known = ["separator", "source", "encoding", "Class"]
    assert nearest("seperator", known) == "separator"
    assert nearest("CLASS", known) == "Class"
    assert nearest("zzz", known) is None
    assert hint("sorce", known) == ' (did you mean "source"?)'
    assert hint("zzz", known) == ""
