"""The real command in real processes: entry points, pipes, terminals, locales, signals, full disks, passwords."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cli.command import MASQUERADE, answered, files, forked, here, process, refused, without_progress
from forked import Forked
from job.job_files import JOB, TABLE, changed, write_job
from people_job import write_people

pytestmark = pytest.mark.system

if TYPE_CHECKING:
    from conftest import Postgres

Capture = pytest.CaptureFixture[str]
PASSWORD = "Zw3i/Herzen@7"  # the fixture's
PASSWORD_IN_URL = "Zw3i%2FHerzen%407"
INPUTS = {"people.csv", "job.csv", "job.toml"}
ONE_METHOD = JOB + '[algorithm]\nname = "tds"\n'  # to compare methods, a process would load scikit-learn
PLAIN = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}  # a terminal that knows ASCII alone


@pytest.mark.parametrize("name", ["masquerade", "mq"])
def test_both_names_run(name: str) -> None:
    program = str(Path(sys.executable).with_name(name))
    answer = process("--version", program=program)
    assert re.fullmatch(r"masquerade \d+\.\d+\.\d+\n", answer.out)
    assert process(program=program).out.startswith("Usage: ")


@pytest.mark.parametrize("command", ["", "anonymize", "compare", "verify", "evaluate", "weights", "demo", "bench"])
def test_help_under_each_command(command: str) -> None:
    answer = process(*command.split(), "--help")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("Usage: masquerade ")
    assert ("--json" in answer.out) == bool(command)
    assert "\x1b" not in answer.out


def test_a_whole_round_in_processes(tmp_path: Path) -> None:
    job = write_job(tmp_path)
    made = process("anonymize", job, "--json")
    assert (made.code, made.err) == (0, "")
    assert made.json["released"] == 8
    assert process("verify", tmp_path / "release.csv", "--job", job, "--json").json["holds"] is True
    refused = process("anonymize", write_job(tmp_path, changed("k = 2", "k = 9", ONE_METHOD)))
    assert (refused.code, refused.out, len(refused.problems)) == (1, "", 1)
    wrong = process("anonymize", write_job(tmp_path, changed("k = 2", "k = 0")), "--json")
    assert (wrong.code, wrong.out, len(wrong.problems)) == (2, "", 1)


def test_long_lines_are_not_wrapped(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "x" * 150
    monkeypatch.setenv("COLUMNS", "40")
    answer = here(capsys, "anonymize", write_job(tmp_path, changed("people.csv", f"{name}.csv")))
    assert len(answer.problems) == 1
    assert len(answer.problems[0]) > 150


WITHOUT_PANDAS = """
import sys
from masquerade.cli import main
sys.argv = ["masquerade", "anonymize", sys.argv[1]]
try:
    main()
finally:
    assert "pyarrow" in sys.modules
    assert "pandas" not in sys.modules
