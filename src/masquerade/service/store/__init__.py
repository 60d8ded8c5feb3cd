"""What the coordinator remembers: users, providers, sessions, offers, releases, prices, events; in SQL."""

from __future__ import annotations

from masquerade.service.store.database import Clock, system_clock
from masquerade.service.store.lock import FileLock, Lock
from masquerade.service.store.outage import is_outage
from masquerade.service.store.records import (
    ApiToken,
    EntryKind,
    Event,
    Expired,
    Guard,
    LedgerEntry,
    NewRelease,
    Offer,
    Provider,
    Release,
    Role,
    Session,
    User,
)
from masquerade.service.store.states import ALLOWED, COMPUTING, FINAL, WAITING, Status
from masquerade.service.store.store import Store

__all__ = [
    "ALLOWED",
    "COMPUTING",
    "FINAL",
    "WAITING",
    "ApiToken",
    "Clock",
    "EntryKind",
    "Event",
    "Expired",
    "FileLock",
    "Guard",
    "LedgerEntry",
    "Lock",
    "NewRelease",
    "Offer",
    "Provider",
    "Release",
    "Role",
    "Session",
    "Status",
    "Store",
    "User",
    "is_outage",
    "system_clock",
]
