"""Drafted mashups run as they are: parties with different columns, and providers of the same."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

import masquerade as mq
from masquerade.errors import AnswerIsNo, ParameterError
from parties_here import parties_here

N = 60


def people() -> pa.Table:
    return mq.generate_people(N).select(["ssn", "sex", "job", "town", "disease", "approved"])


def write(table: pa.Table, path: Path) -> Path:
    pyarrow.parquet.write_table(table, path)
    return path


def test_parties_with_different_columns(tmp_path: Path) -> None:
    table = people()
    bank = write(table.select(["ssn", "job", "sex", "approved"]), tmp_path / "bank.parquet")
    other = table.slice(5).select(["ssn", "town", "sex", "disease"])
    other = other.rename_columns(["patient", "town", "sex", "disease"])
    clinic = write(other, tmp_path / "The clinic.parquet")
    draft = mq.draft([bank, clinic], tmp_path / "job.toml", parties=True, target="approved", sensitive=["disease"], k=4)
    job = tomllib.loads(draft.text)
    assert {name: party["id"] for name, party in job["parties"].items()} == {"bank": "ssn", "the-clinic": "patient"}
    assert job["parties"]["bank"]["attributes"] == ["job", "sex", "approved"]
    with parties_here():
        release = mq.mashup_job(draft.job).release
    assert release.table.num_rows == N - 5
    assert set(release.table.column_names) == {"job", "sex", "town", "approved", "disease"}


def test_parties_that_lack_many_cells_keep_them(tmp_path: Path) -> None:
    ids = [f"i{at}" for at in range(N)]
    ages = [None if at % 2 else at % 40 for at in range(N)]
    bank = write(pa.table({"ssn": ids, "age": ages}), tmp_path / "bank.parquet")
    classes = [None if at == 0 else "ab"[at % 2] for at in range(N)]
    towns = {"ssn": ids, "town": [f"t{at % 4}" for at in range(N)], "approved": classes}
    clinic = write(pa.table(towns), tmp_path / "clinic.parquet")
    draft = mq.draft([bank, clinic], tmp_path / "job.toml", parties=True, target="approved", k=N)
    job = tomllib.loads(draft.text)
    assert [party.get("missing") for party in job["parties"].values()] == ["keep", None]
    assert job["privacy"][0]["k"] == N - 1  # one has no class, and is dropped
    with parties_here():
        assert mq.mashup_job(draft.job).release.table.num_rows == N - 1


def test_providers_of_the_same_columns(tmp_path: Path) -> None:
    table = people().drop_columns(["ssn", "approved"])
    north = write(table.slice(0, 30), tmp_path / "north.parquet")
    south = write(table.slice(30), tmp_path / "south.parquet")
    draft = mq.draft([north, south], tmp_path / "job.toml", parties=True, sensitive=["disease"], k=3)
    with parties_here():
        assert mq.mashup_job(draft.job).release.table.num_rows == N


def test_what_cannot_be_joined(tmp_path: Path) -> None:
    table = people()
    one = write(table.slice(0, 20), tmp_path / "one.parquet")
    other = write(table.slice(30, 20).select(["ssn", "town"]), tmp_path / "other.parquet")
    with pytest.raises(AnswerIsNo, match="no people in common"):
        mq.draft([one, other], tmp_path / "job.toml", parties=True)
    with pytest.raises(ParameterError, match="two or more parties"):
        mq.draft(one, tmp_path / "job.toml", parties=True)
    with pytest.raises(ParameterError, match='no table has a column "diseas"'):
        mq.draft([one, other], tmp_path / "job.toml", parties=True, sensitive=["diseas"])
