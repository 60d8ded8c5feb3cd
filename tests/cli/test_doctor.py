"""`doctor`: recognises each kind of configuration, tells what is wrong with all that it names, and keeps secrets."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from cli.command import Answer, here
from conftest import PASSWORD
from library.live_api import REQUEST, live_api
from masquerade import __version__
from masquerade.audit import AuditLog
from masquerade.doctor import examine
from masquerade.doctor.checks import CheckResult, clock_check
from masquerade.doctor.service import database_checks, state_checks
from masquerade.net import PROTOCOL_VERSION, Identity, TrustStore, fingerprint, self_signed
from masquerade.progress import Stage
from masquerade.service import Health, NodeSettings, StateFolder, Store
from masquerade.service.wire.peers import serve
from service_house import House

if TYPE_CHECKING:
    from conftest import Postgres

Capture = pytest.CaptureFixture[str]


def visit(capsys: Capture, conf: Path) -> tuple[Answer, dict[str, list[dict[str, str]]]]:
    """What doctor says in JSON, by the checks' names."""
    answer = here(capsys, "doctor", conf, "--json")
    told = answer.json
    assert set(told) == {"configuration", "kind", "ok", "checks"}
    found: dict[str, list[dict[str, str]]] = {}
    for check in told["checks"]:
        assert set(check) == {"name", "status", "detail", "advice"}
        assert check["status"] in ("ok", "warning", "error")
        assert "\n" not in check["detail"] + check["advice"]
        found.setdefault(check["name"], []).append(check)
    errors = [each for checks in found.values() for each in checks if each["status"] == "error"]
    assert told["ok"] == (answer.code == 0) == (not errors)
    assert len(answer.problems) == len(errors)  # each is told on standard error too
    return answer, found


def worst(checks: list[dict[str, str]]) -> str:
    found = {check["status"] for check in checks}
    return next(status for status in ("error", "warning", "ok") if status in found)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """Configurations of a coordinator and two parties, of which nobody runs."""
    with House(tmp_path / "house", processes=True) as built:
        yield built


@contextmanager
def answering(house: House, party: str, **health: Any) -> Iterator[None]:
    """Somebody with this party's certificate who says he is well, in his own words."""
    now = health.pop("clock", time.time)
    said = {"name": party, "version": __version__, "certificate_until": 0, "protocol": PROTOCOL_VERSION} | health

    def tell(_request: object) -> Response:
        return Response(msgspec.json.encode(Health(now=now(), **said)), media_type="application/json")

    app = Starlette(routes=[Route("/v1/health", tell)])
    folder, address = house.folder / party, f"127.0.0.1:{house.ports[party]}"
    identity, trust = Identity.load(folder), TrustStore.load(folder / "trust")
    ready, stop = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def listen() -> None:
        async with serve(app, address, identity, trust):
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=[listen()])
    thread.start()
    assert ready.wait(60)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(60)
        loop.close()


@pytest.mark.system
def test_a_whole_house_is_well(house: House, capsys: Capture) -> None:
    house.start_nodes()
    house.serve()
    for conf, peers in (("coordinator", ("bank", "clinic")), ("bank", ("coordinator",))):
        answer, found = visit(capsys, house.folder / f"{conf}.toml")
        assert answer.code == 0, answer.err
        assert answer.json["kind"] == ("coordinator" if conf == "coordinator" else "party")
        for peer in peers:
            for check in (f"peer {peer}", f"clock {peer}", f"version {peer}"):
                assert worst(found[check]) == "ok", check
        for check in ("configuration", "identity", "trust", "state", "audit", "key"):
            assert worst(found[check]) == "ok", check
    assert worst(found["dataset people"]) == "ok"
    assert worst(found["peer clinic"]) == "ok"  # the coordinator knows the same certificate
    assert "1 dataset" in found["configuration"][0]["detail"].split(", ")
    for owner in ("bank", "clinic", "coordinator"):  # a fresh trial is nothing to be warned of
        assert worst(found[f"certificate of {owner}"]) == "ok"
    assert "180 records" in found["dataset people"][0]["detail"]
    lines = here(capsys, "doctor", house.folder / "coordinator.toml").out.splitlines()
    assert "ok       peer bank: answers at" in "\n".join(lines)
    assert any(line.startswith("ok       database: ") for line in lines)
    _other_certificates(house, capsys)


