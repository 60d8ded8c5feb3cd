"""Sessions of nodes over real TLS: a whole release, and everything that keeps one from being made."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

import masquerade as mq
from fake_clock import FakeClock
from masquerade.anonymize import PublicState
from masquerade.audit import verify
from masquerade.data import Records
from masquerade.engine import LocalEngine
from masquerade.errors import Conflict, DataError, MasqueradeError, NotFound, ParameterError, PeerError, Problem
from masquerade.net import self_signed
from masquerade.protocol import common_records
from masquerade.service import Dataset, Ledger
from masquerade.service.agree.signing import TokenIssuer, sign
from masquerade.service.agree.terms import Refusal
from masquerade.service.ledger import append, record_of
from masquerade.service.wire.control import ReadyAt
from service.party_nodes import COMMON, PEOPLE, WISH, Coordinator, Folder, now, refused, run, wish, world
from service_house import Ports


def whole(folder: Folder, name: str) -> None:
    log = folder.state(name) / "audit.jsonl"
    found = verify(log, certificates=[PEOPLE[name].certificate])
    found.insist()
    assert (found.unfinished, found.sealed_up_to) == (0, found.records)


def let_watch(folder: Folder) -> None:
    """Let the coordinator watch, if a request asks for that."""
    for name in ("bank", "clinic"):
        folder.write_conf(name, show_progress=True)


async def test_a_whole_release(folder: Folder) -> None:
    async with world(folder) as here:
        contract = await here.coordinator.signed()
        release = await here.coordinator.release(contract)
        ends = [await here.coordinator.ended(party, contract) for party in contract.parties]
    assert release.rows == COMMON
    assert release.table.column_names == ["age", "job", "salary", "town", "income", "disease"]
    assert release.steps == ()  # the contract grants no look at them
    assert release.dropped == ()  # nor are names of columns told that nobody asked for
    mq.verify(release.table, contract.contract.requirement)
    expected = Counter("high" if at % 4 > 1 else "low" for at in range(COMMON))
    assert Counter(release.table.column("income").to_pylist()) == expected
    for end in ends:
        assert (end.state, end.steps, end.problems) == ("done", (), ())
        assert min(end.round, end.bytes_sent, end.messages) > 0
        assert end.seconds > 0
    for name, other in (("bank", "clinic"), ("clinic", "bank")):
        (record,) = Ledger.load(folder.state(name) / "ledger.jsonl").records
        assert (record.terms.parties, record.recipients) == (("bank", "clinic"), ("ana",))
        (start,), (end,) = folder.audited(name, "session start"), folder.audited(name, "session end")
        assert start["peers"] == [other, "assembler"]
        assert (end["cause"], end["culprit"]) == ("done", None)
        kinds = [(each["direction"], each["peer"], each["kind"]) for each in folder.audited(name, "message")]
        assert kinds[-2:] == [("sent", "assembler", "columns"), ("received", "assembler", "received")]
        assert [kind for kind in kinds if kind[1] == "assembler"] == kinds[-2:]  # it hears nothing before
        whole(folder, name)


def test_steps_are_shown_where_all_grant_it(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the nodes has an engine, which reads its rows and counts its groups; nobody else notices."""
    let_watch(folder)
    folder.write_conf("bank", extra='[engine]\nmemory = "1GB"')
    counted = []
    start = PublicState.__init__

    def counting(state: PublicState, records: Records, *given: Any) -> None:
        counted.extend([1] if isinstance(records.engine, LocalEngine) else [])
        start(state, records, *given)

    monkeypatch.setattr(PublicState, "__init__", counting)
    order = common_records.in_common_order
    monkeypatch.setattr(common_records, "in_common_order", lambda *given: counted.append(2) or order(*given))

    async def part() -> None:
        async with world(folder) as here:
            asked = wish(show_progress=True, algorithm={"name": "tds"})  # which goes by steps
            contract = await here.coordinator.signed(asked)
            release = await here.coordinator.release(contract)
            seen = []
            for party in contract.parties:
                steps = (await here.coordinator.ended(party, contract)).steps
                seen += [(step.round, party, step.attribute, step.value, step.children) for step in steps]
        told = [(step.party, step.attribute, step.value, step.children) for step in release.steps]
        assert told
        assert [each[1:] for each in sorted(seen)] == told
        assert counted == [2, 1]

    run(part())


