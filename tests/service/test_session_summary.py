"""How sessions stand: why they ended and through whom, what they wait for, what they published; on both databases."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from fake_clock import FakeClock
from masquerade.service import resources
from masquerade.service.coordinator.coordinator import summaries
from masquerade.service.session_states import Status
from masquerade.service.store import SessionRecord, Store
from service.stores import agreed, assembling, furnish, new_release, published, queued, requested


def derived(store: Store, user: str, *sessions: SessionRecord) -> list[dict[str, Any]]:
    """What is told of each session beyond its own row, where there is something to tell."""
    beyond = set(resources.Session.model_fields) - set(resources.SessionFacts.model_fields)
    return [
        each.model_dump(include=beyond, exclude_defaults=True) for each in summaries(store, user, sessions)
    ]


def test_many_sessions_are_told_apart(store: Store, clock: FakeClock) -> None:
    furnish(store)
    out = published(store)
    held = assembling(store, terms="others")
    missed = {"error": 0.4, "most_error": 0.1}
    held = store.releases.hold(held, new_release(store, "held"), missed)
    asked = store.sessions.advance(requested(store), Status.NEGOTIATING)
    for party in ("shop", "bank", "shop"):
        store.events.append(asked.id, "approval", {"party": party})
    running = store.sessions.advance(queued(store), Status.RUNNING)
    again = store.sessions.retry(running, "party bank: fell silent", {"failed_by": "bank"})
    failed = requested(store)
    told = {"reasons": ["party bank: gone", "and away"], "failed_by": "bank"}
    failed = store.sessions.advance(failed, Status.FAILED, "party bank: gone; and away", told)
    refused = store.sessions.advance(requested(store), Status.NEGOTIATING)
    refused = store.sessions.advance(refused, Status.REFUSED, "bank: no", {"reasons": ["bank: no"]})
    everything = [out, held, asked, again, failed, refused]
    assert [each.id for each in summaries(store, "ann", everything)] == [each.id for each in everything]
    assert derived(store, "ann", *everything) == [
        {"rows": 100},
        {"missed": missed},
        {"approvals": ("shop", "bank")},
        {"reasons": ("party bank: fell silent",)},  # it goes on
        {"reasons": ("party bank: gone", "and away"), "failed_by": "bank"},
        {"reasons": ("bank: no",)},
    ]
    assert derived(store, "ann") == []
    assert derived(store, "ben", out) == [{}]  # whose table it is not
    clock.tick(days=31)
    assert derived(store, "ann", out) == [{}]  # it is no longer kept
    store.expire(keep_events=timedelta(days=1))
    assert derived(store, "ann", failed) == [{"reasons": ("party bank: gone; and away",)}]


def test_what_waited_before_waits_no_longer(store: Store) -> None:
    furnish(store)
    session = store.sessions.advance(requested(store), Status.NEGOTIATING)
    store.events.append(session.id, "approval", {"party": "bank"})
    missed = {"error": 0.4, "most_error": 0.1}
    held = store.releases.hold(assembling_from(store, session.id), new_release(store), missed)
    assert derived(store, "ann", held) == [{"missed": missed}]
    relaxed = store.sessions.relax(held, {"attributes": ["age"]})
    assert derived(store, "ann", relaxed) == [{}]


def test_a_release_from_the_cache_is_told_as_such(store: Store) -> None:
    furnish(store)
    made = store.releases.of(published(store).id)
    again = store.releases.publish_cached(agreed(store, requested(store, "ben")), made)
    assert derived(store, "ben", again) == [{"rows": 100, "cached": True}]


def test_what_was_agreed_is_told(store: Store) -> None:
    furnish(store)
    session = store.sessions.advance(requested(store), Status.NEGOTIATING)
    terms = {
        "requirements": [{"model": "k-anonymity", "qid": ["age"], "k": 60}],
        "kind": "horizontal",
        "m": 1,
    }
    session = store.sessions.agree(session, "a" * 64, "b" * 64, {"deal": {"terms": terms}})
    assert summaries(store, "ann", [session])[0].agreed == (
        "k-anonymity (k = 60) over age",
        "all of it against any 1 colluding provider",
    )


def assembling_from(store: Store, session_id: str) -> SessionRecord:
    session = store.sessions.get(session_id)
    session = store.sessions.agree(session, "a" * 64, "b" * 64, {"terms": "some"})
    for status in (Status.QUEUED, Status.RUNNING, Status.ASSEMBLING):
        session = store.sessions.advance(session, status)
    return session
