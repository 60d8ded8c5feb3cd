"""What the store only adds to: offers by round, numbered events, and the ledger."""

from __future__ import annotations

from collections import Counter

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError

from fake_clock import FakeClock
from masquerade.errors import Conflict, NotFound, ParameterError
from masquerade.service.session_states import Status
from masquerade.service.store import Store
from service.stores import assembling, at_once, furnish, history, new_release, requested


def test_offers_are_kept_by_round(store: Store) -> None:
    furnish(store)
    session = requested(store)
    with pytest.raises(Conflict, match="is requested: nothing is negotiated"):
        store.offers.add(session.id, "bank", 1, {}, 5)
    store.sessions.advance(session, Status.NEGOTIATING)
    store.offers.add(session.id, "shop", 1, {"k": 10}, 7)
    store.offers.add(session.id, "bank", 2, {"k": 50}, 5)
    refusal = store.offers.add(session.id, "bank", 1, {}, 0, ["k is below 50", "purpose is not allowed"])
    assert refusal.reasons == ("k is below 50", "purpose is not allowed")
    found = [(offer.round, offer.party, offer.price_cents) for offer in store.offers.of(session.id)]
    assert found == [(1, "bank", 0), (1, "shop", 7), (2, "bank", 5)]
    with pytest.raises(Conflict, match="bank has answered in round 1 already"):
        store.offers.add(session.id, "bank", 1, {}, 5)
    with pytest.raises(ParameterError, match='"clinic" is no provider'):
        store.offers.add(session.id, "clinic", 1, {}, 5)
    for price in (-1, 1.5, True, 10**13):
        with pytest.raises(ParameterError, match="whole cents"):
            store.offers.add(session.id, "bank", 3, {}, price)  # type: ignore[arg-type]


def test_events_are_numbered_without_gaps(store: Store) -> None:
    furnish(store)
    session = requested(store)
    answers = at_once(6, lambda n: [store.events.append(session.id, "progress", {"by": n}) for _ in range(8)])
    assert [answer for answer in answers if isinstance(answer, Exception)] == []
    found = store.events.after(session.id)
    assert [event.number for event in found] == list(range(1, 50))
    assert Counter(event.data["by"] for event in found[1:]) == dict.fromkeys(range(6), 8)


def test_a_listener_goes_on_where_it_stopped(store: Store, clock: FakeClock) -> None:
    furnish(store)
    session, other = requested(store), requested(store)
    for number in range(3):
        clock.tick(seconds=1)
        store.events.append(session.id, "progress", {"round": number})
        store.events.append(other.id, "progress", {"round": -1})
    assert [event.data["round"] for event in store.events.after(session.id, 2)] == [1, 2]
    assert [event.number for event in store.events.after(session.id, 1, limit=1)] == [2]
    assert store.events.after(session.id, 4) == []
    assert store.events.after(session.id)[-1].time == clock.now()
    with pytest.raises(NotFound):
        store.events.append("nowhere", "progress", {})


def test_old_events_go_and_the_ledger_stays(store: Store, clock: FakeClock) -> None:
    furnish(store)
    session = store.releases.publish(assembling(store), new_release(store), {"bank": 5})
    alive = requested(store)
    clock.tick(days=91)
    store.expire()
    assert store.events.after(session.id) == []
    assert history(store, alive) == ["requested"]
    assert [entry.cents for entry in store.ledger.entries()] == [5]


def test_the_ledger_adds_up(store: Store) -> None:
    furnish(store)
    store.releases.publish(assembling(store), new_release(store), {"bank": 1250, "shop": 300})
    bens = assembling(store, requested(store, "ben"))
    store.releases.publish(bens, new_release(store), {"shop": 1})
    assert (store.ledger.owed(user="ann"), store.ledger.owed(party="shop")) == (1550, 301)
    assert (store.ledger.owed(), store.ledger.owed(user="eve")) == (1551, 0)
    lines = [(entry.party, entry.cents) for entry in store.ledger.entries(user="ann")]
    assert lines == [("bank", 1250), ("shop", 300)]
    assert [entry.cents for entry in store.ledger.entries(limit=1, after=store.ledger.entries()[0].id)] == [
        300
    ]
    assert [entry.user for entry in store.ledger.entries(session=bens.id, party="shop")] == ["ben"]


@pytest.mark.parametrize("change", ["UPDATE ledger SET cents = 0", "DELETE FROM ledger"])
def test_the_ledger_is_only_added_to(store: Store, database_url: str, change: str) -> None:
    furnish(store)
    store.releases.publish(assembling(store), new_release(store), {"bank": 1250})
    engine = create_engine(database_url.replace("postgresql://", "postgresql+psycopg://"))
    with pytest.raises(DBAPIError, match="the ledger is only added to"), engine.begin() as connection:
        connection.execute(text(change))
    engine.dispose()
    assert store.ledger.owed() == 1250
