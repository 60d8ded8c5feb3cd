"""A node pushes what it publishes: at its start, and whenever a table, a schema or a policy changes."""

from __future__ import annotations

import asyncio
import os
import pickle
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import msgspec
import pyarrow as pa
import pytest

from conftest import PASSWORD, Postgres
from fake_clock import FakeClock
from homes import home
from masquerade.data import MappedParts, Origin, TableFile, mapped_columns, read
from masquerade.errors import BadInput, DataError, PeerError
from masquerade.service import Approvals, Dataset, Ledger, NodeSettings, StateFolder
from masquerade.service.agree.terms import Offer, Refusal
from masquerade.service.node.admission import deal_id
from masquerade.service.node.datasets import LONGEST, MOST, OFFER_STANDS, KeptReadings
from masquerade.service.node.state import Snapshots
from masquerade.service.wire.control import Pending, Published, PublishedDataset
from masquerade.service.wire.peers import caller
from service.party_nodes import PEOPLE, Folder, now, refused, trust_of, wish, world
from service_house import write


class PartyServer:
    """The coordinator's server for nodes: it remembers what was pushed, and by whom."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Published]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        assert (scope["method"], scope["path"]) == ("POST", "/v1/datasets")
        self.heard.append((caller(scope), msgspec.json.decode(body, type=Published)))
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def next(self, after: int) -> Published:
        """The first push after so many."""
        while len(self.heard) <= after:
            await asyncio.sleep(0.02)
        who, published = self.heard[after]
        assert who == published.party
        return published

    async def until(self, holds: Callable[[PublishedDataset], bool]) -> None:
        """Wait for a push whose dataset is like that."""
        while not holds(self.heard[-1][1].datasets[0]):
            await asyncio.sleep(0.02)


async def shown_once(capsys: pytest.CaptureFixture[str], text: str) -> str:
    """What is printed until this text is."""
    shown = ""
    while text not in shown:
        await asyncio.sleep(0.02)
        shown += capsys.readouterr().out
    return shown


@asynccontextmanager
async def party_server(folder: Folder) -> AsyncIterator[PartyServer]:
    server, known = PartyServer(), (PEOPLE["coordinator"], trust_of("coordinator"))
    async with folder.network.serve(server, folder.coordinator, *known):
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path, coordinator="127.0.0.1:7000")


def snapshot(published: Published) -> str:
    found = published.datasets[0].card.snapshot
    assert found is not None
    return found


async def test_changes_are_pushed(folder: Folder) -> None:
    async with party_server(folder) as server, world(folder, "bank"):
        first = await server.next(0)
        assert (first.party, first.replaced, first.datasets[0].purposes) == ("bank", (), ("research",))
        folder.write_tables(salary=33)
        second = await server.next(1)
        assert second.replaced == (snapshot(first),)
        assert second.datasets[0].card.schema == first.datasets[0].card.schema
        folder.write_conf("bank", purposes=["research", "teaching"])
        third = await server.next(2)
        assert third.datasets[0].purposes == ("research", "teaching")
        assert snapshot(third) == snapshot(second)
        taxonomy = folder.path / "bank" / "job.csv"
        write(taxonomy, taxonomy.read_text().replace("Office", "Desk"))
        fourth = await server.next(3)
        assert fourth.datasets[0].card.schema != first.datasets[0].card.schema
        folder.write_tables(salary=30)
        fifth = await server.next(4)
        assert snapshot(fifth) == snapshot(first)
        assert fifth.replaced == (snapshot(second),)  # what is back is no longer replaced


async def test_a_broken_change_is_not_taken_over(folder: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    async with party_server(folder) as server, world(folder, "bank") as here:
        await server.next(0)
        before = folder.conf("bank").read_text()
        write(folder.conf("bank"), before.replace("least_k = 3", "least_k = 0"))
        await shown_once(capsys, "policy.least_k: must be a whole number")
        assert isinstance(await here.coordinator.offer("bank", wish()), Offer)
        write(folder.conf("bank"), before.replace("least_k = 3", "least_k = 9"))
        while True:
            offer = await here.coordinator.offer("bank", wish())
            assert isinstance(offer, Offer)
            if "k-anonymity (k = 9) over age, job" in map(str, offer.parts):
                break
            await asyncio.sleep(0.05)


async def test_a_tightened_policy_counts_while_its_table_is_away(folder: Folder) -> None:
    table, away = folder.path / "bank" / "customers.csv", folder.path / "bank" / "away"

    async with party_server(folder) as server, world(folder, "bank") as here:
        await server.next(0)
        table.rename(away)
        folder.write_conf("bank", access="private", users=["bob"])
        await server.until(lambda told: told.users == ("bob",))
        assert server.heard[-1][1].datasets[0].card.snapshot is None
        away.rename(table)
        await server.until(lambda told: told.card.snapshot is not None)
        refusal = refused(await here.coordinator.offer("bank", wish()))
        assert refusal.reasons == ('user "ana" may not ask',)
        state = StateFolder(folder.state("bank"))
        assert state.configuration == NodeSettings.load(folder.conf("bank")).digest
    assert StateFolder(folder.state("bank")).configuration is None  # nobody runs by it


async def test_a_configuration_is_taken_over_once_the_file_that_it_names_has_come(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    taxonomy, conf = folder.path / "bank" / "job.csv", folder.conf("bank")

    async with party_server(folder) as server, world(folder, "bank"):
        await server.next(0)
        folder.write_conf("bank", purposes=["teaching"])
        write(conf, conf.read_text().replace('"job.csv"', '"jobs.csv"'))
        await shown_once(capsys, "jobs.csv")
        write(folder.path / "bank" / "jobs.csv", taxonomy.read_text())
        await server.until(lambda told: told.purposes == ("teaching",))


def test_a_file_that_is_mended_in_place_is_read_again(folder: Folder) -> None:
    """A cure that its time does not show: a right that is given back, a disk that answers again."""
    path = folder.path / "bank" / "customers.csv"
    whole, status = path.read_bytes(), path.stat()
    clock, settings = FakeClock(), NodeSettings.load(folder.conf("bank")).datasets["customers"]
    dataset = Dataset("bank", settings, b"s" * 32, clock)

    def write_as_old(content: bytes) -> None:
        with path.open("r+b") as file:
            file.write(content)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    write_as_old(b"SSN" + whole[3:])
    with pytest.raises(BadInput):
        dataset.reading(quiet=True)
    write_as_old(whole)
    with pytest.raises(BadInput):  # so soon nobody tries again
        dataset.reading(quiet=True)
    clock.tick(hours=1)
    assert len(dataset.reading(quiet=True).table) > 0


async def test_snapshots_that_cannot_be_read_are_named(folder: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    StateFolder(folder.state("bank")).make()
    broken = folder.state("bank") / "snapshots.json"
    broken.write_text("{")

    async with party_server(folder) as server, world(folder, "bank") as here:
        shown = await shown_once(capsys, "publishing failed")
        assert f"{broken}: cannot be read" in shown
        with pytest.raises(PeerError) as told:  # whoever pulls is not told where it is
            await here.coordinator.https["bank"].call("GET", "/v1/datasets", answer=Published)
        assert "snapshots.json" not in str(told.value)
        assert "remove it to begin anew" in shown
        broken.unlink()
        assert (await server.next(0)).party == "bank"


async def test_a_coordinator_that_comes_late_is_told(folder: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    async with world(folder, "bank"):
        shown = await shown_once(capsys, "the coordinator is not told")
        async with party_server(folder) as server:
            published = await server.next(0)
            assert published.party == "bank"
            while "published" not in shown:
                await asyncio.sleep(0.02)
                shown += capsys.readouterr().out
        assert shown.count("the coordinator is not told") == 1


async def test_what_was_replaced_is_known_after_a_restart(folder: Folder) -> None:
    async with party_server(folder) as server:
        async with world(folder, "bank"):
            first = await server.next(0)
        folder.write_tables(salary=35)
        async with world(folder, "bank"):
            second = await server.next(1)
            assert second.replaced == (snapshot(first),)


async def test_a_table_that_cannot_be_read_has_no_snapshot(folder: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    async with party_server(folder) as server, world(folder, "bank") as here:
        await server.next(0)
        write(folder.path / "bank" / "customers.csv", "ssn,job\n")
        assert isinstance(await here.coordinator.offer("bank", wish()), Refusal)
        second = await server.next(1)
        assert second.datasets[0].card.snapshot is None
        assert second.replaced == ()  # it is still the last one known
        folder.write_tables()
        assert snapshot(await server.next(2)) == snapshot(server.heard[0][1])
    shown = capsys.readouterr().out
    assert shown.count("a table cannot be read") == shown.count("a table can be read again") == 1  # no noise


def into_database(folder: Folder) -> None:
    lines = (folder.path / "bank" / "customers.csv").read_text().splitlines()[1:]
    with sqlite3.connect(folder.path / "bank" / "bank.db") as database:
        database.execute("CREATE TABLE customers (ssn TEXT, job TEXT, salary INTEGER, income TEXT, remark TEXT)")
        database.executemany("INSERT INTO customers VALUES (?,?,?,?,?)", [line.split(",") for line in lines])
    database.close()


def work_goes_on(folder: Folder) -> None:
    with sqlite3.connect(folder.path / "bank" / "bank.db") as database:
        database.execute("UPDATE customers SET salary = salary + 1")
    database.close()


def from_database(conf: Path) -> None:
    query = 'source = "sqlite:///bank.db"\nquery = "SELECT * FROM customers ORDER BY ssn"'
    write(conf, conf.read_text().replace('source = "customers.csv"', query))


async def test_a_database_is_read_again_for_a_session(folder: Folder) -> None:
    into_database(folder)
    conf = folder.conf("bank")
    from_database(conf)
    async with world(folder) as here:
        release = await here.coordinator.release(await here.coordinator.signed())
        assert release.rows == 60
    settings = NodeSettings.load(conf).datasets["customers"]
    assert settings.is_database
    dataset = Dataset("bank", settings, b"s" * 32)
    first = dataset.reading()
    assert dataset.reading() is first  # fresh enough for an offer
    again = dataset.reading(for_session=True)
    assert again is not first
    assert again.card == first.card
    work_goes_on(folder)
    assert dataset.reading(for_session=True).card.snapshot != first.card.snapshot


async def test_a_session_runs_on_the_reading_that_was_agreed_on(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that changes all the time: between offer, signature, approval and session."""
    monkeypatch.setattr(home(Dataset), "FRESH", 0.0)
    into_database(folder)
    conf = folder.write_conf("bank", needs_approval=True)
    from_database(conf)
    async with world(folder) as here:
        node, coordinator = here.nodes["bank"].node, here.coordinator
        deal = await coordinator.deal()
        work_goes_on(folder)
        assert isinstance(await coordinator.ask_signature("bank", coordinator.draw_up(deal)), Pending)
        work_goes_on(folder)
        await coordinator.offer("bank", wish())
        assert len(node.readings) == 2
        Approvals(node.state).approve(deal_id(deal), now())
        contract = await coordinator.sign(coordinator.draw_up(deal))
        work_goes_on(folder)
        release = await coordinator.release(contract)
        assert release.rows == 60
        assert (await coordinator.ended("bank", contract)).state == "done"
        ledger = Ledger.load(node.state.ledger)
        assert [each.terms for each in ledger.records] == [deal.terms]


