"""Signing in and out, with plain forms so that the cookie can be hidden from scripts."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qs, quote

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from nicegui import ui

from masquerade.console.elements import tag
from masquerade.console.frame import SLOWEST, Console, draw_frame
from masquerade.console.guard import CONSOLE, PREFIX
from masquerade.console.signed_in import COOKIE, KNOWN_COOKIE, KNOWN_FOR, LONGEST
from masquerade.errors import NotAllowed
from masquerade.service.api.limits import TooMany, address_key

router = APIRouter(prefix=PREFIX, include_in_schema=False)

_MOST_BYTES = 20_000  # a name, a password and where to go
_TOLD = {
    "wrong": "The name or the password is wrong, the account is disabled, or too many wrong guesses came from here. "
    "After several wrong guesses you have to wait for some time.",
    "often": "Too many sign-ins from your address; try again in a minute.",
    "over": "You were signed out, because nothing was done here for a while or the account was changed.",
    "out": "You are signed out.",
}


@ui.page("/sign-in", title="Sign in · Masquerade", language="en-US", response_timeout=SLOWEST)
async def sign_in_page(request: Request) -> None:
    """Draw the sign-in form."""
    draw_frame(None, "/sign-in")
    wanted = own_path(request.query_params.get("next"))
    with tag("section", look="narrow"):
        tag("h1", "Sign in")
        for key, text in _TOLD.items():
            if key in request.query_params:
                tag(
                    "p",
                    text,
                    "problems" if key == "wrong" else "told",
                    role="alert" if key == "wrong" else None,
                )
        with tag("form", action=f"{PREFIX}/sign-in", method="post"):
            for name, label, kind, complete in (
                ("user", "Name", "text", "username"),
                ("password", "Password", "password", "current-password"),
            ):
                with tag("div", look="field"):
                    written = tag("label", label)
                    control = tag(
                        "input",
                        name=name,
                        type=kind,
                        autocomplete=complete,
                        required="",
                        autocapitalize="none",
                    )
                    written.props["for"] = control.html_id
            tag("input", type="hidden", name="next", **{"^value": wanted})
            tag("button", "Sign in", "first", type="submit")


@router.post("/sign-in")
async def sign_in(request: Request) -> Response:
    """Check name and password; set the cookie, or return to the form."""
    console: Console = request.scope[CONSOLE]
    form = await _form(request)
    wanted = own_path(form.get("next"))
    if form.get("user") is None or form.get("password") is None:
        return _back_to_form(wanted)
    address = address_key(request.client.host if request.client else None)
    try:
        console.guesses.take(address)
    except TooMany:
        return _back_to_form(wanted, "often")
    known = request.cookies.get(KNOWN_COOKIE)
    try:
        cookies = await asyncio.to_thread(
            console.browsers.sign_in, form["user"], form["password"], address, known
        )
    except NotAllowed:
        return _back_to_form(wanted)
    answer = RedirectResponse(wanted, 303)
    for name, cookie, lasts in zip((COOKIE, KNOWN_COOKIE), cookies, (LONGEST, KNOWN_FOR), strict=True):
        answer.set_cookie(
            name,
            cookie,
            max_age=int(lasts.total_seconds()),
            path=PREFIX,
            secure=console.https,
            httponly=True,
            samesite="strict",
        )
    return answer


@router.post("/sign-out")
async def sign_out(request: Request) -> Response:
    """Sign out this browser."""
    console: Console = request.scope[CONSOLE]
    await asyncio.to_thread(console.browsers.sign_out, request.cookies.get(COOKIE))
    answer = RedirectResponse(f"{PREFIX}/sign-in?out=1", 303)
    answer.delete_cookie(COOKIE, path=PREFIX, secure=console.https, httponly=True, samesite="strict")
    return answer


def own_path(wanted: str | None) -> str:
    """Return the page to open after signing in: always one of the console, whatever the link says."""
    ours = (
        wanted is not None and wanted.startswith(f"{PREFIX}/") and "//" not in wanted and "\\" not in wanted
    )
    return wanted if wanted is not None and ours and wanted.isprintable() else f"{PREFIX}/sessions"


def _back_to_form(wanted: str, why: str = "wrong") -> Response:
    return RedirectResponse(f"{PREFIX}/sign-in?{why}=1&next={quote(wanted, safe='/')}", 303)


async def _form(request: Request) -> dict[str, str]:
    """Return the fields of a small form; none if the form is too large."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_BYTES:
            return {}
    fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=20)
    return {name: values[0] for name, values in fields.items()}
