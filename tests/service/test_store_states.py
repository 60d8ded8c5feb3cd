"""The states of a session in the store: only the drawn steps, one mover at a time, on SQLite and on PostgreSQL."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples import examples
from fake_clock import START, FakeClock
from masquerade.errors import Conflict, ParameterError
from masquerade.service.session_states import Status
from masquerade.service.store import SessionRecord, Store
from service.stores import (
    FREE,
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
)

# What issue and design say, written down apart from the code. Every living state may also fail or be cancelled.
STEPS = {
    "requested": {"negotiating"},
    "negotiating": {"refused", "agreed"},  # and awaiting_client, where a table was held: `hold_on`
    "agreed": {"queued", "published"},
    "queued": {"running"},
    "running": {"assembling", "queued"},
    "assembling": {"published", "awaiting_client", "queued"},
    "awaiting_client": {"published", "negotiating"},
}
WAITING = set(STEPS) - {"running", "assembling"}


def test_a_session_walks_through_its_states(store: Store, clock: FakeClock) -> None:
    furnish(store)
    session = requested(store)
    assert (session.status, session.version, session.created) == (Status.REQUESTED, 1, START)
    clock.tick(seconds=5)
    session = store.sessions.advance(session, Status.NEGOTIATING)
    session = store.sessions.agree(session, digest("terms"), digest("contract"), {"k": 50})
    session = store.sessions.advance(session, Status.QUEUED)
    clock.tick(seconds=5)
    session = store.sessions.advance(session, Status.RUNNING)
    assert (session.attempts, session.queued, session.started) == (
        1,
        START + timedelta(seconds=5),
        clock.now(),
    )
    session = store.sessions.advance(session, Status.ASSEMBLING)
    session = store.releases.publish(session, new_release(store), {"bank": 1250, "shop": 0})
    assert session == store.sessions.get(session.id)
    assert (session.status, session.finished, session.contract) == (Status.PUBLISHED, clock.now(), {"k": 50})
    assert history(store, session) == [
        "requested", "negotiating", "agreed", "queued", "running", "assembling", "published",
    ]  # fmt: skip


@pytest.mark.parametrize("to", list(Status))
def test_final_states_are_left_by_nothing(store: Store, to: Status) -> None:
    furnish(store)
    session = store.sessions.advance(requested(store), Status.CANCELLED)
    with pytest.raises((Conflict, ParameterError)):
        store.sessions.advance(session, to, "why not")
    assert store.sessions.get(session.id) == session


def test_a_forbidden_step_names_the_allowed_ones(store: Store) -> None:
    furnish(store)
    session = requested(store)
    with pytest.raises(
        Conflict,
        match="is requested: it cannot become running; allowed is cancelled, expired, failed, negotiating",
    ):
        store.sessions.advance(session, Status.RUNNING)
    assert history(store, session) == ["requested"]


def test_a_running_session_can_be_refused_and_an_assembling_one_cannot(store: Store) -> None:
    furnish(store)
    queued(store)
    claimed = store.queue.claim(FREE)
    assert claimed is not None
    assert store.sessions.advance(claimed, Status.REFUSED, "bank: no").cause == "bank: no"
    with pytest.raises(Conflict, match="cannot become refused"):
        store.sessions.advance(assembling(store), Status.REFUSED, "bank: no")


def test_nothing_ends_badly_without_a_cause(store: Store) -> None:
    furnish(store)
    session = store.sessions.advance(requested(store), Status.NEGOTIATING)
    for status in (Status.REFUSED, Status.FAILED):
        with pytest.raises(ParameterError, match="without a cause"):
            store.sessions.advance(session, status)
    assert store.sessions.advance(session, Status.REFUSED, "bank: k below 50").cause == "bank: k below 50"


def test_an_old_look_moves_nothing(store: Store) -> None:
    furnish(store)
    session = requested(store)
    moved = store.sessions.advance(session, Status.NEGOTIATING)
    with pytest.raises(Conflict, match="moved meanwhile: it is negotiating now"):
        store.sessions.advance(session, Status.CANCELLED)
    store.events.append(session.id, "progress", {"round": 1})  # tells something, moves nothing
    assert store.sessions.advance(moved, Status.CANCELLED).status is Status.CANCELLED


def test_of_many_movers_one_wins(store: Store) -> None:
    furnish(store)
    session = requested(store)
    answers = at_once(8, lambda _: store.sessions.advance(session, Status.NEGOTIATING))
    assert sum(isinstance(answer, SessionRecord) for answer in answers) == 1
    assert sum(isinstance(answer, Conflict) for answer in answers) == 7
    assert history(store, session) == ["requested", "negotiating"]


def follows(before: str, after: str) -> bool:
    return before in STEPS and (
        after in STEPS[before] | {"failed", "cancelled"} or (after == "expired" and before in WAITING)
    )


class Random:
    """Tries anything on a session, as a coordinator full of mistakes would."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def step(self, session: SessionRecord, to: Status) -> SessionRecord:
        store, cause = self.store, "because"
        if to is Status.AGREED:
            return store.sessions.agree(
                session, digest("terms"), digest(session.id + str(session.version)), {}
            )
        if to is Status.AWAITING_CLIENT:
            return store.releases.hold(session, new_release(store), {"error": "0.3"})
        if to is Status.PUBLISHED and session.status is Status.AWAITING_CLIENT:
            return store.releases.accept(session)
        if to is Status.PUBLISHED and session.status is Status.AGREED:
            made = store.releases.cached(digest("terms"), session.client)
            return store.releases.publish_cached(session, made) if made is not None else session
        if to is Status.PUBLISHED:
            return store.releases.publish(session, new_release(store))
        return store.sessions.advance(session, to, cause)


