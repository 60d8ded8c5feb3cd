"""What people write reaches the store as it is, names nobody, and is refused where it is no text or too long."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from masquerade.errors import NotFound, ParameterError
from masquerade.service.resources import Role
from masquerade.service.session_states import Status
from masquerade.service.store import Store
from service.stores import digest, furnish, published, requested

if TYPE_CHECKING:
    from collections.abc import Callable

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
    furnish(store)
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
    furnish(store)
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
    furnish(store)
    with pytest.raises(ParameterError, match="holds characters that are no text"):
        store.sessions.create("ann", ["bank"], words, {})
    session = store.sessions.create("ann", ["bank"], "research", {words: words})  # JSON can write it
    assert store.sessions.get(session.id).request == {words: words}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"x", object()])
def test_what_is_no_json_is_refused(store: Store, value: object) -> None:
    furnish(store)
    with pytest.raises(ParameterError, match="the request: not a JSON object"):
        store.sessions.create("ann", ["bank"], "research", {"x": value})


def test_too_long_is_refused(store: Store) -> None:
    furnish(store)
    with pytest.raises(ParameterError, match="the purpose: at most 4000 characters"):
        store.sessions.create("ann", ["bank"], "x" * 4001, {})
    with pytest.raises(ParameterError, match="the request: at most 4000000 bytes"):
        store.sessions.create("ann", ["bank"], "research", {"x": "y" * 4_000_000})
    with pytest.raises(ParameterError, match="at least one provider"):
        store.sessions.create("ann", [], "research", {})
    with pytest.raises(ParameterError, match="attempt_limit"):
        store.sessions.create("ann", ["bank"], "research", {}, attempt_limit=0)


def test_a_session_can_be_told_as_json(store: Store) -> None:
    furnish(store)
    session = requested(store)
    assert json.loads(json.dumps(session.request)) == {"attributes": ["age"]}
    assert json.dumps(session.status) == '"requested"'