def test_snapshots_that_were_replaced() -> None:
    names = ("a", "b")
    known = Snapshots().with_current({"a": "1", "b": "2"}, names)
    assert (known.current, known.replaced) == ({"a": "1", "b": "2"}, ())
    assert known.with_current({"a": "1"}, names).replaced == ()  # b cannot be read now
    assert known.with_current({"a": "1"}, ("a",)).replaced == ("2",)  # b is gone
    later = known.with_current({"a": "3", "b": "2"}, names).with_current({"a": "1", "b": "2"}, names)
    assert (later.current, later.replaced) == ({"a": "1", "b": "2"}, ("3",))


async def test_a_databases_password_is_told_to_nobody(
    folder: Folder, postgres: Postgres, capsys: pytest.CaptureFixture[str]
) -> None:
    postgres.sql(
        "CREATE TABLE node_customers AS SELECT i::text AS ssn, 'Qzmover' AS job, i AS salary, 'low' AS income"
        " FROM generate_series(1, 50) i; GRANT SELECT ON node_customers TO steward;"
    )
    conf = folder.conf("bank")
    text = conf.read_text()

    def let_in_with(secret: str) -> None:
        url = postgres.as_steward(secret)
        query = 'query = "SELECT * FROM node_customers ORDER BY ssn"'
        write(conf, text.replace('source = "customers.csv"', f'source = "{url}"\n{query}'))

    let_in_with(quote(PASSWORD, safe=""))

    async with party_server(folder) as server, world(folder, "bank") as here:
        first = await server.next(0)
        assert first.datasets[0].card.records == 100
        assert isinstance(await here.coordinator.offer("bank", wish()), Offer)
        let_in_with("Falsch/77")
        shown = await shown_once(capsys, "a table cannot be read by the changed configuration")
        said = shown + str(first) + (folder.state("bank") / "audit.jsonl").read_text()
        for secret in (PASSWORD, quote(PASSWORD, safe=""), "Falsch", "Qzmover"):
            assert secret not in said


