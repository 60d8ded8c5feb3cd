"""Random faults in real runs: processes killed, connections cut, delayed and corrupted, full disks; no violation.

Each run takes a small mashup (two parties, DkA, or three providers) as `masquerade mashup` processes, one in 20 a
coordinator with two nodes, and lets one fault happen at a random moment. Afterwards it is checked that

- the command ended with exit code 0 to 3, within time, with a line `error: …` where it failed, and without a traceback;
- there is a whole release with its own report, which an independent check accepts, or no release;
- no process is left, and of what is left on the disk nothing is a private key;
- the same job then runs without a fault, and sweeps away what the first run left unfinished.

A full disk is a limit on the size of every file that the processes write (RLIMIT_FSIZE), so that no rights are needed.
`masquerade bench faults --set runs=1 --set seed=N` repeats the run that was told as N.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from _faults_scenes import SCENES, Scene, copied
from _faults_service import service_violations
from _faulty_network import Fault
from _figures import Figure, Say, duration, tell
from masquerade.jobs import verify_job

RUNS = 1000
SEED = 1
WORKERS = 2
SERVICE_EVERY = 20
PATIENCE = 240  # seconds for a run, on a busy machine

_MARK = "MASQUERADE_FAULTS"  # in the environment of all processes of a run
_OWN_END = 20.0  # seconds that the parties of a killed command may take to notice
_FAULTS = ("kill", "kill", "cut", "delay", "corrupt", "disk")

# It gets a run's mark and the process that was started, and answers whether it killed that one.
Meanwhile = Callable[[str, int], bool]


@dataclass(frozen=True)
class Clean:
    """A scene's job with the release of a run without a fault, and how long that took."""

    scene: Scene
    job: Path
    rows: list[str]
    seconds: float


@dataclass(frozen=True)
class Ended:
    """How a run of the command ended."""

    code: int | None  # None: not in time
    killed: bool  # the command itself was, not one of its parties
    said: str


def run(say: Say, save: Path | None) -> dict[str, Any]:
    started, kinds = time.perf_counter(), Counter[str]()
    violations: dict[int, list[str]] = {}
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        clean = [_clean(scene, Path(folder)) for scene in SCENES]
        with _workers() as workers, suppress(KeyboardInterrupt):  # whoever stops it is told of what was done
            waiting = {workers.submit(_one, seed, clean, Path(folder)): seed for seed in range(SEED, SEED + RUNS)}
            for done, future in enumerate(as_completed(waiting), 1):
                seed = waiting[future]
                what, found = future.result()
                kinds[what] += 1
                if found:
                    violations[seed] = found
                    say(f"VIOLATION in run {seed} ({what}): {'; '.join(found)}")
                if done % 10 == 0:
                    say(f"{done} runs, {len(violations)} violations, {duration(time.perf_counter() - started)}")
    for what, times in sorted(kinds.items()):
        say(f"{times:5} {what}")
    figure = Figure(f"{kinds.total()} runs", f"{len(violations)} violations", goal="0", met=not violations)
    taken = Figure("time", duration(time.perf_counter() - started))
    return {"figures": tell(say, [figure, taken]), "runs": dict(kinds), "violations": violations}


@contextmanager
def _workers() -> Iterator[ThreadPoolExecutor]:
    """Threads that finish what they have begun, and begin nothing more, when the block is left."""
    workers = ThreadPoolExecutor(WORKERS)
    try:
        yield workers
    finally:
        workers.shutdown(cancel_futures=True)


def _clean(scene: Scene, folder: Path) -> Clean:
    job = scene.write(folder / scene.name)
    used = copied(job, folder / f"{scene.name}-clean")
    started = time.perf_counter()
    ended = _watched(["-m", "masquerade", "mashup", str(used)], used.parent)
    assert ended.code == 0, ended.said
    return Clean(scene, job, _rows(used), time.perf_counter() - started)


def _one(seed: int, clean: list[Clean], folder: Path) -> tuple[str, list[str]]:
    """One run: what was done to what, and what was wrong afterwards."""
    dice, place = random.Random(seed), folder / f"run-{seed}"
    if seed % SERVICE_EVERY == 0:
        what, found = service_violations(dice, place)
    else:
        what, found = _mashup_violations(dice, dice.choice(clean), place)
    if not found:
        shutil.rmtree(place)
    return what, found


def _mashup_violations(dice: random.Random, clean: Clean, place: Path) -> tuple[str, list[str]]:
    what, job = dice.choice(_FAULTS), copied(clean.job, place)
    before = {*place.rglob("*")}
    ended = _faulty(dice, what, clean, job)
    found = [*_violations(clean, job, ended, before)]
    if ended.code != 0:
        again = _watched(["-m", "masquerade", "mashup", str(job)], place)
        if again.code != 0:
            found.append(f"a run without a fault then ends with {again.code}: {again.said[-500:]}")
        found += [f"then: {each}" for each in _violations(clean, job, again, before)]
        found += [f"then: not swept: {each}" for each in _unfinished(place)]
    return f"{clean.scene.name}: {what}, exit code {ended.code}", found


