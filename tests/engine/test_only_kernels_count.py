"""Rows are counted in `engine/` alone, so that another engine can take over without a sweep through the rooms."""

from __future__ import annotations

import re
from pathlib import Path

import masquerade

SOURCE = Path(masquerade.__file__).parent
COUNTING = re.compile(r"\b(?:np|numpy)\.(?:bincount|unique\w*|histogram\w*|add\.at)\b")
# Shares are added up there, modulo a power of two: no records, and nothing that another engine could do.
EXEMPT = {"crypto/unit_products.py", "protocol/sensitive/sorted_histogram.py"}


def test_no_other_room_counts_by_numpy() -> None:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name.startswith("engine/") or name in EXEMPT:
            continue
        lines = enumerate(path.read_text("utf-8").splitlines(), start=1)
        found += [f"{name}:{number}: {line.strip()}" for number, line in lines if COUNTING.search(line)]
    assert not found, (
        "count by masquerade.engine.counts (value_counts, which_occur, pair_counts, weighted_counts) and number "
        "rows by masquerade.engine.counts (occurring, renumber, group_rows, distinct_values, …), or by "
        "Coded.histogram(s) and Generalised.counts, instead of:\n" + "\n".join(found)
    )
