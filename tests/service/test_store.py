"""The states of a session in the store: only the drawn steps, one mover at a time, on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError

from examples import examples
from fake_clock import START, FakeClock
from masquerade.errors import Conflict, NotAllowed, NotFound, ParameterError
from masquerade.service import Role, SessionRecord, Status, Store
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
    some,
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


@pytest.fixture
def store(store: Store) -> Store:
    """One with two users and two public providers."""
    furnish(store)
    return store


def test_a_session_walks_through_its_states(store: Store, clock: FakeClock) -> None:
    session = requested(store)
    assert (session.status, session.version, session.created) == (Status.REQUESTED, 1, START)
    clock.tick(seconds=5)
    session = store.sessions.advance(session, Status.NEGOTIATING)
    session = store.sessions.agree(session, digest("terms"), digest("contract"), {"k": 50})
    session = store.sessions.advance(session, Status.QUEUED)
    clock.tick(seconds=5)
    session = store.sessions.advance(session, Status.RUNNING)
    assert (session.attempts, session.queued, session.started) == (1, START + timedelta(seconds=5), clock.now())
    session = store.sessions.advance(session, Status.ASSEMBLING)
    session = store.releases.publish(session, new_release(store), {"bank": 1250, "shop": 0})
    assert session == store.sessions.get(session.id)
    assert (session.status, session.finished, session.contract) == (Status.PUBLISHED, clock.now(), {"k": 50})
    assert history(store, session) == [
        "requested", "negotiating", "agreed", "queued", "running", "assembling", "published",
    ]  # fmt: skip


def test_final_states_are_left_by_nothing(store: Store) -> None:
    session = store.sessions.advance(requested(store), Status.CANCELLED)
    for to in Status:
        with pytest.raises((Conflict, ParameterError)):
            store.sessions.advance(session, to, "why not")
    assert store.sessions.get(session.id) == session


def test_a_forbidden_step_names_the_allowed_ones(store: Store) -> None:
    session = requested(store)
    with pytest.raises(
        Conflict, match="is requested: it cannot become running; allowed is cancelled, expired, failed, negotiating"
    ):
        store.sessions.advance(session, Status.RUNNING)
    assert history(store, session) == ["requested"]


def test_a_running_session_can_be_refused_and_an_assembling_one_cannot(store: Store) -> None:
    queued(store)
    assert store.sessions.advance(some(store.queue.claim(FREE)), Status.REFUSED, "bank: no").cause == "bank: no"
    with pytest.raises(Conflict, match="cannot become refused"):
        store.sessions.advance(assembling(store), Status.REFUSED, "bank: no")


def test_nothing_ends_badly_without_a_cause(store: Store) -> None:
    session = store.sessions.advance(requested(store), Status.NEGOTIATING)
    for status in (Status.REFUSED, Status.FAILED):
        with pytest.raises(ParameterError, match="without a cause"):
            store.sessions.advance(session, status)
    assert store.sessions.advance(session, Status.REFUSED, "bank: k below 50").cause == "bank: k below 50"


def test_an_old_look_moves_nothing(store: Store) -> None:
    session = requested(store)
    moved = store.sessions.advance(session, Status.NEGOTIATING)
    with pytest.raises(Conflict, match="moved meanwhile: it is negotiating now"):
        store.sessions.advance(session, Status.CANCELLED)
    store.events.append(session.id, "progress", {"round": 1})  # tells something, moves nothing
    assert store.sessions.advance(moved, Status.CANCELLED).status is Status.CANCELLED


def test_of_many_movers_one_wins(store: Store) -> None:
    session = requested(store)
    answers = at_once(8, lambda _: store.sessions.advance(session, Status.NEGOTIATING))
    assert sum(isinstance(answer, SessionRecord) for answer in answers) == 1
    assert sum(isinstance(answer, Conflict) for answer in answers) == 7
    assert history(store, session) == ["requested", "negotiating"]


def follows(before: str, after: str) -> bool:
    return before in STEPS and (
        after in STEPS[before] | {"failed", "cancelled"} or (after == "expired" and before in WAITING)
    )


def tried(store: Store, session: SessionRecord, to: Status) -> SessionRecord:
    """Whatever is asked for, as a coordinator full of mistakes would."""
    if to is Status.AGREED:
        return store.sessions.agree(session, digest("terms"), digest(session.id + str(session.version)), {})
    if to is Status.AWAITING_CLIENT:
        return store.releases.hold(session, new_release(store), {"error": "0.3"})
    if to is Status.PUBLISHED and session.status is Status.AWAITING_CLIENT:
        return store.releases.accept(session)
    if to is Status.PUBLISHED and session.status is Status.AGREED:
        made = store.releases.cached(digest("terms"), session.client)
        return store.releases.publish_cached(session, made) if made is not None else session
    if to is Status.PUBLISHED:
        return store.releases.publish(session, new_release(store))
    return store.sessions.advance(session, to, "because")


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wishes=st.lists(st.sampled_from(Status), max_size=25), forward=st.booleans())
def test_no_forbidden_step_is_ever_stored(store: Store, wishes: list[Status], forward: bool) -> None:
    session = requested(store)
    if forward:  # otherwise few examples would come far
        session = assembling(store, session)
    for wish in wishes:
        allowed = follows(session.status, wish)
        try:
            moved = tried(store, session, wish)
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
    first, second = (store.sessions.advance(requested(store), Status.NEGOTIATING) for _ in range(2))
    store.sessions.agree(first, digest("t"), digest("c"), {})
    with pytest.raises(Conflict, match="another session has the contract"):
        store.sessions.agree(second, digest("t"), digest("c"), {})
    assert store.sessions.get(second.id) == second
    with pytest.raises(ParameterError, match="terms_hash: must be 64 hexadecimal digits"):
        store.sessions.agree(second, "t", digest("c"), {})


# --- Who sees which sessions and reaches which providers, as the store answers it ---


def test_nobody_sees_another_ones_session(store: Store, clock: FakeClock) -> None:
    store.users.add("eve", "no hash", Role.ANALYST)
    shared = store.sessions.create("ann", ["bank", "shop"], "research", {}, recipients=["ben", "ann"])
    assert shared.recipients == ("ben",)
    published(store, shared)
    for user in ("ann", "ben"):
        assert store.sessions.seen_by(shared.id, user).id == shared.id
        assert store.releases.of(shared.id, user).rows == 100
        assert [session.id for session in store.sessions.recent(user)] == [shared.id]
    for look in (store.sessions.seen_by, store.releases.of):
        with pytest.raises(NotFound) as refused:
            look(shared.id, "eve")
        with pytest.raises(NotFound) as unknown:
            look("0" * 32, "eve")
        assert str(refused.value).replace(shared.id, "") == str(unknown.value).replace("0" * 32, "")
    assert store.sessions.recent("eve") == []
    with pytest.raises(NotFound):  # nor as a place to go on from
        store.sessions.recent("eve", after=shared.id)


def test_sessions_come_in_pages(store: Store, clock: FakeClock) -> None:
    made = []
    for _ in range(3):  # several at the same moment too
        made += [requested(store).id, requested(store).id]
        clock.tick(seconds=1)
    assert all(len(bytes.fromhex(name)) == 16 for name in made), "an identifier that nobody can guess"
    seen: list[str] = []
    while page := store.sessions.recent("ann", limit=2, after=seen[-1] if seen else None):
        seen += [session.id for session in page]
    assert sorted(seen) == sorted(made)
    assert [set(seen[at : at + 2]) for at in (0, 2, 4)] == [set(made[at : at + 2]) for at in (4, 2, 0)]
    store.sessions.advance(store.sessions.get(seen[0]), Status.CANCELLED)
    assert [each.id for each in store.sessions.recent(status=Status.CANCELLED)] == seen[:1]
    with pytest.raises(ParameterError, match="limit"):
        store.sessions.recent(limit=0)


def test_private_providers_are_for_those_who_may(store: Store, clock: FakeClock) -> None:
    store.providers.register("clinic", "clinic:1", "finger", public=False, allowed=["ben"])
    assert [each.party for each in store.providers.reachable("ann")] == ["bank", "shop"]
    assert [each.party for each in store.providers.reachable("ben")] == ["bank", "clinic", "shop"]
    for party in ("clinic", "nowhere"):
        with pytest.raises(ParameterError, match=f'there is no provider "{party}" that ann may ask'):
            requested(store, "ann", [party])
    assert requested(store, "ben", ["clinic", "bank"]).providers == ("clinic", "bank")
    with pytest.raises(ParameterError, match="allowed users must have accounts"):
        store.providers.register("clinic", "clinic:1", "finger", allowed=["nobody"])
    changed = store.providers.register("clinic", "clinic:2", "finger", allowed=["ann"])
    assert (changed.address, changed.allowed) == ("clinic:2", ("ann",))


def test_a_schema_is_taken_from_its_own_party_only(store: Store, clock: FakeClock) -> None:
    schema = {"age": {"type": "continuous"}, "größe": None}
    with pytest.raises(NotAllowed):
        store.providers.publish_schema("bank", "finger of shop", schema)
    assert store.providers.get("bank").published is None
    found = store.providers.publish_schema("bank", "finger of bank", schema)
    assert (found.published, found.last_seen) == (schema, clock.now())
    clock.tick(hours=1)
    store.providers.seen("bank", "finger of bank")
    assert store.providers.get("bank").last_seen == clock.now()
    assert store.providers.register("bank", "b:1", "finger of bank", public=True).published == schema
    assert store.providers.register("bank", "b:1", "another", public=True).published is None


# --- The store's queue: users take turns, parties have so many places, and nothing is claimed twice ---


def test_users_take_turns(store: Store, clock: FakeClock) -> None:
    store.users.add("cid", "no hash", Role.ANALYST)
    waiting = {}
    for name in ("ann-1", "ann-2", "ann-3", "ben-1", "cid-1", "ben-2"):
        waiting[queued(store, name[:3]).id] = name
        clock.tick(seconds=1)
    order = []
    while (following := store.queue.next(FREE)) is not None:
        assert some(store.queue.claim(FREE)).id == following.id
        order.append(waiting[following.id])
    assert order == ["ann-1", "ben-1", "cid-1", "ann-2", "ben-2", "ann-3"]


def test_a_session_waits_until_all_its_parties_are_free(store: Store, clock: FakeClock) -> None:
    both = queued(store)
    clock.tick(seconds=1)
    alone = queued(store, parties=["shop"])
    assert [store.queue.claim(free) for free in ({}, {"bank": 1}, {"bank": 1, "shop": 0})] == [None] * 3
    assert store.queue.busy() == {}
    assert some(store.queue.claim({"bank": 0, "shop": 1})).id == alone.id
    assert some(store.queue.claim({"bank": 1, "shop": 1})).id == both.id
    assert store.queue.busy() == {"bank": 1, "shop": 2}


def test_what_is_past_its_deadline_never_runs(store: Store, clock: FakeClock) -> None:
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
    for terms in ("same", "same", "another"):
        queued(store, terms=terms)
    claimed = [session for session in (store.queue.claim(FREE), store.queue.claim(FREE)) if session]
    assert {session.terms_hash for session in claimed} == {digest("same"), digest("another")}
    assert store.queue.claim(FREE) is None
    (first,) = (session for session in claimed if session.terms_hash == digest("same"))
    store.releases.publish(store.sessions.advance(first, Status.ASSEMBLING), new_release(store))
    made = some(store.releases.cached(digest("same"), "ann"))
    (twin,) = store.sessions.in_states(Status.QUEUED)
    assert store.releases.publish_cached(twin, made).status is Status.PUBLISHED


# --- What the store only adds to: offers by round, numbered events, and the ledger ---


def test_offers_are_kept_by_round(store: Store) -> None:
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
    session = requested(store)
    answers = at_once(6, lambda n: [store.events.append(session.id, "progress", {"by": n}) for _ in range(8)])
    assert [answer for answer in answers if isinstance(answer, Exception)] == []
    found = store.events.after(session.id)
    assert [event.number for event in found] == list(range(1, 50))
    assert Counter(event.data["by"] for event in found[1:]) == dict.fromkeys(range(6), 8)


def test_a_listener_goes_on_where_it_stopped(store: Store, clock: FakeClock) -> None:
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
    session = store.releases.publish(assembling(store), new_release(store), {"bank": 5})
    alive = requested(store)
    clock.tick(days=91)
    store.expire()
    assert store.events.after(session.id) == []
    assert history(store, alive) == ["requested"]
    assert [entry.cents for entry in store.ledger.entries()] == [5]


def test_the_ledger_adds_up(store: Store) -> None:
    store.releases.publish(assembling(store), new_release(store), {"bank": 1250, "shop": 300})
    bens = assembling(store, requested(store, "ben"))
    store.releases.publish(bens, new_release(store), {"shop": 1})
    assert (store.ledger.owed(user="ann"), store.ledger.owed(party="shop")) == (1550, 301)
    assert (store.ledger.owed(), store.ledger.owed(user="eve")) == (1551, 0)
    lines = [(entry.party, entry.cents) for entry in store.ledger.entries(user="ann")]
    assert lines == [("bank", 1250), ("shop", 300)]
    assert [entry.cents for entry in store.ledger.entries(limit=1, after=store.ledger.entries()[0].id)] == [300]
    assert [entry.user for entry in store.ledger.entries(session=bens.id, party="shop")] == ["ben"]


@pytest.mark.parametrize("change", ["UPDATE ledger SET cents = 0", "DELETE FROM ledger"])
def test_the_ledger_is_only_added_to(store: Store, database_url: str, change: str) -> None:
    store.releases.publish(assembling(store), new_release(store), {"bank": 1250})
    engine = create_engine(database_url.replace("postgresql://", "postgresql+psycopg://"))
    with pytest.raises(DBAPIError, match="the ledger is only added to"), engine.begin() as connection:
        connection.execute(text(change))
    engine.dispose()
    assert store.ledger.owed() == 1250
