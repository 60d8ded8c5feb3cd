"""The pages about services, followed one after the other with one coordinator, a bank and a clinic."""

from __future__ import annotations

import ast
import asyncio
import io
import json
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

import masquerade as mq
from cli.command import here
from docs import api_page, doctor_page
from docs.services import await_providers, service
from docs.walkthrough import DOCS, Block, Reader, Special, commands, compare, shown
from masquerade.data import write_table
from masquerade.demo.scene import free_addresses

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(
        not (shutil.which("jq") and shutil.which("curl")), reason="the pages read a log with jq, and call with curl"
    ),
]

Capture = pytest.CaptureFixture[str]

N = 200
PASSWORD = "a long password"
K_ANONYMITY = {"model": "k-anonymity", "qid": ["job"], "k": 10}
JOBS = ("Clerk", "Cook", "Nurse", "Smith")

CLINIC = """
name = "clinic"
address = "{clinic}"
identity = "identity"
trust = "identity/trust"
[coordinator]
address = "{parties}"
[datasets.patients]
source = "patients.csv"
id = "ssn"
sensitive = ["disease"]
[datasets.patients.policy]
users = ["ana"]
purposes = ["research"]
least_k = 10
allow_rerelease = true
"""


def write_tables(folder: Path) -> None:
    """The tables behind the pages' configurations."""
    ages = [20 + 7 * row % 60 for row in range(N)]
    customers = {
        "ssn": [f"{row:04}" for row in range(N)],
        "age": ages,
        "job": [JOBS[row % 4] for row in range(N)],
        "salary": [f"{20 + row % 9}" for row in range(N)],
        "income": ["high" if age > 64 else "low" for age in ages],  # a quarter: a guess is seldom wrong
    }
    write_table(pa.table(customers), folder / "bank" / "customers.csv")
    (folder / "bank" / "job.csv").write_text("".join(f"{job};*\n" for job in JOBS))
    patients = {
        "ssn": [f"{row:04}" for row in range(10, N + 10)],
        "disease": [("flu", "ulcer", "asthma")[row % 3] for row in range(N)],
    }
    write_table(pa.table(patients), folder / "clinic" / "patients.csv")


class World:
    """Three folders and an analyst's, and the addresses that stand for those of the pages."""

    def __init__(self, folder: Path, capsys: Capture, services: ExitStack) -> None:
        self.folder, self.capsys, self.services = folder, capsys, services
        people, parties, bank, clinic = free_addresses(4)
        self.url = f"http://{people}"
        self.replaced = {
            "https://coordinator.example:8080": self.url,
            '"--cacert web.pem"': '""',
            'ca = "web.pem" ': "# ",
            ', ca="web.pem"': "",
            "https = {": "# https = {",
            "127.0.0.1:8080": people,
            "coordinator.example:7000": parties,
            "party.toml": "bank.toml",
            "10.0.0.5:7000": parties,
            "127.0.0.1:7000": parties,
            "10.0.0.5:0": "127.0.0.1:0",
            "127.0.0.1:7001": bank,
            "bank.example:7001": bank,
            "clinic.example:7001": clinic,
        }
        names = ("coordinator", "bank", "clinic")
        parts = [word for name in names for word in ("--party", name)] + ["--days", "10"]  # `doctor` warns
        self.ready: list[str] = []  # the line of each service that was started
        assert here(capsys, "identity", "init", folder / "trial", *parts).code == 0
        for name in names:
            (folder / name).mkdir()
            (folder / "trial" / name).rename(folder / name / "identity")
        (folder / "ana").mkdir()
        (folder / "clinic" / "clinic.toml").write_text(CLINIC.format(clinic=clinic, parties=parties))
        write_tables(folder)

    def follow(
        self, page: str, of: str, special: dict[str, Special], monkeypatch: pytest.MonkeyPatch, shelf: str = "howto"
    ) -> Reader:
        """Follow a page in somebody's folder."""
        monkeypatch.chdir(self.folder / of)
        reader = Reader(self.folder / of, self.capsys, special, replaced=self.replaced, figures=False)
        reader.follow(DOCS / shelf / f"{page}.md")
        return reader

    def start(self, reader: Reader, block: Block) -> None:
        """Start a service; the page shows the line by which it says that it is ready."""
        for command, output in shown(block):
            line = self.services.enter_context(service(reader.folder, command))
            self.ready.append(line)
            compare(output, line, command)


