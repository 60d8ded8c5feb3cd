"""Counts over chunks are those of all rows, in memory and on the disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from masquerade.engine import LEAST_MEMORY, Arrays, Chunk, LocalEngine, SparseCounts, read_size, size_text
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