"""


def test_a_command_does_not_load_pandas(tmp_path: Path) -> None:
    job = write_job(tmp_path, ONE_METHOD)
    assert process("-c", WITHOUT_PANDAS, job, program=sys.executable).code == 0


# --- pipes and terminals ---


@pytest.mark.parametrize("words", ["--help", "anonymize job.toml", "anonymize job.toml --json"])
def test_nobody_listens(words: str, tmp_path: Path) -> None:
    write_job(tmp_path, ONE_METHOD)
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [MASQUERADE, *words.split()], cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE, check=False
        )
    finally:
        os.close(writer)
    assert (done.returncode, without_progress(done.stderr.decode())) == (0, "")


def test_closed_streams(tmp_path: Path) -> None:
    write_job(tmp_path, ONE_METHOD)
    shell = f'"{MASQUERADE}" anonymize'
    assert subprocess.run(f"{shell} job.toml >&-", shell=True, cwd=tmp_path, check=False).returncode == 0
    done = subprocess.run(f"{shell} none.toml 2>&-", shell=True, cwd=tmp_path, check=False, stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout) == (2, b"")


def test_standard_output_is_full(tmp_path: Path) -> None:
    job = write_job(tmp_path, ONE_METHOD)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([MASQUERADE, "anonymize", job], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    told = without_progress(done.stderr.decode())
    assert told == "error: standard output: cannot be written: No space left on device\n"


def test_a_terminal_sees_progress_and_json_stays_clean(tmp_path: Path) -> None:
    job = write_job(tmp_path, ONE_METHOD)
    master, terminal = pty.openpty()
    try:
        command = [MASQUERADE, "anonymize", str(job), "--json"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=terminal, check=False)
        os.set_blocking(master, False)
        shown = os.read(master, 1 << 16)
    finally:
        os.close(master)
        os.close(terminal)
    assert done.returncode == 0
    assert json.loads(done.stdout)["released"] == 8
    assert b"\x1b" in shown  # a spinner, on a terminal only


def test_a_locale_without_unicode(tmp_path: Path) -> None:
    text = ONE_METHOD.replace("[attributes.city]", '[attributes."Städte ℓ"]')
    job = write_job(tmp_path, text)
    table = TABLE.replace("city", "Städte ℓ").replace("Bern", "Zürich")
    (tmp_path / "people.csv").write_text(table, encoding="utf-8")
    made = process("anonymize", job, "--json", env=PLAIN)
    assert (made.code, made.err) == (0, "")
    assert made.json["released"] == 8
    assert "Zürich" in (tmp_path / "release.csv").read_text("utf-8")
    job.write_text(text.replace("k = 2", "k = 2\nℓ = 3").replace("[[privacy]]\n", '[[privacy]]\n"ü" = 1\n'), "utf-8")
    assert process("anonymize", job, env=PLAIN).code == 2
    job.write_text(text.replace("k = 2", 'k = 2\n"ü ℓ" = 3'), encoding="utf-8")
    wrong = process("anonymize", job, env=PLAIN)
    assert wrong.code == 2
    assert '"\\xfc \\u2113": k-anonymity has no such parameter' in wrong.problems[0]


@pytest.mark.parametrize("place", ['source = "people.csv"', 'taxonomy = "job.csv"', "output"])
def test_file_names_that_a_locale_cannot_write(place: str, tmp_path: Path) -> None:
    odd = {"output": ONE_METHOD + '[output]\ntable = "rü.csv"\n'}
    text = odd.get(place) or changed(place, place.split(" = ")[0] + ' = "ü.csv"', ONE_METHOD)
    answer = process("anonymize", write_job(tmp_path, text), env=PLAIN)
    assert (answer.code, answer.out) == (2, "")
    assert len(answer.problems) == 1
    assert files(tmp_path) == INPUTS


# --- signals: all or nothing ---

PEOPLE = 60_000


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A job over many people, and the size of its release: whatever the order, its cells are the same."""
    folder = tmp_path_factory.mktemp("big")
    job = write_people(folder, PEOPLE)
    assert forked("anonymize", job).code == 0
    size = (folder / "release.csv").stat().st_size
    for name in ("release.csv", "report.html"):
        (folder / name).unlink()
    return job, size


