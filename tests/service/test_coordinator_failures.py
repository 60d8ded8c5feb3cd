"""The coordinator when parties die, lie or are busy: every session ends for a cause."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from masquerade.service import Coordinator, NodeSettings, SessionRecord, Status
from masquerade.service.agree.terms import Offer
from masquerade.service.node import serving
from masquerade.service.node.node import PartyNode
from masquerade.service.wire.control import AskSignature, Signature
from service.coordinators import at_work
from service_house import House, wait_until

SLOW = 3000  # people, with whom a session takes long enough to be caught in the middle


def running(house: House, coordinator: Coordinator, session: SessionRecord) -> None:
    """Wait until the parties of a session are at work."""

    def seen() -> bool:
        now = coordinator.store.sessions.get(session.id)
        assert not now.status.final, (now.status, now.cause)
        stages = [e.data for e in coordinator.store.events.after(session.id) if e.kind == "progress"]
        return now.status is Status.RUNNING and bool(stages)

    wait_until(seen, "the session runs")


# --- parties that die ---


def test_a_killed_party_is_retried_up_to_the_limit_then_named_and_the_queue_goes_on(tmp_path: Path) -> None:
    parties, policies = ("bank", "clinic", "shop"), {"clinic": {"sessions": 1}}
    with House(tmp_path, parties, people=SLOW, policies=policies) as house, at_work(house) as coordinator:
        ana = house.user("ana")
        # Nothing starts before both are signed.
        coordinator.directory.slots = dict  # type: ignore[method-assign]
        doomed = coordinator.ask(ana, house.request(attempts=2))
        wait_until(lambda: coordinator.health()["queue"] == 1, "it waits")
        wish = house.request(attempts=1, privacy=[{"model": "k-anonymity", "qid": ["age"], "k": 9}])
        behind = coordinator.ask(ana, wish)
        wait_until(lambda: coordinator.health()["queue"] == 2, "another waits")
        del coordinator.directory.slots
        running(house, coordinator, doomed)
        house.nodes["clinic"].kill()
        assert coordinator.session(ana, behind.id).status is Status.QUEUED  # behind the first
        wish = house.request(
            attributes=["colour", "job"], privacy=[{"model": "k-anonymity", "qid": ["colour", "job"], "k": 3}]
        )
        del wish["class"]
        other = coordinator.ask(ana, wish)
        done = house.finished(coordinator, doomed.id)
        assert (done.status, done.attempts) == (Status.FAILED, 2)
        assert (done.cause or "").startswith("party clinic: ")
        problems = [e.data for e in coordinator.events(ana, doomed.id) if e.kind == "problem"]
        assert {each["party"] for each in problems} == {"clinic"}
        assert house.finished(coordinator, other.id).status is Status.PUBLISHED
        waited = house.finished(coordinator, behind.id)
        assert (waited.status, waited.attempts) == (Status.FAILED, 1)
        assert (waited.cause or "").startswith("party clinic: ")
        assert not coordinator.directory.sights()["clinic"][1]
        assert {each.name for each in coordinator.settings.releases.iterdir()} == {other.id}

        # It comes back, and so does the work.
        house.start_node("clinic")
        wait_until(lambda: coordinator.directory.sights()["clinic"][1], "the clinic is seen again")
        again = coordinator.ask(ana, house.request())
        assert house.finished(coordinator, again.id).status is Status.PUBLISHED


def test_a_party_that_comes_back_in_time_is_tried_again_under_a_fresh_contract(tmp_path: Path) -> None:
    patient = "[timings]\nretry = 0.2\ncomeback = 90\nrefresh = 1\nsilence = 20\n"
    with House(tmp_path, people=SLOW, coordinator_keys=patient) as house, at_work(house) as coordinator:
        ana = house.user("ana")
        asked = coordinator.ask(ana, house.request(attempts=2))
        running(house, coordinator, asked)
        house.nodes["bank"].kill()
        wait_until(lambda: coordinator.session(ana, asked.id).status is Status.QUEUED, "it waits")
        house.start_node("bank")  # takes many times `retry`: the only attempt that is left is not spent before
        done = house.finished(coordinator, asked.id)
        assert (done.status, done.cause) == (Status.PUBLISHED, None)
        assert done.attempts == 2
        contracts = [e.data for e in coordinator.events(ana, asked.id) if e.kind == "contract"]
        assert len({each["contract_hash"] for each in contracts}) == len(contracts) >= 2
        assert len({each["terms_hash"] for each in contracts}) == 1
        assert contracts[-1]["attempt"] == done.attempts


def test_a_party_that_nobody_finds_fails_the_negotiation_by_name(tmp_path: Path) -> None:
    with House(tmp_path) as house, at_work(house) as coordinator:
        ana = house.user("ana")
        house.nodes["bank"].kill()
        done = house.finished(coordinator, coordinator.ask(ana, house.request()).id)
        assert done.status is Status.FAILED
        assert (done.cause or "").startswith("party bank: nobody answers")


# --- parties that are busy ---


def test_a_busy_party_is_waited_for_without_using_attempts(tmp_path: Path) -> None:
    with (
        House(tmp_path, policies={"bank": {"sessions": 1}, "clinic": {"sessions": 1}}) as house,
        at_work(house) as coordinator,
    ):
        ana = house.user("ana")
        # Nothing starts before all are signed.
        coordinator.directory.slots = dict  # type: ignore[method-assign]
        ks = range(5, 10)
        asked = [
            coordinator.ask(
                ana, house.request(attempts=1, privacy=[{"model": "k-anonymity", "qid": ["age", "job"], "k": k}])
            )
            for k in ks
        ]
        wait_until(lambda: coordinator.health()["queue"] == len(asked), "all of them wait")
        # The coordinator is told that there is more room than there is, as when another coordinator takes it.
        coordinator.directory.slots = lambda: {"bank": 5, "clinic": 5}  # type: ignore[method-assign]
        done = [house.finished(coordinator, each.id) for each in asked]
        assert [each.status for each in done] == [Status.PUBLISHED] * len(done)
        assert [each.attempts for each in done] == [1] * len(done)
        waits = [
            event.data["cause"]
            for each in done
            for event in coordinator.events(ana, each.id)
            if event.kind == "status" and (event.data["from"], event.data["to"]) == ("running", "queued")
        ]
        assert waits
        assert all("sessions are running" in cause for cause in waits)


# --- cancelling ---


def test_a_session_that_waits_for_a_person_can_be_cancelled(tmp_path: Path) -> None:
    with House(tmp_path, policies={"bank": {"needs_approval": True}}) as house, at_work(house) as coordinator:
        ana = house.user("ana")
        asked = coordinator.ask(ana, house.request())
        wait_until(lambda: "approval" in {e.kind for e in coordinator.events(ana, asked.id)}, "it waits")
        assert coordinator.cancel(ana, asked.id).status is Status.CANCELLED
        last = coordinator.events(ana, asked.id)[-1]
        assert last.data["to"] == "cancelled"


# --- parties that lie ---


def lying(
    house: House, party: str, liar: type[PartyNode], monkeypatch: pytest.MonkeyPatch
) -> AbstractContextManager[None]:
    """A real node in this process, which answers falsely where `liar` says so."""
    monkeypatch.setattr(serving, "PartyNode", liar)
    settings = NodeSettings.load(house.folder / f"{party}.toml")
    return house.loop.holding(lambda: serving.running(settings, network=house.memory.network))


class ForgesSignatures(PartyNode):
    def signature(self, ask: AskSignature) -> Any:
        said = super().signature(ask)
        assert isinstance(said, Signature)
        other = msgspec.structs.replace(ask.contract, nonce="0" * 32)
        return super().signature(AskSignature(ask.session, other))


class NamesAnother(PartyNode):
    def offer(self, ask: Any) -> Any:
        said = super().offer(ask)
        assert isinstance(said, Offer)
        return msgspec.structs.replace(said, provision=msgspec.structs.replace(said.provision, party="bank"))


class OffersForeignColumns(PartyNode):
    def offer(self, ask: Any) -> Any:
        said = super().offer(ask)
        assert isinstance(said, Offer)
        stolen = tuple(msgspec.structs.replace(each, holder="bank") for each in said.columns)
        return msgspec.structs.replace(said, columns=stolen)


@pytest.mark.parametrize(
    ("liar", "status", "cause"),
    [
        (ForgesSignatures, Status.FAILED, "party clinic: its signature is not one over this contract"),
        (NamesAnother, Status.FAILED, "party clinic: answers in the name of bank"),
        (OffersForeignColumns, Status.REFUSED, "offers columns that are not its own or not wanted: age, town (clinic)"),
    ],
    ids=["signature", "name", "columns"],
)
def test_what_a_node_says_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, liar: type[PartyNode], status: Status, cause: str
) -> None:
    with House(tmp_path) as house:
        house.start_nodes("bank")
        ana = house.user("ana")
        with lying(house, "clinic", liar, monkeypatch), house.coordinator() as coordinator:
            house.known(coordinator, ana)
            done = house.finished(coordinator, coordinator.ask(ana, house.request()).id)
            assert done.status is status
            assert cause in (done.cause or "")
