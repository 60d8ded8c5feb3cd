"""The coordinator without its parties: who sees and decides what, and what ends by itself."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fake_clock import FakeClock
from full_disk import no_file_above
from masquerade.errors import Conflict, NotAllowed, NotFound, ParameterError, PeerRefused, PeerUnreachable
from masquerade.service.agree.terms import PriceList
from masquerade.service.coordinator import housekeeping
from masquerade.service.coordinator.coordinator import Coordinator
from masquerade.service.resources import Role, User
from masquerade.service.session_states import Status
from masquerade.service.wire.control import Published, PublishedDataset
from service.coordinators import HEAD, PARTIES, read_settings
from service.parties import BANK, CLINIC
from service.stores import agreed, new_release

WISH: dict[str, Any] = {
    "purpose": "research",
    "attributes": ["age", "job"],
    "privacy": [{"model": "k-anonymity", "qid": ["age", "job"], "k": 5}],
}


@pytest.fixture
def coordinator(trial: Path, tmp_path: Path) -> Iterator[Coordinator]:
    found = read_settings(trial, PARTIES, head=f'{HEAD}state = "{tmp_path / "state"}"\n')
    with Coordinator(found, clock=FakeClock()) as made:
        made.directory.take_in(Published("bank", (PublishedDataset(BANK, public=True, sessions=2),)), "bank")
        clinic = PublishedDataset(CLINIC, users=("ana", "cleo"), sessions=1)
        made.directory.take_in(Published("clinic", (clinic,)), "clinic")
        yield made


def user(coordinator: Coordinator, name: str, role: str = "analyst") -> User:
    return coordinator.store.users.add(name, "no hash", Role(role))


def test_a_preview_foresees_price_purpose_and_absence(coordinator: Coordinator) -> None:
    ana = user(coordinator, "ana")
    take_in = coordinator.directory.take_in
    bank = PublishedDataset(BANK, public=True, purposes=("research", "billing"), price=PriceList(200, 3))
    take_in(Published("bank", (bank,)), "bank")
    clinic = PublishedDataset(CLINIC, public=True, purposes=("*",), price=PriceList(attributes={"age": 50}))
    take_in(Published("clinic", (clinic,)), "clinic")
    found = coordinator.preview(ana, WISH | {"purpose": "marketing", "budget": 10})
    contributed = [name for name, parties in found.contributors.items() if "bank" in parties]
    records = min(each.records for each in (BANK, CLINIC) if each.records is not None)
    assert found.price == 200 * len(contributed) + 3 * records + 50
    assert found.budget == 10
    assert (found.purposes, found.refused_by) == (("billing", "research"), ("bank",))
    assert (found.unreachable, found.released_before, found.problems) == ((), False, ())
    coordinator.directory.answered("clinic", False)
    assert coordinator.preview(ana, WISH).unreachable == ("clinic",)
    (seen,) = [each for each in coordinator.providers(ana) if each.party == "bank"]
    assert seen.purposes == ("billing", "research")


# --- who sees and decides what ---


def test_a_private_dataset_looks_as_if_it_were_not_there(coordinator: Coordinator) -> None:
    ana, ben = user(coordinator, "ana"), user(coordinator, "ben")
    assert [each.party for each in coordinator.providers(ana)] == ["bank", "clinic"]
    assert [each.party for each in coordinator.providers(ben)] == ["bank"]
    with pytest.raises(NotFound):
        coordinator.provider(ben, "clinic")
    assert coordinator.preview(ana, WISH).problems == ()
    assert coordinator.preview(ben, WISH).problems == ('attributes: no party offers "age"',)
    with pytest.raises(ParameterError, match='no party offers "age"'):
        coordinator.ask(ben, WISH)
    assert coordinator.ask(ana, WISH).providers == ("bank", "clinic")


def test_an_account_that_is_younger_than_the_cards_may_ask(coordinator: Coordinator) -> None:
    cleo = user(coordinator, "cleo")  # the clinic named her before she had an account
    assert coordinator.ask(cleo, WISH).status is Status.REQUESTED


def test_a_party_publishes_in_its_own_name_alone(coordinator: Coordinator) -> None:
    with pytest.raises(PeerRefused, match="in the name of clinic"):
        coordinator.directory.take_in(Published("clinic", ()), "bank")
    with pytest.raises(PeerRefused, match="in the name of clinic"):
        coordinator.directory.take_in(Published("bank", (PublishedDataset(CLINIC),)), "bank")
    assert coordinator.directory.published("clinic") is not None


def test_a_table_that_cannot_be_read_for_a_while_stays_in_the_cache(coordinator: Coordinator) -> None:
    def bank(snapshot: str | None, *replaced: str) -> Published:
        card = dataclasses.replace(BANK, snapshot=snapshot)
        return Published("bank", (PublishedDataset(card, public=True),), replaced)

    take_in, releases = coordinator.directory.take_in, coordinator.store.releases
    take_in(bank("b1"), "bank")
    take_in(bank(None), "bank")
    assert releases.replace_snapshots("bank", [], ["b1"]) == (1, 0)  # it had not been taken for replaced
    take_in(bank("b1"), "bank")
    assert releases.replace_snapshots("bank", [], ["b1"]) == (1, 0)  # current again
    take_in(bank("b2"), "bank")
    assert releases.replace_snapshots("bank", [], ["b1"]) == (0, 0)
    take_in(Published("bank", ()), "bank")
    assert releases.replace_snapshots("bank", [], ["b2"]) == (0, 0)  # a dataset that is gone


def test_a_party_that_has_not_published_yet_is_nobodys_mistake(trial: Path, tmp_path: Path) -> None:
    found = read_settings(trial, PARTIES, head=f'{HEAD}state = "{tmp_path / "state"}"\n')
    with Coordinator(found, clock=FakeClock()) as coordinator:
        ana = user(coordinator, "ana")
        coordinator.directory.take_in(Published("bank", (PublishedDataset(BANK, public=True),)), "bank")
        (problem,) = coordinator.preview(ana, WISH).problems
        assert problem.startswith("one party has not published")  # hers to know?
        with pytest.raises(PeerUnreachable, match=r"^one of the parties: has not published yet"):
            coordinator.ask(ana, WISH)
        fingerprint = found.trust.fingerprint("clinic")
        coordinator.store.providers.register("clinic", "127.0.0.1:1", fingerprint, allowed=["ana"])
        (problem,) = coordinator.preview(ana, WISH).problems  # not also that nobody offers its columns
        assert problem.startswith("clinic has not published")
        with pytest.raises(PeerUnreachable, match=r'clinic: has not published yet.*no party offers "age"'):
            coordinator.ask(ana, WISH)
        with pytest.raises(ParameterError):  # this is hers
            coordinator.ask(ana, {"attributes": ["job"]})


def test_who_asks_is_whoever_signed_in(coordinator: Coordinator) -> None:
    ana = user(coordinator, "ana")
    user(coordinator, "root", "admin")
    session = coordinator.ask(ana, WISH | {"user": "root"})
    assert session.client == session.request["user"] == "ana"


def test_a_preview_stores_nothing_and_tells_all_problems(coordinator: Coordinator) -> None:
    ana = user(coordinator, "ana")
    found = coordinator.preview(ana, {"attributes": ["age"], "colour": 1})
    assert len(found.problems) == 3
    assert any("colour" in line for line in found.problems)
    assert any("purpose" in line for line in found.problems)
    good = coordinator.preview(ana, WISH)
    assert good.contributors == {"age": ("clinic",), "job": ("bank",)}
    assert good.requirement == ("k-anonymity (k = 5) over age, job",)
    assert coordinator.sessions(ana) == []


def test_only_the_client_decides_and_an_admin_may_cancel(coordinator: Coordinator) -> None:
    ana, ben, root = user(coordinator, "ana"), user(coordinator, "ben"), user(coordinator, "root", "admin")
    session = coordinator.ask(ana, WISH | {"recipients": ["ana", "ben"]})
    assert coordinator.session(ben, session.id).id == session.id
    with pytest.raises(NotAllowed):
        coordinator.cancel(ben, session.id)
    for decide in (coordinator.accept, coordinator.withdraw):
        with pytest.raises(Conflict):
            decide(ana, session.id)
        with pytest.raises(NotAllowed):
            decide(root, session.id)
    with pytest.raises(Conflict):
        coordinator.relax(ana, session.id, {})
    assert coordinator.cancel(root, session.id).cause == "cancelled by root"
    with pytest.raises(Conflict, match="cancelled already"):
        coordinator.cancel(ana, session.id)


def test_health_tells_who_is_there_and_what_waits(coordinator: Coordinator) -> None:
    found = coordinator.health()
    assert (found["ready"], found["database"], found["queue"]) == (True, "ok", 0)
    assert set(found["parties"]) == {"bank", "clinic"}
    coordinator.directory.answered("bank", False)
    assert coordinator.health()["parties"]["bank"]["reachable"] is False
    json.dumps(found)


def test_nothing_is_ready_while_no_file_can_be_written(coordinator: Coordinator) -> None:
    with no_file_above(4096):  # the database could still be written in its own pages
        found = coordinator.health()
        assert (found["ready"], found["database"], found["files"]) == (False, "ok", "cannot be written")
    found = coordinator.health()
    assert (found["ready"], found["files"]) == (True, "ok")


# --- deadlines, retention, restarts ---


def test_a_waiting_session_expires_at_its_deadline(coordinator: Coordinator) -> None:
    ana = user(coordinator, "ana")
    clock = coordinator.clock
    assert isinstance(clock, FakeClock)
    soon = int(clock.now().timestamp()) + 60
    session = coordinator.ask(ana, WISH | {"deadline": soon})
    late = coordinator.ask(ana, WISH | {"deadline": 2**53 - 1})
    clock.tick(seconds=61)
    housekeeping.retire(coordinator.store, coordinator.files)
    assert coordinator.session(ana, session.id).status is Status.EXPIRED
    assert coordinator.session(ana, late.id).status is Status.REQUESTED
    clock.tick(days=7)
    housekeeping.retire(coordinator.store, coordinator.files)
    assert coordinator.session(ana, late.id).status is Status.EXPIRED


def test_a_deadline_that_has_passed_is_refused_at_once(coordinator: Coordinator) -> None:
    ana = user(coordinator, "ana")
    now = int(coordinator.clock.now().timestamp())
    for over in (0, now - 1, now):
        late = WISH | {"deadline": over}
        with pytest.raises(
            ParameterError, match=r"request: deadline: .*Z has passed, it is .*; give a later one"
        ):
            coordinator.ask(ana, late)
        (told,) = coordinator.preview(ana, late).problems
        assert told.startswith("deadline: ")
    assert coordinator.sessions(ana) == []
    assert coordinator.preview(ana, WISH | {"deadline": now + 1}).problems == ()


def test_retention_deletes_the_files_and_a_restart_sweeps_what_has_no_row(coordinator: Coordinator) -> None:
    ana = user(coordinator, "ana")
    clock, store, folder = coordinator.clock, coordinator.store, coordinator.settings.releases
    assert isinstance(clock, FakeClock)
    session = agreed(store, coordinator.ask(ana, WISH))
    for status in (Status.QUEUED, Status.RUNNING, Status.ASSEMBLING):
        session = store.sessions.advance(session, status)
    made = folder / session.id
    made.mkdir()
    (made / "release.csv").write_text("age\n*\n")
    release = new_release(store, f"{session.id}/release", days=3)
    release = type(release)(**{**release.__dict__, "snapshots": {"bank": "b1", "clinic": "c1"}})
    store.releases.publish(session, release)
    (folder / f".{session.id}.0011").mkdir()
    (folder / "orphan").mkdir()
    (folder / "orphan" / "release.csv").write_text("age\n")
    housekeeping.after_restart(store, coordinator.files, coordinator.settings.parties)
    assert [each.name for each in folder.iterdir()] == [session.id]
    housekeeping.retire(coordinator.store, coordinator.files)
    assert coordinator.table(ana, session.id).read_text() == "age\n*\n"
    clock.tick(days=3)
    housekeeping.retire(coordinator.store, coordinator.files)
    assert list(folder.iterdir()) == []
    with pytest.raises(NotFound):
        coordinator.table(ana, session.id)


def test_a_session_with_a_party_that_is_gone_from_the_settings_fails_at_the_restart(
    coordinator: Coordinator, trial: Path
) -> None:
    ana = user(coordinator, "ana")
    session = coordinator.ask(ana, WISH)
    head = f'{HEAD}state = "{coordinator.settings.state}"\n'
    fewer = read_settings(trial, '[parties.clinic]\naddress = "127.0.0.1:7002"\n', head=head)
    with Coordinator(fewer) as later:
        housekeeping.after_restart(later.store, later.files, fewer.parties)
        ended = later.session(ana, session.id)
        assert ended.status is Status.FAILED
        assert ended.cause == "party bank: is not among the parties of this coordinator any more"
        assert [each.party for each in later.providers(ana)] == ["clinic"]
