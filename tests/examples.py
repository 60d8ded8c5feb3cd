"""How many examples a property is tried on: all of them in `make test`, a few in `make quick`."""

from __future__ import annotations

import os

QUICK = os.environ.get("MASQUERADE_TESTS") == "quick"


def examples(count: int) -> int:
    return max(3, count // 10) if QUICK else count
