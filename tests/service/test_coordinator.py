"""The coordinator without its parties: settings, discovery, accounts' limits, files, causes, quality."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette

from masquerade.errors import (
    BadInput,
    Conflict,
    MasqueradeError,
    NoCommonRecords,
    NotAllowed,
    NotFound,
    ParameterError,
    PeerBrokeProtocol,
    PeerError,
    PeerRefused,
    PeerUnreachable,
)
from masquerade.net.identity import Identity
from masquerade.net.trial import make_trial
from masquerade.service.audit import AuditLog
from masquerade.service.card import ColumnCard, SchemaCard
from masquerade.service.control import Progress, Published, PublishedDataset
from masquerade.service.coordinator import housekeeping
from masquerade.service.coordinator.audit_tail import audit_tail
from masquerade.service.coordinator.blame import first_cause
from masquerade.service.coordinator.coordinator import Coordinator
from masquerade.service.coordinator.discovery import find
from masquerade.service.coordinator.files import Files
from masquerade.service.coordinator.party_server import party_app
from masquerade.service.coordinator.quality import classification_error
from masquerade.service.coordinator.serving import serving
from masquerade.service.coordinator.settings import Settings, is_loopback
from masquerade.service.coordinator.wake import Wake
from masquerade.service.request import read_request
from masquerade.service.store import Role, Status, User
from service.parties import BANK, CLINIC, SHOP
from service.stores import HandClock, agreed, new_release

PARTIES = '[parties.bank]\naddress = "127.0.0.1:7001"\n[parties.clinic]\naddress = "127.0.0.1:7002"\n'
HEAD = 'identity = "coordinator"\ntrust = "coordinator/trust"\n'
WISH: dict[str, Any] = {
    "purpose": "research",
    "attributes": ["age", "job"],
    "privacy": [{"model": "k-anonymity", "qid": ["age", "job"], "k": 5}],
}


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trial")
    make_trial(folder, ["coordinator", "bank", "clinic"])
    return folder


def read(trial: Path, text: str, *, head: str = HEAD) -> Settings:
    path = trial / "coordinator.toml"
    path.write_text(head + text)
    return Settings.load(path)


# --- settings ---


def test_settings_have_defaults_and_paths_relative_to_the_file(trial: Path) -> None:
    found = read(trial, PARTIES)
    assert (found.address, found.party_address) == ("127.0.0.1:8080", "127.0.0.1:7000")
    assert found.parties == {"bank": "127.0.0.1:7001", "clinic": "127.0.0.1:7002"}
    assert found.state == trial / "state"
    assert not found.state.exists()  # reading makes nothing
    found.make_state()
    assert found.state.stat().st_mode & 0o077 == found.releases.stat().st_mode & 0o077 == 0
    found.releases.rmdir()
    found.state.rmdir()
    assert found.keep_releases == timedelta(days=30)
    assert found.scheme == "http"
    assert found.console


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", ["parties: missing"]),
        ('adress = "127.0.0.1:1"\n' + PARTIES, ['adress: unknown key (did you mean "address"?)']),
        ("keep_releases = 0\nmost_wait = 'x'\n" + PARTIES, ["keep_releases: must be", "most_wait: must be"]),
        ('address = "0.0.0.0:80"\n' + PARTIES, ["plain HTTP is for loopback addresses only"]),
        ('address = "here"\n' + PARTIES, ["address: must be an address host:port"]),
        (
            'address = "127.0.0.1:8080"\nparty_address = "127.0.0.1:8080"\n' + PARTIES,
            ["party_address: 127.0.0.1:8080 is the address already; give each a port of its own"],
        ),
        ("[timings]\ncomeback = -1\n" + PARTIES, ["timings.comeback: must be a number of seconds above 0"]),
        (
            '[parties.shop]\naddress = "127.0.0.1:1"\n',
            ["parties.shop: its certificate is not in the trust store"],
        ),
        ("[parties.bank]\n", ["parties.bank: address: missing"]),
        (
            '[parties.bank]\naddress = "x"\n[parties.clinic]\n',
            ["parties.bank: address", "parties.clinic: address"],
        ),
        ('[parties.assembler]\naddress = "127.0.0.1:1"\n', ['"assembler" cannot name a party']),
        ('https = { certificate = "web.pem" }\n' + PARTIES, ["https"]),
        ('https = { certificate = "web.pem", key = "web.key" }\n' + PARTIES, ["there is no file"]),
        ('name = "bank"\n' + PARTIES, ['name: "bank", but the certificate']),
        ("[timings]\nretry = 0\n" + PARTIES, ["timings.retry: must be a number of seconds above 0"]),
    ],
)
def test_what_is_wrong_with_the_settings_is_told_line_by_line(
    trial: Path, text: str, lines: list[str]
) -> None:
    with pytest.raises(ParameterError) as caught:
        read(trial, text)
    told = "\n".join(caught.value.problems)
    for line in lines:
        assert line in told
    assert all(str(trial) in each for each in caught.value.problems)


def test_identity_trust_certificates_and_parties_are_told_together(trial: Path) -> None:
    head = 'identity = "nowhere"\ntrust = "nobody"\nhttps = { certificate = "web.pem", key = "web.key" }\n'
    with pytest.raises(ParameterError) as caught:
        read(trial, '[parties.assembler]\naddress = "127.0.0.1:1"\n[parties.bank]\n', head=head)
    told = caught.value.problems
    assert len(told) == 6
    for place in ("nowhere", "nobody", "parties.assembler", "parties.bank: address", "web.pem", "web.key"):
        assert sum(place in line for line in told) == 1
    with pytest.raises(ParameterError) as caught:
        read(trial, 'name = "Me"\n[parties.shop]\naddress = "127.0.0.1:1"\n')
    name, party = caught.value.problems
    assert '"Me" cannot name a party' in name
    assert "parties.shop: its certificate is not in the trust store" in party
    assert not (trial / "state").exists()


def test_settings_that_are_not_there_are_named(trial: Path) -> None:
    with pytest.raises(ParameterError, match="no such configuration"):
        Settings.load(trial / "other.toml")


@pytest.mark.parametrize(
    ("address", "loopback"),
    [
        ("127.0.0.1:1", True),
        ("127.8.8.8:1", True),
        ("[::1]:1", True),
        ("localhost:1", True),
        ("0.0.0.0:1", False),
        ("10.0.0.1:1", False),
        ("example.org:1", False),
        ("[::]:1", False),
    ],
)
def test_loopback_is_this_machine_alone(address: str, loopback: bool) -> None:
    assert is_loopback(address) is loopback


# --- who may see what, without any party ---


@pytest.fixture
def coordinator(trial: Path, tmp_path: Path) -> Iterator[Coordinator]:
    found = read(trial, PARTIES, head=f'{HEAD}state = "{tmp_path / "state"}"\n')
    with Coordinator(found, clock=HandClock()) as made:
        made.directory.take_in(Published("bank", (PublishedDataset(BANK, public=True, sessions=2),)), "bank")
        clinic = PublishedDataset(CLINIC, users=("ana", "cleo"), sessions=1)
        made.directory.take_in(Published("clinic", (clinic,)), "clinic")
        yield made


def user(coordinator: Coordinator, name: str, role: str = "analyst") -> User:
    return coordinator.store.users.add(name, "no hash", Role(role))


def test_a_private_dataset_looks_as_if_it_were_not_there(coordinator: Coordinator) -> None:
    ana, ben = user(coordinator, "ana"), user(coordinator, "ben")
    assert [each.party for each in coordinator.providers(ana)] == ["bank", "clinic"]
    assert [each.party for each in coordinator.providers(ben)] == ["bank"]
    with pytest.raises(NotFound):
        coordinator.provider(ben, "clinic")
    assert coordinator.preview(ana, WISH).problems == ()
    assert coordinator.preview(ben, WISH).problems == ('attributes: no party offers "age"',)
    with pytest.raises(ParameterError, match='no party offers "age"'):
        coordinator.ask(ben, WISH)
    assert coordinator.ask(ana, WISH).providers == ("bank", "clinic")


def test_an_account_that_is_younger_than_the_cards_may_ask(coordinator: Coordinator) -> None:
    cleo = user(coordinator, "cleo")  # the clinic named her before she had an account
    assert coordinator.ask(cleo, WISH).status is Status.REQUESTED


def test_a_party_publishes_in_its_own_name_alone(coordinator: Coordinator) -> None:
    with pytest.raises(PeerRefused, match="in the name of clinic"):
        coordinator.directory.take_in(Published("clinic", ()), "bank")
    with pytest.raises(PeerRefused, match="in the name of clinic"):
        coordinator.directory.take_in(Published("bank", (PublishedDataset(CLINIC),)), "bank")
    assert coordinator.directory.published("clinic") is not None


def test_who_asks_is_whoever_signed_in(coordinator: Coordinator) -> None:
    ana = user(coordinator, "ana")
    user(coordinator, "root", "admin")
    session = coordinator.ask(ana, WISH | {"user": "root"})
    assert session.client == session.request["user"] == "ana"


def test_a_preview_stores_nothing_and_tells_all_problems(coordinator: Coordinator) -> None:
    ana = user(coordinator, "ana")
    found = coordinator.preview(ana, {"attributes": ["age"], "colour": 1})
    assert len(found.problems) == 2
    assert any("colour" in line for line in found.problems)
    assert any("purpose" in line for line in found.problems)
    good = coordinator.preview(ana, WISH)
    assert good.contributors == {"age": ("clinic",), "job": ("bank",)}
    assert good.requirement == ("k-anonymity (k = 5) over age, job",)
    assert coordinator.sessions(ana) == []


def test_only_the_client_decides_and_an_admin_may_cancel(coordinator: Coordinator) -> None:
    ana, ben, root = user(coordinator, "ana"), user(coordinator, "ben"), user(coordinator, "root", "admin")
    session = coordinator.ask(ana, WISH | {"recipients": ["ana", "ben"]})
    assert coordinator.session(ben, session.id).id == session.id
    with pytest.raises(NotAllowed):
        coordinator.cancel(ben, session.id)
    for decide in (coordinator.accept, coordinator.withdraw):
        with pytest.raises(Conflict):
            decide(ana, session.id)
        with pytest.raises(NotAllowed):
            decide(root, session.id)
    with pytest.raises(Conflict):
        coordinator.relax(ana, session.id, {})
    assert coordinator.cancel(root, session.id).cause == "cancelled by root"
    with pytest.raises(Conflict, match="cancelled already"):
        coordinator.cancel(ana, session.id)


def test_a_waiting_session_expires_at_its_deadline(coordinator: Coordinator) -> None:
    ana = user(coordinator, "ana")
    clock = coordinator.clock
    assert isinstance(clock, HandClock)
    soon = int(clock().timestamp()) + 60
    session = coordinator.ask(ana, WISH | {"deadline": soon})
    late = coordinator.ask(ana, WISH | {"deadline": 2**53 - 1})
    clock.tick(seconds=61)
    housekeeping.retire(coordinator)
    assert coordinator.session(ana, session.id).status is Status.EXPIRED
    assert coordinator.session(ana, late.id).status is Status.REQUESTED
    clock.tick(days=7)
    housekeeping.retire(coordinator)
    assert coordinator.session(ana, late.id).status is Status.EXPIRED


def test_a_deadline_that_has_passed_is_refused_at_once(coordinator: Coordinator) -> None:
    ana = user(coordinator, "ana")
    now = int(coordinator.clock().timestamp())
    for over in (0, now - 1, now):
        late = WISH | {"deadline": over}
        with pytest.raises(
            ParameterError, match=r"request: deadline: .*Z has passed, it is .*; give a later one"
        ):
            coordinator.ask(ana, late)
        (told,) = coordinator.preview(ana, late).problems
        assert told.startswith("deadline: ")
    assert coordinator.sessions(ana) == []
    assert coordinator.preview(ana, WISH | {"deadline": now + 1}).problems == ()


def test_retention_deletes_the_files_and_a_restart_sweeps_what_has_no_row(coordinator: Coordinator) -> None:
    ana = user(coordinator, "ana")
    clock, store, folder = coordinator.clock, coordinator.store, coordinator.settings.releases
    assert isinstance(clock, HandClock)
    session = agreed(store, coordinator.ask(ana, WISH))
    for status in (Status.QUEUED, Status.RUNNING, Status.ASSEMBLING):
        session = store.sessions.advance(session, status)
    made = folder / session.id
    made.mkdir()
    (made / "release.csv").write_text("age\n*\n")
    release = new_release(store, f"{session.id}/release", days=3)
    release = type(release)(**{**release.__dict__, "snapshots": {"bank": "b1", "clinic": "c1"}})
    store.releases.publish(session, release)
    (folder / f".{session.id}.0011").mkdir()
    (folder / "orphan").mkdir()
    (folder / "orphan" / "release.csv").write_text("age\n")
    housekeeping.after_restart(coordinator)
    assert [each.name for each in folder.iterdir()] == [session.id]
    housekeeping.retire(coordinator)
    assert coordinator.table(ana, session.id).read_text() == "age\n*\n"
    clock.tick(days=3)
    housekeeping.retire(coordinator)
    assert list(folder.iterdir()) == []
    with pytest.raises(NotFound):
        coordinator.table(ana, session.id)


def test_a_session_with_a_party_that_is_gone_from_the_settings_fails_at_the_restart(
    coordinator: Coordinator, trial: Path
) -> None:
    ana = user(coordinator, "ana")
    session = coordinator.ask(ana, WISH)
    head = f'{HEAD}state = "{coordinator.settings.state}"\n'
    fewer = read(trial, '[parties.clinic]\naddress = "127.0.0.1:7002"\n', head=head)
    with Coordinator(fewer) as later:
        housekeeping.after_restart(later)
        ended = later.session(ana, session.id)
        assert ended.status is Status.FAILED
        assert ended.cause == "party bank: is not among the parties of this coordinator any more"
        assert [each.party for each in later.providers(ana)] == ["clinic"]


def test_health_tells_who_is_there_and_what_waits(coordinator: Coordinator) -> None:
    found = coordinator.health()
    assert (found["ready"], found["database"], found["queue"]) == (True, "ok", 0)
    assert set(found["parties"]) == {"bank", "clinic"}
    coordinator.directory.answered("bank", False)
    assert coordinator.health()["parties"]["bank"]["reachable"] is False
    json.dumps(found)


# --- discovery ---


def dataset(party: str, name: str, *columns: str) -> PublishedDataset:
    card = SchemaCard(
        party, name, "id", tuple(ColumnCard(each, "categorical") for each in columns), "00" * 32
    )
    return PublishedDataset(card, public=True)


def problems(offered: dict[str, tuple[PublishedDataset, ...]], **wish: Any) -> tuple[str, ...]:
    return find(read_request({"purpose": "p", **wish}), offered).problems


def test_discovery_names_what_stands_against_a_request() -> None:
    offered = {
        "bank": (dataset("bank", "a", "age", "job"), dataset("bank", "b", "town")),
        "shop": (dataset("shop", "c", "job", "colour", "income"),),
    }
    assert problems(offered, attributes=["age", "colour"]) == ()
    assert "held by bank and shop; name one" in problems(offered, attributes=["job", "age"])[0]
    assert problems(offered, attributes=["job", "age"], providers={"job": "shop"}) == ()
    assert (
        '"bank" does not offer "colour"'
        in problems(offered, attributes=["age", "colour"], providers={"colour": "bank"})[0]
    )
    assert "one dataset of each party" in problems(offered, attributes=["age", "town", "colour"])[0]
    assert "at least two parties" in problems(offered, attributes=["age"])[0]
    assert (
        'no party offers "agee" (did you mean "age"?)' in problems(offered, attributes=["agee", "colour"])[0]
    )
    assert (
        'class: no party offers "rich"'
        in problems(offered, attributes=["age", "colour"], **{"class": "rich"})[0]
    )
    three = {**offered, "club": (dataset("club", "d", "hair"),)}
    (told,) = problems(three, attributes=["age", "hair"], **{"class": "income"})
    assert "held by shop, which contributes none" in told


@given(
    st.lists(st.sampled_from(["job", "salary", "age", "town", "disease", "colour"]), min_size=1, unique=True)
)
@settings(max_examples=40, deadline=None)
def test_a_party_takes_part_exactly_when_it_contributes(attributes: list[str]) -> None:
    cards = (BANK, CLINIC, SHOP)
    offered = {card.party: (PublishedDataset(card, public=True),) for card in cards}
    found = find(read_request({"purpose": "p", "attributes": attributes}), offered)
    holding = {card.party for card in cards if set(card.names) & set(attributes)}
    assert set(found.parties) == holding
    assert bool(found.problems) is (len(holding) < 2)


# --- causes ---


def failed(kind: str, *lines: str, culprit: str | None = None) -> Progress:
    return Progress("failed", problems=lines, kind=kind, culprit=culprit)


@pytest.mark.parametrize(
    ("told", "ours", "kind", "text"),
    [
        (
            {"a": failed("NoCommonRecords", "nobody"), "b": failed("NoCommonRecords", "nobody")},
            PeerError("a", "gave up"),
            NoCommonRecords,
            "nobody",
        ),
        (
            {"a": failed("DataError", "row 3"), "b": failed("PeerError", "party a: gave up", culprit="a")},
            PeerError("a", "gave up"),
            BadInput,
            "party a: row 3",
        ),
        (
            {"a": PeerUnreachable("a", "nobody answers"), "b": failed("PeerUnreachable", "x", culprit="a")},
            PeerError("b", "gave up"),
            PeerUnreachable,
            "party a: nobody answers",
        ),
        (
            {"a": Progress("running"), "b": failed("PeerUnreachable", "party a: silent", culprit="a")},
            PeerError("b", "gave up"),
            PeerError,
            "party a: silent",
        ),
        (
            {"a": PeerRefused("a", "no such session"), "b": Progress("running")},
            None,
            PeerUnreachable,
            "party a: ",
        ),
        ({"a": Progress("done"), "b": Progress("done")}, Conflict("moved"), Conflict, "moved"),
        ({"a": Progress("cancelled"), "b": Progress("running")}, None, PeerError, "party a: "),
        ({"a": failed("os.system", "x", culprit="zoe")}, None, PeerError, "party a: x"),
        (  # nobody can tell which party it was: the one that noticed is heard, and no messenger blamed
            {
                "a": failed("PeerBrokeProtocol", "one of the parties: broke it (party c reports it)"),
                "b": failed("PeerBrokeProtocol", "one of the parties: broke it (party c reports it)"),
                "c": failed("PeerBrokeProtocol", "one of the parties: a or b cheated"),
            },
            PeerBrokeProtocol("", "broke it (party c reports it)"),
            PeerBrokeProtocol,
            "one of the parties: a or b cheated",
        ),
    ],
)
def test_the_first_cause_is_named(
    told: dict[str, Any], ours: MasqueradeError | None, kind: type[MasqueradeError], text: str
) -> None:
    error = first_cause(told, ours)
    assert isinstance(error, kind)
    assert str(error).startswith(text)


# --- quality ---


def people(rows: int, noise: float) -> pa.Table:
    rng = np.random.default_rng(3)
    age = rng.integers(0, 4, rows)
    labels = np.array(["[-inf, 20)", "[20, 40)", "[40, 60)", "[60, inf)"])
    rich = (age >= 2) != (rng.random(rows) < noise)
    return pa.table(
        {"age": labels[age], "job": rng.choice(["a", "b"], rows), "income": np.where(rich, "high", "low")}
    )


def test_the_error_on_held_out_rows_is_what_was_put_in() -> None:
    assert classification_error(people(2000, 0.0), "income") == 0
    error = classification_error(people(3000, 0.2), "income")
    assert error is not None
    assert abs(error - 0.2) < 0.05
    assert classification_error(people(3000, 0.2), "income") == error
    guess = classification_error(people(3000, 0.0).select(["job", "income"]), "income")
    assert guess is not None
    assert guess > 0.4
    assert classification_error(people(3, 0.0), "income") is None
    assert classification_error(people(50, 0.0).select(["income"]), "income") is not None


# --- what wakes the background work ---


def test_whoever_is_cancelled_when_the_bell_rings_ends() -> None:
    """Otherwise a coordinator that is told to end while a party publishes would run on for ever."""

    async def both_at_once() -> bool:
        wake = Wake()
        wake.attach()
        waiting = asyncio.create_task(wake.wait(60))
        await asyncio.sleep(0)
        wake.ring()
        asyncio.get_running_loop().call_soon(waiting.cancel)  # after the bell, before whoever waits goes on
        await asyncio.wait({waiting})
        return waiting.cancelled()

    assert asyncio.run(both_at_once())


# --- where it listens ---


@pytest.mark.parametrize("key", ["address", "party_address"])
def test_an_address_that_is_taken_is_named_with_its_key(trial: Path, tmp_path: Path, key: str) -> None:
    async def served(made: Coordinator) -> None:
        async with serving(made, Starlette()):
            raise AssertionError("it listens")

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        own = {"address": "127.0.0.1:0", "party_address": "127.0.0.1:0"}
        own[key] = f"127.0.0.1:{taken.getsockname()[1]}"
        lines = "".join(f'{name} = "{address}"\n' for name, address in own.items())
        found = read(trial, lines + PARTIES, head=f'{HEAD}state = "{tmp_path / "state"}"\n')
        with Coordinator(found) as made, pytest.raises(ParameterError) as caught:
            asyncio.run(served(made))
    told = f"{found.path}: {key}: {own[key]}: cannot listen here; is the port taken"
    assert str(caught.value).startswith(told)


def test_what_the_party_server_has_not_is_told_as_a_problem(trial: Path, tmp_path: Path) -> None:
    found = read(trial, PARTIES, head=f'{HEAD}state = "{tmp_path / "state"}"\n')
    with Coordinator(found) as made:
        app = party_app(found, made.directory, made.wake)
        asked = httpx.ASGITransport(app)

        async def answers() -> list[httpx.Response]:
            async with httpx.AsyncClient(transport=asked, base_url="http://coordinator") as caller:
                return [await caller.get("/v1/nothing"), await caller.get("/v1/datasets")]

        missing, wrong = asyncio.run(answers())
    assert (missing.status_code, wrong.status_code) == (404, 405)
    for answer in (missing, wrong):
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["status"] == answer.status_code
    assert missing.json()["problems"] == ["GET /v1/nothing: there is no such address"]
    assert wrong.headers["allow"] == "POST"


# --- files and the log's end ---


def test_files_stay_in_their_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("x")
    files = Files(tmp_path / "releases")
    files.folder.mkdir()
    for path in ("../secret.csv", "/etc/passwd", "none/release.csv", "."):
        with pytest.raises(NotFound):
            files.whole(path)
    files.remove("../secret.csv")
    assert (tmp_path / "secret.csv").exists()
    with pytest.raises(ParameterError, match="csv, parquet"):
        files.table("a/release.csv", "../x")


def test_the_tail_of_the_log_is_its_last_records(trial: Path, tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    assert audit_tail(path) == []
    with AuditLog(path, Identity.load(trial / "bank"), durable=False) as log:
        for number in range(300):
            log.append("thing", {"number": number, "text": "x" * 500})
    tail = audit_tail(path, 7)
    assert [each["fields"]["number"] for each in tail] == list(range(293, 300))
    assert len(audit_tail(path, 1000)) == len(path.read_text().splitlines())
    with pytest.raises(ParameterError):
        audit_tail(path, 0)
