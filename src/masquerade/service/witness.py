"""Who came in, and who changed an account: all of it goes to the log, changes and lock-outs to the audit log as well.

In neither is a password, a token, or a name that nobody has: somebody may have typed the password there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

from masquerade.errors import MasqueradeError

ACCOUNT = "account"  # the audit log's event
# Whose request this is, while it is answered.
address: ContextVar[str | None] = ContextVar("address", default=None)

Enter = Callable[[str, Mapping[str, Any]], object]


class Witness:
    """Writes down what happens to accounts: in a log of the process, and with `enter` in the audit log, where they are.

    `by` is who changes something; without it everybody does so for themselves.
    """

    def __init__(self, log: Any = None, enter: Enter | None = None, by: str | None = None) -> None:
        self._log, self._enter, self._by = log, enter, by

    def seeing(self, by: str) -> Witness:
        """The same witness, of what this user does."""
        return Witness(self._log, self._enter, by)

    def saw(self, event: str, user: str | None, **more: Any) -> None:
        """Something that only the log tells."""
        if self._log is not None:
            self._log.info(event, user=user, address=address.get(), **more)

    def changed(self, what: str, user: str | None, **more: Any) -> None:
        """Something that the audit log tells, too."""
        by = self._by or user
        self.saw(what, user, by=by, **more)
        if self._enter is not None:
            self._enter(ACCOUNT, {"what": what, "user": user, "by": by, "address": address.get(), **more})

    def locked(self, user: str | None) -> None:
        """A name was locked. Whoever guesses hears nothing of an audit log that cannot be written."""
        try:
            self.changed("locked out", user)
        except (MasqueradeError, OSError) as error:
            self.saw("audit log not written", user, problem=type(error).__name__)
