"""A served console, a real Chromium, and visitors who note every complaint and every request to elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, Response, sync_playwright

from console.world import PASSWORD, World, served
from masquerade.console.frame import COOKIE

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # nobody is reached but us
]
PATIENCE = 600_000  # milliseconds: on a loaded machine things take their time


@dataclass
class Served:
    """The console's address."""

    address: str
    cookies: dict[str, str] = field(default_factory=dict, init=False, repr=False)  # by user

    def console(self, path: str = "") -> str:
        return f"{self.address}/console{path}"

    def cookie(self, user: str) -> str:
        """The cookie of a browser in which somebody has signed in."""
        if user not in self.cookies:
            form, headers = {"user": user, "password": PASSWORD}, {"Origin": self.address}
            answer = httpx.post(self.console("/sign-in"), data=form, headers=headers, timeout=900)
            self.cookies[user] = answer.cookies[COOKIE]
        return self.cookies[user]


@dataclass
class Site(Served):
    """The console's address, and the coordinator behind it."""

    world: World


Visit = Callable[..., AbstractContextManager[Page]]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    world = World(tmp_path_factory.mktemp("coordinator"))
    with served(world.configuration) as address:
        yield Site(address, world)
    world.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed: `make test` adds it")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def contexts(browser: Browser) -> list[BrowserContext]:
    """Browsers that nobody uses now: without cookies, but with what pages are made of in their caches."""
    return []


@pytest.fixture
def visit(site: Served, browser: Browser, contexts: list[BrowserContext]) -> Visit:
    """`with visit("ana", "/account") as page`: a browser of its own, signed in; no complaints, nothing elsewhere."""

    @contextmanager
    def visiting(
        user: str | None = "ana", at: str = "", *, theme: str = "light", complaints: tuple[str, ...] = ()
    ) -> Iterator[Page]:
        noted: list[str] = []

        def note_elsewhere(request: Request) -> None:
            if not request.url.startswith((site.address, "data:")):
                noted.append(f"asks elsewhere: {request.url}")

        context = contexts.pop() if contexts else browser.new_context()
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.set_viewport_size({"width": 1100, "height": 900})
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        page.on("request", note_elsewhere)  # to route them would also turn the cache off
        page.on("console", lambda said: noted.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: noted.append(str(error)))
        _wait_for_handshakes(page)
        try:
            if user is not None:
                path = {"domain": "127.0.0.1", "path": "/console"}
                context.add_cookies([{"name": COOKIE, "value": site.cookie(user), **path}])  # type: ignore[typeddict-item]
            if at:
                page.goto(site.console(at))
            yield page
            assert [line for line in noted if not any(each in line for each in complaints)] == []
            page.evaluate("() => window.origin === 'null' || localStorage.clear()")
            context.clear_cookies()
            contexts.append(context)
        finally:
            for each in context.pages:  # reports open in pages of their own
                each.close()

    return visiting


def _wait_for_handshakes(page: Page) -> None:
    """Let `page.goto` return once the page can talk to its server: an earlier press may go to what is replaced."""
    goto = page.goto

    def going(url: str) -> Response | None:
        answer = goto(url)
        page.wait_for_function("!document.querySelector('#app') || window.did_handshake === true")
        return answer

    page.goto = going  # type: ignore[method-assign,assignment] # none of Playwright's options is used here


def sign_in(page: Page, user: str, password: str = PASSWORD) -> None:
    page.get_by_label("Name", exact=True).fill(user)
    page.get_by_label("Password", exact=True).fill(password)
    page.get_by_role("button", name="Sign in").click()


@pytest.fixture(scope="session")
def artefacts() -> Path:
    """Where screenshots are kept."""
    folder = Path(__file__).parents[2] / "build" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
