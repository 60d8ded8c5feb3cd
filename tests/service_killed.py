"""A coordinator that kills itself (-9) at a named point: `python tests/service_killed.py CONF POINT`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from masquerade.service.coordinator import release_files
from masquerade.service.coordinator.coordinator import Coordinator
from masquerade.service.coordinator.release_files import ReleaseFiles
from masquerade.service.coordinator.run import Attempt
from masquerade.service.coordinator.settings import Settings
from masquerade.service.store.queue import Queue
from masquerade.service.store.releases import Releases
from masquerade.service.store.sessions import Sessions

POINTS: dict[str, tuple[Any, str, bool]] = {  # what is called, and whether the end comes after it
    "requested": (Sessions, "advance", False),
    "negotiating": (Sessions, "agree", False),
    "agreed": (Sessions, "agree", True),
    "claimed": (Queue, "claim", True),
    "prepared": (Attempt, "_ready", True),
    "started": (Attempt, "_release", False),
    "handed in": (Attempt, "_assembling", True),
    "half written": (release_files, "render_report", False),
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
    with Coordinator(Settings.load(conf)) as coordinator:
        await coordinator.run()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
