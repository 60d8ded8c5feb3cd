"""The store when several do the same at the same moment, or one step comes in the middle of another's."""

from __future__ import annotations

from datetime import timedelta

from fake_clock import FakeClock
from masquerade.service.session_states import Status
from masquerade.service.store import NewRelease, SessionRecord, SignInFailures, Store
from service.stores import FREE, assembling, at_once, digest, furnish, new_release, queued


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
        return [
            store.providers.register(name, f"{name}.example:7000", "finger", public=True).party
            for name in names
        ]

    at_once(5, lambda _thread: store.ping())  # all have a connection by then
    assert at_once(5, register) == [names] * 5
    assert [each.party for each in store.providers.all()] == names


def test_the_files_of_a_session_that_computes_anew_are_not_deleted(store: Store, clock: FakeClock) -> None:
    furnish(store)
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
    furnish(store)
    again = assembling_anew(store, new_release(store, "s/t"))
    store.sessions.advance(again, Status.FAILED, "party bank: gone")
    clock.tick(seconds=1)
    assert store.expire().files == ("s/t.csv", "s/t.html")


def test_one_session_is_claimed_by_name_and_only_when_it_is_its_turn(store: Store) -> None:
    furnish(store)
    first, second = queued(store), queued(store)
    claimed = store.queue.claim(FREE, second)
    assert claimed is not None
    assert (claimed.id, claimed.status) == (second.id, Status.RUNNING)
    assert store.queue.claim(FREE, second) is None
    assert store.queue.claim({"bank": 0, "shop": 1}, first) is None


def test_terms_that_a_kept_release_was_published_for(store: Store, clock: FakeClock) -> None:
    furnish(store)
    store.releases.publish(assembling(store, terms="made"), new_release(store, "made", days=1))
    store.releases.hold(assembling(store, terms="held"), new_release(store, "held"), {"error": 0.5})
    asked = {digest("made"), digest("held"), digest("never"), ""}
    assert store.releases.terms_among(asked) == {digest("made")}
    assert store.releases.terms_among(()) == set()
    clock.move(timedelta(days=2))
    assert store.releases.terms_among(asked) == set()
