"""Counting keys in shares: the same counts as at once, and what belongs together stays together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from masquerade.engine import Chunk, Chunks, LocalEngine, SparseCounts, counted_keys, counted_shares
from masquerade.errors import ParameterError


def _keys(chunk: Chunk) -> SparseCounts:
    return SparseCounts.of(chunk["keys"], 10_000)


@pytest.fixture
def engine() -> Iterator[LocalEngine]:
    with LocalEngine(threads=2) as opened:
        yield opened


def _chunks(engine: LocalEngine) -> Chunks:
    def loader(seed: int) -> tuple[dict[str, np.ndarray], None]:
        return {"keys": np.random.default_rng(seed).integers(0, 10_000, 500)}, None

    return engine.load([lambda seed=seed: loader(seed) for seed in range(5)])[0]


@pytest.mark.parametrize("memory", [1 << 30, 40_000, 1])
def test_shares_add_up_to_the_whole(engine: LocalEngine, memory: int) -> None:
    chunks = _chunks(engine)
    whole = chunks.total(_keys)
    engine.summing_memory = memory
    found = counted_keys(chunks, _keys, engine)
    assert found.keys.tolist() == whole.keys.tolist()
    assert found.counts.tolist() == whole.counts.tolist()


def test_keys_of_one_unit_are_in_one_share(engine: LocalEngine) -> None:
    chunks = _chunks(engine)
    engine.summing_memory = 20_000
    shares = [set((share.keys // 7).tolist()) for share in counted_shares(chunks, _keys, engine, unit=7)]
    assert len(shares) > 3
    assert sum(map(len, shares)) == len(set.union(*shares))


def test_what_cannot_be_held_is_refused_with_the_memory_that_would_do(engine: LocalEngine) -> None:
    engine.insist_on_summing(engine.summing_memory, "a thousand groups")
    with pytest.raises(ParameterError, match=r'memory: must be at least 12\.2GB for this; got "8GB"; many groups'):
        engine.insist_on_summing(3 << 30, "many groups")


def test_what_the_chunks_leave_no_room_for_is_refused(engine: LocalEngine) -> None:
    _chunks(engine)  # 20,000 bytes, in memory
    room = engine.memory - (160 << 20) - 5 * 500 * 8
    engine.insist_on_room(room, "many counts")
    with pytest.raises(
        ParameterError, match=r'memory: must be at least 8\.1GB for this; got "8GB"; many counts take about 7\.9GB'
    ):
        engine.insist_on_room(room + 1, "many counts")
