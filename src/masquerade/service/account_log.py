"""Logging of sign-ins and account changes: all go to the process log, changes and lock-outs to the audit log as well.

Neither log ever holds a password, a token, or a name without an account: a user may have typed the password there.
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
    """Write to a structured log and, with `append`, to an audit log, where they are given.

    `by` is the user who makes the changes; without it, users are taken to change their own accounts.
    """

    def __init__(self, log: Any = None, append: Append | None = None, by: str | None = None) -> None:
        self._log, self._append, self._by = log, append, by

    def acting_as(self, by: str) -> AccountLog:
        """Return the same log with changes attributed to this user."""
        return AccountLog(self._log, self._append, by)

    def note(self, event: str, user: str | None, **more: Any) -> None:
        """Write an event to the process log only."""
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
        """Record that a source has to wait for its next guess at a name.

        A failure to write the audit log is not shown to the client that guesses.
        """
        try:
            self.record("locked out", user)
        except (MasqueradeError, OSError) as error:
            self.note("audit log not written", user, problem=type(error).__name__)
