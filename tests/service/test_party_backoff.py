"""Parties that are left alone after a failure: how long, how often they are asked meanwhile, and until when."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fake_clock import FakeClock
from masquerade.errors import (
    BadInput,
    Conflict,
    MasqueradeError,
    NoCommonRecords,
    PeerBrokeProtocol,
    PeerError,
    PeerRefused,
    PeerUnreachable,
    Problem,
)
from masquerade.net import first_cause
from masquerade.progress import Stage
from masquerade.service import CoordinatorSettings, SessionRecord, Status, Store, resources
from masquerade.service.clock import SYSTEM_CLOCK
from masquerade.service.coordinator.coordinator import summaries
from masquerade.service.coordinator.parties import PartyBackoff
from masquerade.service.coordinator.run import ProgressWatch, endings
from masquerade.service.coordinator.wakeup import Wakeup
from masquerade.service.wire.control import Progress, SeenStep
from service.coordinators import PARTIES, read_settings
from service.gates import Gate
from service.stores import agreed, assembling, furnish, new_release, published, queued, requested

TIMINGS = "[timings]\nretry = 2\ncomeback = 60\n"


@pytest.fixture
def settings(trial: Path) -> CoordinatorSettings:
    return read_settings(trial, f"{TIMINGS}{PARTIES}")


class Links:
    """Parties that are away, and when each of them was asked."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock, self.away = clock, {"bank", "clinic"}
        self.asked: dict[str, list[float]] = defaultdict(list)

    async def health(self, party: str, _within: float) -> None:
        self.asked[party].append(self.clock.monotonic())
        if party in self.away:
            raise PeerUnreachable(party, "nobody answers")


class Pausing:
    """A backoff on a clock that a test moves second by second."""

    def __init__(self, settings: CoordinatorSettings) -> None:
        self.clock = FakeClock()
        self.links, self.wakeup = Links(self.clock), Wakeup(self.clock)
        self.wakeup.attach()
        self.backoff = PartyBackoff(
            SimpleNamespace(settings=settings, links=self.links, wakeup=self.wakeup, clock=self.clock)  # type: ignore[arg-type]
        )

    async def wait(self, seconds: int) -> None:
        await self._settle()
        for _ in range(seconds):
            self.clock.tick(seconds=1)
            await self._settle()

    async def _settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)


async def test_a_busy_party_is_left_alone_for_a_moment(settings: CoordinatorSettings) -> None:
    pausing = Pausing(settings)
    pausing.backoff.busy("bank")
    await pausing.wait(1)
    assert pausing.backoff.leaves_alone("bank")
    assert not pausing.backoff.leaves_alone("clinic")
    await pausing.wait(1)
    assert not pausing.backoff.leaves_alone("bank")
    assert pausing.links.asked == {}


async def test_whoever_failed_is_asked_ever_more_rarely_until_it_answers(settings: CoordinatorSettings) -> None:
    pausing = Pausing(settings)
    pausing.links.away = {"bank"}
    pausing.backoff.failed(("bank", "clinic"), "bank", 2)
    await pausing.wait(0)
    assert not pausing.backoff.leaves_alone("clinic")  # asked at once, and there
    await pausing.wait(30)
    asked = pausing.links.asked["bank"]
    assert asked[0] == 4  # twice `retry`, after the second attempt
    gaps = [later - earlier for earlier, later in itertools.pairwise(asked)]
    assert gaps == sorted(gaps)
    assert gaps[-1] > gaps[0]
    assert pausing.backoff.leaves_alone("bank")
    pausing.links.away.clear()
    await pausing.wait(15)
    assert not pausing.backoff.leaves_alone("bank")


@pytest.mark.parametrize("culprit", ["bank", ""])
async def test_a_party_that_stays_away_is_tried_all_the_same_in_the_end(
    settings: CoordinatorSettings, culprit: str
) -> None:
    pausing = Pausing(settings)
    pausing.backoff.failed(("bank", "clinic"), culprit, 1)
    await pausing.wait(59)
    assert pausing.backoff.leaves_alone("bank")
    assert pausing.backoff.leaves_alone("clinic")
    await pausing.wait(3)
    assert not pausing.backoff.leaves_alone("bank")
    assert not pausing.backoff.leaves_alone("clinic")
    first = 2 if culprit == "" else 0
    assert pausing.links.asked["clinic"][0] == first


