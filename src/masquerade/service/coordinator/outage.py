"""Whether the coordinator's database can be used, and whether we are still the only coordinator that uses it."""

from __future__ import annotations

import asyncio

import structlog

from masquerade.service.coordinator.single_instance import SingleInstance
from masquerade.service.store import Store

log = structlog.get_logger("masquerade.coordinator")


class Outage:
    """An outage of the database, logged when it begins and when it is over."""

    def __init__(self, store: Store, single_instance: SingleInstance) -> None:
        self._store, self._single_instance = store, single_instance
        self.lasts = False

    def noticed(self, error: Exception) -> None:
        """Take note of an error that the database's absence caused."""
        if not self.lasts:
            log.error("no database", problem=self._store.reason(error))
        self.lasts = True

    async def insist_on_database(self) -> None:
        """Raise unless we work alone, and what we find out can be stored."""
        await asyncio.to_thread(self._single_instance.check)
        if self.lasts:
            await asyncio.to_thread(self._store.probe)
            self.lasts = False
            log.info("the database is back")
