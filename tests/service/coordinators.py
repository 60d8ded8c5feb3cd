"""Settings of a coordinator, written for a test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from masquerade.service import Coordinator, CoordinatorSettings, User
from masquerade.service.wire.control import PublishedDataset
from service_house import House

PARTIES = '[parties.bank]\naddress = "127.0.0.1:7001"\n[parties.clinic]\naddress = "127.0.0.1:7002"\n'
HEAD = 'identity = "coordinator"\ntrust = "coordinator/trust"\n'

Kind = TypeVar("Kind", bound=House)


def read_settings(trial: Path, text: str, *, head: str = HEAD) -> CoordinatorSettings:
    """The settings of a file that stands beside the identities of a trial."""
    path = trial / "coordinator.toml"
    path.write_text(head + text)
    return CoordinatorSettings.load(path)


def dataset_of(coordinator: Coordinator, party: str) -> PublishedDataset:
    """The only dataset that a party has published, as the coordinator knows it."""
    published = coordinator.directory.published(party)
    assert published is not None
    (dataset,) = published.datasets
    return dataset


def signed_by_all(coordinator: Coordinator, user: User, session: str) -> Mapping[str, Any]:
    """The contract of a session that has one."""
    contract = coordinator.contract(user, session)
    assert contract is not None
    return contract


def started(house: Kind) -> Iterator[Kind]:
    """A house whose parties run, for a fixture."""
    with house:
        house.start_nodes()
        yield house


@contextmanager
def at_work(house: House, *parties: str) -> Iterator[Coordinator]:
    """A house whose parties run, or these of them, and whose coordinator knows them and a user."""
    house.start_nodes(*parties)
    with house.coordinator() as coordinator:
        house.known(coordinator, house.user("ana"))
        yield coordinator
