"""Releases in the store: published whole or not at all, held for the client, served again, and gone in time."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from fake_clock import FakeClock
from masquerade.errors import Conflict, NotFound, ParameterError
from masquerade.service.session_states import Status
from masquerade.service.store import Store
from service.stores import (
    SNAPSHOTS,
    agreed,
    assembling,
    digest,
    furnish,
    history,
    new_release,
    published,
    queued,
    requested,
)

if TYPE_CHECKING:
    from collections.abc import Callable


# --- publishing ---


def test_publishing_is_all_or_nothing(store: Store) -> None:
    furnish(store)
    session = assembling(store)
    wrong: list[Callable[[], Any]] = [
        lambda: store.releases.publish(session, new_release(store), {"bank": 5, "clinic": 5}),
        lambda: store.releases.publish(session, new_release(store), {"bank": 5, "shop": -5}),
        lambda: store.sessions.advance(session, Status.PUBLISHED),
    ]
    for attempt in wrong:
        with pytest.raises(ParameterError):
            attempt()
    assert store.sessions.get(session.id) == session
    assert store.ledger.entries() == []
    with pytest.raises(NotFound):
        store.releases.of(session.id)
    assert "published" not in history(store, session)


def test_a_release_names_the_snapshot_of_every_party(store: Store) -> None:
    furnish(store)
    release = new_release(store)
    object.__setattr__(release, "snapshots", {"bank": "b1"})
    with pytest.raises(ParameterError, match="one snapshot of each of bank, shop"):
        store.releases.publish(assembling(store), release)


def test_a_missed_quality_waits_for_the_client(store: Store) -> None:
    furnish(store)
    session = store.releases.hold(assembling(store), new_release(store, "poor"), {"error": "0.31"})
    assert session.status is Status.AWAITING_CLIENT
    assert store.events.after(session.id)[-1].data["missed"] == {"error": "0.31"}
    with pytest.raises(NotFound):
        store.releases.of(session.id, "ann")
    assert store.releases.cached(digest("terms"), "ann") is None
    held = store.releases.held(session.id)
    assert held is not None
    assert held.published is None
    session = store.releases.accept(session, {"bank": 10})
    assert session.status is Status.PUBLISHED
    assert store.releases.of(session.id, "ann").table_path == "poor.csv"
    assert store.ledger.owed(user="ann") == 10


@pytest.mark.parametrize("to", [Status.NEGOTIATING, Status.CANCELLED])
def test_relaxing_and_withdrawing_discard_the_table(store: Store, to: Status) -> None:
    furnish(store)
    session = store.releases.hold(assembling(store), new_release(store, "poor"), {})
    session = store.sessions.advance(session, to)
    with pytest.raises(Conflict):
        store.releases.accept(session)
    if to is Status.NEGOTIATING:
        assert store.releases.held(session.id) is not None  # until the parties agree to something else
        session = store.sessions.agree(session, digest("relaxed"), digest("another"), {})
        assert session.attempts == 0
    assert store.releases.held(session.id) is None
    assert store.expire().files == ("poor.csv", "poor.html")
    if to is Status.NEGOTIATING:
        for status in (Status.QUEUED, Status.RUNNING, Status.ASSEMBLING):
            session = store.sessions.advance(session, status)
        store.releases.publish(session, new_release(store, "good"))
        assert store.releases.of(session.id).table_path == "good.csv"
        assert store.expire().files == ("poor.csv", "poor.html")


def test_a_relaxed_request_that_is_refused_leaves_the_table_held(store: Store) -> None:
    furnish(store)
    missed = {"error": 0.31, "most_error": 0.1}
    session = store.releases.hold(assembling(store), new_release(store, "poor"), missed)
    asked = session.request
    for round in ("once", "twice"):
        relaxed = store.sessions.relax(session, {"round": round})
        waiting = store.releases.hold_on(relaxed, "bank: no", ["bank: no"])
        assert waiting is not None
        assert (waiting.status, waiting.cause) == (Status.AWAITING_CLIENT, "bank: no")
        assert (waiting.request, waiting.terms_hash) == (asked, session.terms_hash)
        told = store.events.after(session.id)[-1].data
        assert (told["missed"], told["reasons"]) == (missed, ["bank: no"])
        session = waiting
    assert store.releases.accept(session, request={"most_error": "0.4"}).request == {"most_error": "0.4"}
    assert store.releases.of(session.id, "ann").table_path == "poor.csv"


def test_only_a_table_that_is_kept_can_wait_again(store: Store, clock: FakeClock) -> None:
    furnish(store)
    first = store.sessions.advance(requested(store), Status.NEGOTIATING)
    assert store.releases.hold_on(first, "no", ["no"]) is None
    session = store.releases.hold(assembling(store), new_release(store, "poor", days=1), {})
    relaxed = store.sessions.relax(session, {})
    clock.tick(days=2)
    assert store.releases.hold_on(relaxed, "no", ["no"]) is None
    ended = store.sessions.advance(store.sessions.get(relaxed.id), Status.REFUSED, "no")
    assert ended.status is Status.REFUSED


# --- the cache ---


def test_the_cache_serves_those_whose_parties_agreed(store: Store) -> None:
    furnish(store, ["ann", "ben", "eve"])
    made = store.releases.of(published(store).id)
    assert store.releases.cached(digest("terms"), "ann") == made
    assert store.releases.cached(digest("others"), "ann") is None
    assert store.releases.cached(digest("terms"), "ben") is None  # same wish, but nobody agreed to ben's
    bens = agreed(store, requested(store, "ben"))
    assert store.releases.cached(digest("terms"), "ben") == made
    assert store.releases.cached(digest("terms"), "eve") is None
    bens = store.releases.publish_cached(bens, made, {"bank": 3})
    assert bens.status is Status.PUBLISHED
    copy = store.releases.of(bens.id, "ben")
    assert (copy.table_path, copy.sha256, copy.expires) == (made.table_path, made.sha256, made.expires)
    assert store.ledger.owed(user="ben") == 3
    with pytest.raises(NotFound):  # the table is shared, the session is not
        store.releases.of(made.session, "ben")


def test_who_lost_a_provider_loses_the_cache(store: Store) -> None:
    furnish(store)
    made = store.releases.of(published(store).id)
    store.providers.register("bank", "b:1", "finger of bank", public=False, allowed=["ben"])
    assert store.releases.cached(digest("terms"), "ann") is None
    store.providers.register("bank", "b:1", "finger of bank", public=False, allowed=["ann"])
    assert store.releases.cached(digest("terms"), "ann") == made


def test_a_changed_snapshot_empties_the_cache(store: Store) -> None:
    furnish(store)
    made = store.releases.of(published(store).id)
    waiting = agreed(store, requested(store, "ben"))
    assert store.releases.replace_snapshots("bank", ["b2"], ["another"]) == (1, 0)
    assert store.releases.replace_snapshots("shop", ["s2"], [SNAPSHOTS["bank"]]) == (1, 0)  # another party's
    assert store.releases.cached(digest("terms"), "ann") == made
    assert store.releases.replace_snapshots("bank", ["b2"], ["another", SNAPSHOTS["bank"]]) == (1, 1)
    assert store.releases.replace_snapshots("bank", ["b2"], ["another", SNAPSHOTS["bank"]]) == (0, 0)
    assert store.releases.cached(digest("terms"), "ann") is None
    assert store.releases.of(made.session, "ann") == made  # published is published
    with pytest.raises(Conflict, match="may not be served from the cache any more"):
        store.releases.publish_cached(waiting, made)
    assert store.sessions.get(waiting.id) == waiting
    late = published(store)  # made of the old snapshot, and published after the change
    assert store.releases.of(late.id) is not None
    assert store.releases.cached(digest("terms"), "ann") is None
    with pytest.raises(NotFound):
        store.releases.replace_snapshots("nowhere", [], ["b1"])


def test_a_table_that_is_as_it_was_is_served_from_the_cache_again(store: Store) -> None:
    furnish(store)
    made = store.releases.of(published(store).id)
    store.releases.replace_snapshots("bank", ["b2"], [SNAPSHOTS["bank"]])
    assert store.releases.cached(digest("terms"), "ann") is None
    assert store.releases.replace_snapshots("bank", [SNAPSHOTS["bank"]], ["b2"]) == (1, 0)
    assert store.releases.cached(digest("terms"), "ann") == made


def test_what_is_no_news_of_a_snapshot_writes_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    furnish(store)
    told = ["b2"], [f"b{number}" for number in range(3, 1000)]
    assert store.releases.replace_snapshots("bank", *told) == (997, 0)
    monkeypatch.setattr(store.releases._database, "writing", lambda: pytest.fail("a write"))
    assert store.releases.replace_snapshots("bank", *told) == (0, 0)


def test_replaced_snapshots_are_forgotten_once_nothing_is_kept_of_them(
    store: Store, clock: FakeClock
) -> None:
    furnish(store)
    published(store)
    gone = [SNAPSHOTS["bank"], "b0"]
    store.releases.replace_snapshots("bank", ["b2"], gone)
    store.expire(
        clock.now() + timedelta(days=29), keep_events=timedelta(days=10)
    )  # the release is kept 30 days
    assert store.releases.replace_snapshots("bank", ["b2"], gone) == (1, 0)  # b0 had been forgotten
    clock.tick(days=100)
    store.expire()
    assert store.releases.replace_snapshots("bank", ["b2"], gone) == (2, 0)


# --- retention ---


def test_expired_releases_are_named_until_their_files_are_gone(store: Store, clock: FakeClock) -> None:
    furnish(store)
    made = store.releases.of(published(store).id)
    copied = store.releases.publish_cached(agreed(store, requested(store, "ben")), made)
    kept = store.releases.publish(assembling(store, terms="other"), new_release(store, "kept", days=99))
    assert store.expire().releases == ()
    clock.tick(days=30)
    with pytest.raises(NotFound):  # at once, whether or not somebody has tidied up
        store.releases.of(made.session)
    assert store.releases.cached(digest("terms"), "ann") is None
    for _ in range(2):  # a crash between finding and deleting loses nothing
        found = store.expire()
        assert found.files == (made.table_path, made.report_path)
        assert len(found.releases) == 2
    store.releases.forget(found.releases)
    assert store.expire().files == ()
    assert store.releases.of(kept.id).table_path == "kept.csv"
    assert store.sessions.get(copied.id).status is Status.PUBLISHED


def test_a_file_that_another_release_needs_stays(store: Store, clock: FakeClock) -> None:
    furnish(store)
    store.releases.publish(assembling(store), new_release(store, "same", days=1))
    store.releases.publish(assembling(store, terms="other"), new_release(store, "same", days=9))
    clock.tick(days=2)
    assert store.expire().files == ()
    clock.tick(days=9)
    assert store.expire().files == ("same.csv", "same.html")


def test_what_waits_too_long_expires_and_what_runs_does_not(store: Store, clock: FakeClock) -> None:
    furnish(store)
    soon = clock.now() + timedelta(hours=1)
    waiting = store.sessions.create("ann", ["bank"], "research", {}, expires=soon)
    running = store.sessions.create("ann", ["bank", "shop"], "research", {}, expires=soon)
    running = assembling(store, running)
    held = store.releases.hold(assembling(store), new_release(store, "poor", days=1), {})
    patient = queued(store)
    clock.tick(hours=2)
    assert store.expire().sessions == (waiting.id,)
    ended = store.sessions.get(waiting.id)
    assert (ended.status, ended.cause) == (Status.EXPIRED, "it waited too long while requested")
    assert store.sessions.get(running.id) == running
    clock.tick(days=1)  # what the client should decide on is kept no longer
    found = store.expire()
    assert (found.sessions, found.files) == ((held.id,), ("poor.csv", "poor.html"))
    assert store.sessions.get(patient.id) == patient
