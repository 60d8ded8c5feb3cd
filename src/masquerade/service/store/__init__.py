"""The coordinator's SQL store: users, providers, sessions, offers, releases, prices, events."""

from __future__ import annotations

from masquerade.service.store.database import Lock, is_outage
from masquerade.service.store.records import (
    ApiToken,
    Expired,
    NewRelease,
    RegisteredProvider,
    SessionRecord,
    SignInFailures,
    StoredRelease,
)
from masquerade.service.store.store import Store

__all__ = [
    "ApiToken",
    "Expired",
    "Lock",
    "NewRelease",
    "RegisteredProvider",
    "SessionRecord",
    "SignInFailures",
    "Store",
    "StoredRelease",
    "is_outage",
]
