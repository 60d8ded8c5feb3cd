"""How long `masquerade --help` takes: heavy libraries are imported where they are used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from _figures import Figure, Say, clocked, in_turn, tell

REPEATS = 10
GOAL_SECONDS = 0.5


def run(say: Say, save: Path | None) -> dict[str, Any]:
    command = Path(sys.executable).with_name("masquerade")

    def started(*words: str | Path) -> Any:
        return clocked(lambda: subprocess.run(words, check=True, stdout=subprocess.DEVNULL))

    spent = in_turn(
        {
            "python -c pass": started(sys.executable, "-c", "pass"),
            "masquerade --help": started(command, "--help"),
            "masquerade anonymize --help": started(command, "anonymize", "--help"),
        },
        REPEATS,
    )
    bare = spent["python -c pass"]["total"]
    helps = {name: parts["total"] for name, parts in spent.items() if name != "python -c pass"}
    return {
        "figures": tell(
            say,
            [
                Figure(
                    name,
                    str(seconds),
                    f"python -c pass {bare}",
                    f"{seconds.best / bare.best:.1f}",
                    f"under {GOAL_SECONDS} s",
                    seconds.median < GOAL_SECONDS,
                )
                for name, seconds in helps.items()
            ],
        )
    }
