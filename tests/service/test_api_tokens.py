"""API tokens: shown once, stored as digests, and ended in time."""

from __future__ import annotations

import base64
import hashlib
from datetime import timedelta
from functools import partial

import pytest

from fake_clock import START, FakeClock
from masquerade.errors import NotFound, ParameterError
from masquerade.service.accounts import Accounts
from masquerade.service.resources import Role, User
from masquerade.service.store import Store
from service.credentials import RIGHT, WRONG, everything_stored, refusal


def test_a_token_is_shown_once_and_stored_as_a_digest(accounts: Accounts, database_url: str) -> None:
    ann = accounts.sign_in("ann", RIGHT)
    token, described = accounts.create_token(ann, "laptop")
    assert token.startswith("mq_")
    assert len(base64.urlsafe_b64decode(token[3:] + "=")) == 32
    assert accounts.authenticate(token) == ann
    assert [(each.id, each.name, each.user) for each in accounts.tokens(ann)] == [
        (described.id, "laptop", "ann")
    ]
    stored = everything_stored(database_url)
    assert token not in stored
    assert token[3:] not in stored
    assert hashlib.sha256(token.encode()).hexdigest() in stored
    assert token not in repr(described)


def test_a_token_ends(accounts: Accounts, clock: FakeClock) -> None:
    ann = accounts.sign_in("ann", RIGHT)
    expiring, _ = accounts.create_token(ann, "for an hour", timedelta(hours=1))
    revoked, described = accounts.create_token(ann, "lost")
    lasting, _ = accounts.create_token(ann, "lasting")
    clock.tick(minutes=59)
    assert accounts.authenticate(expiring) == accounts.authenticate(revoked) == ann
    clock.tick(minutes=1)
    assert accounts.revoke(ann, described.id).revoked == clock.now()
    guesses = ("", "mq_", "mq_" + "A" * 43, lasting[3:], lasting + "=", "nul\0", "mq_\ud800", RIGHT)
    answers = {refusal(partial(accounts.authenticate, token)) for token in (expiring, revoked, *guesses)}
    assert accounts.authenticate(lasting) == ann
    accounts.disable("ann")
    answers.add(refusal(lambda: accounts.authenticate(lasting)))
    assert len(answers) == 1
    accounts.enable("ann")
    assert accounts.authenticate(lasting) == ann


def test_nobody_revokes_another_ones_token(accounts: Accounts) -> None:
    ann, eve = accounts.sign_in("ann", RIGHT), accounts.create("eve", RIGHT)
    token, described = accounts.create_token(ann, "laptop")
    for token_id in (described.id, "unknown", "nul\0"):
        with pytest.raises(NotFound):
            accounts.revoke(eve, token_id)
    assert accounts.authenticate(token) == ann
    assert accounts.tokens(eve) == []


def test_last_use_is_known_to_the_minute(accounts: Accounts, clock: FakeClock) -> None:
    ann = accounts.sign_in("ann", RIGHT)
    token, _ = accounts.create_token(ann, "laptop")
    assert accounts.tokens(ann)[0].last_used is None
    for seconds, used in ((0, START), (59, START), (1, START + timedelta(minutes=1))):
        clock.tick(seconds=seconds)
        accounts.authenticate(token)
        assert accounts.tokens(ann)[0].last_used == used


def test_a_token_works_while_guessing_locks_the_password(accounts: Accounts) -> None:
    ann = accounts.sign_in("ann", RIGHT)
    token, _ = accounts.create_token(ann, "laptop")
    for _ in range(3):
        refusal(lambda: accounts.sign_in("ann", WRONG))
    assert accounts.authenticate(token) == ann


def test_a_token_needs_a_sensible_life_and_name(accounts: Accounts) -> None:
    ann = accounts.sign_in("ann", RIGHT)
    with pytest.raises(ParameterError, match="lifetime"):
        accounts.create_token(ann, "laptop", timedelta(0))
    with pytest.raises(ParameterError, match="at most 366 days"):
        accounts.create_token(ann, "laptop", timedelta(days=367))
    with pytest.raises(ParameterError, match="at least one scope"):
        accounts.create_token(ann, "laptop", scopes=())
    with pytest.raises(ParameterError, match="the token's name"):
        accounts.create_token(ann, "x" * 129)
    with pytest.raises(NotFound):
        accounts.create_token(User(name="nobody", role=Role.ADMIN, disabled=False, created=START), "laptop")


def test_tokens_that_open_nothing_are_forgotten_after_a_while(
    accounts: Accounts, store: Store, clock: FakeClock
) -> None:
    ann = store.users.get("ann")
    accounts.create_token(ann, "short", timedelta(hours=12))
    revoked = accounts.create_token(ann, "revoked")[1]
    long, _ = accounts.create_token(ann, "long", timedelta(days=90))
    year, _ = accounts.create_token(ann, "year", timedelta(days=366))
    accounts.revoke(ann, revoked.id)
    clock.tick(days=6)
    store.expire()
    assert {each.name for each in store.users.tokens("ann")} == {"short", "revoked", "long", "year"}
    clock.tick(days=1)
    store.expire()
    assert {each.name for each in store.users.tokens("ann")} == {"short", "long", "year"}
    clock.tick(hours=12)
    store.expire()
    assert {each.name for each in store.users.tokens("ann")} == {"long", "year"}
    for living in (long, year):
        assert accounts.authenticate(living).name == "ann"
