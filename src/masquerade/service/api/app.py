"""The coordinator's public app: the API under `/api/v1`, health and metrics beside it. The console is added later.

The API is a mounted app with its own errors, limits and headers, independent of everything else that is served here.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.openapi.utils import get_openapi

from masquerade.service.api import access, docs_page, events, health, sessions
from masquerade.service.api.access import no_unknown_parameters
from masquerade.service.api.events import Streams
from masquerade.service.api.health import CachedHealth, Measure, Measures
from masquerade.service.api.middleware import BodyLimit, Headers, RateLimit
from masquerade.service.api.problems import HANDLERS, LastResort
from masquerade.service.coordinator.coordinator import Coordinator
from masquerade.service.wire.problems import PAGE, ProblemDocument

PREFIX = "/api/v1"
_TITLE = "Masquerade coordinator"
_DESCRIPTION = (
    "Ask for a table that several organisations make together without showing each other their data,"
    " watch it being made, and fetch it.\n\n"
    "Every request but `POST /sign-in` needs a token in the header `Authorization: Bearer TOKEN`. Every error is"
    f" `application/problem+json` with one line a problem, and a `type` that {PAGE} explains. Lists come in pages:"
    " `next` of one is `after` of the next. `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset` tell how"
    " many requests are left; 429 comes with `Retry-After`."
)


def create_app(coordinator: Coordinator) -> FastAPI:
    """Create the app that people and their programs talk to.

    To stop, the server must call `app.state.streams.close()`: it would wait for open streams otherwise.
    """
    streams = Streams()
    app = _plain_app()
    app.state.coordinator = coordinator
    app.state.streams = streams
    app.state.measures = Measures(streams)
    app.state.health = CachedHealth(coordinator)
    app.include_router(health.router)
    api = _routes()
    api.state.coordinator = coordinator
    api.state.streams = streams
    api.state.rate_limit = RateLimit(coordinator.settings.requests_per_minute)
    # The last one added sees a request first.
    api.add_middleware(BodyLimit)
    api.add_middleware(LastResort)
    api.add_middleware(Measure, measures=app.state.measures)
    api.add_middleware(Headers)
    app.mount(PREFIX, api)
    return app


def document() -> dict[str, Any]:
    """Return the API's OpenAPI document, which is the same for every coordinator."""
    return _routes().openapi()


def _routes() -> FastAPI:
    api = _plain_app(title=_TITLE, version=version("masquerade"), description=_DESCRIPTION)
    routers = (
        access.sign_in_router,
        sessions.providers_router,
        sessions.sessions_router,
        events.router,
        sessions.releases_router,
        sessions.ledger_router,
        access.admin_router,
    )
    for router in routers:
        api.include_router(router, dependencies=[Depends(no_unknown_parameters)])
    api.include_router(docs_page.router)
    api.openapi = lambda: _document(api)  # type: ignore[method-assign] # as FastAPI's own guide does it
    return api


def _plain_app(**described: Any) -> FastAPI:
    """Create an app with our problem documents, without redirects and without pages that load external scripts."""
    urls: dict[str, Any] = {"openapi_url": None, "docs_url": None, "redoc_url": None, "redirect_slashes": False}
    return FastAPI(exception_handlers=HANDLERS, **urls, **described)


def _document(api: FastAPI) -> dict[str, Any]:
    if api.openapi_schema is None:
        document = get_openapi(
            title=api.title,
            version=api.version,
            description=api.description,
            routes=api.routes,
            servers=[{"url": PREFIX}],
        )
        document["components"]["schemas"]["Problem"] = ProblemDocument.model_json_schema(mode="serialization")
        api.openapi_schema = document
    return api.openapi_schema