async def test_what_is_wrong_with_a_table_that_is_read_in_chunks_stays_at_home(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Peers have connected by then: they hear that there is something, and not what."""
    folder.write_conf("bank", extra='[engine]\nmemory = "1GB"')

    def read(*_: Any) -> Any:
        raise DataError("customers.csv: row 7, column ssn: the same identifier as row 3")

    monkeypatch.setattr(Dataset, "records_for", read)
    async with world(folder) as here:
        contract = await here.coordinator.signed(wish(algorithm={"name": "tds"}))
        with pytest.raises(MasqueradeError) as told:
            await here.coordinator.release(contract)
    lines = "\n".join(told.value.lines)
    assert "party bank: gave up: its own input is wrong; its own log says how" in lines
    assert "row" not in lines


async def test_what_is_not_in_the_ledger_does_not_leave(folder: Folder) -> None:
    async with world(folder) as here:
        contract = await here.coordinator.signed()
        async with here.coordinator.listening() as listener:
            addresses = await here.coordinator.prepare_all(contract)
            (folder.state("clinic") / "ledger.head").mkdir()  # it can be neither read nor written
            await here.coordinator.start_all(contract, listener, addresses)
            with pytest.raises(PeerError, match="party clinic"):
                await here.coordinator.assembled(contract, listener, addresses)
        end = await here.coordinator.ended("clinic", contract)
        assert (end.state, end.kind) == ("failed", "NotAllowed")
        assert end.problems == (Problem("patients cannot be released now; its steward can see why"),)
    assert "columns" not in [each["kind"] for each in folder.audited("clinic", "message")]


async def test_the_line_is_there_before_the_release_is(folder: Folder) -> None:
    let_watch(folder)
    async with world(folder) as here:
        contract = await here.coordinator.signed(wish(show_progress=True))
        async with here.coordinator.held(contract):
            for party in contract.parties:
                (record,) = Ledger.load(folder.state(party) / "ledger.jsonl").records
                assert record.terms == contract.deal.terms


async def test_a_second_release_that_breaks_the_first(folder: Folder) -> None:
    other = wish(privacy=[{"model": "k-anonymity", "qid": ["age", "salary"], "k": 4}])
    async with world(folder) as here:
        coordinator = here.coordinator
        first, second = await coordinator.signed(), await coordinator.signed(other)  # both are agreed
        await coordinator.prepare_all(first)
        busy = refused(await coordinator.prepare("bank", second))
        assert busy.busy  # nobody knows yet which of the two it will be
        assert busy.reasons == ("another release of the same table is being made",)
        await coordinator.release(first)
        await coordinator.ended("bank", first)
        for late in (await coordinator.prepare("bank", second), await coordinator.offer("bank", other)):
            assert isinstance(late, Refusal)
            assert not late.busy
            assert any("; a second release with" in reason for reason in late.reasons)
        again = [await coordinator.signed(), await coordinator.signed()]
        for contract in again:
            await coordinator.prepare_all(contract)  # the same is no harm, also at the same time
        for contract in again:
            await coordinator.release(contract)
    (record,) = Ledger.load(folder.state("bank") / "ledger.jsonl").records
    assert record.terms.parts
    assert any("; a second release with" in each["reasons"][0] for each in folder.audited("bank", "refusal"))


async def test_a_release_that_is_noted_while_another_runs(folder: Folder) -> None:
    """As by a node of an earlier life whose sessions are still open: the ledger of the last moment counts."""
    other = wish(privacy=[{"model": "k-anonymity", "qid": ["age", "salary"], "k": 4}])
    async with world(folder) as here:
        coordinator = here.coordinator
        first, second = await coordinator.signed(), await coordinator.signed(other)
        addresses = await coordinator.prepare_all(first)
        append(folder.state("bank") / "ledger.jsonl", record_of(second.deal, "bank", now()))
        async with coordinator.listening() as listener:
            await coordinator.start_all(first, listener, addresses)
            with pytest.raises(PeerError):
                await coordinator.assembled(first, listener, addresses)
        end = await coordinator.ended("bank", first)
        assert (end.state, end.kind) == ("failed", "NotAllowed")
        assert "; a second release with" in end.problems[0].text


async def test_a_changed_snapshot_is_refused(folder: Folder) -> None:
    async with world(folder) as here:
        contract = await here.coordinator.signed()
        folder.write_tables(salary=31)
        refusal = refused(await here.coordinator.prepare("bank", contract))
        assert not refusal.busy
        assert "customers has changed: the contract is about another snapshot of it" in refusal.reasons
        assert isinstance(await here.coordinator.prepare("clinic", contract), ReadyAt)  # its own has not
    assert "customers has changed" in str(folder.audited("bank", "refusal"))


async def test_tokens(folder: Folder) -> None:
    async with world(folder) as here:
        coordinator = here.coordinator
        contract, other = await coordinator.signed(), await coordinator.signed()
        used = coordinator.token("bank", contract)
        assert isinstance(await coordinator.prepare("bank", contract, used), ReadyAt)
        forged = TokenIssuer(self_signed("coordinator")).issue("bank", contract.hash.hex())
        for token, reason in (
            (used, "it was used before"),
            (forged, "the coordinator did not sign it"),
            (coordinator.token("clinic", contract), "it is for party clinic, not for bank"),
            (coordinator.token("bank", other), "it belongs to another contract"),
            ("nonsense", "not of a form that is known here"),
        ):
            refusal = refused(await coordinator.prepare("bank", contract, token))
            assert refusal.reasons == (f"session token: {reason}",)
    text = (folder.state("bank") / "audit.jsonl").read_text()
    assert "mqs1" not in text  # a token is a secret while it lives


async def test_signatures_are_checked_with_the_nodes_own_trust_store(folder: Folder) -> None:
    async with world(folder) as here:
        contract = await here.coordinator.signed()
        change = msgspec.structs.replace
        false = sign(self_signed("clinic"), contract.hash)
        for broken, reason in (
            (change(contract, signatures={"bank": contract.signatures["bank"]}), "has not signed"),
            (contract.with_signature("clinic", false), "its signature is not one over this contract"),
            (change(contract, nonce="0" * 32), "its signature is not one over this contract"),
            (change(contract, expiry=now() - 5), "expired"),
        ):
            refusal = refused(await here.coordinator.prepare("bank", broken))
            assert reason in refusal.reasons[0], refusal


async def test_a_contract_runs_once(folder: Folder) -> None:
    async with world(folder) as here:
        coordinator = here.coordinator
        contract = await coordinator.signed()
        first = await coordinator.prepare_all(contract)
        again = await coordinator.prepare_all(contract)  # prepared anew, as long as it has not begun
        assert first.keys() == again.keys()
        await coordinator.release(contract)
        await coordinator.ended("bank", contract)
        with pytest.raises(Conflict, match="only one that is ready can start"):
            await coordinator.start("bank", contract, {})
        refusal = refused(await coordinator.prepare("bank", contract))
        assert refusal.reasons == ("this contract has run before; a contract runs once",)
    async with world(folder) as here:  # nor after a restart
        refusal = refused(await here.coordinator.prepare("bank", contract))
        assert "a contract runs once" in refusal.reasons[0]
        with pytest.raises(NotFound):
            await here.coordinator.progress("bank", contract)
        other = await here.coordinator.offer("bank", wish(attributes=["age", "job"]))
        assert "already released" in str(other)  # the ledger is kept
    whole(folder, "bank")


async def test_so_many_sessions_at_once(folder: Folder) -> None:
    folder.write_conf("bank", sessions=1)
    async with world(folder) as here:
        coordinator = here.coordinator
        first, second = await coordinator.signed(), await coordinator.signed()
        assert isinstance(await coordinator.prepare("bank", first), ReadyAt)
        token = coordinator.token("bank", second)
        refusal = refused(await coordinator.prepare("bank", second, token))
        assert refusal.busy
        assert refusal.reasons == ("1 sessions are running, and no more are allowed",)
        assert (await coordinator.cancel("bank", first)).state == "cancelled"
        assert isinstance(await coordinator.prepare("bank", second, token), ReadyAt)  # it was not used up


async def test_a_session_that_nobody_starts_is_dropped(folder: Folder) -> None:
    folder.write_conf("bank", start=180)
    clock = folder.clock = FakeClock(datetime.now(UTC))
    async with world(folder) as here:
        contract = await here.coordinator.signed()
        assert isinstance(await here.coordinator.prepare("bank", contract), ReadyAt)
        await clock.slept(180)
        clock.tick(seconds=179)
        assert (await here.coordinator.progress("bank", contract)).state == "ready"
        clock.tick(seconds=1)
        end = await here.coordinator.ended("bank", contract)
        assert end.state == "cancelled"
        assert "nobody started the session" in end.problems[0].text
        with pytest.raises(Conflict):
            await here.coordinator.start("bank", contract, {})
        assert isinstance(await here.coordinator.prepare("bank", contract), ReadyAt)


async def test_everybodys_address_is_needed(folder: Folder) -> None:
    async with world(folder) as here:
        contract = await here.coordinator.signed()
        await here.coordinator.prepare("bank", contract)
        with pytest.raises(ParameterError, match="no address of clinic, coordinator"):
            await here.coordinator.start("bank", contract, {"bank": "127.0.0.1:1"})
        with pytest.raises(ParameterError, match="is not an address"):
            await here.coordinator.start("bank", contract, {"clinic": "x", "coordinator": "y"})
        assert (await here.coordinator.progress("bank", contract)).state == "ready"


async def test_a_cancelled_session_tells_its_peers(folder: Folder) -> None:
    let_watch(folder)
    async with world(folder) as here:
        contract = await here.coordinator.signed(wish(show_progress=True))
        async with here.coordinator.held(contract):
            before = await here.coordinator.progress("bank", contract)
            assert (before.state, before.kind) == ("running", None)
            assert (await here.coordinator.cancel("bank", contract)).state == "cancelled"
            end = await here.coordinator.ended("clinic", contract)
            assert (end.state, end.culprit) == ("failed", "bank")
            assert end.problems == (Problem("was stopped", party="bank"),)
        assert (await here.coordinator.cancel("bank", contract)).state == "cancelled"  # again is no harm
    (end,) = folder.audited("bank", "session end")
    assert end["cause"] == "stopped"


async def test_a_node_that_ends_tells_its_peers(folder: Folder) -> None:
    let_watch(folder)
    async with world(folder, "clinic") as clinic:
        async with world(folder, "bank") as bank:
            https = {**bank.coordinator.https, **clinic.coordinator.https}
            both = Coordinator(https, network=folder.network)
            contract = await both.signed(wish(show_progress=True))
            holding = both.held(contract)
            await holding.__aenter__()
        end = await clinic.coordinator.ended("clinic", contract)
        assert (end.state, end.culprit, end.problems) == ("failed", "bank", (Problem("was stopped", party="bank"),))
        await holding.__aexit__(None, None, None)
    whole(folder, "bank")


K_TOO_LARGE = {"model": "k-anonymity", "qid": ["age", "job"], "k": COMMON + 1}
L_TOO_LARGE = {"model": "l-diversity", "qid": ["age", "town"], "l": 4, "sensitive": "disease"}  # there are 3


@pytest.mark.parametrize(
    ("model", "party", "named"),
    [
        (K_TOO_LARGE, "bank", f"k-anonymity (k = {COMMON + 1}) over age, job"),
        (L_TOO_LARGE, "clinic", "l-diversity (l = 4, sensitive = disease) over age, town"),
    ],
)
async def test_an_unreachable_requirement_is_named_alone_and_without_a_figure(
    folder: Folder, model: dict[str, Any], party: str, named: str
) -> None:
    async with world(folder) as here:
        contract = await here.coordinator.signed(wish(privacy=[*WISH["privacy"], model]))
        assert len(contract.deal.terms.parts) > 1
        with pytest.raises(PeerError):
            await here.coordinator.release(contract)
        end = await here.coordinator.ended(party, contract)
        assert (end.state, end.kind) == ("failed", "RequirementUnreachable")
        assert end.problems == (
            Problem(f"{named} cannot be reached: even the group of all common records violates it"),
        )
        assert Ledger.load(folder.state(party) / "ledger.jsonl").records == ()


def test_ports_are_kept_to(folder: Folder) -> None:
    async def part(port: int) -> None:
        folder.write_conf("bank", extra=f'session_ports = [{port}, {port}]\nsession_host = "localhost"')
        async with world(folder) as both:
            first, second = await both.coordinator.signed(), await both.coordinator.signed()
            assert await both.coordinator.prepare("bank", first) == ReadyAt(f"localhost:{port}")
            refusal = refused(await both.coordinator.prepare("bank", second))
            assert (refusal.busy, refusal.reasons) == (True, ("no port is free for one more session",))
            await both.coordinator.cancel("bank", first)
            await both.coordinator.release(second)

    with Ports() as ports:
        run(part(ports.one()))


async def test_rows_with_missing_cells_stay_out(folder: Folder) -> None:
    table = folder.path / "bank" / "customers.csv"
    lines = table.read_text().splitlines()
    ssn, _, *rest = lines[1].split(",")
    lines[1] = ",".join([ssn, "?", *rest])
    *used, _ = lines[2].split(",")
    lines[2] = ",".join([*used, ""])  # a column that nobody asks for may be empty
    table.write_text("\n".join(lines) + "\n")
    async with world(folder) as here:
        release = await here.coordinator.release(await here.coordinator.signed())
        assert release.rows == COMMON - 1


async def test_many_sessions_at_once(folder: Folder) -> None:
    for name in ("bank", "clinic"):
        folder.write_conf(name, sessions=8)

    async with world(folder) as here:
        contracts = [await here.coordinator.signed() for _ in range(8)]
        releases = await asyncio.gather(*map(here.coordinator.release, contracts))
        assert [release.rows for release in releases] == [COMMON] * 8
        for contract in contracts:
            assert (await here.coordinator.ended("bank", contract)).state == "done"
    assert len(Ledger.load(folder.state("bank") / "ledger.jsonl").records) == 1  # all of the same terms
    whole(folder, "bank")


async def test_a_session_that_is_being_dropped_cannot_be_started(folder: Folder) -> None:
    async with world(folder) as here:
        contract = await here.coordinator.signed()
        addresses = await here.coordinator.prepare_all(contract)
        book = {**addresses, "coordinator": "127.0.0.1:1"}
        cancelled, started = await asyncio.gather(
            here.coordinator.cancel("bank", contract),
            here.coordinator.start("bank", contract, book),
            return_exceptions=True,
        )
        assert not isinstance(cancelled, BaseException)
        assert isinstance(started, Conflict) or started.state in ("running", "cancelled")
        assert (await here.coordinator.ended("bank", contract)).state in ("cancelled", "failed")
        assert here.nodes["bank"].node.sessions._open("customers") == []
