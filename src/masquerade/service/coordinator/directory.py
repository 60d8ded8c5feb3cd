"""What the parties have published: taken in from them, kept in the store, looked up for a user."""

from __future__ import annotations

import asyncio
import math
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import msgspec
import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from masquerade.errors import MasqueradeError, NotAllowed, PeerRefused
from masquerade.forms import convert
from masquerade.service.agree.arrangements import RULES, Available, Match
from masquerade.service.agree.request import Request
from masquerade.service.agree.terms import ServiceLevel
from masquerade.service.cards import SchemaCard
from masquerade.service.clock import Clock
from masquerade.service.coordinator import metrics
from masquerade.service.coordinator.settings import CoordinatorSettings
from masquerade.service.coordinator.wakeup import Wakeup
from masquerade.service.resources import Provider
from masquerade.service.store import RegisteredProvider, Store, is_outage
from masquerade.service.wire.control import ControlNotes, NotNoted, Parties, Published, PublishedDataset, read_said
from masquerade.service.wire.peers import audited, caller, health_of, no_route, problem, said

_CALLS = 1000  # of each party: hours of a busy coordinator, a day of an idle one
_MOST_OF_THEM = 0.95  # the share of answers that must come in time


@dataclass(frozen=True)
class Measured:
    """How a party answered: by when 95 % of its answers came, in seconds, and the share of calls that it answered."""

    calls: int
    response_time: float | None  # None: no call was timed
    availability: float


class ServiceRecord:
    """The last calls to each party."""

    def __init__(self) -> None:
        self._calls: dict[str, deque[tuple[bool, float | None]]] = defaultdict(lambda: deque(maxlen=_CALLS))
        self._lock = threading.Lock()  # noted in the event loop, read in threads

    def note(self, party: str, *, answered: bool, seconds: float | None = None) -> None:
        """Remember a call; `seconds` of an answer that was timed."""
        with self._lock:
            self._calls[party].append((answered, seconds))

    def measured(self, party: str) -> Measured | None:
        """Return how a party answered; None before it was called."""
        with self._lock:
            calls = list(self._calls.get(party, ()))
        if not calls:
            return None
        timed = sorted(seconds for answered, seconds in calls if answered and seconds is not None)
        # Rounded up to tenths: finer times would tell users how large tables are and what a party computes.
        slowest = math.ceil(10 * timed[math.ceil(_MOST_OF_THEM * len(timed)) - 1]) / 10 if timed else None
        answers = sum(answered for answered, _ in calls)
        return Measured(len(calls), slowest, answers / len(calls))

    def judged(self, agreed: Mapping[str, ServiceLevel]) -> dict[str, dict[str, Any]]:
        """Return by party and term what was agreed, what was measured, and whether it is met; None: not known."""
        return {party: _judged(level, self.measured(party)) for party, level in sorted(agreed.items())}


def _judged(level: ServiceLevel, measured: Measured | None) -> dict[str, Any]:
    told: dict[str, Any] = {}
    if level.response_time is not None:
        took = measured.response_time if measured is not None else None
        told["response_time"] = {
            "agreed": level.response_time,
            "measured": took,
            "met": None if took is None else took <= level.response_time,
        }
    if level.availability is not None:
        share = measured.availability if measured is not None else None
        told["availability"] = {
            "agreed": float(level.availability),
            "measured": None if share is None else round(share, 4),
            "met": None if share is None else share >= float(level.availability),
        }
    return told


