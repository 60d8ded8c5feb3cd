"""The coordinator as a process that is killed (-9), and goes on where it was; its nodes are processes that stay."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from masquerade.service import Coordinator, SessionRecord, Status
from service_house import House
from service_killed import POINTS, Doomed

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Nodes that outlive the coordinators of these tests, and a coordinator's state that knows them."""
    with House(tmp_path_factory.mktemp("served"), processes=True) as house:
        house.start_nodes()
        ana = house.user("ana")
        with house.coordinator() as coordinator:
            house.known(coordinator, ana)
        yield house


@pytest.fixture(scope="module")
def doomed() -> Iterator[Doomed]:
    with Doomed() as process:
        yield process


def killed_at(point: str, house: House, doomed: Doomed, **wish: Any) -> SessionRecord:
    """A request to a coordinator that kills itself at a point; the session as it was asked for."""
    state = f"state-{point.replace(' ', '-')}-{len(wish)}"
    shutil.copytree(house.folder / "coordinator-state", house.folder / state)
    conf = house.write_coordinator(state=state)
    with Coordinator(house.settings()) as coordinator:  # nothing happens in the background here
        asked = coordinator.ask(house.user("ana"), house.request(**wish))
    assert doomed.killed_at(conf, point) == -signal.SIGKILL
    return asked


@pytest.mark.parametrize("point", list(POINTS))
def test_a_killed_coordinator_goes_on_where_it_was(served: House, doomed: Doomed, point: str) -> None:
    asked = killed_at(point, served, doomed, **({"most_error": "0"} if point == "held" else {}))
    ana = served.user("ana")
    with served.coordinator() as coordinator:
        done = served.finished(coordinator, asked.id)
        folders = {each.name for each in coordinator.settings.releases.iterdir()}
        assert folders == {asked.id}
        assert {each.name for each in (coordinator.settings.releases / asked.id).iterdir()} == {
            "release.csv",
            "release.parquet",
            "report.html",
            "summary.json",
        }
        if point == "held":
            assert done.status is Status.AWAITING_CLIENT
            assert coordinator.accept(ana, asked.id).status is Status.PUBLISHED
        else:
            assert done.status is Status.PUBLISHED
        assert coordinator.table(ana, asked.id).is_file()
        causes = [e.data["cause"] for e in coordinator.events(ana, asked.id) if e.kind == "status"]
        interrupted = point in ("claimed", "prepared", "started", "handed in", "half written", "written")
        assert ("the coordinator was restarted" in causes) is interrupted
        assert done.attempts == (2 if interrupted else 1)
        charged = coordinator.ledger(ana, session=asked.id)
        assert len(charged) == 2  # once a party, however often it was tried


def test_a_session_whose_attempts_are_used_up_fails_at_the_restart(served: House, doomed: Doomed) -> None:
    asked, ana = killed_at("written", served, doomed, attempts=1), served.user("ana")
    with served.coordinator() as coordinator:
        done = coordinator.session(ana, asked.id)
        assert (done.status, done.cause) == (Status.FAILED, "the coordinator was restarted")
        assert list(coordinator.settings.releases.iterdir()) == []
        assert coordinator.ledger(ana) == []


def test_serve_says_where_it_listens_works_and_ends_when_told(served: House) -> None:
    served.write_coordinator(state="state-served")
    ana = served.user("ana")
    server = served.serve()
    assert server.ready["address"].startswith("http://127.0.0.1:")
    assert server.ready["party_address"] == f"127.0.0.1:{served.party_port}"
    assert server.ready["pid"] == server.process.pid
    with Coordinator(served.settings()) as beside:
        served.known(beside, ana)
        asked = beside.ask(ana, served.request())  # in another process: found by the look that it takes every second
        assert served.finished(beside, asked.id).status is Status.PUBLISHED
    os.kill(server.process.pid, signal.SIGTERM)
    assert server.ended() == 0
