"""A release that waits for its client: because of what it lost, or because an estimate was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from masquerade.errors import Conflict, NotFound
from masquerade.service import Coordinator, Ledger, SessionRecord, Status, User
from masquerade.service.resources import MissedQuality
from service.coordinators import started
from service_house import House, wait_until

BINDS: dict[str, Any] = {"allow_rerelease": False}
TDS, MONDRIAN = ({"algorithm": {"name": name}} for name in ("tds", "mondrian"))
ALL_LOST: dict[str, Any] = {
    **TDS,
    "attributes": ["age", "job"],
    "privacy": [{"model": "k-anonymity", "qid": ["age", "job"], "k": 150}],
}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    yield from started(House(tmp_path, policies={"bank": BINDS, "clinic": BINDS | {"max_declined": 2}}))


@pytest.fixture
def coordinator(house: House) -> Iterator[Coordinator]:
    with house.coordinator() as coordinator:
        yield coordinator


@pytest.fixture
def ana(house: House, coordinator: Coordinator) -> User:
    ana = house.user("ana")
    house.known(coordinator, ana)
    return ana


def asked(house: House, coordinator: Coordinator, user: User, **changes: Any) -> SessionRecord:
    made = coordinator.ask(user, house.request(**changes))
    return house.finished(coordinator, made.id, accepts=False)


def told(coordinator: Coordinator, user: User, session: SessionRecord) -> MissedQuality:
    (summary,) = coordinator.summaries(user, [session])
    assert summary.missed is not None
    return summary.missed


def ledger(house: House, party: str) -> Ledger:
    return Ledger.load(house.folder / f"{party}-state" / "ledger.jsonl")


def known_at_the_parties(house: House, coordinator: Coordinator) -> None:
    wait_until(lambda: not coordinator.store.sessions.declines(house.parties), "the parties have heard of it")


def test_a_column_that_would_be_lost_is_shown_before_anything_is_published(
    house: House, coordinator: Coordinator, ana: User
) -> None:
    session = asked(house, coordinator, ana, **ALL_LOST)
    assert session.status is Status.AWAITING_CLIENT
    missed = told(coordinator, ana, session)
    assert missed.losses == missed.lost == {"age": 1.0, "job": 1.0}
    assert (missed.estimate, missed.declines, missed.cost) == (False, 2, 0)
    with pytest.raises(NotFound):
        coordinator.table(ana, session.id)
    assert coordinator.accept(ana, session.id).status is Status.PUBLISHED
    assert coordinator.table(ana, session.id).exists()
    assert [len(ledger(house, party).records) for party in house.parties] == [1, 1]


def test_what_is_declined_is_deleted_and_does_not_bind(house: House, coordinator: Coordinator, ana: User) -> None:
    session = asked(house, coordinator, ana, **ALL_LOST)
    held = coordinator.store.releases.held(session.id)
    assert held is not None
    folder = coordinator.files.whole(held.table_path).parent
    assert coordinator.withdraw(ana, session.id).status is Status.CANCELLED
    assert not folder.exists()
    with pytest.raises(Conflict):
        coordinator.accept(ana, session.id)
    with pytest.raises(NotFound):
        coordinator.table(ana, session.id)
    again = asked(house, coordinator, ana, **{**ALL_LOST, **MONDRIAN}, estimate=True)
    assert told(coordinator, ana, again).declines == 1
    for party in house.parties:
        known = ledger(house, party)
        assert [each.terms.method["name"] for each in known.declined] == ["tds"]
        assert [each.terms.method["name"] for each in known.records] == ["mondrian"]
        log = (house.folder / f"{party}-state" / "audit.jsonl").read_text()
        assert log.count('"event":"declined"') == 1
    assert coordinator.store.ledger.entries() == []


def test_an_estimate_always_waits_and_tells_losses_and_cost(house: House, coordinator: Coordinator, ana: User) -> None:
    house.write_node("bank", price={"per_attribute": 100})
    columns: dict[str, Any] = {**MONDRIAN, "attributes": ["age", "job"], "class": None}
    wanted = house.request(**columns)
    wait_until(lambda: coordinator.preview(ana, wanted).price == 100, "the price is known")
    session = asked(house, coordinator, ana, **columns, estimate=True)
    missed = told(coordinator, ana, session)
    assert missed.estimate
    assert missed.lost == {}
    assert set(missed.losses) == {"age", "job"}
    assert missed.cost == 100
    assert missed.rows
    assert coordinator.store.ledger.entries() == []
    assert coordinator.accept(ana, session.id).status is Status.PUBLISHED
    assert sum(line.cents for line in coordinator.store.ledger.entries()) == 100
    again = asked(house, coordinator, ana, **columns, estimate=True)
    assert again.status is Status.AWAITING_CLIENT, "the cache does not charge unasked either"
    coordinator.withdraw(ana, again.id)
    known_at_the_parties(house, coordinator)
    assert [len(ledger(house, party).records) for party in house.parties] == [1, 1], "it was published before"


def test_a_release_that_nobody_decides_on_is_declined_in_the_end(
    house: House, coordinator: Coordinator, ana: User
) -> None:
    session = asked(house, coordinator, ana, **ALL_LOST)
    held = coordinator.store.releases.held(session.id)
    assert held is not None
    coordinator.store.expire(held.expires)
    assert coordinator.store.sessions.get(session.id).status is Status.EXPIRED
    known_at_the_parties(house, coordinator)
    for party in house.parties:
        assert not ledger(house, party).records
        assert len(ledger(house, party).declined) == 1


def test_a_party_that_is_away_hears_of_it_later(house: House, coordinator: Coordinator, ana: User) -> None:
    session = asked(house, coordinator, ana, **ALL_LOST)
    house.nodes["clinic"].kill()
    coordinator.withdraw(ana, session.id)
    wait_until(lambda: ledger(house, "bank").declined, "the bank has heard of it")
    assert not ledger(house, "clinic").declined, "on its own it counts as released"
    house.start_node("clinic")
    known_at_the_parties(house, coordinator)
    assert len(ledger(house, "clinic").declined) == 1
