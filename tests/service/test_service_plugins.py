"""A method of another package through coordinator and nodes, whose parties hand in a message of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import msgspec
import pytest

from masquerade.methods import registry
from masquerade.net import Message, Receive, Script, Send
from masquerade.protocol import Assembly, Participant
from masquerade.protocol.hand_in import Columns
from masquerade.protocol.method import Preference
from masquerade.protocol.tds.method import JointSpecialization
from masquerade.service import Status
from service.coordinators import started
from service_house import House


class Parcel(Columns, tag="extras-parcel", frozen=True):
    """What a party hands in."""


@dataclass(frozen=True)
class ByParcel(JointSpecialization):
    """It is made as by tds, and handed in otherwise."""

    name: ClassVar[str] = "by-parcel"
    preferences: ClassVar[tuple[Preference, ...]] = ()
    ends_with: ClassVar[tuple[type[Message], ...]] = (Parcel,)

    def party(self, participant: Participant) -> Script[int]:
        return packed(super().party(participant))

    def assembler(self, assembly: Assembly) -> Script[Any]:
        return packed(super().assembler(assembly))


class Undeclared(ByParcel):
    """It does not say with what a party's part is over."""

    name: ClassVar[str] = "undeclared"
    ends_with: ClassVar[tuple[type[Message], ...]] = ()


def packed(script: Script[Any]) -> Script[Any]:
    heard = None
    while True:
        try:
            move = script.send(heard)
        except StopIteration as end:
            return end.value
        if isinstance(move, Receive) and move.kind is Columns:
            move = replace(move, kind=Parcel)
        elif isinstance(move, Send) and type(move.message) is Columns:
            move = replace(move, message=Parcel(**msgspec.structs.asdict(move.message)))
        heard = yield move


@pytest.fixture
def house(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    monkeypatch.setattr(registry, "_plugins", lambda: (ByParcel, Undeclared))
    registry._others.cache_clear()
    yield from started(House(tmp_path_factory.mktemp("house")))
    registry._others.cache_clear()


def test_a_method_hands_in_a_message_of_its_own(house: House) -> None:
    with house.coordinator() as coordinator:
        ana = house.user("ana")
        house.known(coordinator, ana)
        for name, attributes in (("by-parcel", ["age", "job"]), ("undeclared", ["age", "job", "town"])):
            wish = house.request(algorithm={"name": name}, attributes=attributes)
            done = house.finished(coordinator, coordinator.ask(ana, wish).id)
            assert (done.status, done.cause) == (Status.PUBLISHED, None)
            moves = [e.data["to"] for e in coordinator.store.events.after(done.id) if e.kind == "status"]
            assert moves[-4:] == ["running", "assembling", "awaiting_client", "published"]
            assert coordinator.summary(ana, done.id)["algorithm"]["name"] == name
