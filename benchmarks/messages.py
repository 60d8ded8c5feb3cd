"""What a message between parties costs: processor time of all processes, over mutual TLS on loopback.

All parties tell the first, which answers all of them: between two, and among ten as a layer of ANDs does. Beside it
are the same bytes between two as bare frames over TLS, without channels, scripts and threads.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from _figures import Figure, Say, duration, tell
from _parties import run_parties

ROUNDS = {200: 3_000, 200_000: 300}  # by bytes of a message
LAYERS, LAYER_BYTES, N_PROVIDERS = 500, 500, 10


def run(say: Say, save: Path | None) -> dict[str, Any]:
    """Measure all of it."""
    figures = []
    for size, n in ROUNDS.items():
        ours, bare = (_each(2, n, size, how) for how in ("script", "bare"))
        what = f"a message of {size:,} bytes and its answer"
        figures.append(Figure(what, duration(ours), f"bare frames {duration(bare)}", f"{ours / bare:.1f}"))
    layer = _each(N_PROVIDERS, LAYERS, LAYER_BYTES, "script")
    what = f"{LAYER_BYTES} bytes of nine parties to one, and its answer to all"
    figures.append(Figure(what, duration(layer), f"{duration(layer / 18)} a message"))
    return {"figures": tell(say, figures)}


def _each(n_parties: int, n: int, size: int, how: str) -> float:
    """The processor seconds of all parties for one round."""
    names = [f"party-{number}" for number in range(n_parties)]
    told = run_parties("_message_party.py", names, n, size, how)
    return sum(float(each["seconds"]) for each in told) / n
