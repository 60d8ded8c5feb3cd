"""Accounts on SQLite and on PostgreSQL: passwords, names and roles."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from argon2 import PasswordHasher, Type, extract_parameters
from argon2.exceptions import VerifyMismatchError

from fake_clock import START
from masquerade.errors import Conflict, NotFound, ParameterError
from masquerade.service.accounts import HERE, Accounts, require
from masquerade.service.resources import Role, User
from masquerade.service.store import SignInFailures, Store
from masquerade.service.token_scopes import TokenKind
from service.credentials import CHEAP, LOCKOUT, RIGHT, WRONG, everything_stored, refusal
from service.stores import at_once


def test_the_right_password_opens(accounts: Accounts) -> None:
    assert accounts.sign_in("ann", RIGHT) == User(
        name="ann", role=Role.ANALYST, disabled=False, created=START
    )


def test_every_wrong_sign_in_is_answered_alike(accounts: Accounts) -> None:
    accounts.create("off", RIGHT)
    accounts.disable("off")
    accounts.create("loc", RIGHT)
    for _ in range(3):
        refusal(lambda: accounts.sign_in("loc", WRONG))
    answers = {
        refusal(lambda: accounts.sign_in("ann", WRONG)),
        refusal(lambda: accounts.sign_in("nobody", RIGHT)),
        refusal(lambda: accounts.sign_in("off", RIGHT)),
        refusal(lambda: accounts.sign_in("loc", RIGHT)),
        refusal(lambda: accounts.sign_in("Ann", RIGHT)),
        refusal(lambda: accounts.sign_in("' OR 1=1 --", RIGHT)),
        refusal(lambda: accounts.sign_in("nul\0byte", RIGHT)),
        refusal(lambda: accounts.sign_in("lone \ud800", "\ud800" * 20)),
        refusal(lambda: accounts.sign_in("ann", "x" * 2_000_000)),
        refusal(lambda: accounts.sign_in("", "")),
    }
    assert answers == {
        "the name or the password is wrong, the account is disabled, or too many wrong guesses came from here"
    }


@pytest.mark.parametrize("name", ["ann", "nobody", "off", "nul\0byte"])
def test_every_sign_in_takes_the_same_steps(accounts: Accounts, store: Store, name: str) -> None:
    """Not a time is measured but what takes time: one hash, with today's parameters, and one guess counted."""
    accounts.create("off", RIGHT)
    accounts.disable("off")
    verified = []

    class Watched(PasswordHasher):
        def verify(self, hash: str | bytes, password: str | bytes) -> Any:
            verified.append(extract_parameters(str(hash)))
            return super().verify(hash, password)

    watched = Accounts(store, lockout=LOCKOUT, hasher=Watched(time_cost=1, memory_cost=8, parallelism=1))
    refusal(lambda: watched.sign_in(name, WRONG))
    assert verified == [extract_parameters(CHEAP.hash("x"))]
    guard = store.users.guard(name, HERE.name)
    assert guard == SignInFailures(failures=1, lockouts=0, since=START, locked_until=None)


@pytest.mark.parametrize("hasher", [CHEAP, PasswordHasher()], ids=["cheap", "usual"])
def test_an_unknown_name_has_a_hash_like_any_other(store: Store, hasher: PasswordHasher) -> None:
    nobodys = Accounts(store, hasher=hasher)._nobodys_hash
    somebodys = hasher.hash(RIGHT)
    assert (len(nobodys), extract_parameters(nobodys)) == (len(somebodys), extract_parameters(somebodys))
    with pytest.raises(VerifyMismatchError):  # whatever is wrong, it is not the form of the hash
        hasher.verify(nobodys, RIGHT)


def test_only_an_argon2id_hash_is_stored(store: Store, database_url: str) -> None:
    Accounts(store).create("bea", RIGHT)
    found = store.users.with_hash("bea")
    assert found is not None
    parameters = extract_parameters(found[1])
    assert parameters.type is Type.ID
    assert parameters.memory_cost >= 19 * 1024  # KiB
    assert parameters.time_cost >= 2
    assert RIGHT not in everything_stored(database_url)


def test_equal_passwords_have_different_hashes(accounts: Accounts, store: Store) -> None:
    accounts.create("ben", RIGHT)
    hashes = {found[1] for name in ("ann", "ben") if (found := store.users.with_hash(name)) is not None}
    assert len(hashes) == 2


