"""`request`, `sessions`, `download`, `cancel`, `decide` against a coordinator's real API."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cli.command import MASQUERADE, Answer, answered, files, forked, here, process, refused, without_progress
from forked import Forked
from library.live_api import TABLE, LiveApi, eventually, live_api
from masquerade.cli.client import Teller, written_lines
from masquerade.cli.output import ProgressDisplay
from masquerade.client import Client
from masquerade.client.calls import Me
from masquerade.service import Event, Role, Status

Capture = pytest.CaptureFixture[str]
NOW = datetime(2026, 3, 1, tzinfo=UTC)

REQUEST = """
[request]
purpose = "research"
attributes = ["age", "job"]
[[request.privacy]]
model = "k-anonymity"
qid = ["age", "job"]
k = 2
"""


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveApi]:
    with live_api(tmp_path_factory.mktemp("api"), requests_per_minute=100_000) as server:
        yield server


@pytest.fixture
def conf(api: LiveApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("MASQUERADE_URL", "MASQUERADE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "token").touch(mode=0o600)
    (tmp_path / "token").write_text(f"{api.token}\n")
    path = tmp_path / "client.toml"
    path.write_text(f'coordinator = "{api.url}"\ntoken_file = "token"\n{REQUEST}')
    return path


LINES = ["party bank: vanished", "party bank: and stays away"]


LOST: dict[str, Any] = {
    "lost": {"age": 0.97},
    "losses": {"job": 0.25, "age": 0.97},
    "rows": 4,
    "cost": 310,
    "declines": 2,
}


class Lines(ProgressDisplay):
    """Keeps what is told of a session."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def stage(self, text: str) -> None:
        self.told.append(text)


class Playing:
    """Plays the parties' part for the next session that is asked for."""

    def __init__(self, api: LiveApi, ending: str) -> None:
        self._known = {each.id for each in api.coordinator.store.sessions.recent()}
        self._api, self._ending = api, ending
        self.session = ""
        self._thread = threading.Thread(target=self._play)

    def _play(self) -> None:
        store = self._api.coordinator.store
        eventually(lambda: {each.id for each in store.sessions.recent()} > self._known)
        (self.session,) = {each.id for each in store.sessions.recent()} - self._known
        if self._ending == "refused":
            self._api.move(self.session, Status.NEGOTIATING)
            session = store.sessions.get(self.session)
            reasons = ["bank: least k is 5", "bank: only for audits", "shop: no more today"]
            store.sessions.advance(session, Status.REFUSED, "; ".join(reasons), {"reasons": reasons})
        elif self._ending == "failed":
            self._api.move(self.session, Status.FAILED, cause="party bank: its table is empty")
        elif self._ending == "failed by bank":
            self._api.move(self.session, Status.FAILED, cause="party bank: vanished", reasons=LINES, failed_by="bank")
        elif self._ending == "held":
            self._api.hold(self.session)
        elif self._ending == "lost":
            self._api.hold(self.session, **LOST)
        elif self._ending == "estimated":
            self._api.hold(self.session, **LOST | {"lost": {}, "estimate": True})
        else:
            self._api.tell(self.session, "progress", {"parties": {"bank": {"doing": "mashup", "round": 3}}})
            self._api.publish(self.session)

    def __enter__(self) -> Playing:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._thread.join(60)


def test_a_request_to_its_end(api: LiveApi, conf: Path, capsys: Capture) -> None:
    with Playing(api, "published") as played:
        answer = here(capsys, "request", conf, "--output", "release.csv", "--report", "report.html")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.splitlines() == [
        f"session {played.session}: published, 4 rows",
        "table: release.csv",
        "report: report.html",
    ]
    assert len(Path("release.csv").read_text().splitlines()) == len(TABLE) + 1
    assert files(conf.parent) == {"client.toml", "token", "release.csv", "report.html"}


def test_a_request_as_json(api: LiveApi, conf: Path, capsys: Capture) -> None:
    with Playing(api, "published") as played:
        answer = here(capsys, "request", conf, "--output", "release.parquet", "--json")
    assert (answer.code, answer.err) == (0, "")
    told = answer.json
    assert (told["id"], told["status"], told["rows"]) == (played.session, "published", 4)
    assert told["table"] == "release.parquet"
    assert told["request"]["privacy"] == [{"model": "k-anonymity", "qid": ["age", "job"], "k": 2}]
    with Playing(api, "published") as played:
        answer = here(capsys, "request", conf)
    assert f"take it: masquerade download {played.session} --conf {conf}" in answer.out


