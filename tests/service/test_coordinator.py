"""The coordinator without its parties: who sees and decides what, and what ends by itself."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from starlette.applications import Starlette

import masquerade as mq
from fake_clock import FakeClock
from full_disk import no_file_above
from masquerade.errors import Conflict, NotAllowed, NotFound, ParameterError, PeerRefused, PeerUnreachable
from masquerade.service import Coordinator, Role, Status, Store, User, serving
from masquerade.service.agree.terms import PriceList
from masquerade.service.clock import SYSTEM_CLOCK
from masquerade.service.coordinator import housekeeping
from masquerade.service.coordinator.directory import party_app
from masquerade.service.coordinator.release_files import ReleaseFiles
from masquerade.service.coordinator.wakeup import Wakeup
from masquerade.service.wire.control import Published, PublishedDataset
from service.coordinators import HEAD, PARTIES, read_settings
from service.parties import BANK, CLINIC
from service.stores import agreed, assembling, digest, furnish, new_release, queued, requested

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
        with pytest.raises(ParameterError, match=r"request: deadline: .*Z has passed, it is .*; give a later one"):
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


# --- What the coordinator reads from its own folder: released files, and the end of the audit log ---


def test_files_stay_in_their_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("x")
    files = ReleaseFiles(tmp_path / "releases")
    files.folder.mkdir()
    for path in ("../secret.csv", "/etc/passwd", "none/release.csv", "."):
        with pytest.raises(NotFound):
            files.whole(path)
    files.remove("../secret.csv")
    assert (tmp_path / "secret.csv").exists()
    with pytest.raises(ParameterError, match="csv, parquet"):
        files.table("a/release.csv", "../x")


def test_the_report_names_the_table_that_it_is_about(tmp_path: Path) -> None:
    table = mq.Table(pa.table({"age": [20, 20, 30, 30]}))
    made = mq.anonymize(table, mq.KAnonymity(["age"], 2))
    written = ReleaseFiles(tmp_path).write("ab" * 16, made, {})
    assert hashlib.sha256((tmp_path / written.table).read_bytes()).hexdigest() == written.sha256
    assert written.sha256 in (tmp_path / written.report).read_text()


# --- Where the coordinator listens, what its server for parties answers, and what wakes its background
# work.


@pytest.mark.parametrize("key", ["address", "party_address"])
def test_an_address_that_is_taken_is_named_with_its_key(trial: Path, tmp_path: Path, key: str) -> None:
    async def served(made: Coordinator) -> None:
        async with serving(made, Starlette()):
            raise AssertionError("it listens")

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        own = {"address": "127.0.0.1:0", "party_address": "127.0.0.1:0"}
        own[key] = f"127.0.0.1:{taken.getsockname()[1]}"
        lines = "".join(f'{name} = "{address}"\n' for name, address in own.items())
        found = read_settings(trial, lines + PARTIES, head=f'{HEAD}state = "{tmp_path / "state"}"\n')
        with Coordinator(found) as made, pytest.raises(ParameterError) as caught:
            asyncio.run(served(made))
    told = f"{found.path}: {key}: {own[key]}: cannot listen here; is the port taken"
    assert str(caught.value).startswith(told)


def test_what_the_party_server_has_not_is_told_as_a_problem(trial: Path, tmp_path: Path) -> None:
    found = read_settings(trial, PARTIES, head=f'{HEAD}state = "{tmp_path / "state"}"\n')
    with Coordinator(found) as made:
        app = party_app(found, made.directory, made.wakeup, SYSTEM_CLOCK)
        asked = httpx.ASGITransport(app)

        async def answers() -> list[httpx.Response]:
            async with httpx.AsyncClient(transport=asked, base_url="http://coordinator") as caller:
                return [await caller.get("/v1/nothing"), await caller.get("/v1/datasets")]

        missing, wrong = asyncio.run(answers())
    assert (missing.status_code, wrong.status_code) == (404, 405)
    for answer in (missing, wrong):
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["status"] == answer.status_code
    assert missing.json()["problems"] == ["GET /v1/nothing: there is no such address"]
    assert wrong.headers["allow"] == "POST"


def test_whoever_is_cancelled_when_the_bell_rings_ends() -> None:
    """Otherwise a coordinator that is told to end while a party publishes would run on for ever."""

    async def both_at_once() -> bool:
        wakeup = Wakeup(SYSTEM_CLOCK)
        wakeup.attach()
        waiting = asyncio.create_task(wakeup.wait(60))
        await asyncio.sleep(0)
        wakeup.ring()
        asyncio.get_running_loop().call_soon(waiting.cancel)  # after the bell, before whoever waits goes on
        await asyncio.wait({waiting})
        return waiting.cancelled()

    assert asyncio.run(both_at_once())


# --- What the store does for a running coordinator: contracts anew, places in the queue, cards, events.

FREE = {"bank": 1, "shop": 1}


def test_a_session_that_is_put_back_keeps_its_attempt_and_its_place(store: Store, clock: FakeClock) -> None:
    furnish(store)
    first = queued(store)
    clock.tick(seconds=1)
    second = queued(store)
    claimed = store.queue.claim(FREE)
    assert claimed is not None
    assert (claimed.id, claimed.attempts) == (first.id, 1)
    back = store.sessions.put_back(claimed, "party bank: busy", digest("another"), {"nonce": "2"})
    assert (back.status, back.attempts, back.queued) == (Status.QUEUED, 0, first.queued)
    assert (back.contract_hash, back.contract) == (digest("another"), {"nonce": "2"})
    assert back.cause == "party bank: busy"
    for _ in range(back.attempt_limit + 1):  # however often
        again = store.queue.claim(FREE)
        assert again is not None
        assert (again.id, again.attempts) == (first.id, 1)
        store.sessions.put_back(again, "busy", digest("third"), {})
    with pytest.raises(Conflict):
        store.sessions.put_back(claimed, "busy", digest("late"), {})
    with pytest.raises(Conflict):
        store.sessions.put_back(second, "busy", digest("never ran"), {})
    assert store.sessions.get(second.id).attempts == 0


def test_a_contract_is_renewed_while_its_session_runs(store: Store) -> None:
    furnish(store)
    waiting = queued(store)
    with pytest.raises(Conflict):
        store.sessions.renew(waiting, digest("new"), {})
    claimed = store.queue.claim(FREE)
    assert claimed is not None
    renewed = store.sessions.renew(claimed, digest("new"), {"attempt": 2})
    assert (renewed.contract_hash, renewed.contract) == (digest("new"), {"attempt": 2})
    assert renewed.terms_hash == claimed.terms_hash
    with pytest.raises(Conflict):  # whoever read it before knows an old contract
        store.sessions.advance(claimed, Status.ASSEMBLING)
    assert store.sessions.advance(renewed, Status.ASSEMBLING).status is Status.ASSEMBLING
    other = queued(store)
    taken = store.queue.claim(FREE)
    assert taken is not None
    assert taken.id == other.id
    with pytest.raises(Conflict, match="another session has the contract"):
        store.sessions.renew(taken, digest("new"), {})


def test_a_relaxed_session_asks_anew_and_forgets_the_held_table_once_that_is_agreed(store: Store) -> None:
    furnish(store)
    session = assembling(store)
    with pytest.raises(Conflict):
        store.sessions.relax(session, {"k": 1})
    held = store.releases.hold(session, new_release(store), {"error": 0.5})
    relaxed = store.sessions.relax(held, {"most_error": "0.9"}, attempt_limit=5)
    assert (relaxed.status, relaxed.request) == (Status.NEGOTIATING, {"most_error": "0.9"})
    assert (relaxed.attempts, relaxed.attempt_limit) == (0, 5)
    assert store.releases.held(session.id) is not None
    store.sessions.agree(relaxed, digest("other terms"), digest("another contract"), {})
    assert store.releases.held(session.id) is None
    assert store.releases.kept() == {"t.csv"}  # until retention has deleted it
    found = store.expire()
    assert found.files == ("t.csv", "t.html")
    store.releases.forget(found.releases)
    assert store.releases.kept() == set()
    with pytest.raises(ParameterError):
        store.sessions.relax(held, {}, attempt_limit=0)


def test_a_party_tells_who_may_ask_it(store: Store) -> None:
    furnish(store)
    store.providers.publish_schema("bank", "finger of bank", {}, public=False, allowed=["ann", "nobody", "\0"])
    assert [each.party for each in store.providers.reachable("ann")] == ["bank", "shop"]
    assert [each.party for each in store.providers.reachable("ben")] == ["shop"]
    assert store.providers.get("bank").allowed == ("ann",)
    store.providers.publish_schema("bank", "finger of bank", {"a": 1})  # what is not said stays
    assert store.providers.get("bank").allowed == ("ann",)
    with pytest.raises(NotAllowed):
        store.providers.publish_schema("bank", "another finger", {}, public=True)
    assert not store.providers.get("bank").public


def test_several_events_come_at_once_and_the_last_is_found(store: Store) -> None:
    furnish(store)
    session = requested(store)
    store.events.extend(session.id, [("step", {"n": number}) for number in range(3)])
    assert [(each.number, each.kind) for each in store.events.after(session.id)] == [
        (1, "status"),
        (2, "step"),
        (3, "step"),
        (4, "step"),
    ]
    last = store.events.last(session.id, "step")
    assert last is not None
    assert last.data == {"n": 2}
    assert store.events.last(session.id, "quality") is None
    store.sessions.advance(session, Status.CANCELLED, "why", {"reasons": ["a", "b"]})
    ended = store.events.last(session.id, "status")
    assert ended is not None
    assert ended.data["reasons"] == ["a", "b"]
    assert ended.data["to"] == "cancelled"


def test_sessions_are_counted_by_state(store: Store) -> None:
    furnish(store)
    queued(store)
    requested(store)
    assert store.sessions.count(Status.QUEUED) == 1
    assert store.sessions.count(Status.QUEUED, Status.REQUESTED) == 2
    assert store.sessions.count(Status.RUNNING) == 0
