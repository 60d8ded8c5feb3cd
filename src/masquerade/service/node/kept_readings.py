"""Readings of databases that are kept: a session runs on the table that was offered, or agreed on.

A table in a database may change at every moment; then the one that a session finds is never the one that the contract
names by its commitment. So the reading behind an offer is kept for a while, and the one behind a contract that was
signed, or that waits for a person, until its session is done or the contract has expired. Of each dataset at most MOST
readings are kept, in memory alone: when there are more, those that were merely offered go first, and then the oldest.
Whoever comes for one that is gone is told that the table has changed.

A file is not kept: whoever replaces one means the new one to count.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from masquerade.job.model import TableSection
from masquerade.service.node.datasets import Dataset, Reading

MOST = 8  # readings of one dataset
OFFER_STANDS = 120  # seconds
LONGEST = 86_400  # seconds after which a contract is asked about again, or its reading goes


@dataclass
class _Kept:
    reading: Reading
    section: TableSection  # where it was read
    offered_until: int = 0
    deals: dict[str, int] = field(default_factory=dict)  # until when each of them is alive

    def is_spoken_of(self, now: int) -> bool:
        self.deals = {deal: until for deal, until in self.deals.items() if until > now}
        return bool(self.deals) or self.offered_until > now


class KeptReadings:
    """All readings that are kept. Several threads may ask."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], _Kept] = {}  # by dataset and commitment, the oldest first
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def offered(self, dataset: Dataset, reading: Reading, now: int) -> None:
        """Keep a reading that an offer names."""
        with self._lock:
            if (kept := self._entry(dataset, reading)) is not None:
                kept.offered_until = now + OFFER_STANDS
                self._bound(dataset.name, now)

    def agreed(self, dataset: Dataset, reading: Reading, deal: str, until: int, now: int) -> None:
        """Keep a reading that a contract names, which is signed or waits for a person, until the contract expires."""
        with self._lock:
            if (kept := self._entry(dataset, reading)) is not None:
                kept.deals[deal] = min(until, now + LONGEST)
                self._bound(dataset.name, now)

    def find(self, dataset: Dataset, snapshot: str, now: int) -> Reading | None:
        """The reading that a contract names, if it is kept; not once the configuration has another source, or other
        meanings of its columns.
        """
        with self._lock:
            kept = self._kept.get((dataset.name, snapshot))
            if kept is None or not kept.is_spoken_of(now):
                return None
            as_it_was = kept.section == dataset.settings.section and dataset.describes(kept.reading)
            return kept.reading if as_it_was else None

    def done(self, deal: str, now: int) -> None:
        """Let go of the readings of a deal that is carried out."""
        with self._lock:
            for kept in self._kept.values():
                kept.deals.pop(deal, None)
        self.tidy(now)

    def tidy(self, now: int) -> None:
        """Forget the readings that no open offer or contract names."""
        with self._lock:
            self._kept = {key: kept for key, kept in self._kept.items() if kept.is_spoken_of(now)}

    def _entry(self, dataset: Dataset, reading: Reading) -> _Kept | None:
        snapshot = reading.card.snapshot
        if not dataset.settings.is_database or snapshot is None:
            return None
        return self._kept.setdefault((dataset.name, snapshot), _Kept(reading, dataset.settings.section))

    def _bound(self, dataset: str, now: int) -> None:
        mine = {key: kept for key, kept in self._kept.items() if key[0] == dataset}
        dead = [key for key, kept in mine.items() if not kept.is_spoken_of(now)]
        merely_offered = [key for key, kept in mine.items() if key not in dead and not kept.deals]
        agreed = [key for key, kept in mine.items() if kept.deals]
        surplus = max(len(mine) - MOST, len(dead))
        for key in [*dead, *merely_offered, *agreed][:surplus]:
            del self._kept[key]
