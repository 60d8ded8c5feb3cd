"""The node's control server: which address takes which message. All of it is under mutual TLS.

Only the pinned certificate of the configured coordinator may ask for anything but `/v1/health`, which every pinned
peer may. What it says and is told goes into the audit log; of others their refusal does. Errors are
`application/problem+json`; of a failure of ours they name the kind, and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from masquerade.errors import Conflict, MasqueradeError, NotAllowed, NotFound, ParameterError
from masquerade.files import FileError
from masquerade.service.control import AskOffer, AskSignature, Prepare, Start, read_said
from masquerade.service.control_answers import audited, no_route, problem, said
from masquerade.service.control_audit import NotNoted
from masquerade.service.logs import log
from masquerade.service.mutual_tls import caller
from masquerade.service.node.node import PartyNode
from masquerade.service.problem_document import status_of

_TOLD = (NotAllowed, NotFound, Conflict, ParameterError)  # others may hold a person's data

Answer = Callable[[PartyNode, Request, bytes], Awaitable[Any]]  # with the message's body


def control_app(node: PartyNode) -> Starlette:
    """The application that `mutual_tls.serve` serves."""

    def route(path: str, answer: Answer, method: str, *, everybody: bool = False) -> Route:
        return Route(path, partial(_answered, node, answer, everybody), methods=[method])

    contract = "/v1/sessions/{contract}"
    return Starlette(
        routes=[
            route("/v1/health", _health, "GET", everybody=True),
            route("/v1/datasets", _datasets, "GET"),
            route("/v1/offers", _offer, "POST"),
            route("/v1/contracts", _signature, "POST"),
            route("/v1/sessions", _prepare, "POST"),
            route(f"{contract}/start", _start, "POST"),
            route(contract, _progress, "GET"),
            route(contract, _cancel, "DELETE"),
            route(f"{contract}/decline", _decline, "POST"),
        ],
        exception_handlers={HTTPException: no_route},
    )


async def _health(node: PartyNode, _request: Request, _body: bytes) -> Any:
    return node.health()


async def _datasets(node: PartyNode, _request: Request, _body: bytes) -> Any:
    return await asyncio.to_thread(node.published)


async def _offer(node: PartyNode, _request: Request, body: bytes) -> Any:
    said = read_said(body, AskOffer, "offer")
    return await asyncio.to_thread(node.offer, said)


async def _signature(node: PartyNode, _request: Request, body: bytes) -> Any:
    said = read_said(body, AskSignature, "contract")
    return await asyncio.to_thread(node.signature, said)


async def _prepare(node: PartyNode, _request: Request, body: bytes) -> Any:
    return await node.prepare(read_said(body, Prepare, "session"))


async def _start(node: PartyNode, request: Request, body: bytes) -> Any:
    said = read_said(body, Start, "start")
    return node.start(request.path_params["contract"], said)


async def _progress(node: PartyNode, request: Request, _body: bytes) -> Any:
    return node.sessions.progress(request.path_params["contract"])


async def _decline(node: PartyNode, request: Request, _body: bytes) -> Any:
    return await asyncio.to_thread(node.decline, request.path_params["contract"])


async def _cancel(node: PartyNode, request: Request, _body: bytes) -> Any:
    return await node.sessions.cancel(request.path_params["contract"])


async def _answered(node: PartyNode, answer: Answer, everybody: bool, request: Request) -> Response:
    """An answer as JSON, or a problem; both are in the audit log before they leave."""
    try:
        who = caller(request.scope)
        if everybody:
            return said(await answer(node, request, b""))
        if who != node.settings.coordinator.name:
            what = f"{request.method} {request.scope['path']}"
            raise await asyncio.to_thread(node.refuse_caller, who, what)
        return await audited(node.notes, who, request, partial(_tried, node, answer, request))
    except Exception as error:
        return _problem(error)


async def _tried(node: PartyNode, answer: Answer, request: Request, body: bytes) -> Response:
    try:
        return said(await answer(node, request, body))
    except Exception as error:
        return _problem(error)


def _problem(error: Exception) -> Response:
    if isinstance(error, MasqueradeError) and type(error) in _TOLD:
        return problem(status_of(error), *error.problems)
    kind = type(error).__name__
    told = {"problems": list(error.lines)} if isinstance(error, NotNoted | FileError) else {}
    log().error("a request failed", kind=kind, **told)
    return problem(500, f"the party failed ({kind}); its log says more")
