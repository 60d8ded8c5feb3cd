"""What the parties would answer to a request now: their policies and ledgers, asked before it is made.

The same question as in a negotiation (`AskOffer`), marked as a preview: no party keeps a table ready for it, and nobody
runs, signs or enters anything in a ledger. Parties log what they refuse as they do for a request. A user is told the
reasons, which the request itself would be told, and no more. Each user may ask a few times a minute; what was asked a
moment ago is not asked again, and no answer is waited for longer than a few seconds.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import TimeoutError as TookTooLong
from dataclasses import dataclass, field
from typing import Any

from masquerade.arrangement import TABLE
from masquerade.errors import ParameterError, PeerError, PeerUnreachable
from masquerade.methods import described, written_method
from masquerade.protocol import SessionMethod
from masquerade.service.agree.negotiation import CounterOffer, Refused, negotiate
from masquerade.service.agree.request import Request, read_request
from masquerade.service.agree.terms import Offer, Refusal
from masquerade.service.coordinator.context import Context
from masquerade.service.coordinator.earlier_releases import EarlierReleases
from masquerade.service.coordinator.party_links import PartyLinks
from masquerade.service.wire.control import AskOffer

PREVIEW = "preview"  # in place of a session's name
_ANSWER = 2.0  # seconds for one party's answer
_WHOLE = 4.0  # seconds for all of them, over all rounds
_FRESH = 20.0  # seconds for which an answer is told again
_A_MINUTE = 30  # questions of one user, each to all parties
_MOST_KEPT = 200


@dataclass(frozen=True)
class Foretold:
    """What stands against a request at the parties, one sentence each, and who did not answer."""

    refusals: tuple[str, ...] = ()
    unreachable: tuple[str, ...] = ()
    possible: Request | None = None  # what they would accept instead of what they refuse, if that was found


@dataclass
class Rehearsal:
    """Asks the parties from any thread, while the coordinator's background work runs; knows nothing otherwise."""

    context: Context
    _links: PartyLinks | None = None
    _loop: asyncio.AbstractEventLoop | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _asked: dict[str, deque[float]] = field(default_factory=dict)
    _known: dict[str, tuple[float, Foretold]] = field(default_factory=dict)

    def attach(self, links: PartyLinks) -> None:
        """Ask by these links, in the running event loop, from now on."""
        self._links, self._loop = links, asyncio.get_running_loop()

    def detach(self) -> None:
        """Ask nobody from now on."""
        self._links = self._loop = None

    def of(self, request: Request, datasets: Mapping[str, str], state: object) -> Foretold | None:
        """Say what the parties would answer; None when they cannot be asked now. Another `state` is asked again."""
        links, loop = self._links, self._loop
        if links is None or loop is None or loop.is_closed():
            return None
        key = json.dumps([request.user, request.content(), dict(datasets), state], sort_keys=True, default=str)
        with self._lock:
            now = self.context.clock.monotonic()
            told = self._known.get(key)
            if told is not None and now - told[0] < _FRESH:
                return told[1]
            if not self._may_ask(request.user, now):
                return None
        asking = asyncio.run_coroutine_threadsafe(self._outcome(links, request, datasets), loop)
        try:
            found = asking.result(_WHOLE)
        except TookTooLong:
            asking.cancel()
            return None
        except PeerUnreachable as error:
            return Foretold(unreachable=(error.peer,))
        except PeerError:  # nobody can tell what it would say to the request itself
            return None
        with self._lock:
            self._known.pop(key, None)
            self._known[key] = (now, found)
            while len(self._known) > _MOST_KEPT:
                self._known.pop(next(iter(self._known)))
        return found

    def _may_ask(self, user: str, now: float) -> bool:
        """Count a question of a user's, if it is not one too many."""
        for name in [name for name, times in self._asked.items() if now - times[-1] > 60]:
            del self._asked[name]
        times = self._asked.setdefault(user, deque())
        while times and now - times[0] > 60:
            times.popleft()
        if len(times) >= _A_MINUTE:
            return False
        times.append(now)
        return True

    async def _outcome(self, links: PartyLinks, request: Request, datasets: Mapping[str, str]) -> Foretold:
        """Negotiate as a session does, and keep what speaks against it; try what could be accepted instead."""
        refused = await self._against(links, request, datasets)
        if refused is None:
            return Foretold()
        for each in less(request, refused.instead):
            if await self._against(links, each, datasets) is None:
                return Foretold(refused.lines, possible=each)
        return Foretold(refused.lines)

    async def _against(self, links: PartyLinks, request: Request, datasets: Mapping[str, str]) -> Refused | None:
        """Return what a session would be refused for; None for nothing, and where it would wait for a busy party."""
        refused = await self._refused(links, request, datasets)
        if refused is not None and refused.earlier is not None:
            lacking = await asyncio.to_thread(EarlierReleases(self.context).lacking, refused.earlier)
            if lacking is None:
                refused = await self._refused(links, request, datasets, refused.earlier)
        return None if refused is None or refused.busy else refused

    async def _refused(
        self, links: PartyLinks, request: Request, datasets: Mapping[str, str], source: str | None = None
    ) -> Refused | None:
        """Ask round by round until all agree or somebody refuses; None when they agree."""
        earlier: list[CounterOffer] = []
        while True:
            content = (earlier[-1].request if earlier else request).content()
            questions = [
                links.offer(party, AskOffer(PREVIEW, dataset, content, source, preview=True), within=_ANSWER)
                for party, dataset in datasets.items()
            ]
            answers: list[Offer | Refusal] = []
            for each in await asyncio.gather(*questions, return_exceptions=True):
                if isinstance(each, BaseException):
                    raise each
                answers.append(each)
            outcome = negotiate(request, answers, earlier, source)
            if not isinstance(outcome, CounterOffer):
                return outcome if isinstance(outcome, Refused) else None
            earlier.append(outcome)