async def test_closing_ends_all_pauses(settings: CoordinatorSettings) -> None:
    pausing = Pausing(settings)
    pausing.backoff.failed(("bank", "clinic"), "", 1)
    await pausing.wait(1)
    await pausing.backoff.close()
    await pausing.wait(0)
    assert not pausing.backoff.leaves_alone("bank")


# --- The cause of a failed attempt, from what the coordinator hears of each party ---


def failed(kind: str, *problems: Problem | str, culprit: str | None = None) -> Progress:
    return Progress("failed", problems=MasqueradeError(*problems).problems, kind=kind, culprit=culprit)


@pytest.mark.parametrize(
    ("told", "ours", "kind", "text"),
    [
        (
            {"a": failed("NoCommonRecords", "nobody"), "b": failed("NoCommonRecords", "nobody")},
            PeerError("a", "gave up"),
            NoCommonRecords,
            "nobody",
        ),
        (
            {"a": failed("DataError", "row 3"), "b": failed("PeerError", "gave up", culprit="a")},
            PeerError("a", "gave up"),
            BadInput,
            "party a: row 3",
        ),
        (
            {"a": PeerUnreachable("a", "nobody answers"), "b": failed("PeerUnreachable", "x", culprit="a")},
            PeerError("b", "gave up"),
            PeerUnreachable,
            "party a: nobody answers",
        ),
        (
            {"a": Progress("running"), "b": failed("PeerUnreachable", "silent", culprit="a")},
            PeerError("b", "gave up"),
            PeerError,
            "party a: silent",
        ),
        ({"a": PeerRefused("a", "no such session"), "b": Progress("running")}, None, PeerUnreachable, "party a: "),
        ({"a": Progress("done"), "b": Progress("done")}, Conflict("moved"), Conflict, "moved"),
        ({"a": Progress("cancelled"), "b": Progress("running")}, None, PeerError, "party a: "),
        ({"a": failed("os.system", "x", culprit="zoe")}, None, PeerError, "party a: x"),
        (  # nobody can tell which party it was: the one that noticed is heard, and no messenger blamed
            {
                "a": failed("PeerBrokeProtocol", Problem("broke it", reported_by="c")),
                "b": failed("PeerBrokeProtocol", Problem("broke it", reported_by="c")),
                "c": failed("PeerBrokeProtocol", "a or b cheated"),
            },
            PeerBrokeProtocol("", "broke it", reported_by="c"),
            PeerBrokeProtocol,
            "one of the parties: a or b cheated",
        ),
    ],
)
def test_the_first_cause_is_named(
    told: dict[str, Any], ours: MasqueradeError | None, kind: type[MasqueradeError], text: str
) -> None:
    error = first_cause(endings(told), ours)
    assert isinstance(error, kind)
    assert str(error).startswith(text)


# --- What the coordinator tells of the parties' work: every step once, whenever its looks are cut short.

STEPS = tuple(SeenStep(each, "age", "[-inf, inf)", ("[-inf, 51)", "[51, inf)")) for each in range(3))


class Told:
    """The only thing that a watch asks of its links, answered alike for every party."""

    async def progress(self, party: str, contract: str, within: float | None = None) -> Progress:
        mine = tuple(step for step in STEPS if (step.round % 2 == 0) == (party == "bank"))
        return Progress("done", stage=Stage("protocol"), round=3, steps=mine)


