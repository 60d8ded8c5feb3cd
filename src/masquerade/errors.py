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
    ├── PeerError                       exit 3   another party failed us
    │   ├── PeerUnreachable                      it cannot be reached, fell silent or vanished
    │   ├── PeerRefused                          it is not who it should be, or agreed to something else
    │   └── PeerBrokeProtocol                    it sent what the protocol does not allow
    └── Bug                             exit 4   ours: please report it

Each problem is one line that names the file, key, column or row and what is allowed. An error may carry
several problems, so that a person can mend all of them at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar


class MasqueradeError(Exception):
    """Any failure that Masquerade explains."""

    exit_code: ClassVar[int] = 4

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems: tuple[str, ...] = problems

    @classmethod
    def gather(cls, errors: Iterable[MasqueradeError]) -> MasqueradeError | None:
        """One error of this class with the problems of all `errors`, or None when there are none."""
        problems = [problem for error in errors for problem in error.problems]
        return cls(*problems) if problems else None


class AnswerIsNo(MasqueradeError):
    """The question was understood, and the answer is no."""

    exit_code = 1


class RequirementViolated(AnswerIsNo):
    """A table does not satisfy its requirement."""


class RequirementUnreachable(AnswerIsNo):
    """Even the most general release of this data would not satisfy the requirement, or is not known to.

    `violated` names the parts of it that are violated, without a figure, where it is known which. `names_no_figure`:
    the text is made of what was agreed alone, and may be told to anybody.
    """

    violated: tuple[str, ...] = ()
    names_no_figure: bool = False


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


class JobError(BadInput):
    """The job file is wrong."""


class DataError(BadInput):
    """A table is wrong."""


class TaxonomyError(BadInput):
    """A taxonomy is wrong."""


class ParameterError(BadInput):
    """An argument is wrong."""


class PeerError(MasqueradeError):
    """Another party failed us; `peer` names it, or is empty when nobody can tell which one it was."""

    exit_code = 3

    def __init__(self, peer: str, problem: str) -> None:
        super().__init__(f"party {peer}: {problem}" if peer else f"one of the parties: {problem}")
        self.peer = peer


class PeerUnreachable(PeerError):
    """A peer cannot be reached, fell silent or vanished."""


class PeerRefused(PeerError):
    """A peer is not who it should be, or it agreed to something else than we did."""


class PeerBrokeProtocol(PeerError):
    """A peer sent what the protocol does not allow."""


class Bug(MasqueradeError):
    """Something that cannot happen did: a mistake of ours."""

    exit_code = 4


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


def shown(text: str, longest: int = 80) -> str:
    """A cell or a name that somebody wrote, as an error shows it: in quotes, on one line, and not endless."""
    cut = text if len(text) <= longest else text[: longest - 1] + "…"
    return f'"{one_line(cut)}"'
