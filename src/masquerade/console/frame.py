"""What all pages share: the signed-in user, the frame around the page, and how an action calls the coordinator."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import parse_qs, quote

from cryptography.fernet import Fernet, InvalidToken
from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from nicegui import ui
from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement

from masquerade.console.elements import bullets, link, tag
from masquerade.console.guard import CONSOLE, PREFIX
from masquerade.console.words import money
from masquerade.errors import MasqueradeError, NotAllowed, NotFound, ParameterError
from masquerade.files import kept_secret
from masquerade.report import chart_style
from masquerade.service import (
    Accounts,
    ApiToken,
    OverLimit,
    RateLimit,
    Role,
    SignInSource,
    Store,
    TokenKind,
    User,
    address_key,
)

if TYPE_CHECKING:
    from masquerade.service import Coordinator

# --- signed in ----------------------------------------------------------------------------------------------
# Who is signed in, per browser, and in which browsers a user has signed in before.
#
# A sign-in is one of the user's tokens in the store, so it survives a restart, ends with a new password,
# and can be revoked like any other. The browser gets it encrypted, in a cookie that no script can read: the
# cookie is not valid as an API token, and no API token is valid as the cookie.
#
# A second cookie lets a browser be known again after it has signed out. It opens nothing, but guesses from
# elsewhere do not slow down a sign-in with it (service/accounts.py).

COOKIE = "masquerade_console"
KNOWN_COOKIE = "masquerade_known_browser"
LONGEST = timedelta(hours=12)
KNOWN_FOR = timedelta(days=180)
IDLE = timedelta(minutes=30)
_SIGNED_OUT = "you are signed out; sign in again"


class SignedOut(NotAllowed):
    """Nobody is signed in in this browser, or no longer."""


class Browsers:
    """The browsers in which a user is signed in."""

    def __init__(self, store: Store, accounts: Accounts, secret: bytes, idle: timedelta = IDLE) -> None:
        self._store = store
        self._accounts = accounts
        self._box = Fernet(secret)
        self._idle = idle

    def sign_in(self, name: str, password: str, address: str = "", known: str | None = None) -> tuple[str, str]:
        """Return a browser's two cookies: of the sign-in, and to be known again.

        Raise NotAllowed if name or password is wrong, or the browser has to wait after wrong guesses.
        """
        browser = self._browser(name, known)
        source = SignInSource(f"browser {browser}", known=True) if browser is not None else SignInSource(address)
        _user, token, _made = self._accounts.sign_in_for_token(name, password, TokenKind.BROWSER, LONGEST, source)
        return self._sealed(token), self._sealed(f"{browser or secrets.token_hex(16)} {name}")

    def _browser(self, name: str, known: str | None) -> str | None:
        """Return the identifier of a browser in which this user has signed in before; None for any other."""
        try:
            told = self._box.decrypt((known or "").encode("ascii", "replace"), int(KNOWN_FOR.total_seconds()))
        except InvalidToken:
            return None
        browser, _, user = told.decode("utf-8").partition(" ")
        return browser if user == name else None

    def _sealed(self, text: str) -> str:
        return self._box.encrypt(text.encode()).decode("ascii")

    def sign_out(self, cookie: str | None) -> None:
        """Revoke a cookie's sign-in; an invalid cookie is ignored."""
        try:
            described, user = self._known(cookie)
        except SignedOut:
            return
        self._accounts.revoke(user, described.id, for_sign_out=True)

    def user(self, cookie: str | None, *, acting: bool = True) -> User:
        """Return the signed-in user, with the account as it is now; raise SignedOut if there is none.

        Polling by a page is not `acting`: it does not keep an unattended browser signed in.
        """
        described, user = self._known(cookie)
        now = self._store.clock()
        over = described.expires <= now
        idle = now - (described.last_used or described.created) > self._idle
        if over or idle or described.revoked is not None or user.disabled:
            raise SignedOut(_SIGNED_OUT)
        if acting:
            self._store.users.touch_token(described)
        return user

    def _known(self, cookie: str | None) -> tuple[ApiToken, User]:
        try:
            token = self._box.decrypt((cookie or "").encode("ascii", "replace")).decode("ascii")
        except InvalidToken:
            raise SignedOut(_SIGNED_OUT) from None
        found = self._store.users.by_token(token)
        if found is None or found[0].kind is not TokenKind.BROWSER:
            raise SignedOut(_SIGNED_OUT)
        return found


