"""Run a coordinator and party nodes as processes on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from masquerade.errors import MasqueradeError, PeerUnreachable, one_line
from masquerade.library.local_configurations import free_addresses, is_taken
from masquerade.library.supervisor import Child, Supervisor

_READY_WITHIN = 120.0  # seconds, on a busy machine
_ATTEMPTS = 5
# What a coordinator and a node have in common, and what a node needs.
_LOADS = ("masquerade.cli.party", "masquerade.service.node.serving", "sklearn.tree")

Commands = Mapping[str, Sequence[str | Path]]


class LocalServices(Supervisor):
    """Running `masquerade … serve` commands by name. The coordinator is stopped first, or it would miss the others."""

    def __init__(self, logs: Path, *, grace: float = 10.0) -> None:
        super().__init__(logs, loads=_LOADS, grace=grace, ended_first=("coordinator",))
        self._drains: set[asyncio.Task[None]] = set()

    async def start(self, name: str, *words: str | Path) -> dict[str, Any]:
        """Run `masquerade WORDS… --json` until it reports that it is ready; return that report."""
        child = await self.spawn(name, "masquerade", *words, "--json")
        try:
            line = await asyncio.wait_for(child.hear(), _READY_WITHIN)
        except TimeoutError:
            raise PeerUnreachable(name, f"is not ready after {_READY_WITHIN:.0f} seconds") from None
        if not line:
            raise self.death(child, await child.wait())
        drain = asyncio.create_task(child.drain())
        self._drains.add(drain)
        drain.add_done_callback(self._drains.discard)
        ready: dict[str, Any] = json.loads(line)
        return ready

    async def start_all(self, commands: Commands) -> dict[str, dict[str, Any]]:
        """Start several at once; return each one's report that it is ready."""
        try:
            async with asyncio.TaskGroup() as group:
                tasks = {
                    name: group.create_task(self.start(name, *words)) for name, words in commands.items()
                }
        except BaseExceptionGroup as failures:  # the others were stopped because of the first
            raise failures.exceptions[0] from None
        return {name: task.result() for name, task in tasks.items()}

    async def start_somewhere(
        self, commands: Commands, configure: Callable[[Mapping[str, str]], None]
    ) -> dict[str, dict[str, Any]]:
        """Start all at free addresses, which `configure` writes down first; return each one's report that it is ready.

        All addresses must be known beforehand, and another process may take one in the meantime: then others are tried.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            addresses = dict(zip(commands, free_addresses(len(commands)), strict=True))
            configure(addresses)
            try:
                return await self.start_all(commands)
            except MasqueradeError:
                await self.end()
                if attempt == _ATTEMPTS or not any(map(is_taken, addresses.values())):
                    raise
        raise AssertionError("the last attempt has raised")

    def death(self, child: Child, code: int) -> PeerUnreachable:
        """Return how a service ended, with the last line of its log if it ended by itself."""
        how = "; ".join(super().death(child, code).reasons)
        return PeerUnreachable(
            child.name, f"{how}{_last_line(child.log) if code > 0 else ''}; its log is {child.log}"
        )


def _last_line(log: Path) -> str:
    with contextlib.suppress(OSError):
        lines = [line for line in log.read_text("utf-8", errors="replace").split("\n") if line.strip()]
        if lines:
            return f": {one_line(lines[-1])}"
    return ""
