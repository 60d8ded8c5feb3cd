"""Users, their API tokens, and failed password guesses. Passwords themselves are handled in accounts.py."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session as Transaction

from masquerade.errors import Conflict, NotFound, shown
from masquerade.service.resources import Role, Scope, TokenKind, User
from masquerade.service.store import database as checks
from masquerade.service.store.database import StoreSection, insert_if_new
from masquerade.service.store.records import ApiToken, SignInFailures
from masquerade.service.store.tables import GuardRow, TokenRow, UserRow

_TOUCH_AFTER = timedelta(minutes=1)  # "last used" is not worth a write for every request
_EVERYBODY = ""  # in place of a source's digest

Judged = tuple[SignInFailures | None, SignInFailures | None, bool]
Judge = Callable[[SignInFailures, SignInFailures], Judged]


class Users(StoreSection):
    """Accounts in the store."""

    def add(self, name: str, password_hash: str, role: Role) -> User:
        """Add a user; raise Conflict when the name is taken."""
        row = UserRow(
            name=checks.user_name(name), password_hash=password_hash, role=role, created=self._database.clock()
        )
        try:
            with self._database.writing() as transaction:
                transaction.add(row)
        except IntegrityError:
            raise Conflict(f"there is a user {name} already") from None
        return User.model_validate(row)

    def get(self, name: str) -> User:
        """Return a user, or raise NotFound."""
        with self._database.reading() as transaction:
            return User.model_validate(_existing(transaction, name))

    def all(self, limit: int = 100, after: str = "") -> list[User]:
        """Return users by name, the next `limit` after the name `after`."""
        query = select(UserRow).where(UserRow.name > after).order_by(UserRow.name).limit(checks.page(limit))
        return self._database.read(User, query)

    def with_hash(self, name: str) -> tuple[User, str] | None:
        """Return a user and the password's hash; None when nobody has the name."""
        with self._database.reading() as transaction:
            row = transaction.get(UserRow, checks.findable(name))
            return None if row is None else (User.model_validate(row), row.password_hash)

    def set_hash(self, name: str, password_hash: str, instead_of: str | None = None) -> None:
        """Store another hash; with `instead_of`, only if that is still the stored one."""
        with self._database.writing() as transaction:
            row = _existing(transaction, name, lock=True)
            if instead_of is None or row.password_hash == instead_of:
                row.password_hash = password_hash

    def set_role(self, name: str, role: Role) -> User:
        """Give a user another role."""
        return self._change(name, role=role)

    def set_disabled(self, name: str, disabled: bool) -> User:
        """Disable or enable an account."""
        return self._change(name, disabled=disabled)

    def _change(self, name: str, **changes: Any) -> User:
        with self._database.writing() as transaction:
            row = _existing(transaction, name, lock=True)
            for key, value in changes.items():
                setattr(row, key, value)
            return User.model_validate(row)

    # --- guesses ---

    def guarded(self, name: str, source: str, judge: Judge) -> bool:
        """Let `judge` read and replace the guards of a name: that of the source, and that of all addresses.

        Both are locked meanwhile; None deletes one. Return whether the guess succeeds.
        """
        now = self._database.clock()
        with self._database.writing() as transaction:
            everybody = _locked_guard(transaction, name, _EVERYBODY, now)  # first, whoever comes: no deadlock
            own = _locked_guard(transaction, name, _digest(source), now)
            after, crowd, opened = judge(_guard(own), _guard(everybody))
            for row, guard in ((own, after), (everybody, crowd)):
                if guard is None:
                    transaction.delete(row)
                else:
                    row.failures, row.lockouts = guard.failures, guard.lockouts
                    row.since, row.locked_until = guard.since, guard.locked_until
            return opened

    def guard(self, name: str, source: str) -> SignInFailures | None:
        """Return the recent failed guesses at a name from a source, or None."""
        with self._database.reading() as transaction:
            row = transaction.get(GuardRow, (_digest(name), _digest(source)))
            return None if row is None else _guard(row)

    def guesses(self, name: str) -> int:
        """Return the number of failed guesses at a name from all addresses, in the last day."""
        with self._database.reading() as transaction:
            row = transaction.get(GuardRow, (_digest(name), _EVERYBODY))
            recent = row is not None and self._database.clock() - row.since < timedelta(days=1)
            return row.failures if row is not None and recent else 0

    def forget_guesses(self, name: str) -> None:
        """Forget the failed guesses at a name, from wherever."""
        with self._database.writing() as transaction:
            transaction.execute(delete(GuardRow).where(GuardRow.name_digest == _digest(name)))

    # --- API tokens ---

    def add_token(
        self,
        user: str,
        name: str,
        token: str,
        expires: datetime,
        scopes: Iterable[Scope],
        kind: TokenKind,
        *,
        while_hash: str | None = None,
    ) -> ApiToken:
        """Store a token by its digest; with `while_hash`, raise Conflict unless that is still the password's hash."""
        row = TokenRow(
            id=secrets.token_hex(8),
            digest=_digest(token),
            user=user,
            name=checks.checked_text(name, "the token's name", longest=128),
            kind=kind,
            scopes=list(scopes),
            created=self._database.clock(),
            expires=expires,
        )
        with self._database.writing() as transaction:
            owner = _existing(transaction, user, lock=True)
            if while_hash is not None and owner.password_hash != while_hash:
                raise Conflict(f"the password of {user} has changed meanwhile")
            transaction.add(row)
        return ApiToken.model_validate(row)

    def by_token(self, token: str) -> tuple[ApiToken, User] | None:
        """Return a token's description and user, whatever their state; None when nobody has this token."""
        query = (
            select(TokenRow, UserRow)
            .join(UserRow, UserRow.name == TokenRow.user)
            .where(TokenRow.digest == _digest(token))
        )
        with self._database.reading() as transaction:
            found = transaction.execute(query).one_or_none()
            return None if found is None else (ApiToken.model_validate(found[0]), User.model_validate(found[1]))

    def touch_token(self, token: ApiToken) -> None:
        """Record that a token was used, at most once a minute."""
        now = self._database.clock()
        if token.last_used is not None and now - token.last_used < _TOUCH_AFTER:
            return
        with self._database.writing() as transaction:
            transaction.execute(update(TokenRow).where(TokenRow.id == token.id).values(last_used=now))

    def tokens(self, user: str) -> list[ApiToken]:
        """A user's tokens, oldest first."""
        query = select(TokenRow).where(TokenRow.user == user).order_by(TokenRow.created, TokenRow.id)
        return self._database.read(ApiToken, query)

    def revoke_token(self, user: str, token_id: str) -> ApiToken:
        """Revoke one of a user's own tokens; raise NotFound when it is not theirs."""
        with self._database.writing() as transaction:
            own = (TokenRow.id == checks.findable(token_id), TokenRow.user == user)
            row = transaction.scalars(select(TokenRow).where(*own).with_for_update()).one_or_none()
            if row is None:
                raise NotFound(f"{user} has no token {shown(token_id)}")
            row.revoked = row.revoked or self._database.clock()
            return ApiToken.model_validate(row)

    def revoke_tokens(self, user: str) -> int:
        """Revoke all of a user's tokens; return how many there were."""
        with self._database.writing() as transaction:
            living = update(TokenRow).where(TokenRow.user == user, TokenRow.revoked.is_(None))
            revoked = living.values(revoked=self._database.clock()).returning(TokenRow.id)
            return len(transaction.scalars(revoked).all())


