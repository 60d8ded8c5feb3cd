"""Fuzz the decoders, guided by the code that an input reaches (Atheris): `python tests/fuzz/explore.py [TARGET…]`.

Each target is a process of its own with a budget of seconds. What it learns stays in `.fuzz/` for the next time. An
input that makes a decoder fail, take more than 10 seconds or more than 1 GB is a finding: it is put into the corpus,
where `make test` tries it from then on.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
LEARNT = HERE.parents[1] / ".fuzz"
TARGETS = sorted(path.stem for path in (HERE / "targets").glob("*.py"))
LIMITS = ("-timeout=10", "-rss_limit_mb=1024", "-max_len=8192")


def main() -> int:
    """Fuzz the targets one after the other; 1 when there is a finding."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"one of {', '.join(TARGETS)}; all without any")
    parser.add_argument("--seconds", type=int, default=20, help="for each target (%(default)s)")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # in this process
    asked = parser.parse_args()
    unknown = set(asked.targets) - set(TARGETS)
    if unknown:
        parser.error(f"no target {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    if asked.here:
        fuzz(asked.targets[0], asked.seconds)
    failed = [name for name in asked.targets or TARGETS if not passes(name, asked.seconds)]
    print(f"fuzzing: {len(asked.targets or TARGETS)} targets, findings in {', '.join(failed) or 'none'}")
    return 1 if failed else 0


def passes(name: str, seconds: int) -> bool:
    """Whether a target ends without a finding; its log is shown if there is one."""
    command = [sys.executable, str(Path(__file__)), "--here", "--seconds", str(seconds), name]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    said = done.stdout.splitlines()
    runs = [line for line in said if line.startswith("Done ")]
    print(f"{name:16} {runs[-1] if runs and not done.returncode else 'FOUND SOMETHING'}", flush=True)
    if done.returncode:
        print("\n".join(line for line in said if not line.startswith(("INFO:", "WARNING:", "#"))))
    return done.returncode == 0


def seeds(target: ModuleType) -> dict[str, bytes]:
    """What a target's own code makes as it stands now; what does not age is a file of the corpus."""
    make: Callable[[], dict[str, bytes]] = getattr(target, "seeds", dict)
    return make()


def fuzz(name: str, seconds: int) -> None:
    """Fuzz one target in this process, which ends with it."""
    import atheris
    import structlog

    sys.path.insert(0, str(HERE.parent))
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    with atheris.instrument_imports(include=["masquerade", "tomllib"]):
        target = import_module(f"fuzz.targets.{name}")
    learnt, kept = LEARNT / name, CORPUS / name
    for folder in (learnt, kept):
        folder.mkdir(parents=True, exist_ok=True)
    for seed, data in seeds(target).items():
        (learnt / seed).write_bytes(data)
    options = [*LIMITS, f"-max_total_time={seconds}", f"-artifact_prefix={kept}/found-"]
    atheris.Setup([sys.argv[0], *options, str(learnt), str(kept)], target.fuzz)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
