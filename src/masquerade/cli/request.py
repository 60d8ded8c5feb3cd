"""`masquerade request CONF`: ask a coordinator for an integrated table, and wait for it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from masquerade.cli.client_conf import ROLLED_UP, again, connected, guarded, insist, lines_of, wait_for
from masquerade.cli.output import Json, print_json, progress, say
from masquerade.errors import ParameterError, one_line

if TYPE_CHECKING:
    from masquerade.library.client import Client


def request(
    conf: Annotated[
        Path,
        typer.Argument(
            metavar="CONF", help="The client's configuration with a [request] (TOML).", show_default=False
        ),
    ],
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait for the session's end, or only begin it.")
    ] = True,
    estimate: Annotated[
        bool,
        typer.Option("--estimate", help="Stop before publishing, with the losses and the cost; then decide."),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="FILE",
            help="Write the table here (.csv or .parquet), or the model or ratios (.json).",
            show_default=False,
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE", help="Write the report here.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """Ask for an integrated table: the parties negotiate, compute, and the verified release is published to you.

    The first release of a table binds later ones: until the table changes, the parties release the same people once
    more only in the same groups, or in coarser ones. A release that would lose nearly all of a column, or misses the
    wished quality, waits for your word before it is published, and so does every release with --estimate: see
    `masquerade decide`.

    Exit code 0 when it is published (begun, with --no-wait; estimated, with --estimate); 1 when it is refused or fails,
    with one line a reason, or waits for your word; 3 when it fails because a party cannot be reached, is
    not who it should be, or breaks the protocol. Ctrl-C leaves the session running.

    Example: masquerade request client.toml --output release.csv --report report.html
    """
    from masquerade.data.write import check_target
    from masquerade.library.client.calls import MODEL_SUFFIX
    from masquerade.library.client.requests import whole_request
    from masquerade.library.client.settings import read_settings

    if estimate and (output is not None or report is not None):
        raise ParameterError(
            "--estimate: nothing is published yet; take it with `masquerade download` once you have accepted it"
        )
    if not wait and (output is not None or report is not None):
        raise ParameterError(
            "--no-wait: there is nothing to write yet; take it later with `masquerade download`"
        )
    if output is not None and output.suffix.lower() != MODEL_SUFFIX:
        check_target(output)
    if report is not None and not report.parent.is_dir():
        raise ParameterError(f"{report}: cannot be written: there is no folder {report.parent}")
    settings = read_settings(conf, with_request=True)
    with connected(settings) as client:
        if sys.stderr is not None and sys.stderr.isatty() and whole_request(conf).get("privacy"):
            typer.echo(BINDS, err=True)  # for people; what reads standard error finds problems alone
        session = client.request(conf, estimate=estimate)
        if not wait:
            if json:
                print_json(session.content())
            else:
                say(
                    f"session {session.id}",
                    f"watch it: {again('sessions SESSION --watch', session.id, conf)}",
                )
            return
        with progress() as shown:
            shown.stage(f"session {session.id}")
            session = wait_for(client, session.id, shown, conf)
        written = take(client, session.id, output, report) if session.published else {}
        if json:
            print_json(session.content() | written)
        elif session.published:
            say(*written_lines(session.id, written))
            if output is None:
                say(f"take it: {again('download SESSION', session.id, conf)}")
        if estimate and session.status == "awaiting_client":
            if not json:
                say(*lines_of(session, conf))
            return
        insist(session, conf)


BINDS = (
    "note: the first release of a table binds later ones: until it changes, the same people are released again only in"
    " the same groups or in coarser ones; --estimate shows losses and cost before anything is published"
)


def take(
    client: Client, session: str, output: Path | None, report: Path | None, *, escape_formulas: bool = False
) -> dict[str, Any]:
    """Write what was asked for; where it went, and what is known of it."""
    from masquerade.protocol.product import product_in

    release = (
        client.download(session, output, escape_formulas=escape_formulas)
        if output is not None
        else client.release(session)
    )
    product = product_in(release.summary).name
    written: dict[str, Any] = {"product": product, "rows": release.rows, "sha256": release.sha256}
    told = ["kind", "m", "third_party", "rolled_up_from", "quality", "service_levels", "warnings"]
    told += ["ratios", "common_records"]
    written |= {key: release.summary[key] for key in told if key in release.summary}
    if output is not None:
        written[product] = str(output)
    if report is not None:
        written["report"] = str(client.report(session, report))
    return written


def written_lines(session: str, written: dict[str, Any]) -> list[str]:
    """A few lines for a person."""
    from masquerade.protocol.product import PRODUCTS

    made = next(each for each in PRODUCTS if each.name == written["product"])
    counted = written["common_records"] if "ratios" in written else written["rows"]
    lines = [f"session {session}: published, {made.counted.format(counted)}"]
    if "ratios" in written:
        lines += [f"{each['ratio']:.6f}: {one_line(str(each['meaning']))}" for each in written["ratios"]]
    if "m" in written:
        lines.append(f"published together: {guarded(written)}")
    if written.get("rolled_up_from") is not None:
        lines.append(ROLLED_UP)
    lines += [f"warning: {one_line(str(each))}" for each in written.get("warnings") or ()]
    if written.get("service_levels"):
        from masquerade.service.coordinator.service_levels import missed_levels

        missed = missed_levels(written["service_levels"])
        lines += [f"service level missed: {one_line(line)}" for line in missed]
    return lines + [f"{name}: {written[name]}" for name in (made.name, "report") if name in written]
