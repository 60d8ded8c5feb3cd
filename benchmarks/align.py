"""Alignment: common records of two parties beside openmined.psi, and how the cost grows with parties."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from masquerade.errors import ParameterError
from masquerade.net.memory import Wire, run_together
from masquerade.protocol.align import align

SIZES = (100_000, 1_000_000)
PARTIES = (2, 3, 4, 5)
FEW = 20_000


def run(say: Callable[[str], None], save: Path | None) -> dict[str, Any]:
    figures: dict[str, Any] = {"beside openmined.psi": {}, "parties": {}}
    say("two parties, half of the records in common; both parties' work, one after the other")
    for size in SIZES:
        lists = people(2, size)
        ours, common, sent = ours_takes(lists)
        theirs = openmined_takes(lists, common)
        say(
            f"{size:>9,} identifiers: {ours:6.1f} s, openmined.psi {theirs:6.1f} s, ratio {ours / theirs:.2f}; "
            f"{sent / size:.0f} bytes sent an identifier"
        )
        figures["beside openmined.psi"][size] = {"seconds": ours, "openmined": theirs, "ratio": ours / theirs}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    say(f"peak memory of this process, both parties and openmined.psi in it: {peak:.2f} GiB")
    figures["peak GiB"] = peak
    say(f"{FEW:,} identifiers each")
    for n in PARTIES:
        ours, _, sent = ours_takes(people(n, FEW))
        say(f"{n} parties: {ours:5.1f} s of work, {ours / n:5.1f} s a party, {sent / 2**20:6.1f} MiB sent")
        figures["parties"][n] = {"seconds": ours, "bytes": sent}
    return figures


def people(n_parties: int, size: int) -> list[list[bytes]]:
    """Lists that have half of their people in common."""
    half = size // 2
    return [
        [b"%d" % (row if row < half else (party + 1) * 10**9 + row) for row in range(size)]
        for party in range(n_parties)
    ]


def ours_takes(lists: Sequence[list[bytes]]) -> tuple[float, int, int]:
    """Seconds, common records and bytes sent."""
    names = [f"p{number}" for number in range(len(lists))]
    wire = Wire()
    started = time.perf_counter()
    found = run_together({name: align(me, names, lists[me], b"bench") for me, name in enumerate(names)}, wire)
    seconds = time.perf_counter() - started
    return seconds, len(found["p0"]), sum(len(message.data) for message in wire.heard)


def openmined_takes(lists: Sequence[list[bytes]], common: int) -> float:
    """Seconds of openmined.psi for the same, revealing the intersection."""
    try:
        import private_set_intersection.python as psi
    except ImportError:
        raise ParameterError("bench align: openmined.psi is not installed; run make bench") from None
    server_items, client_items = ([text.decode() for text in texts] for texts in lists)
    started = time.perf_counter()
    server, client = psi.server.CreateWithNewKey(True), psi.client.CreateWithNewKey(True)
    setup = server.CreateSetupMessage(0.0, len(client_items), server_items, psi.DataStructure.RAW)
    response = server.ProcessRequest(client.CreateRequest(client_items))
    found = client.GetIntersection(setup, response)
    seconds = time.perf_counter() - started
    assert len(found) == common
    return seconds
