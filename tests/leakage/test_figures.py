"""Progress, errors and audit logs tell the figures of figures.toml, no other and none finer; no cell reaches them.

A whole service learns a model, and makes a table; all that the nodes answer the coordinator is looked at.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from leakage.coins import Leak
from leakage.figures import TABLE, check_audit, check_decimals, check_progress, check_stages, check_unit, staged
from leakage.frozen import import_all
from leakage.sessions import SESSIONS
from masquerade.data import Table
from masquerade.errors import DataError, MasqueradeError, Problem, RequirementUnreachable
from masquerade.methods.registry import learning_methods
from masquerade.protocol import hand_in
from masquerade.service import Status
from masquerade.service.node.session import PartySession
from masquerade.service.wire.control import Progress
from masquerade.utility import compare, holders_error, queries
from masquerade.utility.comparison import Comparison
from memory_network import MemoryLink
from service.party_nodes import Folder, run, wish, world
from service_hospitals import Hospitals

CELL = "Qzsecret"


def kinds(base: type[MasqueradeError]) -> Iterator[type[MasqueradeError]]:
    """A class of errors of this package, and all below it."""
    yield base
    for each in base.__subclasses__():
        if each.__module__.startswith("masquerade."):
            yield from kinds(each)


def failed(error: MasqueradeError) -> Progress:
    """What a party tells the coordinator of a session that ended with this error."""
    session = PartySession.__new__(PartySession)
    terms = SimpleNamespace(parts=("2-anonymity",), m=0, arrangement="vertical")
    session.contract = SimpleNamespace(deal=SimpleNamespace(show_progress=False, terms=terms))  # type: ignore[assignment]
    session._settings = SimpleNamespace(coordinator=SimpleNamespace(name="coordinator"))  # type: ignore[assignment]
    session.state, session.ended, session._begun = "failed", 2.0, 1.0
    session._error, session._round, session._channels, session._sent = error, 0, {}, (0, 0)
    return session.progress()


def error_of(kind: type[MasqueradeError]) -> MasqueradeError:
    """An error of this kind that shows a cell wherever an error can."""
    error = kind.__new__(kind)
    places = [Problem(CELL), Problem("x", row=7, column=CELL), Problem(allowed="a number", found=CELL, key=("age",))]
    MasqueradeError.__init__(error, *places)
    if isinstance(error, RequirementUnreachable):
        error.violated, error.public = (), False
    vars(error).setdefault("peer", "clinic")
    return error


def test_of_an_error_the_coordinator_hears_what_its_kind_allows() -> None:
    import_all()
    for kind in kinds(MasqueradeError):
        allowed = next(TABLE["error"][each.__name__] for each in kind.__mro__ if each.__name__ in TABLE["error"])
        told = failed(error_of(kind))
        if allowed != "text" and CELL in repr(told):
            raise Leak(
                f"the coordinator hears an error's text, {kind.__name__}, which may show a cell: {told.problems}"
            )
        if allowed != "text" and any(sign.isdigit() for each in told.problems for sign in str(each).replace("2-a", "")):
            raise Leak(f"the coordinator hears a figure of {kind.__name__}: {told.problems}")


@pytest.mark.parametrize("name", SESSIONS)
def test_progress_counts_what_it_may(name: str, recordings: Any) -> None:
    """Of every session that is recorded, with two sets of private data."""
    for private in (0, 1):
        for stages in recordings(name, private).stages.values():
            check_stages(stages)


def test_every_activity_is_in_the_table() -> None:
    assert {each.activity for each in learning_methods().values()} <= TABLE["stage"].keys()


def widened() -> Comparison:
    """A table of 1,009 records, of which each ten values of a number are released as one."""
    numbers = [(7 * row * row) % 97 for row in range(1009)]
    table = Table(pa.table({"age": numbers, "cost": [(5 * row) % 89 for row in range(1009)]}))
    cuts = [f"[{each // 10 * 10}, {each // 10 * 10 + 10})" for each in numbers]
    return compare(table, pa.table({"age": cuts, "cost": ["[-inf, inf)"] * 1009}), ["age", "cost"])


def test_a_query_error_is_told_as_finely_as_stated() -> None:
    comparison = widened()
    told = holders_error(comparison)
    assert told is not None
    exact = queries.query_error(comparison, queries._HOLDERS_QUERIES).mean
    check_unit("a holder's query error", told, round(exact, 4), TABLE["hand-in"]["columns.query_error"]["unit"])
    for name, figure in queries.query_error(comparison, 300).summary().items():
        if (entry := TABLE["summary"].get(f"query_error.{name}")) is not None:
            assert isinstance(figure, float)
            check_decimals(f"the {name} query error of a summary", figure, entry["decimals"])


def test_times_are_told_as_finely_as_stated() -> None:
    entry, took = TABLE["hand-in"]["columns.seconds"], {"align": 1.23456789, "protocol": 0.000123456}
    for granted, decimals in ((False, entry["decimals"]), (True, entry["granted"])):
        for part, told in hand_in.shown_seconds(took, exactly=granted).items():
            check_decimals(f"how long {part} took", told, decimals)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bytes]]:
    """All that nodes and coordinator are asked and answered from now on, with the route."""
    heard: list[tuple[str, bytes]] = []
    exchange = MemoryLink.exchange

    async def recorded(self: MemoryLink, method: str, path: str, *more: Any) -> tuple[int, bytes]:
        status, answer = await exchange(self, method, path, *more)
        heard.append((f"{method} {path}", answer))
        return status, answer

    monkeypatch.setattr(MemoryLink, "exchange", recorded)
    return heard


@pytest.mark.parametrize("moment", ["offer", "prepare", "session"])
def test_no_cell_of_a_table_that_is_amiss_reaches_the_coordinator(
    moment: str, tmp_path: Path, answers: list[tuple[str, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever it is amiss: before the party is asked, before it takes part, or when its script reads it."""
    folder = Folder(tmp_path)

    def spoil() -> None:
        table = tmp_path / "clinic" / "patients.csv"
        header, first, *others = table.read_text().splitlines()
        ssn, _, *cells = first.split(",")
        table.write_text("\n".join([header, ",".join([ssn, CELL, *cells]), *others]) + "\n")

    async def part() -> None:
        async with world(folder) as here:
            if moment == "offer":
                spoil()
                await here.coordinator.offer("clinic", wish())
                return
            contract = await here.coordinator.signed(wish(algorithm={"name": "tds"}))
            if moment == "prepare":
                spoil()
                await here.coordinator.prepare("clinic", contract)
                return

            def script(self: PartySession, *_: Any) -> Iterator[Any]:
                raise DataError(Problem(f"{CELL} is no number", source="patients.csv", row=1, column="age"))
                yield

            monkeypatch.setattr(PartySession, "_script", script)
            async with here.coordinator.together(contract):
                ended = await here.coordinator.ended("clinic", contract)
            assert ended.kind == "DataError"

    run(part())
    assert answers
    for route, answer in answers:
        if CELL.encode() in answer:
            raise Leak(f"the answer to {route} shows a cell of the table: {answer!r}")
    for log in tmp_path.glob("*/state/audit.jsonl"):
        if CELL in log.read_text():
            raise Leak(f"{log.parent.parent.name}'s audit log shows a cell of its table")


