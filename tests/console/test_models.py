"""Models in the console, in a real Chromium: the form, the session and the drawn model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from playwright.sync_api import expect

from console.conftest import PATIENCE, Site, Visit
from console.hospitals import TOGETHER, HospitalWorld
from console.test_horizontal import choose, open_form, shown
from console.test_looks import every_look
from console.world import served
from masquerade.arrangement import PROVIDER
from masquerade.data import Attribute, Schema, Table
from masquerade.methods import learning_method_of
from masquerade.protocol import EVERYBODY, Contract, Contribution, Learned, alone_at
from masquerade.service import SessionRecord, Status
from masquerade.service.coordinator.release_files import summary_of

expect.set_options(timeout=PATIENCE)

WISH = {
    "purpose": "research",
    "kind": "horizontal",
    "attributes": ["age"],
    "duration": "months",
    "event": "died",
    "budget": 5000,
    "parties": list(TOGETHER),
    "algorithm": {"name": "cox"},
}


class SurvivalWorld(HospitalWorld):
    """A session in which north and south learned how long people live."""

    wish = WISH

    def published(self) -> SessionRecord:
        session = self.store.sessions.advance(self.running(self.asked()), Status.ASSEMBLING)
        learned = survival()
        summary = {**summary_of(learned, show_steps=False), "kind": "horizontal"}
        new = self.kept(session, learned, summary, learned.n_records)
        return self.store.releases.publish(session, new, dict.fromkeys(TOGETHER, 0))


def survival() -> Learned:
    """A Cox model of 60 patients."""
    rng = np.random.default_rng(7)
    age = rng.integers(40, 90, 60)
    months = np.ceil(rng.exponential(600 / age))
    died = rng.random(60) < 0.7
    table = pa.table({"age": age, "months": months, "died": died.astype(int)})
    columns = [("age", "attribute"), ("months", "duration"), ("died", "event")]
    contract = Contract(
        parties=("north",),
        columns=tuple(Contribution(name, EVERYBODY, role) for name, role in columns),  # type: ignore[arg-type]
        requirements=(),
        method={"name": "cox"},
        provider=PROVIDER,
    )
    method = learning_method_of(contract)
    schema = Schema([Attribute("age", "continuous")])
    return method.learned_alone(alone_at(method, contract, Table(table, schema)))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    world = SurvivalWorld(tmp_path_factory.mktemp("coordinator"))
    with served(world.configuration) as address:
        yield Site(address, world)
    world.close()


def test_the_form_shows_what_the_method_needs_and_nothing_else(visit: Visit, site: Site, artefacts: Path) -> None:
    with visit() as page:
        preview = open_form(page, site)
        choose(page, "age")
        privacy = page.get_by_role("group", name="Privacy requirement")
        expect(privacy).to_be_visible()
        expect(page.get_by_label("Duration")).to_have_count(0)
        page.get_by_label("Method").select_option("cox")
        expect(privacy).to_be_hidden()
        expect(page.get_by_label("Class", exact=True)).to_have_count(0)
        for label in ("Largest classification error", "How many providers may collude (m)"):
            expect(page.get_by_label(label)).to_have_count(0)
        page.get_by_label("Purpose").fill("research")
        expect(preview).to_contain_text("duration: missing; cox needs the column of the duration")
        page.get_by_label("Duration").select_option("months")
        page.get_by_label("Event", exact=True).select_option("died")
        preview.get_by_text("This can be sent.").wait_for()
        assert not every_look(page, "survival-form", artefacts)
        content = shown(page)
        assert (content["duration"], content["event"]) == ("months", "died")
        assert not {"class", "privacy", "m"} & content.keys()

        page.get_by_label("Method").select_option("logistic")
        expect(privacy).to_be_hidden()
        expect(page.get_by_label("Duration")).to_have_count(0)
        page.get_by_label("Class", exact=True).select_option("survived")
        toml = page.get_by_role("region", name="TOML", include_hidden=True)
        expect(toml).to_contain_text('class = "survived"')
        assert "duration" not in shown(page)

        page.get_by_label("Method").select_option("mondrian")
        expect(privacy).to_be_visible()


def test_a_model_of_survival_is_drawn_with_its_curve(visit: Visit, site: Site, artefacts: Path) -> None:
    done = site.world.published()
    with visit("ana", f"/sessions/{done.id}") as page:
        asked = page.get_by_text("Duration", exact=True).locator("..")
        expect(asked).to_contain_text("months")
        expect(page.get_by_text("Wished requirement")).to_have_count(0)
        expect(page.get_by_text("Providers that may collude")).to_have_count(0)
        page.goto(site.console(f"/sessions/{done.id}/release"))
        expect(page.get_by_role("heading", name="Survival curves")).to_be_visible()
        expect(page.get_by_role("heading", name="Coefficients")).to_be_visible()
        expect(page.get_by_text("concordance")).to_be_visible()
        assert not every_look(page, "survival-model", artefacts)
