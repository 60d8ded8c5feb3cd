"""The `masquerade` command: its sub-commands, and how every failure ends.

Heavy libraries are imported inside the commands that use them, so that `--help` answers at once.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

import masquerade
from masquerade.cli import (
    anonymize,
    attack,
    audit,
    bench,
    cancel,
    compare,
    coordinator,
    decide,
    demo,
    doctor,
    download,
    evaluate,
    identity,
    init,
    keys,
    mashup,
    mask,
    party,
    request,
    sessions,
    tokens,
    verify,
    weights,
)
from masquerade.cli.process import let_go, prepare, stopped_by
from masquerade.errors import BadInput, Bug, MasqueradeError, one_line, shown

_INTERRUPTED = 130  # as shells have it: 128 and the number of the signal

app = typer.Typer(
    name="masquerade",
    help="Publish and analyse data together without showing each other the raw data.",
    epilog="Exit codes: 0 done; 1 the answer is no; 2 bad input; 3 a peer failed; 4 a bug of ours.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("demo", short_help="A coordinator and three parties here, and one table through it all.")(
    demo.demo
)
app.command("init", short_help="A first job file for a table.")(init.init)
app.command("anonymize", short_help="One table in, one verified release out.")(anonymize.anonymize)
app.command("compare", short_help="The methods that fit a job, side by side.")(compare.compare)
app.command("mashup", short_help="Tables of several parties in, one verified release out.")(mashup.mashup)
app.command("verify", short_help="Does a release satisfy its job's requirements?")(verify.verify)
app.command("evaluate", short_help="What a release kept of its original.")(evaluate.evaluate)
app.command("weights", short_help="How much each attribute matters, learned from queries.")(weights.weights)
app.command("keys", short_help="Which few columns identify the people in a table.")(keys.keys)
app.command("mask", short_help="Which columns may be published together.")(mask.mask)
app.command("attack", short_help="What an attacker gets from a release.")(attack.attack)
app.add_typer(identity.app, name="identity", short_help="Keys and certificates.")
app.add_typer(audit.app, name="audit", short_help="Prove that an audit log is whole.")
app.add_typer(party.app, name="party", short_help="A party's node.")
app.add_typer(coordinator.app, name="coordinator", short_help="The coordinator.")
app.command("request", short_help="Ask a coordinator for a table.")(request.request)
app.command("sessions", short_help="Your requests, and how they stand.")(sessions.sessions)
app.command("download", short_help="Fetch a published table.")(download.download)
app.command("cancel", short_help="End a request.")(cancel.cancel)
app.command("decide", short_help="Accept, relax or withdraw what missed its quality.")(decide.decide)
app.add_typer(tokens.app, name="tokens", short_help="Your API tokens and sign-ins.")
app.command("doctor", short_help="Check certificates, clocks, data, database and peers.")(doctor.doctor)
app.command("bench", short_help="Rerun an experiment.")(bench.bench)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"masquerade {masquerade.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_show_version, is_eager=True),
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
    from masquerade.forms.pydantic_words import must_be

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
