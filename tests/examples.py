"""How many examples a property is tried on: all of them in `make explore`, half in `make test`, few in `make quick`."""

from __future__ import annotations

import os

QUICK = os.environ.get("MASQUERADE_TESTS") == "quick"
EXPLORING = os.environ.get("HYPOTHESIS_PROFILE") == "exploring"


def examples(count: int) -> int:
    """The number of examples for a property that deserves `count`.

    `make test` tries the same ones every time, so that more of them would find nothing that yesterday's run did not.
    """
    if EXPLORING:
        return count
    return max(3, count // 10) if QUICK else max(5, count // 2)
