"""The check of a release in parts: the verdicts of the whole table, however many shares it is counted in."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pytest

import masquerade as mq
from masquerade.data import Attribute, Schema, Taxonomy
from masquerade.engine import LocalEngine
from masquerade.errors import DataError
from masquerade.privacy import ReleasedRows, Requirement, check as checking, verify, violations_alone, with_coalitions

QID = ["age", "job"]
CASES = {
    "k": mq.KAnonymity(QID, k=3),
    "k too many": mq.KAnonymity(QID, k=9),
    "two at once": mq.KAnonymity(QID, k=3) & mq.LDiversity(QID, l=2, sensitive="disease"),
    "other columns": mq.KAnonymity(["job"], k=30) & mq.KAnonymity(["age"], k=9),
    "diversity": mq.LDiversity(QID, l=5, sensitive="disease"),
    "closeness": mq.TCloseness(QID, t=0.3, sensitive="disease"),
    "providers who breach": mq.MPrivacy(1, mq.KAnonymity(QID, k=5), "site"),
    "providers": mq.MPrivacy(1, mq.KAnonymity(QID, k=3) & mq.LDiversity(QID, l=2, sensitive="disease"), "site"),
}


@dataclass(frozen=True)
class _Rows:
    table: pa.Table

    @property
    def rows(self) -> int:
        return int(self.table.num_rows)

    def read(self, columns: list[str], coded: list[str] = []) -> pa.Table:  # noqa: B006 # read only
        return self.table.select(columns)


def _release() -> pa.Table:
    rows = range(600)
    return pa.table(
        {
            "age": pa.array([f"[{row * 7 % 40}, {row * 7 % 40 + 1})" for row in rows]).dictionary_encode(),
            "job": [None if row % 60 == 59 else f"job {row * 11 % 3}" for row in rows],
            "disease": [f"d{row * row % 7}" for row in rows],
            "site": [row * 5 % 4 for row in rows],
        }
    )


def _parts(table: pa.Table, rows: int = 50) -> list[_Rows]:
    return [_Rows(table.slice(at, rows)) for at in range(0, table.num_rows, rows)]


@pytest.mark.parametrize("memory", [1 << 30, 20_000, 2_000])
@pytest.mark.parametrize("requirement", CASES.values(), ids=CASES)
def test_parts_and_shares_give_what_the_whole_table_gives(requirement: Requirement, memory: int) -> None:
    table = _release()
    with LocalEngine(threads=1) as engine:
        engine.summing_memory = memory
        rows = ReleasedRows("table", table.column_names, (engine, _parts(table)))
        found = rows.verdicts(requirement, bind=True, complete=with_coalitions)
    assert found == with_coalitions(mq.Table(table), verify(table, requirement))


def test_a_share_is_a_part_of_the_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(checking, "verify", lambda table, *a, **k: seen.append(len(table)) or verify(table, *a, **k))
    with LocalEngine(threads=1) as engine:
        engine.summing_memory = 4_000
        ReleasedRows("table", (), (engine, _parts(_release()))).verdicts(CASES["k"])
    assert len(seen) > 3
    assert max(seen) < 80


def _schema() -> Schema:
    tree = Taxonomy.flat(["job 0", "job 1", "job 2", ""])
    return Schema([Attribute("job", taxonomy=tree, max_generalization=("job 0", "job 1", "job 2", ""))])


def test_violations_of_boundaries_are_counted_in_parts() -> None:
    schema = _schema()
    jobs = ["job 0", "*", "job 1", "*", "*"] * 20
    table = pa.table({"job": jobs})
    with LocalEngine(threads=1) as engine:
        found = ReleasedRows("table", ["job"], (engine, _parts(table, 7))).violations(schema, ["job"])
    assert found == violations_alone(mq.Table(table, schema), ["job"])
    assert found.certain == {"job": 60}


def test_a_cell_that_is_no_value_is_named_with_its_row() -> None:
    table = pa.table({"job": ["job 0", "*", "job 1"] * 4 + ["clown"] + ["job 2"] * 3})
    with LocalEngine(threads=1) as engine, pytest.raises(DataError, match=r"table: row 13, column job: .clown. is no"):
        ReleasedRows("table", ["job"], (engine, _parts(table, 5))).violations(_schema(), ["job"])
