"""One party of the exchanges that `messages` measures: through a script, or by bare frames over TLS."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from collections.abc import Sequence
from pathlib import Path

from _parties import main
from masquerade.net import Identity, Message, Receive, Script, Send, TrustStore
from masquerade.net.tls_stream import ClientStream, ServerStream, serve


class Letter(Message, tag="letter", frozen=True):
    """A message of any size."""

    data: bytes


def processor_seconds() -> float:
    """Of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def rounds(me: int, parties: Sequence[str], n: str, size: str, _how: str) -> Script[dict[str, float]]:
    """All tell the first party, which answers all; the processor seconds of this one."""
    letter, (first, *others) = Letter(bytes(int(size))), parties
    started = processor_seconds()
    for _ in range(int(n)):
        if me:
            yield Send((first,), letter)
            yield Receive(first, Letter)
        else:
            for name in others:
                yield Receive(name, Letter)
            yield Send(tuple(others), letter)
    return {"seconds": processor_seconds() - started}


async def bare(folder: Path, me: str, names: Sequence[str], n: int, size: int) -> dict[str, float]:
    """The same between two, without channels, scripts and threads."""
    identity, trust = Identity.load(folder / me), TrustStore.load(folder / me / "trust")
    letter, done = bytes(size), asyncio.Event()

    async def answer(stream: ServerStream) -> None:
        for _ in range(n):
            await stream.read()
            await stream.write(letter)
        done.set()
        await stream.read()

    server, port = await serve("127.0.0.1:0", identity, trust, answer)  # type: ignore[arg-type] # it accepts these
    print(f"127.0.0.1:{port}", flush=True)
    (peer,) = json.loads(sys.stdin.readline())
    started = processor_seconds()
    if me == names[0]:
        await done.wait()
    else:
        stream = ClientStream(peer["address"], identity, peer["name"], trust.pin(peer["name"]))
        for _ in range(n):
            await stream.write(letter)
            await stream.read()
        await stream.end()
    spent = processor_seconds() - started
    await server.stop(None)
    return {"seconds": spent}


if __name__ == "__main__":
    if sys.argv[6] == "bare":
        found = asyncio.run(
            bare(Path(sys.argv[1]), sys.argv[2], sys.argv[3].split(","), int(sys.argv[4]), int(sys.argv[5]))
        )
        print(json.dumps(found), flush=True)
    else:
        main(rounds)
