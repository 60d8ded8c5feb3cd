"""A node whose ledger was damaged, and one whose secret is lost: it says so, and releases nothing."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import structlog

from cli.command import MASQUERADE, Answer, here
from forked import run as run_forked
from full_disk import no_file_above
from masquerade import files
from masquerade.audit import AuditLog, verify
from masquerade.errors import DataError, ParameterError
from masquerade.protocol import Contribution
from masquerade.service import Ledger, NodeSettings, StateFolder, running
from masquerade.service.agree.terms import Offer, Provision, Refusal, Terms
from masquerade.service.ledger import ReleaseRecord, append
from masquerade.service.snapshot import KEY_BYTES
from masquerade.service.wire.control import Signature
from masquerade.service.wire.peers import TLS
from service.party_nodes import PEOPLE, Folder, refused, run, wish, world

Capture = pytest.CaptureFixture[str]

NEUTRAL = "customers cannot be released now; its steward can see why"


def released(dataset: str = "customers", at: int = 0) -> ReleaseRecord:
    terms = Terms(
        provisions=(
            Provision("bank", dataset, "aa" * 32, "bb" * 32),
            Provision("clinic", "patients", f"{at:064x}", "cc" * 32),
        ),
        columns=(Contribution("age", "clinic", "attribute"), Contribution("job", "bank", "attribute")),
        requirements=({"model": "k-anonymity", "qid": ["age", "job"], "k": 4},),
        method={"name": "tds", "score": "discernibility"},
    )
    return ReleaseRecord(dataset, "aa" * 32, terms, ("ana",), 1_700_000_000 + at)


def released_before(folder: Folder, *datasets: str, lost: bool = False) -> Path:
    """The bank's ledger, with a line for each of these; `lost`: its customers' secret is not there any more."""
    state = StateFolder(folder.state("bank"))
    state.make()
    if not lost:
        state.secret("customers")
    for at, dataset in enumerate(datasets):
        append(state.ledger, released(dataset, at))
    AuditLog(state.audit, PEOPLE["bank"]).close()
    return state.ledger


def damage(ledger: Path, line: int, new: bytes) -> None:
    lines = ledger.read_bytes().splitlines()
    lines[line - 1] = new
    ledger.write_bytes(b"\n".join(lines) + b"\n")


def start(folder: Folder) -> None:
    async def part() -> None:
        async with running(NodeSettings.load(folder.conf("bank"))):
            pass

    run(part())


def doctor(capsys: Capture, folder: Folder, name: str) -> list[dict[str, Any]]:
    """What doctor says under this name about the bank; nobody is at its coordinator's address."""
    answer = here(capsys, "doctor", folder.conf("bank"), "--json")
    return [check for check in answer.json["checks"] if check["name"] == name]


def party(capsys: Capture, folder: Folder, command: str, *words: str) -> Answer:
    return here(capsys, "party", command, folder.conf("bank"), *words)


@pytest.mark.system
def test_a_damaged_line_is_told_at_the_start_by_doctor_and_by_the_ledger(folder: Folder, capsys: Capture) -> None:
    ledger = released_before(folder, "customers", "customers", "customers")
    assert [check["detail"] for check in doctor(capsys, folder, "ledger")] == ["whole: 3 releases"]
    damage(ledger, 2, b"garbage")
    wrong = f"{ledger}: line 2: not JSON"
    started = run_forked([MASQUERADE, "party", "serve", str(folder.conf("bank"))])
    assert (started.returncode, started.stdout) == (2, b"")
    assert started.stderr.decode().splitlines() == [f"error: {wrong}"]
    (check,) = doctor(capsys, folder, "ledger")
    assert (check["status"], check["detail"]) == ("error", wrong)
    assert "find out who changed it" in check["advice"]
    for words in ((), ("--json",), ("--forget", "customers")):
        answer = party(capsys, folder, "ledger", *words)
        assert (answer.code, answer.problems) == (2, [wrong])


