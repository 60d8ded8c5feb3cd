"""Releases in the store: published whole or not at all, held for the client, served again, and gone in time."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, OperationalError

from fake_clock import FakeClock
from masquerade.errors import Conflict, NotFound, ParameterError
from masquerade.service import Role, SessionRecord, Status, Store
from masquerade.service.store import NewRelease, SignInFailures, is_outage
from service.stores import (
    FREE,
    SNAPSHOTS,
    agreed,
    assembling,
    at_once,
    digest,
    furnish,
    history,
    new_release,
    published,
    queued,
    requested,
    some,
)


@pytest.fixture
def store(store: Store) -> Store:
    """One with two users and two public providers."""
    furnish(store)
    return store


# --- publishing ---


def test_publishing_is_all_or_nothing(store: Store) -> None:
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
    release = new_release(store)
    object.__setattr__(release, "snapshots", {"bank": "b1"})
    with pytest.raises(ParameterError, match="one snapshot of each of bank, shop"):
        store.releases.publish(assembling(store), release)


def test_a_missed_quality_waits_for_the_client(store: Store) -> None:
    session = store.releases.hold(assembling(store), new_release(store, "poor"), {"error": "0.31"})
    assert session.status is Status.AWAITING_CLIENT
    assert store.events.after(session.id)[-1].data["missed"] == {"error": "0.31"}
    with pytest.raises(NotFound):
        store.releases.of(session.id, "ann")
    assert store.releases.cached(digest("terms"), "ann") is None
    assert some(store.releases.held(session.id)).published is None
    session = store.releases.accept(session, {"bank": 10})
    assert session.status is Status.PUBLISHED
    assert store.releases.of(session.id, "ann").table_path == "poor.csv"
    assert store.ledger.owed(user="ann") == 10


@pytest.mark.parametrize("to", [Status.NEGOTIATING, Status.CANCELLED])
def test_relaxing_and_withdrawing_discard_the_table(store: Store, to: Status) -> None:
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
    missed = {"error": 0.31, "most_error": 0.1}
    session = store.releases.hold(assembling(store), new_release(store, "poor"), missed)
    asked = session.request
    for round in ("once", "twice"):
        relaxed = store.sessions.relax(session, {"round": round})
        waiting = some(store.releases.hold_on(relaxed, "bank: no", ["bank: no"]))
        assert (waiting.status, waiting.cause) == (Status.AWAITING_CLIENT, "bank: no")
        assert (waiting.request, waiting.terms_hash) == (asked, session.terms_hash)
        told = store.events.after(session.id)[-1].data
        assert (told["missed"], told["reasons"]) == (missed, ["bank: no"])
        session = waiting
    assert store.releases.accept(session, request={"most_error": "0.4"}).request == {"most_error": "0.4"}
    assert store.releases.of(session.id, "ann").table_path == "poor.csv"


def test_only_a_table_that_is_kept_can_wait_again(store: Store, clock: FakeClock) -> None:
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
    store.users.add("eve", "no hash", Role.ANALYST)
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
    made = store.releases.of(published(store).id)
    for allowed, served in (("ben", None), ("ann", made)):
        store.providers.register("bank", "b:1", "finger of bank", public=False, allowed=[allowed])
        assert store.releases.cached(digest("terms"), "ann") == served


def test_a_changed_snapshot_empties_the_cache(store: Store) -> None:
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
    assert store.releases.replace_snapshots("bank", [SNAPSHOTS["bank"]], ["b2"]) == (1, 0)  # as it was
    assert store.releases.cached(digest("terms"), "ann") == made


def test_what_is_no_news_of_a_snapshot_writes_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    told = ["b2"], [f"b{number}" for number in range(3, 1000)]
    assert store.releases.replace_snapshots("bank", *told) == (997, 0)
    monkeypatch.setattr(store.releases._database, "writing", lambda: pytest.fail("a write"))
    assert store.releases.replace_snapshots("bank", *told) == (0, 0)


def test_replaced_snapshots_are_forgotten_once_nothing_is_kept_of_them(store: Store, clock: FakeClock) -> None:
    published(store)
    gone = [SNAPSHOTS["bank"], "b0"]
    store.releases.replace_snapshots("bank", ["b2"], gone)
    store.expire(clock.now() + timedelta(days=29), keep_events=timedelta(days=10))  # the release is kept 30 days
    assert store.releases.replace_snapshots("bank", ["b2"], gone) == (1, 0)  # b0 had been forgotten
    clock.tick(days=100)
    store.expire()
    assert store.releases.replace_snapshots("bank", ["b2"], gone) == (2, 0)


# --- retention ---


def test_expired_releases_are_named_until_their_files_are_gone(store: Store, clock: FakeClock) -> None:
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
    store.releases.publish(assembling(store), new_release(store, "same", days=1))
    store.releases.publish(assembling(store, terms="other"), new_release(store, "same", days=9))
    clock.tick(days=2)
    assert store.expire().files == ()
    clock.tick(days=9)
    assert store.expire().files == ("same.csv", "same.html")


def test_what_waits_too_long_expires_and_what_runs_does_not(store: Store, clock: FakeClock) -> None:
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


# --- The database below the store: who may work on it, what is an outage, and how SQLite is set up ---


def test_one_at_a_time_has_the_right_to_work_on_a_store(database_url: str) -> None:
    with Store.open(database_url) as first, Store.open(database_url) as second:
        assert first.lock.hold()
        assert first.lock.hold()  # still ours
        assert not second.lock.hold()
        first.users.add("ann", "no hash", Role.ANALYST)
        assert second.users.get("ann").name == "ann"  # who only looks or keeps accounts needs no right
        second.probe()
        first.lock.release()
        assert second.lock.hold()
        assert not first.lock.hold()
        second.lock.release()


def test_an_outage_is_told_from_a_mistake(store: Store) -> None:
    with pytest.raises(DBAPIError) as caught, store._database.writing() as transaction:
        transaction.execute(text("INSERT INTO users (name) VALUES (NULL)"))
    assert not is_outage(caught.value)  # it would fail again
    assert not is_outage(Conflict("somebody was faster"))
    assert is_outage(OperationalError("COMMIT", {}, Exception("gone")))
    secret = "postgresql://a:Zw3iHerzen@127.0.0.1:1/x"
    with pytest.raises(ParameterError) as refused:
        Store.open(secret)
    assert "Zw3iHerzen" not in str(refused.value)


def test_sqlite_is_set_up_for_many_threads(tmp_path: Path) -> None:
    with Store.open("sqlite:///store.db", base=tmp_path) as store:
        furnish(store)
        with store._database.engine.connect() as connection:
            found = {
                name: connection.execute(text(f"PRAGMA {name}")).scalar_one()
                for name in ("journal_mode", "foreign_keys", "busy_timeout", "synchronous")
            }
    assert found == {"journal_mode": "wal", "foreign_keys": 1, "busy_timeout": 30_000, "synchronous": 2}


def test_a_reader_waits_for_no_writer(tmp_path: Path) -> None:
    with Store.open("sqlite:///store.db", base=tmp_path) as store:
        furnish(store)
        writer = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE users SET role = 'admin'")
        assert store.users.get("ann").role is Role.ANALYST
        writer.execute("COMMIT")
        writer.close()
        assert store.users.get("ann").role is Role.ADMIN


def test_a_connection_in_use_is_closed_when_it_is_returned(tmp_path: Path) -> None:
    """A thread may still be reading when the store is closed; its connection must not be left open."""
    store = Store.open(f"sqlite:///{tmp_path / 'store.db'}")
    with store._database.reading() as transaction:
        connection = transaction.connection().connection.dbapi_connection
        assert isinstance(connection, sqlite3.Connection)
        store.close()
        assert transaction.execute(text("SELECT 1")).scalar() == 1
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


# --- What people write reaches the store as it is, names nobody, and is refused where it is no text or
# too long.

HOSTILE = [
    "Robert'); DROP TABLE users;--",
    '" OR ""="',
    "%_\\",
    "../../etc/passwd",
    "a\nb\r\tc",
    "<script>alert(1)</script>",
    "𝔘𝔫𝔦 ‮ ﷽",
    "${jndi:ldap://x}",
]
UNSTORABLE = ["nul\0byte", "lone \ud800 surrogate"]


@pytest.mark.parametrize("words", HOSTILE)
def test_words_are_stored_as_they_are(store: Store, words: str) -> None:
    session = store.sessions.create("ann", ["bank"], words, {words: [words]})
    session = store.sessions.advance(session, Status.NEGOTIATING)
    store.offers.add(session.id, "bank", 1, {words: words}, 0, [words])
    session = store.sessions.advance(session, Status.REFUSED, words)
    found = store.sessions.get(session.id)
    assert (found.purpose, found.request, found.cause) == (words, {words: [words]}, words)
    assert store.offers.of(session.id)[0].reasons == (words,)
    assert len(store.users.all()) == 2


@pytest.mark.parametrize("words", HOSTILE + UNSTORABLE)
def test_words_are_never_somebodys_name(store: Store, words: str) -> None:
    session = published(store)
    looks: list[Callable[[], Any]] = [
        lambda: store.users.get(words),
        lambda: store.sessions.get(words),
        lambda: store.sessions.seen_by(session.id, words),
        lambda: store.sessions.seen_by(words, "ann"),
        lambda: store.releases.of(session.id, words),
        lambda: store.releases.of(words),
        lambda: store.providers.get(words),
        lambda: store.releases.replace_snapshots(words, (), ["c"]),
    ]
    for look in looks:
        with pytest.raises(NotFound):
            look()
    assert store.users.with_hash(words) is None
    assert store.releases.cached(digest("terms"), words) is None
    assert store.releases.cached(words, "ann") is None
    assert store.events.after(words) == []
    assert store.ledger.entries(user=words) == []
    assert [each.party for each in store.providers.reachable(words)] == ["bank", "shop"]
    for make in (
        lambda: store.users.add(words, "hash", Role.ADMIN),
        lambda: store.providers.register(words, "a:1", "f"),
        lambda: requested(store, words),
        lambda: requested(store, "ann", [words]),
    ):
        with pytest.raises(ParameterError):
            make()


@pytest.mark.parametrize("words", UNSTORABLE)
def test_what_is_no_text_is_refused(store: Store, words: str) -> None:
    with pytest.raises(ParameterError, match="holds characters that are no text"):
        store.sessions.create("ann", ["bank"], words, {})
    session = store.sessions.create("ann", ["bank"], "research", {words: words})  # JSON can write it
    assert store.sessions.get(session.id).request == {words: words}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"x", object()])
def test_what_is_no_json_is_refused(store: Store, value: object) -> None:
    with pytest.raises(ParameterError, match="the request: not a JSON object"):
        store.sessions.create("ann", ["bank"], "research", {"x": value})


def test_too_long_is_refused(store: Store) -> None:
    with pytest.raises(ParameterError, match="the purpose: at most 4000 characters"):
        store.sessions.create("ann", ["bank"], "x" * 4001, {})
    with pytest.raises(ParameterError, match="the request: at most 4000000 bytes"):
        store.sessions.create("ann", ["bank"], "research", {"x": "y" * 4_000_000})
    with pytest.raises(ParameterError, match="at least one provider"):
        store.sessions.create("ann", [], "research", {})
    with pytest.raises(ParameterError, match="attempt_limit"):
        store.sessions.create("ann", ["bank"], "research", {}, attempt_limit=0)


# --- The store when several do the same at the same moment, or one step comes in the middle of another's.


def assembling_anew(store: Store, before: NewRelease) -> SessionRecord:
    """A session whose first table was held, and discarded when its client asked for another."""
    held = store.releases.hold(assembling(store), before, {"error": 0.5})
    session = store.sessions.relax(held, {})
    session = store.sessions.agree(session, digest("other terms"), digest("another contract"), {})
    for status in (Status.QUEUED, Status.RUNNING, Status.ASSEMBLING):
        session = store.sessions.advance(session, status)
    return session


def test_whoever_signs_in_at_once_is_let_in_though_the_first_forgets_the_guesses(
    store: Store, clock: FakeClock
) -> None:
    def right(_thread: int) -> bool:
        return store.users.guarded("ann", "here", lambda _own, _everybody: (None, None, True))

    guess = SignInFailures(1, 0, clock.now(), None)
    for _ in range(3):
        assert not store.users.guarded("ann", "here", lambda _own, _everybody: (guess, guess, False))
        assert at_once(8, right) == [True] * 8
        assert store.users.guard("ann", "here") is None


def test_a_provider_is_made_known_by_several_at_once(store: Store) -> None:
    names = [f"party{number}" for number in range(3)]

    def register(_thread: int) -> list[str]:
        return [store.providers.register(name, f"{name}.example:7000", "finger", public=True).party for name in names]

    at_once(5, lambda _thread: store.ping())  # all have a connection by then
    assert at_once(5, register) == [names] * 5
    assert [each.party for each in store.providers.all()] == ["bank", *names, "shop"]


def test_the_files_of_a_session_that_computes_anew_are_not_deleted(store: Store, clock: FakeClock) -> None:
    again = assembling_anew(store, new_release(store, "s/t"))
    clock.tick(seconds=1)
    found = store.expire()  # its new files may be there already, without a row
    assert (found.releases, found.files) == ((), ())
    store.releases.publish(again, new_release(store, "s/t"))
    found = store.expire()
    assert (len(found.releases), found.files) == (1, ())
    store.releases.forget(found.releases)
    clock.tick(days=31)
    assert store.expire().files == ("s/t.csv", "s/t.html")


def test_a_session_that_fails_anew_leaves_no_files(store: Store, clock: FakeClock) -> None:
    again = assembling_anew(store, new_release(store, "s/t"))
    store.sessions.advance(again, Status.FAILED, "party bank: gone")
    clock.tick(seconds=1)
    assert store.expire().files == ("s/t.csv", "s/t.html")


def test_one_session_is_claimed_by_name_and_only_when_it_is_its_turn(store: Store) -> None:
    first, second = queued(store), queued(store)
    claimed = some(store.queue.claim(FREE, second))
    assert (claimed.id, claimed.status) == (second.id, Status.RUNNING)
    assert store.queue.claim(FREE, second) is None
    assert store.queue.claim({"bank": 0, "shop": 1}, first) is None


def test_terms_that_a_kept_release_was_published_for(store: Store, clock: FakeClock) -> None:
    store.releases.publish(assembling(store, terms="made"), new_release(store, "made", days=1))
    store.releases.hold(assembling(store, terms="held"), new_release(store, "held"), {"error": 0.5})
    asked = {digest("made"), digest("held"), digest("never"), ""}
    assert store.releases.terms_among(asked) == {digest("made")}
    assert store.releases.terms_among(()) == set()
    clock.move(timedelta(days=2))
    assert store.releases.terms_among(asked) == set()
