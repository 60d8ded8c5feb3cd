"""One check of the doctor: what was found, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from masquerade.errors import AnswerIsNo, MasqueradeError, PeerUnreachable

Status = Literal["ok", "warning", "error"]


@dataclass(frozen=True)
class Check:
    """The result of one check. `code` is the exit code if it is an error."""

    name: str
    status: Status
    detail: str
    advice: str = ""
    code: int = AnswerIsNo.exit_code

    @property
    def line(self) -> str:
        """The finding and the advice, on one line."""
        return f"{self.name}: {self.detail}" + (f"; {self.advice}" if self.advice else "")


def fine(name: str, detail: str) -> Check:
    """Return a check that passed."""
    return Check(name, "ok", detail)


def warning(name: str, detail: str, advice: str = "") -> Check:
    """Return a check of something that works now but may soon fail."""
    return Check(name, "warning", detail, advice)


def error(name: str, detail: str, advice: str = "") -> Check:
    """Return a check of something that does not work."""
    return Check(name, "error", detail, advice)


def unreachable(name: str, detail: str, advice: str = "") -> Check:
    """Return a failed check for which another machine is at fault or absent."""
    return Check(name, "error", detail, advice, PeerUnreachable.exit_code)


def words_of(caught: MasqueradeError) -> str:
    """Return an error on one line, without the party's name, which the check already has."""
    return "; ".join(str(each.at(party=None)) for each in caught.problems)


def problems(name: str, caught: MasqueradeError, code: int = AnswerIsNo.exit_code) -> list[Check]:
    """Return a failed check for each problem of an error."""
    return [Check(name, "error", problem, code=code) for problem in caught.lines]
