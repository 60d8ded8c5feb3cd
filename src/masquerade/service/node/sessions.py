"""The sessions of a party: few of a dataset at once, each contract once, each kept a while for questions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from masquerade.errors import Conflict, NotFound
from masquerade.service.agree.policy import Policy
from masquerade.service.agree.signing import SignedContract
from masquerade.service.clock import Clock
from masquerade.service.node.admission import deal_id
from masquerade.service.node.session import PartySession
from masquerade.service.node.state import State
from masquerade.service.wire.control import Progress

_FAREWELL = 15.0  # seconds that a node which ends gives its sessions
_KEPT = 3600.0  # seconds for which an ended session can be asked about


class Ending(Conflict):
    """The node is being stopped and takes no more sessions; the coordinator may ask again later."""


class OpenSessions:
    """All sessions, by the hash of their contract. Used in the event loop alone."""

    def __init__(self, state: State, clock: Clock) -> None:
        self._state, self._clock = state, clock
        self._sessions: dict[str, PartySession] = {}
        self._is_ending = False
        self._coming: dict[
            str, tuple[SignedContract, str]
        ] = {}  # whose table is being read, with the dataset
        self._called_off: set[str] = set()  # those of them that were cancelled meanwhile

    def running(self, dataset: str) -> int:
        """How many sessions of a dataset are open."""
        return len(self._open(dataset))

    async def expect(self, signed: SignedContract, dataset: str, policy: Policy) -> str | None:
        """Keep a place for a contract's session; return why there is none now. An earlier one of it is dropped.

        Sessions of other terms at the same time could each be noted by another party, and no party would agree to
        either any more.
        """
        contract = signed.hash.hex()
        earlier = self._sessions.get(contract)
        if earlier is not None and earlier.state == "ready":
            await earlier.cancel()
        if self._is_ending:
            raise Ending("the node is about to end")
        if contract in self._coming:
            raise Conflict("this contract's session is being prepared")
        if self._state.has_run(contract):
            raise Conflict("this contract has run before; a contract runs once")
        others = self._open(dataset)
        if len(others) >= policy.sessions:
            return f"{policy.sessions} sessions are running, and no more are allowed"
        if not policy.allow_rerelease and any(each.deal.terms != signed.deal.terms for each in others):
            return "another release of the same table is being made"
        self._coming[contract] = (signed, dataset)
        return None

    def _open(self, dataset: str) -> list[SignedContract]:
        begun = [(each.contract, each.dataset) for each in self._sessions.values() if each.is_open]
        return [contract for contract, name in (*begun, *self._coming.values()) if name == dataset]

    def insist_on(self, contract: str) -> None:
        """Raise Conflict when a session was cancelled while its table was read."""
        if self._is_ending:
            raise Ending("the node is about to end")
        if contract in self._called_off:
            raise Conflict("the session was cancelled while it was prepared")

    def forget(self, contract: str) -> None:
        """Give the place of a contract back."""
        self._coming.pop(contract, None)
        self._called_off.discard(contract)

    def add(self, session: PartySession) -> None:
        """Put a session into the place that was kept for it."""
        self.forget(session.name)
        self._sessions[session.name] = session

    def start(
        self, contract: str, addresses: Mapping[str, str], now: int, on_begin: Callable[[PartySession], None]
    ) -> Progress:
        """Begin a session, unless `on_begin` raises. A contract runs once."""
        session = self._find(contract)
        if session.state != "ready":
            raise Conflict(f"the session is {session.state}; only one that is ready can start")
        signed = session.contract
        if signed.expiry <= now:
            raise Conflict("the contract has expired; ask for a new one")
        session.peers(addresses)
        deal, request = signed.deal, signed.deal.signed
        if request is not None and not self._state.request_runs_now(
            request.nonce, deal_id(deal), request.until, deal.attempts
        ):
            raise Conflict("the signed request was used before; its client signs a new one")
        if not self._state.runs_now(contract, signed.expiry):
            raise Conflict("this contract has run before; a contract runs once")
        on_begin(session)
        session.start(addresses)
        return session.progress()

    def progress(self, contract: str) -> Progress:
        """The progress of a session."""
        return self._find(contract).progress()

    async def cancel(self, contract: str) -> Progress:
        """End a session in whatever state it is."""
        if contract in self._coming:  # it ends as soon as its table is read
            self._called_off.add(contract)
            return Progress("cancelled")
        session = self._find(contract)
        await session.cancel()
        return session.progress()

    async def end(self) -> None:
        """End all sessions, and take no more."""
        self._is_ending = True
        await asyncio.gather(*(session.cancel(_FAREWELL) for session in self._sessions.values()))

    def tidy(self) -> None:
        """Forget sessions that ended long ago."""
        until = self._clock.monotonic() - _KEPT
        kept = {
            name: each for name, each in self._sessions.items() if each.ended is None or each.ended > until
        }
        self._sessions = kept

    def _find(self, contract: str) -> PartySession:
        if contract not in self._sessions:
            raise NotFound("there is no such session here")
        return self._sessions[contract]
