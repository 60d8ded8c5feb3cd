"""The coordinator's SQL store: users, providers, sessions, offers, releases, prices, events."""

from __future__ import annotations

from masquerade.service.store.database import Lock, is_outage
from masquerade.service.store.records import (
    ApiToken,
    Expired,
    Guard,
    NewRelease,
    RegisteredProvider,
    SessionRecord,
    StoredRelease,
)
from masquerade.service.store.store import Store

__all__ = [
    "ApiToken",
    "Expired",
    "Guard",
    "Lock",
    "NewRelease",
    "RegisteredProvider",
    "SessionRecord",
    "Store",
    "StoredRelease",
    "is_outage",
]
