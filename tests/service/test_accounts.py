"""Passwords, lock-out, API tokens and roles, on SQLite and on PostgreSQL; session tokens for parties."""

from __future__ import annotations

import base64
import hashlib
import json
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from argon2 import PasswordHasher, Type, extract_parameters
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, text

from masquerade.errors import Conflict, NotAllowed, NotFound, ParameterError
from masquerade.net.identity import self_signed
from masquerade.service.accounts import Accounts, Lockout, require
from masquerade.service.session_tokens import Nonces, TokenIssuer, TokenVerifier
from masquerade.service.store import Guard, Role, Store, User
from service.stores import START, HandClock, at_once, digest

if TYPE_CHECKING:
    from collections.abc import Callable

RIGHT = "correct horse battery"
WRONG = "wrong horse battery"
CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)  # tests sign in often
LOCKOUT = Lockout(
    failures=3, window=timedelta(minutes=10), first=timedelta(minutes=1), longest=timedelta(minutes=5)
)


@pytest.fixture
def accounts(store: Store) -> Accounts:
    """Accounts with one analyst, ann."""
    made = Accounts(store, lockout=LOCKOUT, hasher=CHEAP)
    made.create("ann", RIGHT)
    return made


def refusal(act: Callable[[], Any]) -> str:
    with pytest.raises(NotAllowed) as refused:
        act()
    return str(refused.value)