def _other_certificates(house: House, capsys: Capture) -> None:
    """What a party pinned for its peers is compared with what the coordinator knows."""
    pinned = house.folder / "bank" / "trust" / "clinic.pem"
    right = pinned.read_bytes()
    stranger = self_signed("clinic", 300)
    pinned.write_bytes(stranger.certificate)
    answer, found = visit(capsys, house.folder / "bank.toml")
    assert answer.code == 1
    (clinic,) = found["peer clinic"]
    assert clinic["status"] == "error"
    for part in (str(pinned), stranger.fingerprint, fingerprint(right), "no contract with it"):
        assert part in clinic["detail"]
    assert "ask the steward of clinic" in clinic["advice"]
    pinned.unlink()
    answer, found = visit(capsys, house.folder / "bank.toml")
    assert answer.code == 0  # it may never compute with it
    (clinic,) = found["peer clinic"]
    assert clinic["status"] == "warning"
    assert fingerprint(right) in clinic["advice"]
    assert f"identity trust add FILE --store {pinned.parent} " in clinic["advice"]
    assert not pinned.exists()  # nothing is taken over


def test_a_coordinator_that_does_not_know_the_question(house: House, capsys: Capture) -> None:
    house.ports["coordinator"] = house.party_port
    with answering(house, "coordinator"):
        answer, found = visit(capsys, house.folder / "bank.toml")
    assert answer.code == 0, answer.err
    assert found["peers"][0]["status"] == "warning"
    assert "stewards by hand" in found["peers"][0]["advice"]


def test_nobody_is_asked_where_nobody_is_named(house: House) -> None:
    path = house.folder / "coordinator.toml"
    path.write_text(path.read_text().partition("[parties.")[0] + "[parties]\n")
    stages: list[Stage] = []
    assert not examine(path, stages.append).ok
    assert stages == [Stage("reading the audit log"), Stage("asking the database")]


def test_nobody_runs(house: House, capsys: Capture) -> None:
    answer, found = visit(capsys, house.folder / "coordinator.toml")
    assert answer.code == 3
    assert [each for each in found if worst(found[each]) == "error"] == ["peer bank", "peer clinic"]
    assert "nobody answers" in found["peer bank"][0]["detail"]
    assert worst(found["database"]) == worst(found["state"]) == "warning"
    assert not (house.folder / "coordinator-state").exists()  # a look makes nothing
    answer, found = visit(capsys, house.folder / "bank.toml")
    assert answer.code == 3
    assert not (house.folder / "bank-state").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "nothing.toml"),
        ("", "neither"),
        ("colour = 1", "neither"),
        ("= broken", "TOML"),
        ("[datasets.people]\n", "source"),
        ("[parties.bank]\n", "identity.pem"),
        ('coordinator = "http://far.example"\n', "plain http"),
    ],
)
def test_a_bad_file_or_none(tmp_path: Path, capsys: Capture, text: str | None, said: str) -> None:
    conf = tmp_path / ("nothing.toml" if text is None else "conf.toml")
    if text is not None:
        conf.write_text(text)
    answer, found = visit(capsys, conf)
    assert answer.code == 2
    assert any(said in check["detail"] for check in found["configuration"])


def test_a_bad_key_does_not_hide_the_rest(house: House, capsys: Capture) -> None:
    path = house.folder / "bank.toml"
    path.write_text("colour = 1\n" + path.read_text())
    answer, found = visit(capsys, path)
    assert answer.code == 2
    assert "colour" in found["configuration"][0]["detail"]
    assert worst(found["identity"]) == "ok"
    assert worst(found["peer coordinator"]) == "error"