@pytest.mark.parametrize("json_too", [False, True])
def test_a_refusal_tells_every_reason(api: LiveApi, conf: Path, capsys: Capture, json_too: bool) -> None:
    with Playing(api, "refused"):
        answer = here(capsys, "request", conf, "--output", "release.csv", *(["--json"] if json_too else []))
    assert answer.code == 1
    assert answer.problems == ["bank: least k is 5", "bank: only for audits", "shop: no more today"]
    assert answer.json["status"] == "refused" if json_too else answer.out == ""
    assert not Path("release.csv").exists()


def test_a_failure_names_its_cause(api: LiveApi, conf: Path, capsys: Capture) -> None:
    with Playing(api, "failed"):
        answer = here(capsys, "request", conf)
    assert answer.code == 1
    assert answer.problems == ["party bank: its table is empty"]


@pytest.mark.parametrize("json_too", [False, True])
def test_a_failure_of_a_party_has_an_exit_code_of_its_own(
    api: LiveApi, conf: Path, capsys: Capture, json_too: bool
) -> None:
    words = ["--json"] if json_too else []
    with Playing(api, "failed by bank") as played:
        answer = here(capsys, "request", conf, "--output", "release.csv", *words)
    assert (answer.code, answer.problems) == (3, LINES)
    assert answer.json["failed_by"] == "bank" if json_too else answer.out == ""
    assert not Path("release.csv").exists()
    watched = here(capsys, "sessions", played.session, "--watch", *words)
    assert (watched.code, watched.problems) == (3, LINES)
    assert here(capsys, "sessions", played.session).code == 0  # a look is no failure


def test_what_misses_the_quality_waits_for_a_word(api: LiveApi, conf: Path, capsys: Capture) -> None:
    def held() -> str:
        with Playing(api, "held") as played:
            answer = here(capsys, "request", conf, "--output", "release.csv")
        assert answer.code == 1
        (problem,) = answer.problems
        assert [part.split(": ")[1] for part in problem.split("; ") if ": masquerade " in part] == [
            f"masquerade decide {played.session} {word} --conf {conf}"
            for word in ("accept", "relax --most-error 0.4", "withdraw")
        ]
        assert "0.4" in problem
        assert "0.1" in problem
        assert not Path("release.csv").exists()
        return played.session

    session = held()
    assert here(capsys, "download", session).code == 1
    answer = answered(capsys, "decide", session, "accept")
    assert f"masquerade download {session}" in answer.out
    assert here(capsys, "download", session, "--json").json["table"] == f"{session}.csv"
    session = held()
    assert here(capsys, "decide", session, "withdraw", "--json").json["status"] == "cancelled"
    session = held()
    assert here(capsys, "decide", session, "relax").code == 2
    assert here(capsys, "decide", session, "accept", "--most-error", "0.5").code == 2
    Path("less.toml").write_text("attempts = 2\n")
    answer = answered(capsys, "decide", session, "relax", "--request", "less.toml", "--json")
    assert (answer.json["status"], answer.json["request"]["attempts"]) == ("negotiating", 2)
    answer = here(capsys, "decide", session, "accept")
    assert answer.code == 1  # it waits no longer
    assert here(capsys, "decide", session, "perhaps").code == 2


def test_a_column_that_would_be_lost_waits_for_a_word(api: LiveApi, conf: Path, capsys: Capture) -> None:
    with Playing(api, "lost") as played:
        answer = here(capsys, "request", conf, "--output", "release.csv")
    assert answer.code == 1
    (problem,) = answer.problems
    for part in ("age lost 97%", "losses: age 97%, job 25%", "cost: 310 cents", "1 more may be declined"):
        assert part in problem
    assert [part.split(": ")[1] for part in problem.split("; ") if ": masquerade " in part] == [
        f"masquerade decide {played.session} {word} --conf {conf}" for word in ("accept", "withdraw")
    ]
    assert not Path("release.csv").exists()


def test_an_estimate_is_an_answer_and_writes_nothing(api: LiveApi, conf: Path, capsys: Capture) -> None:
    with Playing(api, "estimated") as played:
        answer = here(capsys, "request", conf, "--estimate")
    assert (answer.code, answer.err) == (0, "")
    assert "  losses: age 97%, job 25%\n" in answer.out
    assert "  cost: 310 cents\n" in answer.out
    (accept,) = (line.split(": ")[1] for line in answer.out.splitlines() if "take it as it is: " in line)
    assert here(capsys, *shlex.split(accept)[1:], "--json").json["status"] == "published"
    with Playing(api, "estimated") as played:
        told = here(capsys, "request", conf, "--estimate", "--json")
    assert (told.code, told.json["id"], told.json["request"]["estimate"]) == (0, played.session, True)
    assert told.json["missed"]["losses"] == LOST["losses"]
    assert told.json["missed"]["cost"] == 310
    assert "--estimate" in refused(capsys, "request", conf, "--estimate", "--output", "release.csv")[0]