async def test_a_ledger_that_was_changed_under_a_running_node(folder: Folder) -> None:
    ledger = released_before(folder, "customers", "others")
    async with world(folder) as both:
        coordinator = both.coordinator
        contract = coordinator.draw_up(await coordinator.deal())
        whole = ledger.read_bytes()
        ledger.write_bytes(whole.replace(b'"k":4', b'"k":2', 1))
        with structlog.testing.capture_logs() as logs:
            for answer in (await coordinator.offer("bank", wish()), await coordinator.ask_signature("bank", contract)):
                assert isinstance(answer, Refusal)
                assert answer.reasons == (NEUTRAL,)
                assert not answer.busy
        told = [entry for entry in logs if entry["log_level"] == "error"]
        wrong = f"{ledger}: line 1: wrong hash: the line was changed after it was written"
        assert [entry["problems"] for entry in told] == [[wrong]] * 2
        # A line for another dataset that is gone may have been one of ours.
        ledger.write_bytes(whole.splitlines(keepends=True)[0])
        assert isinstance(await coordinator.offer("bank", wish()), Refusal)
        ledger.write_bytes(whole)
        assert isinstance(await coordinator.offer("bank", wish()), Offer)
        assert isinstance(await coordinator.ask_signature("bank", contract), Signature)


async def test_no_session_is_prepared_without_a_whole_ledger(folder: Folder) -> None:
    ledger = released_before(folder, "customers")
    async with world(folder) as both:
        contract = await both.coordinator.signed()
        damage(ledger, 1, b"{}")
        refusal = refused(await both.coordinator.prepare("bank", contract))
        assert refusal.reasons == (NEUTRAL,)
    assert ledger.read_bytes() == b"{}\n"


def test_a_lost_secret_is_not_replaced_in_silence(folder: Folder, capsys: Capture) -> None:
    released_before(folder, "customers", "customers", "others", lost=True)
    secret = folder.state("bank") / "secrets" / "customers.key"
    lost = f"{secret}: the secret of customers is missing, and the ledger has 2 releases of it; "
    for _ in range(2):  # nor at the second try
        with pytest.raises(ParameterError) as refused:
            start(folder)
        (told,) = refused.value.lines
        assert told.startswith(lost)
        assert "a second release through that breaks the first" in told
        assert told.endswith(
            "restore the file from a backup, or begin anew on purpose with "
            "`masquerade party ledger CONF --forget customers`"
        )
        card = party(capsys, folder, "card")
        assert (card.code, card.out, card.problems) == (2, "", [told])
        assert [check["detail"] for check in doctor(capsys, folder, "secret")] == [told]
    assert not secret.exists()


def test_a_secret_that_is_found_again_and_one_that_nothing_was_released_with(folder: Folder, capsys: Capture) -> None:
    start(folder)
    released_before(folder, "others")
    secret = folder.state("bank") / "secrets" / "customers.key"
    first = secret.read_bytes()
    secret.unlink()
    assert doctor(capsys, folder, "secret") == []
    start(folder)  # nobody knows the old one
    assert secret.read_bytes() != first
    append(folder.state("bank") / "ledger.jsonl", released())
    kept = secret.read_bytes()
    secret.unlink()
    with pytest.raises(ParameterError):
        start(folder)
    secret.write_bytes(kept)
    secret.chmod(0o600)
    start(folder)


def test_beginning_anew_on_purpose(folder: Folder, capsys: Capture) -> None:
    ledger = released_before(folder, "customers", "customers", lost=True)
    before = ledger.read_bytes()
    secret = folder.state("bank") / "secrets" / "customers.key"
    strange = party(capsys, folder, "ledger", "--forget", "customer")
    assert strange.code == 2
    assert strange.problems == [
        f'{folder.conf("bank")}: there is no dataset "customer" (did you mean "customers"?); there are customers'
    ]
    with StateFolder(folder.state("bank")).locked():
        busy = party(capsys, folder, "ledger", "--forget", "customers")
    assert (busy.code, secret.exists()) == (2, False)
    assert "another node uses this state folder" in busy.problems[0]

    done = party(capsys, folder, "ledger", "--forget", "customers")
    assert (done.code, done.err) == (0, "")
    assert done.out == "customers: a new secret is made; what was released of it before (2) is not known again\n"
    assert (len(secret.read_bytes()), secret.stat().st_mode & 0o777) == (32, 0o600)
    assert ledger.read_bytes() == before  # its lines stay: whoever finds the old secret again is known by them
    log = folder.state("bank") / "audit.jsonl"
    verify(log, certificates=[PEOPLE["bank"].certificate]).insist()
    noted = [json.loads(line) for line in log.read_text().splitlines()]
    assert [each["fields"] for each in noted if each["event"] == "secret replaced"] == [
        {"dataset": "customers", "releases": 2}
    ]
    start(folder)

    made = secret.read_bytes()
    again = party(capsys, folder, "ledger", "--forget", "customers")
    assert (again.code, again.problems) == (1, ["customers: its secret is not lost; nothing needs to be forgotten"])
    assert secret.read_bytes() == made


