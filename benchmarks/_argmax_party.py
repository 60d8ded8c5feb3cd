"""One party of the comparisons that `circuits` measures: `_argmax_party.py FOLDER NAME NAMES ROUNDS SCORE_BITS`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from masquerade.crypto.circuits_library import BidWords
from masquerade.net.channel import Agreement, Node
from masquerade.net.connect import listen
from masquerade.net.identity import Identity
from masquerade.net.running import run_async
from masquerade.net.script import Script
from masquerade.net.session import run_script
from masquerade.net.trust import TrustStore
from masquerade.protocol.argmax import Bid, plain
from masquerade.protocol.secure_argmax import prepare


def rounds(me: int, parties: Sequence[str], n: int, score_bits: int) -> Script[dict[str, object]]:
    """Seconds of the setup, of each secure round and of each plain one."""
    started = time.perf_counter()
    argmax = yield from prepare(me, parties, BidWords(score_bits, 4), rounds_ahead=n)
    spent: dict[str, object] = {"setup": time.perf_counter() - started}
    for name, way in (("secure", argmax), ("plain", plain)):
        seconds = []
        for number in range(n):
            started = time.perf_counter()
            bid = Bid((number * 7919 + me * 104_729) << 20, me)
            winner = yield from way(me, parties, bid)
            seconds.append(time.perf_counter() - started)
            assert winner is not None
        spent[name] = seconds
    return spent


async def main(folder: Path, me: str, names: list[str], n: int, score_bits: int) -> None:
    """Connect, run, and print what it took as JSON."""
    identity, trust = Identity.load(folder / me), TrustStore.load(folder / me / "trust")
    async with listen(identity, trust) as listener:
        print(listener.address, flush=True)
        peers = [Node(**node) for node in json.loads(sys.stdin.readline())]
        async with listener.connect(peers, Agreement(bytes(32))) as channels:
            spent = await run_script(rounds(names.index(me), names, n, score_bits), channels)
    print(json.dumps(spent), flush=True)


if __name__ == "__main__":
    run_async(
        main(Path(sys.argv[1]), sys.argv[2], sys.argv[3].split(","), int(sys.argv[4]), int(sys.argv[5]))
    )
