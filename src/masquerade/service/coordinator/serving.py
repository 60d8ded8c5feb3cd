"""The public server, for people: the HTTP API and the console. Beside it, in the same loop, the background work."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn

from masquerade.errors import ParameterError
from masquerade.service.coordinator.coordinator import Coordinator
from masquerade.service.coordinator.settings import CoordinatorSettings
from masquerade.service.wire.serving import ListeningSocket, listening_at, punctual, served


@asynccontextmanager
async def serving(coordinator: Coordinator, app: Any) -> AsyncIterator[str]:
    """Serve an ASGI application to people, and do the background work; the address with its real port."""
    with coordinator.single_instance.held():  # first: whoever is the second here should hear why, and touch nothing
        settings = coordinator.settings
        listening = listening_at(settings.address, settings.limits, key=f"{settings.path}: address")
        try:
            async with coordinator.running(), _public(settings, app, listening):
                host = settings.address.rpartition(":")[0]
                yield f"{host}:{listening.getsockname()[1]}"
        finally:
            listening.close()


@asynccontextmanager
async def _public(settings: CoordinatorSettings, app: Any, listening: ListeningSocket) -> AsyncIterator[None]:
    config = uvicorn.Config(
        app,
        http=punctual(listening.books),
        log_config=None,
        access_log=False,
        server_header=False,
        ssl_certfile=settings.https.certificate,
        ssl_keyfile=settings.https.key,
        timeout_graceful_shutdown=3,
        timeout_keep_alive=75,  # clients let go of an idle connection first, or a request meets one that closes
    )
    try:
        config.load()
    except (ssl.SSLError, OSError) as error:
        raise ParameterError(
            f"{settings.path}: https: {settings.https.certificate} and {settings.https.key} are no certificate in PEM"
            f" with its key ({type(error).__name__})"
        ) from None
    async with served(config, listening):
        try:
            yield
        finally:
            streams = getattr(app.state, "streams", None)
            if streams is not None:  # otherwise the server would wait for whoever watches a session
                streams.close()
