"""Accounts on SQLite and on PostgreSQL: passwords, names and roles."""

from __future__ import annotations

import base64
import hashlib
import json
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from argon2 import Parameters, PasswordHasher, Type, extract_parameters
from argon2.exceptions import VerifyMismatchError
from hypothesis import given, settings, strategies as st
from structlog.testing import CapturingLogger

from examples import examples
from fake_clock import START, FakeClock
from masquerade.errors import Conflict, NotAllowed, NotFound, ParameterError
from masquerade.service import AccountLog, Accounts, Role, Store, TokenKind, User, client_address, require
from masquerade.service.accounts import HERE, Lockout
from masquerade.service.store import SignInFailures
from service.credentials import CHEAP, LOCKOUT, RIGHT, WRONG, everything_stored, refusal
from service.stores import at_once, some


def guess(accounts: Accounts, times: int, name: str = "ann") -> None:
    for _ in range(times):
        refusal(lambda: accounts.sign_in(name, WRONG))


def parameters_of(store: Store, name: str = "ann") -> Parameters:
    """The parameters of the hash that is stored."""
    return extract_parameters(some(store.users.with_hash(name))[1])


def test_the_right_password_opens(accounts: Accounts) -> None:
    assert accounts.sign_in("ann", RIGHT) == User(name="ann", role=Role.ANALYST, disabled=False, created=START)


def test_every_wrong_sign_in_is_answered_alike(accounts: Accounts) -> None:
    accounts.create("off", RIGHT)
    accounts.disable("off")
    accounts.create("loc", RIGHT)
    guess(accounts, 3, "loc")
    tries = dict.fromkeys(("nobody", "off", "loc", "Ann", "' OR 1=1 --", "nul\0byte"), RIGHT)
    tries |= {"ann": WRONG, "lone \ud800": "\ud800" * 20, "": ""}
    answers = {refusal(partial(accounts.sign_in, *each)) for each in (*tries.items(), ("ann", "x" * 2_000_000))}
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
    parameters = parameters_of(store, "bea")
    assert parameters.type is Type.ID
    assert parameters.memory_cost >= 19 * 1024  # KiB
    assert parameters.time_cost >= 2
    assert RIGHT not in everything_stored(database_url)
    cheap = Accounts(store, hasher=CHEAP)
    hashes = {some(store.users.with_hash(cheap.create(name, RIGHT).name))[1] for name in ("ben", "cid")}
    assert len(hashes) == 2, "equal passwords have different ones"


def test_a_hash_is_renewed_when_parameters_change(accounts: Accounts, store: Store) -> None:
    stronger = PasswordHasher(time_cost=2, memory_cost=16, parallelism=1)
    renewing = Accounts(store, hasher=stronger)
    refusal(lambda: renewing.sign_in("ann", WRONG))
    assert parameters_of(store).time_cost == 1
    renewing.sign_in("ann", RIGHT)
    found = store.users.with_hash("ann")
    assert (parameters_of(store).time_cost, parameters_of(store).memory_cost) == (2, 16)
    renewing.sign_in("ann", RIGHT)
    assert store.users.with_hash("ann") == found


def test_renewing_never_undoes_a_new_password(accounts: Accounts, store: Store) -> None:
    store.users.set_hash("ann", "new", instead_of="not the stored one")
    accounts.sign_in("ann", RIGHT)


def test_accents_may_be_composed_differently(accounts: Accounts) -> None:
    accounts.create("ben", "ma\N{LATIN SMALL LETTER N WITH TILDE}ana ma\N{LATIN SMALL LETTER N WITH TILDE}ana")
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
    guess(accounts, 3)
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


def test_no_token_outlives_the_password_that_got_it(accounts: Accounts, monkeypatch: pytest.MonkeyPatch) -> None:
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


# --- What is written down of accounts: who came in and who changed what, and no secret ---


class Book:
    """A log and an audit log."""

    def __init__(self) -> None:
        self.log = CapturingLogger()
        self.entered: list[dict[str, Any]] = []
        self.full = False

    def enter(self, event: str, fields: Any) -> None:
        if self.full:
            raise ParameterError("audit.jsonl: cannot be written")
        assert event == "account"
        self.entered.append(dict(fields))

    @property
    def told(self) -> list[tuple[str, str | None]]:
        return [(call.args[0], call.kwargs["user"]) for call in self.log.calls]


