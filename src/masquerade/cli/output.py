"""What the commands print: one JSON object or a few lines on standard output, progress on standard error."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from masquerade.errors import ParameterError, one_line

if TYPE_CHECKING:
    from masquerade.data import Step
    from masquerade.jobs import JointKeysFound
    from masquerade.progress import Stage
    from masquerade.risk import Keys, Masked

# --- options ------------------------------------------------------------------------------------------------
# Options and arguments as commands declare them; the help shows no default, as the text says it where it matters.


def option(spec: str, help: str, **more: Any) -> Any:
    """Declare an option by its names and the word for its value: `--output -o FILE`; a switch has no such word."""
    *names, last = spec.split()
    if last.startswith("-"):
        return typer.Option(*names, last, help=help, show_default=False, **more)
    return typer.Option(*names, metavar=last, help=help, show_default=False, **more)


def argument(metavar: str, help: str, **more: Any) -> Any:
    """Declare an argument by the word that stands for it."""
    return typer.Argument(metavar=metavar, help=help, show_default=False, **more)


# --- operator -----------------------------------------------------------------------------------------------
# Who says so: whoever decides something at the command line is named in the audit log.

By = Annotated[str, option("--by NAME", "Who says so, for the audit log, which names the system's user in any case.")]


def operator(by: str) -> dict[str, str | None]:
    """The user that the operating system knows, and the name that was given, if any."""
    import pwd

    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # in a container users often have no name
        user = str(os.getuid())
    return {"by": one_line(by) or None, "user": user}


# --- output -------------------------------------------------------------------------------------------------

Json = Annotated[bool, option("--json", "Print one JSON object on standard output, and nothing else.")]

# A terminal shows at once that work goes on; a log only mentions work that takes this long.
REPORT_AFTER = 2.0

# While nothing new happens, a log is told again what goes on: after this long at first, then less and less often.
REPEAT_AFTER, REPEAT_AT_LEAST = 5.0, 60.0
_TICK = 1.0


def say(*lines: str) -> None:
    """Lines on standard output. Nobody may be listening any more; that is no failure."""
    try:
        for line in lines:
            print(line, flush=True)  # noqa: T201 # the place where answers are printed
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        raise ParameterError(f"standard output: cannot be written: {error.strerror}") from None


def say_plainly(*lines: str) -> None:
    """Lines with words of others: each stays one line, and nothing in it moves the cursor of a terminal."""
    say(*map(one_line, lines))


def print_json(summary: Mapping[str, Any]) -> None:
    """One JSON object in ASCII, which every pipe carries; what JSON cannot say (infinities) is null."""
    from masquerade.data import as_json  # with numpy and Arrow, which no help needs

    say(as_json(summary))


def answer(json: bool, summary: Mapping[str, Any], *lines: str) -> None:
    """Print the summary as JSON if that is wanted, or else the lines, plainly."""
    if json:
        print_json(summary)
    else:
        say_plainly(*lines)


class ProgressDisplay:
    """Shows on standard error what is going on."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started = self._told = self._changed = clock()
        self._text = "starting"
        self._over = threading.Event()
        self._stage = ""
        self._steps = 0
        self._parties: dict[str, str] = {}
        self._status: Any = None

    def stage(self, stage: Stage | str) -> None:
        """A new stage begins."""
        self._stage, self._steps = str(stage), 0
        self._tell(self._stage)

    def step(self, step: Step) -> None:
        """A specialization was made."""
        self._steps += 1
        self._tell(f"{self._stage}: step {self._steps}, {step.attribute} {step.value}")

    def party(self, name: str, stage: Stage | str) -> None:
        """A party of a mashup has got somewhere."""
        self._parties[name] = str(stage)
        self._tell("; ".join(f"{each}: {doing}" for each, doing in self._parties.items()))

    def done(self) -> None:
        """Nothing more is going on: a terminal shows no spinner any longer, and a log no more lines."""
        self._over.set()
        if self._status is not None:
            self._status.stop()

    def _tell(self, text: str) -> None:
        if self._status is not None:
            from rich.markup import escape

            self._status.update(escape(text))  # a value may look like markup
            return
        now = self._clock()
        if text != self._text:
            self._text, self._changed = text, now
        if now - self._told >= REPORT_AFTER:
            self._print(now)

    def repeat(self) -> None:
        """Say again what goes on, if nothing was said for a while."""
        now = self._clock()
        pause = min(max(REPEAT_AFTER, (now - self._changed) / 5), REPEAT_AT_LEAST)
        if now - self._told >= pause:
            self._print(now)

    def keep_repeating(self) -> None:
        """Repeat until it is over, or nobody reads it any more."""
        with suppress(OSError):
            while not self._over.wait(_TICK):
                self.repeat()

    def _print(self, now: float) -> None:
        self._told = now
        typer.echo(f"{now - self._started:.0f} s: {self._text}", err=True)


@contextmanager
def progress() -> Iterator[ProgressDisplay]:
    """A spinner on a terminal; in a log, a line every few seconds."""
    shown = ProgressDisplay()
    if sys.stderr is None or not sys.stderr.isatty():
        repeating = threading.Thread(target=shown.keep_repeating, daemon=True)
        repeating.start()
        try:
            yield shown
        finally:
            shown.done()
            repeating.join()  # so that no line comes after the answer
        return
    from rich.console import Console

    with Console(stderr=True).status(shown._text) as status:
        shown._status = status
        yield shown


# --- table answers ------------------------------------------------------------------------------------------
# Words that the answers of `keys` and `mask` have in common.


def looked_at(found: Keys | Masked) -> str:
    """Say how much of the table was looked at."""
    if found.sampled is None:
        return f"all {found.rows:,} rows"
    of = "rows" if found.measure == "distinct" else "pairs"
    return f"{found.sampled:,} {of} of {found.rows:,} rows"


def seconds_of(found: Keys | Masked | JointKeysFound) -> str:
    """Say how long each part took."""
    return "seconds: " + ", ".join(f"{name} {spent:.3f}" for name, spent in found.seconds.items())
