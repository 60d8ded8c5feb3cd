"""Counts over chunks are those of all rows, in memory and on the disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from masquerade.engine import (
    LEAST_MEMORY,
    Arrays,
    Chunk,
    Chunks,
    LocalEngine,
    SparseCounts,
    counted_keys,
    counted_shares,
    read_size,
    size_text,
)
from masquerade.errors import ParameterError


@dataclass(frozen=True)
class Load:
    first: int
    rows: int

    def __call__(self) -> tuple[Arrays, int]:
        return {"number": np.arange(self.first, self.first + self.rows, dtype=np.int64)}, self.rows


@dataclass(frozen=True)
class LastDigit:
    def __call__(self, chunk: Chunk) -> SparseCounts:
        return SparseCounts.of(chunk["number"] % 10, 10)


@dataclass(frozen=True)
class Double:
    def __call__(self, chunk: Chunk) -> Arrays:
        return {"number": np.array(chunk["number"]) * 2}


def total(chunk: Chunk) -> Any:
    return chunk["number"].sum()


@pytest.mark.parametrize("held", [1 << 20, 0], ids=["in memory", "on the disk"])
def test_kernels_see_every_chunk_and_what_was_changed(held: int, tmp_path: Path) -> None:
    with LocalEngine(threads=2, folder=tmp_path) as engine:
        engine._spilled._most = held
        seen: list[tuple[int, int]] = []
        engine.on_chunk = lambda done, of: seen.append((done, of))
        chunks, told = engine.load([Load(first, 7) for first in range(0, 70, 7)])
        assert told == [7] * 10
        assert seen == [(done, 10) for done in range(1, 11)]
        assert bool(list(tmp_path.rglob("*.npy"))) == (held == 0)
        counted = chunks.total(LastDigit())
        assert (counted.keys.tolist(), counted.counts.tolist()) == (list(range(10)), [7] * 10)
        chunks.change(Double())
        assert chunks.each(total) == [2 * sum(range(first, first + 7)) for first in range(0, 70, 7)]
        assert chunks.total(LastDigit()).keys.tolist() == [0, 2, 4, 6, 8]
        assert len(list(tmp_path.rglob("*.npy"))) == (10 if held == 0 else 0)
        chunks.drop()
        assert (engine._spilled.held, list(tmp_path.rglob("*.npy")), len(chunks)) == (0, [], 0)
    assert not list(tmp_path.iterdir())


def test_a_loader_that_fails_ends_the_others(tmp_path: Path) -> None:
    def fail() -> tuple[Arrays, int]:
        raise ParameterError("unreadable")

    with LocalEngine(threads=1, folder=tmp_path) as engine, pytest.raises(ParameterError, match="unreadable"):
        engine.load([fail, *[Load(0, 1)] * 5])


@given(st.lists(st.lists(st.integers(0, 40), max_size=30), min_size=1, max_size=5))
def test_sparse_counts_add_up(several: list[list[int]]) -> None:
    parts = [SparseCounts.of(np.array(each, np.int64), 41) for each in several]
    whole = SparseCounts.of(np.array([key for each in several for key in each], np.int64), 41)
    added = SparseCounts.sum_of(parts)
    assert added.keys.tolist() == whole.keys.tolist()
    assert added.counts.tolist() == whole.counts.tolist()


def test_a_memory_that_is_too_small_is_refused() -> None:
    with pytest.raises(ParameterError, match=r'engine\.memory: must be at least 512MB; got "1MB"'):
        LocalEngine(1 << 20)


@pytest.mark.parametrize(("text", "size"), [("4GB", 4 << 30), (" 1.5 gb", 3 << 29), ("512MB", LEAST_MEMORY)])
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert read_size(text) == size
    assert read_size(size_text(size)) == size


@pytest.mark.parametrize("text", ["", "4", "GB", "-1GB", "infGB", "four GB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        read_size(text)


# --- a share of the keys in each pass ---


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