def test_keys_and_certificates(house: House, capsys: Capture) -> None:
    bank = house.folder / "bank"
    (bank / "key.pem").chmod(0o644)
    answer, found = visit(capsys, house.folder / "bank.toml")
    assert worst(found["key"]) == "error"
    assert "chmod 600" in found["key"][0]["advice"]
    (bank / "key.pem").chmod(0o640)
    assert worst(visit(capsys, house.folder / "bank.toml")[1]["key"]) == "warning"
    (bank / "key.pem").chmod(0o600)
    shutil.copy(house.folder / "clinic" / "key.pem", bank / "key.pem")
    answer, found = visit(capsys, house.folder / "bank.toml")
    assert answer.code == 2
    assert "is not the one of bank's certificate" in found["identity"][0]["detail"]
    assert "PRIVATE" not in answer.out + answer.err
    shutil.copy(house.folder / "clinic" / "identity.pem", bank / "identity.pem")
    assert '"clinic"' in visit(capsys, house.folder / "bank.toml")[1]["identity"][0]["detail"]
    shutil.rmtree(bank / "trust")
    assert "no such folder" in visit(capsys, house.folder / "bank.toml")[1]["trust"][0]["detail"]


def test_certificates_that_end(house: House, capsys: Capture) -> None:
    trust = house.folder / "coordinator" / "trust"
    for days, status in ((10, "warning"), (30, "ok"), (300, "ok")):
        (trust / "bank.pem").write_bytes(self_signed("bank", days).certificate)
        assert worst(visit(capsys, house.folder / "coordinator.toml")[1]["certificate of bank"]) == status
    (trust / "clinic.pem").unlink()
    answer, found = visit(capsys, house.folder / "coordinator.toml")
    assert answer.code == 2
    assert found["trust"][0]["status"] == "error"
    assert f"identity trust add FILE --store {trust} " in found["trust"][0]["advice"]
    assert "certificate of clinic" not in found


def test_clocks_and_versions(house: House, capsys: Capture) -> None:
    conf = house.folder / "coordinator.toml"
    with (
        answering(house, "bank", clock=lambda: time.time() + 4000, version="0.0.1"),
        answering(house, "clinic", clock=lambda: time.time() - 4000, protocol=PROTOCOL_VERSION + 1),
    ):
        answer, found = visit(capsys, conf)
    assert answer.code == 1
    (bank,), (clinic,) = found["clock bank"], found["clock clinic"]
    assert (bank["status"], clinic["status"]) == ("error", "error")
    assert "ahead of ours" in bank["detail"]
    assert "behind ours" in clinic["detail"]
    assert worst(found["version bank"]) == "warning"
    assert worst(found["version clinic"]) == "error"
    assert "update Masquerade here" in found["version clinic"][0]["advice"]
    with answering(house, "bank", name="loans"):
        answer, found = visit(capsys, conf)
    assert answer.code == 3
    assert "calls itself loans" in found["peer bank"][0]["detail"]


@pytest.mark.parametrize(
    ("now", "status"),
    [(100, "ok"), (102, "ok"), (104, "ok"), (110, "warning"), (90, "warning"), (300, "error"), (-100, "error")],
)
def test_a_clock_is_judged_by_what_is_certain(now: float, status: str) -> None:
    assert clock_check("bank", now, before=99, after=101).status == status


def test_a_slow_answer_is_no_wrong_clock() -> None:
    assert clock_check("bank", 150, before=100, after=160).status == "ok"
    assert clock_check("bank", 95.5, before=101, after=101, grain=1.0).status == "ok"


def test_strangers_are_told_apart(house: House, capsys: Capture) -> None:
    trust = house.folder / "coordinator" / "trust" / "bank.pem"
    known = trust.read_bytes()
    with answering(house, "bank"):
        trust.write_bytes(self_signed("bank", 300).certificate)
        answer, found = visit(capsys, house.folder / "coordinator.toml")
        assert answer.code == 3
        assert "not the one in our trust store" in found["peer bank"][0]["detail"]
        trust.write_bytes(known)
    (house.folder / "bank" / "trust" / "coordinator.pem").write_bytes(self_signed("coordinator").certificate)
    with answering(house, "bank"):
        answer, found = visit(capsys, house.folder / "coordinator.toml")
        assert "refuses our certificate" in found["peer bank"][0]["detail"]