def everything_stored(database_url: str) -> str:
    engine = create_engine(database_url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as connection:
        rows = [
            connection.execute(text(f'SELECT * FROM "{table}"')).all()
            for table in ("users", "api_tokens", "guards", "nonces")
        ]
    engine.dispose()
    return repr(rows)


# --- passwords ---


def test_the_right_password_opens(accounts: Accounts) -> None:
    assert accounts.sign_in("ann", RIGHT) == User("ann", Role.ANALYST, False, START)


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
    assert answers == {"the name or the password is wrong, or the account is locked or disabled"}


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
    guard = store.users.guard(name)
    assert guard == Guard(failures=1, lockouts=0, since=START, locked_until=None)


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
    with pytest.raises(ParameterError, match="from 12 to 1024 signs"):
        accounts.create("ben", password)
    with pytest.raises(ParameterError, match="from 12 to 1024 signs"):
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


# --- lock-out ---


def test_guessing_locks_for_a_growing_time(accounts: Accounts, clock: HandClock) -> None:
    for minutes in (1, 2, 4, 5, 5):
        for _ in range(3):
            assert accounts.locked_until("ann") is None
            refusal(lambda: accounts.sign_in("ann", WRONG))
        assert accounts.locked_until("ann") == clock.now + timedelta(minutes=minutes)
        clock.tick(minutes=minutes, seconds=-1)
        refusal(lambda: accounts.sign_in("ann", RIGHT))
        clock.tick(seconds=1)
    accounts.sign_in("ann", RIGHT)
    assert accounts.locked_until("ann") is None


def test_a_sign_in_forgets_the_failures(accounts: Accounts, store: Store) -> None:
    for _ in range(4):
        for _ in range(2):
            refusal(lambda: accounts.sign_in("ann", WRONG))
        accounts.sign_in("ann", RIGHT)
    assert store.users.guard("ann") is None


def test_failures_that_are_long_past_do_not_count(accounts: Accounts, clock: HandClock) -> None:
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
    accounts.sign_in("ann", RIGHT)


def test_one_name_locks_no_other(accounts: Accounts) -> None:
    for _ in range(9):
        refusal(lambda: accounts.sign_in("nobody", WRONG))
    accounts.sign_in("ann", RIGHT)


def test_a_lock_outlives_a_restart(
    accounts: Accounts, store: Store, database_url: str, clock: HandClock
) -> None:
    for _ in range(3):
        refusal(lambda: accounts.sign_in("ann", WRONG))
    store.close()
    with Store.open(database_url, clock=clock) as again:
        refusal(lambda: Accounts(again, lockout=LOCKOUT, hasher=CHEAP).sign_in("ann", RIGHT))


def test_guesses_at_once_are_all_counted(accounts: Accounts, store: Store) -> None:
    results = at_once(8, lambda _: accounts.sign_in("ann", WRONG))
    assert all(isinstance(result, NotAllowed) for result in results)
    guard = store.users.guard("ann")
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
    guard = store.users.guard("ann")
    assert guard is not None
    assert guard.failures == 41


def test_many_right_sign_ins_at_once_lock_nobody(accounts: Accounts) -> None:
    results = at_once(8, lambda _: accounts.sign_in("ann", RIGHT))
    assert all(isinstance(result, User) for result in results)


def test_old_guesses_are_forgotten(accounts: Accounts, store: Store, clock: HandClock) -> None:
    for _ in range(3):
        refusal(lambda: accounts.sign_in("nobody", WRONG))
    store.expire()
    assert store.users.guard("nobody") is not None
    clock.tick(days=1)
    store.expire()
    assert store.users.guard("nobody") is None


def test_tokens_that_open_nothing_are_forgotten_after_a_while(
    accounts: Accounts, store: Store, clock: HandClock
) -> None:
    ann = store.users.get("ann")
    accounts.create_token(ann, "short", timedelta(hours=12))
    revoked = accounts.create_token(ann, "revoked", None)[1]
    long, _ = accounts.create_token(ann, "long", timedelta(days=90))
    forever, _ = accounts.create_token(ann, "for ever", None)
    accounts.revoke(ann, revoked.id)
    clock.tick(days=6)
    store.expire()
    assert {each.name for each in accounts.tokens(ann)} == {"short", "revoked", "long", "for ever"}
    clock.tick(days=1)
    store.expire()
    assert {each.name for each in accounts.tokens(ann)} == {"short", "long", "for ever"}
    clock.tick(hours=12)
    store.expire()
    assert {each.name for each in accounts.tokens(ann)} == {"long", "for ever"}
    for living in (long, forever):
        assert accounts.authenticate(living).name == "ann"


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 900)), max_size=60))
@settings(max_examples=60, deadline=None)
def test_no_stretch_of_time_lets_in_more_guesses(tries: list[tuple[bool, int]]) -> None:
    """However tries and pauses are mixed: a wrong one never opens, and between two locks few are judged."""
    now, guard, judged_since_lock = START, Guard(0, 0, START, None), 0
    for right, pause in tries:
        now += timedelta(seconds=pause)
        locked = guard.locked_until is not None and now < guard.locked_until
        after, opened = LOCKOUT.judge(guard, right, now)
        assert opened == (right and not locked)
        if locked:
            assert after == guard
            continue
        judged_since_lock = 0 if right else judged_since_lock + 1
        guard = after or Guard(0, 0, now, None)
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


# --- API tokens ---


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


def test_a_token_ends(accounts: Accounts, clock: HandClock) -> None:
    ann = accounts.sign_in("ann", RIGHT)
    expiring, _ = accounts.create_token(ann, "for an hour", timedelta(hours=1))
    revoked, described = accounts.create_token(ann, "lost", None)
    lasting, _ = accounts.create_token(ann, "lasting", None)
    clock.tick(minutes=59)
    assert accounts.authenticate(expiring) == accounts.authenticate(revoked) == ann
    clock.tick(minutes=1)
    assert accounts.revoke(ann, described.id).revoked == clock.now
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


def test_last_use_is_known_to_the_minute(accounts: Accounts, clock: HandClock) -> None:
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
    with pytest.raises(ParameterError, match="the token's name"):
        accounts.create_token(ann, "x" * 129)
    with pytest.raises(NotFound):
        accounts.create_token(User("nobody", Role.ADMIN, False, START), "laptop")


# --- roles ---


