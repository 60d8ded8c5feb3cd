"""Who may use the coordinator: passwords, API tokens, roles. How guessing is slowed down is in accounts.py.

A sign-in takes the same steps whatever is wrong: look the name up, verify one Argon2 hash (for an unknown name, one
that no password has), count the guess. The answer is the same as well, so neither reveals which names exist.
"""

from __future__ import annotations

import base64
import os
import secrets
import threading
import unicodedata
from collections.abc import Callable, Collection, Mapping
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from argon2.low_level import ARGON2_VERSION

from masquerade.errors import Conflict, MasqueradeError, NotAllowed, ParameterError
from masquerade.service.resources import Role, Scope, TokenKind, User
from masquerade.service.store import ApiToken, SignInFailures, Store
from masquerade.service.store.database import user_name
from masquerade.service.store.users import Judged

# --- account log --------------------------------------------------------------------------------------------
# Logging of sign-ins and account changes: all go to the process log, changes and lock-outs to the audit log
# as well.
#
# Neither log ever holds a password, a token, or a name without an account: a user may have typed the
# password there.

ACCOUNT = "account"  # the audit log's event
client_address: ContextVar[str | None] = ContextVar("client_address", default=None)
"""Where the request that is being answered comes from."""

Append = Callable[[str, Mapping[str, Any]], object]


class AccountLog:
    """Write to a structured log and, with `append`, to an audit log, where they are given.

    `by` is the user who makes the changes; without it, users are taken to change their own accounts.
    """

    def __init__(self, log: Any = None, append: Append | None = None, by: str | None = None) -> None:
        self._log, self._append, self.by = log, append, by

    def note(self, event: str, user: str | None, **more: Any) -> None:
        """Write an event to the process log only."""
        if self._log is not None:
            self._log.info(event, user=user, address=client_address.get(), **more)

    def record(self, what: str, user: str | None, **more: Any) -> None:
        """Write a change to both logs."""
        by = self.by or user
        self.note(what, user, by=by, **more)
        if self._append is not None:
            fields = {"what": what, "user": user, "by": by, "address": client_address.get(), **more}
            self._append(ACCOUNT, fields)


# --- lockout ------------------------------------------------------------------------------------------------
# How guessing at passwords is slowed down, so that it leads nowhere and keeps nobody else out.
#
# A guess is judged by its **source**: the address that it comes from, or a browser in which that user has
# signed in before. An account is never closed: the right password opens it from every source that has not
# to wait itself.
#
#     a source          after 5 wrong guesses it waits for a minute, then twice as long each time, up to an hour
#     all addresses     after 100 wrong guesses in a day at one account, an address waits for a day after each
#
# So n addresses have at most 200 + n guesses at an account in any 24 hours (100 in each of two days that
# meet, and then one each), and a known browser, which nobody else's guesses slow down, at most 150.

_DAY = timedelta(days=1)


@dataclass(frozen=True)
class SignInSource:
    """Where guesses come from: an address or the like; `known` for a browser in which the user has signed in before."""

    name: str
    known: bool = False


@dataclass(frozen=True)
class Lockout:
    """The rule above: `failures` within `window`, waits from `first` to `longest`, `crowd` failures a day by all."""

    failures: int = 5
    window: timedelta = timedelta(minutes=15)
    first: timedelta = timedelta(minutes=1)
    longest: timedelta = timedelta(hours=1)
    crowd: int = 100

    def judge(
        self, own: SignInFailures, crowd: SignInFailures, right: bool, now: datetime, *, known: bool = False
    ) -> Judged:
        """Return the guards of the source and of all addresses after a guess, and whether the guess succeeds.

        No guess of a source that has to wait succeeds, and none counts.
        """
        everybody = crowd if crowd.failures and now - crowd.since < _DAY else None
        if own.locked_until is not None and now < own.locked_until:
            return own, everybody, False
        if right:
            return None, everybody, True
        if known:
            return self._slowed(own, now), everybody, False
        before = everybody or SignInFailures(0, 0, now, None)
        everybody = replace(before, failures=before.failures + 1)
        if everybody.failures > self.crowd:
            return SignInFailures(0, own.lockouts + 1, now, now + _DAY), everybody, False
        return self._slowed(own, now), everybody, False

    def _slowed(self, own: SignInFailures, now: datetime) -> SignInFailures:
        fresh = own.failures == 0 or now - own.since > self.window
        failures = 1 if fresh else own.failures + 1
        if failures < self.failures:
            return replace(own, failures=failures, since=now if fresh else own.since, locked_until=None)
        wait = min(self.first * 2 ** min(own.lockouts, 30), self.longest)
        return SignInFailures(0, own.lockouts + 1, now, now + wait)