def _faulty(dice: random.Random, what: str, clean: Clean, job: Path) -> Ended:
    """Run the job with a fault."""
    words, moment = ["-m", "masquerade", "mashup", str(job)], dice.uniform(0, clean.seconds)
    all_there = dice.random() < 0.6  # otherwise the parties are often not yet there
    if what == "kill":

        def kill(mark: str, command: int) -> bool:
            """Kill one of the run's processes when it is time; True for the command itself."""
            deadline = time.monotonic() + clean.seconds
            everybody = len(clean.scene.parties) + 2  # the command itself, and what forks the parties
            while all_there and len(_living(mark)) < everybody and time.monotonic() < deadline:
                time.sleep(0.02)
            time.sleep(moment)
            living = sorted(_living(mark))
            victim = dice.choice(living) if living else None
            if victim is not None:
                _signalled(victim, signal.SIGKILL)
            return victim == command

        return _watched(words, job.parent, kill)
    if what == "disk":
        limit = int(2 ** dice.uniform(0, 16))
        return _watched(words, job.parent, most_bytes=limit)
    fault = Fault(
        what,  # type: ignore[arg-type] # the other kinds have returned above
        dice.randrange(clean.scene.connections),
        int(2 ** dice.uniform(10, 16.5)),  # from the handshake to the last message
        dice.uniform(0.1, 2.0) if what == "delay" else 0.0,
    )
    proxied = str(Path(__file__).with_name("_faulty_network.py"))
    return _watched([proxied, json.dumps(asdict(fault)), *words[2:]], job.parent)


def nothing(_mark: str, _command: int) -> bool:
    """Let a run go on undisturbed."""
    return False


def _watched(words: list[str], place: Path, meanwhile: Meanwhile = nothing, most_bytes: int | None = None) -> Ended:
    """Run Python with these words until it ends, and then until none of its processes is left."""
    (place / "tmp").mkdir(exist_ok=True)
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    environment = {**os.environ, _MARK: mark, "TMPDIR": str(place / "tmp")}

    def limited() -> None:
        if most_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

    process = subprocess.Popen(
        [sys.executable, *words],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limited,
    )
    killed = meanwhile(mark, process.pid)
    try:
        _, said = process.communicate(timeout=PATIENCE)
        code: int | None = process.returncode
    except subprocess.TimeoutExpired:
        code, said = None, ""
    deadline = time.monotonic() + _OWN_END
    while (left := _living(mark)) and code is not None and time.monotonic() < deadline:
        time.sleep(0.05)
    for each in left:
        _signalled(each, signal.SIGKILL)
    if code is None:
        process.communicate()
    return Ended(code, killed, said + (f"\nORPHANS: {len(left)}" if left and code is not None else ""))


def _violations(clean: Clean, job: Path, ended: Ended, before: set[Path]) -> Iterator[str]:
    """Everything that is wrong after a run."""
    if ended.code is None:
        yield "it has not ended"
    elif ended.code not in ((-signal.SIGKILL,) if ended.killed else ()) + (0, 1, 2, 3):
        yield f"exit code {ended.code}: {ended.said[-500:]}"
    if "Traceback" in ended.said:
        yield f"a traceback: {ended.said[-1000:]}"
    if "ORPHANS" in ended.said:
        yield "processes are left"
    if ended.code in (1, 2, 3) and "error: " not in ended.said:
        yield f"no error is told with exit code {ended.code}"
    table, report = job.with_name("release.csv"), job.with_name("report.html")
    if table.exists():
        yield from _about_release(clean, table, report, job)
        if ended.code in (1, 2, 3):
            yield f"there is a release, though the exit code is {ended.code}: {ended.said[-300:]}"
    elif ended.code == 0:
        yield "no release, though all was well"
    elif report.exists() and not ended.killed:
        yield "a report without a release"
    for path in {*job.parent.rglob("*")} - before:
        if not _is_expected(path.relative_to(job.parent)):
            yield f"left behind: {path.relative_to(job.parent)}"
        if path.is_file() and b"PRIVATE KEY" in path.read_bytes():
            yield f"a private key is left in {path.relative_to(job.parent)}"


def _unfinished(place: Path) -> Iterator[Path]:
    """What a killed run leaves, and the next one removes; the notes of a resumed session go with its release."""
    for path in (*place.glob(".*"), *(place / "tmp").glob("*")):
        yield path.relative_to(place)


def _about_release(clean: Clean, table: Path, report: Path, job: Path) -> Iterator[str]:
    if _rows(job) != clean.rows:
        yield "the release is another than without the fault"
    if not verify_job(table, job):
        yield "the release violates its requirement"
    if not report.exists():
        yield "a release without its report"
    elif hashlib.sha256(table.read_bytes()).hexdigest() not in report.read_text(encoding="utf-8"):
        yield "the report is another release's"


def _is_expected(path: Path) -> bool:
    """What a run writes, and what a killed one may leave: unfinished files and notes, under hidden names."""
    return path.name in ("release.csv", "report.html") or path.parts[0] in ("transcripts", "tmp") or path.name[0] == "."


def _rows(job: Path) -> list[str]:
    return sorted(job.with_name("release.csv").read_text(encoding="utf-8").splitlines())


def _living(mark: str) -> set[int]:
    """The processes of a run, by the mark in their environment; those that have ended and wait for us do not count."""
    wanted, found = f"{_MARK}={mark}".encode(), set()
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (place / "environ").read_bytes().split(b"\0"):
                found.add(int(place.name))
        except OSError:
            continue
    return found


def _signalled(process: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, number)
