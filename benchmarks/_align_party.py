"""One party of the alignments that `align` measures: its seconds, those of its processor, its bytes and its peak."""

from __future__ import annotations

import hashlib
import resource
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from _parties import main
from masquerade.data import Table
from masquerade.net import Script, Send
from masquerade.protocol import identifiers
from masquerade.protocol.align.align import align


def people(me: int, size: int) -> pa.Table:
    """A table that has half of its people in common with every other party's, in an order of its own."""
    numbers = np.arange(size)
    numbers[size // 2 :] += (me + 1) * 10**9
    return pa.table({"id": pa.array(numbers[::-1] if me % 2 else numbers).cast(pa.string())})


def measured(me: int, parties: Sequence[str], size: str, way: str) -> Script[dict[str, object]]:
    """Align once; `bytes` are those that this party sent."""
    own = identifiers(Table(people(me, int(size))), "id", "strip")
    wall, work, sent = time.perf_counter(), time.process_time(), 0
    script = align(me, parties, own, bytes(32), way=way)
    heard: Any = None
    while True:
        try:
            move = script.send(heard)
        except StopIteration as end:
            rows = end.value
            break
        if isinstance(move, Send):
            fields = [getattr(move.message, field) for field in move.message.__struct_fields__]
            sent += len(move.peers) * sum(len(each) for each in fields if isinstance(each, bytes))
        heard = yield move
    return {
        "seconds": time.perf_counter() - wall,
        "processor_seconds": time.process_time() - work,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "bytes": sent,
        "common": len(rows),
        "order": hashlib.sha256(b" ".join(own.take(rows))).hexdigest(),
    }


if __name__ == "__main__":
    main(measured)
