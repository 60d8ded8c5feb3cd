"""How sessions stand: why they ended and through whom, what they wait for, what they published; on both databases."""

from __future__ import annotations

from datetime import timedelta

from masquerade.service.coordinator.session_summary import SessionSummary, session_summaries
from masquerade.service.store import Session, Status, Store
from service.stores import HandClock, agreed, assembling, furnish, new_release, published, queued, requested


def test_many_sessions_are_told_apart(store: Store, clock: HandClock) -> None:
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
    assert session_summaries(store, "ann", everything) == {
        out.id: SessionSummary(rows=100),
        held.id: SessionSummary(missed=missed),
        asked.id: SessionSummary(approvals=("shop", "bank")),
        again.id: SessionSummary(reasons=("party bank: fell silent",)),  # it goes on
        failed.id: SessionSummary(reasons=("party bank: gone", "and away"), failed_by="bank"),
        refused.id: SessionSummary(reasons=("bank: no",)),
    }
    assert session_summaries(store, "ann", []) == {}
    assert session_summaries(store, "ben", [out]) == {out.id: SessionSummary()}  # whose table it is not
    clock.tick(days=31)
    assert session_summaries(store, "ann", [out])[out.id].rows is None  # it is no longer kept
    store.expire(keep_events=timedelta(days=1))
    assert session_summaries(store, "ann", [failed])[failed.id] == SessionSummary(
        reasons=("party bank: gone; and away",)
    )


def test_what_waited_before_waits_no_longer(store: Store) -> None:
    furnish(store)
    session = store.sessions.advance(requested(store), Status.NEGOTIATING)
    store.events.append(session.id, "approval", {"party": "bank"})
    missed = {"error": 0.4, "most_error": 0.1}
    held = store.releases.hold(assembling_from(store, session.id), new_release(store), missed)
    assert session_summaries(store, "ann", [held])[held.id] == SessionSummary(missed=missed)
    relaxed = store.sessions.relax(held, {"attributes": ["age"]})
    assert session_summaries(store, "ann", [relaxed])[relaxed.id] == SessionSummary()


def test_a_release_from_the_cache_is_told_as_such(store: Store) -> None:
    furnish(store)
    made = store.releases.of(published(store).id)
    again = store.releases.publish_cached(agreed(store, requested(store, "ben")), made)
    assert session_summaries(store, "ben", [again])[again.id] == SessionSummary(rows=100, cached=True)


def test_what_was_agreed_is_told(store: Store) -> None:
    furnish(store)
    session = store.sessions.advance(requested(store), Status.NEGOTIATING)
    terms = {"requirements": [{"model": "k-anonymity", "qid": ["age"], "k": 60}], "collaboration": {"m": 1}}
    session = store.sessions.agree(session, "a" * 64, "b" * 64, {"deal": {"terms": terms}})
    assert session_summaries(store, "ann", [session])[session.id].agreed == (
        "k-anonymity (k = 60) over age",
        "all of it against any 1 colluding provider",
    )


def assembling_from(store: Store, session_id: str) -> Session:
    session = store.sessions.get(session_id)
    session = store.sessions.agree(session, "a" * 64, "b" * 64, {"terms": "some"})
    for status in (Status.QUEUED, Status.RUNNING, Status.ASSEMBLING):
        session = store.sessions.advance(session, status)
    return session
