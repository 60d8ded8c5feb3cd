"""A reader who does what a page says: writes its files, runs its commands, and compares what they print."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from cli.command import MASQUERADE, here, without_progress

DOCS = Path(__file__).parents[2] / "docs"

_BLOCK = re.compile(r'^( *)```(\w*)(?: title="([^"]+)")?\n(.*?)^\1```$', re.MULTILINE | re.DOTALL)
_TABLE = re.compile(r"^(?=\[)", re.MULTILINE)  # where a table of a TOML file begins
_FIGURE = re.compile(r"\b(?=[0-9A-Fa-f,]*\d)[0-9A-Fa-f,]+\b")  # a number, a date's part, the beginning of a digest
_COUNTED = re.compile(r"(\[0-9A-Fa-f,\]\+\\ [a-z]+?)s?\b")  # any number of sessions, one among them
_NEEDS_A_SHELL = re.compile(r"[|<>;&()$]")


@dataclass(frozen=True)
class Block:
    """A fenced block, and the paragraph before it."""

    language: str
    text: str
    before: str
    line: int  # of the page
    title: str | None = None  # the file that it is


def blocks(page: Path) -> Iterator[Block]:
    """All fenced blocks of a page."""
    text = page.read_text("utf-8")
    for found in _BLOCK.finditer(text):
        indent, language, title, content = found.groups()
        before = text[: found.start()].rstrip().rpartition("\n\n")[2]
        line = text[: found.start()].count("\n") + 1
        yield Block(language, re.sub(f"^{indent}", "", content, flags=re.MULTILINE), before, line, title)


def commands(block: Block) -> Iterator[str]:
    """The commands of a block, one line each; what a block shows after a prompt is no command."""
    yield from (command for command, _ in shown(block))


def shown(block: Block) -> Iterator[tuple[str, str]]:
    """The commands of a block, each with the output that stands below its prompt."""
    text = block.text.replace("\\\n", "")
    if not text.startswith("$ "):
        yield from ((line, "") for line in text.splitlines() if line.strip() and not line.startswith("#"))
        return
    for each in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = each.partition("\n")
        yield command, output


def amended(file: str, part: str) -> str:
    """A TOML file with a part that a page shows: its tables take the place of those of the same name."""
    tables = _TABLE.split(part)
    replaced = {table.split()[0] for table in tables if table.strip() and not table.startswith("[[")}
    kept = [table for table in _TABLE.split(file) if not table.strip() or table.split()[0] not in replaced]
    return "".join(f"{table.rstrip()}\n" for table in [*kept, *tables])


Special = Callable[["Reader", Block], None]


@dataclass
class Reader:
    """Follows a page in a folder; `special` does what a page asks for in words, by a text of the paragraph before.

    A TOML block that names no file is a part of the page's own, `file`; each is tried with the commands of `tried`.
    """

    folder: Path
    capsys: pytest.CaptureFixture[str]
    special: Mapping[str, Special] = field(default_factory=dict)
    replaced: Mapping[str, str] = field(default_factory=dict)  # addresses of the page that may be taken here
    file: str = "job.toml"
    tried: Sequence[str] = ()
    figures: bool = True  # whether the page's numbers are those of every run
    said: str = ""  # by the last block that was run
    names: dict[str, Any] = field(default_factory=dict)  # of the snippets
    whole: str | None = None  # the page's own file without any part

    def follow(self, page: Path) -> None:
        """Do all that the page says."""
        all_blocks = [self._replaced(block) for block in blocks(page)]
        for block, after in zip(all_blocks, [*all_blocks[1:], None], strict=True):
            special = self._special(block)
            if special is not None:
                special(self, block)
                continue
            error = after if after is not None and after.language == "text" else None
            fails = error is not None and error.text.startswith("error:") and self._special(error) is None
            self.do(block, f"{page.name}: line {block.line}", fails=fails)

    def _special(self, block: Block) -> Special | None:
        return next((do for text, do in self.special.items() if text in block.before), None)

    def do(self, block: Block, where: str, *, fails: bool = False) -> None:
        """Write, run or compare one block."""
        if block.title is not None:
            self.write(block.title, block.text)
            return
        match block.language:
            case "toml":
                named = re.findall(r"`([\w./-]+\.toml)`", block.before)
                if named:
                    self.write(named[-1], block.text)
                else:
                    self.amend(block, where)
            case "console":
                self.said = ""
                steps = [*shown(block)]
                for number, (command, output) in enumerate(steps, 1):
                    before = len(self.said)
                    failed = self.run(command) != 0
                    assert failed == (fails and number == len(steps)), (where, command, self.said)
                    compare(output, self.said[before:], where, figures=self.figures)
            case "python":
                self.capsys.readouterr()
                exec(compile(block.text, where, "exec"), self.names)  # the page's own snippet
                self.said = self.capsys.readouterr().out
            case "text":
                compare(block.text, self.said, where, figures=self.figures)
            case language:
                raise AssertionError(f"{where}: what is to be done with {language or 'a block without a language'}?")

    def write(self, name: str, text: str) -> None:
        """Write a file of the page."""
        (self.folder / name).write_text(text, "utf-8")
        if name == self.file:
            self.whole = text

    def amend(self, block: Block, where: str) -> None:
        """Put a part into the page's own file, and see that it can be used."""
        path = self.folder / self.file
        if self.whole is None:
            self.whole = path.read_text("utf-8")
        path.write_text(amended(self.whole, block.text), "utf-8")
        for command in self.tried:
            assert self.run(command) == 0, (where, command, self.said)

    def _replaced(self, block: Block) -> Block:
        text = block.text
        for written, used in self.replaced.items():
            text = text.replace(written, used)
        return replace(block, text=text)

    def run(self, command: str) -> int:
        """Run one command line; return its exit code."""
        words = shlex.split(command, comments=True)
        if words[0] == "cd":
            self.folder = (self.folder / words[1]).resolve()
            os.chdir(self.folder)
            return 0
        if words[0] == "masquerade" and not _NEEDS_A_SHELL.search(command):
            answer = here(self.capsys, *words[1:])
            self.said += answer.out + answer.err
            return answer.code
        path = f"{Path(MASQUERADE).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        self.said += done.stdout + without_progress(done.stderr)
        return done.returncode


def _words(text: str) -> str:
    """The words alone: a page wraps long lines."""
    return " ".join(text.split())


def compare(text: str, said: str, where: str, *, figures: bool = True) -> None:
    """Compare an output with what was said; "…" stands for anything, and without `figures` a number for any other."""
    pattern = re.escape(_words(text))
    if not figures:
        pattern = _FIGURE.sub("[0-9A-Fa-f,]+", pattern)
        pattern = _COUNTED.sub(r"\1s?", pattern)
    pattern = re.sub(r"(?:\\ )?…(?:\\ )?", ".*", pattern)
    assert re.search(pattern, _words(said)), (where, text, said)
