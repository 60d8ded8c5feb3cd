"""Who may use the coordinator: passwords, lock-out on guessing, API tokens, roles.

A sign-in takes the same steps whatever is wrong: look the name up, verify one Argon2 hash (for an unknown name, that
of a password nobody has), count the guess. The answer is the same as well, so neither reveals which names exist.
"""

from __future__ import annotations

import os
import secrets
import threading
import unicodedata
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from masquerade.errors import Conflict, NotAllowed, ParameterError
from masquerade.service.account_log import AccountLog
from masquerade.service.resources import Role, User
from masquerade.service.store import ApiToken, Guard, Store
from masquerade.service.store.checks import user_name

TOKEN_PREFIX = "mq_"  # noqa: S105 - what a secret scanner looks for
SHORTEST_PASSWORD = 12
LONGEST_PASSWORD = 1024
_WRONG = "the name or the password is wrong, or the account is locked or disabled"
_WRONG_TOKEN = "the token is not valid: unknown, expired or revoked, or its account is disabled"  # noqa: S105


@dataclass(frozen=True)
class Lockout:
    """Lock-out rule: after `failures` within `window`, lock for `first`, then for twice as long each time."""

    failures: int = 5
    window: timedelta = timedelta(minutes=15)
    first: timedelta = timedelta(minutes=1)
    longest: timedelta = timedelta(hours=1)

    def __post_init__(self) -> None:
        if self.failures < 1 or min(self.window, self.first, self.longest) <= timedelta(0):
            raise ParameterError("a lock-out needs at least 1 failure and times above 0")

    def judge(self, guard: Guard, right: bool, now: datetime) -> tuple[Guard | None, bool]:
        """Return the updated guard after a guess, and whether the guess succeeds. No guess succeeds while locked."""
        if guard.locked_until is not None and now < guard.locked_until:
            return guard, False
        if right:
            return None, True
        fresh = guard.failures == 0 or now - guard.since > self.window
        failures = 1 if fresh else guard.failures + 1
        if failures < self.failures:
            since = now if fresh else guard.since
            return replace(guard, failures=failures, since=since, locked_until=None), False
        doublings = min(guard.lockouts, 30)
        locked = now + min(self.first * 2**doublings, self.longest)
        return Guard(0, guard.lockouts + 1, now, locked), False


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
        self._nobodys_hash = self._hasher.hash(secrets.token_bytes(32))
        # Each hash takes 64 MiB: concurrent sign-ins queue here instead of exhausting memory.
        self._places = threading.BoundedSemaphore(max(2, os.cpu_count() or 2))

    def by(self, name: str) -> Accounts:
        """Return the same accounts with changes logged as made by this user (or "command line")."""
        changing = copy(self)
        changing._log = self._log.acting_as(name)
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
        self._forget_guesses(name)
        if revoke_tokens:
            self._store.users.revoke_tokens(name)
        self._log.record("password changed", name, tokens_revoked=revoke_tokens)

    def set_role(self, name: str, role: Role | str) -> User:
        """Give a user another role."""
        changed = self._store.users.set_role(name, _role(role))
        self._log.record("role changed", name, role=changed.role.value)
        return changed

    def disable(self, name: str) -> User:
        """Disable an account: neither its password nor its tokens work any more."""
        return self._set_disabled(name, True)

    def enable(self, name: str) -> User:
        """Enable an account again."""
        return self._set_disabled(name, False)

    def _set_disabled(self, name: str, disabled: bool) -> User:
        changed = self._store.users.set_disabled(name, disabled)
        self._log.record("account disabled" if disabled else "account enabled", name)
        return changed

    def unlock(self, name: str) -> None:
        """Forget the failed guesses at a name, so that its user can sign in now."""
        self._forget_guesses(name)
        self._log.record("account unlocked", name)

    def _forget_guesses(self, name: str) -> None:
        self._store.users.guarded(name, lambda _guard: (None, None))

    def locked_until(self, name: str) -> datetime | None:
        """Return until when a name is locked, for admins; None when it is not."""
        guard = self._store.users.guard(name)
        until = guard.locked_until if guard is not None else None
        return until if until is not None and until > self._store.clock() else None

    # --- signing in ---

    def sign_in(self, name: str, password: str) -> User:
        """Return the user with this name and password; else raise NotAllowed, with one message for every reason."""
        return self._proved(name, password)[0]

    def sign_in_for_token(
        self, name: str, password: str, purpose: str, lifetime: timedelta
    ) -> tuple[User, str, ApiToken]:
        """Sign in and return the user, a new token and its description.

        Raise NotAllowed if the password is changed meanwhile: no token is made for the old one.
        """
        user, stored = self._proved(name, password)
        token, expires = _new_token(), self._store.clock() + lifetime
        try:
            made = self._store.users.add_token(user.name, purpose, token, expires, while_hash=stored)
        except Conflict:
            raise NotAllowed(_WRONG) from None
        return user, token, made

    def _proved(self, name: str, password: str) -> tuple[User, str]:
        """Return the user with this name and password, and the hash that was verified."""
        found = self._store.users.with_hash(name)
        stored = found[1] if found is not None else self._nobodys_hash
        right = self._verify(stored, password) and found is not None and not found[0].disabled
        now = self._store.clock()
        # Judged after the hash was verified: of concurrent guesses, those that finish after the lock fail.
        opened, locked = self._store.users.guarded(name, lambda guard: self._judged(guard, right, now))
        known = found[0].name if found is not None else None
        if locked:
            self._log.record_lockout(known)
        if not opened or found is None:
            self._log.note("sign-in refused", known)
            raise NotAllowed(_WRONG)
        self._log.note("signed in", known)
        if self._hasher.check_needs_rehash(stored):
            renewed = self._hash(password)
            self._store.users.set_hash(name, renewed, instead_of=stored)
            stored = renewed
        return found[0], stored

    def _judged(self, guard: Guard, right: bool, now: datetime) -> tuple[Guard | None, tuple[bool, bool]]:
        """Return the updated guard after a guess, whether the guess succeeds, and whether it locked the name."""
        after, opened = self._lockout.judge(guard, right, now)
        return after, (opened, after is not None and after.lockouts > guard.lockouts)

    # --- API tokens ---

    def create_token(
        self, user: User, name: str, lifetime: timedelta | None = timedelta(days=90)
    ) -> tuple[str, ApiToken]:
        """Create a token; return it with its description. The token itself is never shown again."""
        if lifetime is not None and lifetime <= timedelta(0):
            raise ParameterError(f"a token's lifetime must be above 0; got {lifetime}")
        token = _new_token()
        expires = None if lifetime is None else self._store.clock() + lifetime
        made = self._store.users.add_token(user.name, name, token, expires)
        self._log.record("token made", user.name, token=made.id)
        return token, made

    def authenticate(self, token: str) -> User:
        """Return the user who owns this token; raise NotAllowed otherwise, with one message for every reason."""
        found = self._store.users.by_token(token) if token.startswith(TOKEN_PREFIX) else None
        if found is None:
            raise NotAllowed(_WRONG_TOKEN)
        described, user = found
        over = described.expires is not None and described.expires <= self._store.clock()
        if over or described.revoked is not None or user.disabled:
            raise NotAllowed(_WRONG_TOKEN)
        self._store.users.touch_token(described)
        return user

    def tokens(self, user: User) -> list[ApiToken]:
        """A user's tokens, oldest first."""
        return self._store.users.tokens(user.name)

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
        raise ParameterError(
            f"a password must have from {SHORTEST_PASSWORD} to {LONGEST_PASSWORD} signs; got {len(password)}"
        )
    return password


def _new_token() -> str:
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def _bytes(password: str) -> bytes:
    """Return the same bytes however a keyboard composes accented characters."""
    return unicodedata.normalize("NFKC", password).encode("utf-8", "surrogatepass")


def _role(role: Role | str) -> Role:
    try:
        return Role(role)
    except ValueError:
        raise ParameterError(f"{role!r} is no role; allowed are {', '.join(Role)}") from None
