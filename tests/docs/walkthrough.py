"""A reader who does what a page says: writes its files, runs its commands, and compares what they print."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from cli.command import MASQUERADE, here, without_progress

DOCS = Path(__file__).parents[2] / "docs"

_BLOCK = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_NEEDS_A_SHELL = re.compile(r"[|<>;&()$]")


@dataclass(frozen=True)
class Block:
    """A fenced block, and the paragraph before it."""

    language: str
    text: str
    before: str
    line: int  # of the page


def blocks(page: Path) -> Iterator[Block]:
    """All fenced blocks of a page."""
    text = page.read_text("utf-8")
    for found in _BLOCK.finditer(text):
        indent, language, content = found.groups()
        before = text[: found.start()].rstrip().rpartition("\n\n")[2]
        line = text[: found.start()].count("\n") + 1
        yield Block(language, re.sub(f"^{indent}", "", content, flags=re.MULTILINE), before, line)


def commands(block: Block) -> Iterator[str]:
    """The commands of a block, one line each; what a block shows after a prompt is no command."""
    lines = block.text.replace("\\\n", "").splitlines()
    prompted = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    yield from (line for line in prompted or lines if line.strip() and not line.startswith("#"))


Special = Callable[["Reader", Block], None]


@dataclass
class Reader:
    """Follows a page in a folder; `special` does what a page asks for in words, by a text of the paragraph before."""

    folder: Path
    capsys: pytest.CaptureFixture[str]
    special: Mapping[str, Special] = field(default_factory=dict)
    replaced: Mapping[str, str] = field(default_factory=dict)  # addresses of the page that may be taken here
    said: str = ""  # by the last block that was run
    names: dict[str, Any] = field(default_factory=dict)  # of the snippets

    def follow(self, page: Path) -> None:
        """Do all that the page says."""
        all_blocks = [self._replaced(block) for block in blocks(page)]
        for block, after in zip(all_blocks, [*all_blocks[1:], None], strict=True):
            special = next((do for text, do in self.special.items() if text in block.before), None)
            if special is not None:
                special(self, block)
                continue
            fails = after is not None and after.language == "text" and after.text.startswith("error:")
            self.do(block, f"{page.name}: line {block.line}", fails=fails)

    def do(self, block: Block, where: str, *, fails: bool = False) -> None:
        """Write, run or compare one block."""
        match block.language:
            case "toml":
                named = re.findall(r"`([\w./-]+\.toml)`", block.before)
                assert named, f"{where}: which file is it?"
                (self.folder / named[-1]).write_text(block.text, "utf-8")
            case "console":
                self.said = ""
                *first, last = [*commands(block)]
                for command in first:
                    assert self.run(command) == 0, (where, command, self.said)
                assert (self.run(last) != 0) == fails, (where, last, self.said)
            case "python":
                self.capsys.readouterr()
                exec(compile(block.text, where, "exec"), self.names)  # the page's own snippet
                self.said = self.capsys.readouterr().out
            case "text":
                assert _words(block.text) in _words(self.said), (where, self.said)

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
            timeout=300,
        )
        self.said += done.stdout + without_progress(done.stderr)
        return done.returncode


def _words(text: str) -> str:
    """The words alone: a page wraps long lines."""
    return " ".join(text.split())
