"""Results that are not API resources: the user's account, and the failure of a session by a party."""

from __future__ import annotations

from datetime import datetime

from masquerade.errors import PeerError, Problem
from masquerade.service.resources import Account, Session
from masquerade.service.session_states import Status


class Me(Account):
    """The user's account; `now` is the coordinator's clock time."""

    now: datetime | None


class SessionFailed(PeerError):
    """A session failed because of a party; `peer` names it, `session` is the session's final state."""

    def __init__(self, session: Session) -> None:
        super().__init__(session.failed_by or "", *map(Problem, session.problems))
        self.session = session


def unless_failed(session: Session) -> Session:
    """Return the session; raise SessionFailed if a party was unreachable, misidentified, or broke the protocol."""
    if session.status is Status.FAILED and session.failed_by is not None:
        raise SessionFailed(session)
    return session
