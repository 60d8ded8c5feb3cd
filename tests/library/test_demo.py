"""The demo's parts without its whole path: the folder, the story's parties, and processes that end whatever happens."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
import tomllib
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from forked import Forked, forked_servers
from masquerade.console.draft import RequestDraft, column_of
from masquerade.data import Schema
from masquerade.demo import demo, demo as module
from masquerade.demo.demo import COORDINATOR, LocalServices, demo_folder, write_scene
from masquerade.demo.scene import ANALYST, HOLDINGS, MODELS, PURPOSE, is_taken, request, toml_table, write_sqlite
from masquerade.errors import ParameterError, PeerUnreachable
from masquerade.jobs.plan import Plan
from masquerade.service import CoordinatorSettings, Ledger, NodeSettings, Request, SchemaCard, read_request
from masquerade.service.agree.answering import answer
from masquerade.service.agree.negotiation import CounterOffer, negotiate
from masquerade.service.agree.policy import Policy
from masquerade.service.agree.terms import Deal, Offer, Refusal, strictest
from masquerade.service.cards import card_of
from service_house import Ports, wait_until

pytestmark = pytest.mark.system

ADDRESSES = {name: f"127.0.0.1:{7000 + number}" for number, name in enumerate((COORDINATOR, *HOLDINGS))}
SECRETS = {"passwords.toml", "analyst/token", *(f"{name}/key.pem" for name in ADDRESSES)}


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    """A demo's folder with everything that is written before the first process starts."""
    with demo_folder(tmp_path / "demo") as folder:
        write_scene(folder, 300, 7)
        folder.configure(ADDRESSES)
        folder.invite("http://127.0.0.1:8080", "mq_secret", 300)
    return tmp_path / "demo"


@pytest.fixture
def addresses() -> Iterator[list[str]]:
    """Two at which nobody else can listen meanwhile."""
    with Ports() as ports:
        yield [f"127.0.0.1:{ports.one()}" for _ in range(2)]


# --- the folder ---


def contents(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_secrets_are_their_owners_alone(scene: Path) -> None:
    for name in contents(scene):
        mode = stat.S_IMODE((scene / name).stat().st_mode)
        assert (mode & 0o077 == 0) == (name in SECRETS), name
    passwords = tomllib.loads((scene / "passwords.toml").read_text())
    assert set(passwords) == {"ana", "admin"}
    assert len(set(passwords.values())) == 2
    assert all(len(each) >= 12 for each in passwords.values())


def test_a_second_demo_replaces_the_first_and_nothing_else(scene: Path) -> None:
    before = contents(scene)
    old = {name: (scene / name).read_bytes() for name in SECRETS}
    (scene / "bank" / "mine.txt").write_text("somebody's")
    (scene / "notes.txt").write_text("somebody's")
    (scene / "bank" / "state" / "secrets").mkdir(parents=True)
    (scene / "bank" / "state" / "ledger.jsonl").write_text("{}\n")
    (scene / "analyst" / "release.csv").write_text("old\n")
    with demo_folder(scene) as folder:
        assert contents(scene) == {"bank/mine.txt", "notes.txt", "demo.json", "passwords.toml"}
        write_scene(folder, 300, 8)
        folder.configure(ADDRESSES)
        folder.invite("http://127.0.0.1:8080", "mq_other", 300)
    assert contents(scene) == {*before, "bank/mine.txt", "notes.txt"}
    assert all((scene / name).read_bytes() != text for name, text in old.items())


@pytest.mark.parametrize("name", ["bank", "coordinator", "passwords.toml", "analyst"])
def test_somebody_elses_files_are_not_touched(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "precious").touch()
    with (
        pytest.raises(ParameterError, match=f"{name} is there already, and the demo did not write it"),
        demo_folder(tmp_path),
    ):
        pass
    assert contents(tmp_path) == {f"{name}/precious"}


def test_two_demos_at_once_need_two_folders(tmp_path: Path) -> None:
    with (
        demo_folder(tmp_path) as first,
        pytest.raises(ParameterError, match="another demo is running in it"),
        demo_folder(tmp_path),
    ):
        pass
    assert first.passwords_file.read_text()
    with demo_folder(tmp_path):
        pass


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ParameterError, match="cannot be made: Not a directory"), demo_folder(tmp_path / "file" / "x"):
        pass


def test_a_library_that_is_missing_is_named_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "_NEEDED", ("fastapi", "a_library_that_nobody_has"))
    with pytest.raises(ParameterError, match=r'needs a_library_that_nobody_has: pip install "masquerade\[all\]"'):
        demo.run_demo(tmp_path / "demo")
    assert contents(tmp_path) == set()


@pytest.mark.parametrize("people", [99, 10**8 + 1])
def test_too_few_and_too_many_people_are_told_before_anything_is_written(tmp_path: Path, people: int) -> None:
    with pytest.raises(ParameterError, match=r"--people: must be a whole number from 100 to 100,000,000; got"):
        demo.run_demo(tmp_path / "demo", people)
    assert contents(tmp_path) == set()