def missed_levels(judged: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return one line for each term that was not met."""
    words = {
        "response_time": "95 % of its answers came within {measured:g} s; {agreed:g} s were agreed",
        "availability": "it answered {measured:.1%} of the calls; {agreed:.1%} were agreed",
    }
    return [
        f"{party}: {words[term].format(**each)}"
        for party, terms in judged.items()
        for term, each in terms.items()
        if each.get("met") is False and term in words
    ]


log = structlog.get_logger("masquerade.coordinator")


class Directory:
    """The parties of the configuration, and what they published."""

    def __init__(self, settings: CoordinatorSettings, store: Store) -> None:
        self._settings, self._store = settings, store
        self.service = ServiceRecord()
        self._answered: dict[str, bool] = {}  # by party, since this process started
        self._taking = threading.Lock()  # cards are read, and written anew, by one at a time
        self._taken: Counter[str] = Counter()  # how often something of a party was taken in
        # What is known already may be another coordinator's, which works on the same store: it is left as it is.
        self.register(only_new=True)

    def register(self, *, only_new: bool = False) -> None:
        """Enter every party, or each new one, into the store with the configuration's address and fingerprint."""
        stored = {each.party: each for each in self._store.providers.all()}
        for party, address in self._settings.parties.items():
            known = stored.get(party)
            if known is not None and only_new:
                continue
            public, allowed = (known.public, known.allowed) if known is not None else (False, ())
            fingerprint = self._settings.trust.fingerprint(party)
            self._store.providers.register(party, address, fingerprint, public=public, allowed=allowed)

    # --- from the parties ---

    def taken(self, party: str) -> int:
        """How often something of a party was taken in, for `take_in`."""
        return self._taken[party]

    def take_in(self, published: Published, sender: str, as_new_as: int | None = None) -> None:
        """Take in what a party, known by its certificate, publishes; replaced snapshots leave the cache.

        An answer to our own question is dropped when the party has pushed something newer meanwhile: `as_new_as` is
        what `taken` said before it was asked.
        """
        for name in {published.party, *(each.card.party for each in published.datasets)} - {sender}:
            raise PeerRefused(sender, f"publishes in the name of {name}")
        if sender not in self._settings.parties:
            raise PeerRefused(sender, "is not among the parties of this coordinator")
        names = [each.card.dataset for each in published.datasets]
        if len(set(names)) < len(names):
            raise PeerRefused(sender, "publishes two datasets of one name")
        with self._taking:
            if as_new_as is None or as_new_as == self._taken[sender]:
                self._replace(published, sender)
                self._taken[sender] += 1
        self.answered(sender, True)

    def _replace(self, published: Published, sender: str) -> None:
        before = self.published(sender)
        now = {each.card.dataset: each.card.snapshot for each in published.datasets}
        # A table that cannot be read now may come back as it was.
        unread = {name for name, snapshot in now.items() if snapshot is None}
        known = [each.card for each in before.datasets] if before is not None else []
        gone = {card.snapshot for card in known if card.dataset not in unread}
        news, served = self._store.releases.replace_snapshots(
            sender, current={*filter(None, now.values())}, replaced={*published.replaced, *filter(None, gone)}
        )
        if news:
            log.info("snapshots replaced", party=sender, snapshots=news, releases=served)
        # Last: whoever sees the new card finds nothing of the old snapshot in the cache any more.
        self._store.providers.publish_schema(
            sender,
            self._settings.trust.fingerprint(sender),
            msgspec.to_builtins(published),
            public=any(each.public for each in published.datasets),
            allowed=[user for each in published.datasets for user in each.users],
        )

    def answered(self, party: str, did: bool) -> None:
        """Record whether a party answered."""
        if self._answered.get(party) is not did:
            log.info("party reachable" if did else "party unreachable", party=party)
        self._answered[party] = did
        metrics.party_reachable.labels(party).set(did)
        if did:
            try:
                self._store.providers.seen(party, self._settings.trust.fingerprint(party))
            except Exception as error:
                if not is_outage(error):  # else it is not worth failing for: the party did answer
                    raise

    # --- for whoever asks ---

    def published(self, party: str) -> Published | None:
        """What a party published last."""
        return _read(self._store.providers.get(party))

    def silent(self, user: str) -> list[str]:
        """The parties that have not published anything yet; "" stands for those that a user may not know of."""
        missing = [known for known in self._known().values() if _read(known) is None]
        return sorted({known.party if known.public or user in known.allowed else "" for known in missing}, reverse=True)

    def offered(self, user: str) -> dict[str, tuple[PublishedDataset, ...]]:
        """The datasets that a user may ask for, by party."""
        found = {}
        for party, provider in sorted(self._known().items()):
            published = _read(provider)
            # Others look as if they were not there.
            open_to = (each for each in published.datasets if each.public or user in each.users) if published else ()
            if datasets := tuple(open_to):
                found[party] = datasets
        return found

    def cards(self, user: str, datasets: Mapping[str, str]) -> list[SchemaCard]:
        """The cards of these datasets, by party, as far as a user may ask for them."""
        offered = self.offered(user)
        return [
            each.card
            for party, dataset in datasets.items()
            for each in offered.get(party, ())
            if each.card.dataset == dataset
        ]

    def find(self, request: Request) -> Match:
        """Find the parties that can meet a request of its user."""
        return find(request, self.offered(request.user))

    def asked(self, request: Request, found: Match) -> dict[str, PublishedDataset]:
        """The dataset that each party which takes part is asked for."""
        return {
            party: each
            for party, datasets in self.offered(request.user).items()
            for each in datasets
            if found.datasets.get(party) == each.card.dataset
        }

    def provided(self, user: str) -> list[Provider]:
        """The parties that a user may ask."""
        known = self._known()
        return [
            Provider(
                party=party,
                datasets=tuple(each.card for each in datasets),
                last_seen=known[party].last_seen,
                reachable=self.reachable(known[party]),
                purposes=tuple(sorted({purpose for each in datasets for purpose in each.purposes})),
                response_time=measured.response_time if (measured := self.service.measured(party)) else None,
                availability=measured.availability if measured else None,
            )
            for party, datasets in self.offered(user).items()
        ]

    def admit(self, user: str, parties: Mapping[str, str]) -> None:
        """Let a user, whose account may be younger than the cards, ask these parties in the store's eyes, too."""
        with self._taking:
            known = self._known()
            for party in parties:
                published = _read(known[party])
                if published is None or known[party].public or user in known[party].allowed:
                    continue
                self._store.providers.publish_schema(
                    party,
                    known[party].fingerprint,
                    msgspec.to_builtins(published),
                    allowed=[name for each in published.datasets for name in each.users],
                )

    def slots(self) -> dict[str, int]:
        """How many sessions each party computes at once."""
        found = {}
        for party, provider in self._known().items():
            published = _read(provider)
            if published is not None and published.datasets:
                found[party] = min(each.sessions for each in published.datasets)
        return found

    def sights(self) -> dict[str, tuple[datetime | None, bool]]:
        """When each party was last seen, and whether it is reachable."""
        return {party: (each.last_seen, self.reachable(each)) for party, each in self._known().items()}

    def answering(self) -> dict[str, bool]:
        """Whether each party answered when it was last asked, as far as this process knows; asks no database."""
        return {party: self._answered.get(party, False) for party in self._settings.parties}

    def reachable(self, provider: RegisteredProvider) -> bool:
        """Whether a party answered when it was last asked; before anybody asked, whether it was seen lately."""
        if provider.party in self._answered:
            return self._answered[provider.party]
        lately = timedelta(seconds=3 * self._settings.timings.refresh)
        return provider.last_seen is not None and self._store.clock() - provider.last_seen < lately

    def _known(self) -> dict[str, RegisteredProvider]:
        return {each.party: each for each in self._store.providers.all() if each.party in self._settings.parties}


def find(request: Request, offered: Available) -> Match:
    """Match a request with what is offered to its user."""
    return RULES[request.arrangement].match(request, offered)


def _read(provider: RegisteredProvider) -> Published | None:
    if provider.published is None:
        return None
    try:
        return convert(provider.published, Published)
    except msgspec.ValidationError:  # stored by another version; the party publishes again
        return None


# --- party server -------------------------------------------------------------------------------------------
# The coordinator's server for the parties' nodes: they push what they publish, and ask whom else it knows.
#
# Mutual TLS shows who calls. Every call and its answer goes into the audit log.

Answer = Callable[[str, bytes], Awaitable[Response]]  # to a party, with its message's body


def party_app(
    settings: CoordinatorSettings, directory: Directory, wakeup: Wakeup, clock: Clock, notes: ControlNotes | None = None
) -> Starlette:
    """The application behind the party server."""

    async def answered(answer: Answer, request: HttpRequest) -> Response:
        sender = caller(request.scope)
        try:
            if sender not in settings.parties:
                raise NotAllowed(f"{sender} is not among the parties of this coordinator")
            return await audited(notes, sender, request, partial(answer, sender))
        except NotNoted as error:
            log.error("not answered", party=sender, problem=str(error))
            return problem(500, "the coordinator failed; its log says more")
        except MasqueradeError as error:
            asked = f"{request.method} {request.scope['path']}"
            log.warning("refused", party=sender, asked=asked, problem=str(error))
            return _problem(error)

    async def health(_request: HttpRequest) -> Response:
        return said(health_of(settings.identity, clock))

    async def datasets(sender: str, body: bytes) -> Response:
        try:
            published = read_said(body, Published, f"what {sender} publishes")
            await asyncio.to_thread(directory.take_in, published, sender)
        except MasqueradeError as error:
            log.warning("publication refused", party=sender, problem=str(error))
            return _problem(error)
        except Exception as error:
            if not is_outage(error):
                raise
            log.error("publication not stored", party=sender, problem="no database")
            return problem(503, "the coordinator's database does not answer; publish again later")
        log.info("published", party=sender, datasets=len(published.datasets))
        wakeup.ring()
        return Response(status_code=204)

    async def parties(_sender: str, _body: bytes) -> Response:
        return said(
            Parties(
                {
                    party: settings.trust.fingerprint(party)
                    for party in settings.parties
                    if party in settings.trust.names
                }
            )
        )

    routes = [
        Route("/v1/health", health),
        Route("/v1/datasets", partial(answered, datasets), methods=["POST"]),
        Route("/v1/parties", partial(answered, parties)),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: no_route})


def _problem(error: MasqueradeError) -> Response:
    status = 403 if isinstance(error, NotAllowed | PeerRefused) else 422
    return problem(status, *error.problems)