async def test_a_step_is_told_once_though_the_look_is_cancelled_while_it_is_written(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    furnish(store)
    session = requested(store)
    gate, extend = Gate(), store.events.extend
    context: Any = SimpleNamespace(links=Told(), store=store, clock=SYSTEM_CLOCK)

    def slowly(*args: Any) -> None:
        gate.hold()
        extend(*args)

    monkeypatch.setattr(store.events, "extend", slowly)
    watch = ProgressWatch(context, session.id, "00", ("bank", "shop"))

    looking = asyncio.create_task(watch.until_one_fails(show_progress=True))
    await gate.reached()
    looking.cancel()
    gate.open_soon()
    with pytest.raises(asyncio.CancelledError):
        await looking
    await watch.until_settled(show_progress=True, at_most=60)
    told = [event.data["round"] for event in store.events.after(session.id) if event.kind == "step"]
    assert told == [0, 1, 2]


# --- How sessions stand: why they ended and through whom, what they wait for, what they published; on
# both databases.


def derived(store: Store, user: str, *sessions: SessionRecord) -> list[dict[str, Any]]:
    """What is told of each session beyond its own row, where there is something to tell."""
    beyond = set(resources.Session.model_fields) - set(resources.SessionFacts.model_fields)
    return [each.model_dump(include=beyond, exclude_defaults=True) for each in summaries(store, user, sessions)]


def assembling_from(store: Store, session_id: str) -> SessionRecord:
    session = store.sessions.get(session_id)
    session = store.sessions.agree(session, "a" * 64, "b" * 64, {"terms": "some"})
    for status in (Status.QUEUED, Status.RUNNING, Status.ASSEMBLING):
        session = store.sessions.advance(session, status)
    return session


def test_many_sessions_are_told_apart(store: Store, clock: FakeClock) -> None:
    furnish(store)
    out = published(store)
    held = assembling(store, terms="others")
    missed = {"error": 0.4, "most_error": 0.1}
    held = store.releases.hold(held, new_release(store, "held"), missed)
    asked = store.sessions.advance(requested(store), Status.NEGOTIATING)
    for party in ("shop", "bank", "shop"):
        store.events.append(asked.id, "approval", {"party": party})
    running = store.sessions.advance(queued(store), Status.RUNNING)
    again = store.sessions.retry(running, "party bank: fell silent", {"failed_by": "bank"})
    failed = requested(store)
    told = {"reasons": ["party bank: gone", "and away"], "failed_by": "bank"}
    failed = store.sessions.advance(failed, Status.FAILED, "party bank: gone; and away", told)
    refused = store.sessions.advance(requested(store), Status.NEGOTIATING)
    refused = store.sessions.advance(refused, Status.REFUSED, "bank: no", {"reasons": ["bank: no"]})
    everything = [out, held, asked, again, failed, refused]
    assert [each.id for each in summaries(store, "ann", everything)] == [each.id for each in everything]
    assert derived(store, "ann", *everything) == [
        {"rows": 100},
        {"missed": missed},
        {"approvals": ("shop", "bank")},
        {"reasons": ("party bank: fell silent",)},  # it goes on
        {"reasons": ("party bank: gone", "and away"), "failed_by": "bank"},
        {"reasons": ("bank: no",)},
    ]
    assert derived(store, "ann") == []
    assert derived(store, "ben", out) == [{}]  # whose table it is not
    clock.tick(days=31)
    assert derived(store, "ann", out) == [{}]  # it is no longer kept
    store.expire(keep_events=timedelta(days=1))
    assert derived(store, "ann", failed) == [{"reasons": ("party bank: gone; and away",)}]


def test_what_waited_before_waits_no_longer(store: Store) -> None:
    furnish(store)
    session = store.sessions.advance(requested(store), Status.NEGOTIATING)
    store.events.append(session.id, "approval", {"party": "bank"})
    missed = {"error": 0.4, "most_error": 0.1}
    held = store.releases.hold(assembling_from(store, session.id), new_release(store), missed)
    assert derived(store, "ann", held) == [{"missed": missed}]
    relaxed = store.sessions.relax(held, {"attributes": ["age"]})
    assert derived(store, "ann", relaxed) == [{}]


def test_a_release_from_the_cache_is_told_as_such(store: Store) -> None:
    furnish(store)
    made = store.releases.of(published(store).id)
    again = store.releases.publish_cached(agreed(store, requested(store, "ben")), made)
    assert derived(store, "ben", again) == [{"rows": 100, "cached": True}]


def test_what_was_agreed_is_told(store: Store) -> None:
    furnish(store)
    session = store.sessions.advance(requested(store), Status.NEGOTIATING)
    terms = {"requirements": [{"model": "k-anonymity", "qid": ["age"], "k": 60}], "kind": "horizontal", "m": 1}
    session = store.sessions.agree(session, "a" * 64, "b" * 64, {"deal": {"terms": terms}})
    assert summaries(store, "ann", [session])[0].agreed == (
        "k-anonymity (k = 60) over age",
        "all of it against any 1 colluding provider",
    )
