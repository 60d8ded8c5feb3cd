"""Everything that can go wrong, and the exit code it ends a command with.

    MasqueradeError
    ├── AnswerIsNo                      exit 1   the question was understood, and the answer is no
    │   ├── RequirementViolated                  a release does not satisfy its requirement
    │   ├── RequirementUnreachable               this data cannot satisfy it, however general
    │   ├── NoCommonRecords                      the parties have nobody in common
    │   ├── NotAllowed                           who asks is not known, or may not do this
    │   ├── NotFound                             there is no such thing, or it is not theirs who ask
    │   └── Conflict                             it does not fit what has happened meanwhile
    ├── BadInput                        exit 2   what a person wrote is wrong
    │   ├── JobError                             the job file
    │   ├── DataError                            a table
    │   ├── TaxonomyError                        a taxonomy file
    │   └── ParameterError                       an argument of a command or of a function
    │       └── BadMessage                       a message that does not fit the computation; who calls names the peer
    ├── PeerError                       exit 3   another party failed us
    │   ├── PeerUnreachable                      it cannot be reached, fell silent or vanished
    │   ├── PeerRefused                          it is not who it should be, or agreed to something else
    │   └── PeerBrokeProtocol                    it sent what the protocol does not allow
    ├── ClusterError                    exit 3   the cluster that a job counts on failed us
    └── Bug                             exit 4   ours: please report it

An error carries problems: data that says where something is wrong, what is allowed, what was found, which party it
concerns and who reported it. A problem becomes one line at the edge (a command, an answer over HTTP, a page, a log);
nothing reads a line back. An error may carry several, so that a person can mend all of them at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any, ClassVar, Self

Key = tuple[str | int, ...]  # ("privacy", 0, "k") is written privacy[1].k: entries count from 1, as rows do

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_LONGEST_GIVEN = 60  # characters


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong; `str` renders its line.

    `text` says what is wrong without repeating where. Where a rule is broken, `allowed` completes "must be …" and
    `found` is what was there, as a person may see it; `text` then only adds to that.
    """

    text: str = ""
    source: str = ""  # the file, table or form
    line: int | None = None  # of a text file, from 1
    row: int | None = None  # of a table, from 1
    column: str = ""
    key: Key = ()
    parameter: str = ""  # of `owner`
    owner: str = ""  # a class or function; without a parameter, the requirement or other thing that is wrong as a whole
    allowed: str = ""
    found: str = ""
    party: str | None = None  # whom it concerns; "" is one of the parties, and nobody can tell which
    reported_by: str = ""  # the party that told us, where we have not seen it ourselves

    def at(self, **where: Any) -> Problem:
        """The same problem at a more exact place: the fields given replace its own."""
        return replace(self, **where)

    def within(self, source: str, key: Key = ()) -> Problem:
        """The same problem as one of a file or form: below a key of it; a parameter becomes a key.

        What is wrong with another file that this one names keeps its own place behind the key.
        """
        if self.source and self.source != source:
            return Problem(str(self), source=source, key=key)
        own = (self.parameter,) if self.parameter else ()
        owner = "" if self.parameter else self.owner
        return replace(self, source=source, key=(*key, *own, *self.key), parameter="", owner=owner)

    def rendered(self) -> Problem:
        """The same problem with its place in its text, escaped, for another machine to read; who is who stays data."""
        text = str(self.at(party=None, reported_by=""))
        return Problem(text, party=self.party, reported_by=self.reported_by)

    def __str__(self) -> str:
        party = "" if self.party is None else f"party {self.party}: " if self.party else "one of the parties: "
        reported = f" (party {self.reported_by} reports it)" if self.reported_by else ""
        place = f"{self.place}: " if self.place else ""
        return one_line(f"{party}{place}{self.sentence}{reported}")

    @property
    def place(self) -> str:
        """Where it is, for a person: `people.csv: row 3 (line 4), column age`."""
        line = "" if self.line is None else f"line {self.line}"
        row = "" if self.row is None else f"row {self.row}" + (f" ({line})" if line else "")
        column = f"column {self.column}" if self.column else ""
        parts = (self.source, _joined(row, column)) if row else (_joined(self.source, column), line)
        return ": ".join(filter(None, (*parts, written(self.key))))

    @property
    def sentence(self) -> str:
        """What is wrong, without where."""
        if not self.allowed:
            return f"{self.owner}: {self.text}" if self.owner else self.text
        if self.parameter:
            return (
                f"The {self.parameter} parameter of {self.owner} must be {self.allowed}. "
                f"Got {self.found} instead{self.text}."
            )
        return f"must be {self.allowed}; got {self.found}{self.text}"


