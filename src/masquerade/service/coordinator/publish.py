"""A release leaves: from what was assembled, from the cache, or because its client accepts a table that was held.

assembling ─► published          files first, then the row with the charges, in one thread
     └─────► awaiting_client     when it misses the wished quality, a column lost nearly all, or its client asked for
                                 an estimate: the table is held
agreed, queued ─► published      from the cache: the same terms, for somebody who may have the release
awaiting_client ─► published     accepted
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from masquerade.anonymize import VerifiedRelease
from masquerade.errors import Conflict, MasqueradeError
from masquerade.methods import plain_method, product_of
from masquerade.service.agree.quality import LOST, Figures, limits_of, missed_terms
from masquerade.service.agree.request import released_columns
from masquerade.service.agree.signing import SignedContract
from masquerade.service.clock import Clock
from masquerade.service.coordinator import metrics
from masquerade.service.coordinator.release_files import (
    Made,
    ReleaseFiles,
    WrittenRelease,
    as_asked,
    bound,
    figures_of,
    kind_figures,
    losses_of,
    rows_of,
    summary_of,
)
from masquerade.service.coordinator.session_moves import contract_of, tell
from masquerade.service.coordinator.settings import CoordinatorSettings
from masquerade.service.store import NewRelease, SessionRecord, Store, is_outage
from masquerade.service.wire.control import Progress

log = structlog.get_logger("masquerade.coordinator")


@dataclass(frozen=True)
class Assembled:
    """The result of an attempt: the release, and each party's last progress."""

    session: SessionRecord  # assembling
    contract: SignedContract
    release: Made
    progress: Mapping[str, Progress]
    service: Mapping[str, Any] = field(default_factory=dict)  # by party: directory.py