def test_passwords_are_not_shown_by_accident(tmp_path: Path) -> None:
    with demo_folder(tmp_path) as folder:
        assert not any(password in repr(folder) for password in folder.passwords.values())


# --- the story ---


@dataclass(frozen=True)
class Steward:
    """A party of the story, as it answers."""

    card: SchemaCard
    policy: Policy
    schema: Schema

    def answer(self, asked: Request) -> Offer | Refusal:
        return answer(self.policy, asked, self.card, Ledger(), 0, self.schema)


def stewards(scene: Path) -> list[Steward]:
    """With the real configurations."""
    found = []
    for party in HOLDINGS:
        (dataset,) = NodeSettings.load(scene / party / "party.toml").datasets.values()
        card = card_of(
            party,
            dataset.name,
            dataset.schema,
            identifier=dataset.keys.identifier,
            key=b"k" * 32,
            sensitive=dataset.keys.sensitive,
            classes=dataset.keys.classes,
            records=300,
            snapshot="aa" * 32,
        )
        found.append(Steward(card, dataset.policy, dataset.schema))
    return found


def agreement(wish: Request, parties: list[Steward]) -> Deal:
    """With the real negotiation."""
    rounds: list[CounterOffer] = []
    while True:
        asked = rounds[-1].request if rounds else wish
        ended = negotiate(wish, [each.answer(asked) for each in parties], rounds)
        if not isinstance(ended, CounterOffer):
            break
        rounds.append(ended)
    assert isinstance(ended, Deal), ended
    return ended


@pytest.mark.parametrize("name", MODELS)
def test_the_form_asks_for_a_tree_and_a_net_as_the_analyst_does(name: str, scene: Path) -> None:
    parties = stewards(scene)
    offered = [column_of(each.card, column) for each in parties for column in each.card.columns]
    draft = RequestDraft(offered, purpose=PURPOSE, budget="200", method=MODELS[name], class_name="approved")
    written = tomllib.loads((scene / "analyst" / f"{name}.toml").read_text())["request"]
    for wanted in written["attributes"]:
        draft.choose(next(each for each in offered if each.name == wanted), True)
    assert not draft.problems()
    for content in (draft.content(), written):
        agreed = agreement(read_request(content).asked_by(ANALYST), parties)
        assert agreed.terms.method["name"] == MODELS[name]
        assert {column.holder for column in agreed.terms.columns} == {*HOLDINGS}


def test_the_parties_agree_on_what_the_trusted_job_says(scene: Path) -> None:
    """The table that nobody has needs the same requirement."""
    for party, holding in HOLDINGS.items():
        if holding.file.endswith(".db"):  # a snapshot is of its rows' order, too
            assert " ORDER BY ssn" in (scene / party / "party.toml").read_text()
    wish = read_request(tomllib.loads((scene / "analyst" / "client.toml").read_text())["request"])
    assert wish.content() == read_request(request(300)).content()
    wish = wish.asked_by(ANALYST)
    ended = agreement(wish, stewards(scene))
    assert ended.terms.parts != wish.privacy, "the analyst's wish is less than the policies insist on"
    plan = Plan(scene / "trusted" / "job.toml")
    assert ended.terms.parts == strictest(plan.requirement.parts, "vertical")
    assert ended.show_progress
    assert 0 < ended.most_cost <= ended.budget
    assert [column.name for column in ended.terms.columns] == list(plan.schema().names)


def test_the_coordinators_configuration_is_read(scene: Path) -> None:
    settings = CoordinatorSettings.load(scene / COORDINATOR / "coordinator.toml")
    assert settings.parties == {name: ADDRESSES[name] for name in HOLDINGS}
    assert settings.party_address == ADDRESSES[COORDINATOR]


def test_tables_of_toml() -> None:
    content = {"a": 'x"\n', "b": [1, 2.5], "c": {"d": True}, "privacy": [{"k": 1}, {"l": ["é"]}]}
    assert tomllib.loads(toml_table("request", content))["request"] == content


# --- processes ---


def run(work: Coroutine[Any, Any, Any]) -> Any:
    with forked_servers():
        return asyncio.run(work)


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def nodes(scene: Path) -> dict[str, tuple[str, str, Path]]:
    """How the bank's and the clinic's nodes are started; there is no coordinator, which they do not mind."""
    return {name: ("party", "serve", scene / name / "party.toml") for name in ("bank", "clinic")}


def configure(scene: Path, addresses: dict[str, str]) -> None:
    """Give the nodes their addresses."""
    for name, address in addresses.items():
        path = scene / name / "party.toml"
        path.write_text(path.read_text().replace(f'address = "{ADDRESSES[name]}"', f'address = "{address}"'))


def test_processes_say_that_they_are_ready_and_end_with_the_block(
    scene: Path, nodes: dict[str, tuple[str, str, Path]], addresses: list[str]
) -> None:
    configure(scene, dict(zip(nodes, addresses, strict=True)))

    async def started() -> list[int]:
        async with LocalServices(scene / "logs") as services:
            ready = await services.start_all(nodes)
            assert {name: said["party"] for name, said in ready.items()} == {"bank": "bank", "clinic": "clinic"}
            pids = [int(said["pid"]) for said in ready.values()]
            assert all(map(alive, pids))
            return pids

    assert not any(map(alive, run(started())))


