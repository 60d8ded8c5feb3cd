"""Helpers of the store's tests: sessions brought to a state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from hashlib import sha256
from itertools import count
from threading import Barrier
from typing import TypeVar

from masquerade.service import Role, SessionRecord, Status, Store
from masquerade.service.store import NewRelease

SNAPSHOTS = {"bank": "b1", "shop": "s1"}
FREE = {"bank": 9, "shop": 9}  # places that each party has left
Answer = TypeVar("Answer")
_numbers = count()


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def some(value: Answer | None) -> Answer:
    """What is there."""
    assert value is not None
    return value


def furnish(store: Store, users: Iterable[str] = ("ann", "ben")) -> None:
    """Users, and two public providers."""
    for user in users:
        store.users.add(user, "no hash", Role.ANALYST)
    for party in ("bank", "shop"):
        store.providers.register(party, f"{party}.example:7000", f"finger of {party}", public=True)


def requested(store: Store, client: str = "ann", parties: Iterable[str] = ("bank", "shop")) -> SessionRecord:
    return store.sessions.create(client, parties, "research", {"attributes": ["age"]})


def agreed(store: Store, session: SessionRecord, terms: str = "terms") -> SessionRecord:
    session = store.sessions.advance(session, Status.NEGOTIATING)
    contract = digest(f"contract {next(_numbers)}")
    return store.sessions.agree(session, digest(terms), contract, {"terms": terms})


def queued(
    store: Store,
    client: str = "ann",
    parties: Iterable[str] = ("bank", "shop"),
    terms: str | None = None,  # of its own
) -> SessionRecord:
    asked = requested(store, client, parties)
    return store.sessions.advance(agreed(store, asked, terms or f"terms {next(_numbers)}"), Status.QUEUED)


def assembling(store: Store, session: SessionRecord | None = None, terms: str = "terms") -> SessionRecord:
    session = agreed(store, session or requested(store), terms)
    for status in (Status.QUEUED, Status.RUNNING, Status.ASSEMBLING):
        session = store.sessions.advance(session, status)
    return session


def new_release(store: Store, name: str = "t", days: float = 30) -> NewRelease:
    expires = store.clock() + timedelta(days=days)
    return NewRelease(f"{name}.csv", f"{name}.html", digest(name), 100, expires, SNAPSHOTS)


def published(store: Store, session: SessionRecord | None = None, terms: str = "terms") -> SessionRecord:
    session = assembling(store, session, terms)
    return store.releases.publish(session, new_release(store, session.id))


def at_once(workers: int, work: Callable[[int], Answer]) -> list[Answer | Exception]:
    """What each of several threads gets that start together."""
    barrier = Barrier(workers)

    def one(number: int) -> Answer | Exception:
        barrier.wait()
        try:
            return work(number)
        except Exception as error:
            return error

    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(one, range(workers)))


def history(store: Store, session: SessionRecord) -> list[str]:
    """The states that a session went through, as its listeners were told."""
    return [event.data["to"] for event in store.events.after(session.id) if event.kind == "status"]