@pytest.fixture
def book() -> Book:
    return Book()


@pytest.fixture
def watched(store: Store, book: Book) -> Accounts:
    lockout = Lockout(failures=2)
    return Accounts(store, lockout=lockout, hasher=CHEAP, log=AccountLog(book.log, book.enter))


def test_sign_ins_and_guesses_are_logged_and_a_lock_out_is_audited(watched: Accounts, book: Book) -> None:
    watched.create("ann", RIGHT)
    client_address.set("192.0.2.7")
    watched.sign_in("ann", RIGHT)
    for _ in range(2):
        with pytest.raises(NotAllowed):
            watched.sign_in("ann", WRONG)
    assert book.told[1:] == [
        ("signed in", "ann"), ("sign-in refused", "ann"), ("locked out", "ann"), ("sign-in refused", "ann"),
    ]  # fmt: skip
    assert {call.kwargs["address"] for call in book.log.calls[1:]} == {"192.0.2.7"}
    assert [each["what"] for each in book.entered] == ["account made", "locked out"]


def test_a_name_that_nobody_has_is_not_written_down(watched: Accounts, book: Book) -> None:
    for _ in range(2):
        with pytest.raises(NotAllowed):
            watched.sign_in(RIGHT, "ann")  # typed in the wrong field
    assert book.told == [("sign-in refused", None), ("locked out", None), ("sign-in refused", None)]


def test_changes_are_audited_with_who_made_them_and_without_a_secret(watched: Accounts, book: Book) -> None:
    ann, admin = watched.create("ann", RIGHT), watched.by("root")
    token, made = watched.create_token(ann, "laptop")
    watched.revoke(ann, made.id)
    _, browser, signed_in = watched.sign_in_for_token("ann", RIGHT, TokenKind.SIGN_IN, timedelta(hours=1))
    watched.revoke(ann, signed_in.id, for_sign_out=True)
    admin.set_role("ann", "admin")
    admin.set_password("ann", WRONG)
    admin.disable("ann")
    admin.enable("ann")
    admin.unlock("ann")
    assert [(each["what"], each["by"]) for each in book.entered] == [
        ("account made", "ann"), ("token made", "ann"), ("token revoked", "ann"), ("role changed", "root"),
        ("password changed", "root"), ("account disabled", "root"), ("account enabled", "root"),
        ("account unlocked", "root"),
    ]  # fmt: skip
    written = json.dumps(book.entered) + repr(book.log.calls)
    for secret in (RIGHT, WRONG, token, token[3:], browser):
        assert secret not in written


def test_whoever_guesses_hears_nothing_of_a_full_disk(watched: Accounts, book: Book) -> None:
    book.full = True
    for _ in range(2):
        with pytest.raises(NotAllowed):
            watched.sign_in("ann", WRONG)
    assert ("audit log not written", None) in book.told


# --- Guessing passwords: locks that grow, and no way to guess faster ---


def waits_until(store: Store, name: str) -> datetime | None:
    guard = store.users.guard(name, HERE.name)
    return guard.locked_until if guard is not None else None


def test_guessing_makes_a_source_wait_for_a_growing_time(accounts: Accounts, store: Store, clock: FakeClock) -> None:
    for minutes in (1, 2, 4, 5, 5):
        for _ in range(3):
            assert (waits_until(store, "ann") or START) <= clock.now()
            refusal(lambda: accounts.sign_in("ann", WRONG))
        assert waits_until(store, "ann") == clock.now() + timedelta(minutes=minutes)
        clock.tick(minutes=minutes, seconds=-1)
        refusal(lambda: accounts.sign_in("ann", RIGHT))
        clock.tick(seconds=1)
    assert accounts.wrong_guesses("ann") == 15
    accounts.sign_in("ann", RIGHT)
    assert waits_until(store, "ann") is None


def test_failures_before_a_sign_in_or_long_past_do_not_count(
    accounts: Accounts, store: Store, clock: FakeClock
) -> None:
    for _ in range(4):
        guess(accounts, 2)
        accounts.sign_in("ann", RIGHT)
    assert waits_until(store, "ann") is None
    for _ in range(4):
        guess(accounts, 2)
        clock.tick(minutes=11)
    accounts.sign_in("ann", RIGHT)


