"""Hospitals that publish together when one dies, changes its mind or differs, and when the coordinator is killed."""

from __future__ import annotations

import random
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from masquerade.errors import ParameterError
from masquerade.service import Coordinator, Ledger, SessionRecord, StateFolder, Status
from masquerade.service.ledger import ReleaseRecord
from service.coordinators import dataset_of, started
from service_hospitals import DISEASES, WARDS, Hospitals
from service_house import wait_until, write
from service_killed import Doomed

AGES = 'attributes.age = { type = "continuous", min = 0, max = 128 }'


class LargeHospitals(Hospitals):
    """So many patients, told apart so finely, that a session takes long enough to be caught in the middle."""

    def write_table(self, party: str, people: int | None = None, *, change: str = "") -> None:
        rng = random.Random(f"{self.seed} {party} {change}")
        lines = ["ssn,age,stay,disease"]
        for each in range(people or self.people):
            age, stay = rng.uniform(18, 90), rng.uniform(0, 1000)
            lines.append(f"{self.prefix}{party}{each},{age:.3f},{stay:.3f},{rng.choice(DISEASES)}")
        write(self.folder / f"{party}.csv", "\n".join(lines) + "\n")

    def columns(self, _party: str) -> str:
        stay = 'attributes.stay = { type = "continuous", min = 0, max = 1024 }'
        return f'sensitive = ["disease"]\n{AGES}\n{stay}'

    def request(self, k: int = 2, **changes: Any) -> dict[str, Any]:
        """It takes seconds. Another k makes other terms, which no cache has."""
        qid = ["age", "stay"]
        wanted: dict[str, Any] = {
            "kind": "horizontal",
            "purpose": "research",
            "attributes": [*qid, "disease"],
            "privacy": [
                {"model": "k-anonymity", "qid": qid, "k": k},
                {"model": "l-diversity", "qid": qid, "sensitive": "disease", "l": 2},
            ],
        }
        return wanted | changes

    def short_request(self, k: int = 500, **changes: Any) -> dict[str, Any]:
        """It takes a moment."""
        wish = {"attributes": ["age"], "privacy": [k_of(k, "age")]}
        return self.request(**(wish | changes))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LargeHospitals]:
    yield from started(LargeHospitals(tmp_path_factory.mktemp("large"), people=1000))


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LargeHospitals]:
    """Hospitals that outlive a coordinator which is killed."""
    with LargeHospitals(tmp_path_factory.mktemp("processes"), people=1000, processes=True) as house:
        house.start_nodes()
        with at_work(house):
            pass
        # What a coordinator is that knows the hospitals and has done nothing yet.
        shutil.copytree(house.folder / "coordinator-state", house.folder / "new-state")
        yield house


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hospitals]:
    yield from started(Hospitals(tmp_path_factory.mktemp("hospitals"), people=60))


# --- killed, cancelled, restarted: in the middle of the computation ---


def test_of_a_cancelled_session_no_row_has_left(large: LargeHospitals) -> None:
    ana, before = large.user("ana"), ledger_lines(large)
    with at_work(large) as coordinator:
        asked = coordinator.ask(ana, large.request(k=4))
        cutting(coordinator, asked)
        assert coordinator.cancel(ana, asked.id).status is Status.CANCELLED
        # When the hospitals have worked for somebody else, they no longer work for this.
        after = coordinator.ask(ana, large.short_request(k=501))
        assert ended(large, coordinator, after) == (Status.PUBLISHED, None)
        # Both are noted: whoever cancels has heard the answers so far, and could ask for others with another k.
        assert {p: n - before[p] for p, n in ledger_lines(large).items()} == dict.fromkeys(large.parties, 2)
        assert coordinator.session(ana, asked.id).status is Status.CANCELLED
        assert asked.id not in {each.name for each in coordinator.settings.releases.iterdir()}