class ReleasePublisher:
    """Publishes releases, or holds them for their client."""

    def __init__(self, settings: CoordinatorSettings, store: Store, files: ReleaseFiles, clock: Clock) -> None:
        self._settings, self._store, self._files, self._clock = settings, store, files, clock
        # Trees and files have threads of their own: the store's calls do not wait for them.
        self._computing = ThreadPoolExecutor(2, "publishing")

    def close(self) -> None:
        """Let go of the threads."""
        self._computing.shutdown(wait=False, cancel_futures=True)

    async def publish(self, made: Assembled) -> None:
        """Judge a release, write its files and store its row."""
        deal = made.contract.deal
        figures = await asyncio.get_running_loop().run_in_executor(
            self._computing, figures_of, made.release, deal.terms
        )
        losses = losses_of(made.release, deal.terms)
        if product_of(deal.terms).has_groups:  # of a model nothing is generalised
            await tell(self._store, made.session, "quality", {**figures, **limits_of(deal), **losses})
        # In one thread, so that files and row appear together even when we are being stopped meanwhile. Once begun it
        # is waited for: the coordinator that comes after us must find both or neither, and nobody at work on them.
        delivering = self._computing.submit(self._deliver, made, figures)
        try:
            await asyncio.wrap_future(delivering)
        except asyncio.CancelledError:
            if not delivering.cancelled():
                with suppress(Exception):
                    await asyncio.wrap_future(delivering)
            raise

    def serve_from_cache(self, session: SessionRecord) -> bool:
        """Publish an agreed or queued session from a release of the same terms; return whether there was one."""
        if session.request.get("estimate"):  # its client is to see the cost first
            return False
        release = self._store.releases.cached(session.terms_hash or "", session.client)
        if release is None:
            return False
        try:
            summary = self._files.summary(release.table_path)
            self._files.whole(release.report_path)
        except (MasqueradeError, OSError, ValueError):  # a file that is gone or damaged: it is made anew
            return False
        if summary.get("columns") != released_columns(session.request):  # the same terms, in another order
            return False
        if any(missed_terms({**(summary.get("quality") or {}), **limits_of(session.request)})):
            return False
        charges = _charges(session, release.rows)
        metrics.moved(self._store.releases.publish_cached(session, release, charges))
        metrics.cached.inc()
        _count_charges(charges)
        log.info("published from the cache", session=session.id, made_for=release.session)
        return True

    def accept(self, session: SessionRecord, request: Mapping[str, Any] | None = None) -> SessionRecord:
        """Publish the table that is held, for the session's request or a relaxed one."""
        held = self._store.releases.held(session.id)
        if held is None:
            raise Conflict(f"session {session.id}: the table that was held is no longer kept")
        charges = _charges(session, held.rows)
        session = metrics.moved(self._store.releases.accept(session, charges, request))
        metrics.released_rows.inc(held.rows)
        _count_charges(charges)
        return session

    def _deliver(self, made: Assembled, figures: Figures) -> None:
        # In the order of the client's request, the class last. The contract has an order of its own, with what is
        # released as it is at the end: requests that differ in nothing else are the same to the parties.
        columns, deal = released_columns(made.session.request), made.contract.deal
        release = as_asked(made.release, columns, show_steps=deal.show_progress)
        if deal.terms.source is not None or self._declines(made.session) is not None:
            release = bound(release, deal.terms)
        made = replace(made, release=release)
        summary = _summary(made, figures) | {"columns": columns}
        # Files first: a row promises that they are there. Who dies between the two leaves a folder without a row, which
        # the next start deletes, and no charge.
        written = self._files.write(made.session.id, made.release, summary)
        try:
            self._store_release(made, written, figures)
        except Exception as failed:  # without a row it was never published; in an outage there may be one
            if not is_outage(failed):
                self._files.discard(made.session.id, self._store.releases.kept())
            raise

    def _store_release(self, made: Assembled, written: WrittenRelease, figures: Figures) -> None:
        session, deal, rows = made.session, made.contract.deal, rows_of(made.release)
        new = NewRelease(
            written.table,
            written.report,
            written.sha256,
            rows,
            self._clock.now() + self._settings.keep_releases,
            {each.party: each.snapshot for each in deal.terms.provisions},
        )
        judged: dict[str, Any] = {**figures, **limits_of(deal), **losses_of(made.release, deal.terms)}
        charges = _charges(session, rows)
        if deal.estimate or judged.get(LOST) or any(missed_terms(judged)):
            told = {
                **judged,
                "estimate": deal.estimate,
                "rows": rows,
                "cost": sum(charges.values()),
                "declines": self._declines(session),
            }
            metrics.moved(self._store.releases.hold(session, new, told))
            log.info("held for its client", session=session.id, **judged)
            return
        metrics.moved(self._store.releases.publish(session, new, charges))
        metrics.released_rows.inc(rows)
        _count_charges(charges)
        log.info("published", session=session.id, rows=rows)

    def _declines(self, session: SessionRecord) -> int | None:
        """How many releases of these tables can still be declined, by all parties' last word; None: any number."""
        last = {each.party: each.terms.get("declines") for each in self._store.offers.of(session.id)}
        return min((left for left in last.values() if left is not None), default=None)


def _charges(session: SessionRecord, rows: int) -> dict[str, int]:
    """What the release costs by party, in cents: a fixed sum, and a price for each released record."""
    agreed = contract_of(session).deal.prices
    return {party: price.fixed + price.per_record * rows for party, price in agreed.items()}


def _count_charges(charges: Mapping[str, int]) -> None:
    for party, cents in charges.items():
        metrics.charged.labels(party).inc(cents)


def _summary(made: Assembled, figures: Figures) -> dict[str, Any]:
    """The release's own figures; nothing in it depends on who asked."""
    deal, progress = made.contract.deal, made.progress
    settings = made.release.settings if isinstance(made.release, VerifiedRelease) else {}
    method = {"algorithm": plain_method(deal.terms.method)}
    if "merged_by" in settings:  # a roll-up: the method of the earlier release, and what merged its groups
        method = {name: settings[name] for name in ("algorithm", "merged_by") if name in settings}
    class_name = deal.terms.class_name
    return {
        **summary_of(made.release, show_steps=deal.show_progress),
        **method,
        **kind_figures(made.release, deal.terms),
        "bytes_sent": {party: each.bytes_sent for party, each in progress.items()},
        "messages": {party: each.messages for party, each in progress.items()},
        "rounds": max((each.round for each in progress.values()), default=0),
        "parties": list(deal.terms.parties),
        **({"service_levels": dict(made.service)} if made.service else {}),
        "terms_hash": deal.terms.hash.hex(),
        **({"rolled_up_from": deal.terms.source} if deal.terms.source is not None else {}),
        "quality": ({"class": class_name} if class_name is not None else {}) | figures,
    }