def test_a_process_that_does_not_start_is_named_with_its_own_words(scene: Path) -> None:
    async def started() -> None:
        async with LocalServices(scene / "logs") as services:
            await services.start_all({"bank": ("party", "serve", scene / "none.toml")})

    with pytest.raises(PeerUnreachable, match=r"party bank: its process ended with exit code 2: .*none\.toml"):
        run(started())


def test_a_death_is_the_failure_of_whatever_goes_on(
    scene: Path, nodes: dict[str, tuple[str, str, Path]], addresses: list[str]
) -> None:
    configure(scene, dict(zip(nodes, addresses, strict=True)))
    pids: list[int] = []

    async def killed() -> None:
        async with LocalServices(scene / "logs") as services:
            ready = await services.start_all(nodes)
            pids.extend(int(said["pid"]) for said in ready.values())
            os.kill(int(ready["clinic"]["pid"]), signal.SIGKILL)
            await services.watched(asyncio.Event().wait())

    with pytest.raises(PeerUnreachable, match="party clinic: its process was ended by signal 9; its log is"):
        run(killed())
    assert not any(map(alive, pids))


def test_a_death_is_told_before_what_others_hear_of_it(
    scene: Path, nodes: dict[str, tuple[str, str, Path]], addresses: list[str]
) -> None:
    configure(scene, dict(zip(nodes, addresses, strict=True)))

    async def killed() -> None:
        async with LocalServices(scene / "logs") as services:
            ready = await services.start_all({"bank": nodes["bank"]})

            async def talk() -> None:
                os.kill(int(ready["bank"]["pid"]), signal.SIGKILL)
                raise PeerUnreachable("bank", "hangs up")

            await services.watched(talk())

    with pytest.raises(PeerUnreachable, match="its process was ended by signal 9"):
        run(killed())


def test_a_second_interrupt_does_not_wait_for_anybody(
    scene: Path, nodes: dict[str, tuple[str, str, Path]], addresses: list[str]
) -> None:
    configure(scene, dict(zip(nodes, addresses, strict=True)))

    async def interrupted() -> int:
        services = LocalServices(scene / "logs", grace=3600.0)
        bank = int((await services.start_all({"bank": nodes["bank"]}))["bank"]["pid"])
        os.kill(bank, signal.SIGSTOP)
        ending = asyncio.create_task(services.end())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending
        return bank

    assert not alive(run(interrupted()))


def test_another_address_is_tried_when_one_was_taken_meanwhile(
    scene: Path, nodes: dict[str, tuple[str, str, Path]], addresses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, free = addresses
    told = iter([[taken], [free]])
    monkeypatch.setattr(module, "free_addresses", lambda _count: next(told))
    text = (scene / "bank" / "party.toml").read_text()
    host, port = taken.split(":")

    def written(addresses: Any) -> None:
        new = text.replace(f'address = "{ADDRESSES["bank"]}"', f'address = "{addresses["bank"]}"')
        (scene / "bank" / "party.toml").write_text(new)

    async def started() -> str:
        squatter = await asyncio.start_server(lambda *_: None, host, int(port))
        assert is_taken(taken)
        async with squatter, LocalServices(scene / "logs") as services:
            ready = await services.start_somewhere({"bank": nodes["bank"]}, written)
            return str(ready["bank"]["address"])

    assert run(started()).removeprefix("https://") == free


LAUNCHER = """
import asyncio, json, sys
from pathlib import Path
from masquerade.demo.demo import LocalServices

async def main():
    services = LocalServices(Path(sys.argv[2]))
    ready = await services.start("bank", "party", "serve", sys.argv[1])
    print(json.dumps(ready), flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def test_nobody_outlives_a_launcher_that_was_killed(
    scene: Path, nodes: dict[str, tuple[str, str, Path]], addresses: list[str]
) -> None:
    configure(scene, dict(zip(nodes, addresses, strict=True)))
    (scene / "launcher.py").write_text(LAUNCHER)
    words = [sys.executable, str(scene / "launcher.py"), str(nodes["bank"][2]), str(scene / "logs")]
    with Forked(words, stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout is not None
        bank = int(json.loads(launcher.stdout.readline())["pid"])
        assert alive(bank)
        launcher.kill()
    wait_until(lambda: not alive(bank), "the node has ended")


def test_a_table_in_sqlite(tmp_path: Path) -> None:
    import datetime
    import sqlite3

    import pyarrow as pa

    table = pa.table({"n": [1, None], "x": [0.5, 2.0], "d": [datetime.date(2020, 1, 2), None], "t": ["a'b", "ü"]})
    write_sqlite(table, tmp_path / "t.db", "things")
    with sqlite3.connect(tmp_path / "t.db") as database:
        rows = database.execute("SELECT * FROM things").fetchall()
    database.close()
    assert rows == [(1, 0.5, "2020-01-02", "a'b"), (None, 2.0, None, "ü")]