@settings(
    max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(wishes=st.lists(st.sampled_from(Status), max_size=25), forward=st.booleans())
def test_no_forbidden_step_is_ever_stored(store: Store, wishes: list[Status], forward: bool) -> None:
    if not store.users.all():
        furnish(store)
    session = requested(store)
    if forward:  # otherwise few examples would come far
        session = assembling(store, session)
    for wish in wishes:
        allowed = follows(session.status, wish)
        try:
            moved = Random(store).step(session, wish)
        except (Conflict, ParameterError):
            assert store.sessions.get(session.id) == session
            assert not allowed or session.attempts == session.attempt_limit
        else:
            assert allowed
            session = moved
    steps = history(store, session)
    assert all(follows(*pair) for pair in pairwise(steps))
    assert store.sessions.get(session.id).status == steps[-1]


def test_attempts_are_counted_and_limited(store: Store) -> None:
    furnish(store)
    session = store.sessions.create("ann", ["bank"], "research", {}, attempt_limit=2)
    session = store.sessions.advance(agreed(store, session), Status.QUEUED)
    place = session.queued
    session = store.sessions.advance(session, Status.RUNNING)
    session = store.sessions.retry(session, "party bank: vanished")
    assert (session.status, session.cause, session.queued) == (Status.QUEUED, "party bank: vanished", place)
    session = store.sessions.advance(session, Status.RUNNING)
    with pytest.raises(Conflict, match="used its 2 attempts"):
        store.sessions.advance(session, Status.QUEUED)
    session = store.sessions.retry(session, "party bank: vanished")
    assert (session.status, session.attempts, session.cause) == (Status.FAILED, 2, "party bank: vanished")


def test_after_a_restart_the_interrupted_are_known(store: Store, database_url: str, clock: FakeClock) -> None:
    furnish(store)
    running = store.sessions.advance(queued(store), Status.RUNNING)
    assembled = assembling(store)
    waiting, done = queued(store), published(store)
    store.close()
    with Store.open(database_url, clock=clock.now) as again:
        assert {session.id for session in again.sessions.interrupted()} == {running.id, assembled.id}
        for session in again.sessions.interrupted():
            assert again.sessions.retry(session, "the coordinator restarted").status is Status.QUEUED
        assert again.sessions.interrupted() == []
        assert again.sessions.get(waiting.id) == waiting
        assert again.releases.of(done.id).session == done.id


def test_one_contract_is_one_session(store: Store) -> None:
    furnish(store)
    first, second = (store.sessions.advance(requested(store), Status.NEGOTIATING) for _ in range(2))
    store.sessions.agree(first, digest("t"), digest("c"), {})
    with pytest.raises(Conflict, match="another session has the contract"):
        store.sessions.agree(second, digest("t"), digest("c"), {})
    assert store.sessions.get(second.id) == second
    with pytest.raises(ParameterError, match="terms_hash: must be 64 hexadecimal digits"):
        store.sessions.agree(second, "t", digest("c"), {})
