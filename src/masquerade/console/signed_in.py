"""Who is signed in in which browser.

A sign-in is a token of the user's in the store, so that it outlives a restart, ends with a new password, and can be
revoked as any other. The browser gets it encrypted, in a cookie that no script can read: it is no API token, and no API
token is a cookie.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken

from masquerade.errors import NotAllowed, ParameterError
from masquerade.files import kept_secret
from masquerade.service.accounts import Accounts
from masquerade.service.resources import User
from masquerade.service.store import ApiToken, Store

COOKIE = "masquerade_console"
SIGN_IN = "console sign-in"  # what its token is called
LONGEST = timedelta(hours=12)
IDLE = timedelta(minutes=30)
_SIGNED_OUT = "you are signed out; sign in again"


class SignedOut(NotAllowed):
    """Nobody is signed in in this browser, or not any more."""


class Browsers:
    """The browsers in which somebody is signed in."""

    def __init__(self, store: Store, accounts: Accounts, secret: bytes, idle: timedelta = IDLE) -> None:
        self._store = store
        self._accounts = accounts
        self._box = Fernet(secret)
        self._idle = idle

    def sign_in(self, name: str, password: str) -> str:
        """The cookie for a browser; NotAllowed when name or password is wrong or the account is locked."""
        _user, token, _made = self._accounts.sign_in_for_token(name, password, SIGN_IN, LONGEST)
        return self._box.encrypt(token.encode("ascii")).decode("ascii")

    def sign_out(self, cookie: str | None) -> None:
        """Make a cookie worthless; one that is so already stays it."""
        try:
            described, user = self._known(cookie)
        except SignedOut:
            return
        self._accounts.revoke(user, described.id, for_sign_out=True)

    def user(self, cookie: str | None, *, acting: bool = True) -> User:
        """Who is signed in, as the account is now; SignedOut when nobody is.

        A page that only looks again by itself is not `acting`: it does not keep a forgotten browser signed in.
        """
        described, user = self._known(cookie)
        now = self._store.clock()
        over = described.expires is None or described.expires <= now
        idle = now - (described.last_used or described.created) > self._idle
        if over or idle or described.revoked is not None or user.disabled:
            raise SignedOut(_SIGNED_OUT)
        if acting:
            self._store.users.touch_token(described)
        return user

    def _known(self, cookie: str | None) -> tuple[ApiToken, User]:
        try:
            token = self._box.decrypt((cookie or "").encode("ascii", "replace")).decode("ascii")
        except InvalidToken:
            raise SignedOut(_SIGNED_OUT) from None
        found = self._store.users.by_token(token)
        if found is None or found[0].name != SIGN_IN:
            raise SignedOut(_SIGNED_OUT)
        return found


def console_secret(path: Path) -> bytes:
    """The secret in a file that only its owner may read; made when there is none."""
    secret = kept_secret(path, "the console's secret", Fernet.generate_key)
    try:
        Fernet(secret)
    except ValueError:
        raise ParameterError(
            f"{path}: not a secret of the console; remove it, and a new one is made"
        ) from None
    return secret
