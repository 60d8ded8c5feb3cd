"""`masquerade demo` as a person runs it: a coordinator and three nodes in real processes, one request, and the end."""

from __future__ import annotations

import csv
import os
import re
import select
import signal
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli.command import MASQUERADE, answered, here, process, refused
from docs.walkthrough import DOCS, Block, Reader, commands
from forked import Forked
from masquerade.audit import verify as verify_log
from masquerade.cli.demo import describe
from masquerade.jobs import read_model_file

pytestmark = pytest.mark.system

Capture = pytest.CaptureFixture[str]
NAMES = ["bank", "clinic", "coordinator", "insurer"]


def rows(path: Path) -> Counter[tuple[tuple[str, str], ...]]:
    """The rows of a CSV, whatever their order and that of the columns."""
    with path.open(newline="") as file:
        return Counter(tuple(sorted(row.items())) for row in csv.DictReader(file))


def processes_of(folder: Path) -> dict[int, str]:
    """Every running process whose command line speaks of a folder, by what it serves."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().decode().split("\0")
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, ValueError, IndexError):
            continue
        if "serve" in words and state != "Z":
            found |= {int(entry.name): Path(word).parent.name for word in words if word.startswith(f"{folder}/")}
    return found


def wait_until_gone(processes: dict[int, str]) -> None:
    for number in processes:
        try:
            handle = os.pidfd_open(number)
        except ProcessLookupError:
            continue
        try:
            assert select.select([handle], [], [], 180)[0], f"{processes[number]} still runs"
        finally:
            os.close(handle)


# --- once ---


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object], str]:
    """A demo that has run to its end: its folder, its summary, and standard error."""
    folder = tmp_path_factory.mktemp("demo") / "new" / "ball"
    answer = process("demo", "--once", "--folder", folder, "--json")  # with as many people as the tutorial
    assert answer.code == 0, answer.err
    return folder, answer.json, answer.err


def test_one_request_goes_the_whole_way(once: tuple[Path, dict[str, object], str]) -> None:
    folder, summary, told = once
    assert "error" not in told
    people = (folder / "trusted" / "people.csv").read_text().count("\n") - 1
    assert summary["rows"] == summary["common_records"] == summary["released"] == people
    assert isinstance(requirements := summary["requirements"], list)
    assert {each["model"] for each in requirements} == {"k-anonymity", "l-diversity"}
    assert all(each["holds"] for each in requirements)
    assert {each["k"] for each in requirements if each["model"] == "k-anonymity"} == {10}
    assert isinstance(sent := summary["bytes_sent"], dict)
    assert isinstance(messages := summary["messages"], dict)
    assert {*sent} == {*messages} >= {"bank", "insurer", "clinic"}
    assert all(sent[name] > messages[name] > 0 for name in ("bank", "insurer", "clinic"))
    assert isinstance(seconds := summary["seconds"], dict)
    assert {"align", "protocol", "write"} <= {*seconds}
    assert summary["argmax"] == "secure"
    assert isinstance(method := summary["algorithm"], dict)
    assert method["name"] == "mondrian"
    assert isinstance(metrics := summary["metrics"], dict)
    assert 0 < metrics["ncp"] < 0.15
    assert summary["table"] == str(folder / "analyst" / "release.csv")
    transcripts = Path(str(summary["transcripts"]))
    for name in ("bank", "insurer", "clinic", "coordinator"):
        log, certificate = transcripts / f"{name}.audit.jsonl", transcripts / f"{name}.pem"
        assert verify_log(log, certificates=[certificate.read_bytes()]).whole
        assert log.stat().st_mode & 0o077 == 0
        assert '"contract"' in log.read_text()
    assert (folder / "analyst" / "report.html").read_text().rstrip().endswith("</html>")
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/console", str(summary["console"]))


def test_the_release_is_what_a_trusted_party_would_make(
    once: tuple[Path, dict[str, object], str], capsys: Capture
) -> None:
    folder, summary, _ = once
    alone = answered(capsys, "anonymize", folder / "trusted" / "job.toml", "--json")
    assert rows(folder / "trusted" / "release.csv") == rows(folder / "analyst" / "release.csv")
    assert alone.json["groups"] == summary["groups"]
    answered(capsys, "verify", folder / "analyst" / "release.csv", "--job", folder / "trusted" / "job.toml")


def test_the_tutorial_says_what_happens(
    once: tuple[Path, dict[str, object], str], monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    folder, summary, _ = once

    def has_run(reader: Reader, block: Block) -> None:
        assert next(commands(block)) == "masquerade demo --folder ball"
        reader.said = "\n".join(describe(summary)).replace(str(folder), "ball")

    def amend(reader: Reader, block: Block) -> None:
        roles, requirement = block.text.split("\n\n")
        job = reader.folder / "mine.toml"
        changed = re.sub(r"\[roles\]\n(?:.+\n)*", f"{roles}\n", job.read_text())
        job.write_text(f"{changed}\n{requirement}")

    monkeypatch.chdir(folder.parent)
    special = {"## 1. A mashup": has_run, "its own, and a second requirement at its end": amend}
    Reader(folder.parent, capsys, special).follow(DOCS / "tutorial.md")


def test_nothing_is_left_running_and_no_secret_was_told(once: tuple[Path, dict[str, object], str]) -> None:
    folder, summary, told = once
    assert processes_of(folder) == {}
    passwords = re.findall(r'"(.+)"', (folder / "passwords.toml").read_text())
    secrets = [*passwords, (folder / "analyst" / "token").read_text().strip()]
    assert len(secrets) == 3
    logs = "".join(path.read_text() for path in (folder / "logs").iterdir())
    with (folder / "clinic" / "patients.csv").open(newline="") as file:
        identifiers = [row["ssn"] for row in csv.DictReader(file)]
    for secret in (*secrets, *identifiers):
        assert secret not in logs + told + str(summary)


def test_each_party_can_prove_what_it_did(once: tuple[Path, dict[str, object], str], capsys: Capture) -> None:
    folder, _, _ = once
    for name in ("bank", "insurer", "clinic"):
        log, certificate = folder / name / "state" / "audit.jsonl", folder / name / "identity.pem"
        answered(capsys, "audit", "verify", log, "--certificate", certificate, "--json")
        ledger = here(capsys, "party", "ledger", folder / name / "party.toml", "--json").json
        assert [each["recipients"] for each in ledger["releases"]] == [["ana"]] * 3  # a table, a tree, a net


def test_a_tree_and_a_net_are_learned_of_the_same_people(once: tuple[Path, dict[str, object], str]) -> None:
    folder, summary, _ = once
    models = summary["models"]
    assert isinstance(models, dict)
    assert {name: each["algorithm"]["name"] for name, each in models.items()} == {"tree": "id3", "net": "bayes-net"}
    for name, each in models.items():
        assert each["records"] == summary["common_records"]
        assert each["model"] == str(folder / "analyst" / f"{name}.json")
        learned = read_model_file(each["model"])
        assert learned.parties == ("bank", "clinic", "insurer")
        assert Path(each["report"]).read_text().rstrip().endswith("</html>")
    assert models["tree"]["metrics"]["accuracy"] > 0.7


# --- until it is ended ---


ASKS_NOTHING = """
from types import SimpleNamespace
from masquerade.cli import demo as command, main
from masquerade.demo import demo

