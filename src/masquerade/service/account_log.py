"""Sign-ins and changes of accounts: all go to the process's log, changes and lock-outs to the audit log as well.

In neither is a password, a token, or a name that nobody has: somebody may have typed the password there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

from masquerade.errors import MasqueradeError

ACCOUNT = "account"  # the audit log's event
client_address: ContextVar[str | None] = ContextVar("client_address", default=None)
"""Where the request that is being answered comes from."""

Append = Callable[[str, Mapping[str, Any]], object]


class AccountLog:
    """Writes to a structured log, and with `append` to an audit log, where they are given.

    `by` is who changes something; without it everybody does so for themselves.
    """

    def __init__(self, log: Any = None, append: Append | None = None, by: str | None = None) -> None:
        self._log, self._append, self._by = log, append, by

    def acting_as(self, by: str) -> AccountLog:
        """Return the same log for what this user changes."""
        return AccountLog(self._log, self._append, by)

    def note(self, event: str, user: str | None, **more: Any) -> None:
        """Write an event to the process's log alone."""
        if self._log is not None:
            self._log.info(event, user=user, address=client_address.get(), **more)

    def record(self, what: str, user: str | None, **more: Any) -> None:
        """Write a change to both logs."""
        by = self._by or user
        self.note(what, user, by=by, **more)
        if self._append is not None:
            fields = {"what": what, "user": user, "by": by, "address": client_address.get(), **more}
            self._append(ACCOUNT, fields)

    def record_lockout(self, user: str | None) -> None:
        """Write that a name was locked. Whoever guesses hears nothing of an audit log that cannot be written."""
        try:
            self.record("locked out", user)
        except (MasqueradeError, OSError) as error:
            self.note("audit log not written", user, problem=type(error).__name__)