def console_secret(path: Path) -> bytes:
    """Read the secret from a file that only its owner may read; create it if missing."""
    secret = kept_secret(path, "the console's secret", Fernet.generate_key)
    try:
        Fernet(secret)
    except ValueError:
        raise ParameterError(f"{path}: not a secret of the console; remove it, and a new one is made") from None
    return secret


# --- frame --------------------------------------------------------------------------------------------------

Asked = ParamSpec("Asked")
Answer = TypeVar("Answer")

SLOWEST = 60.0  # seconds allowed for building a page

ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#1d6a6a"/>'
    '<path d="M5 12c4-3 7-2 11 0 4-2 7-3 11 0 0 7-4 10-7 10-2 0-3-2-4-2s-2 2-4 2c-3 0-7-3-7-10z" fill="#fff"/>'
    '<circle cx="11" cy="15" r="2.2" fill="#1d6a6a"/><circle cx="21" cy="15" r="2.2" fill="#1d6a6a"/></svg>'
)
_PLACES = (("Sessions", "/sessions"), ("New request", "/request"), ("Providers", "/providers"), ("Account", "/account"))
_ADMIN_PLACES = (("Users", "/users"), ("Ledger", "/ledger"), ("Audit", "/audit"))
# Runs before anything is drawn, so that the wrong theme never flashes up.
_THEME = """<script>
const theme = localStorage.getItem("theme");
if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
function nextTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const next = (document.documentElement.dataset.theme || dark) === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  localStorage.setItem("theme", next);
}
</script>"""


@dataclass(frozen=True)
class Console:
    """The pages' access to the coordinator, and the signed-in browsers."""

    coordinator: Coordinator
    browsers: Browsers
    guesses: RateLimit  # sign-in attempts, by address
    https: bool


@dataclass
class View:
    """One page in one browser."""

    console: Console
    cookie: str | None
    user: User  # as of when the page was built; every action checks again
    parameters: dict[str, Any] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    live: TextElement | None = None  # announced by screen readers

    @property
    def coordinator(self) -> Coordinator:
        """The coordinator that the console belongs to."""
        return self.console.coordinator

    def money(self, cents: int) -> str:
        """Format a sum in the coordinator's currency."""
        return money(cents, self.coordinator.settings.currency)

    async def ask(
        self, question: Callable[Concatenate[User, Asked], Answer], *arguments: Asked.args, **named: Asked.kwargs
    ) -> Answer:
        """Call the coordinator as the user who is signed in now."""
        return await asyncio.to_thread(lambda: question(self.console.browsers.user(self.cookie), *arguments, **named))

    async def look(
        self, question: Callable[Concatenate[User, Asked], Answer], *arguments: Asked.args, **named: Asked.kwargs
    ) -> Answer:
        """Like `ask`, for calls that the page makes by itself; they do not extend the sign-in."""
        return await asyncio.to_thread(
            lambda: question(self.console.browsers.user(self.cookie, acting=False), *arguments, **named)
        )

    async def trying(self, doing: Awaitable[Answer], problems: Element) -> Answer | None:
        """Return the result of an action; on failure show the errors in `problems` and return None."""
        problems.clear()
        try:
            return await doing
        except SignedOut:
            leave()
        except MasqueradeError as error:
            with problems:
                tell_problems(error)
        return None

    def say(self, text: str) -> None:
        """Announce a text to screen readers without moving the focus."""
        if self.live is not None:
            self.live.text = text


def leave() -> None:
    """Go to the sign-in page because the sign-in is over."""
    ui.navigate.to("/sign-in?over=1")


def tell_problems(error: MasqueradeError) -> None:
    """Draw every problem, one per line."""
    with tag("div", look="problems", role="alert"):
        bullets(error.lines)


def problem_place() -> Element:
    """Create an empty place for error messages."""
    return tag("div")


