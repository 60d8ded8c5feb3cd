"""Groups of sensitive values as histograms, written by hand or drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

ALPHABET = "abcd"


def count(groups: Sequence[Sequence[int]]) -> tuple[Any, Any, tuple[str, ...]]:
    """A histogram as a requirement gets it: without values that no record has."""
    histogram = np.array(groups, np.int64)
    used = histogram.sum(axis=0) > 0
    labels = tuple(label for label, kept in zip(ALPHABET, used, strict=False) if kept)
    histogram = histogram[:, used]
    return histogram, histogram.sum(axis=0, keepdims=True), labels


nonempty = st.lists(st.integers(0, 6), min_size=4, max_size=4).filter(any)
tables = st.lists(nonempty, min_size=1, max_size=6)
