"""What the store does for a running coordinator: contracts anew, places in the queue, cards, events."""

from __future__ import annotations

import pytest

from fake_clock import FakeClock
from masquerade.errors import Conflict, NotAllowed, ParameterError
from masquerade.service.session_states import Status
from masquerade.service.store import Store
from service.stores import assembling, digest, furnish, new_release, queued, requested

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
    store.providers.publish_schema(
        "bank", "finger of bank", {}, public=False, allowed=["ann", "nobody", "\0"]
    )
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
