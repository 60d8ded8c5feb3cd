"""The states of a session. Everything that decides which state may follow which lives here.

    requested ─► negotiating ─► agreed ─► queued ─► running ─► assembling ─► published
                  │      ▲                  ▲          │          │  │          ▲
                  ▼      │                  └── retry ─┴──────────┘  ▼          │
               refused   │                                    awaiting_client ──┘
                         └────────────── relax ────────────────────┘    accept

A relaxed request that is refused waits for its client again, with the table that was held. From agreed and from queued
a session is also published at once, when the cache has a release for its terms. One that runs is refused when a party's
policy or ledger, held against it once more, says no. Every state but the final ones can also end as failed or
cancelled; those in which nothing computes can end as expired. A final state is left by nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Status(StrEnum):
    """Where a session stands."""

    REQUESTED = "requested"
    NEGOTIATING = "negotiating"
    REFUSED = "refused"
    AGREED = "agreed"
    QUEUED = "queued"
    RUNNING = "running"
    ASSEMBLING = "assembling"
    AWAITING_CLIENT = "awaiting_client"  # made, and held until its client accepts, relaxes or withdraws
    PUBLISHED = "published"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"

    @property
    def final(self) -> bool:
        """Whether no other state follows."""
        return self in FINAL


class Decision(StrEnum):
    """What a client can do with a table that waits for its word; to withdraw is to decline it."""

    ACCEPT = "accept"
    RELAX = "relax"
    WITHDRAW = "withdraw"


FINAL = frozenset({Status.REFUSED, Status.PUBLISHED, Status.FAILED, Status.CANCELLED, Status.EXPIRED})
COMPUTING = frozenset({Status.RUNNING, Status.ASSEMBLING})  # a restart interrupts these
WAITING = frozenset(Status) - FINAL - COMPUTING
NEEDS_CAUSE = frozenset({Status.REFUSED, Status.FAILED})  # these need a stated cause

_FORWARD: Mapping[Status, frozenset[Status]] = {
    Status.REQUESTED: frozenset({Status.NEGOTIATING}),
    Status.NEGOTIATING: frozenset({Status.REFUSED, Status.AGREED, Status.AWAITING_CLIENT}),
    Status.AGREED: frozenset({Status.QUEUED, Status.PUBLISHED}),
    Status.QUEUED: frozenset({Status.RUNNING, Status.PUBLISHED}),
    Status.RUNNING: frozenset({Status.ASSEMBLING, Status.QUEUED, Status.REFUSED}),
    Status.ASSEMBLING: frozenset({Status.PUBLISHED, Status.AWAITING_CLIENT, Status.QUEUED}),
    Status.AWAITING_CLIENT: frozenset({Status.PUBLISHED, Status.NEGOTIATING}),
}


_ENDS = frozenset({Status.FAILED, Status.CANCELLED})
ALLOWED: Mapping[Status, frozenset[Status]] = {
    **dict.fromkeys(FINAL, frozenset[Status]()),
    **{each: then | _ENDS | ({Status.EXPIRED} if each in WAITING else set()) for each, then in _FORWARD.items()},
}
