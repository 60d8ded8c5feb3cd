"""Mount the console on the coordinator's app."""

from __future__ import annotations

from fastapi import FastAPI
from nicegui import core, ui
from starlette.responses import RedirectResponse

from masquerade.console import books, files, frame, lists, people, release, request, session  # noqa: F401 # a page is there once its file is read
from masquerade.console.frame import ICON, Browsers, Console, View, console_secret, draw_failure, page
from masquerade.console.guard import PREFIX, Guard
from masquerade.errors import NotFound
from masquerade.service import Coordinator, RateLimit


def mount(app: FastAPI, coordinator: Coordinator) -> None:
    """Serve the console under /console. NiceGUI serves one app per process: the one mounted last."""
    settings = coordinator.settings
    browsers = Browsers(coordinator.store, coordinator.accounts, console_secret(settings.state / "console.key"))
    guesses = RateLimit(settings.requests_per_minute)
    app.add_middleware(
        Guard, console=Console(coordinator, browsers, guesses, https=settings.https.certificate is not None)
    )
    app.include_router(frame.router)
    app.include_router(files.router)
    for path in ("/", PREFIX, f"{PREFIX}/"):
        app.add_api_route(path, _home, include_in_schema=False)
    core.app.on_page_exception(draw_failure)
    core.app.user_middleware.clear()  # of an app mounted earlier
    core.app.middleware_stack = None
    ui.run_with(
        app,
        mount_path=PREFIX,
        title="Masquerade",
        favicon=ICON,
        language="en-US",
        tailwind=False,
        binding_refresh_interval=None,
        show_welcome_message=False,
        reconnect_timeout=15.0,
        gzip_middleware_factory=None,  # compressed length can reveal secrets beside text that others wrote
    )


async def _missing(_view: View) -> None:
    raise NotFound("there is no such page")


page("/{rest:path}", "Not found")(_missing)  # last, because the first matching page is shown


def _home() -> RedirectResponse:
    return RedirectResponse(f"{PREFIX}/sessions", 303)
