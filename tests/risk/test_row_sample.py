"""One pass over any number of rows: uniform, of the size that is needed, in bounded memory."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

import masquerade as mq
from masquerade import risk
from masquerade.data import read
from masquerade.risk import RowSample
from masquerade.risk.sampling import draw_pairs, drawn_rows


def stream(
    n: int, size: int, seed: int, batch: int = 500, held_bytes: int = 0, expected: int | None = None
) -> tuple[RowSample, int]:
    """A sample of numbered rows, and the most that were held."""
    sample, most = RowSample(lambda rows: min(rows, size), seed, held_bytes, expected), 0
    for start in range(0, n, batch):
        sample.add(pa.table({"row": np.arange(start, min(start + batch, n))}))
        most = max(most, sum(len(each) for each in sample._tables))
    return sample, most


def test_a_stream_gives_the_sample_that_the_whole_table_gives() -> None:
    held, most = stream(20_000, 100, seed=3)
    streamed = held.coded(["row"])
    assert (streamed.drawn_from, streamed.rows) == (20_000, 100)
    assert most < 2500
    everything, _ = stream(20_000, 100, seed=3, held_bytes=1 << 28)
    assert everything.whole
    assert drawn(everything) == in_order(held.result()["row"].to_numpy())


def drawn(everything: RowSample) -> list[int]:
    """Of the rows that are drawn of a column that numbers all rows, which is the first, the second and so on there."""
    sample = drawn_rows(everything.coded(["row"]), 100, seed=3)
    [codes] = sample.chunks.each(lambda chunk: chunk["codes row"])
    return in_order(codes)


def in_order(rows: NDArray[Any]) -> list[int]:
    return [int(each) for each in np.argsort(np.argsort(rows))]


@pytest.mark.parametrize("held_bytes", [0, 8 * 20_000])
def test_rows_known_beforehand_give_the_same_sample_and_hold_less(held_bytes: int) -> None:
    held, _ = stream(20_000, 100, seed=3)
    sample, most = stream(20_000, 100, 3, held_bytes=held_bytes, expected=20_000)
    assert sample.whole == (held_bytes > 0)
    found = drawn(sample) if sample.whole else in_order(sample.result()["row"].to_numpy())
    assert found == in_order(held.result()["row"].to_numpy())
    assert most < 250 or held_bytes


def test_a_parquet_file_of_many_rows_is_streamed_however_few_bytes_it_has(tmp_path: Path) -> None:
    path = tmp_path / "alike.parquet"
    rows = read.FEW_ROWS + 1
    pq.write_table(pa.table({"x": np.zeros(rows, np.int8)}), path)
    assert path.stat().st_size < read.SMALL_FILE
    with read.TableFile(str(path)).in_batches() as opened:
        assert opened.rows == rows
        first = next(opened.batches)
        assert first.num_rows < rows
        assert first.num_rows + sum(batch.num_rows for batch in opened.batches) == rows


def test_a_size_that_grows_with_the_rows() -> None:
    sample = RowSample(lambda rows: math.ceil(10 * math.sqrt(rows)), 1, held_bytes=0)
    for _ in range(100):
        sample.add(pa.table({"row": np.arange(1000)}))
    assert sample.result().num_rows == math.ceil(10 * math.sqrt(100_000))


def test_every_row_is_as_likely() -> None:
    drawn = np.zeros(50)
    for seed in range(300):
        drawn[stream(50, 10, seed, batch=7)[0].result()["row"].to_numpy()] += 1
    assert abs(drawn / 300 - 0.2).max() < 0.1


def test_pairs_are_of_different_rows_and_uniform() -> None:
    counts = np.zeros((6, 6))
    for seed in range(40):
        sample = np.random.default_rng(seed).permutation(6)
        first, second = draw_pairs(6, 100, sample, seed)
        assert (first != second).all()
        np.add.at(counts, (first, second), 1)
    shares = counts[~np.eye(6, dtype=bool)] / 4000
    assert abs(shares - 1 / 30).max() < 0.02


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_large_files_are_read_in_one_pass(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "SMALL_FILE", 0)
    monkeypatch.setattr(read, "BLOCK", 4096)
    monkeypatch.setattr(risk, "HELD_BYTES", 1 << 12)
    path = tmp_path / f"people{suffix}"
    n = 8000
    table = pa.table({"id": [f"p{at}" for at in range(n)], "few, all": [str(at % 7) for at in range(n)]})
    (pacsv.write_csv if suffix == ".csv" else pq.write_table)(table, path)
    found = mq.keys(path, epsilon=0.1, delta=0.1)
    assert (found.key, found.rows) == (("id",), n)
    assert found.sampled is not None
    assert found.sampled < n
    published = mq.mask(path, measure="distinct", beta=0.1, sample=500, delta=0.1)
    assert published.published == ("few, all",)
    with pytest.raises(mq.DataError, match='no column "idd" \\(did you mean "id"'):
        mq.keys(path, epsilon=0.1, delta=0.1, columns=["idd"])


def test_a_row_of_a_large_file_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "SMALL_FILE", 0)
    path = tmp_path / "people.csv"
    path.write_text("a,b\n1,2\nsecret,3,4\n")
    with pytest.raises(mq.DataError, match="got 3") as caught:
        mq.keys(path, epsilon=0.1, delta=0.1)
    assert "secret" not in str(caught.value)


def test_databases_in_one_pass(tmp_path: Path) -> None:
    import sqlite3

    from masquerade.data import TableFile

    path = tmp_path / "people.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE people (id INTEGER, sex TEXT)")
        database.executemany("INSERT INTO people VALUES (?, ?)", [(at, "mf"[at % 2]) for at in range(100)])
    file = TableFile(f"sqlite:///{path}", "SELECT * FROM people")
    assert mq.keys(file).key == ("id",)
    with pytest.raises(mq.DataError, match="has no rows"):
        mq.keys(TableFile(f"sqlite:///{path}", "SELECT * FROM people WHERE id < 0"))
    with pytest.raises(mq.DataError, match="no such table"):
        mq.keys(TableFile(f"sqlite:///{path}", "SELECT * FROM persons"))
    with pytest.raises(mq.DataError, match="a database needs a query"):
        mq.keys(f"sqlite:///{path}")
