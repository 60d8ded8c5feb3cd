"""The `masquerade` command: its sub-commands, and how every failure ends.

Only the command that is called is loaded, and heavy libraries inside it where they are used.
"""

from __future__ import annotations

import gc
import io
import os
import resource
import signal
import sys
from contextlib import suppress
from importlib import import_module
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer
import typer.core

import masquerade
from masquerade.cli.output import option
from masquerade.errors import BadInput, Bug, MasqueradeError, one_line, shown
from masquerade.jobs import hide_pandas

# --- process ------------------------------------------------------------------------------------------------
# What a command does to its own process: streams, signals, libraries it can do without, a short end.

stopped_by: list[int] = []
"""The signals that asked this process to stop: what breaks after one is no bug."""


def prepare() -> None:
    """Make ready for a command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without ℓ or ü shows an escape instead
            stream.reconfigure(errors="backslashreplace")
    for number in (signal.SIGINT, signal.SIGTERM):  # whoever is asked to stop cleans up first
        signal.signal(number, _stop)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # it would search all packages for them
    # OpenBLAS's threads, one for each core, wait for work by spinning: 2²⁶ ticks, 30 ms, as soon as numpy is loaded.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")
    if "bench" not in sys.argv[1:2]:  # experiments compare with pandas
        hide_pandas()


def open_files_for_many() -> None:
    """Let a service have as many open files as the system allows it: its limits on connections come first."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with suppress(OSError, ValueError):  # where the system does not let itself be asked
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def let_go() -> None:
    """Let a further signal end this process at once and silently: nothing is left to clean up."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    if "duckdb" not in sys.modules:  # whose binding takes what is not collected for a leak, and says so
        gc.freeze()  # as it ends, Python would look for garbage three times among all that was loaded


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    stopped_by.append(number)
    raise KeyboardInterrupt


# --- main ---------------------------------------------------------------------------------------------------

# Each command with its line in the help, under the headings that the help shows: a module of this room that has a
# function of the same name, or, for a command with commands of its own, an `app`.
HEADINGS = {
    "See it": {"demo": "The whole system on this machine, with generated data."},
    "One table": {
        "init": "A first job file for a table.",
        "anonymize": "One table in, one verified release out.",
        "compare": "The methods that fit a job, side by side.",
        "keys": "Which few columns identify the people in a table.",
        "mask": "Which columns may be published together.",
        "weights": "How much each attribute matters, learned from queries.",
    },
    "A release": {
        "verify": "Does a release satisfy its job's requirements?",
        "evaluate": "What a release kept of its original.",
        "attack": "What an attacker gets from a release.",
    },
    "Several parties on this machine": {
        "mashup": "Tables of several parties in, one verified release out.",
        "learn": "Tables of several sites in, one model out.",
        "predict": "What a model says of each row of a table.",
    },
    "As a client of a coordinator": {
        "request": "Ask a coordinator for a table.",
        "sessions": "Your requests, and how they stand.",
        "download": "Fetch a published table.",
        "decide": "Accept, relax or withdraw what missed its quality.",
        "cancel": "End a request.",
        "tokens": "Your API tokens and sign-ins.",
    },
    "Running the services": {
        "identity": "Keys and certificates.",
        "party": "A party's node.",
        "coordinator": "The coordinator.",
        "doctor": "Check certificates, clocks, data, database and peers.",
        "audit": "Prove that an audit log is whole.",
    },
    "Research": {"bench": "Rerun an experiment."},
}
COMMANDS = {name: line for commands in HEADINGS.values() for name, line in commands.items()}

# The file that a command shares with others.
_FILES = {
    "attack": "anonymize",
    "cancel": "client",
    "compare": "anonymize",
    "decide": "client",
    "download": "client",
    "evaluate": "anonymize",
    "mashup": "anonymize",
    "mask": "keys",
    "predict": "learn",
    "request": "client",
    "sessions": "client",
    "verify": "anonymize",
    "weights": "anonymize",
}

_INTERRUPTED = 130  # as shells have it: 128 and the number of the signal


class _ByHeading(typer.core.TyperGroup):
    """The commands, listed under their headings."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write one list a heading, all in columns of one width."""
        width = max(map(len, COMMANDS))
        for heading, commands in HEADINGS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), line) for name, line in commands.items()])