def test_an_audit_log_that_is_gone_with_its_head(folder: Folder, capsys: Capture) -> None:
    """The ledger knows that there was one."""
    released_before(folder, "customers")
    for path in folder.state("bank").glob("audit.*"):
        path.unlink()
    log = folder.state("bank") / "audit.jsonl"
    told = f"{log}: the audit log is missing or empty, and the ledger has 1 release; restore it"
    with pytest.raises(ParameterError) as error:
        start(folder)
    assert str(error.value).startswith(told)
    assert not log.exists()
    assert any(check["detail"].startswith(told) for check in doctor(capsys, folder, "audit"))
    assert here(capsys, "audit", "forget", log, "--identity", folder.path / "bank" / "identity").code == 0
    start(folder)
    assert [json.loads(line)["event"] for line in log.read_text().splitlines()][:4] == [
        "genesis", "seal", "cut", "opened",
    ]  # fmt: skip


def test_a_ledger_that_is_set_aside(folder: Folder) -> None:
    ledger = released_before(folder, "customers")
    ledger.unlink()
    with pytest.raises(DataError, match=r"line 1: missing: nothing is there, but 1 record was written"):
        start(folder)
    ledger.with_suffix(".head").unlink()
    start(folder)
    assert Ledger.load(ledger) == Ledger()


async def test_addresses_that_there_are_not(folder: Folder) -> None:
    folder.network = TLS  # with headers
    async with world(folder, "bank") as here:
        for who in ("coordinator", "clinic"):
            async with here.http(who, "bank") as peer:
                for method, path, status, title, allowed in (
                    ("GET", "/v1/nothing", 404, "Not Found", None),
                    ("GET", "/", 404, "Not Found", None),
                    ("DELETE", "/v1/offers", 405, "Method Not Allowed", "POST"),
                ):
                    answer = await peer._http.request(method, path, extensions={"sni_hostname": "bank"})
                    assert answer.status_code == status
                    assert answer.headers["content-type"] == "application/problem+json"
                    assert answer.headers.get("allow") == allowed
                    told = answer.json()
                    assert (told["status"], told["title"]) == (status, title)
                    assert told["detail"].startswith(f"{method} {path}: ")
                    assert told["problems"] == [told["detail"]]


def test_a_stopped_node_goes_on_with_its_chain(folder: Folder) -> None:
    """Two releases in two lives of a node, in one chain."""

    async def part(recipient: str) -> None:
        async with world(folder) as both:
            await both.coordinator.release(await both.coordinator.signed(wish(recipients=[recipient])))

    for recipient in ("ana", "ana", "ben"):
        run(part(recipient))
    lines = [json.loads(line) for line in (folder.state("bank") / "ledger.jsonl").read_text().splitlines()]
    first, again = ["settled", "release", "settled"], ["release"]
    assert [line["event"] for line in lines] == [
        each for session in (first, again, again) for each in ("aligned", "submitted", *session)
    ]
    assert len(Ledger.load(folder.state("bank") / "ledger.jsonl").records) == 2, "the same for the same is in it"
    assert all(line["previous"] == before["hash"] for before, line in pairwise(lines))


# --- A node's state folder when the disk is full, or the node is killed, at its first start ---


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    made = StateFolder(tmp_path / "state")
    made.make()
    return made


@pytest.mark.parametrize("room", [0, 1, KEY_BYTES - 1])
def test_a_full_disk_leaves_no_secret_and_the_next_start_makes_one(state: StateFolder, room: int) -> None:
    with no_file_above(room), pytest.raises(ParameterError, match=r"people\.key: cannot be written"):
        state.secret("people")
    assert [*(state.folder / "secrets").iterdir()] == []
    assert len(state.secret("people")) == KEY_BYTES
    assert state.secret("people") == state.secret("people")


@pytest.mark.parametrize("moment", ["fsync", "link"])
def test_a_crash_leaves_no_secret_and_the_next_start_makes_one(
    state: StateFolder, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Whatever was under way when the power went: what has the secret's name is a whole secret."""

    def die(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(files.os, moment, die)
        patched.setattr(Path, "unlink", lambda *_, **__: None)  # nobody tidies up after a crash
        with pytest.raises(KeyboardInterrupt):
            state.secret("people")
    (left,) = (state.folder / "secrets").iterdir()
    assert left.name != "people.key"
    assert len(state.secret("people")) == KEY_BYTES
    assert [path.name for path in (state.folder / "secrets").iterdir()] == ["people.key"]  # swept, too
