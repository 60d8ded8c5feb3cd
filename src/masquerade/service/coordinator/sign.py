"""From a deal to a contract that every party has signed.

All parties are asked at once, and every signature is verified against the coordinator's own trust store. A party may
let a person look at the contract first: then it is asked again until the person has decided. One that does not answer
has time to come back (parties.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
import structlog

from masquerade.errors import PeerRefused, PeerUnreachable
from masquerade.service.agree.arrangements import against, resting
from masquerade.service.agree.signing import SignedContract, draw_up, verify_signatures
from masquerade.service.agree.terms import Deal, Refusal
from masquerade.service.coordinator.context import WorkingContext
from masquerade.service.coordinator.parties import Comeback
from masquerade.service.coordinator.session_moves import contract_of, move, tell, tell_problem
from masquerade.service.coordinator.settings import CoordinatorSettings
from masquerade.service.store import SessionRecord
from masquerade.service.wire.control import Pending, Signature

log = structlog.get_logger("masquerade.coordinator")

_SLOWEST_POLL = 30.0  # seconds between two looks at a contract that waits for a person
_SOON = 120  # seconds: a contract that expires sooner is drawn up anew


@dataclass(frozen=True)
class Unsigned:
    """A contract that not everybody signed: who waits for a person, and who refuses for which reasons."""

    waiting: Mapping[str, str]
    refusals: tuple[Refusal, ...]


@dataclass(frozen=True)
class Signer:
    """Has contracts signed."""

    context: WorkingContext

    def new_contract(self, deal: Deal, attempt: int = 1) -> SignedContract:
        """Draw up a contract that nobody has signed yet."""
        return new_contract(deal, self.context.settings, self.context.clock.now(), attempt)

    async def agree(self, session: SessionRecord, deal: Deal) -> SessionRecord | tuple[Refusal, ...]:
        """Ask until all have signed; the session as agreed, or who refuses. PeerError when a party is away."""
        contract = self.new_contract(deal)
        pause = self.context.settings.timings.retry
        waiting: set[str] = set()
        away: Comeback | None = None  # of a party that does not answer now
        while True:
            left = contract.expiry - self.context.clock.now().timestamp()
            if left < self.context.settings.contract_lifetime.total_seconds() / 2:
                contract = self.new_contract(deal)  # whoever signs late has as much time to run it
            try:
                found = await self.ask_all(session.id, contract)
                away = None
            except PeerUnreachable as error:
                if away is None:
                    await tell_problem(self.context.store, session, error)
                    away = Comeback(self.context)
                if await away.pause():
                    continue
                if not waiting:
                    raise
                found = None
            if isinstance(found, SignedContract):
                return await self._agreed(session, found)
            if isinstance(found, Unsigned):
                if found.refusals:
                    return found.refusals
                for party in sorted(set(found.waiting) - waiting):
                    asked = {"party": party, "reason": found.waiting[party]}
                    await tell(self.context.store, session, "approval", asked)
                    waiting.add(party)
            await self.context.clock.sleep(pause)
            pause = min(pause * 1.5, _SLOWEST_POLL)

    async def renew(self, session: SessionRecord) -> SessionRecord | Unsigned:
        """Draw up and sign anew a contract that was used before, is about to expire, or is not signed by all."""
        contract, now = contract_of(session), self.context.clock.now()
        fresh = contract.attempt == session.attempts and contract.expiry > now.timestamp() + _SOON
        fresh &= contract.hash.hex() == session.contract_hash  # not so when another version wrote it
        if fresh and set(contract.signatures) == set(contract.parties):
            return session
        found = await self.ask_all(session.id, self.new_contract(contract.deal, session.attempts))
        if isinstance(found, Unsigned):
            return found
        await asyncio.to_thread(self.context.audit.contract, found.canonical(), found.hash.hex())
        session = await asyncio.to_thread(
            self.context.store.sessions.renew, session, found.hash.hex(), msgspec.to_builtins(found)
        )
        await tell(self.context.store, session, "contract", _described(found))
        return session

    async def ask_all(self, session: str, contract: SignedContract) -> SignedContract | Unsigned:
        """The contract with all signatures; PeerError when a party cannot be asked or signs something else."""
        asking = (self.context.links.sign(party, session, contract) for party in contract.parties)
        answers = dict(zip(contract.parties, await asyncio.gather(*asking), strict=True))
        waiting = {party: said.reason for party, said in answers.items() if isinstance(said, Pending)}
        refusals = tuple(said for said in answers.values() if isinstance(said, Refusal))
        if waiting or refusals:
            return Unsigned(waiting, refusals)
        for party, said in answers.items():
            assert isinstance(said, Signature)
            try:
                contract = contract.with_signature(party, bytes.fromhex(said.signature))
            except ValueError:
                raise PeerRefused(party, "signed with something that is no signature") from None
        verify_signatures(contract, self.context.settings.trust, now=int(self.context.clock.now().timestamp()))
        return contract

    async def _agreed(self, session: SessionRecord, contract: SignedContract) -> SessionRecord:
        # Into the audit log first: what the store has as agreed can then be proved, whenever we are stopped.
        await asyncio.to_thread(self.context.audit.contract, contract.canonical(), contract.hash.hex())
        terms, name = contract.deal.terms.hash.hex(), contract.hash.hex()
        session = await move(self.context.store.sessions.agree, session, terms, name, msgspec.to_builtins(contract))
        told = {**_described(contract), "requirements": requirements_of(contract.deal)}
        await tell(self.context.store, session, "contract", told)
        log.info("agreed", session=session.id, contract=name)
        return session


def new_contract(deal: Deal, settings: CoordinatorSettings, now: datetime, attempt: int = 1) -> SignedContract:
    """Draw up a contract for a deal, with the fingerprints that we know; nobody has signed it yet."""
    keys = {party: settings.trust.fingerprint(party) for party in deal.terms.parties}
    return draw_up(deal, keys, int((now + settings.contract_lifetime).timestamp()), attempt)


def requirements_of(deal: Deal) -> list[str]:
    """The requirement that all parties agreed on, one line a part."""
    return [*map(str, deal.terms.parts), *against(deal.terms.m), *resting(deal.asked.min_records)]


def _described(contract: SignedContract) -> dict[str, Any]:
    return {
        "terms_hash": contract.deal.terms.hash.hex(),
        "contract_hash": contract.hash.hex(),
        "attempt": contract.attempt,
    }