def test_a_person_reads_beforehand_that_a_release_binds_later_ones(
    api: LiveApi, conf: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    answer = here(capsys, "request", conf, "--no-wait")
    assert answer.code == 0
    assert "binds later ones" in answer.err


def test_what_is_waited_for_is_shown(api: LiveApi, conf: Path, capsys: Capture) -> None:
    session = here(capsys, "request", conf, "--no-wait", "--json").json["id"]
    api.move(session, Status.NEGOTIATING)
    assert "approval" not in here(capsys, "sessions", session).out
    api.tell(session, "approval", {"party": "bank", "reason": "more than 1,000 records"})
    shown = here(capsys, "sessions", session).out
    assert "  waits for the approval of a person at bank\n" in shown
    api.hold(session)
    shown = here(capsys, "sessions", session, "--conf", conf).out
    assert "approval" not in shown
    assert "the classification error is 0.4, and at most 0.1 was wished" in shown
    (accept,) = (line.split(": ")[1] for line in shown.splitlines() if "take it as it is: " in line)
    assert here(capsys, *shlex.split(accept)[1:], "--json").json["status"] == "published"


def test_a_recipient_is_not_told_to_decide(
    api: LiveApi, conf: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = here(capsys, "request", conf, "--no-wait", "--json").json["id"]
    api.hold(session)
    monkeypatch.setattr(Client, "me", lambda _client: Me(name="eve", role=Role.ANALYST, created=NOW, now=NOW))
    shown = here(capsys, "sessions", session).out
    assert "nothing is published before ana decides" in shown
    assert "masquerade decide" not in shown


def test_a_problem_names_its_party_once() -> None:
    shown = Lines()
    data = {"party": "bank", "text": "nobody answers at 127.0.0.1:1"}
    Teller(shown)(Event(session="s", number=1, time=NOW, kind="problem", data=data))
    agreed = {"requirements": ["k-anonymity (k = 60) over age"]}
    Teller(shown)(Event(session="s", number=2, time=NOW, kind="contract", data=agreed))
    assert shown.told == ["bank: nobody answers at 127.0.0.1:1", "agreed: k-anonymity (k = 60) over age"]


def test_a_report_that_was_changed_is_not_kept(api: LiveApi, conf: Path, capsys: Capture) -> None:
    session = here(capsys, "request", conf, "--no-wait", "--json").json["id"]
    api.publish(session)
    (api.settings.releases / session / "report.html").write_text("hello")
    problems = refused(capsys, "download", session, "--report", "report.html", code=3)
    assert "sent another report than the one it published" in problems[0]
    assert not Path("report.html").exists()


def test_the_coordinators_word_names_the_file(api: LiveApi, conf: Path, capsys: Capture) -> None:
    conf.write_text(conf.read_text().replace("[request]", '[request]\nrecipients = ["eve"]'))
    assert refused(capsys, "request", conf) == [f'{conf}: request.recipients: there is no user "eve"']
    conf.write_text(conf.read_text().replace('recipients = ["eve"]', "").replace('"age", "job"]\n', '"wealth"]\n', 1))
    (problem, *_) = here(capsys, "request", conf.name).problems
    assert problem.startswith("client.toml: request.")
    conf.write_text(f'coordinator = "{api.url}"\ntoken_file = "token"\n{REQUEST}')
    session = here(capsys, "request", conf, "--no-wait", "--json").json["id"]
    api.hold(session)
    Path("ch.toml").write_text("k = 3\n")
    assert refused(capsys, "decide", session, "relax", "--request", "ch.toml")[0].startswith("ch.toml: k: unknown key")
    assert refused(capsys, "decide", session, "relax", "--most-error", "7")[0].startswith("--most-error: must be ")
    Path("ch.toml").write_text("[request]\nattempts = 0\n")
    answer = here(capsys, "decide", session, "relax", "--request", "ch.toml", "--most-error", "7")
    assert sorted(line.split(": ")[0] for line in answer.problems) == ["--most-error", "ch.toml"]
    assert any(line.startswith("ch.toml: request.attempts: must be ") for line in answer.problems)


@pytest.mark.system
def test_a_download_to_a_full_disk_leaves_nothing(api: LiveApi, conf: Path, capsys: Capture) -> None:
    with Playing(api, "published") as played:
        answered(capsys, "request", conf)
    before = files(conf.parent)
    words = f"download {played.session} --output release.csv"
    command = f'export PYTHONDONTWRITEBYTECODE=1; ulimit -f 0; exec "{MASQUERADE}" {words}'
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    told = without_progress(done.stderr)
    assert told == "error: release.csv: cannot be written: File too large\n"
    assert files(conf.parent) == before


@pytest.mark.parametrize("session", ["deadbeef", "../../etc", "5F" * 16])
@pytest.mark.parametrize("command", ["download", "cancel", "sessions"])
def test_what_is_no_session_is_told_at_once(conf: Path, capsys: Capture, command: str, session: str) -> None:
    problems = refused(capsys, command, session)
    (problem,) = problems
    assert problem.startswith(f'"{session}" is no session\'s identifier: ')
    assert files(conf.parent) == {"client.toml", "token"}


def test_the_list_tells_rows_or_that_there_is_nothing(api: LiveApi, conf: Path, capsys: Capture) -> None:
    with Playing(api, "published") as played:
        answered(capsys, "request", conf)
    (newest,) = here(capsys, "sessions", "--limit", "1", "--json").json["sessions"]
    assert (newest["id"], newest["rows"]) == (played.session, 4)
    assert here(capsys, "sessions", "--status", "expired").out == "no sessions\n"


def test_begin_look_and_end(api: LiveApi, conf: Path, capsys: Capture) -> None:
    answer = answered(capsys, "request", conf, "--no-wait")
    session = answer.out.split()[1]
    assert f"masquerade sessions {session} --watch --conf {conf}" in answer.out
    assert here(capsys, "request", conf, "--no-wait", "--output", "x.csv").code == 2
    head, first, *_ = here(capsys, "sessions").out.splitlines()  # client.toml is found by itself
    assert head.split() == ["STATUS", "CREATED", "COLUMNS", "PURPOSE", "PARTIES", "SESSION", "CAUSE"]
    assert head.index("STATUS") == first.index("requested")
    assert head.index("SESSION") == first.index(session)
    told = here(capsys, "sessions", "--limit", "1", "--json").json
    assert [each["id"] for each in told["sessions"]] == [session]
    assert here(capsys, "sessions", session).out.startswith(f"session {session}: requested\n")
    assert here(capsys, "sessions", session, "--json").json["providers"] == ["bank", "shop"]
    assert here(capsys, "cancel", session, "--json").json["status"] == "cancelled"
    assert len(refused(capsys, "cancel", session, code=1)) == 1
    watched = here(capsys, "sessions", session, "--watch")
    assert watched.code == 1
    assert "cancelled" in watched.problems[0]
    assert here(capsys, "sessions", "--watch").code == 2
    assert here(capsys, "sessions", "--status", "asleep").code == 2
    assert here(capsys, "sessions", "00" * 16).code == 1
    assert here(capsys, "download", session).code == 1
    assert files(conf.parent) == {"client.toml", "token"}


def test_what_others_wrote_does_not_steer_the_terminal(api: LiveApi, conf: Path, capsys: Capture) -> None:
    """A purpose with such signs is refused today; one that is stored may be older."""
    asked = api.coordinator.store.sessions.get(here(capsys, "request", conf, "--no-wait", "--json").json["id"])
    stored = asked.client, asked.providers, "red \x1b[31m [/b] ink", asked.request
    session = api.coordinator.store.sessions.create(*stored).id
    api.tell(session, "problem", {"party": "bank\x1b[1m", "text": "[/b]\x1b]0;title\x07"})
    api.move(session, Status.FAILED, cause="bank: \x1b[2J gone\nreally")
    for words in (["sessions"], ["sessions", session], ["sessions", session, "--watch"]):
        answer = here(capsys, *words)
        assert "\x1b" not in answer.out + answer.err
        assert "\\x1b[31m [/b] ink" in answer.out
    assert answer.problems == ["bank: \\x1b[2J gone\\nreally"]


def test_the_environment_is_enough(
    api: LiveApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MASQUERADE_URL", raising=False)
    refused(capsys, "sessions")
    monkeypatch.setenv("MASQUERADE_URL", api.url)
    monkeypatch.delenv("MASQUERADE_TOKEN", raising=False)
    assert "MASQUERADE_TOKEN" in here(capsys, "sessions").problems[0]
    monkeypatch.setenv("MASQUERADE_TOKEN", api.token)
    answered(capsys, "sessions", "--json")


def test_every_problem_of_a_configuration_at_once(conf: Path, api: LiveApi, capsys: Capture) -> None:
    secret = "mq_do-not-print-me"
    conf.write_text(
        f'coordinator = "http://far.example"\ntoken = "{secret}"\ntoken_file = "{secret}"\nca = "no.pem"\n'
        "[request]\nattributes = []\n"
    )
    answer = here(capsys, "request", conf)
    assert answer.code == 2
    told = "\n".join(answer.problems)
    for part in ("token: unknown key", "plain http", "token_file: holds a token", "no.pem", "request.purpose"):
        assert part in told, part
    assert all(problem.startswith(str(conf)) for problem in answer.problems)
    assert secret not in answer.err + answer.out
    conf.write_text(f'coordinator = "{api.url}"\ntoken_file = "token"\n')
    assert "request: missing" in here(capsys, "request", conf).problems[0]
    (conf.parent / "token").chmod(0o644)
    assert "chmod 600" in here(capsys, "sessions").problems[0]
    assert here(capsys, "request", "nothing.toml").code == 2


def test_a_token_that_opens_nothing(conf: Path, capsys: Capture) -> None:
    (conf.parent / "token").write_text("mq_wrong-and-secret")
    answer = here(capsys, "sessions")
    assert answer.code == 1
    assert "mq_wrong" not in answer.err


def test_nobody_there(conf: Path, api: LiveApi, capsys: Capture) -> None:
    conf.write_text(conf.read_text().replace(api.url, "http://127.0.0.1:1"))
    for words in (
        ["sessions"],
        ["request", conf],
        ["download", "5e" * 16],
        ["cancel", "5e" * 16],
        ["decide", "5e" * 16, "accept"],
    ):
        answer = here(capsys, *words)
        assert answer.code == 3, words
        (problem,) = answer.problems
        assert "nobody answers at http://127.0.0.1:1" in problem


@pytest.mark.parametrize("name", ["request", "sessions", "download", "cancel", "decide"])
def test_help_with_an_example(name: str, capsys: Capture) -> None:
    told = here(capsys, name, "--help").out
    assert f"Example: masquerade {name} " in " ".join(told.split())
    assert "--json" in told


@pytest.mark.system
def test_an_interrupt_leaves_the_session_running(api: LiveApi, conf: Path) -> None:
    known = {each.id for each in api.coordinator.store.sessions.recent()}
    with Forked(
        [MASQUERADE, "request", str(conf), "--output", "release.csv"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ},
        text=True,
    ) as waiting:
        store = api.coordinator.store
        eventually(lambda: {each.id for each in store.sessions.recent()} > known)
        (session,) = {each.id for each in store.sessions.recent()} - known
        eventually(lambda: api._streams.open["ana"] > 0)  # it watches
        waiting.send_signal(signal.SIGINT)
        out, err = waiting.communicate(timeout=900)
    assert waiting.returncode == 130
    assert out == ""
    assert f"masquerade sessions {session} --watch --conf {conf}" in err
    assert f"masquerade cancel {session} --conf {conf}" in err
    assert err.splitlines()[-1] == "error: interrupted"
    assert "Traceback" not in err
    assert api.coordinator.store.sessions.get(session).status is Status.REQUESTED


@pytest.mark.system
def test_in_a_process_of_its_own(api: LiveApi, conf: Path) -> None:
    with Playing(api, "published") as played:
        answer = process("request", conf, "--json")
    assert answer.code == 0, answer.err
    assert json.loads(answer.out)["id"] == played.session
    done: Answer = forked("download", played.session, "--output", "t.csv", "--conf", conf, cwd=conf.parent)
    assert done.code == 0, done.err
    assert Path("t.csv").exists()


def test_ratios_are_told_with_their_meaning_and_a_model_as_one() -> None:
    meaning = "age, job are a key: every one of the common records is alone with its values"
    written = {"product": "answer", "rows": 400, "common_records": 400, "ratios": [{"ratio": 1.0, "meaning": meaning}]}
    assert written_lines("abc", {**written, "answer": "ratios.json"}) == [
        "session abc: published, over 400 common records",
        f"1.000000: {meaning}",
        "answer: ratios.json",
    ]
    written = {"product": "model", "rows": 189, "kind": "vertical", "model": "model.json"}
    assert written_lines("abc", written) == ["session abc: published, a model of 189 records", "model: model.json"]