def test_roles(accounts: Accounts) -> None:
    ann, root = accounts.sign_in("ann", RIGHT), accounts.create("root", RIGHT, "admin")
    assert require(ann, Role.ANALYST) == ann
    assert require(root, Role.ANALYST) == require(root, "admin") == root
    assert refusal(lambda: require(ann, Role.ADMIN)) == "this needs the role admin; ann has the role analyst"
    assert require(accounts.set_role("ann", Role.ADMIN), Role.ADMIN).name == "ann"
    refusal(lambda: require(accounts.disable("ann"), Role.ANALYST))
    with pytest.raises(ParameterError, match="'king' is no role; allowed are analyst, admin"):
        accounts.create("ben", RIGHT, "king")


# --- session tokens ---

COORDINATOR = self_signed("coordinator")
CONTRACT = digest("contract")


@pytest.fixture
def issuer(clock: HandClock) -> TokenIssuer:
    """The coordinator's."""
    return TokenIssuer(COORDINATOR, clock)


@pytest.fixture
def verifier(clock: HandClock) -> TokenVerifier:
    """A party's."""
    return TokenVerifier(COORDINATOR.certificate, Nonces(clock), clock)


def test_a_session_token_is_good_once(issuer: TokenIssuer, verifier: TokenVerifier) -> None:
    token = issuer.issue("bank", CONTRACT)
    claims = verifier.verify(token, audience="bank", contract_hash=CONTRACT)
    assert (claims.audience, claims.contract, claims.expires - claims.issued) == ("bank", CONTRACT, 300)
    again = refusal(lambda: verifier.verify(token, audience="bank", contract_hash=CONTRACT))
    assert again == "session token: it was used before"
    verifier.verify(issuer.issue("bank", CONTRACT), audience="bank", contract_hash=CONTRACT)


def test_a_session_token_is_bound(issuer: TokenIssuer, verifier: TokenVerifier, clock: HandClock) -> None:
    token = issuer.issue("bank", CONTRACT)
    assert "for party bank, not for shop" in refusal(
        lambda: verifier.verify(token, audience="shop", contract_hash=CONTRACT)
    )
    assert "another contract" in refusal(
        lambda: verifier.verify(token, audience="bank", contract_hash=digest("another"))
    )
    clock.tick(minutes=5)
    assert "expired" in refusal(lambda: verifier.verify(token, audience="bank", contract_hash=CONTRACT))
    clock.tick(minutes=-5, seconds=-31)
    assert "future" in refusal(lambda: verifier.verify(token, audience="bank", contract_hash=CONTRACT))
    clock.tick(seconds=31)  # what was refused was not used up
    verifier.verify(token, audience="bank", contract_hash=CONTRACT)


def test_only_the_coordinator_signs(verifier: TokenVerifier, clock: HandClock) -> None:
    forged = TokenIssuer(self_signed("coordinator"), clock).issue("bank", CONTRACT)
    answer = refusal(lambda: verifier.verify(forged, audience="bank", contract_hash=CONTRACT))
    assert answer == "session token: the coordinator did not sign it"


def test_claims_cannot_be_exchanged(issuer: TokenIssuer, verifier: TokenVerifier) -> None:
    version, written, signature = issuer.issue("bank", CONTRACT).split(".")
    claims = json.loads(base64.urlsafe_b64decode(written + "=" * (-len(written) % 4)))
    claims["audience"] = "shop"
    changed = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    forged = f"{version}.{changed}.{signature}"
    assert "did not sign" in refusal(lambda: verifier.verify(forged, audience="shop", contract_hash=CONTRACT))


