"""`masquerade demo`: a coordinator and three parties on this machine, and one table through the whole path."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from masquerade.cli.output import Json, ProgressDisplay, option, print_json, progress, say

if TYPE_CHECKING:
    from masquerade.demo import Demo
    from masquerade.service import Event


def demo(
    once: Annotated[bool, option("--once", "For scripts: end when the release is there; else Ctrl-C ends it.")] = False,
    folder: Annotated[Path, typer.Option(help="Where to write; made when it is missing.")] = Path("masquerade-demo"),
    people: Annotated[int, typer.Option(min=100, max=100_000_000, help="How many people to generate.")] = 5_000,
    seed: Annotated[int, typer.Option(min=0, help="Another seed, other people.")] = 7,
    json: Json = False,
) -> None:
    """Start a coordinator and three party nodes with generated people, and ask them for one table and two models.

    A bank (SQLite), an insurer (Parquet) and a clinic (CSV), each a process of its own with a fresh certificate and a
    policy. They negotiate, sign a contract, find their common people and cut them into groups; the coordinator
    verifies and publishes. A decision tree and a Bayes net of the same people follow, without a table. The release, the
    models and their reports are written; then the console is yours until Ctrl-C.

    Example: masquerade demo
    """
    from masquerade.demo import run_demo

    with progress() as shown:

        def tell(made: Demo) -> None:
            shown.done()
            if json:
                print_json(made.summary)
            else:
                say(*describe(made.summary), *([] if once else invitation(made)))

        run_demo(
            folder,
            people,
            seed,
            on_stage=shown.stage,
            on_event=lambda event: _show(shown, event),
            on_release=tell,
            stay=not once,
        )


def describe(summary: Mapping[str, Any]) -> list[str]:
    """What came out, for a person; the last line is the cost."""
    seconds = ", ".join(f"{name} {spent:.3f}" for name, spent in summary["seconds"].items())
    sent = ", ".join(f"{name} {count:,} bytes" for name, count in summary["bytes_sent"].items())
    return [
        f"three parties, {summary['common_records']:,} common records; released in {summary['groups']:,} groups",
        *(f"holds: {_requirement(each)}" for each in summary["requirements"] if each["holds"]),
        f"release: {summary['table']}",
        f"report:  {summary['report']}",
        *(f"{name + ':':8} {_model(each)}" for name, each in summary["models"].items()),
        f"transcripts: {summary['transcripts']}",
        f"seconds: {seconds}",
        f"cost: {summary['rounds']} rounds; sent by {sent}",
    ]


def invitation(made: Demo) -> list[str]:
    """Where the console is, and how to get in."""
    users = (f"{name} / {password}" for name, password in made.folder.passwords.items())
    return [
        "",
        f"console: {made.console}",
        f"sign in as {', or '.join(users)}",
        f"(kept in {made.folder.passwords_file}); Ctrl-C ends everything",
    ]


def _model(learned: Mapping[str, Any]) -> str:
    accuracy = learned["metrics"].get("accuracy")
    told = "" if accuracy is None else f", accuracy {accuracy:.3f} on the training records"
    return f"{learned['model']} ({learned['algorithm']['name']} of {learned['records']:,} records{told})"


def _requirement(verdict: dict[str, Any]) -> str:
    named = {key: each for key, each in verdict.items() if key not in ("model", "qid", "holds", "value", "groups")}
    parameters = ", ".join(f"{key} = {each}" for key, each in named.items())
    over = ", ".join(verdict["qid"])
    return f"{verdict['model']} ({parameters}) over {over} (worst group: {verdict['value']})"


def _show(shown: ProgressDisplay, event: Event) -> None:
    if event.status is not None:
        shown.stage(f"session {event.status}")
    elif event.kind == "offer":
        shown.party(str(event.data.get("party")), "has answered")
    elif event.kind == "progress":
        for name, far in event.data.get("parties", {}).items():
            shown.party(name, str(far.get("stage", "")))