@pytest.mark.system
def test_what_was_handed_in_before_the_coordinator_was_killed_is_handed_in_again(processes: LargeHospitals) -> None:
    """Also where a hospital releases no snapshot twice: the terms are the same."""
    conf = another_coordinator(processes, "state-half-written")
    ana = processes.user("ana")
    processes.write_table("north", people=500, change="released once")
    processes.write_node("north", allow_rerelease=False, purposes=["research"])
    try:
        with Coordinator(processes.settings()) as resting:
            asked = resting.ask(ana, processes.short_request())
        with Doomed() as doomed:
            assert doomed.killed_at(conf, "half written") == -signal.SIGKILL
        with processes.coordinator() as coordinator:
            assert ended(processes, coordinator, asked) == (Status.PUBLISHED, None)
            assert coordinator.session(ana, asked.id).attempts == 2
            assert {each.name for each in coordinator.settings.releases.iterdir()} == {asked.id}
            assert len(coordinator.ledger(ana, session=asked.id)) == 3  # charged once a hospital
            terms = coordinator.store.sessions.get(asked.id).terms_hash
            (_,) = [each for each in ledger_of(processes, "north") if each.terms.hash.hex() == terms]
            processes.write_node("north")
            wait_until(lambda: dataset_of(coordinator, "north").purposes == ("*",), "north is as it was")
    finally:
        processes.write_table("north")
        processes.write_node("north")
        processes.write_coordinator()


# --- hospitals that change between their signature and the start ---


def test_a_policy_that_no_longer_allows_it_after_the_signature_is_heard(
    house: Hospitals, coordinator: Coordinator
) -> None:
    before = ledger_lines(house)
    with signed(coordinator, house.request(privacy=[k_of(7)])) as asked:
        forbid_publishing_together(house, "south")
        # The node has read it when it says so to others.
        wait_until(lambda: not dataset_of(coordinator, "south").card.horizontal, "south has another policy")
    try:
        status, cause = ended(house, coordinator, asked)
        assert status is Status.REFUSED
        assert cause is not None
        assert cause.startswith("people takes part in vertical sessions only: its policy has no")
        assert ledger_lines(house) == before
        with pytest.raises(ParameterError, match="parties: south takes part in vertical sessions only"):
            coordinator.ask(house.user("ana"), house.request(parties=["north", "south"]))
        assert coordinator.preview(house.user("ana"), house.request()).parties == ("north", "west")
    finally:
        house.write_node("south")
        wait_until(lambda: dataset_of(coordinator, "south").card.horizontal, "south takes part again")


# --- hospitals that do not have the same columns ---


def test_another_taxonomy_is_told_before_anybody_is_asked(house: Hospitals, coordinator: Coordinator) -> None:
    lines = [f"{ward};Any ward" for wards in WARDS.values() for ward in wards]
    (house.folder / "shallow.csv").write_text("\n".join(lines) + "\n")
    other = house.columns("west").replace("ward.csv", "shallow.csv")
    with different(house, coordinator, "west", other):
        with pytest.raises(ParameterError) as told:
            coordinator.ask(house.user("ana"), house.request())
        (problem,) = told.value.lines
        start = 'request: attributes: "ward" is not the same everywhere: north, south as categorical with taxonomy '
        assert problem.startswith(start)
        assert "; west as categorical with taxonomy " in problem
        assert problem.endswith("; name those that go together in parties")
        assert coordinator.preview(house.user("ana"), house.request(parties=["north", "south"])).problems == ()


def test_other_bounds_are_told_by_name_when_all_have_answered(house: Hospitals, coordinator: Coordinator) -> None:
    other = house.columns("west").replace("max = 128", "max = 100")
    with different(house, coordinator, "west", other):
        asked = coordinator.ask(house.user("ana"), house.request(privacy=[k_of(8)]))
        assert house.finished(coordinator, asked.id).status is Status.REFUSED
        assert coordinator.reasons(coordinator.store.sessions.get(asked.id)) == (
            'request: "age" is not generalised alike: north as continuous from 0 and below 128, south as continuous '
            "from 0 and below 128, west as continuous from 0 and below 100; agree on one taxonomy and the same bounds",
        )


