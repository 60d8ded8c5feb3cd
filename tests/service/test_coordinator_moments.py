"""The coordinator at moments that are hard to hit: each is held open until what is to happen has happened."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest

from masquerade.errors import Conflict, NotFound
from masquerade.service import Coordinator, SessionRecord, Status
from masquerade.service.coordinator import publish
from masquerade.service.coordinator.party_links import PartyLinks
from masquerade.service.coordinator.release_files import ReleaseFiles
from service.coordinators import dataset_of
from service.gates import Gate
from service_house import PATIENCE, House, wait_until

SILENCE = 20  # seconds: a party that lives is never silent so long, however busy the machine
_ks = count(3)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Three parties; the clinic takes one session at a time."""
    folder = tmp_path_factory.mktemp("house")
    # A negotiation with a frozen party outlives all that a test does meanwhile.
    timings = f"[timings]\nretry = 0.2\ncomeback = 3\nrefresh = 1\nsilence = {SILENCE}\nanswer = 300\n"
    policies = {"clinic": {"sessions": 1}}
    with House(folder, ("bank", "clinic", "shop"), policies=policies, coordinator_keys=timings) as house:
        for party in house.parties:
            conf = folder / f"{party}.toml"
            conf.write_text(conf.read_text().replace("silence = 20", f"silence = {SILENCE}"))
        house.start_nodes()
        yield house


def with_clinic(house: House, **changes: Any) -> dict[str, Any]:
    """A request that no other test has made, so that no cache answers it."""
    wish = house.request(privacy=[{"model": "k-anonymity", "qid": ["age", "job"], "k": next(_ks)}])
    return wish | changes


def without_clinic(house: House) -> dict[str, Any]:
    qid = ["job", "colour"]
    wish = house.request(attributes=qid, privacy=[{"model": "k-anonymity", "qid": qid, "k": next(_ks)}])
    del wish["class"]
    return wish


