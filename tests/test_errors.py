"""The drawn tree of errors is the real one, and every error and exit code has its place in docs/errors.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from masquerade import errors
from masquerade.errors import (
    DataError,
    JobError,
    MasqueradeError,
    ParameterError,
    PeerBrokeProtocol,
    PeerUnreachable,
    Problem,
    hint,
    kind_of,
    nearest,
    restored,
)
from masquerade.files import FileError

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
    sections = dict(re.findall(r"^## Exit code (\d+)\n(.*?)(?=^## |\Z)", PAGE.read_text("utf-8"), re.M | re.S))
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


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        (Problem("is empty"), "is empty"),
        (Problem("is empty", source="a.csv"), "a.csv: is empty"),
        (Problem("is empty", source="a.csv", line=4), "a.csv: line 4: is empty"),
        (Problem("is empty", source="a.csv", row=3), "a.csv: row 3: is empty"),
        (
            Problem("is empty", source="a.csv", row=3, line=4, column="age"),
            "a.csv: row 3 (line 4), column age: is empty",
        ),
        (Problem("is empty", source="a.csv", column="age"), "a.csv, column age: is empty"),
        (
            Problem(source="job.toml", key=("privacy", 0, "k"), allowed="a number", found='"x"'),
            'job.toml: privacy[1].k: must be a number; got "x"',
        ),
        (Problem("binds nothing", owner="k-anonymity"), "k-anonymity: binds nothing"),
        (Problem("was stopped", party="bank"), "party bank: was stopped"),
        (Problem("broke it", party="", reported_by="bank"), "one of the parties: broke it (party bank reports it)"),
        (Problem("two\nlines", source="a\r.csv"), r"a\r.csv: two\nlines"),
    ],
)
def test_a_problem_is_one_line(problem: Problem, line: str) -> None:
    assert str(problem) == line


def test_a_problem_of_another_file_keeps_its_place_behind_the_key() -> None:
    error = DataError(Problem("is empty", source="a.csv", row=3)).within("job.toml", ("data", "source"))
    assert error.lines == ("job.toml: data.source: a.csv: row 3: is empty",)


def test_an_error_comes_back_from_another_process() -> None:
    told = PeerUnreachable("bank", Problem("is gone", party="bank", reported_by="clinic"))
    back = restored(type(told).__name__, told.problems, told.peer)
    assert (type(back), back.lines, back.reasons) == (
        PeerUnreachable,
        ("party bank: is gone (party clinic reports it)",),
        ("is gone (party clinic reports it)",),
    )
    assert type(restored("os.system", ())) is MasqueradeError


def test_a_rendered_problem_tells_its_place_in_its_text() -> None:
    problem = Problem("is\nempty", source="a.csv", row=3, party="bank").rendered()
    assert problem == Problem(r"a.csv: row 3: is\nempty", party="bank")


def test_an_error_of_another_module_is_told_as_the_nearest_that_everybody_knows() -> None:
    full = FileError.at(Path("audit.jsonl"), "cannot be written: No space left on device")
    told = restored(kind_of(full), full.problems)
    assert (type(told), told.exit_code, told.lines) == (ParameterError, 2, full.lines)
    assert kind_of(PeerBrokeProtocol("bank", "lies")) == "PeerBrokeProtocol"