def start_and_wait_for_writing(job: Path) -> subprocess.Popen[bytes]:
    """A run whose first file has just appeared beside the inputs."""
    before = files(job.parent)
    running = Forked([MASQUERADE, "anonymize", str(job)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while running.poll() is None and files(job.parent) == before:
        time.sleep(0.001)
    return running


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing(kind: signal.Signals, big: tuple[Path, int]) -> None:
    job, _ = big
    for _attempt in range(10):  # a run may be done before the signal comes
        running = start_and_wait_for_writing(job)
        running.send_signal(kind)
        out, err = running.communicate(timeout=900)
        if running.returncode != 0:
            break
        for name in ("release.csv", "report.html"):
            (job.parent / name).unlink()
    told = without_progress(err.decode())
    assert (running.returncode, out, told) == (130, b"", "error: interrupted\n")
    assert files(job.parent) == {"people.csv", "taxonomies", "job.toml"}


@pytest.mark.parametrize("delay", [0.05, 0.15, 0.3, 0.5])
def test_an_interrupt_at_any_moment_shows_no_traceback(delay: float, big: tuple[Path, int]) -> None:
    job, size = big
    running = subprocess.Popen([MASQUERADE, "anonymize", job], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(delay)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=900)
    release = job.parent / "release.csv"
    if running.returncode == 0:
        assert release.stat().st_size == size
        release.unlink()
        (job.parent / "report.html").unlink()
    elif running.returncode == 130:
        assert not release.exists()
        assert b"Traceback" not in err
    elif running.returncode == 1:
        assert err.startswith(b"Fatal Python error: init_")  # not even Python had started
    else:
        assert running.returncode == -signal.SIGINT  # before our first line ran, or after our last
        release.unlink(missing_ok=True)
        (job.parent / "report.html").unlink(missing_ok=True)


def test_a_killed_run_leaves_a_whole_release_or_none(big: tuple[Path, int]) -> None:
    job, size = big
    release = job.parent / "release.csv"
    for attempt in range(4):
        running = start_and_wait_for_writing(job)
        time.sleep(0.03 * attempt)
        running.kill()
        running.communicate(timeout=900)
        if release.exists():
            assert release.stat().st_size == size
            assert release.read_bytes().count(b"\n") == PEOPLE + 1
            release.unlink()
        for leftover in job.parent.glob("*.html"):
            assert leftover.read_text("utf-8").rstrip().endswith("</html>")
        for path in job.parent.iterdir():  # only hidden names may be left beside
            if path.name not in ("people.csv", "taxonomies", "job.toml"):
                assert path.name.startswith(".") or path.name == "report.html"
                path.unlink()


# --- places that cannot be written ---


@pytest.mark.parametrize(("blocks", "file"), [(0, "release.csv"), (8, "report.html")])
def test_a_full_disk_leaves_nothing(blocks: int, file: str, tmp_path: Path) -> None:
    job = write_job(tmp_path, ONE_METHOD)  # scikit-learn warns that it has no place for files
    command = f'export PYTHONDONTWRITEBYTECODE=1; ulimit -f {blocks}; exec "{MASQUERADE}" anonymize "{job}"'
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    told = without_progress(done.stderr)
    assert told == f"error: {tmp_path / file}: cannot be written: File too large\n"
    assert files(tmp_path) == INPUTS


def test_a_full_disk_spares_the_older_release(tmp_path: Path, capsys: Capture) -> None:
    job = write_job(tmp_path, ONE_METHOD)
    here(capsys, "anonymize", job)
    before = {name: (tmp_path / name).read_bytes() for name in files(tmp_path)}
    command = f'export PYTHONDONTWRITEBYTECODE=1; ulimit -f 8; exec "{MASQUERADE}" anonymize "{job}"'
    assert subprocess.run(["bash", "-c", command], capture_output=True, check=False).returncode == 2
    assert before == {name: (tmp_path / name).read_bytes() for name in files(tmp_path)}


@pytest.mark.parametrize("table", ["people.csv/release.csv", "/proc/release.csv", "/dev/null"])
def test_places_where_nothing_can_be(table: str, tmp_path: Path, capsys: Capture) -> None:
    assert refused(capsys, "anonymize", write_job(tmp_path, JOB + f'[output]\ntable = "{table}"\n'))
    assert files(tmp_path) == INPUTS


# --- passwords ---


def test_a_password_shows_nowhere(postgres: Postgres, tmp_path: Path, capfd: Capture) -> None:
    """Neither our own words nor those of the database's driver tell it: everything that this process says is kept."""
    rows = ",".join("('" + "','".join(line.split(",")) + "')" for line in TABLE.splitlines()[1:])
    columns = ", ".join(f"{name} text" for name in TABLE.splitlines()[0].split(","))
    postgres.sql(f"CREATE TABLE patients ({columns});")
    postgres.sql(f"INSERT INTO patients VALUES {rows}; GRANT SELECT ON patients TO steward;")

    def told(url: str, *options: str, query: str = "SELECT * FROM patients ORDER BY ssn") -> tuple[int, str]:
        source = f'source = "{url}"\nquery = "{query}"'
        text = changed('source = "people.csv"', source, JOB) + '[output]\norder = "input"\n'
        answer = here(capfd, "anonymize", write_job(tmp_path, text), *options)
        written = "".join(path.read_text("utf-8") for path in tmp_path.glob("re*.*"))
        return answer.code, answer.out + answer.err + written

    right = postgres.as_steward(PASSWORD_IN_URL)
    for options in ([], ["--json"]):
        code, text = told(right, *options)
        assert code == 0
        assert "White-collar" in text
        assert PASSWORD not in text
        assert PASSWORD_IN_URL not in text
    job = tmp_path / "job.toml"
    evaluated = answered(capfd, "evaluate", right, tmp_path / "release.csv", "--job", job, "--folds", "2")
    assert PASSWORD not in evaluated.out + evaluated.err
    for url, query in (
        (postgres.as_steward("fal5ch-" + PASSWORD_IN_URL), "SELECT 1"),
        (right, "SELECT nonsense FROM nowhere"),
        (right + "/x?y", "SELECT 1"),
        (right.replace(f":{postgres.port}", ":1"), "SELECT 1"),
        (right.replace("postgresql", "mysql"), "SELECT 1"),
        (right.replace("%2F", "/"), "SELECT 1"),
    ):
        code, text = told(url, query=query)
        assert code == 2
        assert "Herzen" not in text
        assert "fal5ch" not in text


def test_a_command_ends_silently_whatever_it_loaded() -> None:
    """DuckDB reports as its leak what nobody collected before the end."""
    script = "import duckdb; from masquerade.cli.app import let_go; let_go()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")
