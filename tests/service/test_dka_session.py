"""DkA-Datafly through a coordinator: real nodes, the release of the command, and who is refused."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import masquerade as mq
from masquerade.errors import ParameterError
from masquerade.service import Coordinator, SessionRecord, Status
from parties_here import parties_here
from service.coordinators import signed_by_all, started
from service_house import House

METHOD = {"name": "dka-datafly"}
JOINED_BY_PARTIES = METHOD | {"join": "parties"}
FULL = {"name": "dka", "align": "auto", "local": "datafly", "join": "parties"}  # what it stands for
QID = ["job", "town"]
JOB = """
[parties.bank]
source = "bank.csv"
id = "ssn"
attributes = ["job"]
[parties.clinic]
source = "clinic.csv"
id = "ssn"

[attributes.job]
taxonomy = "flat"
[attributes.town]
taxonomy = "flat"
[roles]
sensitive = ["disease"]
[[privacy]]
model = "k-anonymity"
qid = ["job", "town"]
k = 6
[algorithm]
name = "dka-datafly"
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    yield from started(House(tmp_path_factory.mktemp("house"), ("bank", "clinic", "shop")))


def wish(house: House, attributes: list[str], **changes: Any) -> dict[str, Any]:
    privacy = [{"model": "k-anonymity", "qid": [name for name in attributes if name != "disease"], "k": 6}]
    return house.request(**{"class": None, "attributes": attributes, "privacy": privacy, "algorithm": METHOD} | changes)


def ended(house: House, coordinator: Coordinator, request: dict[str, Any]) -> SessionRecord:
    return house.finished(coordinator, coordinator.ask(house.user("ana"), request).id)


def rows(table: Path) -> Counter[tuple[tuple[str, str], ...]]:
    return Counter(tuple(sorted(row.items())) for row in csv.DictReader(table.read_text().splitlines()))


def test_two_parties_make_the_release_of_the_command(
    house: House, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parties join here, the command's assembler there."""
    done = ended(house, coordinator, wish(house, [*QID, "disease"], algorithm=JOINED_BY_PARTIES))
    assert (done.status, done.cause) == (Status.PUBLISHED, None)
    ana = house.user("ana")
    summary = coordinator.summary(ana, done.id)
    assert summary["algorithm"] == FULL
    assert summary["joint_histogram"] in ("transfers", "encryption", "transfers and encryption")
    assert "argmax" not in summary  # nobody's scores were compared
    assert summary["common_records"] == summary["released"] + summary["suppressed"] == 160
    assert all(each["holds"] for each in summary["requirements"])
    contract = signed_by_all(coordinator, ana, done.id)
    assert contract["deal"]["terms"]["method"] == FULL

    released = rows(coordinator.table(ana, done.id))
    groups = Counter(tuple(dict(row)[name] for name in QID) for row in released.elements())
    assert min(groups.values()) >= 6
    assert len(groups) > 1

    monkeypatch.chdir(house.folder)
    (house.folder / "job.toml").write_text(JOB)
    with parties_here():
        commanded = mq.mashup_job("job.toml")
    assert rows(commanded.table) == released
    assert commanded.summary["suppressed"] == summary["suppressed"]


def test_what_three_parties_cannot_do_is_refused_before_anybody_is_asked(
    house: House, coordinator: Coordinator
) -> None:
    request = wish(house, [*QID, "colour"], algorithm=JOINED_BY_PARTIES)
    reason = 'algorithm: dka: join = "parties" takes two parties; got 3'
    assert coordinator.preview(house.user("ana"), request).problems == (reason,)
    with pytest.raises(ParameterError) as told:
        coordinator.ask(house.user("ana"), request)
    assert told.value.lines == (f"request: {reason}",)


def test_a_party_whose_numbers_have_no_steps_refuses(house: House, coordinator: Coordinator) -> None:
    refused = ended(house, coordinator, wish(house, ["job", "age"]))
    assert refused.status is Status.REFUSED
    assert coordinator.reasons(refused) == (
        '"age": dka with local = datafly generalises step by step; give a taxonomy, '
        "for a number a tree of fixed intervals (clinic)",
    )