def with_password(reader: Reader, command: str) -> None:
    """Run a command that asks for a password, in this process: starting one takes longer than all it does."""
    asked, _, file = command.partition("#")[0].rstrip().partition(" > ")
    before, sys.stdin = sys.stdin, io.StringIO(f"{PASSWORD}\n")
    earlier = len(reader.said)
    try:
        assert reader.run(f"{asked} --password-stdin") == 0, reader.said
    finally:
        sys.stdin = before
    if file:
        path = reader.folder / file
        path.touch(0o600)
        path.write_text(reader.said[earlier:])


def is_read(_reader: Reader, _block: Block) -> None:
    """What is no step for a reader here."""


def accounts(reader: Reader, block: Block) -> None:
    for command in commands(block):
        if "user add" in command:
            with_password(reader, command)
        else:
            assert reader.run(command) == 0, (command, reader.said)
        if "user disable" in command:  # the page's next command is about the same account
            assert reader.run(command.replace("disable", "enable")) == 0, reader.said


def tokens(reader: Reader, block: Block) -> None:
    (make, _), (show, listed), (revoke, _) = shown(block)
    inner = make.partition("(umask 077; ")[2].rpartition(")")[0]
    with_password(reader, inner)
    reader.said = ""
    with_password(reader, show)
    compare(listed.partition(", last")[0], reader.said, show, figures=False)
    [laptop] = [line.split()[0] for line in reader.said.splitlines() if "  laptop  " in line]
    with_password(reader, revoke.replace(revoke.split()[3], laptop))
    with_password(reader, inner)