def test_data_that_is_wrong(house: House, capsys: Capture) -> None:
    table = house.folder / "bank.csv"
    lines = table.read_text().splitlines()
    table.write_text("\n".join([*lines, lines[1]]) + "\n")
    _, found = visit(capsys, house.folder / "bank.toml")
    (check,) = found["dataset people"]
    assert check["status"] == "error"
    assert "the same identifier" in check["detail"]
    table.write_text("\n".join(line.replace("salary", "wages") for line in lines) + "\n")
    assert 'no column "salary"' in visit(capsys, house.folder / "bank.toml")[1]["dataset people"][0]["detail"]
    (house.folder / "jobs.csv").write_text("baker;Any\n")
    conf = house.folder / "bank.toml"
    table.write_text("\n".join(lines) + "\n")
    conf.write_text(conf.read_text().replace('taxonomy = "flat"', 'taxonomy = "jobs.csv"'))
    assert worst(visit(capsys, conf)[1]["dataset people"]) == "error"
    table.unlink()
    assert "no such file" in visit(capsys, conf)[1]["dataset people"][0]["detail"]


def test_state_and_audit_log(house: House, capsys: Capture) -> None:
    state = house.folder / "bank-state"
    state.mkdir(mode=0o755)
    bank = Identity.load(house.folder / "bank")
    with AuditLog(state / "audit.jsonl", bank, durable=False) as log:
        log.contract(b"{}")
    (state / "secrets").mkdir()
    (state / "secrets" / "people.key").write_bytes(bytes(32))
    (state / "secrets" / "people.key").chmod(0o644)
    conf = house.folder / "bank.toml"
    _, found = visit(capsys, conf)
    assert worst(found["state"]) == "warning"
    assert worst(found["secret"]) == "error"
    assert worst(found["audit"]) == "ok"
    assert "sealed up to record" in found["audit"][0]["detail"]
    log_lines = (state / "audit.jsonl").read_bytes()
    (state / "audit.jsonl").write_bytes(log_lines.replace(b"contract", b"contrast", 1))
    _, found = visit(capsys, conf)
    assert worst(found["audit"]) == "error"
    assert "line 3: wrong hash" in found["audit"][0]["detail"]
    shutil.rmtree(state)
    state.write_text("a file")
    assert worst(visit(capsys, conf)[1]["state"]) == "error"


def test_what_a_node_runs_by_and_has_published(house: House, capsys: Capture) -> None:
    conf, state = house.folder / "bank.toml", StateFolder(house.folder / "bank-state")
    state.make()
    state.note_configuration(NodeSettings.load(conf).digest)
    _, found = visit(capsys, conf)
    assert [check["status"] for check in found["configuration"]] == ["ok"]
    assert worst(found["snapshots"]) == "ok"
    (state.folder / "snapshots.json").write_text("[")
    conf.write_text(conf.read_text().replace("least_k = 2", "least_k = 3"))
    _, found = visit(capsys, conf)
    assert worst(found["configuration"]) == "warning"
    assert "the node runs by an older configuration" in found["configuration"][1]["detail"]
    assert worst(found["snapshots"]) == "error"
    assert f"{state.folder / 'snapshots.json'}: cannot be read" in found["snapshots"][0]["detail"]
    assert "remove it to begin anew" in found["snapshots"][0]["detail"]


def test_an_audit_log_that_was_emptied_and_one_that_two_certificates_have_sealed(tmp_path: Path) -> None:
    state, home = tmp_path / "state", tmp_path / "identity"
    state.mkdir(mode=0o700)
    before, now = self_signed("bank"), self_signed("bank")
    now.save(home)
    AuditLog(state / "audit.jsonl", before).close()
    with AuditLog(state / "audit.jsonl", now) as log:
        log.seal()

    def audit() -> CheckResult:
        return next(check for check in state_checks(state, now, home) if check.name == "audit")

    assert audit().status == "warning"
    assert "put the earlier one beside it" in audit().advice
    (home / "identity-2025.pem").write_bytes(before.certificate)
    assert (audit().status, audit().detail) == ("ok", "whole: 4 records, 0 sessions, sealed up to record 4")
    for harm in (lambda path: path.write_bytes(b""), Path.unlink):
        harm(state / "audit.jsonl")
        assert audit().status == "error"
        assert "nothing is there, but 4 records were written" in audit().detail


