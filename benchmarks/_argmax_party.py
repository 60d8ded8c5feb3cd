"""One party of the comparisons that `circuits` measures."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from _parties import main
from masquerade.crypto import BidWords
from masquerade.net import Script
from masquerade.protocol.comparing.argmax import Bid, plain, prepare


def rounds(me: int, parties: Sequence[str], n: str, score_bits: str) -> Script[dict[str, object]]:
    """Seconds of the setup, of each secure round and of each plain one."""
    started = time.perf_counter()
    argmax = yield from prepare(me, parties, BidWords(int(score_bits), 4), rounds_ahead=int(n))
    spent: dict[str, object] = {"setup": time.perf_counter() - started}
    for name, way in (("secure", argmax), ("plain", plain)):
        seconds = []
        for number in range(int(n)):
            started = time.perf_counter()
            bid = partial(Bid, (number * 7919 + me * 104_729) << 20, me)
            winner = yield from way(me, parties, bid)
            seconds.append(time.perf_counter() - started)
            assert winner is not None
        spent[name] = seconds
    return spent


if __name__ == "__main__":
    main(rounds)
