"""Guessing passwords: locks that grow, and no way to guess faster."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from fake_clock import START, FakeClock
from masquerade.errors import NotAllowed, ParameterError
from masquerade.service.accounts import HERE, Accounts, Lockout
from masquerade.service.resources import User
from masquerade.service.store import SignInFailures, Store
from service.credentials import CHEAP, LOCKOUT, RIGHT, WRONG, refusal
from service.stores import at_once


def waits_until(store: Store, name: str) -> datetime | None:
    guard = store.users.guard(name, HERE.name)
    return guard.locked_until if guard is not None else None


def test_guessing_makes_a_source_wait_for_a_growing_time(
    accounts: Accounts, store: Store, clock: FakeClock
) -> None:
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


def test_a_sign_in_forgets_the_failures(accounts: Accounts, store: Store) -> None:
    for _ in range(4):
        for _ in range(2):
            refusal(lambda: accounts.sign_in("ann", WRONG))
        accounts.sign_in("ann", RIGHT)
    assert waits_until(store, "ann") is None


def test_failures_that_are_long_past_do_not_count(accounts: Accounts, clock: FakeClock) -> None:
    for _ in range(4):
        for _ in range(2):
            refusal(lambda: accounts.sign_in("ann", WRONG))
        clock.tick(minutes=11)
    accounts.sign_in("ann", RIGHT)


def test_an_admin_can_unlock(accounts: Accounts) -> None:
    for _ in range(3):
        refusal(lambda: accounts.sign_in("ann", WRONG))
    refusal(lambda: accounts.sign_in("ann", RIGHT))
    accounts.unlock("ann")
    assert accounts.wrong_guesses("ann") == 0
    accounts.sign_in("ann", RIGHT)


def test_one_name_locks_no_other(accounts: Accounts) -> None:
    for _ in range(9):
        refusal(lambda: accounts.sign_in("nobody", WRONG))
    accounts.sign_in("ann", RIGHT)


def test_a_lock_outlives_a_restart(
    accounts: Accounts, store: Store, database_url: str, clock: FakeClock
) -> None:
    for _ in range(3):
        refusal(lambda: accounts.sign_in("ann", WRONG))
    store.close()
    with Store.open(database_url, clock=clock.now) as again:
        refusal(lambda: Accounts(again, lockout=LOCKOUT, hasher=CHEAP).sign_in("ann", RIGHT))


def test_guesses_at_once_are_all_counted(accounts: Accounts, store: Store) -> None:
    results = at_once(8, lambda _: accounts.sign_in("ann", WRONG))
    assert all(isinstance(result, NotAllowed) for result in results)
    guard = store.users.guard("ann", HERE.name)
    assert guard is not None
    assert (guard.lockouts, guard.locked_until) == (
        1,
        START + timedelta(minutes=1),
    )  # five came too late to count
    refusal(lambda: accounts.sign_in("ann", RIGHT))


def test_no_guess_is_lost(store: Store) -> None:
    patient = Accounts(store, lockout=Lockout(failures=100), hasher=CHEAP)
    refusal(lambda: patient.sign_in("ann", WRONG))
    at_once(8, lambda _: [refusal(lambda: patient.sign_in("ann", WRONG)) for _ in range(5)])
    guard = store.users.guard("ann", HERE.name)
    assert guard is not None
    assert guard.failures == 41


def test_many_right_sign_ins_at_once_lock_nobody(accounts: Accounts) -> None:
    results = at_once(8, lambda _: accounts.sign_in("ann", RIGHT))
    assert all(isinstance(result, User) for result in results)


def test_old_guesses_are_forgotten(accounts: Accounts, store: Store, clock: FakeClock) -> None:
    for _ in range(3):
        refusal(lambda: accounts.sign_in("nobody", WRONG))
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


def test_a_lock_out_must_make_sense() -> None:
    with pytest.raises(ParameterError):
        Lockout(failures=0)
    with pytest.raises(ParameterError):
        Lockout(window=timedelta(0))
    with pytest.raises(ParameterError):
        Lockout(crowd=0)