def test_a_hash_is_renewed_when_parameters_change(accounts: Accounts, store: Store) -> None:
    stronger = PasswordHasher(time_cost=2, memory_cost=16, parallelism=1)
    renewing = Accounts(store, hasher=stronger)
    refusal(lambda: renewing.sign_in("ann", WRONG))
    found = store.users.with_hash("ann")
    assert found is not None
    assert extract_parameters(found[1]).time_cost == 1
    renewing.sign_in("ann", RIGHT)
    found = store.users.with_hash("ann")
    assert found is not None
    assert (extract_parameters(found[1]).time_cost, extract_parameters(found[1]).memory_cost) == (2, 16)
    renewing.sign_in("ann", RIGHT)
    assert store.users.with_hash("ann") == found


def test_renewing_never_undoes_a_new_password(accounts: Accounts, store: Store) -> None:
    store.users.set_hash("ann", "new", instead_of="not the stored one")
    accounts.sign_in("ann", RIGHT)


def test_accents_may_be_composed_differently(accounts: Accounts) -> None:
    accounts.create(
        "ben", "ma\N{LATIN SMALL LETTER N WITH TILDE}ana ma\N{LATIN SMALL LETTER N WITH TILDE}ana"
    )
    accounts.sign_in("ben", "man\N{COMBINING TILDE}ana man\N{COMBINING TILDE}ana")


@pytest.mark.parametrize("password", ["", "short", "x" * 11, "x" * 1025])
def test_a_password_has_a_fitting_length(accounts: Accounts, password: str) -> None:
    with pytest.raises(ParameterError, match="from 12 to 1024 characters"):
        accounts.create("ben", password)
    with pytest.raises(ParameterError, match="from 12 to 1024 characters"):
        accounts.set_password("ann", password)
    accounts.sign_in("ann", RIGHT)


@pytest.mark.parametrize("name", ["", "Ann", "ann ", "-ann", "ann/../root", "än", "a" * 129, "a\0", "ann\n"])
def test_a_name_has_one_spelling(accounts: Accounts, name: str) -> None:
    with pytest.raises(ParameterError, match="cannot name a user"):
        accounts.create(name, RIGHT)


def test_a_name_is_given_once(accounts: Accounts) -> None:
    with pytest.raises(Conflict, match="there is a user ann already"):
        accounts.create("ann", "another password")
    accounts.sign_in("ann", RIGHT)
    results = at_once(4, lambda _: accounts.create("ben@example.org", RIGHT))
    assert sorted(type(result).__name__ for result in results) == ["Conflict"] * 3 + ["User"]


def test_another_password_ends_the_old_one_and_its_tokens(accounts: Accounts) -> None:
    ann = accounts.sign_in("ann", RIGHT)
    token, _ = accounts.create_token(ann, "laptop")
    for _ in range(3):
        refusal(lambda: accounts.sign_in("ann", WRONG))
    accounts.set_password("ann", "a new and better one")
    accounts.sign_in("ann", "a new and better one")
    refusal(lambda: accounts.sign_in("ann", RIGHT))
    refusal(lambda: accounts.authenticate(token))
    with pytest.raises(NotFound):
        accounts.set_password("nobody", RIGHT)


def test_roles(accounts: Accounts) -> None:
    ann, root = accounts.sign_in("ann", RIGHT), accounts.create("root", RIGHT, "admin")
    assert require(ann, Role.ANALYST) == ann
    assert require(root, Role.ANALYST) == require(root, "admin") == root
    assert refusal(lambda: require(ann, Role.ADMIN)) == "this needs the role admin; ann has the role analyst"
    assert require(accounts.set_role("ann", Role.ADMIN), Role.ADMIN).name == "ann"
    refusal(lambda: require(accounts.disable("ann"), Role.ANALYST))
    with pytest.raises(ParameterError, match="'king' is no role; allowed are analyst, admin"):
        accounts.create("ben", RIGHT, "king")


def test_no_token_outlives_the_password_that_got_it(
    accounts: Accounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The password is changed after the old one was found right, and before its token is made."""
    user, token, made = accounts.sign_in_for_token("ann", RIGHT, TokenKind.SIGN_IN, timedelta(hours=1))
    assert (accounts.authenticate(token), made.expires) == (user, START + timedelta(hours=1))
    verify = accounts._verify

    def changed_meanwhile(stored: str, password: str) -> bool:
        right = verify(stored, password)
        accounts.set_password("ann", WRONG)
        return right

    monkeypatch.setattr(accounts, "_verify", changed_meanwhile)
    refusal(lambda: accounts.sign_in_for_token("ann", RIGHT, TokenKind.SIGN_IN, timedelta(hours=1)))
    assert accounts.tokens(user) == []