# --- accounts -----------------------------------------------------------------------------------------------

TOKEN_PREFIX = "mq_"  # noqa: S105 - what a secret scanner looks for
SHORTEST_PASSWORD = 12
LONGEST_PASSWORD = 1024
USUAL_SCOPES = (Scope.READ, Scope.REQUEST, Scope.DOWNLOAD)  # of a token for a program
USUAL_LIFETIME, LONGEST_LIFETIME = timedelta(days=90), timedelta(days=366)
HERE = SignInSource("")  # of whoever says nothing of where the guess comes from
_WRONG = "the name or the password is wrong, the account is disabled, or too many wrong guesses came from here"
_MOST_TOKENS = 100  # of a user, besides sign-ins
_MOST_SIGN_INS = 100
_WRONG_TOKEN = "the token is not valid: unknown, expired or revoked, or its account is disabled"  # noqa: S105


class Accounts:
    """Users and their credentials."""

    def __init__(
        self,
        store: Store,
        *,
        lockout: Lockout | None = None,
        hasher: PasswordHasher | None = None,
        log: AccountLog | None = None,
    ) -> None:
        self._store = store
        self._log = log or AccountLog()
        self._lockout = lockout or Lockout()
        self._hasher = hasher or PasswordHasher()  # Argon2id, parameters of RFC 9106
        self._nobodys_hash = _nobodys_hash(self._hasher)
        # Each hash takes 64 MiB: concurrent sign-ins queue here instead of exhausting memory.
        self._places = threading.BoundedSemaphore(max(2, os.cpu_count() or 2))

    def by(self, name: str) -> Accounts:
        """Return the same accounts with changes logged as made by this user (or "command line")."""
        changing = copy(self)
        changing._log = copy(self._log)
        changing._log.by = name
        return changing

    # --- users ---

    def create(self, name: str, password: str, role: Role | str = Role.ANALYST) -> User:
        """Create an account; raise Conflict when the name is taken."""
        made = self._store.users.add(user_name(name), self._hash(checked_password(password)), _role(role))
        self._log.record("account made", made.name, role=made.role.value)
        return made

    def set_password(self, name: str, password: str, *, revoke_tokens: bool = True) -> None:
        """Set a new password. Tokens are revoked too by default: anyone with the old password may have created them."""
        self._store.users.set_hash(name, self._hash(checked_password(password)))
        self._store.users.forget_guesses(name)
        if revoke_tokens:
            self._store.users.revoke_tokens(name)
        self._log.record("password changed", name, tokens_revoked=revoke_tokens)

    def set_role(self, name: str, role: Role | str) -> User:
        """Give a user another role."""
        changed = self._store.users.set_role(name, _role(role))
        self._log.record("role changed", name, role=changed.role.value)
        return changed

    def disable(self, name: str, disabled: bool = True) -> User:
        """Disable an account: neither its password nor its tokens work any more."""
        changed = self._store.users.set_disabled(name, disabled)
        self._log.record("account disabled" if disabled else "account enabled", name)
        return changed

    def enable(self, name: str) -> User:
        """Enable an account again."""
        return self.disable(name, False)

    def unlock(self, name: str) -> None:
        """Forget the failed guesses at a name: nobody has to wait for a guess at it any more."""
        self._store.users.forget_guesses(name)
        self._log.record("account unlocked", name)

    def wrong_guesses(self, name: str) -> int:
        """Return the number of recent wrong guesses at a name from addresses, for admins."""
        return self._store.users.guesses(name)

    # --- signing in ---

    def sign_in(self, name: str, password: str, source: SignInSource = HERE) -> User:
        """Return the user with this name and password; else raise NotAllowed, with one message for every reason."""
        return self._proved(name, password, source)[0]

    def sign_in_for_token(
        self, name: str, password: str, kind: TokenKind, lifetime: timedelta, source: SignInSource = HERE
    ) -> tuple[User, str, ApiToken]:
        """Sign in and return the user, a new token with all scopes, and its description.

        Raise NotAllowed if the password is changed meanwhile: no token is made for the old one.
        """
        user, stored = self._proved(name, password, source)
        token, expires = TOKEN_PREFIX + secrets.token_urlsafe(32), self._store.clock() + lifetime
        try:
            made = self._store.users.add_token(
                user.name, "sign-in", token, expires, tuple(Scope), kind, while_hash=stored
            )
        except Conflict:
            raise NotAllowed(_WRONG) from None
        # For programs that sign in repeatedly and never out, only the newest sign-ins are kept
        own = [each for each in self.tokens(user) if each.kind is not TokenKind.PROGRAM]
        for old in own[: max(0, len(own) - _MOST_SIGN_INS)]:
            self.revoke(user, old.id, for_sign_out=True)
        return user, token, made

    def _proved(self, name: str, password: str, source: SignInSource) -> tuple[User, str]:
        """Return the user with this name and password, and the hash that was verified."""
        found = self._store.users.with_hash(name)
        stored = found[1] if found is not None else self._nobodys_hash
        right = self._verify(stored, password) and found is not None and not found[0].disabled
        now = self._store.clock()
        slowed = False

        # Judged after the hash was verified: of concurrent guesses, those that finish after the lock fail.
        def judged(own: SignInFailures, crowd: SignInFailures) -> Judged:
            nonlocal slowed
            after, everybody, opened = self._lockout.judge(own, crowd, right, now, known=source.known)
            slowed = after is not None and after.lockouts > own.lockouts
            return after, everybody, opened

        opened = self._store.users.guarded(name, source.name, judged)
        known = found[0].name if found is not None else None
        if slowed:
            try:
                self._log.record("locked out", known)
            except (MasqueradeError, OSError) as error:  # whoever guesses is not told that the audit log is not written
                self._log.note("audit log not written", known, problem=type(error).__name__)
        if not opened or found is None:
            self._log.note("sign-in refused", known)
            raise NotAllowed(_WRONG)
        self._log.note("signed in", known)
        if self._hasher.check_needs_rehash(stored):
            renewed = self._hash(password)
            self._store.users.set_hash(name, renewed, instead_of=stored)
            stored = renewed
        return found[0], stored

    # --- API tokens ---

    def create_token(
        self,
        user: User,
        name: str,
        lifetime: timedelta = USUAL_LIFETIME,
        scopes: Collection[Scope] = USUAL_SCOPES,
        *,
        maker: ApiToken | None = None,
    ) -> tuple[str, ApiToken]:
        """Create a token for a program; return it with its description. The token itself is never shown again.

        `maker` is the token by which it is asked for: the new one has no scope that this lacks and, unless its user
        has signed in, ends no later.
        """
        if not timedelta(0) < lifetime <= LONGEST_LIFETIME:
            raise ParameterError(f"a token's lifetime must be above 0 and at most {LONGEST_LIFETIME.days} days")
        if not scopes:
            raise ParameterError(f"a token needs at least one scope; there are {', '.join(Scope)}")
        expires = self._store.clock() + lifetime
        if maker is not None:
            lacking = [scope for scope in Scope if scope in scopes and scope not in maker.scopes]
            if lacking:
                raise NotAllowed(f"the token that asks for it lacks the scope {', '.join(lacking)} itself")
            if maker.kind is TokenKind.PROGRAM:
                expires = min(expires, maker.expires)
        if Scope.ADMIN in scopes:
            require(user, Role.ADMIN)
        if len([each for each in self.tokens(user) if each.kind is TokenKind.PROGRAM]) >= _MOST_TOKENS:
            raise Conflict(f"{user.name} has {_MOST_TOKENS} tokens already; revoke one first")
        token, ordered = TOKEN_PREFIX + secrets.token_urlsafe(32), tuple(scope for scope in Scope if scope in scopes)
        made = self._store.users.add_token(user.name, name, token, expires, ordered, TokenKind.PROGRAM)
        self._log.record("token made", user.name, token=made.id, scopes=list(ordered))
        return token, made

    def bearer(self, token: str) -> tuple[ApiToken, User]:
        """Return a valid token's description and user; raise NotAllowed otherwise, with one message for every reason.

        Without the scope `admin` an admin's token opens what an analyst's does.
        """
        found = self._store.users.by_token(token) if token.startswith(TOKEN_PREFIX) else None
        if found is None:
            raise NotAllowed(_WRONG_TOKEN)
        described, user = found
        over = described.expires <= self._store.clock() or described.revoked is not None
        if over or user.disabled or described.kind is TokenKind.BROWSER:
            raise NotAllowed(_WRONG_TOKEN)
        self._store.users.touch_token(described)
        if Scope.ADMIN not in described.scopes:
            user = user.model_copy(update={"role": Role.ANALYST})
        return described, user

    def authenticate(self, token: str) -> User:
        """Return the user who owns this token, with the role that it opens; raise NotAllowed as `bearer` does."""
        return self.bearer(token)[1]

    def tokens(self, user: User) -> list[ApiToken]:
        """Return a user's valid tokens, sign-ins among them, oldest first."""
        now = self._store.clock()
        found = self._store.users.tokens(user.name)
        return [each for each in found if each.revoked is None and each.expires > now]

    def revoke(self, user: User, token_id: str, *, for_sign_out: bool = False) -> ApiToken:
        """Revoke one of a user's tokens; raise NotFound when it is not theirs."""
        revoked = self._store.users.revoke_token(user.name, token_id)
        if for_sign_out:
            self._log.note("signed out", user.name)
        else:
            self._log.record("token revoked", user.name, token=revoked.id)
        return revoked

    # --- hashing ---

    def _hash(self, password: str) -> str:
        with self._places:
            return self._hasher.hash(_bytes(password))

    def _verify(self, stored: str, password: str) -> bool:
        if len(password) > LONGEST_PASSWORD:
            password = ""  # nobody's, and as quick to hash as any other
        with self._places:
            try:
                return self._hasher.verify(stored, _bytes(password))
            except (VerificationError, InvalidHashError):
                return False


