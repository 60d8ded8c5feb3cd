"""The node's control server: which address takes which message. All of it is under mutual TLS.

Only the pinned certificate of the configured coordinator may ask for anything but `/v1/health`, which every pinned
peer may. Errors are `application/problem+json`; of a failure of ours its kind is told, and nothing else.
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
from masquerade.service.control import AskOffer, AskSignature, Prepare, Start, read_said
from masquerade.service.control_answers import no_route, problem, said
from masquerade.service.mutual_tls import MOST_BYTES, caller
from masquerade.service.node.logs import log
from masquerade.service.node.node import PartyNode

_STATUS: dict[type[MasqueradeError], tuple[int, str]] = {
    NotAllowed: (403, "not allowed"),
    NotFound: (404, "not found"),
    Conflict: (409, "conflict"),
    ParameterError: (422, "not understood"),
}

Answer = Callable[[PartyNode, Request], Awaitable[Any]]


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
        ],
        exception_handlers={HTTPException: no_route},
    )


async def _health(node: PartyNode, _: Request) -> Any:
    return node.health()


async def _datasets(node: PartyNode, _: Request) -> Any:
    return await asyncio.to_thread(node.published)


async def _offer(node: PartyNode, request: Request) -> Any:
    said = read_said(await _body(request), AskOffer, "offer")
    return await asyncio.to_thread(node.offer, said)


async def _signature(node: PartyNode, request: Request) -> Any:
    said = read_said(await _body(request), AskSignature, "contract")
    return await asyncio.to_thread(node.signature, said)


async def _prepare(node: PartyNode, request: Request) -> Any:
    return await node.prepare(read_said(await _body(request), Prepare, "session"))


async def _start(node: PartyNode, request: Request) -> Any:
    said = read_said(await _body(request), Start, "start")
    return node.start(request.path_params["contract"], said)


async def _progress(node: PartyNode, request: Request) -> Any:
    return node.sessions.progress(request.path_params["contract"])


async def _cancel(node: PartyNode, request: Request) -> Any:
    return await node.sessions.cancel(request.path_params["contract"])


async def _answered(node: PartyNode, answer: Answer, everybody: bool, request: Request) -> Response:
    """An answer as JSON, or a problem."""
    try:
        who = caller(request.scope)
        if not everybody and who != node.settings.coordinator.name:
            what = f"{request.method} {request.scope['path']}"
            raise await asyncio.to_thread(node.refuse_caller, who, what)
        return said(await answer(node, request))
    except MasqueradeError as error:
        status, title = _STATUS.get(type(error), (500, "failed"))
        if status < 500:
            return problem(status, title, error.problems)
        return _failed(error)
    except Exception as error:  # its text may hold a person's data
        return _failed(error)


def _failed(error: Exception) -> Response:
    kind = type(error).__name__
    log().error("a request failed", kind=kind)
    return problem(500, "failed", (f"the party failed ({kind}); its log says more",))


async def _body(request: Request) -> bytes:
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MOST_BYTES:
            raise ParameterError(f"a message has at most {MOST_BYTES:,} bytes")
    return bytes(data)