def page(path: str, title: str, *, admin: bool = False) -> Callable[[Callable[[View], Awaitable[None]]], None]:
    """Register a page for signed-in users; the decorated function draws its main part."""

    def register(draw: Callable[[View], Awaitable[None]]) -> None:
        async def made(request: Request) -> Response | None:
            console: Console = request.scope[CONSOLE]
            cookie = request.cookies.get(COOKIE)
            try:
                user = await asyncio.to_thread(console.browsers.user, cookie)
            except SignedOut:
                wanted = quote(request.scope["path"], safe="/")
                return RedirectResponse(f"{PREFIX}/sign-in?next={wanted}", 303)
            view = View(console, cookie, user, dict(request.path_params), dict(request.query_params))
            draw_frame(user, path)
            view.live = tag("p", "", "sr", role="status", aria_live="polite")
            with tag("div") as inside:
                try:
                    if admin and user.role is not Role.ADMIN:
                        raise NotFound("there is no such page")
                    await draw(view)
                except MasqueradeError as error:
                    inside.clear()
                    _draw_error(error)
            return None

        ui.page(path, title=f"{title} · Masquerade", language="en-US", response_timeout=SLOWEST)(made)

    return register


def draw_frame(user: User | None, path: str) -> None:
    """Draw head, skip link and navigation; later elements go into the page's main part."""
    client = ui.context.client
    ui.add_head_html(f"<style>{_style()}</style>{_THEME}<meta name='robots' content='noindex'>")
    main = client.content.parent_slot.parent if client.content.parent_slot else client.content
    main.props["id"], main.props["tabindex"] = "main", "-1"
    with client.layout:
        header = tag("header", look="top")
        header.move(target_index=0)
    with header:
        link("Skip to content", "#main", "skip")
        link("Masquerade", f"{PREFIX}/", "brand")
        if user is not None:
            with tag("nav", aria_label="Pages"):
                for name, place in _PLACES + (_ADMIN_PLACES if user.role is Role.ADMIN else ()):
                    link(name, PREFIX + place, aria_current="page" if place == path else None)
        with tag("div", look="who"):
            if user is not None:
                tag("span", user.name, "quiet")
            theme = tag("button", "Theme", "plain", type="button", aria_label="Switch between light and dark")
            theme.on("click", js_handler="() => nextTheme()")
            if user is not None:
                with tag("form", action=f"{PREFIX}/sign-out", method="post"):
                    tag("button", "Sign out", "plain", type="submit")


def draw_failure() -> None:
    """Draw the page for an internal error, whose details go to the log only."""
    draw_frame(None, "")
    tag("h1", "Something went wrong")
    tag("p", "It is a mistake of the coordinator's, and was written to its log. Please tell whoever runs it.")


def _draw_error(error: MasqueradeError) -> None:
    client = ui.context.client
    if isinstance(error, NotFound):
        client.status_code = 404
        tag("h1", "Not found")
    elif isinstance(error, NotAllowed):
        client.status_code = 403
        tag("h1", "Not allowed")
    else:
        client.status_code = 422
        tag("h1", "This does not work")
    for problem in error.lines:
        tag("p", f"{problem[:1].upper()}{problem[1:]}.")
    link("To your sessions", f"{PREFIX}/sessions")


@cache
def _style() -> str:
    return chart_style() + resources.files("masquerade.console").joinpath("console.css").read_text("utf-8")


# --- sign in ------------------------------------------------------------------------------------------------
# Signing in and out, with plain forms so that the cookie can be hidden from scripts.

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
                tag("p", text, "problems" if key == "wrong" else "told", role="alert" if key == "wrong" else None)
        with tag("form", action=f"{PREFIX}/sign-in", method="post"):
            for name, label, kind, complete in (
                ("user", "Name", "text", "username"),
                ("password", "Password", "password", "current-password"),
            ):
                with tag("div", look="field"):
                    written = tag("label", label)
                    control = tag(
                        "input", name=name, type=kind, autocomplete=complete, required="", autocapitalize="none"
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
    except OverLimit:
        return _back_to_form(wanted, "often")
    known = request.cookies.get(KNOWN_COOKIE)
    try:
        cookies = await asyncio.to_thread(console.browsers.sign_in, form["user"], form["password"], address, known)
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
    ours = wanted is not None and wanted.startswith(f"{PREFIX}/") and "//" not in wanted and "\\" not in wanted
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
