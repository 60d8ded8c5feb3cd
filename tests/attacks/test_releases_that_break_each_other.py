"""The attack: two releases of the same people, each harmless alone, tell together what neither may.

The bank leaves one person out of its table and asks again: the two releases differ by that person's disease. Or an
analyst asks for k = 20 and then for k = 40: the groups of one release cross those of the other. The clinic is honest;
the bank's policy allows everything.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from masquerade.data import read_interval
from masquerade.errors import NotFound
from masquerade.service import Coordinator, SessionRecord, Status
from masquerade.service.agree.terms import Offer, Refusal
from masquerade.service.wire.control import AskOffer
from service_house import JOBS, House, wait_until, write

K = 20
QID = ["age", "job"]
VICTIM = "15"
DIVERSE = {"model": "l-diversity", "sensitive": "disease", "l": 3}
Row = dict[str, str]


@dataclass
class Attacker:
    """A bank, and an analyst who works for it: they ask for tables with the clinic, and keep what they get."""

    house: House
    coordinator: Coordinator
    got: list[list[Row]] = field(default_factory=list)

    def ask(self, k: int = K, qid: Sequence[str] = QID, **changes: Any) -> list[str]:
        """Ask for a table with groups of k, and keep it; return why there is none."""
        done = self.asked(k, qid, **changes)
        if done.status is Status.PUBLISHED:
            self.got.append(read(self.coordinator.table(self.house.user("ana"), done.id)))
            return []
        assert done.status is Status.REFUSED, done.cause
        with pytest.raises(NotFound):
            self.coordinator.table(self.house.user("ana"), done.id)
        return list(self.coordinator.reasons(done))

    def asked(self, k: int = K, qid: Sequence[str] = QID, **changes: Any) -> SessionRecord:
        """Return how a request for a table with groups of k ends."""
        wish: dict[str, Any] = {"attributes": [*QID, "disease"], "class": None, "algorithm": {"name": "tds"}}
        wish |= {"privacy": [{"model": "k-anonymity", "qid": list(qid), "k": k}]}
        ana = self.house.user("ana")
        asked = self.coordinator.ask(ana, self.house.request(**wish | changes))
        return self.house.finished(self.coordinator, asked.id)

    def leave_out(self, person: str) -> None:
        """Take a person out of the bank's table, and wait until the bank's new snapshot is published."""
        before = self._snapshot()
        table = self.house.folder / "bank.csv"
        kept = [line for line in table.read_text().splitlines() if not line.startswith(f"{person},")]
        write(table, "\n".join(kept) + "\n")
        wait_until(lambda: self._snapshot() not in (before, None), "the bank publishes its new snapshot")

    def _snapshot(self) -> str | None:
        published = self.coordinator.directory.published("bank")
        return published.datasets[0].card.snapshot if published is not None else None

    def difference(self) -> Counter[str]:
        """What the first table has and the last one has not: a disease, where one person was left out."""
        first, last = (Counter(row["disease"] for row in table) for table in (self.got[0], self.got[-1]))
        return first - last

    def smallest_crowd(self) -> int:
        """Among how many people the best known one hides, for somebody who knows everybody's age and job."""
        known = Counter(tuple(group_of(person, table) for table in self.got) for person in self.people())
        return min(known.values())

    def people(self) -> list[Row]:
        """Everybody whom both know."""
        tables = [read(self.house.folder / f"{party}.csv") for party in ("bank", "clinic")]
        bank, clinic = ({row["ssn"]: row for row in table} for table in tables)
        return [bank[name] | clinic[name] for name in bank if name in clinic]


def read(table: Path) -> list[Row]:
    return list(csv.DictReader(table.read_text().splitlines()))


def group_of(person: Row, table: list[Row]) -> tuple[str, str]:
    """The released group that somebody is in."""
    for row in table:
        ends = read_interval(row["age"], "continuous")
        assert ends is not None, row
        if ends[0] <= int(person["age"]) < ends[1] and (row["job"] == person["job"] or row["job"] not in JOBS):
            return row["age"], row["job"]
    raise AssertionError(person)


