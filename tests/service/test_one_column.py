"""A party that brings the sensitive column alone, and one that brings the class alone, through a coordinator."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from masquerade.service import Coordinator, Status
from service.coordinators import started
from service_house import House, write

KEPT = {"clinic": "disease", "shop": "income"}  # by party: its only column beside the identifiers


class OneColumnHouse(House):
    """The bank has all attributes; the clinic has diseases, and the shop has the class."""

    def write_table(self, party: str, people: int | None = None, *, change: str = "") -> None:
        super().write_table(party, people, change=change)
        if party in KEPT:
            diseases, classes = ("flu", "cold", "measles"), ("high", "low")
            cells = [f"{n},{diseases[n % 3] if party == 'clinic' else classes[n % 2]}" for n in range(self.people)]
            write(self.folder / f"{party}.csv", "\n".join([f"ssn,{KEPT[party]}", *cells]) + "\n")

    def columns(self, party: str) -> str:
        return {"clinic": 'sensitive = ["disease"]', "shop": 'class = "income"'}.get(party) or super().columns(party)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    yield from started(OneColumnHouse(tmp_path_factory.mktemp("house"), ("bank", "clinic", "shop"), people=90))


@pytest.mark.parametrize(
    ("wish", "parties"),
    [
        ({"attributes": ["job", "salary", "disease"], "class": None}, ("bank", "clinic")),
        ({"attributes": ["job", "salary", "disease"], "class": "income"}, ("bank", "clinic", "shop")),
    ],
    ids=["sensitive", "sensitive and class"],
)
def test_one_column_is_enough_to_take_part(
    house: House, coordinator: Coordinator, wish: dict[str, Any], parties: tuple[str, ...]
) -> None:
    qid = ["job", "salary"]
    privacy: list[dict[str, Any]] = [{"model": "k-anonymity", "qid": qid, "k": 6}]
    if "clinic" in parties:
        privacy.append({"model": "l-diversity", "qid": qid, "l": 2, "sensitive": "disease"})
    ana = house.user("ana")
    asked = coordinator.ask(ana, house.request(**wish | {"privacy": privacy}))
    assert asked.providers == parties
    done = house.finished(coordinator, asked.id)
    assert (done.status, done.cause) == (Status.PUBLISHED, None)
    rows = list(csv.DictReader(coordinator.table(ana, done.id).read_text().splitlines()))
    groups = Counter((row["job"], row["salary"]) for row in rows)
    assert min(groups.values()) >= 6
    assert all(each["holds"] for each in coordinator.summary(ana, done.id)["requirements"])
    if "clinic" in parties:
        diseases = {(row["job"], row["salary"], row["disease"]) for row in rows}
        assert min(Counter((job, salary) for job, salary, _ in diseases).values()) >= 2