def require(user: User, role: Role | str) -> User:
    """Raise NotAllowed unless a user has a role; an admin has every role."""
    wanted = _role(role)
    if user.disabled or (user.role is not Role.ADMIN and user.role is not wanted):
        raise NotAllowed(f"this needs the role {wanted}; {user.name} has the role {user.role}")
    return user


def checked_password(password: str) -> str:
    """Return a password that is long enough; the error message never shows it."""
    if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        allowed = f"from {SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters"
        raise ParameterError(f"a password must have {allowed}; got {len(password)}")
    return password


def _nobodys_hash(hasher: PasswordHasher) -> str:
    """Return a hash that takes as long to verify as any other of this hasher, of no password: its digest is random."""
    cost = f"m={hasher.memory_cost},t={hasher.time_cost},p={hasher.parallelism}"
    salt, digest = (
        base64.b64encode(secrets.token_bytes(length)).decode().rstrip("=")
        for length in (hasher.salt_len, hasher.hash_len)
    )
    return f"$argon2{hasher.type.name.lower()}$v={ARGON2_VERSION}${cost}${salt}${digest}"


def _bytes(password: str) -> bytes:
    """Return the same bytes however a keyboard composes accented characters."""
    return unicodedata.normalize("NFKC", password).encode("utf-8", "surrogatepass")


def _role(role: Role | str) -> Role:
    try:
        return Role(role)
    except ValueError:
        raise ParameterError(f"{role!r} is no role; allowed are {', '.join(Role)}") from None