async def asks_nothing(folder, url, *_):
    return demo.Demo(folder, SimpleNamespace(id=""), SimpleNamespace(summary={}), {}, url)

demo._ask, command.describe = asks_nothing, lambda _summary: []
main()
"""


@contextmanager
def staying(folder: Path) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A demo that asks for no release and waits; and what it said."""
    program = folder.with_suffix(".py")
    program.write_text(ASKS_NOTHING)
    words = [sys.executable, str(program), "demo", "--people", "300", "--folder", str(folder)]
    with Forked(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            said = []
            for line in running.stdout:
                said.append(line.rstrip("\n"))
                if "Ctrl-C" in line:
                    break
            yield running, said
        finally:
            if running.poll() is None:
                running.kill()


def test_the_console_is_there_until_an_interrupt_or_a_childs_death(tmp_path: Path) -> None:
    folder = tmp_path / "ball"
    with staying(folder) as (running, said):
        served = processes_of(folder)
        assert sorted(served.values()) == NAMES, said
        address = next(line.removeprefix("console: ") for line in said if line.startswith("console: "))
        with urllib.request.urlopen(address) as answer:
            assert answer.status == 200
        (sign_in,) = (line for line in said if line.startswith("sign in as "))
        assert re.fullmatch(r"sign in as ana / \S+, or admin / \S+", sign_in)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=900)
    assert (running.returncode, out) == (0, ""), err
    assert not [line for line in err.splitlines() if not re.match(r"\d+ s: ", line)]
    wait_until_gone(served)
    # The same folder once more; this time a child dies.
    with staying(folder) as (running, said):
        served = processes_of(folder)
        assert sorted(served.values()) == NAMES, said
        os.kill(next(number for number, name in served.items() if name == "clinic"), signal.SIGKILL)
        _, err = running.communicate(timeout=900)
    assert running.returncode == 3
    (line,) = (line for line in err.splitlines() if line.startswith("error: "))
    assert line.startswith("error: party clinic: its process was ended by signal 9")
    wait_until_gone(served)


def test_the_system_ends_it_at_once_and_all_its_processes(tmp_path: Path) -> None:
    with staying(tmp_path / "ball") as (running, said):
        served = processes_of(tmp_path / "ball")
        assert sorted(served.values()) == NAMES, said
        running.send_signal(signal.SIGTERM)
        running.send_signal(signal.SIGTERM)
        _, err = running.communicate(timeout=900)
    assert running.returncode == 0, err
    assert "Traceback" not in err
    wait_until_gone(served)


def test_an_interrupt_while_it_starts(tmp_path: Path) -> None:
    words = [MASQUERADE, "demo", "--people", "300", "--folder", str(tmp_path)]
    with Forked(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        served: dict[int, str] = {}
        while running.poll() is None and not served:
            served = processes_of(tmp_path)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=900)
    assert (running.returncode, out) == (130, "")
    assert "Traceback" not in err
    wait_until_gone(served)
    assert processes_of(tmp_path) == {}


# --- what cannot be ---


def test_where_no_folder_can_be(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "file").touch()
    assert len(refused(capsys, "demo", "--once", "--folder", tmp_path / "file" / "demo")) == 1


def test_somebody_elses_folder(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "bank").mkdir()
    assert "the demo did not write it" in refused(capsys, "demo", "--once", "--folder", tmp_path)[0]