def test_the_coordinators_database(house: House, capsys: Capture) -> None:
    state = house.folder / "coordinator-state"
    state.mkdir(mode=0o700)
    (state / "coordinator.db").write_text("no database at all, and long enough to be read as one" * 9)
    conf = house.folder / "coordinator.toml"
    assert worst(visit(capsys, conf)[1]["database"]) == "error"
    (state / "coordinator.db").unlink()
    sqlite3.connect(state / "coordinator.db").close()
    _, found = visit(capsys, conf)
    assert worst(found["database"]) == "warning"
    assert "empty" in found["database"][0]["detail"]
    Store.open("sqlite:///coordinator.db", base=state).close()
    assert worst(visit(capsys, conf)[1]["database"]) == "ok"
    with sqlite3.connect(state / "coordinator.db") as database:
        database.execute("UPDATE masquerade_version SET version_num = '9999'")
    database.close()
    assert "newer version" in visit(capsys, conf)[1]["database"][0]["detail"]


def test_a_password_of_the_database_is_never_shown(postgres: Postgres) -> None:
    for password in ("Zw3i%2FHerzen%407", "wrong-and-secret"):
        (check,) = database_checks(postgres.as_steward(password), Path())
        assert PASSWORD not in check.line
        assert password not in check.line
        assert "steward:***@" in check.line
    assert check.status == "error"
    (check,) = database_checks("postgresql://steward:hush@127.0.0.1:1/db", Path())
    assert (check.status, "hush" in check.line) == ("error", False)
    (check,) = database_checks("mysql://steward:hush@127.0.0.1:1/db", Path())
    assert (check.status, "hush" in check.line) == ("error", False)


def test_https(house: House, capsys: Capture) -> None:
    web, other = self_signed("web", 300), self_signed("web", 10)
    web.save(house.folder / "web")
    other.save(house.folder / "other")

    def told(certificate: str, key: str) -> list[dict[str, str]]:
        house.write_coordinator(f'https = {{ certificate = "{certificate}", key = "{key}" }}')
        return visit(capsys, house.folder / "coordinator.toml")[1]["https"]

    assert worst(told("web/identity.pem", "web/key.pem")) == "ok"
    assert worst(told("other/identity.pem", "other/key.pem")) == "warning"
    mixed = told("web/identity.pem", "other/key.pem")
    assert worst(mixed) == "error"
    assert any("do not belong together" in check["detail"] for check in mixed)
    (house.folder / "web" / "key.pem").chmod(0o644)
    assert worst(told("web/identity.pem", "web/key.pem")) == "error"


def test_a_client(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MASQUERADE_TOKEN", raising=False)
    conf, token = tmp_path / "client.toml", tmp_path / "token"
    request = f"[request]\npurpose = {json.dumps(REQUEST['purpose'])}\nattributes = {REQUEST['attributes']}\n"
    with live_api(tmp_path / "api") as api:
        token.touch(0o600)
        token.write_text(api.token)
        conf.write_text(f'coordinator = "{api.url}"\ntoken_file = "token"\n{request}')
        answer, found = visit(capsys, conf)
        assert answer.code == 0, answer.err
        assert answer.json["kind"] == "client"
        assert "knows us as ana" in found["coordinator"][0]["detail"]
        assert [worst(found[each]) for each in ("clock coordinator", "providers", "request", "token")] == ["ok"] * 4
        assert api.token not in answer.out
        conf.write_text(conf.read_text().replace('"age"', '"agent"').replace("'age'", "'agent'"))
        answer, found = visit(capsys, conf)
        assert answer.code == 1
        assert "agent" in found["request"][0]["detail"]
        token.write_text("mq_secret-and-false")
        answer, found = visit(capsys, conf)
        assert answer.code == 1
        assert "token" in found["coordinator"][0]["detail"]
        assert "mq_secret" not in answer.out + answer.err
        assert stat.S_IMODE(token.stat().st_mode) == 0o600
    answer, found = visit(capsys, conf)
    assert answer.code == 3
    assert "nobody answers" in found["coordinator"][0]["detail"]


def test_help_with_an_example(capsys: Capture) -> None:
    told = here(capsys, "doctor", "--help").out
    assert "Example: masquerade doctor party.toml" in told
    assert "--json" in told
