"""The coordinator when one piece of its work is cut short by another: each moment is held open until it is."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from masquerade.audit import AuditLog
from masquerade.errors import Conflict
from masquerade.net import Receive
from masquerade.protocol.hand_in import Columns
from masquerade.service import Coordinator, Role, SessionRecord, Status
from masquerade.service.clock import SYSTEM_CLOCK
from masquerade.service.coordinator import background as backgrounds, publish as publishing_phase, run as runs
from masquerade.service.coordinator.context import WorkingContext
from masquerade.service.coordinator.parties import PartyBackoff
from masquerade.service.coordinator.party_links import PartyLinks
from masquerade.service.coordinator.publish import Assembled, ReleasePublisher
from masquerade.service.coordinator.run import Runner, SessionAttempt
from masquerade.service.coordinator.scheduler import Scheduler
from masquerade.service.coordinator.session_moves import contract_of
from masquerade.service.coordinator.sign import new_contract
from masquerade.service.store import NewRelease
from masquerade.service.wire.control import Published, PublishedDataset
from masquerade.service.wire.peers import TLS
from service.coordinators import HEAD, PARTIES, read_settings
from service.gates import PATIENCE, Gate
from service.parties import BANK, CLINIC, dealt, request
from service.stores import digest

NEW_BANK = dataclasses.replace(BANK, snapshot="ab" * 32)


@pytest.fixture
def coordinator(trial: Path, tmp_path: Path) -> Iterator[Coordinator]:
    keys = f'{HEAD}state = "{tmp_path / "state"}"\nparty_address = "127.0.0.1:0"\n'
    with Coordinator(read_settings(trial, PARTIES, head=keys)) as made:
        for card in (BANK, CLINIC):
            made.directory.take_in(of(card), card.party)
        made.store.users.add("ana", "no hash", Role.ANALYST)
        yield made


def of(card: Any, **more: Any) -> Published:
    return Published(card.party, (PublishedDataset(card, public=True, sessions=2),), **more)


def queued(coordinator: Coordinator) -> SessionRecord:
    """A session that waits for its turn; all of them have the same terms."""
    sessions = coordinator.store.sessions
    contract = new_contract(dealt(request()), coordinator.settings, coordinator.clock.now())
    asked = sessions.create("ana", ["bank", "clinic"], "research", request().content())
    agreed = sessions.agree(
        sessions.advance(asked, Status.NEGOTIATING),
        contract.deal.terms.hash.hex(),
        contract.hash.hex(),
        msgspec.to_builtins(contract),
    )
    return sessions.advance(agreed, Status.QUEUED)


def claimed(coordinator: Coordinator) -> SessionRecord:
    session = queued(coordinator)
    return coordinator.store.sessions.advance(session, Status.RUNNING)


def publish(coordinator: Coordinator, session: SessionRecord) -> None:
    """What a session that runs comes to."""
    folder = coordinator.settings.releases / session.id
    folder.mkdir()
    columns = [*session.request["attributes"], session.request["class"]]
    (folder / "summary.json").write_text(json.dumps({"columns": columns}))
    (folder / "report.html").touch()
    snapshots = {each.party: str(each.snapshot) for each in (BANK, CLINIC)}
    expires = coordinator.clock.now() + coordinator.settings.keep_releases
    paths = f"{session.id}/release.csv", f"{session.id}/report.html"
    new = NewRelease(*paths, digest("table"), 5, expires, snapshots)
    moved = coordinator.store.sessions.advance(session, Status.ASSEMBLING)
    coordinator.store.releases.publish(moved, new)


def links_of(coordinator: Coordinator) -> PartyLinks:
    return PartyLinks(coordinator.settings, coordinator.directory, SYSTEM_CLOCK, TLS)


def scheduler_of(coordinator: Coordinator) -> Scheduler:
    """The scheduler, without a loop of its own: a test looks when it likes."""
    context = context_of(coordinator, None)  # type: ignore[arg-type]
    return coordinator.background.scheduler(context, PartyBackoff(context))


def context_of(coordinator: Coordinator, audit: AuditLog) -> WorkingContext:
    return WorkingContext.of(coordinator.context, links_of(coordinator), audit)


# --- an attempt ---


class Hall:
    """A listener to which everybody has come."""

    @asynccontextmanager
    async def connect(self, *_given: Any) -> AsyncIterator[dict[str, Any]]:
        yield {}


def test_an_attempt_that_is_cancelled_knows_that_its_session_was_moved(
    coordinator: Coordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, gate = claimed(coordinator), Gate()
    advance = coordinator.store.sessions.advance

    def slowly(*given: Any) -> SessionRecord:
        gate.hold()
        return advance(*given)

    async def all_hand_in(*_given: Any, on_move: Any, **_more: Any) -> None:
        for party in session.providers:
            on_move(Receive(party, Columns))

    monkeypatch.setattr(coordinator.store.sessions, "advance", slowly)
    monkeypatch.setattr(runs, "run_script", all_hand_in)

    async def part(audit: AuditLog) -> SessionAttempt:
        made = SessionAttempt(context_of(coordinator, audit), None, session)  # type: ignore[arg-type]
        addresses = dict.fromkeys(session.providers, "127.0.0.1:1")
        working = asyncio.create_task(made._release(Hall(), addresses))  # type: ignore[arg-type]
        await gate.reached()
        working.cancel()
        gate.open_soon()
        with pytest.raises(asyncio.CancelledError):
            await working
        return made

    with AuditLog(tmp_path / "audit.jsonl", coordinator.settings.identity) as audit:
        made = asyncio.run(part(audit))
    assert made.session.status is Status.ASSEMBLING
    # Whoever carries it on can: it is the session as the store has it.
    assert coordinator.store.sessions.retry(made.session, "party bank: gone").status is Status.QUEUED


@pytest.mark.parametrize("begun", [True, False])
async def test_a_delivery_that_has_begun_is_over_before_its_run_is(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    session, gate, delivered = claimed(coordinator), Gate(), threading.Event()

    def deliver(*_given: Any) -> None:
        gate.hold()
        delivered.set()
        raise Conflict("somebody was faster")

    monkeypatch.setattr(ReleasePublisher, "_deliver", deliver)
    for measured in ("figures_of", "losses_of"):  # there is no table to measure
        monkeypatch.setattr(publishing_phase, measured, lambda *_given: {})
    deal = dealt(request(**{"class": None}))
    contract = msgspec.structs.replace(contract_of(session), deal=deal)

    publisher = coordinator.context.publisher
    threads = 0 if begun else 2
    others = [asyncio.wrap_future(publisher._computing.submit(gate.hold)) for _ in range(threads)]
    made = Assembled(session, contract, None, {})  # type: ignore[arg-type]
    publishing = asyncio.create_task(publisher.publish(made))
    await gate.reached()
    await asyncio.sleep(0)
    publishing.cancel()
    if begun:
        gate.open_soon()
    with pytest.raises(asyncio.CancelledError):
        await publishing
    assert delivered.is_set() is begun
    gate.opened.set()
    await asyncio.gather(*others)
    assert delivered.is_set() is begun


# --- the background ---


def cancelled(coordinator: Coordinator, status: Status) -> SessionRecord:
    return coordinator.store.sessions.advance(claimed(coordinator), status, "for a test")


async def test_what_was_called_off_ends_in_peace_however_often_somebody_looks(coordinator: Coordinator) -> None:
    session = cancelled(coordinator, Status.CANCELLED)

    scheduler, may_end, told = scheduler_of(coordinator), asyncio.Event(), False

    async def carried() -> None:
        nonlocal told
        try:
            await asyncio.Event().wait()
        finally:  # the parties are told
            await may_end.wait()
            told = True

    task = scheduler.running[session.id] = asyncio.create_task(carried())
    await asyncio.sleep(0)
    for _ in range(3):
        await scheduler.look()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert told


async def test_what_failed_by_itself_is_not_called_off_before_it_has_told_so(coordinator: Coordinator) -> None:
    session = cancelled(coordinator, Status.FAILED)

    scheduler, told = scheduler_of(coordinator), asyncio.Event()
    task = scheduler.running[session.id] = asyncio.create_task(_ends(told))
    await scheduler.look()
    told.set()
    await task


async def _ends(told: asyncio.Event) -> None:
    await told.wait()


@pytest.mark.parametrize("moment", ["before somebody looks", "while somebody looks"])
def test_what_was_published_before_its_twins_turn_serves_it(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    first, twin = claimed(coordinator), queued(coordinator)
    began = []

    async def run(_runner: Runner, session: SessionRecord) -> None:
        began.append(session.id)

    monkeypatch.setattr(Runner, "run", run)

    async def part() -> None:
        scheduler, ended = scheduler_of(coordinator), asyncio.Event()
        task = scheduler.running[first.id] = asyncio.create_task(_ends(ended))
        await scheduler.look()
        assert coordinator.store.sessions.get(twin.id).status is Status.QUEUED
        if moment == "before somebody looks":
            publish(coordinator, first)
        else:
            slots = coordinator.directory.slots

            def published_meanwhile() -> dict[str, int]:
                del coordinator.directory.slots
                publish(coordinator, first)
                return slots()

            coordinator.directory.slots = published_meanwhile  # type: ignore[method-assign]
        await scheduler.look()
        ended.set()
        await asyncio.gather(task, *scheduler.running.values())

    asyncio.run(part())
    assert began == []
    served = coordinator.store.sessions.get(twin.id)
    assert (served.status, served.attempts) == (Status.PUBLISHED, 0)
    assert coordinator.store.releases.of(twin.id).table_path == f"{first.id}/release.csv"


def test_nothing_goes_on_when_the_background_has_ended(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backgrounds, "_LAST_CALLS", 0.05)

    async def part() -> set[str]:
        asked = asyncio.Event()

        async def frozen(_links: PartyLinks, _party: str, *_more: Any) -> None:
            asked.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(PartyLinks, "health", frozen)
        async with coordinator.running():
            await asked.wait()
        return {str(task.get_coro()) for task in asyncio.all_tasks() if task is not asyncio.current_task()}

    assert asyncio.run(part()) == set()


# --- what the parties publish ---


def test_what_a_party_tells_while_it_is_asked_is_newer_than_its_answer(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = coordinator.directory
    newer = of(NEW_BANK, replaced=(str(BANK.snapshot),))

    async def there(_links: PartyLinks, _party: str, *_more: Any) -> None:
        pass

    async def answers(_links: PartyLinks, party: str) -> Published:
        answer = of(BANK if party == "bank" else CLINIC)
        if party == "bank":
            await asyncio.to_thread(directory.take_in, newer, party)
        return answer

    monkeypatch.setattr(PartyLinks, "health", there)
    monkeypatch.setattr(PartyLinks, "datasets", answers)
    asyncio.run(coordinator.background.refresh(links_of(coordinator)))
    assert directory.published("bank") == newer
    assert directory.published("clinic") == of(CLINIC)


def test_a_new_card_outlives_a_request_that_has_read_the_old_one(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, newer = coordinator.directory, Published("bank", (PublishedDataset(NEW_BANK, users=("ana",)),))
    private = Published("bank", (PublishedDataset(BANK, users=("ana", "cleo")),))
    directory.take_in(private, "bank")
    coordinator.store.users.add("cleo", "no hash", Role.ANALYST)  # younger than the card
    known = directory._known
    telling = threading.Thread(target=directory.take_in, args=(newer, "bank"))

    def read_and_overtaken() -> Any:
        found = known()
        monkeypatch.undo()
        telling.start()
        telling.join(0.3)  # it may have to wait for us
        return found

    monkeypatch.setattr(directory, "_known", read_and_overtaken)
    directory.admit("cleo", {"bank": "customers"})
    telling.join(PATIENCE)
    assert directory.published("bank") == newer
