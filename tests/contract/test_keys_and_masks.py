"""Keys and masks, wherever the rows are: the same answers of one table, of chunks, and of a cluster."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given, settings, strategies as st

import masquerade as mq
from chunked import write_parts
from examples import examples
from masquerade.data import equal_cells, fingerprints
from masquerade.engine import LocalEngine
from masquerade.errors import ParameterError
from masquerade.jobs import opened_engine

N = 400


def people(seed: int = 7) -> pa.Table:
    """Columns of several types, with missing cells, a few equal rows, and texts that differ in space alone."""
    draw = np.random.default_rng(seed)
    towns = np.array(["Aachen", "Bonn", " Bonn", "", "Celle", None], object)
    table = pa.table(
        {
            "age": pa.array(draw.integers(18, 60, N), mask=draw.random(N) < 0.05),
            "town": pa.array(draw.choice(towns, N), pa.string()),
            "paid": pa.array(draw.choice([1.5, 2.0, float("nan"), -3.25], N), mask=draw.random(N) < 0.1),
            "born": pa.array([datetime.date(1980, 1, 1 + day) for day in draw.integers(0, 20, N).tolist()]),
            "cost": pa.array([Decimal(each) / 100 for each in draw.integers(0, 30, N).tolist()]),
            "well": pa.array(draw.random(N) < 0.5),
        }
    )
    return pa.concat_tables([table.slice(0, N - 20), table.slice(0, 20)])


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    write_parts(people(), tmp_path / "people")
    return tmp_path / "people"


QUESTIONS: list[dict[str, Any]] = [
    {},
    {"measure": "separation"},
    {"beta": 0.9},
    {"columns": ["town", "age"]},
    {"weights": {"age": 5.0}},
    {"exact": True},
    {"exact": True, "weights": {"age": 5.0, "cost": 3.0}},
    {"exact": True, "columns": ["well", "town", "paid"]},
    {"all": True, "beta": 0.8, "max_size": 3},
    {"all": True, "beta": 0.95, "measure": "separation", "max_size": 2},
    {"epsilon": 0.5, "delta": 0.5},
    {"epsilon": 0.1, "delta": 0.1, "measure": "separation"},
    {"epsilon": 0.9, "delta": 0.5, "beta": 0.9, "measure": "separation", "seed": 3},
]


@pytest.mark.parametrize("memory", [1 << 28, 20_000])
@pytest.mark.parametrize("options", QUESTIONS, ids=str)
def test_the_same_key_as_in_memory(parts: Path, options: dict[str, Any], memory: int) -> None:
    whole = mq.keys(people(), **options)
    with LocalEngine(threads=2) as engine:
        # In several shares. Samples must fit, and of equally light keys the rows that fit decide.
        engine.summing_memory = 1 << 17 if "epsilon" in options or "exact" in options else memory
        found = mq.keys(str(parts), engine=engine, **options)
    assert {**found.summary, "seconds": None} == {**whole.summary, "seconds": None}


@pytest.mark.parametrize("memory", [1 << 28, 3_000])
def test_the_smallest_key_whatever_rows_fit(parts: Path, memory: int) -> None:
    whole = mq.keys(people(), exact=True)
    with LocalEngine(threads=2) as engine:
        engine.summing_memory = memory
        found = mq.keys(str(parts), engine=engine, exact=True)
    assert (len(found.key), found.ratio) == (len(whole.key), whole.ratio)


def test_a_sample_that_does_not_fit_is_refused(parts: Path) -> None:
    with LocalEngine(threads=1) as engine:
        engine.summing_memory = 1000
        with pytest.raises(ParameterError, match=r"engine\.memory: must be at least .* rows of 6 columns take"):
            mq.keys(str(parts), engine=engine, epsilon=0.5, delta=0.5)


NAMED = {"always": ["well"], "never": ["cost"]}


@pytest.mark.parametrize(
    "options",
    [
        {"measure": "separation", "beta": 0.9, "sample": 150, "delta": 0.9},
        {"measure": "distinct", "beta": 0.9, "sample": 150, "delta": 0.9},
        {"measure": "distinct", "beta": 0.9, "sample": 100_000, "delta": 0.9},
        *({"measure": measure, "beta": beta, **NAMED} for measure in ("distinct", "separation") for beta in (0.6, 0.9)),
    ],
    ids=str,
)
def test_the_same_mask_as_in_memory(parts: Path, options: dict[str, Any]) -> None:
    whole = mq.mask(people(), **options)
    with LocalEngine(threads=2) as engine:
        found = mq.mask(str(parts / "*.parquet"), engine=engine, **options)
    assert {**found.summary, "seconds": None} == {**whole.summary, "seconds": None}


def test_a_csv_file_is_copied_and_counted_in_chunks(tmp_path: Path) -> None:
    pyarrow.csv.write_csv(people(), tmp_path / "people.csv")
    with opened_engine("local", "512MB") as engine:
        found = mq.keys(tmp_path / "people.csv", engine=engine)
    assert found.key == mq.keys(tmp_path / "people.csv").key


@settings(max_examples=examples(15), deadline=None)
@given(st.lists(st.one_of(st.none(), st.text(max_size=6)), min_size=1, max_size=30), st.integers(0, 2**64 - 1))
def test_fingerprints_are_equal_where_codes_are(cells: list[str | None], secret: int) -> None:
    column = pa.chunked_array([pa.array(cells[:5], pa.string()), pa.array(cells[5:], pa.string())])
    codes, _ = equal_cells(column)
    found = fingerprints(column, secret)
    assert {*zip(codes.tolist(), found.tolist(), strict=True)} == {
        (code, found[codes.tolist().index(code)]) for code in codes.tolist()
    }
    assert len({*found.tolist()}) == len({*codes.tolist()})


@pytest.mark.parametrize(
    ("name", "memory", "problem"),
    [
        (None, "much", 'such as "4GB"'),
        (None, "1MB", "at least 512MB"),
        ("tcp://x:1", "4GB", "belongs to the engine local"),
        ("lokal", None, "must be the address of a Dask scheduler, such as .*lokal"),
    ],
)
def test_engines_that_cannot_be(name: str | None, memory: str | None, problem: str) -> None:
    with pytest.raises(ParameterError, match=problem), opened_engine(name, memory):
        pass
