"""What the coordinator remembers: users, providers, sessions, offers, releases, prices, events; in SQL."""

from __future__ import annotations

from masquerade.service.resources import Role, User
from masquerade.service.session_states import COMPUTING, FINAL, WAITING, Status
from masquerade.service.store.database import Clock, system_clock
from masquerade.service.store.lock import Lock
from masquerade.service.store.outage import is_outage
from masquerade.service.store.records import (
    ApiToken,
    Expired,
    Guard,
    NewRelease,
    RegisteredProvider,
    Session,
    StoredRelease,
)
from masquerade.service.store.store import Store

__all__ = [
    "COMPUTING",
    "FINAL",
    "WAITING",
    "ApiToken",
    "Clock",
    "Expired",
    "Guard",
    "Lock",
    "NewRelease",
    "RegisteredProvider",
    "Role",
    "Session",
    "Status",
    "Store",
    "StoredRelease",
    "User",
    "is_outage",
    "system_clock",
]