def test_a_disease_that_is_no_secret_somewhere_is_told(house: Hospitals, coordinator: Coordinator) -> None:
    other = house.columns("west").replace('sensitive = ["disease"]\n', "")
    with different(house, coordinator, "west", f'{other}\nattributes.disease = {{ taxonomy = "flat" }}'):
        with pytest.raises(ParameterError) as told:
            coordinator.ask(house.user("ana"), house.request())
        assert told.value.lines == (
            'request: attributes: "disease" is not the same everywhere: north, south as sensitive; west as categorical;'
            " name those that go together in parties",
        )


def test_the_same_identifiers_elsewhere_mean_nothing(house: Hospitals, coordinator: Coordinator) -> None:
    snapshot = dataset_of(coordinator, "south").card.snapshot
    patients = (house.folder / "south.csv").read_text()
    write(house.folder / "south.csv", patients.replace("south", "north"))
    wait_until(
        lambda: dataset_of(coordinator, "south").card.snapshot != snapshot, "south's patients have other numbers"
    )
    asked = coordinator.ask(house.user("ana"), house.request(privacy=[k_of(9)]))
    assert ended(house, coordinator, asked) == (Status.PUBLISHED, None)
    assert coordinator.release(house.user("ana"), asked.id).rows == 60 + 60 + 30


# --- the ledger ---


def test_a_second_release_of_the_same_people_is_refused_with_what_differs(
    house: Hospitals, coordinator: Coordinator
) -> None:
    ana, snapshot = house.user("ana"), dataset_of(coordinator, "north").card.snapshot
    house.write_table("north", change="nothing was released of these")
    house.write_node("north", allow_rerelease=False, purposes=["research"])
    wait_until(lambda: dataset_of(coordinator, "north").card.snapshot != snapshot, "north has other patients")
    wait_until(lambda: dataset_of(coordinator, "north").purposes == ("research",), "north has another policy")
    try:
        first = coordinator.ask(ana, house.request())
        assert ended(house, coordinator, first) == (Status.PUBLISHED, None)
        vertical = {
            "kind": "vertical",
            "m": None,
            "class": None,
            "attributes": ["age", "ward"],
            "providers": {"age": "north", "ward": "south"},
            "privacy": [k_of(5)],
        }
        weaker, stricter = house.request()["privacy"], house.request()["privacy"]
        weaker[0] |= {"k": 4}
        stricter[0] |= {"k": 6}
        # What a weaker wish leaves open is answered with what was agreed then: it is the same request.
        again = coordinator.ask(ana, house.request(privacy=weaker))
        assert ended(house, coordinator, again) == (Status.PUBLISHED, None)
        # What a stricter wish asks for is made of the first release alone: its groups are merged.
        rolled_up = coordinator.ask(ana, house.request(privacy=stricter))
        assert ended(house, coordinator, rolled_up) == (Status.PUBLISHED, None)
        wishes: dict[str, dict[str, Any]] = {
            "m = 1": {"m": 2},
            "third_party = secure": {"algorithm": {"third_party": "trusted"}},
            "parties = north, south, west": {"parties": ["north", "south"]},
            "kind = horizontal": vertical,
        }
        for difference, changes in wishes.items():
            asked = coordinator.ask(ana, house.request(**changes))
            assert house.finished(coordinator, asked.id).status is Status.REFUSED
            reasons = coordinator.reasons(coordinator.store.sessions.get(asked.id))
            assert any(each.startswith("already released") and difference in each for each in reasons), reasons
            assert all(each.endswith(" (north)") for each in reasons)
        same = coordinator.ask(ana, house.request())
        assert ended(house, coordinator, same) == (Status.PUBLISHED, None)
        snapshot = dataset_of(coordinator, "north").card.snapshot
        line, coarser = (each for each in ledger_of(house, "north") if each.snapshot == snapshot)
        assert coarser.terms.source == line.terms.hash.hex()
        assert (line.terms.arrangement, line.terms.m, line.terms.parties) == ("horizontal", 1, house.parties)

        house.write_node("north")  # and now it may

        def served() -> bool:
            asked = coordinator.ask(ana, house.request(m=2))
            return house.finished(coordinator, asked.id).status is Status.PUBLISHED

        wait_until(served, "north allows it")
    finally:
        house.write_node("north")
        wait_until(lambda: dataset_of(coordinator, "north").purposes == ("*",), "north has its old policy")