def test_an_admin_can_unlock(accounts: Accounts) -> None:
    guess(accounts, 9, "nobody")  # locks no other name
    guess(accounts, 3)
    refusal(lambda: accounts.sign_in("ann", RIGHT))
    accounts.unlock("ann")
    assert accounts.wrong_guesses("ann") == 0
    accounts.sign_in("ann", RIGHT)


def test_a_lock_outlives_a_restart(accounts: Accounts, store: Store, database_url: str, clock: FakeClock) -> None:
    guess(accounts, 3)
    store.close()
    with Store.open(database_url, clock=clock.now) as again:
        refusal(lambda: Accounts(again, lockout=LOCKOUT, hasher=CHEAP).sign_in("ann", RIGHT))


def test_guesses_at_once_are_all_counted(accounts: Accounts, store: Store) -> None:
    results = at_once(8, lambda _: accounts.sign_in("ann", WRONG))
    assert all(isinstance(result, NotAllowed) for result in results)
    guard = some(store.users.guard("ann", HERE.name))
    assert (guard.lockouts, guard.locked_until) == (1, START + timedelta(minutes=1))  # five came too late to count
    refusal(lambda: accounts.sign_in("ann", RIGHT))


def test_no_guess_is_lost(store: Store) -> None:
    patient = Accounts(store, lockout=Lockout(failures=100), hasher=CHEAP)
    refusal(lambda: patient.sign_in("ann", WRONG))
    at_once(8, lambda _: [refusal(lambda: patient.sign_in("ann", WRONG)) for _ in range(5)])
    assert some(store.users.guard("ann", HERE.name)).failures == 41


def test_many_right_sign_ins_at_once_lock_nobody(accounts: Accounts) -> None:
    results = at_once(8, lambda _: accounts.sign_in("ann", RIGHT))
    assert all(isinstance(result, User) for result in results)


def test_old_guesses_are_forgotten(accounts: Accounts, store: Store, clock: FakeClock) -> None:
    guess(accounts, 3, "nobody")
    store.expire()
    assert store.users.guard("nobody", HERE.name) is not None
    clock.tick(days=1)
    store.expire()
    assert store.users.guard("nobody", HERE.name) is None


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 900)), max_size=60))
@settings(max_examples=examples(60), deadline=None)
def test_no_stretch_of_time_lets_in_more_guesses(tries: list[tuple[bool, int]]) -> None:
    """However tries and pauses are mixed: a wrong one never opens, and between two locks few are judged."""
    now, guard, judged_since_lock = START, SignInFailures(0, 0, START, None), 0
    for right, pause in tries:
        now += timedelta(seconds=pause)
        locked = guard.locked_until is not None and now < guard.locked_until
        after, _, opened = LOCKOUT.judge(guard, SignInFailures(0, 0, START, None), right, now)
        assert opened == (right and not locked)
        if locked:
            assert after == guard
            continue
        judged_since_lock = 0 if right else judged_since_lock + 1
        guard = after or SignInFailures(0, 0, now, None)
        if guard.locked_until is not None and guard.locked_until > now:
            assert judged_since_lock >= 3
            assert timedelta(minutes=1) <= guard.locked_until - now <= timedelta(minutes=5)
            judged_since_lock = 0
        assert guard.failures < 3


# --- API tokens: shown once, stored as digests, and ended in time ---


def test_a_token_is_shown_once_and_stored_as_a_digest(accounts: Accounts, database_url: str) -> None:
    ann = accounts.sign_in("ann", RIGHT)
    token, described = accounts.create_token(ann, "laptop")
    assert token.startswith("mq_")
    assert len(base64.urlsafe_b64decode(token[3:] + "=")) == 32
    assert accounts.authenticate(token) == ann
    assert [(each.id, each.name, each.user) for each in accounts.tokens(ann)] == [(described.id, "laptop", "ann")]
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
    guess(accounts, 3)
    assert accounts.authenticate(token) == ann


def test_a_token_needs_a_sensible_life_and_name(accounts: Accounts) -> None:
    ann = accounts.sign_in("ann", RIGHT)
    wrong: dict[str, tuple[Any, ...]] = {
        "lifetime": ("laptop", timedelta(0)),
        "at most 366 days": ("laptop", timedelta(days=367)),
        "at least one scope": ("laptop", timedelta(days=1), ()),
        "the token's name": ("x" * 129,),
    }
    for told, how in wrong.items():
        with pytest.raises(ParameterError, match=told):
            accounts.create_token(ann, *how)
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
