"""The control calls to the parties' nodes. Their answers are checked before they are used.

Every failure is a PeerError that names the party, also when a node reports an error of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from types import TracebackType
from typing import Any, Self

from masquerade.errors import AnswerIsNo, BadInput, PeerError, PeerRefused, PeerUnreachable
from masquerade.service.agree.signing import SignedContract
from masquerade.service.agree.terms import Offer, Provision, Refusal
from masquerade.service.clock import Clock, wait
from masquerade.service.coordinator import metrics
from masquerade.service.coordinator.directory import Directory
from masquerade.service.coordinator.settings import CoordinatorSettings
from masquerade.service.wire.control import (
    AskOffer,
    AskSignature,
    ControlLink,
    ControlNotes,
    Health,
    Noted,
    NotNoted,
    Pending,
    Prepare,
    Progress,
    Published,
    ReadyAt,
    Signature,
    Start,
)
from masquerade.service.wire.peers import Network

_WAITS_FOR_THE_TABLE = "/v1/sessions"
_NOTED_EVERY = 10.0  # seconds: that a party was seen is not worth a write for every call


class PartyLinks:
    """One link to each party; given `notes`, every call is in the audit log."""

    def __init__(
        self,
        settings: CoordinatorSettings,
        directory: Directory,
        clock: Clock,
        network: Network,
        notes: ControlNotes | None = None,
    ) -> None:
        self._settings, self._directory, self._notes = settings, directory, notes
        self._clock, self._network = clock, network
        self._links: Mapping[str, ControlLink] = {}
        self._noted: dict[str, float] = {}
        # By party: contracts that are over, which it does not know yet.
        self._untold: dict[str, set[str]] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        own = self._settings
        keys, more = (own.identity, own.trust), {"timeout": own.timings.answer, "notes": self._notes}
        self._links = {
            party: await self._stack.enter_async_context(self._network.link(party, address, *keys, **more))
            for party, address in own.parties.items()
        }
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def health(self, party: str, within: float | None = None) -> Health:
        """Ask who is there; PeerRefused when it answers with another name than the party's."""
        found: Health = await self._call(party, "GET", "/v1/health", answer=Health, timeout=within)
        if found.name != party:
            raise PeerRefused(party, f"says that it is {found.name}")
        return found

    async def datasets(self, party: str) -> Published:
        """What a party publishes."""
        found: Published = await self._call(party, "GET", "/v1/datasets", answer=Published)
        return found

    async def offer(self, party: str, asked: AskOffer, within: float | None = None) -> Offer | Refusal:
        """A party's answer to a request; PeerRefused unless it is for itself, the dataset that it was asked for, and
        the snapshot of it that it publishes.
        """
        said: Offer | Refusal = await self._call(
            party, "POST", "/v1/offers", asked, answer=Offer | Refusal, timeout=within
        )
        if said.party != party:
            raise PeerRefused(party, f"answers in the name of {said.party}")
        if isinstance(said, Offer) and said.provision.dataset != asked.dataset:
            raise PeerRefused(party, f"offers {said.provision.dataset}; it was asked for {asked.dataset}")
        if isinstance(said, Offer) and not await self._publishes(party, said.provision):
            raise PeerRefused(party, f"offers another snapshot of {asked.dataset} than it publishes")
        return said

    async def _publishes(self, party: str, offered: Provision) -> bool:
        """Return whether a party publishes the snapshot that it offers; it is asked when we know of another one."""
        known = self._directory.taken(party)
        published = await asyncio.to_thread(self._directory.published, party)
        if published is None or offered.snapshot not in _snapshots(published, offered.dataset):
            published = await self.datasets(party)  # a table that has just changed
            await asyncio.to_thread(self._directory.take_in, published, party, known)
        return offered.snapshot in _snapshots(published, offered.dataset)

    async def sign(self, party: str, session: str, contract: SignedContract) -> Signature | Pending | Refusal:
        """A party's signature, not verified yet, or why there is none."""
        asked = AskSignature(session, contract)
        answer = Signature | Pending | Refusal
        said: Signature | Pending | Refusal = await self._call(party, "POST", "/v1/contracts", asked, answer=answer)
        if isinstance(said, Refusal) and said.party != party:
            raise PeerRefused(party, f"answers in the name of {said.party}")
        return said

    async def prepare(self, party: str, said: Prepare) -> ReadyAt | Refusal:
        """Let a party read its table and listen, which takes the longer the larger the table is.

        Meanwhile its health is asked, so that a frozen party is not waited for until `timings.prepare`.
        """
        await self._catch_up(party)
        within, silence = self._settings.timings.prepare, self._settings.timings.silence
        asking = asyncio.create_task(
            self._call(party, "POST", _WAITS_FOR_THE_TABLE, said, answer=ReadyAt | Refusal, timeout=within)
        )
        try:
            while not await wait(self._clock, {asking}, silence / 2):
                await self.health(party, silence)
            answer: ReadyAt | Refusal = asking.result()
            return answer
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    async def start(self, party: str, contract: str, said: Start) -> None:
        """Let a party begin."""
        await self._call(party, "POST", f"/v1/sessions/{contract}/start", said, answer=Progress)

    async def progress(self, party: str, contract: str, within: float | None = None) -> Progress:
        """How far a party is; it must answer before it counts as silent."""
        own = self._settings
        limit = within or min(own.timings.answer, own.timings.silence)
        answer: Progress = await self._call(party, "GET", f"/v1/sessions/{contract}", answer=Progress, timeout=limit)
        return answer

    async def stop(self, party: str, contract: str) -> None:
        """Let a party end a session; one that is unreachable hears of it before its next session."""
        untold = self._untold.setdefault(party, set())
        untold.add(contract)
        try:
            await self._call(party, "DELETE", f"/v1/sessions/{contract}", answer=Progress, timeout=5.0)
        except PeerUnreachable:
            raise
        except PeerError:  # it heard us, and knows of no such session
            untold.discard(contract)
            raise
        untold.discard(contract)

    async def decline(self, party: str, contract: str) -> None:
        """Tell a party that the client declined what a contract's session made."""
        await self._call(party, "POST", f"/v1/sessions/{contract}/decline", answer=Noted)

    async def _catch_up(self, party: str) -> None:
        """Tell a party which of its sessions are over, so that they keep no place there."""
        for contract in tuple(self._untold.get(party, ())):
            with suppress(PeerRefused):
                await self.stop(party, contract)

    async def _call(self, party: str, method: str, path: str, said: Any = None, **more: Any) -> Any:
        link = self._links.get(party)
        if link is None:
            raise PeerRefused(party, "is not among the parties of this coordinator any more")
        begun = self._clock.monotonic()
        try:
            answer = await link.call(method, path, said, **more)
        except NotNoted:  # ours
            raise
        except (AnswerIsNo, BadInput) as error:  # the node's own words
            self._directory.service.note(party, answered=True)
            raise PeerRefused(party, "; ".join(error.reasons)) from None
        except PeerError as error:
            metrics.failures.labels(party, type(error).__name__).inc()
            self._directory.service.note(party, answered=False)
            if isinstance(error, PeerUnreachable):
                await self._note(party, False)
            raise
        waits = path == _WAITS_FOR_THE_TABLE
        took = None if waits else self._clock.monotonic() - begun
        self._directory.service.note(party, answered=True, seconds=took)
        await self._note(party, True)
        return answer

    async def _note(self, party: str, answered: bool) -> None:
        now = self._clock.monotonic()
        last = self._noted.get(party)
        if not answered:
            self._noted.pop(party, None)
        elif last is not None and now - last < _NOTED_EVERY:
            return
        else:
            self._noted[party] = now
        await asyncio.to_thread(self._directory.answered, party, answered)


def _snapshots(published: Published, dataset: str) -> list[str | None]:
    return [each.card.snapshot for each in published.datasets if each.card.dataset == dataset]
