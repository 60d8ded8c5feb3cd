"""`party …`: what a steward sees before and after a contract is signed, and the decision in between."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from pwd import getpwuid
from typing import Any

import httpx
import msgspec
import pytest
from starlette.applications import Starlette

from cli.command import MASQUERADE, Answer, files, here, refused
from forked import Forked
from homes import home
from masquerade.audit import verify
from masquerade.errors import ParameterError
from masquerade.service import Approvals, NodeSettings, SignedContract, StateFolder, review_page
from masquerade.service.agree.signing import sign
from masquerade.service.node.admission import deal_id
from masquerade.service.node.node import PartyNode, notify, waits
from masquerade.service.wire.control import Pending, Signature
from service.party_nodes import COMMON, JOBS, PEOPLE, TOWNS, Folder, run, wish, world

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def pending(folder: Folder, extra: str = "", **changes: object) -> SignedContract:
    """A contract that waits for a person at both parties."""
    for name in ("bank", "clinic"):
        folder.write_conf(name, extra=extra, needs_approval=True)

    async def part() -> SignedContract:
        async with world(folder) as both:
            contract = both.coordinator.draw_up(await both.coordinator.deal(wish(**changes)))
            for party in contract.parties:
                assert isinstance(await both.coordinator.ask_signature(party, contract), Pending)
            return contract

    return run(part())


def party(capsys: Capture, folder: Folder, command: str, name: str, *words: str) -> Answer:
    return here(capsys, "party", command, folder.conf(name), *words)


def test_the_card(folder: Folder, capsys: Capture) -> None:
    answer = party(capsys, folder, "card", "clinic")
    assert (answer.code, answer.err) == (0, "")
    assert "patients: 100 records at most, identified by ssn" in answer.out
    assert "disease: categorical, sensitive" in answer.out
    assert "town: categorical, attribute, taxonomy of height 1 below AnyTown" in answer.out
    told = party(capsys, folder, "card", "clinic", "--json").json
    assert [column["name"] for column in told["datasets"][0]["card"]["columns"]] == ["age", "town", "disease"]
    assert not any(value in answer.out + json.dumps(told) for value in (*JOBS, *TOWNS))
    table = folder.path / "clinic" / "patients.csv"
    table.write_text(table.read_text().replace("1000,", "1001,"))
    assert "the same identifier as row" in refused(capsys, "party", "card", folder.conf("clinic"))[0]
    table.unlink()
    (problem,) = refused(capsys, "party", "card", folder.conf("clinic"))  # the error is all that is said
    assert problem.startswith(f"{table}: there is no such file")


@pytest.mark.system
def test_the_page_for_approvals_is_served_until_an_interrupt(folder: Folder) -> None:
    words = [MASQUERADE, "party", "review", str(folder.conf("bank")), "--json"]
    with Forked(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            told = json.loads(running.stdout.readline())
            assert told["party"] == "bank"
            with urllib.request.urlopen(told["address"]) as answer:
                assert "bank" in answer.read().decode()
            with pytest.raises(urllib.error.HTTPError) as unknown:
                urllib.request.urlopen(told["address"][:-4])
            assert unknown.value.code == 404
            unknown.value.close()
            running.send_signal(signal.SIGINT)
            out, err = running.communicate(timeout=900)
        finally:
            running.kill()
    assert (running.returncode, out, err) == (0, "", "")


def test_a_bad_configuration(folder: Folder, capsys: Capture) -> None:
    conf = folder.conf("bank")
    conf.write_text(conf.read_text().replace("least_k", "lest_k").replace('id = "ssn"', ""))
    for command, words in (("serve", ()), ("card", ()), ("preview", ()), ("ledger", ()), ("approve", ("abcd",))):
        problems = refused(capsys, "party", command, conf, *words)
        assert problems[0] == f"{conf}: datasets.customers.id: missing; name the column of the identifiers"
        assert problems[1].startswith(f"{conf}: datasets.customers.policy.lest_k: unknown key")


def test_what_waits_and_what_it_lets_leave(folder: Folder, capsys: Capture) -> None:
    empty = party(capsys, folder, "preview", "bank")
    assert (empty.code, empty.out) == (0, "nothing waits for approval\n")
    contract = pending(folder, algorithm={"name": "tds"})
    deal = deal_id(contract.deal)
    listed = party(capsys, folder, "preview", "bank")
    assert listed.out.splitlines() == [f"{deal[:12]}  ana, for research: job, salary  (parties bank, clinic)"]
    assert party(capsys, folder, "preview", "bank", "--json").json["waiting"][0]["deal"] == deal

    shown = party(capsys, folder, "preview", "bank", deal[:8], "--json").json
    asked = {"party": "bank", "user": "ana", "purpose": "research", "recipients": ["ana"]}
    assert shown == shown | asked
    assert (shown["dataset"], shown["snapshot"]) == ("customers", contract.deal.terms.provisions[0].snapshot)
    assert {each["name"]: each["form"] for each in shown["columns"]} == dict.fromkeys(["job", "salary"], "generalised")
    job = shown["columns"][0]
    assert job["coarse_enough_for"] == [
        "k-anonymity (k = 3) over age, job, salary, town",
        "k-anonymity (k = 4) over age, job",
    ]
    together = "at least 3 records agree on all released attributes of all parties together"
    assert shown["over_all_attributes"] == together
    assert set(job["shown_to"]) == {"other parties", "coordinator", "recipients"}
    assert shown["class"]["name"] == "income"
    assert shown["class"]["shown_to"]["other parties"] == "the raw class of each common record"
    assert shown["protocol"]["argmax"] == "secure"
    assert not any("best score and its attribute" in line for line in shown["peers_learn"])
    assert any("in each round whether bank has the best score" in line for line in shown["peers_learn"])
    assert shown["figures"]["steps"] == "not told"
    assert shown["price"]["fixed"] == 0
    assert any("which of their own people all parties have" in line for line in shown["peers_learn"])

    clinic = party(capsys, folder, "preview", "clinic", deal, "--json").json
    disease = next(each for each in clinic["columns"] if each["name"] == "disease")
    assert disease["form"] == "as it is"
    assert set(disease["shown_to"]) == {"coordinator", "recipients"}
    assert clinic["class"] is None  # the bank shares it

    text = party(capsys, folder, "preview", "clinic", deal[:8]).out
    for line in (
        f"deal {deal}",
        "asked by ana, for research; the release goes to ana",
        "  disease: as it is; the raw cell of each common record, byte for byte",
        "    coarse enough for k-anonymity (k = 3) over age, job, salary, town",
        "Protocol: adversary semi-honest, argmax secure, score gain-ratio, normalize strip, version 1",
    ):
        assert line in text.splitlines(), text


def test_a_contract_in_a_file(folder: Folder, capsys: Capture, tmp_path: Path) -> None:
    for name in ("bank", "clinic"):
        folder.write_conf(name, show_progress=True)
    contract = pending(folder, show_progress=True, algorithm={"adversary": "malicious", "argmax": "plain"})
    path = tmp_path / "contract.json"
    path.write_bytes(contract.canonical())
    shown = party(capsys, folder, "preview", "bank", str(path), "--json").json
    assert shown["contract"] == contract.hash.hex()
    assert "as it is made" in shown["figures"]["steps"]
    assert (shown["protocol"]["adversary"], shown["protocol"]["epsilon"]) == ("malicious", "0.01")
    assert shown["protocol"]["argmax"] == "plain"
    assert any("bank's best score and its attribute" in line for line in shown["peers_learn"])
    path.write_text('{"deal": 3}')
    preview = ("party", "preview", folder.conf("bank"))
    assert refused(capsys, *preview, path)[0].startswith(f"{path}: contract: ")
    path.unlink()
    assert refused(capsys, *preview, path) == [f"{path}: there is no such file"]
    assert 'no deal "0123456789" waits' in refused(capsys, *preview, "0123456789", code=1)[0]


def test_a_page_that_cannot_be_forged(folder: Folder, capsys: Capture, tmp_path: Path) -> None:
    contract = pending(folder)
    deal = msgspec.structs.replace(contract.deal, purpose="research\x1b[2J\nsigned by: bank, clinic")
    path = tmp_path / "contract.json"
    path.write_bytes(msgspec.structs.replace(contract, deal=deal).canonical())
    shown = party(capsys, folder, "preview", "bank", str(path)).out
    assert shown.replace("\n", "").isprintable()
    assert r"for research\x1b[2J\nsigned by: bank, clinic; the release" in shown
    assert "signed by: nobody yet" in shown.splitlines()
    wrong = party(capsys, folder, "preview", "bank", "evil\x1b[2J.json")
    assert wrong.problems == [r"evil\x1b[2J.json: there is no such file"]


def test_signatures_count_as_far_as_they_fit(folder: Folder, capsys: Capture, tmp_path: Path) -> None:
    contract = pending(folder)
    path = tmp_path / "contract.json"

    def signed(**signers: str) -> dict[str, Any]:
        made = contract
        for name, signer in signers.items():
            made = made.with_signature(name, sign(PEOPLE[signer], contract.hash))
        path.write_bytes(made.canonical())
        return party(capsys, folder, "preview", "bank", str(path), "--json").json

    both = signed(bank="bank", clinic="clinic")
    assert (both["signed_by"], both["not_signed_by"]) == (["bank", "clinic"], {})
    forged = signed(bank="bank", clinic="stranger")
    assert forged["signed_by"] == ["bank"]
    assert "its signature is not one over this contract" in forged["not_signed_by"]["clinic"]
    shown = party(capsys, folder, "preview", "bank", str(path)).out.splitlines()
    assert "signed by: bank" in shown
    assert any(line.startswith("the signature of clinic does not count: ") for line in shown)
    (folder.path / "bank" / "identity" / "trust" / "clinic.pem").unlink()
    unknown = signed(clinic="clinic")
    assert (unknown["signed_by"], unknown["not_signed_by"]) == ([], {"clinic": "no certificate of it is known here"})


def test_the_preview_of_a_requirement_on_another_partys_values(folder: Folder, capsys: Capture) -> None:
    diverse = {"model": "l-diversity", "qid": ["age", "job"], "l": 2, "sensitive": "disease"}
    wished = [{"model": "k-anonymity", "qid": ["age", "job"], "k": 4}, diverse]
    deal = deal_id(pending(folder, privacy=wished).deal)
    bank, clinic = (
        party(capsys, folder, "preview", name, deal, "--json").json["peers_learn"] for name in ("bank", "clinic")
    )
    part = "l-diversity (l = 2, sensitive = disease) over age, job"
    assert f"clinic: whether {part} allows bank's best candidate, one bit each time it has the best of all" in bank
    assert "bank: how many different values of disease the common records have" in clinic
    bit = "one bit each time, never about fewer than 4 records"
    assert f"bank: whether {part} allows their best candidate, {bit}" in clinic


def test_a_person_decides(folder: Folder, capsys: Capture) -> None:
    contract = pending(folder)
    deal = deal_id(contract.deal)
    approved = party(capsys, folder, "approve", "bank", deal[:10], "--by", "Ada of the data office")
    assert (approved.code, approved.out) == (0, f"approved: {deal}\n")
    refusal = party(capsys, folder, "refuse", "clinic", deal, "--reason", "ask me first", "--json")
    assert refusal.json == {"deal": deal, "approved": False, "before": None}
    assert party(capsys, folder, "preview", "bank").out == "nothing waits for approval\n"
    assert party(capsys, folder, "approve", "bank", "0" * 8).code == 1

    async def part() -> None:
        async with world(folder) as both:
            assert isinstance(await both.coordinator.ask_signature("bank", contract), Signature)
            answer = await both.coordinator.ask_signature("clinic", contract)
            assert "a person has refused it: ask me first" in str(answer)
            thought_again = party(capsys, folder, "approve", "clinic", deal[:6])
            assert thought_again.code == 0
            assert thought_again.out == f"was refused before; approved now: {deal}\n"
            assert isinstance(await both.coordinator.ask_signature("clinic", contract), Signature)

    run(part())
    assert party(capsys, folder, "approve", "clinic", deal).out == f"approved again: {deal}\n"
    withdrawn = party(capsys, folder, "refuse", "clinic", deal, "--json")
    assert withdrawn.json == {"deal": deal, "approved": False, "before": "approved"}
    for name, event, times in (("bank", "approval", 1), ("clinic", "disapproval", 2)):
        log = folder.state(name) / "audit.jsonl"
        events = [json.loads(line) for line in log.read_text().splitlines()]
        decisions = [line["fields"] for line in events if line["event"] == event]
        assert [each["deal"] for each in decisions] == [deal] * times
        assert {each["user"] for each in decisions} == {getpwuid(os.getuid()).pw_name}
        assert {each["by"] for each in decisions} == {"Ada of the data office" if name == "bank" else None}
        verify(log, certificates=[PEOPLE[name].certificate]).insist()


def test_the_ledger(folder: Folder, capsys: Capture) -> None:
    assert party(capsys, folder, "ledger", "bank").out == "nothing was released yet\n"

    async def part() -> None:
        async with world(folder) as both:
            release = await both.coordinator.release(await both.coordinator.signed())
            assert release.rows == COMMON

    run(part())
    (released,) = party(capsys, folder, "ledger", "bank", "--json").json["releases"]
    columns = [each["name"] for each in released["terms"]["columns"]]
    assert columns == ["age", "job", "salary", "town", "disease"]
    text = party(capsys, folder, "ledger", "bank").out
    assert "age, job, salary, town, disease  for ana  with bank, clinic" in text
    assert "  k-anonymity (k = 4) over age, job" in text
    assert "  made by mondrian: align auto, choose class-first, strict no" in text


@pytest.mark.system
def test_serve_says_where_it_listens(folder: Folder) -> None:
    process = subprocess.Popen(
        [MASQUERADE, "party", "serve", str(folder.conf("bank"))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        assert line.startswith("party bank listens on https://127.0.0.1:"), line
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=900)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, out) == (0, b"")
    assert [json.loads(each)["event"] for each in err.splitlines()][-1] == "ended"


# --- in a browser, and by a command of the steward's own ---


def visited(page: Starlette, path: str, **form: str) -> httpx.Response:
    """What a browser gets at a path, or after it sent a form there."""

    async def asked() -> httpx.Response:
        transport = httpx.ASGITransport(app=page)
        async with httpx.AsyncClient(transport=transport, base_url="http://here", follow_redirects=True) as browser:
            return await (browser.post(path, data=form) if form else browser.get(path))

    return run(asked())


def test_serve_on_a_taken_port_leaves_nothing(folder: Folder, capsys: Capture) -> None:
    before = files(folder.path / "bank")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        conf = folder.conf("bank")
        conf.write_text(conf.read_text().replace("127.0.0.1:0", address))
        (problem,) = refused(capsys, "party", "serve", conf)
    assert problem.startswith(f"{address}: cannot listen here")
    assert files(folder.path / "bank") == before


def test_a_person_decides_on_a_page(folder: Folder) -> None:
    deal = deal_id(pending(folder, purpose="research").deal)
    page, path = review_page(NodeSettings.load(folder.conf("bank")), {"by": "Ada", "user": "steward"})
    assert visited(page, "/").status_code == 404
    shown = visited(page, path)
    assert "ana, for research: job, salary" in shown.text
    assert "These columns leave bank" in shown.text
    assert "default-src 'none'" in shown.headers["content-security-policy"]
    assert visited(page, path, say="shrug", deal=deal).status_code == 422
    assert visited(page, path, say="approve", deal="0" * 64).status_code == 409
    after = visited(page, path, say="approve", deal=deal)
    assert f"Approved {deal[:12]}." in after.text
    assert "Nothing waits for approval." in after.text
    assert Approvals(StateFolder(folder.state("bank"))).decided(deal) == "approved"
    log = (folder.state("bank") / "audit.jsonl").read_text()
    assert '"by":"Ada"' in log
    refusing, path = review_page(NodeSettings.load(folder.conf("clinic")), {"by": None, "user": "steward"})
    visited(refusing, path, say="refuse", deal=deal, reason="not\nnow")
    assert Approvals(StateFolder(folder.state("clinic"))).refused(deal) == "not\\nnow"


@pytest.mark.system
def test_a_person_is_told_by_a_command(folder: Folder) -> None:
    """What others wrote reaches the command as its input alone; one that fails holds up nothing."""
    contract = pending(folder, purpose="research")
    deal, settings = deal_id(contract.deal), NodeSettings.load(folder.conf("bank"))
    text = waits("bank", deal, contract, settings.path)
    script = "import os, sys; open('told', 'w').write(os.environ['MASQUERADE_DEAL'] + sys.stdin.read())"
    telling = notify([sys.executable, "-c", script], text, deal, folder.path)
    assert telling is not None
    telling.join()
    told = (folder.path / "told").read_text()
    assert told == deal + text
    assert "ana, for research: job, salary (parties bank, clinic)" in told
    assert f"masquerade party approve {settings.path} {deal[:12]}" in told
    failing = notify([str(folder.path / "no such program")], text, deal, folder.path)
    assert failing is not None
    failing.join()
    assert notify((), text, deal, folder.path) is None


def test_a_node_tells_once_that_a_contract_waits(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[Any, ...]] = []
    monkeypatch.setattr(home(PartyNode), "notify", lambda *words: told.append(words))
    deal = deal_id(pending(folder, 'notify = { approval = ["mail", "ana"] }').deal)
    assert [(each[0], each[2]) for each in told] == [(("mail", "ana"), deal)] * 2  # at both parties
    wrong = folder.conf("bank").read_text().replace('["mail", "ana"]', '"mail ana"')
    folder.conf("bank").write_text(wrong)
    with pytest.raises(ParameterError, match=r"notify.approval: must be a command as a list of words"):
        NodeSettings.load(folder.conf("bank"))