def awaited(reader: Reader, block: Block) -> None:
    """A snippet that a notebook takes, with `await` at its top."""
    code = compile(block.text, "client.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

    async def run() -> None:
        await eval(code, reader.names)

    asyncio.run(run())


def number_missing(reader: Reader, block: Block) -> None:
    log = reader.folder / "audit.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:16] + lines[17:]))
    reader.said = ""
    assert reader.run("masquerade audit verify audit.jsonl") == 1
    compare(block.text, reader.said, "number out of order", figures=True)


def end_is_lost(reader: Reader, block: Block) -> None:
    log = reader.folder / "state" / "audit.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:-1]))
    reader.said = ""
    assert reader.run("masquerade party serve clinic.toml") != 0
    compare(block.text, reader.said, "its end was cut off", figures=False)


def contract_of_the_log(reader: Reader, block: Block) -> None:
    lines = (reader.folder / "state" / "audit.jsonl").read_text().splitlines()
    records: list[dict[str, Any]] = [json.loads(line) for line in lines]
    session = next(each["fields"]["session"] for each in records if each["event"] == "contract")
    [command] = commands(block)
    assert reader.run(command.replace("3f9a…", session)) == 0, reader.said


def test_the_pages_about_services_say_what_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    with ExitStack() as services:
        world = World(tmp_path, capsys, services)
        coordinator: dict[str, Special] = {
            "## Accounts": accounts,
            "## Serve": world.start,
            "## The course of a session": is_read,
        }
        world.follow("coordinator", "coordinator", coordinator, monkeypatch)

        def console(reader: Reader, block: Block) -> None:
            """The coordinator runs; another account is made for it."""
            (add, _), (_, line) = shown(block)
            with_password(reader, add.replace("ana", "ben"))
            compare(line, world.ready[0], "console.md")
            address = world.ready[0].split("console ")[1].partition(",")[0]
            assert httpx.get(address, follow_redirects=True, timeout=900).status_code == 200

        pictures = {"loads nothing from elsewhere": console, "The pictures of this page": is_read}
        world.follow("console", "coordinator", pictures, monkeypatch)  # they are tests/console/test_pictures.py

        services.enter_context(service(tmp_path / "clinic", "masquerade party serve clinic.toml"))
        token = (tmp_path / "coordinator" / "token").read_text().strip()

        bank = services.enter_context(ExitStack())
        lost: list[tuple[Reader, Block]] = []
        asked_for: list[str] = []

        def party_card(reader: Reader, block: Block) -> None:
            """The node runs, and asks a person before it signs."""
            configuration = reader.folder / "bank.toml"
            asking = configuration.read_text().replace("least_k = 10\n", "least_k = 10\nneeds_approval = true\n")
            configuration.write_text(asking)
            bank.enter_context(service(reader.folder, "masquerade party serve bank.toml"))
            await_providers(world.url, token, 2)
            reader.do(block, "party.md: what others get to know")

        def waits(reader: Reader, block: Block) -> None:
            wish = {"purpose": "research", "attributes": ["job", "salary", "disease"], "privacy": [K_ANONYMITY]}
            with mq.Client(world.url, token=token) as client:
                asked_for.append(client.request(wish).id)
                next(event for event in client.watch(asked_for[0]) if event.kind == "approval")
            reader.do(block, "party.md: what waits")

        def decides(reader: Reader, block: Block) -> None:
            """The other way round: what is approved first would run, or not, as the second command comes."""
            deal = reader.said.split()[0]
            approve, refuse = (command.replace("3f9a", deal[:8]) for command in commands(block))
            assert reader.run(refuse) == 0, reader.said
            with mq.Client(world.url, token=token) as client:
                assert client.wait(asked_for[0]).status == "refused"
            assert reader.run(approve) == 0, reader.said
            assert "was refused before; approved now" in reader.said
            bank.close()
            configuration = reader.folder / "bank.toml"
            configuration.write_text(configuration.read_text().replace("needs_approval", "allow_rerelease"))
            bank.enter_context(service(reader.folder, "masquerade party serve bank.toml"))

        monkeypatch.setenv("MASQUERADE_URL", world.url)
        party: dict[str, Special] = {
            "only what a signed contract names leaves": is_read,  # it is started when it has its configuration
            "## What others get to know": party_card,
            "To list what waits": waits,
            "`MASQUERADE_DEAL` in its environment": decides,
            "If it is lost for good": lambda reader, block: lost.append((reader, block)),
        }
        world.follow("party", "bank", party, monkeypatch)

        monkeypatch.setenv("MASQUERADE_TOKEN", token)
        client: dict[str, Special] = {"## Once: a token": tokens, "as coroutines": awaited}
        asked = world.follow("client", "ana", client, monkeypatch)
        assert asked.names["table"].column_names == ["age", "job", "disease"]
        assert (tmp_path / "ana" / "release.csv").read_text().startswith("age,job,salary,disease,income\n")

        api = api_page.Shell(world.url, PASSWORD)
        world.follow("api", "ana", api_page.specials(api), monkeypatch, "reference")
        api_page.is_run_by_admins(api)

        doctor = world.follow("doctor", "bank", doctor_page.specials(monkeypatch), monkeypatch)
        for of, kind in (("bank", "party"), ("coordinator", "coordinator"), ("ana", "client")):
            name = "client" if of == "ana" else of
            doctor_page.checks_are_listed(doctor, tmp_path / of / f"{name}.toml", kind)

    doctor_page.checks_are_listed(doctor, tmp_path / "bank" / "bank.toml", "party", code=3)
    (tmp_path / "bank" / "wrong.toml").write_text("name = 1\n")
    assert doctor.run("masquerade doctor wrong.toml") == 2

    [(steward, forget)] = lost
    (steward.folder / "state" / "secrets" / "customers.key").unlink()
    monkeypatch.chdir(steward.folder)
    steward.do(forget, "party.md: the secret is lost for good")

    clinic = tmp_path / "clinic"
    for path in (
        clinic / "state" / "audit.jsonl",
        clinic / "state" / "audit.head",
        clinic / "identity" / "identity.pem",
    ):
        shutil.copy(path, clinic)
    audit: dict[str, Special] = {
        "Exit code 0: the log is whole": number_missing,
        "## When its end is lost": end_is_lost,
        "by the name of the session": contract_of_the_log,
        "To write a log of your own": is_read,
    }
    world.follow("audit", "clinic", audit, monkeypatch)
