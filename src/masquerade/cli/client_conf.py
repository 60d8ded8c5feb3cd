"""What the commands of a client share: the option --conf, the connection, and how a session is described."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from masquerade.cli.output import Progress
from masquerade.errors import AnswerIsNo, one_line

if TYPE_CHECKING:
    from masquerade.library.client import Client
    from masquerade.library.client.settings import ClientSettings
    from masquerade.service.resources import Event, Session

Conf = Annotated[
    Path | None,
    typer.Option(
        "--conf",
        metavar="CONF",
        help="The client's configuration (TOML). Without it client.toml, or else MASQUERADE_URL and MASQUERADE_TOKEN.",
        show_default=False,
    ),
]
SessionId = Annotated[
    str, typer.Argument(metavar="SESSION", help="The session's identifier.", show_default=False)
]


def connected(settings: ClientSettings) -> Client:
    """A client as the settings say."""
    from masquerade.library.client import Client

    return Client(settings.url, settings.token, ca=settings.ca, identity=settings.identity)


def client_of(conf: Path | None) -> Client:
    """A client as the file says, or the environment."""
    from masquerade.library.client.settings import found_settings

    return connected(found_settings(conf))


def again(command: str, session: str, conf: Path | None) -> str:
    """A command about a session, to be typed as it stands."""
    option = f" --conf {shlex.quote(str(conf))}" if conf is not None else ""
    return f"masquerade {command.replace('SESSION', shlex.quote(session))}{option}"


def wait_for(client: Client, session: str, shown: Progress, conf: Path | None) -> Session:
    """Wait for the end of a session, whatever it is; `insist` judges it.

    Whoever stops waiting reads how to go on: the session runs without us.
    """
    from masquerade.library.client.results import SessionFailed

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

    def __init__(self, shown: Progress) -> None:
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
    from masquerade.library.client.results import unless_failed

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
    from masquerade.service.quality import why_waits

    return "; ".join(why_waits(dict(session.missed)))


def waiting_lines(session: Session) -> list[str]:
    """What a release that waits for its client has lost, costs, and means for later requests."""
    if session.missed is None:
        return []
    from masquerade.service.quality import said_of_binding, said_of_losses

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
        from masquerade.service.quality import missed_terms

        told = dict(session.missed)
        missed = [(term, told[term.figure]) for term in missed_terms(told)]
        if missed and all(figure is not None for _, figure in missed):
            options = (
                f"--{term.key.replace('_', '-')} {math.ceil(figure * 100) / 100:g}" for term, figure in missed
            )
            choices.insert(1, ("be content with less", f"relax {' '.join(options)}"))
    return [(what, again(f"decide SESSION {word}", session.id, conf)) for what, word in choices]


def _method_lines(session: Session) -> list[str]:
    """The method that was agreed on; if it was chosen, why."""
    from masquerade.methods import described
    from masquerade.protocol.method_choice import chosen_lines

    method = f"  method: {described(session.algorithm or {})}"
    return [method, *(f"    {line}" for line in chosen_lines(session.choice))] if session.choice else [method]


ROLLED_UP = "rolled up from an earlier release of the same tables"


def lines_of(session: Session, conf: Path | None = None, *, decides: bool = True) -> list[str]:
    """A few lines about a session, for a person: how it stands, and what it waits for; `decides` as in `insist`."""
    from masquerade.methods import product_by

    lines = [f"session {session.id}: {session.status}"]
    lines += [
        f"  purpose: {session.purpose}",
        f"  asked by {session.client} of {', '.join(session.providers) or '…'}",
    ]
    made = product_by(session.request.get("algorithm"))
    if session.horizontal and made.has_groups:
        from masquerade.methods import unnamed_method
        from masquerade.protocol.arrangement import ARRANGEMENTS

        m = session.request.get("m")
        method = unnamed_method("horizontal").parameters() | (session.request.get("algorithm") or {})
        wished = {**method, "m": ARRANGEMENTS["horizontal"].default_m if m is None else m}
        lines.append(f"  to be published together, at least {guarded(wished)}")
    if session.agreed:
        lines.append(f"  agreed: {'; '.join(session.agreed)}")
    if session.algorithm is not None:
        lines += _method_lines(session)
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
