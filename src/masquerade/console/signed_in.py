"""Who is signed in, per browser, and in which browsers a user has signed in before.

A sign-in is one of the user's tokens in the store, so it survives a restart, ends with a new password, and can be
revoked like any other. The browser gets it encrypted, in a cookie that no script can read: the cookie is not valid as
an API token, and no API token is valid as the cookie.

A second cookie lets a browser be known again after it has signed out. It opens nothing, but guesses from elsewhere do
not slow down a sign-in with it (service/lockout.py).
"""

from __future__ import annotations

import secrets
from datetime import timedelta
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken

from masquerade.errors import NotAllowed, ParameterError
from masquerade.files import kept_secret
from masquerade.service.accounts import Accounts
from masquerade.service.lockout import Source
from masquerade.service.resources import User
from masquerade.service.store import ApiToken, Store
from masquerade.service.token_scopes import TokenKind

COOKIE = "masquerade_console"
KNOWN_COOKIE = "masquerade_known_browser"
LONGEST = timedelta(hours=12)
KNOWN_FOR = timedelta(days=180)
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

    def sign_in(
        self, name: str, password: str, address: str = "", known: str | None = None
    ) -> tuple[str, str]:
        """Return a browser's two cookies: of the sign-in, and to be known again.

        Raise NotAllowed if name or password is wrong, or the browser has to wait after wrong guesses.
        """
        browser = self._browser(name, known)
        source = Source(f"browser {browser}", known=True) if browser is not None else Source(address)
        _user, token, _made = self._accounts.sign_in_for_token(
            name, password, TokenKind.BROWSER, LONGEST, source
        )
        return self._sealed(token), self._sealed(f"{browser or secrets.token_hex(16)} {name}")

    def _browser(self, name: str, known: str | None) -> str | None:
        """Return the identifier of a browser in which this user has signed in before; None for any other."""
        try:
            told = self._box.decrypt((known or "").encode("ascii", "replace"), int(KNOWN_FOR.total_seconds()))
        except InvalidToken:
            return None
        browser, _, user = told.decode("utf-8").partition(" ")
        return browser if user == name else None

    def _sealed(self, text: str) -> str:
        return self._box.encrypt(text.encode()).decode("ascii")

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
        over = described.expires <= now
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
        if found is None or found[0].kind is not TokenKind.BROWSER:
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
