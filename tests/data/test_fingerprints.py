"""Fingerprints: a cell has the same one wherever it lies."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, strategies as st

from masquerade.data import fingerprints


@given(st.lists(st.text(max_size=6), min_size=1, max_size=5), st.text(max_size=40))
def test_a_text_has_the_same_fingerprint_beside_longer_ones(texts: list[str], other: str) -> None:
    alone = fingerprints(pa.chunked_array([pa.array(texts)]), 7)
    beside = fingerprints(pa.chunked_array([pa.array([*texts, other])]), 7)
    assert beside[:-1].tolist() == alone.tolist()


def test_different_texts_have_different_ones() -> None:
    texts = pa.chunked_array([pa.array([f"{number}" for number in range(2000)])])
    assert len(set(fingerprints(texts, 7).tolist())) == 2000
