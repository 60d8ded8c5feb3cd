"""Requests that their client signed, through a coordinator to parties that insist on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from masquerade.errors import ParameterError
from masquerade.net import self_signed
from masquerade.service import Coordinator, NodeSettings, Status, read_request
from masquerade.service.clock import SYSTEM_CLOCK, seconds_since_1970
from service.coordinators import signed_by_all, started
from service.party_nodes import Folder
from service_house import House

ANA = self_signed("ana")


def save_certificate(folder: Path) -> None:
    (folder / "clients").mkdir()
    (folder / "clients" / "ana.pem").write_bytes(ANA.certificate)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("house")
    save_certificate(folder)
    yield from started(House(folder, policies={party: {"signed_requests": True} for party in ("bank", "clinic")}))


@pytest.fixture(scope="module")
def coordinator(house: House) -> Iterator[Coordinator]:
    with house.coordinator() as coordinator:
        house.known(coordinator, house.user("ana"))
        yield coordinator


def signed(content: dict[str, Any], user: str = "ana") -> dict[str, Any]:
    asked = read_request(content).asked_by(user)
    return asked.signed_by(ANA, seconds_since_1970(SYSTEM_CLOCK)).content()


def test_a_signed_request_is_published_and_its_signature_is_in_the_contract(
    house: House, coordinator: Coordinator
) -> None:
    ana = house.user("ana")
    content = signed(house.request())
    done = house.finished(coordinator, coordinator.ask(ana, content).id)
    assert (done.status, done.cause) == (Status.PUBLISHED, None)
    contract = signed_by_all(coordinator, ana, done.id)
    assert contract["deal"]["signed"] == content["signed"]
    again = house.finished(coordinator, coordinator.ask(ana, content).id)  # the same signature once more
    assert again.status is Status.REFUSED
    assert "the signed request was used before" in (again.cause or "")


def test_an_unsigned_one_is_refused_with_the_reason(house: House, coordinator: Coordinator) -> None:
    ana, ben = house.user("ana"), house.user("ben")
    for user, reason in ((ana, '"ana" has a key of its own, known here'), (ben, "only signed requests are taken")):
        done = house.finished(coordinator, coordinator.ask(user, house.request()).id)
        assert done.status is Status.REFUSED
        assert reason in "; ".join(coordinator.reasons(done))


def test_what_does_not_fit_its_signature_is_told_at_once(house: House, coordinator: Coordinator) -> None:
    ana, ben = house.user("ana"), house.user("ben")
    changed = {**signed(house.request()), "recipients": ["ben"]}
    with pytest.raises(ParameterError, match='signed: recipients: not what "ana" has signed'):
        coordinator.ask(ana, changed)
    assert any("recipients" in line for line in coordinator.preview(ana, changed).problems)
    with pytest.raises(ParameterError, match='signed: user: not what "ana" has signed'):
        coordinator.ask(ben, signed(house.request()))
    with pytest.raises(ParameterError, match="signed"):
        coordinator.ask(ana, {**house.request(), "signed": {"nonce": "../../etc"}})


def test_a_policy_that_insists_needs_certificates(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    conf = folder.write_conf("bank", signed_requests=True)
    with pytest.raises(ParameterError, match="signed_requests: needs certificates of clients; clients has none"):
        NodeSettings.load(conf)
    save_certificate(conf.parent)
    assert NodeSettings.load(conf).clients.of("ana") == ANA.certificate
    (conf.parent / "clients" / "eve.pem").write_text("nothing")
    with pytest.raises(ParameterError, match=r"clients: .*eve\.pem: must be one certificate in PEM"):
        NodeSettings.load(conf)
