"""Parties that are away while a session is negotiated or signed, and parties whose clocks differ."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import count
from typing import Any

import pytest

from masquerade.service import Coordinator, NodeSettings, SessionRecord, Status, running
from masquerade.service.clock import Clock
from masquerade.service.coordinator.party_links import PartyLinks
from service.coordinators import started
from service_house import House, NodeInMemory, wait_until

_ks = count(3)
PURPOSE = "research"
FOR_EVER = "[timings]\nretry = 0.1\ncomeback = 86400\nrefresh = 1\nsilence = 20\n"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A bank, a clinic and a coordinator that waits for either as long as it takes."""
    policies = {"clinic": {"purposes": [PURPOSE]}}
    yield from started(House(tmp_path_factory.mktemp("house"), policies=policies, coordinator_keys=FOR_EVER))


@pytest.fixture
def bank(house: House) -> Iterator[NodeInMemory]:
    """The bank; whatever becomes of it, there is one again in the end."""
    yield house.nodes["bank"]
    house.nodes["bank"].stop()
    house.start_node("bank")


def asked(house: House, coordinator: Coordinator, **changes: Any) -> SessionRecord:
    """Ask for what no other test has asked for, so that no cache answers."""
    privacy = [{"model": "k-anonymity", "qid": ["age", "job"], "k": next(_ks)}]
    return coordinator.ask(house.user("ana"), house.request(privacy=privacy, **changes))


def told_that_it_is_away(coordinator: Coordinator, session: SessionRecord) -> None:
    def told() -> bool:
        now = coordinator.store.sessions.get(session.id)
        assert not now.status.final, (now.status, now.cause)
        problems = [e.data for e in coordinator.store.events.after(session.id) if e.kind == "problem"]
        return [each["party"] for each in problems] == ["bank"]

    wait_until(told, "it is told that the bank is away")


def test_a_party_that_restarts_while_offers_are_made_is_waited_for(
    house: House, coordinator: Coordinator, bank: NodeInMemory
) -> None:
    bank.kill()
    session = asked(house, coordinator)
    told_that_it_is_away(coordinator, session)
    house.start_node("bank")
    done = house.finished(coordinator, session.id)
    assert (done.status, done.cause, done.attempts) == (Status.PUBLISHED, None, 1)


def test_a_party_that_is_cut_off_while_contracts_are_signed_is_waited_for(
    house: House, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign, cut_off = PartyLinks.sign, False

    async def cutting_off(self: PartyLinks, party: str, *more: Any) -> Any:
        nonlocal cut_off
        if party == "bank" and not cut_off:
            cut_off = True
            house.memory.cut_off("bank")
        return await sign(self, party, *more)

    monkeypatch.setattr(PartyLinks, "sign", cutting_off)
    session = asked(house, coordinator)
    told_that_it_is_away(coordinator, session)
    house.loop.call(house.memory.reached_again, "bank")
    assert house.finished(coordinator, session.id).status is Status.PUBLISHED


def test_nobody_is_waited_for_when_another_one_refuses(
    house: House, coordinator: Coordinator, bank: NodeInMemory
) -> None:
    bank.kill()
    done = house.finished(coordinator, asked(house, coordinator, purpose="gardening").id)
    assert done.status is Status.REFUSED
    reasons = coordinator.reasons(done)
    assert any("nobody answers" in each and each.endswith(" (bank)") for each in reasons)
    assert any(each.endswith(" (clinic)") for each in reasons)


# --- clocks ---


class WrongClock(Clock):
    """The system's clock, so many seconds ahead."""

    def __init__(self, ahead: float) -> None:
        self.ahead = ahead

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.ahead)


def set_wrong(house: House, party: str, ahead: float) -> WrongClock:
    """Restart a party with a wrong clock."""
    house.nodes[party].stop()
    clock, settings = WrongClock(ahead), NodeSettings.load(house.folder / f"{party}.toml")
    held = house.loop.hold(lambda: running(settings, clock=clock, network=house.memory.network))
    house.nodes[party] = NodeInMemory(party, house.memory, house.loop, held)
    return clock


@pytest.mark.usefixtures("bank")
def test_a_small_difference_is_told_as_such_and_tried_again(house: House, coordinator: Coordinator) -> None:
    clock = set_wrong(house, "bank", -100)
    session = asked(house, coordinator, attempts=10)

    def problems() -> list[str]:
        events = coordinator.store.events.after(session.id)
        return [e.data["text"] for e in events if e.kind == "problem"]

    wait_until(lambda: bool(problems()), "the difference is told")
    assert "s behind the coordinator's; set both right" in problems()[0]
    clock.ahead = 0
    done = house.finished(coordinator, session.id)
    assert (done.status, done.cause) == (Status.PUBLISHED, None)


@pytest.mark.usefixtures("bank")
@pytest.mark.parametrize(
    ("ahead", "status", "words"),
    [
        (-100, Status.FAILED, "party bank: its clock is 100 s behind the coordinator's"),
        (-1000, Status.REFUSED, "its clock is 1000 s behind the coordinator's"),
        (1000, Status.REFUSED, "its clock is 1000 s ahead of the coordinator's"),
        (7200, Status.REFUSED, "its clock is 7200 s ahead of"),
    ],
)
def test_a_difference_that_stays_is_told_as_such(
    house: House, coordinator: Coordinator, ahead: float, status: Status, words: str
) -> None:
    set_wrong(house, "bank", ahead)
    done = house.finished(coordinator, asked(house, coordinator, attempts=2).id)
    assert done.status is status
    assert words in (done.cause or "")
