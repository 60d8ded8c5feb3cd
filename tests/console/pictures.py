"""Makes the pictures of the console and of the demo's report anew.

`PYTHONPATH=tests .venv/bin/python tests/console/pictures.py`
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import structlog
from playwright.sync_api import Page, Playwright, sync_playwright

from console.conftest import CHROMIUM, FLAGS, PATIENCE, Site, sign_in
from console.hospitals import HospitalWorld
from console.world import World, served
from masquerade.demo import run_demo

FOLDER = Path(__file__).parents[2] / "docs" / "images"


def main() -> None:
    """Sign in, fill the form, look at a running session and at a release, and keep a picture of each."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    with tempfile.TemporaryDirectory() as folder:
        run_demo(Path(folder) / "ball")  # before the browser, which has an event loop of its own
        _pictures(Path(folder))


def _pictures(folder: Path) -> None:
    with sync_playwright() as playwright:
        world = World(folder)
        running = world.running(world.asked(show_progress=True))
        world.progress(running, 5)
        world.steps(running, 4)
        world.refused()
        published = world.published()
        with served(world.configuration) as address:
            site = Site(address, world)
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            page = browser.new_page(viewport={"width": 1100, "height": 1000})
            page.set_default_timeout(PATIENCE)
            page.goto(site.console("/request"))
            sign_in(page, "ana")
            _fill(page)
            _keep(page, "request")
            page.goto(site.console(f"/sessions/{running.id}"))
            page.locator(".tree").first.wait_for()
            page.emulate_media(color_scheme="dark")
            _keep(page, "session")
            page.emulate_media(color_scheme="light")
            page.goto(site.console(f"/sessions/{published.id}/release"))
            page.get_by_role("heading", level=1).wait_for()
            _keep(page, "release")
            page.set_viewport_size({"width": 360, "height": 720})
            page.goto(site.console("/sessions"))
            page.get_by_role("table").wait_for()
            _keep(page, "phone")
            browser.close()
        world.close()
        _hospitals(folder / "hospitals", playwright)
        _report(folder / "ball" / "analyst" / "report.html", playwright)


def _report(report: Path, playwright: Playwright) -> None:
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
    page = browser.new_page(viewport={"width": 1100, "height": 1500})
    page.goto(report.as_uri())
    page.screenshot(path=FOLDER / "report.png")
    browser.close()


def _hospitals(folder: Path, playwright: Playwright) -> None:
    world = HospitalWorld(folder)
    with served(world.configuration) as address:
        site = Site(address, world)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1100, "height": 1000})
        page.set_default_timeout(PATIENCE)
        page.goto(site.console("/request"))
        sign_in(page, "ana")
        page.get_by_role("radio", name="The same columns about different people").check()
        page.get_by_role("group", name="Who takes part").wait_for()
        for name in ("age", "ward", "disease"):
            page.get_by_role("group", name="Columns", exact=True).get_by_role("checkbox", name=name).check()
        page.get_by_role("checkbox", name="west").uncheck()
        page.get_by_label("Purpose").fill("research")
        page.get_by_text("This can be sent.").wait_for()
        page.get_by_text("As TOML").click()
        page.evaluate("() => { document.activeElement.blur(); scrollTo(0, 0); }")
        _keep(page, "horizontal")
        browser.close()
    world.close()


def _fill(page: Page) -> None:
    page.get_by_role("checkbox", name="job").first.check()
    page.get_by_role("checkbox", name="age").first.check()
    page.get_by_label("Purpose").fill("research")
    page.get_by_label("Class", exact=True).select_option("income")
    page.get_by_label("Budget").fill("25.50")  # the bank asks a price
    page.get_by_text("This can be sent.").wait_for()
    page.get_by_text("As TOML").click()
    page.evaluate("() => { document.activeElement.blur(); scrollTo(0, 0); }")


def _keep(page: Page, name: str) -> None:
    path = FOLDER / f"console-{name}.png"
    page.screenshot(path=path)
    assert path.stat().st_size < 200_000, path


if __name__ == "__main__":
    main()
