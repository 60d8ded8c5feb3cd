"""The store's queue: users take turns, parties have so many places, and nothing is claimed twice."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from fake_clock import FakeClock
from masquerade.service.session_states import Status
from masquerade.service.store import Store
from service.stores import FREE, agreed, at_once, digest, furnish, new_release, queued


def test_users_take_turns(store: Store, clock: FakeClock) -> None:
    furnish(store, ["ann", "ben", "cid"])
    waiting = {}
    for name in ("ann-1", "ann-2", "ann-3", "ben-1", "cid-1", "ben-2"):
        waiting[queued(store, name[:3]).id] = name
        clock.tick(seconds=1)
    order = []
    while (following := store.queue.next(FREE)) is not None:
        claimed = store.queue.claim(FREE)
        assert claimed is not None
        assert claimed.id == following.id
        order.append(waiting[claimed.id])
    assert order == ["ann-1", "ben-1", "cid-1", "ann-2", "ben-2", "ann-3"]


def test_a_session_waits_until_all_its_parties_are_free(store: Store, clock: FakeClock) -> None:
    furnish(store)
    both = queued(store)
    clock.tick(seconds=1)
    alone = queued(store, parties=["shop"])
    assert store.queue.claim({}) is None
    assert store.queue.claim({"bank": 1}) is None
    assert store.queue.claim({"bank": 1, "shop": 0}) is None
    assert store.queue.busy() == {}
    following = store.queue.claim({"bank": 0, "shop": 1})
    assert following is not None
    assert following.id == alone.id
    following = store.queue.claim({"bank": 1, "shop": 1})
    assert following is not None
    assert following.id == both.id
    assert store.queue.busy() == {"bank": 1, "shop": 2}


def test_what_is_past_its_deadline_never_runs(store: Store, clock: FakeClock) -> None:
    furnish(store)
    deadline = clock.now() + timedelta(minutes=5)
    request = {"k": 50, "deadline": int(deadline.timestamp())}
    asked = store.sessions.create("ann", ["bank"], "research", request, expires=deadline)
    session = agreed(store, asked)
    store.sessions.advance(session, Status.QUEUED)
    clock.tick(minutes=4)
    assert store.queue.next(FREE) is not None
    clock.tick(minutes=1)
    assert store.queue.next(FREE) is None
    assert store.queue.claim(FREE) is None
    assert store.expire().sessions == (session.id,)
    assert store.sessions.get(session.id).cause == "its deadline passed while queued"


def test_each_queued_session_is_claimed_once(store: Store) -> None:
    furnish(store)
    waiting = {queued(store, client).id for client in ("ann", "ben") for _ in range(12)}

    def claim_all(_: int) -> list[str]:
        claimed = []
        while store.queue.next(FREE) is not None:
            session = store.queue.claim(FREE)
            if session is not None:
                claimed.append(session.id)
        return claimed

    answers = at_once(8, claim_all)
    claimed = [name for answer in answers if isinstance(answer, list) for name in answer]
    assert [answer for answer in answers if not isinstance(answer, list)] == []
    assert Counter(claimed) == dict.fromkeys(waiting, 1)
    assert {session.attempts for session in store.sessions.interrupted()} == {1}


def test_what_is_being_computed_for_the_same_terms_is_waited_for(store: Store) -> None:
    furnish(store)
    for terms in ("same", "same", "another"):
        queued(store, terms=terms)
    claimed = [session for session in (store.queue.claim(FREE), store.queue.claim(FREE)) if session]
    assert {session.terms_hash for session in claimed} == {digest("same"), digest("another")}
    assert store.queue.claim(FREE) is None
    (first,) = (session for session in claimed if session.terms_hash == digest("same"))
    store.releases.publish(store.sessions.advance(first, Status.ASSEMBLING), new_release(store))
    made = store.releases.cached(digest("same"), "ann")
    (twin,) = store.sessions.in_states(Status.QUEUED)
    assert made is not None
    assert store.releases.publish_cached(twin, made).status is Status.PUBLISHED