# --- Which readings of a table that changes are kept, and for how long ---


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    folder = Folder(tmp_path)
    conf = folder.conf("bank")
    source = 'source = "sqlite:///bank.db"\nquery = "SELECT * FROM customers"'
    conf.write_text(conf.read_text().replace('source = "customers.csv"', source))
    return Dataset("bank", NodeSettings.load(conf).datasets["customers"], b"s" * 32)


def reading(dataset: Dataset, snapshot: str) -> Any:
    return SimpleNamespace(card=dataset._card(50, snapshot))


def test_an_offer_stands_for_a_while_and_a_contract_until_it_expires(dataset: Dataset) -> None:
    kept = KeptReadings()
    kept.offered(dataset, reading(dataset, "a"), 0)
    kept.agreed(dataset, reading(dataset, "b"), "deal", 600, 0)
    assert kept.find(dataset, "a", OFFER_STANDS - 1) is not None
    assert kept.find(dataset, "a", OFFER_STANDS) is None
    assert kept.find(dataset, "b", 599) is not None
    assert kept.find(dataset, "b", 600) is None
    kept.tidy(600)
    assert len(kept) == 0
    kept.agreed(dataset, reading(dataset, "c"), "endless", 10**12, 0)
    assert kept.find(dataset, "c", LONGEST) is None