def cutting(coordinator: Coordinator, session: SessionRecord) -> None:
    """Wait until all hospitals of a session are in the middle of their secure computation."""

    def seen() -> bool:
        now = coordinator.store.sessions.get(session.id)
        assert not now.status.final, (now.status, now.cause)
        told = [e.data["parties"] for e in coordinator.store.events.after(session.id) if e.kind == "progress"]
        return bool(told) and all(each["round"] > 0 for each in told[-1].values())

    wait_until(seen, "the hospitals are at work")
    assert coordinator.store.sessions.get(session.id).status is Status.RUNNING


@contextmanager
def at_work(house: Hospitals) -> Iterator[Coordinator]:
    with house.coordinator() as coordinator:
        house.known(coordinator, house.user("ana"))
        yield coordinator


def another_coordinator(house: LargeHospitals, state: str) -> Path:
    """The configuration of one that knows the hospitals and has done nothing yet."""
    shutil.copytree(house.folder / "new-state", house.folder / state)
    return house.write_coordinator(state=state)


def ended(house: Hospitals, coordinator: Coordinator, session: SessionRecord) -> tuple[Status, str | None]:
    done = house.finished(coordinator, session.id)
    return done.status, done.cause


def ledger_of(house: Hospitals, party: str) -> tuple[ReleaseRecord, ...]:
    """What a hospital has handed in."""
    return Ledger.load(StateFolder(house.folder / f"{party}-state").ledger).records


def ledger_lines(house: Hospitals) -> dict[str, int]:
    """How often each hospital has handed something in."""
    return {party: len(ledger_of(house, party)) for party in house.parties}


def k_of(k: int, *qid: str) -> dict[str, Any]:
    return {"model": "k-anonymity", "qid": list(qid or ("age", "ward")), "k": k}


@contextmanager
def signed(coordinator: Coordinator, wish: Mapping[str, Any]) -> Iterator[SessionRecord]:
    """A session that all have signed, and that does not start before the block ends."""
    ana = coordinator.store.users.get("ana")
    coordinator.directory.slots = dict  # type: ignore[method-assign]
    try:
        asked = coordinator.ask(ana, wish)
        wait_until(lambda: coordinator.session(ana, asked.id).status is Status.QUEUED, "all have signed")
        yield asked
    finally:
        del coordinator.directory.slots


@contextmanager
def different(house: Hospitals, coordinator: Coordinator, party: str, columns: str) -> Iterator[None]:
    """A hospital with other columns in its configuration, while the block runs."""

    def change(told: Mapping[str, str]) -> None:
        before = dataset_of(coordinator, party).card.schema
        house.different = told
        house.write_node(party)
        wait_until(lambda: dataset_of(coordinator, party).card.schema != before, f"{party} has other columns")

    change({party: columns})
    try:
        yield
    finally:
        change({})


def forbid_publishing_together(house: Hospitals, party: str) -> None:
    policies = house.policies
    kept = {key: each for key, each in policies[party].items() if key != "least_m"}
    house.policies = {**policies, party: kept}
    house.write_node(party)
    house.policies = policies
