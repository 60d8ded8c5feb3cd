"""What every part of a coordinator works with: made once, and given as one to whatever needs more than a store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from masquerade.audit import AuditLog
from masquerade.service.clock import Clock
from masquerade.service.coordinator.directory import Directory
from masquerade.service.coordinator.party_links import PartyLinks
from masquerade.service.coordinator.publish import ReleasePublisher
from masquerade.service.coordinator.release_files import ReleaseFiles
from masquerade.service.coordinator.settings import CoordinatorSettings
from masquerade.service.coordinator.wakeup import Wakeup
from masquerade.service.store import Store
from masquerade.service.wire.peers import Network


@dataclass(frozen=True)
class Context:
    """One coordinator's configuration, state, files and clock, and how it reaches others."""

    settings: CoordinatorSettings
    store: Store
    directory: Directory
    files: ReleaseFiles
    publisher: ReleasePublisher
    wakeup: Wakeup
    clock: Clock
    network: Network


@dataclass(frozen=True)
class WorkingContext(Context):
    """The same while the coordinator works in the background.

    A type of its own, because only then are there links to the parties and an open audit log: what answers people
    (intake, decisions, previews) is given the plain one, and cannot call a party or sign anything.
    """

    links: PartyLinks
    audit: AuditLog

    @classmethod
    def of(cls, context: Context, links: PartyLinks, audit: AuditLog) -> WorkingContext:
        """Return the context with these links and this log."""
        fields: dict[str, Any] = vars(context)
        return cls(**fields, links=links, audit=audit)