def test_a_reading_goes_with_the_last_deal_about_it(dataset: Dataset) -> None:
    kept = KeptReadings()
    for deal in ("one", "two"):
        kept.agreed(dataset, reading(dataset, "a"), deal, 600, 0)
    kept.done("one", 1)
    assert kept.find(dataset, "a", 1) is not None
    kept.done("two", 1)
    assert len(kept) == 0


def test_their_number_is_bounded_and_offers_push_out_no_contract(dataset: Dataset) -> None:
    kept = KeptReadings()
    for at in range(3):
        kept.agreed(dataset, reading(dataset, f"deal{at}"), str(at), 600, 0)
    for at in range(3 * MOST):
        kept.offered(dataset, reading(dataset, f"offer{at}"), 0)
    assert len(kept) == MOST
    assert all(kept.find(dataset, f"deal{at}", 1) is not None for at in range(3))
    assert kept.find(dataset, f"offer{3 * MOST - 1}", 1) is not None  # the newest, too
    for at in range(3, MOST + 2):
        kept.agreed(dataset, reading(dataset, f"deal{at}"), str(at), 600, 0)
    assert len(kept) == MOST
    assert [kept.find(dataset, f"deal{at}", 1) is not None for at in range(4)] == [False, False, True, True]


@pytest.mark.parametrize(
    ("old", "new"), [("max = 4711", "max = 4712"), ("FROM customers", "FROM consenting_customers")]
)
def test_by_another_configuration_nothing_is_released_as_it_was(dataset: Dataset, old: str, new: str) -> None:
    kept = KeptReadings()
    kept.agreed(dataset, reading(dataset, "a"), "deal", 600, 0)
    conf = dataset.settings.base / "bank.toml"
    conf.write_text(conf.read_text().replace(old, new))
    changed = dataset.changed_to(NodeSettings.load(conf).datasets["customers"])
    assert kept.find(dataset, "a", 1) is not None
    assert kept.find(changed, "a", 1) is None


def test_a_file_is_not_kept(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    dataset = Dataset("bank", NodeSettings.load(folder.conf("bank")).datasets["customers"], b"s" * 32)
    kept = KeptReadings()
    kept.agreed(dataset, reading(dataset, "a"), "deal", 600, 0)
    assert len(kept) == 0


# --- The table of a node with an engine: in a file that is mapped, and the same table in every respect.


@pytest.mark.parametrize("small", [0, 1 << 26])
def test_a_table_on_the_disk_has_the_same_commitment(
    small: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However it is read: a ledger recognises a snapshot by it."""
    monkeypatch.setattr(read, "SMALL_FILE", small)
    folder = Folder(tmp_path)
    settings = NodeSettings.load(folder.conf("bank")).datasets["customers"]
    here = Dataset("bank", settings, b"s" * 32).reading()
    there = Dataset("bank", settings, b"s" * 32, on_disk=True).check()
    assert there.card == here.card
    assert there.card.snapshot is not None
    assert there.table.arrow.nbytes > 0
    assert not [*tmp_path.rglob("*.arrow")]


def test_a_source_without_a_row_is_told(tmp_path: Path) -> None:
    (tmp_path / "nobody.csv").write_text("ssn,age\n")
    with pytest.raises(DataError, match=r"nobody\.csv"):
        mapped_columns(TableFile("nobody.csv", base=tmp_path), ["ssn", "age"])


def test_who_reads_a_part_elsewhere_gets_its_rows_alone() -> None:
    table = pa.table({"town": ["Ulm", "Graz"] * 5000, "age": range(10_000)})
    parts = MappedParts(table, Origin("people")).parts(100)
    assert [part.rows for part in parts] == [100] * 100
    sent = pickle.dumps(parts[7])
    assert len(sent) < 5000
    back = pickle.loads(sent)
    assert back.read(["age"]).equals(table.select(["age"]).slice(700, 100))
    assert (back.first_row, back.origin(()).name) == (700, "people")
    assert pa.types.is_dictionary(back.read(["town"], {"town"}).schema.field("town").type)
