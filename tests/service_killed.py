"""Coordinators that kill themselves (-9) at a named point, each in a process of its own.

    with Doomed() as doomed:
        assert doomed.killed_at(conf, "half written") == -signal.SIGKILL

One process waits; each coordinator is a fork of it, which is quicker than to load the program anew.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

from forked import Forked
from masquerade.service import Coordinator, CoordinatorSettings
from masquerade.service.coordinator import release_files
from masquerade.service.coordinator.release_files import ReleaseFiles
from masquerade.service.coordinator.run import SessionAttempt
from masquerade.service.store.releases import Releases
from masquerade.service.store.sessions import Queue, Sessions

POINTS: dict[str, tuple[Any, str, bool]] = {  # what is called, and whether the end comes after it
    "requested": (Sessions, "advance", False),
    "negotiating": (Sessions, "agree", False),
    "agreed": (Sessions, "agree", True),
    "claimed": (Queue, "claim", True),
    "prepared": (SessionAttempt, "_ready", True),
    "started": (SessionAttempt, "_release", False),
    "handed in": (SessionAttempt, "_assembling", True),
    "half written": (release_files, "page_of", False),
    "written": (ReleaseFiles, "write", True),
    "published": (Releases, "publish", True),
    "held": (Releases, "hold", True),
}


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(point: str) -> None:
    owner, name, after = POINTS[point]
    real = getattr(owner, name)

    def deadly(*given: Any, **more: Any) -> Any:
        if not after:
            die()
        answer = real(*given, **more)
        if asyncio.iscoroutine(answer):

            async def awaited() -> Any:
                await answer
                die()

            return awaited()
        if answer is not None:
            die()
        return answer

    setattr(owner, name, deadly)


async def main(conf: Path, point: str) -> None:
    arm(point)
    with Coordinator(CoordinatorSettings.load(conf)) as coordinator:
        await coordinator.run()


class Doomed:
    """The process that coordinators are forked from."""

    def __enter__(self) -> Self:
        words = [sys.executable, __file__]
        self._process = Forked(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        return self

    def killed_at(self, conf: Path, point: str) -> int:
        """How a coordinator ended: minus the signal's number, or its exit code."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{point}\t{conf}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def __exit__(self, *_error: object) -> None:
        self._process.communicate(timeout=900)


def serve() -> None:
    import sklearn.tree  # noqa: F401 # which every coordinator would load when it judges its release

    for line in sys.stdin:
        point, _, conf = line.rstrip("\n").partition("\t")
        if (child := os.fork()) == 0:
            sys.stdout = sys.stderr  # the log
            asyncio.run(main(Path(conf), point))
            os._exit(0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