def command_line(*names: str) -> typer.Typer:
    """Return the command line with the named commands, or with all; to load those takes longer than most jobs."""
    app = typer.Typer(
        name="masquerade",
        cls=_ByHeading,
        help="Publish and analyse data together without showing each other the raw data.",
        epilog="Exit codes: 0 done; 1 the answer is no; 2 bad input; 3 a peer failed; 4 a bug of ours.",
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback(invoke_without_command=True)(_options)
    for name in names or COMMANDS:
        module = import_module(f"{__package__}.{_FILES.get(name, name)}")
        if hasattr(module, "app") and name not in _FILES:
            app.add_typer(module.app, name=name, short_help=COMMANDS[name])
        else:
            app.command(name, short_help=COMMANDS[name])(getattr(module, name))
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"masquerade {masquerade.__version__}")
        raise typer.Exit


def _options(
    context: typer.Context,
    version: Annotated[
        bool, option("--version", "Print the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Publish and analyse data together without showing each other the raw data."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """Run the command line and exit with the code that DESIGN promises."""
    prepare()
    try:
        code = run()
    except KeyboardInterrupt:  # a second one, while the first was being reported
        code = _INTERRUPTED
    let_go()
    sys.exit(code)


def run() -> int:
    """Run the command line; every failure is one line a problem on standard error."""
    try:
        app = command_line(*(name for name in sys.argv[1:2] if name in COMMANDS))
        code = int(app(standalone_mode=False) or 0)
    except MasqueradeError as error:
        complain(*error.lines)
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except OSError as error:  # a device that is full, for one; our own files have errors of their own
        place = f" ({error.filename})" if error.filename else ""
        complain(f"the system refuses: {error.strerror or type(error).__name__}{place}")
        return BadInput.exit_code
    except SystemExit:  # typer's word for: nobody reads our output any more
        code = 0
    except Exception as error:
        code = _unforeseen(error)
    if code == _INTERRUPTED:
        complain("interrupted")
    return code


def _unforeseen(error: Exception) -> int:
    if hasattr(error, "format_message"):  # wrong words on the command line
        complain(_wrong_word(error))
        return BadInput.exit_code
    if stopped_by:  # an interrupt inside a library can surface as anything
        return _INTERRUPTED
    if os.environ.get("MASQUERADE_TRACEBACK"):
        raise error
    # The text of an unforeseen error may hold a person's data: its kind is shown, its text is not.
    kind = type(error).__name__
    complain(f"a bug of ours ({kind}); set MASQUERADE_TRACEBACK=1 to see where, and please report it")
    return Bug.exit_code


def _wrong_word(error: Any) -> str:
    """A wrong word on the command line: which, and what is allowed. The library's own text may be pydantic's."""
    text: str = error.format_message()
    faults = getattr(error.__cause__, "errors", None)  # it checks words with pydantic, in its newer versions
    if not callable(faults):
        return text
    from masquerade.forms import must_be

    hinted = error.param_hint or (error.param.get_error_hint() if error.param else "")
    where = hinted if isinstance(hinted, str) else " / ".join(hinted)
    fault = faults()[0]
    got = "" if fault["type"] == "value_error" else f"; got {shown(str(fault['input']))}"
    return f"{where.replace(chr(39), '')}: {must_be(fault)}{got}"


def complain(*problems: str) -> None:
    """One unwrapped line a problem on standard error."""
    if sys.stderr is None:  # closed by whoever started us
        return
    for problem in problems:
        line = one_line(" ".join(problem.splitlines()))  # it may hold words of others
        print(f"error: {line}", file=sys.stderr)  # noqa: T201 # the place where errors are printed
