"""Who sees which sessions and reaches which providers, as the store answers it."""

from __future__ import annotations

import pytest

from fake_clock import FakeClock
from masquerade.errors import NotAllowed, NotFound, ParameterError
from masquerade.service.session_states import Status
from masquerade.service.store import Store
from service.stores import furnish, published, requested


def test_nobody_sees_another_ones_session(store: Store, clock: FakeClock) -> None:
    furnish(store, ["ann", "ben", "eve"])
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


def test_identifiers_cannot_be_guessed(store: Store) -> None:
    furnish(store)
    names = {requested(store).id for _ in range(20)}
    assert len(names) == 20
    assert all(len(bytes.fromhex(name)) == 16 for name in names)


def test_sessions_come_in_pages(store: Store, clock: FakeClock) -> None:
    furnish(store)
    made = []
    for _ in range(3):  # several at the same moment too
        made += [requested(store).id, requested(store).id]
        clock.tick(seconds=1)
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
    furnish(store)
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
    furnish(store)
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
