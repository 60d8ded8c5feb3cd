"""TCP connections that are cut, delayed or corrupted: a proxy that carries bytes until it is time.

`python _faulty_network.py FAULT WORDS…` is `masquerade WORDS…`, but the parties of a mashup reach each other and the
assembler through such a proxy. FAULT is a Fault as JSON. The parties are the real ones; only the addresses that their
launcher tells them differ.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Literal


@dataclass(frozen=True)
class Fault:
    """What happens to which connection, in the order in which they are made, once it has carried so many bytes."""

    action: Literal["cut", "delay", "corrupt"]
    connection: int
    after: int
    seconds: float = 0.0  # of a delay


@dataclass
class FaultyNetwork:
    """Proxies in a thread of their own."""

    fault: Fault
    _numbers: count[int] = field(default_factory=count)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    def __post_init__(self) -> None:
        threading.Thread(target=self._loop.run_forever, name="proxies", daemon=True).start()

    def through(self, address: str) -> str:
        """An address from which connections are carried on to another."""
        serving = asyncio.start_server(partial(self._carry, address), "127.0.0.1", 0)
        server = asyncio.run_coroutine_threadsafe(serving, self._loop).result()
        return f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _carry(self, address: str, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        faults = [self.fault] if next(self._numbers) == self.fault.connection else []
        host, _, port = address.rpartition(":")
        with suppress(OSError):
            far, forth = await asyncio.open_connection(host, int(port))
            carried = 0

            async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
                nonlocal carried
                while data := await source.read(1 << 16):
                    carried += len(data)
                    if faults and carried > faults[0].after:
                        fault = faults.pop()
                        if fault.action == "cut":
                            back.transport.abort()
                            forth.transport.abort()
                            return
                        if fault.action == "corrupt":
                            data = bytes([data[0] ^ 0x40]) + data[1:]
                        await asyncio.sleep(fault.seconds)
                    target.write(data)
                    await target.drain()

            pumps = [asyncio.create_task(pump(near, forth)), asyncio.create_task(pump(far, back))]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for each in pumps:
                each.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            forth.close()
        back.close()


def main() -> None:
    from masquerade.cli.app import main as masquerade
    from masquerade.jobs import session as parties_run

    network, tell = FaultyNetwork(Fault(**json.loads(sys.argv.pop(1)))), parties_run.Book

    def told(addresses: Mapping[str, str]) -> parties_run.Book:
        return tell({name: network.through(address) for name, address in addresses.items()})

    parties_run.Book = told  # type: ignore[assignment,misc] # a function in place of the class it makes
    masquerade()


if __name__ == "__main__":
    main()