def test_a_signature_has_one_spelling(issuer: TokenIssuer, verifier: TokenVerifier) -> None:
    token = issuer.issue("bank", CONTRACT)
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    twin = token[:-1] + alphabet[alphabet.index(token[-1]) ^ 1]  # the last sign's low bits mean nothing
    assert base64.urlsafe_b64decode(twin.split(".")[2] + "==") == base64.urlsafe_b64decode(
        token.split(".")[2] + "=="
    )
    order = (
        0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of P-256: n − s signs as well
    )
    head, raw = token.rpartition(".")[0], base64.urlsafe_b64decode(token.split(".")[2] + "==")
    negated = raw[:32] + (order - int.from_bytes(raw[32:], "big")).to_bytes(32, "big")
    mirrored = f"{head}.{base64.urlsafe_b64encode(negated).rstrip(b'=').decode()}"
    for other in (twin, mirrored, token + "=", token + "=="):
        verify = partial(verifier.verify, other, audience="bank", contract_hash=CONTRACT)
        assert "did not sign" in refusal(verify)


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_every_other_spelling_is_refused(data: st.DataObject) -> None:
    token = TokenIssuer(COORDINATOR).issue("bank", CONTRACT)
    at = data.draw(st.integers(0, len(token) - 1))
    sign = data.draw(st.characters(codec="ascii").filter(lambda sign: sign != token[at]))
    other = token[:at] + sign + token[at + 1 :]
    verifier = TokenVerifier(COORDINATOR.certificate, Nonces())
    refusal(lambda: verifier.verify(other, audience="bank", contract_hash=CONTRACT))
    verifier.verify(token, audience="bank", contract_hash=CONTRACT)


@given(
    st.text(max_size=100)
    | st.just("mqs1." + "A" * 5000 + ".A")
    | st.just("mqs1..")
    | st.just("mqs1.\ud800.A")
)
@settings(max_examples=60, deadline=None)
def test_anything_else_is_refused(token: str) -> None:
    verifier = TokenVerifier(COORDINATOR.certificate, Nonces())
    refusal(lambda: verifier.verify(token, audience="bank", contract_hash=CONTRACT))


def test_a_replay_is_seen_after_a_restart(
    store: Store, issuer: TokenIssuer, database_url: str, clock: HandClock
) -> None:
    token = issuer.issue("bank", CONTRACT)
    verifier = TokenVerifier(COORDINATOR.certificate, store.users, clock)
    verifier.verify(token, audience="bank", contract_hash=CONTRACT)
    store.close()
    with Store.open(database_url, clock=clock) as again:
        verifier = TokenVerifier(COORDINATOR.certificate, again.users, clock)
        assert "used before" in refusal(
            lambda: verifier.verify(token, audience="bank", contract_hash=CONTRACT)
        )


def test_of_many_replays_one_passes(store: Store, issuer: TokenIssuer, clock: HandClock) -> None:
    token = issuer.issue("bank", CONTRACT)
    for memory in (store.users, Nonces(clock)):
        verifier = TokenVerifier(COORDINATOR.certificate, memory, clock)
        verify = partial(verifier.verify, token, audience="bank", contract_hash=CONTRACT)
        results = at_once(8, lambda _: verify())  # noqa: B023 - run before the loop goes on
        assert sum(isinstance(result, NotAllowed) for result in results) == 7


def test_nonces_are_kept_as_long_as_their_tokens_live(store: Store, clock: HandClock) -> None:
    for memory in (store.users, Nonces(clock)):
        soon = clock.now + timedelta(minutes=5)
        assert memory.first_use("n", soon)
        clock.tick(minutes=4)
        store.expire()
        assert not memory.first_use("n", soon)
        clock.tick(minutes=1)
        store.expire()
        assert memory.first_use("n", clock.now + timedelta(minutes=5))


def test_only_sensible_tokens_are_issued(issuer: TokenIssuer) -> None:
    for party, contract in (("Bank", CONTRACT), ("bank", "abc"), ("bank", CONTRACT.upper())):
        with pytest.raises(ParameterError):
            issuer.issue(party, contract)
    with pytest.raises(ParameterError, match="1 second to 1 hour"):
        TokenIssuer(COORDINATOR, lifetime=timedelta(days=1))
