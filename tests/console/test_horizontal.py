"""Sessions of the same columns about different people, in a real Chromium."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from console.conftest import PATIENCE, Site, Visit
from console.hospitals import TOGETHER, HospitalWorld
from console.test_looks import every_look
from console.world import served
from masquerade.service import Status

expect.set_options(timeout=PATIENCE)

HORIZONTAL = "The same columns about different people"
VERTICAL = "Different columns about the same people"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    world = HospitalWorld(tmp_path_factory.mktemp("coordinator"))
    with served(world.configuration) as address:
        yield Site(address, world)
    world.close()


def open_form(page: Page, site: Site) -> Locator:
    """A form for a horizontal request, and its preview."""
    page.goto(site.console("/request"))
    page.get_by_role("radio", name=HORIZONTAL).check()
    page.get_by_role("group", name="Who takes part").wait_for()
    return page.get_by_role("complementary", name="Preview")


def boxes(page: Page, group: str) -> dict[str, bool]:
    """The boxes of a group, by name, and whether they are ticked."""
    found = page.get_by_role("group", name=group, exact=True).get_by_role("checkbox")
    return {each.evaluate("e => e.labels[0].textContent"): each.is_checked() for each in found.all()}


def shown(page: Page) -> dict[str, Any]:
    """The request as the preview shows it, the same as TOML and as JSON."""
    toml = page.get_by_role("region", name="TOML", include_hidden=True).text_content()
    text = page.get_by_role("region", name="JSON", include_hidden=True).text_content()
    assert toml
    assert text
    content: dict[str, Any] = json.loads(text)
    assert tomllib.loads(toml)["request"] == content
    return content


def choose(page: Page, *names: str) -> None:
    columns = page.get_by_role("group", name="Columns", exact=True)
    for name in names:
        columns.get_by_role("checkbox", name=name).check()


def test_the_form_builds_a_horizontal_request(site: Site, visit: Visit) -> None:
    with visit("ana") as page:
        preview = open_form(page, site)
        assert boxes(page, "Columns") == dict.fromkeys(["age", "ward", "disease", "survived"], False)
        expect(page.get_by_text("Only one party holds weight.")).to_be_visible()
        for name in ("Adversary", "Comparison of scores", "Class contributed by"):
            expect(page.get_by_label(name)).to_have_count(0)
        choose(page, "age")
        together = page.get_by_role("group", name="Who takes part")
        expect(together.get_by_role("checkbox")).to_have_count(4)  # the registry takes no part in this
        choose(page, "ward", "disease")
        expect(together.get_by_role("checkbox")).to_have_count(3)
        expect(together).to_contain_text("coast: disease")
        page.get_by_label("Purpose").fill("pooled research")
        page.get_by_label("Class", exact=True).select_option("survived")
        page.get_by_label("How many providers may collude (m)").fill("2")
        expect(preview).to_contain_text('"ward" is not the same everywhere')  # west has another taxonomy
        together.get_by_role("checkbox", name="west").uncheck()
        expect(preview).to_contain_text("This can be sent.")
        expect(preview).to_contain_text("all of it against any 2 colluding providers")
        assert boxes(page, "Who takes part") == {"north": True, "south": True, "west": False}
        assert shown(page) == {
            "purpose": "pooled research",
            "kind": "horizontal",
            "attributes": ["age", "ward", "disease"],
            "class": "survived",
            "parties": ["north", "south"],
            "m": 2,
            "privacy": [{"model": "k-anonymity", "qid": ["age", "ward"], "k": 5}],
        }
        page.get_by_label("Third party").select_option("trusted")
        expect(page.get_by_role("region", name="TOML", include_hidden=True)).to_contain_text('third_party = "trusted"')
        page.get_by_role("button", name="Send the request").click()
        expect(page.get_by_role("heading", name=re.compile("Session "))).to_be_visible()
    (made,) = [each for each in site.world.store.sessions.recent("ana") if each.purpose == "pooled research"]
    assert made.providers == TOGETHER
    assert (made.request["kind"], made.request["m"]) == ("horizontal", 2)
    assert made.request["algorithm"]["third_party"] == "trusted"


def test_switching_the_kind_keeps_what_fits(site: Site, visit: Visit) -> None:
    with visit("ana", "/request") as page:
        registry = page.get_by_role("group", name="registry: people")
        registry.get_by_role("checkbox", name="job").check()
        page.get_by_role("group", name="west: patients").get_by_role("checkbox", name="ward").check()
        page.get_by_label("Purpose").fill("research")
        page.get_by_label("Budget").fill("12.50")
        page.get_by_label("k", exact=True).fill("9")
        page.get_by_label("Method").select_option("tds")
        page.get_by_label("Adversary").select_option("malicious")
        page.get_by_role("radio", name=HORIZONTAL).check()
        page.get_by_role("group", name="Who takes part").wait_for()
        expect(page.get_by_role("group", name="Columns").get_by_role("checkbox", name="ward")).to_be_checked()
        expect(page.get_by_role("complementary")).to_contain_text("is not the same everywhere")
        assert shown(page) == {
            "purpose": "research",
            "kind": "horizontal",
            "attributes": ["ward"],
            "parties": ["coast", "north", "south", "west"],
            "m": 1,
            "budget": 1250,
            "privacy": [{"model": "k-anonymity", "qid": ["ward"], "k": 9}],
        }
        page.get_by_role("radio", name=VERTICAL).check()
        expect(registry.get_by_role("checkbox", name="job")).to_be_checked()
        expect(page.get_by_role("complementary")).to_contain_text("This can be sent.")
        assert shown(page) == {
            "purpose": "research",
            "attributes": ["job", "ward"],
            "providers": {"ward": "west"},
            "budget": 1250,
            "algorithm": {"name": "tds", "adversary": "malicious"},
            "privacy": [{"model": "k-anonymity", "qid": ["job", "ward"], "k": 9}],
        }
        # One contributes a column: ticking it at another takes it from the first.
        page.get_by_role("group", name="north: patients").get_by_role("checkbox", name="ward").check()
        other = page.get_by_role("group", name="west: patients").get_by_role("checkbox", name="ward")
        expect(other).not_to_be_checked()


AT_ONCE = """(names) => {
    const labelled = (name) => [...document.querySelectorAll("label")].find((e) => e.textContent === name).control;
    for (const name of names) labelled(name).click();
    return labelled("k").focus();
}"""  # as a fast person does, before anything of it has come back


def test_no_tick_is_lost_while_the_form_catches_up(site: Site, visit: Visit) -> None:
    with visit("ana") as page:
        preview = open_form(page, site)
        choose(page, "age")
        page.get_by_role("checkbox", name="west").wait_for()
        page.get_by_label("Purpose").fill("research")
        page.evaluate(AT_ONCE, ["ward", "disease", "west"])
        expect(preview).to_contain_text("This can be sent.")
        assert boxes(page, "Who takes part") == {"north": True, "south": True, "west": False}
        assert shown(page)["parties"] == ["north", "south"]


def test_what_is_being_typed_stays_whatever_is_chosen(site: Site, visit: Visit) -> None:
    with visit("ana") as page:
        open_form(page, site)
        field = page.get_by_label("k", exact=True)
        field.fill("1")
        page.evaluate(AT_ONCE, ["age", "ward", "disease"])
        page.keyboard.press("End")
        page.keyboard.type("7")
        expect(page.get_by_role("group", name="Who takes part")).to_contain_text("coast: disease")
        page.keyboard.type("3")
        expect(field).to_be_focused()
        expect(field).to_have_value("173")
        expect(page.get_by_role("complementary")).to_contain_text("k = 173")
        model = page.get_by_label("Model")
        model.select_option("p-sensitive-k-anonymity")
        page.get_by_label("p", exact=True).fill("3")
        expect(field).to_have_value("173")
        expect(page.get_by_text(re.compile("at least k records and p different"))).to_be_visible()


def test_models_that_need_all_counts_are_for_a_trusted_third_party(site: Site, visit: Visit) -> None:
    with visit("ana") as page:
        preview = open_form(page, site)
        options = page.get_by_label("Model").get_by_role("option", include_hidden=True)
        against_coalitions = ["k-anonymity", "l-diversity", "recursive-l-diversity", "alpha-k-anonymity"]
        against_coalitions += ["confidence-bounding", "p-sensitive-k-anonymity", "constrained-k-anonymity"]
        expect(options).to_have_text(against_coalitions)
        page.get_by_label("Third party").select_option("trusted")
        expect(options).to_have_count(9)
        choose(page, "age", "disease")
        page.get_by_label("Purpose").fill("research")
        page.get_by_label("Model").select_option("t-closeness")
        page.get_by_label("Sensitive column").select_option("disease")
        expect(preview).to_contain_text("This can be sent.")
        page.get_by_label("Third party").select_option("secure")
        expect(preview).to_contain_text("t-closeness cannot be tested where nobody sees all counts")
        expect(page.get_by_label("Model")).to_have_value("t-closeness")  # nothing is loosened behind one's back
        before = len(site.world.store.sessions.recent("ana"))
        expect(page.get_by_role("button", name="Send the request")).to_be_disabled()
        assert len(site.world.store.sessions.recent("ana")) == before


def test_nobody_ticked_does_not_mean_everybody(site: Site, visit: Visit) -> None:
    with visit("ana") as page:
        preview = open_form(page, site)
        choose(page, "age", "disease")
        page.get_by_label("Purpose").fill("research")
        expect(preview).to_contain_text("This can be sent.")
        together = page.get_by_role("group", name="Who takes part").get_by_role("checkbox")
        for box in together.all():
            box.uncheck()
        expect(preview).to_contain_text("parties: none is ticked")
        expect(page.get_by_role("button", name="Send the request")).to_be_disabled()
        together.first.check()
        expect(preview).to_contain_text("needs at least two")


def test_the_kind_is_chosen_with_the_keyboard(site: Site, visit: Visit) -> None:
    with visit("ana", "/request") as page:
        page.get_by_role("radio", name=VERTICAL).focus()
        page.keyboard.press("ArrowDown")
        expect(page.get_by_role("radio", name=HORIZONTAL)).to_be_focused()
        expect(page.get_by_role("radio", name=HORIZONTAL)).to_be_checked()
        page.get_by_role("group", name="Who takes part").wait_for()
        expect(page.get_by_role("radio", name=HORIZONTAL)).to_be_focused()
        page.keyboard.press("Tab")
        age = page.get_by_role("group", name="Columns", exact=True).get_by_role("checkbox", name="age")
        expect(age).to_be_focused()
        page.keyboard.press("Space")
        expect(page.get_by_role("checkbox", name="coast")).to_be_checked()
        expect(age).to_be_focused()


def test_a_session_says_how_it_protects_its_providers(site: Site, visit: Visit) -> None:
    session = site.world.running()
    with visit("ana", "/") as page:
        link = page.get_by_role("link", name=session.id[:8])
        row = page.get_by_role("row").filter(has=link)
        expect(row).to_contain_text("records pooled")
        page.goto(site.console(f"/sessions/{session.id}"))
        facts = page.locator(".facts").first
        expect(facts).to_contain_text(HORIZONTAL)
        expect(facts).to_contain_text("2; asked for 1")
        expect(facts).to_contain_text("north, south")
        expect(page.get_by_text("No provider's records are seen by anybody else")).to_be_visible()
        first = page.get_by_role("table", name="Answers in round 1").get_by_role("row")
        expect(first.filter(has_text="south")).to_contain_text("all of it against any 2 colluding providers")
        expect(first.filter(has_text="north")).to_contain_text("all of it against any 1 colluding provider")
        site.world.progress(session, 40)
        progress = page.get_by_role("table", name="Progress by party")
        expect(progress.get_by_role("columnheader", name="Cuts tried")).to_be_visible()
        south = progress.get_by_role("row").filter(has_text="south")
        expect(south).to_contain_text("cutting: 40 cuts tried, 12 groups at work")
        expect(page.get_by_role("heading", name="Specializations")).to_be_hidden()
        asked = page.locator("section").filter(has=page.get_by_role("heading", name="What was asked"))
        expect(asked).not_to_contain_text("argmax")
        expect(asked).to_contain_text("mondrian: third party secure")
        expect(asked).to_contain_text("Providers that may collude")
        site.world.store.sessions.advance(session, Status.ASSEMBLING)
        expect(page.locator(".stepper [aria-current=step]")).to_have_text("assembling")


def test_a_pooled_release_tells_how_many_providers_are_in_a_group(site: Site, visit: Visit) -> None:
    session = site.world.published()
    told = site.world.coordinator.summary(site.world.user("ana"), session.id)["groups_by_providers"]
    assert len(told) > 1
    with visit("ana", f"/sessions/{session.id}/release") as page:
        expect(page.get_by_text("Every requirement was checked again")).to_be_visible()
        groups = page.get_by_role("table", name="Groups by how many providers have records in them")
        expect(groups.locator("tbody tr")).to_have_text(
            [f"{fed} provider{'' if fed == '1' else 's'}{count}" for fed, count in told.items()]
        )
        expect(
            page.get_by_text("still satisfy the requirements when any provider takes its own records out")
        ).to_be_visible()
        worst = page.get_by_role("table", name="Requirements and the worst group of each")
        expect(worst).to_contain_text("m = 1, of k-anonymity (k = 5); l-diversity (l = 2, sensitive = disease)")


def test_providers_name_those_with_the_same_columns(site: Site, visit: Visit) -> None:
    with visit("ana", "/providers") as page:

        def section(party: str) -> Locator:
            return page.locator("section").filter(has=page.get_by_role("heading", level=2, name=party))

        expect(section("north").get_by_role("listitem")).to_have_text(
            ["coast: age, ward", "south: age, ward, disease, survived, months, died", "west: age, disease, survived"]
        )
        expect(section("registry")).to_be_visible()
        expect(section("registry").get_by_role("listitem")).to_have_count(0)


def test_horizontal_pages_are_usable_by_all(site: Site, visit: Visit, artefacts: Path) -> None:
    world = site.world
    running = world.running()
    world.progress(running, 40)
    published = world.published()
    places = {
        "horizontal-request": "/request",
        "horizontal-running": f"/sessions/{running.id}",
        "horizontal-release": f"/sessions/{published.id}/release",
        "horizontal-providers": "/providers",
        "horizontal-sessions": "/sessions",
    }
    found: dict[str, object] = {}
    with visit("ana") as page:
        for name, place in places.items():
            page.goto(site.console(place))
            page.get_by_role("heading", level=1).wait_for()
            if name == "horizontal-request":
                preview = open_form(page, site)
                choose(page, "age", "ward", "disease")
                page.get_by_label("Purpose").fill("research")
                expect(preview).to_contain_text("is not the same everywhere")
                page.get_by_text("As TOML").click()
            found |= every_look(page, name, artefacts)
    assert found == {}