@contextmanager
def attacking(folder: Path, *, careless: bool = False) -> Iterator[Attacker]:
    """An attacker of a clinic that insists on 20-anonymity and 3-diversity; a careless one allows a second release."""
    clinic = {"least_k": K, "privacy": [DIVERSE], "allow_rerelease": careless}
    with House(folder, policies={"clinic": clinic}, people=300) as house:
        house.start_nodes()
        with house.coordinator() as coordinator:
            house.known(coordinator, house.user("ana"))
            yield Attacker(house, coordinator)


@pytest.fixture(scope="module")
def attacker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacker]:
    """An attacker who has one release."""
    with attacking(tmp_path_factory.mktemp("house")) as attacker:
        assert attacker.ask() == []
        yield attacker


def test_the_attacks_work_where_a_policy_allows_a_second_release(tmp_path: Path) -> None:
    with attacking(tmp_path, careless=True) as attacker:
        (disease,) = (each["disease"] for each in attacker.people() if each["ssn"] == VICTIM)
        assert attacker.ask() == []
        assert attacker.smallest_crowd() >= K
        assert attacker.ask(k=2 * K) == []
        assert attacker.smallest_crowd() < K
        attacker.leave_out(VICTIM)
        assert attacker.ask() == []
        assert attacker.difference() == {disease: 1}


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"normalize": "casefold"}, "with normalize = strip"),
        ({"algorithm": {"name": "tds", "epsilon": 0.5}}, "with epsilon = 0.01"),
        ({"algorithm": {"name": "dka-datafly"}}, "with method = tds"),
        ({"attributes": ["job", "age", "disease"]}, "with the columns in the order age, job"),
        ({"attributes": [*QID, "salary", "disease"]}, "without salary"),
        ({"class": "income"}, "with class = none"),
    ],
)
def test_another_release_of_the_same_people_is_refused(
    attacker: Attacker, changes: dict[str, Any], difference: str
) -> None:
    before = len(attacker.got)
    refused = attacker.ask(**changes)
    (sentence,) = (each for each in refused if each.startswith("already released with"))
    assert sentence.endswith("(clinic)")
    assert difference in sentence
    assert len(attacker.got) == before


def test_the_same_release_again_tells_nothing_new(attacker: Attacker) -> None:
    for again in ({}, {"k": K // 2}):  # less than was agreed then is answered with that
        assert attacker.ask(**again) == []
        assert attacker.difference() == {}
        assert attacker.smallest_crowd() >= K


def test_the_groups_of_a_larger_k_are_unions_of_the_first_ones(attacker: Attacker) -> None:
    assert attacker.ask(k=2 * K) == []  # rolled up from the first
    assert min(Counter((row["age"], row["job"]) for row in attacker.got[-1]).values()) >= 2 * K
    assert attacker.difference() == {}
    assert attacker.smallest_crowd() >= K


def test_nobody_is_found_by_leaving_one_out(tmp_path: Path) -> None:
    with attacking(tmp_path) as attacker:
        assert attacker.ask() == []
        attacker.leave_out(VICTIM)
        (refused,) = attacker.ask()
        assert refused.startswith("already released with table of bank = ")
        assert attacker.difference() == {}


def test_the_name_of_an_earlier_snapshot_is_refused_once_another_is_published(tmp_path: Path) -> None:
    """The bank has left somebody out, and offers what it published before."""
    with attacking(tmp_path) as attacker:
        assert attacker.ask() == []
        bank = attacker.house.nodes["bank"].held.value.node
        (before,) = (each.card.snapshot for each in bank.published().datasets)
        attacker.leave_out(VICTIM)
        honest = bank.offer

        def lying(ask: AskOffer) -> Offer | Refusal:
            offer = honest(ask)
            assert isinstance(offer, Offer)
            return structs.replace(offer, provision=structs.replace(offer.provision, snapshot=before))

        bank.offer = lying
        done = attacker.asked()
        assert done.status is Status.FAILED
        (reason,) = attacker.coordinator.reasons(done)
        assert reason.startswith("party bank: offers another snapshot")
        assert attacker.difference() == {}


def test_another_release_by_dka_is_refused_as_well(tmp_path: Path) -> None:
    with attacking(tmp_path) as attacker:
        wish: dict[str, Any] = {"attributes": ["job", "town"], "algorithm": {"name": "dka-datafly"}}
        assert attacker.ask(qid=["job", "town"], **wish) == []
        (refused,) = attacker.ask(qid=["job", "town"], normalize="none", **wish)
        assert refused.startswith("already released with normalize = strip")
        assert len(attacker.got) == 1
