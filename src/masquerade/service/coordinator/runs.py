"""What becomes of a session whose turn it is: published, held for its client, tried again, or failed for a cause."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import msgspec
import structlog

from masquerade.audit.log import AuditLog
from masquerade.errors import Conflict, MasqueradeError, NotAllowed, PeerError
from masquerade.service.coordinator import metrics
from masquerade.service.coordinator.attempt import Assembled, Attempt, Busy
from masquerade.service.coordinator.bargaining import cause_of, drawn_up
from masquerade.service.coordinator.coordinator import Coordinator
from masquerade.service.coordinator.party_backoff import PartyBackoff
from masquerade.service.coordinator.party_links import PartyLinks
from masquerade.service.coordinator.prices import prices
from masquerade.service.coordinator.quality import classification_error, good_enough
from masquerade.service.coordinator.release_files import Written
from masquerade.service.store import NewRelease, Session, Status, is_outage

log = structlog.get_logger("masquerade.coordinator")

_WAYS = ("argmax", "joint_histogram")  # how the parties compared and counted, where they did


class Runs:
    """Runs sessions; several at once."""

    def __init__(
        self, coordinator: Coordinator, links: PartyLinks, audit: AuditLog, backoff: PartyBackoff
    ) -> None:
        self._coordinator, self._links, self._audit, self._backoff = coordinator, links, audit, backoff
        self._settings, self._store = coordinator.settings, coordinator.store
        self._computing = ThreadPoolExecutor(
            2, "assembling"
        )  # trees and files; the store's calls do not wait for them

    def close(self) -> None:
        """Let go of the threads."""
        self._computing.shutdown(wait=False, cancel_futures=True)

    async def run(self, session: Session) -> None:
        """Run a session that was claimed, to the end of this attempt."""
        metrics.moved(session)
        log.info("running", session=session.id, attempt=session.attempts)
        started = time.monotonic()
        attempt = Attempt(self._coordinator, self._links, self._audit, session)
        outcome = "failed"
        try:
            try:
                await self._publish(await attempt.run())
                outcome = "published"
            except Busy as busy:
                outcome = "busy"
                await self._put_back(attempt, busy)
            except Conflict:  # first: somebody has cancelled it
                raise
            except PeerError as error:
                outcome = "retried"
                await self._retry(attempt.session, error)
            except NotAllowed as error:  # a party's policy or ledger, looked at once more, says no
                outcome = "refused"
                await self._end(attempt.session, Status.REFUSED, error.lines)
            except MasqueradeError as error:
                await self._end(attempt.session, Status.FAILED, error.lines)
            except Exception as error:
                if is_outage(error):
                    raise
                log.error("a bug", session=session.id, problem=type(error).__name__)
                told = f"a failure of the coordinator ({type(error).__name__}); its log says more"
                await self._end(attempt.session, Status.FAILED, [told])
        except Conflict as moved:
            outcome = "moved"
            log.info("moved by others", session=session.id, problem=str(moved))
        except asyncio.CancelledError:
            outcome = "stopped"
            raise
        except Exception:  # what came of it cannot be stored: whoever looks next takes it up
            outcome = "interrupted"
            raise
        finally:
            metrics.attempts.labels(outcome).inc()
            metrics.attempt_seconds.observe(time.monotonic() - started)

    # --- it worked ---

    async def _publish(self, made: Assembled) -> None:
        session, deal = made.session, made.contract.deal
        error = None
        if deal.terms.class_name is not None:
            error = await self._compute(classification_error, made.release.table, deal.terms.class_name)
            told = {"error": error, "most_error": _number(deal.most_error)}
            await asyncio.to_thread(self._store.events.append, session.id, "quality", told)
        # In one thread, so that files and row appear together even when we are being stopped meanwhile. Once begun it
        # is waited for: the coordinator that comes after us must find both or neither, and nobody at work on them.
        delivering = self._computing.submit(self._deliver, made, error)
        try:
            await asyncio.wrap_future(delivering)
        except asyncio.CancelledError:
            if not delivering.cancelled():
                with suppress(Exception):
                    await asyncio.wrap_future(delivering)
            raise

    def _deliver(self, made: Assembled, error: float | None) -> None:
        written = self._coordinator.files.write(made.session.id, made.release, _summary(made, error))
        try:
            self._store_release(made, written, error)
        except Exception as failed:  # without a row it was never published; in an outage there may be one
            if not is_outage(failed):
                self._coordinator.files.discard(made.session.id, self._store.releases.kept())
            raise

    def _store_release(self, made: Assembled, written: Written, error: float | None) -> None:
        session, deal, rows = made.session, made.contract.deal, int(made.release.table.num_rows)
        new = NewRelease(
            written.table,
            written.report,
            written.sha256,
            rows,
            self._coordinator.clock() + self._settings.keep_releases,
            {each.party: each.snapshot for each in deal.terms.provisions},
        )
        wished = _number(deal.most_error)
        if not good_enough(error, wished):
            metrics.moved(self._store.releases.hold(session, new, {"error": error, "most_error": wished}))
            log.info("quality missed", session=session.id, error=error, most_error=wished)
            return
        charges = prices(session, rows)
        metrics.moved(self._store.releases.publish(session, new, charges))
        metrics.released_rows.inc(rows)
        for party, cents in charges.items():
            metrics.charged.labels(party).inc(cents)
        log.info("published", session=session.id, rows=rows)

    async def _compute(self, work: Callable[..., Any], *given: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._computing, work, *given)

    # --- it did not ---

    async def _put_back(self, attempt: Attempt, busy: Busy) -> None:
        """Wait for a place: the attempt does not count, and the contract, which was shown, is not used again."""
        session = attempt.session
        again = drawn_up(self._coordinator, attempt.contract.deal, max(session.attempts, 1))
        self._backoff.busy(busy.party)
        moved = await asyncio.to_thread(
            self._store.sessions.put_back, session, str(busy), again.hash.hex(), msgspec.to_builtins(again)
        )
        metrics.moved(moved)
        log.info("put back", session=session.id, party=busy.party)

    async def _retry(self, session: Session, error: PeerError) -> None:
        told = {"party": error.peer, "text": "; ".join(error.reasons)}
        await asyncio.to_thread(self._store.events.append, session.id, "problem", told)
        self._backoff.failed(session.providers, error.peer, session.attempts)
        moved = await asyncio.to_thread(
            self._store.sessions.retry, session, cause_of(error.lines), {"failed_by": error.peer}
        )
        metrics.moved(moved)
        log.warning(
            "attempt failed",
            session=session.id,
            party=error.peer,
            problem=str(error),
            next=moved.status.value,
        )

    async def _end(self, session: Session, status: Status, problems: Sequence[str]) -> None:
        lines = list(problems)
        if session.status is not Status.RUNNING:  # the columns are in: nobody can refuse any more
            status = Status.FAILED
        moved = await asyncio.to_thread(
            self._store.sessions.advance, session, status, cause_of(lines), {"reasons": lines}
        )
        metrics.moved(moved)
        log.warning(status.value, session=session.id, cause=moved.cause)


def _summary(made: Assembled, error: float | None) -> dict[str, Any]:
    """What is told of the release; nothing in it depends on who asked."""
    deal = made.contract.deal
    summary = made.release.summary
    if not deal.show_steps:
        del summary["steps"]
    progress = made.progress
    told: dict[str, Any] = {
        **summary,
        **{name: made.release.settings[name] for name in _WAYS if name in made.release.settings},
        **_of_kind(made),
        "bytes_sent": {party: each.bytes_sent for party, each in progress.items()},
        "messages": {party: each.messages for party, each in progress.items()},
        "rounds": max((each.round for each in progress.values()), default=0),
        "parties": list(deal.terms.parties),
        "terms_hash": deal.terms.hash.hex(),
        "columns": made.release.table.column_names,
    }
    if deal.terms.class_name is not None:
        told["quality"] = {"class": deal.terms.class_name, "error": error}
    return told


def _of_kind(made: Assembled) -> dict[str, Any]:
    """What only releases of one kind have."""
    collaboration = made.contract.deal.terms.collaboration
    if collaboration is None:
        return {"kind": "vertical", "common_records": made.release.rows}
    return {"kind": "horizontal", "m": collaboration.m, "third_party": collaboration.third_party}


def _number(text: str | None) -> float | None:
    return None if text is None else float(text)