@contextmanager
def frozen_at_the_start(house: House, party: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A party that freezes as soon as it was told to start; it thaws in the end."""
    real, frozen = PartyLinks.start, threading.Event()

    async def start(self: PartyLinks, told: str, *rest: Any) -> Any:
        answer = await real(self, told, *rest)
        if told == party and not frozen.is_set():
            house.memory.freeze(party)
            frozen.set()
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(PartyLinks, "start", start)
        try:
            yield frozen
        finally:
            house.loop.call(house.memory.thaw, party)


def cancelled_for_good(house: House, coordinator: Coordinator, session: SessionRecord) -> None:
    """It ended there; nothing of it is kept or charged; and the next one has its place."""
    ana = house.user("ana")
    next_one = house.finished(coordinator, coordinator.ask(ana, with_clinic(house)).id)
    assert (next_one.status, next_one.cause) == (Status.PUBLISHED, None)
    now = coordinator.session(ana, session.id)
    assert (now.status, now.cause) == (Status.CANCELLED, "cancelled by ana")
    with pytest.raises(NotFound):
        coordinator.table(ana, session.id)
    with pytest.raises(Conflict):
        coordinator.accept(ana, session.id)
    assert coordinator.ledger(ana, session=session.id) == []
    wait_until(
        lambda: not [each for each in coordinator.settings.releases.iterdir() if session.id in each.name],
        "its files are gone",
    )
    statuses = [e.data["to"] for e in coordinator.events(ana, session.id) if e.kind == "status"]
    assert statuses[-1] == "cancelled"
    assert statuses.count("cancelled") == 1


def test_cancelled_while_the_parties_work_and_while_it_waits_for_them(
    house: House, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana = house.user("ana")
    with frozen_at_the_start(house, "clinic", monkeypatch) as frozen:
        coordinator.directory.slots = dict  # type: ignore[method-assign] # nothing starts before both are signed
        try:
            asked = [coordinator.ask(ana, with_clinic(house)) for _ in range(2)]
            wait_until(lambda: coordinator.health()["queue"] == 2, "both wait")
        finally:
            del coordinator.directory.slots
        coordinator.wakeup.ring()
        assert frozen.wait(PATIENCE)
        now = [coordinator.session(ana, each.id).status for each in asked]
        assert sorted(now) == [Status.QUEUED, Status.RUNNING]  # the clinic takes one at a time
        for each in asked:
            cancelled = coordinator.cancel(ana, each.id)
            assert (cancelled.status, cancelled.cause) == (Status.CANCELLED, "cancelled by ana")
    for each in asked:
        cancelled_for_good(house, coordinator, each)


@pytest.mark.parametrize("moment", ["judged", "written"])
def test_cancelled_while_the_table_is_assembled(
    house: House, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    ana = house.user("ana")
    with Gate() as gate, monkeypatch.context() as patch:
        if moment == "judged":
            real: Callable[..., Any] = publish.figures_of
            patch.setattr(publish, "figures_of", lambda *given: (gate.hold(), real(*given))[1])
        else:
            write = ReleaseFiles.write
            patch.setattr(ReleaseFiles, "write", lambda *given: (write(*given), gate.hold())[0])
        asked = coordinator.ask(ana, with_clinic(house))
        assert gate.entered.wait(PATIENCE)
        assert coordinator.session(ana, asked.id).status is Status.ASSEMBLING
        coordinator.cancel(ana, asked.id)
    cancelled_for_good(house, coordinator, asked)


def test_a_frozen_party_is_given_up_and_named_and_the_queue_goes_on(
    house: House, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana = house.user("ana")
    with frozen_at_the_start(house, "clinic", monkeypatch) as frozen:
        asked = coordinator.ask(ana, with_clinic(house, attempts=1))
        assert frozen.wait(PATIENCE)
        waiting = coordinator.ask(ana, with_clinic(house, attempts=10))
        other = coordinator.ask(ana, without_clinic(house))
        assert house.finished(coordinator, other.id).status is Status.PUBLISHED
        done = house.finished(coordinator, asked.id)
        assert done.status is Status.FAILED
        assert (done.cause or "").startswith("party clinic: ")
        problems = [e.data for e in coordinator.events(ana, asked.id) if e.kind == "problem"]
        assert {each["party"] for each in problems} == {"clinic"}
    # What waited for it is done once it thaws: other sessions of a party outlive its failures.
    assert house.finished(coordinator, waiting.id).status is Status.PUBLISHED
    # And the session that was given up keeps no place there: nobody was turned away because of it.
    causes = [e.data["cause"] for e in coordinator.events(ana, waiting.id) if e.kind == "status"]
    assert not [cause for cause in causes if cause and "sessions are running" in cause]


def test_what_changes_after_the_signatures_is_refused_by_name_and_leaves_the_cache(
    house: House, coordinator: Coordinator
) -> None:
    ana = house.user("ana")
    wish = without_clinic(house)
    kept = house.finished(coordinator, coordinator.ask(ana, wish).id)
    assert kept.status is Status.PUBLISHED
    assert kept.terms_hash is not None
    assert coordinator.store.releases.cached(kept.terms_hash, "ana") is not None

    # Nothing starts while no party has room; meanwhile one table and one policy change.
    coordinator.directory.slots = dict  # type: ignore[method-assign]
    try:
        asked = coordinator.ask(ana, without_clinic(house))
        wait_until(lambda: coordinator.session(ana, asked.id).status is Status.QUEUED, "it is signed")
        before = dataset_of(coordinator, "bank").card.snapshot
        house.write_table("bank", change="one person less")
        house.write_node("shop", purposes=["marketing"])
        wait_until(lambda: dataset_of(coordinator, "bank").card.snapshot != before, "the bank's new table is told")
        wait_until(lambda: dataset_of(coordinator, "shop").purposes == ("marketing",), "the shop's policy is told")
    finally:
        del coordinator.directory.slots
    coordinator.wakeup.ring()
    done = house.finished(coordinator, asked.id)
    assert (done.status, done.attempts) == (Status.REFUSED, 1)
    bank, shop = coordinator.reasons(done)
    assert bank == "people has changed: the contract is about another snapshot of it (bank)"
    assert shop.startswith('purpose "research" is not allowed')
    assert shop.endswith("(shop)")
    assert coordinator.ledger(ana, session=asked.id) == []
    assert coordinator.store.releases.cached(kept.terms_hash, "ana") is None
    assert coordinator.table(ana, kept.id).is_file()  # who has it keeps it

    house.write_node("shop")
    wait_until(lambda: dataset_of(coordinator, "shop").purposes == ("*",), "the shop publishes its old policy")
    again = house.finished(coordinator, coordinator.ask(ana, wish).id)
    assert again.status is Status.PUBLISHED
    assert again.terms_hash != kept.terms_hash
    assert coordinator.release(ana, again.id).rows == coordinator.release(ana, kept.id).rows - 1