class MasqueradeError(Exception):
    """Any failure that Masquerade explains."""

    exit_code: ClassVar[int] = 4

    def __init__(self, *problems: Problem | str) -> None:
        self.problems: tuple[Problem, ...] = tuple(
            problem if isinstance(problem, Problem) else Problem(problem) for problem in problems
        )
        super().__init__("\n".join(self.lines))

    @property
    def lines(self) -> tuple[str, ...]:
        """One line a problem."""
        return tuple(map(str, self.problems))

    @property
    def reasons(self) -> tuple[str, ...]:
        """One line a problem without the party that it concerns, for places that name it themselves."""
        return tuple(str(problem.at(party=None)) for problem in self.problems)

    def within(self, source: str, key: Key = ()) -> Self:
        """The same error, of a file or form that holds what is wrong below a key."""
        return type(self)(*(problem.within(source, key) for problem in self.problems))

    @classmethod
    def gather(cls, errors: Iterable[MasqueradeError]) -> MasqueradeError | None:
        """One error of this class with the problems of all `errors`, or None when there are none."""
        problems = [problem for error in errors for problem in error.problems]
        return cls(*problems) if problems else None


def is_ours(frame: FrameType) -> bool:
    """Return whether a frame of the stack runs code of this package."""
    return str(frame.f_globals.get("__name__")).partition(".")[0] == __name__.partition(".")[0]


def _one_frame(error: MasqueradeError) -> list[str]:
    """Render an error for IPython: the line of the caller's own code that led to it, and what is wrong.

    Our own frames tell nothing about what a person did wrong.
    """
    import traceback  # only errors need it

    found, step = None, error.__traceback__
    while step is not None and not is_ours(step.tb_frame):
        found, step = step, step.tb_next
    shown_frames = [] if found is None else traceback.extract_tb(found, limit=1)
    return [
        *(line.rstrip("\n") for line in traceback.format_list(shown_frames)),
        *(f"{type(error).__name__}: {line}" for line in error.lines),
    ]


class AnswerIsNo(MasqueradeError):
    """The question was understood, and the answer is no."""

    exit_code = 1
    _render_traceback_ = _one_frame


class RequirementViolated(AnswerIsNo):
    """A table does not satisfy its requirement."""


class RequirementUnreachable(AnswerIsNo):
    """Even the most general release of this data would not satisfy the requirement, or is not known to.

    `violated` names the parts of it that are violated, without a figure, where it is known which. With `public` the
    problems are made of what was agreed alone, and may be shown to anybody.
    """

    def __init__(self, *problems: Problem | str, violated: tuple[str, ...] = (), public: bool = False) -> None:
        super().__init__(*problems)
        self.violated, self.public = violated, public


class NoCommonRecords(AnswerIsNo):
    """The parties have no record in common."""


class NotAllowed(AnswerIsNo):
    """Who asks is not known, or may not do this. For a sign-in it never tells which."""


class NotFound(AnswerIsNo):
    """There is no such thing, or it is not theirs who ask: both look the same."""


class Conflict(AnswerIsNo):
    """The wish does not fit the state that things are in now: somebody was faster, or it is too late."""


class BadInput(MasqueradeError):
    """Something that a person wrote is wrong."""

    exit_code = 2
    _render_traceback_ = _one_frame

    @classmethod
    def about(cls, source: object, *texts: str, line: int | None = None) -> Self:
        """The error of a file or table in which these things are wrong."""
        return cls(*(Problem(text, source=str(source), line=line) for text in texts))


