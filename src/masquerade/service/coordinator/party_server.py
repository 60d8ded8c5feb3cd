"""The coordinator's server for the parties' nodes: they push what they publish, and ask whom else it knows.

Mutual TLS shows who calls. Every call and its answer goes into the audit log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from masquerade.errors import MasqueradeError, NotAllowed, PeerRefused
from masquerade.service.clock import Clock
from masquerade.service.control import Parties, Published, read_said
from masquerade.service.control_answers import audited, health_of, no_route, problem, said
from masquerade.service.control_audit import ControlNotes, NotNoted
from masquerade.service.coordinator.directory import Directory
from masquerade.service.coordinator.settings import Settings
from masquerade.service.coordinator.wakeup import Wakeup
from masquerade.service.mutual_tls import caller
from masquerade.service.store import is_outage

log = structlog.get_logger("masquerade.coordinator")


Answer = Callable[[str, bytes], Awaitable[Response]]  # to a party, with its message's body


def party_app(
    settings: Settings,
    directory: Directory,
    wakeup: Wakeup,
    clock: Clock,
    notes: ControlNotes | None = None,
) -> Starlette:
    """The application behind the party server."""

    async def answered(answer: Answer, request: Request) -> Response:
        sender = caller(request.scope)
        try:
            if sender not in settings.parties:
                raise NotAllowed(f"{sender} is not among the parties of this coordinator")
            return await audited(notes, sender, request, partial(answer, sender))
        except NotNoted as error:
            log.error("not answered", party=sender, problem=str(error))
            return problem(500, "the coordinator failed; its log says more")
        except MasqueradeError as error:
            asked = f"{request.method} {request.scope['path']}"
            log.warning("refused", party=sender, asked=asked, problem=str(error))
            return _problem(error)

    async def health(_request: Request) -> Response:
        return said(health_of(settings.identity, clock))

    async def datasets(sender: str, body: bytes) -> Response:
        try:
            published = read_said(body, Published, f"what {sender} publishes")
            await asyncio.to_thread(directory.take_in, published, sender)
        except MasqueradeError as error:
            log.warning("publication refused", party=sender, problem=str(error))
            return _problem(error)
        except Exception as error:
            if not is_outage(error):
                raise
            log.error("publication not stored", party=sender, problem="no database")
            return problem(503, "the coordinator's database does not answer; publish again later")
        log.info("published", party=sender, datasets=len(published.datasets))
        wakeup.ring()
        return Response(status_code=204)

    async def parties(_sender: str, _body: bytes) -> Response:
        return said(
            Parties(
                {
                    party: settings.trust.fingerprint(party)
                    for party in settings.parties
                    if party in settings.trust.names
                }
            )
        )

    routes = [
        Route("/v1/health", health),
        Route("/v1/datasets", partial(answered, datasets), methods=["POST"]),
        Route("/v1/parties", partial(answered, parties)),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: no_route})


def _problem(error: MasqueradeError) -> Response:
    status = 403 if isinstance(error, NotAllowed | PeerRefused) else 422
    return problem(status, *error.problems)