def purge(transaction: Transaction, now: datetime, idle: timedelta, keep_tokens: timedelta) -> None:
    """Delete guesses that are long past, and tokens that have long been invalid."""
    gone = now - keep_tokens
    transaction.execute(delete(TokenRow).where((TokenRow.expires <= gone) | (TokenRow.revoked <= gone)))
    over = (GuardRow.locked_until.is_(None)) | (GuardRow.locked_until <= now)
    transaction.execute(delete(GuardRow).where(GuardRow.since <= now - idle, over))


def _existing(transaction: Transaction, name: str, lock: bool = False) -> UserRow:
    row = transaction.get(UserRow, checks.findable(name), with_for_update=lock or None)
    if row is None:
        raise NotFound(f"there is no user {shown(name)}")
    return row


def _locked_guard(transaction: Transaction, name: str, source_digest: str, now: datetime) -> GuardRow:
    key = {"name_digest": _digest(name), "source_digest": source_digest}
    query = select(GuardRow).filter_by(**key).with_for_update()
    while True:  # a concurrent sign-in may just have deleted it
        insert_if_new(transaction, GuardRow, {**key, "failures": 0, "lockouts": 0, "since": now})
        row = transaction.scalars(query).one_or_none()
        if row is not None:
            return row


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _guard(row: GuardRow) -> SignInFailures:
    return SignInFailures(row.failures, row.lockouts, row.since, row.locked_until)
