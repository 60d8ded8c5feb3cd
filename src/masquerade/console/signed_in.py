"""Who is signed in, per browser.

A sign-in is one of the user's tokens in the store, so it survives a restart, ends with a new password, and can be
revoked like any other. The browser gets it encrypted, in a cookie that no script can read: the cookie is not valid as
an API token, and no API token is valid as the cookie.
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
SIGN_IN = "console sign-in"  # the name of its token
LONGEST = timedelta(hours=12)
IDLE = timedelta(minutes=30)
_SIGNED_OUT = "you are signed out; sign in again"


class SignedOut(NotAllowed):
    """Nobody is signed in in this browser, or no longer."""


class Browsers:
    """The browsers in which a user is signed in."""

    def __init__(self, store: Store, accounts: Accounts, secret: bytes, idle: timedelta = IDLE) -> None:
        self._store = store
        self._accounts = accounts
        self._box = Fernet(secret)
        self._idle = idle

    def sign_in(self, name: str, password: str) -> str:
        """Return the cookie for a browser; raise NotAllowed if name or password is wrong or the account is locked."""
        _user, token, _made = self._accounts.sign_in_for_token(name, password, SIGN_IN, LONGEST)
        return self._box.encrypt(token.encode("ascii")).decode("ascii")

    def sign_out(self, cookie: str | None) -> None:
        """Revoke a cookie's sign-in; an invalid cookie is ignored."""
        try:
            described, user = self._known(cookie)
        except SignedOut:
            return
        self._accounts.revoke(user, described.id, for_sign_out=True)

    def user(self, cookie: str | None, *, acting: bool = True) -> User:
        """Return the signed-in user, with the account as it is now; raise SignedOut if there is none.

        Polling by a page is not `acting`: it does not keep an unattended browser signed in.
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
    """Read the secret from a file that only its owner may read; create it if missing."""
    secret = kept_secret(path, "the console's secret", Fernet.generate_key)
    try:
        Fernet(secret)
    except ValueError:
        raise ParameterError(
            f"{path}: not a secret of the console; remove it, and a new one is made"
        ) from None
    return secret
