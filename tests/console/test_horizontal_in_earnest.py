"""A whole horizontal session through the console, with hospitals that really publish together."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from console.conftest import PATIENCE, Served, Visit
from service_hospitals import Hospitals
from service_house import wait_until

pytestmark = pytest.mark.system

expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hospitals]:
    folder = tmp_path_factory.mktemp("hospitals")
    learn = {"learn": {"methods": ["logistic"]}}
    policies = {
        "north": learn,
        "south": learn,
        "west": {"least_m": 2, "methods": {"mondrian": {"third_party": ["secure"]}}, **learn},
    }
    with Hospitals(folder, policies=policies, console=True, processes=True) as house:
        house.start_nodes()
        yield house


@pytest.fixture(scope="module")
def site(house: Hospitals) -> Served:
    house.user("ana")
    return Served(house.serve().ready["address"])


def filled_in(page: Page, site: Served, *columns: str) -> Locator:
    """A form for a horizontal request of these columns, once all hospitals have published, and its preview."""

    def all_published() -> bool:
        page.goto(site.console("/providers"))
        page.get_by_role("heading", level=1).wait_for()
        return page.get_by_role("heading", level=2).count() == 3

    wait_until(all_published, "all hospitals have published")
    page.goto(site.console("/request"))
    page.get_by_role("radio", name="The same columns about different people").check()
    page.get_by_role("group", name="Who takes part").wait_for()
    for name in columns:
        page.get_by_role("group", name="Columns", exact=True).get_by_role("checkbox", name=name).check()
    page.get_by_label("Purpose").fill("research")
    return page.get_by_role("complementary", name="Preview")


def test_hospitals_publish_together_at_the_press_of_a_button(
    house: Hospitals, site: Served, visit: Visit, artefacts: Path
) -> None:
    with visit("ana") as page:
        preview = filled_in(page, site, "age", "ward", "disease")
        page.get_by_role("button", name="Add a requirement").click()
        second = page.get_by_role("group", name="Requirement 2")
        second.get_by_label("Model").select_option("l-diversity")
        second.get_by_label("Sensitive column").select_option("disease")
        for name in ("age", "ward"):
            second.get_by_role("checkbox", name=name).check()
        expect(preview).to_contain_text("This can be sent.")
        expect(preview).to_contain_text("l-diversity")
        page.get_by_role("button", name="Send the request").click()

        expect(page.locator(".stepper [aria-current=step]")).to_have_text("published", timeout=2 * PATIENCE)
        facts = page.locator(".facts").first
        expect(facts).to_contain_text("The same columns about different people")
        expect(facts).to_contain_text("2; asked for 1")  # west insists
        progress = page.get_by_role("table", name="Progress by party").locator("tbody tr")
        expect(progress).to_have_count(3)
        for row in progress.all():
            assert int(row.locator("td[data-name='Cuts tried']").inner_text()) > 0
        expect(page.get_by_text("Counter-offer to all")).to_be_visible()
        page.screenshot(path=artefacts / "console-horizontal-published-light-1100.png", full_page=True)

        page.get_by_role("link", name="Release and report").click()
        expect(page.get_by_text("Every requirement was checked again")).to_be_visible()
        expect(page.get_by_text("when any 2 providers together take their own records out")).to_be_visible()
        groups = page.get_by_role("table", name="Groups by how many providers have records in them")
        expect(groups.locator("tbody tr").first).to_contain_text(re.compile("[123] provider"))
        with page.expect_popup() as opening:
            page.get_by_role("link", name="Open the report").click()
        expect(opening.value.get_by_role("heading").first).to_be_visible()
        with page.expect_download() as coming:
            page.get_by_role("link", name="Download as CSV").click()
        rows = list(csv.DictReader(coming.value.path().read_text().splitlines()))
        page.screenshot(path=artefacts / "console-horizontal-published-release-light-1100.png", full_page=True)

    records = [record for party in house.parties for record in house.records(party)]
    assert list(rows[0]) == ["age", "ward", "disease"]  # and not whose it is
    assert Counter(row["disease"] for row in rows) == Counter(record["disease"] for record in records)
    assert min(Counter((row["age"], row["ward"]) for row in rows).values()) >= 5


def test_hospitals_learn_a_model_at_the_press_of_a_button(
    house: Hospitals, site: Served, visit: Visit, artefacts: Path
) -> None:
    with visit("ana") as page:
        preview = filled_in(page, site, "age", "cost")
        page.get_by_label("Class", exact=True).select_option("survived")
        page.get_by_label("Method").select_option("logistic")
        expect(preview).to_contain_text("This can be sent.")
        page.get_by_role("button", name="Send the request").click()

        expect(page.locator(".stepper [aria-current=step]")).to_have_text("published", timeout=2 * PATIENCE)
        page.get_by_role("link", name="Model and report").click()
        expect(page.get_by_text("The parties learned this model together.")).to_be_visible()
        for part in ("How good it is", "Coefficients", "ROC curve"):
            expect(page.get_by_role("heading", name=part)).to_be_visible()
        page.screenshot(path=artefacts / "console-model-light-1100.png", full_page=True)
        with page.expect_download() as coming:
            page.get_by_role("link", name="Download the model").click()
        model = json.loads(coming.value.path().read_text())
    assert set(model["coefficients"]) == {"age", "cost"}
    assert model["records"] == sum(len(house.records(party)) for party in house.parties)


def test_what_the_parties_would_refuse_is_changed_at_the_press_of_a_button(
    house: Hospitals, site: Served, visit: Visit
) -> None:
    with visit("ana") as page:
        preview = filled_in(page, site, "age", "ward")
        page.get_by_label("Third party").select_option("trusted")
        expect(preview).to_contain_text("is not allowed; allowed: secure (west)")
        page.get_by_role("button", name="Change it to what is possible").click()
        expect(preview).to_contain_text("This can be sent.")
        expect(page.get_by_label("Third party")).to_have_value("secure")
        expect(page.get_by_label("Purpose")).to_have_value("research")
