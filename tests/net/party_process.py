"""A party in a process of its own: `party_process.py FOLDER ROUNDS SILENCE`.

Prints its address, reads the peers as JSON, prints a line a round, and ends as a command does: exit code and one
`error:` line.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from masquerade.cli.app import prepare
from masquerade.errors import MasqueradeError
from masquerade.net import (
    Agreement,
    Identity,
    Message,
    PartyAddress,
    Receive,
    Script,
    Send,
    Timings,
    TrustStore,
    listen,
    run_async,
    run_script,
)


class Word(Message, tag="word", frozen=True):
    text: str


def rounds(peers: tuple[str, ...], n: int) -> Script[int]:
    for number in range(n):
        yield Send(peers, Word(str(number)))
        for peer in peers:
            yield Receive(peer, Word)
        print(f"round {number}", flush=True)  # noqa: T201
    return n


async def main(folder: Path, n: int, silence: float) -> None:
    identity, trust = Identity.load(folder), TrustStore.load(folder / "trust")
    async with listen(identity, trust) as listener:
        print(listener.address, flush=True)  # noqa: T201
        peers = [PartyAddress(**node) for node in json.loads(sys.stdin.readline())]
        timings = Timings(silence=silence)
        async with listener.connect(peers, Agreement(bytes(32)), timings) as channels:
            await run_script(rounds(tuple(channels), n), channels)


if __name__ == "__main__":
    prepare()  # signals and streams, as in a command
    try:
        run_async(main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
    except MasqueradeError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