@pytest.mark.parametrize("granted", [False, True])
def test_a_service_tells_no_other_figures(granted: bool, tmp_path: Path, answers: list[tuple[str, bytes]]) -> None:
    """While it learns a model: its nodes' progress, round by round, and everybody's audit log."""
    policies = {
        party: {"learn": {"methods": ["id3"]}, "show_progress": granted} for party in ("north", "south", "west")
    }
    with staged() as stages, Hospitals(tmp_path, policies=policies, people=120, prefix="person-") as house:
        house.start_nodes()
        ana = house.user("ana")
        with house.coordinator() as coordinator:
            house.known(coordinator, ana)
            request = house.request(attributes=["ward"], algorithm={"name": "id3"}, show_progress=granted)
            asked = {key: each for key, each in request.items() if key not in ("privacy", "m")}
            done = house.finished(coordinator, coordinator.ask(ana, asked).id)
            assert done.status is Status.PUBLISHED, done.cause
        nodes = list(house.nodes)
    assert stages.keys() == set(nodes)
    for each in stages.values():
        check_stages(each)
    rounds = range(1 + max(stage.count for each in stages.values() for stage in each))
    told = [json.loads(answer) for route, answer in answers if "/v1/sessions/" in route]
    assert any(each.get("state") == "done" for each in told)
    for each in told:
        check_progress(each, rounds, granted=granted)
    logs = sorted(tmp_path.glob("*-state/audit.jsonl"))
    assert len(logs) == len(nodes) + 1
    for line in (line for log in logs for line in log.read_text().splitlines()):
        check_audit(json.loads(line))
        assert "person-" not in line
