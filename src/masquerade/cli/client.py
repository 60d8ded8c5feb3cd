"""The commands of a client, and what they share: the option --conf, the connection, how a session is described."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from masquerade.cli.output import Json, ProgressDisplay, argument, option, print_json, progress, say
from masquerade.errors import AnswerIsNo, ParameterError, one_line
from masquerade.service import Decision

if TYPE_CHECKING:
    from masquerade.client import Client, ClientSettings
    from masquerade.service import Event, Session

Conf = Annotated[
    Path | None,
    option(
        "--conf CONF",
        "The client's configuration (TOML). Without it client.toml, or else MASQUERADE_URL and MASQUERADE_TOKEN.",
    ),
]
SessionId = Annotated[str, argument("SESSION", "The session's identifier.")]


def connected(settings: ClientSettings) -> Client:
    """A client as the settings say."""
    from masquerade.client import Client

    return Client(settings.url, settings.token, ca=settings.ca, identity=settings.identity)


def client_of(conf: Path | None) -> Client:
    """A client as the file says, or the environment."""
    from masquerade.client import found_settings

    return connected(found_settings(conf))


def again(command: str, session: str, conf: Path | None) -> str:
    """A command about a session, to be typed as it stands."""
    option = f" --conf {shlex.quote(str(conf))}" if conf is not None else ""
    return f"masquerade {command.replace('SESSION', shlex.quote(session))}{option}"


def wait_for(client: Client, session: str, shown: ProgressDisplay, conf: Path | None) -> Session:
    """Wait for the end of a session, whatever it is; `insist` judges it.

    Whoever stops waiting reads how to go on: the session runs without us.
    """
    from masquerade.client import SessionFailed

    try:
        return client.wait(session, Teller(shown))
    except SessionFailed as failed:
        return failed.session
    except KeyboardInterrupt:
        watch = again("sessions SESSION --watch", session, conf)
        cancel = again("cancel SESSION", session, conf)
        typer.echo(f"session {session} goes on; watch it: {watch}; end it: {cancel}", err=True)
        raise


class Teller:
    """Shows on standard error what happens in a session."""

    def __init__(self, shown: ProgressDisplay) -> None:
        self._shown = shown

    def __call__(self, event: Event) -> None:
        """Show an event."""
        shown, data = self._shown, event.data
        for key in ("cause", "text", "party"):  # others wrote it: what it holds must not steer a terminal
            if isinstance(data.get(key), str):
                data = {**data, key: one_line(data[key])}
        if event.kind == "progress" and isinstance(data.get("parties"), dict):
            for name, party in data["parties"].items():
                doing = party.get("doing") if isinstance(party, dict) else None
                shown.party(one_line(str(name)), one_line(str(doing or "…")))
        elif event.kind == "status":
            cause = f": {data['cause']}" if data.get("cause") else ""
            shown.stage(f"{data.get('to')}{cause}")
        elif event.kind in ("offer", "counter"):
            who = data.get("party", "the coordinator")
            shown.stage(f"negotiating: round {data.get('round')}, {event.kind} of {who}")
        elif event.kind == "roll_up":
            shown.stage("negotiating: an earlier release of the same tables can be rolled up")
        elif event.kind == "approval":
            shown.stage(f"negotiating: a person at {data.get('party')} has to approve it")
        elif event.kind == "problem":
            shown.stage(f"{data.get('party') or 'one of the parties'}: {data.get('text')}")
        elif event.kind == "contract" and isinstance(data.get("requirements"), list):
            shown.stage(one_line(f"agreed: {'; '.join(map(str, data['requirements']))}"))


def guarded(kind: Mapping[str, Any]) -> str:
    """What a horizontal release, or the wish for one, withstands: for a person."""
    m = kind.get("m")
    whom = f"any {m} colluding provider{'' if m == 1 else 's'}" if m else "outsiders only"
    return f"against {whom}, third party {kind.get('third_party')}"


def insist(session: Session, conf: Path | None, *, decides: bool = True) -> None:
    """AnswerIsNo with every reason when a session ended without a release, or waits for its client's word.

    SessionFailed, a PeerError, when a party is the reason. `decides`: whoever reads it may say that word.
    """
    from masquerade.client import unless_failed

    if session.status == "awaiting_client":
        words = [f"{what}: {command}" for what, command in (_decisions(session, conf) if decides else ())]
        told = [_missed(session), *waiting_lines(session), _waits(session, decides), *words]
        why = "; ".join([f"session {session.id}: {told[0]}", *told[1:]])
        raise AnswerIsNo(why, *map(one_line, session.reasons))
    unless_failed(session)
    if session.problems:
        raise AnswerIsNo(*map(one_line, session.problems))


def _missed(session: Session) -> str:
    """Why a session waits for its client."""
    if session.missed is None:
        return session.cause or "the release misses the wished quality"
    from masquerade.service import why_waits

    return "; ".join(why_waits(dict(session.missed)))


def waiting_lines(session: Session) -> list[str]:
    """What a release that waits for its client has lost, costs, and means for later requests."""
    if session.missed is None:
        return []
    from masquerade.service import said_of_binding, said_of_losses

    told = dict(session.missed)
    lines = {
        "losses": said_of_losses(told) or None,
        "rows": None if told["rows"] is None else f"{told['rows']:,}",
        "cost": None if told["cost"] is None else f"{told['cost']} cents",
        "later": said_of_binding(told),
    }
    return [f"{name}: {text}" for name, text in lines.items() if text is not None]


def _waits(session: Session, decides: bool) -> str:
    return f"nothing is published before {'you decide' if decides else f'{session.client} decides'}"


def _decisions(session: Session, conf: Path | None) -> list[tuple[str, str]]:
    """What can be decided, each with its command, to be typed as it stands."""
    choices = [("take it as it is", "accept"), ("decline it", "withdraw")]
    if session.missed is not None:
        from masquerade.service import missed_terms

        told = dict(session.missed)
        missed = [(term, told[term.figure]) for term in missed_terms(told)]
        if missed and all(figure is not None for _, figure in missed):
            options = (f"--{term.key.replace('_', '-')} {math.ceil(figure * 100) / 100:g}" for term, figure in missed)
            choices.insert(1, ("be content with less", f"relax {' '.join(options)}"))
    return [(what, again(f"decide SESSION {word}", session.id, conf)) for what, word in choices]


ROLLED_UP = "rolled up from an earlier release of the same tables"


def lines_of(session: Session, conf: Path | None = None, *, decides: bool = True) -> list[str]:
    """A few lines about a session, for a person: how it stands, and what it waits for; `decides` as in `insist`."""
    from masquerade.methods import product_by

    lines = [f"session {session.id}: {session.status}"]
    lines += [f"  purpose: {session.purpose}", f"  asked by {session.client} of {', '.join(session.providers) or '…'}"]
    made = product_by(session.request.get("algorithm"))
    if session.horizontal and made.has_groups:
        from masquerade.arrangement import ARRANGEMENTS
        from masquerade.methods import unnamed_method

        m = session.request.get("m")
        method = unnamed_method("horizontal").parameters() | (session.request.get("algorithm") or {})
        wished = {**method, "m": ARRANGEMENTS["horizontal"].default_m if m is None else m}
        lines.append(f"  to be published together, at least {guarded(wished)}")
    if session.agreed:
        lines.append(f"  agreed: {'; '.join(session.agreed)}")
    if session.algorithm is not None:
        from masquerade.arrangement import chosen_lines
        from masquerade.methods import described

        lines.append(f"  method: {described(session.algorithm)}")
        lines += [f"    {line}" for line in chosen_lines(session.choice)] if session.choice else []
    if session.rolled_up_from is not None:
        lines.append(f"  {ROLLED_UP} ({session.rolled_up_from[:12]}…)")
    if session.attempts:
        lines.append(f"  attempt {session.attempts} of {session.attempt_limit}")
    if session.rows is not None:
        counted = made.counted.format(session.rows)
        lines.append(f"  {counted}{', made for the same terms before' if session.cached else ''}")
    if session.approvals:
        lines.append(f"  waits for the approval of a person at {', '.join(session.approvals)}")
    if session.status == "awaiting_client":
        lines.append(f"  {_missed(session)}; {_waits(session, decides)}")
        lines += [f"  {line}" for line in waiting_lines(session)]
        lines += [f"  {what}: {command}" for what, command in (_decisions(session, conf) if decides else ())]
    reasons = session.reasons or ((session.cause,) if session.cause else ())
    return [one_line(line) for line in (*lines, *(f"  {reason}" for reason in reasons))]


def cancel(session: SessionId, conf: Conf = None, json: Json = False) -> None:
    """End a session, whatever it is doing. What is published stays published: that is exit code 1.

    Example: masquerade cancel 5f2c0e…
    """
    with client_of(conf) as client:
        ended = client.cancel(session)
    if json:
        print_json(ended.content())
    else:
        say(*lines_of(ended, conf))


def decide(
    session: SessionId,
    decision: Annotated[Decision, argument("DECISION", "One of accept, relax, withdraw.")],
    request: Annotated[
        Path | None, option("--request FILE", "relax: the keys of the request that change (TOML).")
    ] = None,
    most_error: Annotated[
        float | None, option("--most-error E", "relax: the error that you would take instead.")
    ] = None,
    most_ncp: Annotated[
        float | None, option("--most-ncp N", "relax: the normalised certainty penalty that you would take instead.")
    ] = None,
    most_query_error: Annotated[
        float | None, option("--most-query-error Q", "relax: the query error that you would take instead.")
    ] = None,
    conf: Conf = None,
    json: Json = False,
) -> None:
    """Decide on a session that awaits its client: its release was made, and misses the quality you wished for.

    accept publishes it as it is; relax asks the parties again, for less, and where only the wished quality is another
    publishes it if that is met; withdraw does without it. Nothing is published, and nothing charged, before.

    Example: masquerade decide 5f2c0e… relax --most-error 0.3
    """
    from masquerade.client import keys_of

    changes: dict[str, Any] = keys_of(request) if request is not None else {}
    wished = {"most_error": most_error, "most_ncp": most_ncp, "most_query_error": most_query_error}
    options = {key: limit for key, limit in wished.items() if limit is not None}
    changes |= options
    if (decision is Decision.RELAX) != bool(changes):
        wrong = "relax: give --most-error E, --most-ncp N, --most-query-error Q or --request FILE: what changes"
        raise ParameterError(wrong if not changes else f"{decision}: nothing can change; that is for relax")
    with client_of(conf) as client:
        if decision is Decision.RELAX:
            with _naming(request, options):
                decided = client.relax(session, changes)
        elif decision is Decision.ACCEPT:
            decided = client.accept(session)
        else:
            decided = client.withdraw(session)
    if json:
        print_json(decided.content())
        return
    say(*lines_of(decided, conf))
    if decided.published:
        say(f"take it: {again('download SESSION', session, conf)}")
    elif decision is Decision.RELAX:
        say(f"watch it: {again('sessions SESSION --watch', session, conf)}")


@contextmanager
def _naming(request: Path | None, options: Mapping[str, float]) -> Iterator[None]:
    """Let what the coordinator finds wrong name the file, or the option, that says it."""
    from masquerade.client import is_of_request, placed

    try:
        yield
    except ParameterError as error:
        given = [each for each in error.problems if is_of_request(each) and each.key[:1] and each.key[0] in options]
        others = [each for each in error.problems if each not in given]
        named = (each.at(source=f"--{str(each.key[0]).replace('_', '-')}", key=()) for each in given)
        raise ParameterError(*named, *placed(others, request)) from None


def request(
    conf: Annotated[Path, argument("CONF", "The client's configuration with a [request] (TOML).")],
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait for the session's end, or only begin it.")
    ] = True,
    estimate: Annotated[
        bool, option("--estimate", "Stop before publishing, with the losses and the cost; then decide.")
    ] = False,
    output: Annotated[
        Path | None, option("--output FILE", "Write the table here (.csv or .parquet), or the model or ratios (.json).")
    ] = None,
    report: Annotated[Path | None, option("--report FILE", "Write the report here.")] = None,
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
    from masquerade.client import MODEL_SUFFIX, read_settings, whole_request
    from masquerade.data import check_target

    if estimate and (output is not None or report is not None):
        raise ParameterError(
            "--estimate: nothing is published yet; take it with `masquerade download` once you have accepted it"
        )
    if not wait and (output is not None or report is not None):
        raise ParameterError("--no-wait: there is nothing to write yet; take it later with `masquerade download`")
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
                say(f"session {session.id}", f"watch it: {again('sessions SESSION --watch', session.id, conf)}")
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
    from masquerade.arrangement import product_in

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
    from masquerade.arrangement import PRODUCTS

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
        from masquerade.service import missed_levels

        missed = missed_levels(written["service_levels"])
        lines += [f"service level missed: {one_line(line)}" for line in missed]
    return lines + [f"{name}: {written[name]}" for name in (made.name, "report") if name in written]


def download(
    session: SessionId,
    output: Annotated[
        Path | None,
        option(
            "--output FILE",
            "Where to write the table: .csv or .parquet; a model or ratios: .json. SESSION.csv without it.",
        ),
    ] = None,
    report: Annotated[Path | None, option("--report FILE", "Write the report here.")] = None,
    escape_formulas: Annotated[
        bool, option("--escape-formulas", "In a .csv, put ' before cells that a spreadsheet would run.")
    ] = False,
    conf: Conf = None,
    json: Json = False,
) -> None:
    """Write the table of a published session to a file, and its report: all of each, or no file.

    What comes is compared with the release's digest before it gets its name.

    Example: masquerade download 5f2c0e… --output release.parquet
    """
    from masquerade.client import checked_session

    target = output if output is not None else Path(f"{checked_session(session)}.csv")
    with client_of(conf) as client, progress() as shown:
        shown.stage(f"downloading {target}")
        written = take(client, session, target, report, escape_formulas=escape_formulas)
    if json:
        print_json({"session": session} | written)
    else:
        say(*written_lines(session, written))


def sessions(
    session: Annotated[str | None, argument("SESSION", "One session; without it the newest.")] = None,
    watch: Annotated[bool, option("--watch", "Follow the session until it ends.")] = False,
    status: Annotated[str | None, option("--status STATUS", "Only those, such as running.")] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="Show at most N.", min=1)] = 20,
    everyone: Annotated[bool, option("--everyone", "Everybody's, for admins.")] = False,
    conf: Conf = None,
    json: Json = False,
) -> None:
    """Show your newest sessions, or one of them; with --watch, follow it to its end.

    Exit code 0; with --watch 1 when the session is refused or fails, with one line a reason, and 3 when it fails
    because of a party.

    Example: masquerade sessions --status running
    """
    if watch and session is None:
        raise ParameterError("--watch: name the session that is to be followed")
    with client_of(conf) as client:
        if session is None:
            found = client.sessions(status=status, limit=limit, everyone=everyone)
            if json:
                print_json({"sessions": [each.content() for each in found]})
            else:
                say(*(table_of(found) if found else ["no sessions"]))
            return
        one = client.session(session)
        if watch and not one.final:
            with progress() as shown:
                one = wait_for(client, session, shown, conf)
        decides = one.status != "awaiting_client" or one.client == client.me().name
        if json:
            print_json(one.content())
        else:
            say(*lines_of(one, conf, decides=decides))
        if watch:
            insist(one, conf, decides=decides)


def table_of(found: Sequence[Session]) -> list[str]:
    """A table for people, in columns as wide as they need."""
    head = ("STATUS", "CREATED", "COLUMNS", "PURPOSE", "PARTIES", "SESSION", "CAUSE")
    rows = [head]
    for each in found:
        columns = _short(", ".join(map(str, each.request.get("attributes") or ())), 40)
        created = f"{each.created:%Y-%m-%d %H:%M}" if each.created is not None else ""
        told = (columns, _short(each.purpose, 30), ", ".join(each.providers), each.id, _short(each.cause or "", 60))
        rows.append((each.status, created, *told))
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _short(text: str, longest: int) -> str:
    line = one_line(" ".join(text.split()))  # others wrote it
    return line if len(line) <= longest else line[: longest - 1] + "…"
