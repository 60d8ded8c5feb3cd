"""One chunk in memory answers as chunks in threads do, and keeps the arrays that it was given."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import masquerade as mq
from masquerade.data import ProductColumn, Records, codes_of, gathered, placed, ranks_of, sent_back, with_products
from masquerade.engine import Arrays, Chunk, Engine, Here, LocalEngine
from masquerade.errors import ParameterError


@dataclass(frozen=True)
class Load:
    first: int
    rows: int

    def __call__(self) -> tuple[Arrays, int]:
        return {"number": np.arange(self.first, self.first + self.rows)}, self.rows


@dataclass(frozen=True)
class Cut:
    """Sends even numbers to the first new chunk, odd ones to the second."""

    def __call__(self, chunk: Chunk) -> list[Arrays]:
        return [{"number": chunk["number"][chunk["number"] % 2 == at]} for at in range(2)]


def total(chunk: Chunk) -> int:
    return int(chunk["number"].sum())


def halves(chunk: Chunk) -> Arrays:
    return {"half": chunk["number"] // 2}


def listed(chunk: Chunk) -> dict[str, list[int]]:
    return {name: chunk[name].tolist() for name in chunk}


def answers(engine: Engine, rows: list[int]) -> list[object]:
    """All that chunks can be asked for."""
    with engine:
        loaders = [Load(first, last - first) for first, last in pairwise(rows)]
        chunks, told = engine.load(loaders)
        found: list[object] = [told, len(chunks), chunks.total(total), chunks.each(total)]
        chunks.change(halves)
        derived = chunks.derive(lambda chunk: {"third": chunk["number"] // 3})
        chunks.join(derived, lambda mine, theirs: {"both": mine["half"] + theirs["third"]})
        exchanged = chunks.exchange([Cut()] * len(chunks), 2)
        found += [chunks.each(listed), derived.each(listed), exchanged.each(listed), chunks.only(0, listed)]
        found += [engine.run([lambda: 1, lambda: 2])]
        derived.drop()
        return [*found, len(derived)]


@pytest.mark.parametrize("rows", [[0, 9], [0, 4, 9]], ids=["one chunk", "two chunks"])
def test_it_answers_as_threads_do(rows: list[int]) -> None:
    assert answers(Here(), rows) == answers(LocalEngine(threads=2), rows)


TABLE = mq.Table(
    pa.table({"age": [3, 1, 2, 3], "job": ["b", "a", "b", "a"], "ill": ["yes", "no", "no", "no"]}),
    mq.Schema([mq.Attribute("age", "continuous"), mq.Attribute("job", taxonomy="flat")]),
)


def arrays_of(records: Records) -> dict[str, np.ndarray]:
    return records.chunks.only(0, dict)


def test_the_records_of_a_table_are_its_own_arrays() -> None:
    records = Records.of(TABLE, ["age", "job"], ["ill", None, "ill"])
    arrays = arrays_of(records)
    assert np.shares_memory(arrays[ranks_of("age")], TABLE.column("age").ranks)
    assert np.shares_memory(arrays[codes_of("ill")], TABLE.coded("ill").codes)
    assert (len(records), records.sizes, records.name, list(records.coded)) == (4, (4,), "table", ["ill"])
    assert records.whole["ill"].tolist() == [[3, 1]]
    assert records.columns["job"].domain is TABLE.column("job").domain
    assert records.together("k-member") is TABLE


def test_records_tell_how_many_rows_were_dropped() -> None:
    table = mq.Table(pa.table({"age": [3, None, 2], "job": ["b", "a", "?"]}), TABLE.schema)
    records = Records.of(table.complete(["age", "job"]), ["age"])
    assert (len(records), records.rows_read, records.dropped_rows, records.missing) == (1, 3, 2, "drop")
    kept = Records.of(table.complete(["age"], "keep", ranked=["age"]), ["age"])
    assert (len(kept), kept.missing) == (3, "keep")


def test_a_product_is_numbered_as_on_the_table() -> None:
    both = ProductColumn(["ill", "job"])
    records = with_products(Records.of(TABLE, ["age"], ["ill", "job"]), [both])
    assert records.coded[both].labels == TABLE.coded(both).labels
    assert arrays_of(records)[codes_of(both)].tolist() == TABLE.coded(both).codes.tolist()


def others(chunk: Chunk) -> Arrays:
    return {"group": np.full(chunk["group"].size, -1, np.int32)}


@pytest.mark.parametrize("bins", [[0, 0], [0, 1], [-1, 0]], ids=["one bin", "two bins", "some stay out"])
def test_what_is_gathered_goes_back_to_its_place(bins: list[int]) -> None:
    records = Records.of(TABLE, ["age"])
    records.chunks.change(lambda _: {"group": np.array([1, 0, 1, 0], np.int32)})
    groups = gathered(records, "group", np.array(bins), [ranks_of("age"), "group"])
    assert len(groups) == max(bins) + 1
    placed(records, sent_back(records, groups, [(10,)] * len(groups), ["group"]), others)
    outside = [-1 if bins[group] < 0 else 10 + group for group in (1, 0, 1, 0)]
    assert arrays_of(records)["group"].tolist() == outside


def test_nothing_of_one_bin_is_moved() -> None:
    records = Records.of(TABLE, ["age"])
    records.chunks.change(lambda _: {"group": np.zeros(4, np.int32)})
    groups = gathered(records, "group", np.array([0]), [ranks_of("age")])
    assert groups.only(0, dict)[ranks_of("age")] is arrays_of(records)[ranks_of("age")]
    groups.drop()
    assert len(records.chunks) == 1


def test_rows_in_files_are_not_together() -> None:
    elsewhere = replace(Records.of(TABLE, ["age"]), table=None)
    with pytest.raises(ParameterError, match='"k-member" needs the whole table in one memory; table is in'):
        elsewhere.together("k-member")