class JobError(BadInput):
    """The job file is wrong."""


class DataError(BadInput):
    """A table is wrong."""


class TaxonomyError(BadInput):
    """A taxonomy is wrong."""


class ParameterError(BadInput):
    """An argument is wrong."""


class BadMessage(ParameterError):
    """A peer's message that does not fit the computation; the calling protocol names the peer."""


class PeerError(MasqueradeError):
    """Another party failed us; `peer` names it, or is empty when nobody can tell which one it was.

    `reported_by` is the party that reported it, where we have not seen it ourselves.
    """

    exit_code = 3
    _render_traceback_ = _one_frame

    def __init__(self, peer: str, *problems: Problem | str, reported_by: str = "") -> None:
        super().__init__(
            *(
                problem if isinstance(problem, Problem) else Problem(problem, party=peer, reported_by=reported_by)
                for problem in problems
            )
        )
        self.peer = peer


class PeerUnreachable(PeerError):
    """A peer cannot be reached, fell silent or vanished."""


class PeerRefused(PeerError):
    """A peer is not who it should be, or it agreed to something else than we did."""


class PeerBrokeProtocol(PeerError):
    """A peer sent what the protocol does not allow."""


class ClusterError(MasqueradeError):
    """The cluster that was to count cannot be reached, has no fit worker, or lost too many of them."""

    exit_code = 3
    _render_traceback_ = _one_frame


class Bug(MasqueradeError):
    """Something that cannot happen did: a mistake of ours."""

    exit_code = 4


def kind_of(error: MasqueradeError) -> str:
    """The name of an error's class, or of the nearest above it, by which another process knows it."""
    return next(each.__name__ for each in type(error).__mro__ if each.__module__ == __name__)


def restored(kind: str | None, problems: Iterable[Problem], peer: str | None = None) -> MasqueradeError:
    """Restore the error that another process reported by its `kind_of`; of a PeerError, `peer` is at fault."""
    named = globals().get(kind or "")
    known = named if isinstance(named, type) and issubclass(named, MasqueradeError) else MasqueradeError
    if issubclass(known, PeerError):
        return known(peer or "", *(problem.at(party=peer or "") for problem in problems))
    return known(*problems)


def _joined(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def written(key: Key) -> str:
    """`privacy[1].k`, `attributes."native country"`."""
    text = ""
    for part in key:
        if isinstance(part, int):
            text += f"[{part + 1}]"
        else:
            name = part if _BARE.fullmatch(part) else f'"{part}"'
            text += f".{name}" if text else name
    return text


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` was probably meant to be."""
    import difflib  # only errors need it

    candidates = list(known)
    close = difflib.get_close_matches(word, candidates, n=1, cutoff=0.5)
    if close:
        return close[0]
    folded = {candidate.casefold(): candidate for candidate in candidates}
    close = difflib.get_close_matches(word.casefold(), folded, n=1, cutoff=0.5)
    return folded[close[0]] if close else None


def hint(word: str, known: Iterable[str]) -> str:
    """` (did you mean "…"?)`, or nothing when no known word is near."""
    meant = nearest(word, known)
    return f' (did you mean "{meant}"?)' if meant is not None else ""


def one_line(text: str) -> str:
    """Line ends and other invisible characters escaped: a problem is one line, whatever a cell holds."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def given(value: object) -> str:
    """What a caller gave, as an error shows it: plain values as they are, others, which may hold records, by type."""
    each = value if isinstance(value, list | tuple) else (value,)
    plain = all(one is None or isinstance(one, str | int | float) for one in each)
    text = repr(value) if plain else f"an object of type {type(value).__name__}"
    return one_line(text if len(text) <= _LONGEST_GIVEN else text[: _LONGEST_GIVEN - 1] + "…")


def shown(text: str, longest: int = 80) -> str:
    """A cell or a name that somebody wrote, as an error shows it: in quotes, on one line, and not endless."""
    cut = text if len(text) <= longest else text[: longest - 1] + "…"
    return f'"{one_line(cut)}"'
