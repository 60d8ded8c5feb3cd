"""The coordinator's server for the parties' nodes: they push what they publish, and ask whom else it knows.

Mutual TLS shows who calls. Every call and its answer goes into the audit log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from importlib.metadata import version

import structlog
from cryptography import x509
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from masquerade.errors import MasqueradeError, NotAllowed, ParameterError, PeerRefused
from masquerade.net.identity import Identity
from masquerade.service.clock import Clock
from masquerade.service.control import Health, Parties, Published, read_said
from masquerade.service.control_answers import no_route, problem, said
from masquerade.service.control_audit import ControlNotes, NotNoted
from masquerade.service.coordinator.directory import Directory
from masquerade.service.coordinator.settings import Settings
from masquerade.service.coordinator.wakeup import Wakeup
from masquerade.service.mutual_tls import MOST_BYTES, caller
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
        sender, method, path = caller(request.scope), request.method, request.scope["path"]
        try:
            if sender not in settings.parties:
                raise NotAllowed(f"{sender} is not among the parties of this coordinator")
            body = await _body(request)
            if notes is not None:
                await notes.note("received", sender, method, path, body)
            response = await answer(sender, body)
            if notes is not None:
                await notes.note("sent", sender, method, path, bytes(response.body), response.status_code)
        except NotNoted as error:
            log.error("not answered", party=sender, problem=str(error))
            return problem(500, "the coordinator failed; its log says more")
        except MasqueradeError as error:
            log.warning("refused", party=sender, asked=f"{method} {path}", problem=str(error))
            return _problem(error)
        return response

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
        return said(Parties({party: settings.trust.fingerprint(party) for party in settings.parties}))

    routes = [
        Route("/v1/health", health),
        Route("/v1/datasets", partial(answered, datasets), methods=["POST"]),
        Route("/v1/parties", partial(answered, parties)),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: no_route})


def health_of(identity: Identity, clock: Clock) -> Health:
    """Who answers, and what its clock says."""
    until = x509.load_pem_x509_certificate(identity.certificate).not_valid_after_utc
    return Health(identity.name, version("masquerade"), clock.now().timestamp(), int(until.timestamp()))


async def _body(request: Request) -> bytes:
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MOST_BYTES:
            raise ParameterError(f"at most {MOST_BYTES:,} bytes are taken")
    return bytes(data)


def _problem(error: MasqueradeError) -> Response:
    status = 403 if isinstance(error, NotAllowed | PeerRefused) else 422
    return problem(status, *error.problems)
