"""Every page, light and dark, wide and at a phone's width: usable by all, and kept as a picture."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from console.conftest import PATIENCE, Site, Visit
from console.looks import complaints

expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def places(site: Site) -> dict[str, str]:
    """Every kind of page that somebody signed in can see, by name."""
    world = site.world
    running = world.running()
    world.progress(running, 4)
    world.steps(running, 3)
    published = world.published()
    return {
        "sessions": "/sessions",
        "providers": "/providers",
        "request": "/request",
        "account": "/account",
        "running": f"/sessions/{running.id}",
        "refused": f"/sessions/{world.refused().id}",
        "awaiting": f"/sessions/{world.awaiting().id}",
        "published": f"/sessions/{published.id}",
        "release": f"/sessions/{published.id}/release",
        "not-found": "/no/such/page",
    }


def fill(page: Page) -> None:
    """A form with something in it has more to look at."""
    page.get_by_role("checkbox", name="job").first.check()
    page.get_by_role("checkbox", name="age").first.check()
    page.get_by_role("checkbox", name="disease").first.check()
    page.get_by_role("button", name="Add a requirement").click()
    page.get_by_role("group", name="Requirement 2").get_by_label("Model").select_option("l-diversity")
    expect(page.get_by_text("purpose: missing")).to_be_visible()
    page.get_by_text("As TOML").click()


def every_look(page: Page, name: str, artefacts: Path) -> dict[str, object]:
    """What is wrong with a page in both themes, wide and narrow; two of them are kept as pictures."""
    found: dict[str, object] = {}
    for theme, width in (("light", 1100), ("dark", 1100), ("light", 360), ("dark", 360)):
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        page.set_viewport_size({"width": width, "height": 900})
        if wrong := complaints(page):
            found[f"{name}, {theme}, {width}"] = wrong
        if (theme, width) in (("light", 1100), ("dark", 360)):
            page.screenshot(path=artefacts / f"console-{name}-{theme}-{width}.png", full_page=True)
    return found


def test_every_page_of_an_analyst_is_usable_by_all(
    site: Site, visit: Visit, places: dict[str, str], artefacts: Path
) -> None:
    found: dict[str, object] = {}
    with visit("ana", complaints=("404",)) as page:
        for name, place in places.items():
            page.goto(site.console(place))
            page.get_by_role("heading", level=1).wait_for()
            if name == "request":
                fill(page)
            found |= every_look(page, name, artefacts)
    assert found == {}


def test_every_page_of_an_admin_and_the_sign_in_are_usable_by_all(site: Site, visit: Visit, artefacts: Path) -> None:
    found: dict[str, object] = {}
    with visit("root") as page:
        for name in ("users", "ledger", "audit"):
            page.goto(site.console(f"/{name}"))
            page.get_by_role("heading", level=1).wait_for()
            found |= every_look(page, name, artefacts)
    with visit(None, "/sign-in?wrong=1") as page:
        page.get_by_role("heading", level=1).wait_for()
        found |= every_look(page, "sign-in", artefacts)
    assert found == {}


def test_the_checks_can_fail(visit: Visit) -> None:
    with visit(None) as page:
        page.set_content(
            "<html lang='en-US'><title>t</title><header></header><main><h1>One</h1><h3>Three</h3><input>"
            "<p style='color: #999; width: 3000px'>faint</p>"
            "<label style='display: block; width: 1px; word-break: break-all'>narrow<input></label></main></html>"
        )
        assert set(complaints(page)) == {
            "without a name", "headings", "faint", "wider than the window by", "without room"
        }  # fmt: skip


def test_the_theme_follows_the_system_until_it_is_chosen(site: Site, visit: Visit) -> None:
    with visit("ana", "/", theme="dark") as page:
        dark = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        page.get_by_role("button", name="Switch between light and dark").click()
        light = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        assert dark != light
        page.goto(site.console("/account"))
        page.get_by_role("heading", level=1).wait_for()
        assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == light


def test_the_focus_is_seen_and_starts_with_the_skip_link(site: Site, visit: Visit) -> None:
    with visit("ana", "/account") as page:
        page.get_by_role("heading", level=1).wait_for()
        reached = []
        for _ in range(8):
            page.keyboard.press("Tab")
            reached.append(page.evaluate("() => document.activeElement.textContent"))
            outline = page.evaluate("() => getComputedStyle(document.activeElement).outlineWidth")
            assert float(outline.removesuffix("px")) >= 2, reached[-1]
        assert reached == [
            "Skip to content",
            "Masquerade",
            "Sessions",
            "New request",
            "Providers",
            "Account",
            "Theme",
            "Sign out",
        ]
        page.keyboard.press("Shift+Tab")
        for _ in range(6):
            page.keyboard.press("Shift+Tab")
        page.keyboard.press("Enter")
        assert page.evaluate("() => document.activeElement.id") == "main"
