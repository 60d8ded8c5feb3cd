"""What a client has beside the API's resources: who asks, and a session that a party failed."""

from __future__ import annotations

from datetime import datetime

from masquerade.errors import PeerError, Problem
from masquerade.service.resources import Account, Session
from masquerade.service.session_states import Status


class Me(Account):
    """Who asks; `now` is what the coordinator's clock says."""

    now: datetime | None


class SessionFailed(PeerError):
    """A session failed because of a party; `peer` names it, `session` is how the session ended."""

    def __init__(self, session: Session) -> None:
        super().__init__(session.failed_by or "", *map(Problem, session.problems))
        self.session = session


def unless_failed(session: Session) -> Session:
    """The session; SessionFailed when a party could not be reached, was not who it should be, or broke the protocol."""
    if session.status is Status.FAILED and session.failed_by is not None:
        raise SessionFailed(session)
    return session
