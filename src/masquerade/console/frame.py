"""What all pages share: the signed-in user, the frame around the page, and how an action calls the coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import RedirectResponse, Response
from nicegui import ui
from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement

from masquerade.console.elements import bullets, link, tag
from masquerade.console.guard import CONSOLE, PREFIX
from masquerade.console.signed_in import COOKIE, Browsers, SignedOut
from masquerade.console.wording import money
from masquerade.errors import MasqueradeError, NotAllowed, NotFound
from masquerade.report.charts import chart_style
from masquerade.service.api.limits import RateLimit
from masquerade.service.resources import Role, User

if TYPE_CHECKING:
    from masquerade.service.coordinator.coordinator import Coordinator

Asked = ParamSpec("Asked")
Answer = TypeVar("Answer")

SLOWEST = 60.0  # seconds allowed for building a page

ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#1d6a6a"/>'
    '<path d="M5 12c4-3 7-2 11 0 4-2 7-3 11 0 0 7-4 10-7 10-2 0-3-2-4-2s-2 2-4 2c-3 0-7-3-7-10z" fill="#fff"/>'
    '<circle cx="11" cy="15" r="2.2" fill="#1d6a6a"/><circle cx="21" cy="15" r="2.2" fill="#1d6a6a"/></svg>'
)
_PLACES = (
    ("Sessions", "/sessions"),
    ("New request", "/request"),
    ("Providers", "/providers"),
    ("Account", "/account"),
)
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
        self,
        question: Callable[Concatenate[User, Asked], Answer],
        *arguments: Asked.args,
        **named: Asked.kwargs,
    ) -> Answer:
        """Call the coordinator as the user who is signed in now."""
        return await asyncio.to_thread(lambda: self._asked(True, question, *arguments, **named))

    async def look(
        self,
        question: Callable[Concatenate[User, Asked], Answer],
        *arguments: Asked.args,
        **named: Asked.kwargs,
    ) -> Answer:
        """Like `ask`, for calls that the page makes by itself; they do not extend the sign-in."""
        return await asyncio.to_thread(lambda: self._asked(False, question, *arguments, **named))

    def _asked(
        self,
        acting: bool,
        question: Callable[Concatenate[User, Asked], Answer],
        *arguments: Asked.args,
        **named: Asked.kwargs,
    ) -> Answer:
        return question(self.console.browsers.user(self.cookie, acting=acting), *arguments, **named)

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


def page(
    path: str, title: str, *, admin: bool = False
) -> Callable[[Callable[[View], Awaitable[None]]], None]:
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
