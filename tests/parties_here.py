"""The parties of a trial mashup in this process, for tests of what they make together.

    with parties_here():
        mashup_job(path)

Each reads and answers the launcher's lines as ever, and talks to the others over TLS; only that it can die, and how it
is ended, is left to the tests that start processes.
"""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from masquerade.errors import MasqueradeError
from masquerade.forms import json_decoder
from masquerade.jobs import Child, Supervisor, party_process, session as parties_run
from masquerade.jobs.processes import ForkedProcess
from masquerade.net import Script


class _Party:
    """What a launcher has of a process: two streams, an exit code, and the means to end it."""

    def __init__(self) -> None:
        self.returncode: int | None = None
        self.stdin = self.stdout = self  # told lines are written to it, and its own are read from it
        self._told: queue.Queue[str] = queue.Queue()
        self._said = asyncio.StreamReader(limit=1 << 24)
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.create_task(self._run(), context=copy_context())

    async def _run(self) -> int:
        _party.set(self)
        try:
            line = await asyncio.to_thread(self.told)
            setup = json_decoder(party_process.Setup).decode(line)
            code = await party_process._run(setup)
        except MasqueradeError as error:
            party_process._tell(party_process.Failed.of(error))
            code = error.exit_code
        except asyncio.CancelledError:
            code = party_process.STOPPED
        self.returncode = code
        self._loop.call_soon(self._said.feed_eof)  # after its last word
        return code

    # --- the party's end ---

    def told(self) -> str:
        return self._told.get()

    def say(self, line: bytes) -> None:
        self._loop.call_soon_threadsafe(self._said.feed_data, line)

    # --- the launcher's end ---

    def write(self, line: bytes) -> None:
        self._told.put(line.decode())

    async def drain(self) -> None:
        pass

    def write_eof(self) -> None:
        self._told.put("")

    async def readline(self) -> bytes:
        return await self._said.readline()

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    def kill(self) -> None:
        self.write_eof()
        self._ended.cancel()

    def close(self) -> None:
        pass


class _Here(Supervisor):
    async def spawn(self, name: str, module: str, *words: str | Path) -> Child:
        assert (module, words) == (parties_run._PARTY, ())
        process = cast(ForkedProcess, _Party())
        self.children[name] = Child(name, process, self._logs / f"{name}.log")
        return self.children[name]


_party: ContextVar[_Party] = ContextVar("party")
_script = party_process._script


def _script_here(*arguments: Any) -> Script[int]:
    """A party's side of the protocol, which runs in a thread of its own, and knows there whose it is."""
    party, script = _party.get(), _script(*arguments)

    def known() -> Script[int]:
        _party.set(party)
        return (yield from script)

    return known()


@contextmanager
def parties_here() -> Iterator[None]:
    """Start no process for a party of a mashup."""
    stdin = SimpleNamespace(readline=lambda: _party.get().told())
    written = SimpleNamespace(write=lambda line: _party.get().say(line), flush=lambda: None)
    streams: Any = SimpleNamespace(stdin=stdin, stdout=SimpleNamespace(buffer=written))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(party_process, "sys", streams)
        patch.setattr(party_process, "_script", _script_here)
        patch.setattr(parties_run, "Supervisor", _Here)
        yield