def less(request: Request, instead: Iterable[Mapping[str, Any]]) -> Iterator[Request]:
    """Yield what could be accepted instead, the nearest first; each is for the parties to judge.

    Purpose, budget and recipients stay as they are, and no column is added.
    """
    changes: dict[str, Any] = {}
    for each in instead:
        kept = changes.get("attributes")
        changes = {**each, **changes}
        if kept is not None and "attributes" in each:
            changes["attributes"] = [name for name in kept if name in each["attributes"]]
    tried = [changes] if changes else []
    if request.algorithm is not None and request.method.makes is TABLE:
        tried.append({**changes, "algorithm": None})
    for each in tried:
        try:
            yield read_request(_changed(request, each)).asked_by(request.user)
        except ParameterError:  # nothing is left to ask for
            continue


def _changed(request: Request, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request's content with other values, without what is about columns that are gone."""
    content = {key: each for key, each in request.content().items() if key != "signed"} | dict(changes)
    gone = {*request.attributes} - {*content["attributes"]}
    privacy = [
        {**each, "qid": [name for name in each["qid"] if name not in gone]}
        for each in content["privacy"]
        if each.get("sensitive") not in gone
    ]
    content["privacy"] = [each for each in privacy if each["qid"]]
    for key in ("providers", "boundaries"):
        if content.get(key):
            content[key] = {name: each for name, each in content[key].items() if name not in gone}
    return content


def changes(asked: Request, possible: Request) -> tuple[str, ...]:
    """Say how a possible request differs from what was asked."""
    gone = [name for name in asked.attributes if name not in possible.attributes]
    lines = [f"without {', '.join(gone)}"] if gone else []
    if not gone and asked.attributes != possible.attributes:
        lines.append(f"the columns in the order {', '.join(possible.attributes)}")
    before, now = asked.content(), possible.content()
    if before["algorithm"] != now["algorithm"]:
        old, new = (_described(each.algorithm) for each in (asked, possible))
        lines.append(f"method = {new} instead of {old}")
    lines += [
        f"{key} = {_word(now[key])} instead of {_word(before[key])}"
        for key in ("class", "normalize", "m")
        if before.get(key) != now.get(key)
    ]
    return tuple(lines)


def _described(method: SessionMethod | None) -> str:
    return "any that the parties allow" if method is None else described(written_method(method))


def _word(value: Any) -> str:
    return "none" if value is None else str(value)
