"""What a method is run on: records wherever they are, or the one table of a method that needs it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import masquerade as mq
from masquerade.anonymize import TableMethod
from masquerade.anonymize.method import WholeTableMethod, records_of
from masquerade.data import Outcome
from masquerade.errors import ParameterError
from masquerade.methods import table_methods

TABLE = mq.Table(
    pa.table({"age": [3, 1, 2, 3], "job": ["b", "a", "b", "a"], "ill": ["yes", "no", "no", "no"]}),
    mq.Schema([mq.Attribute("age", "continuous"), mq.Attribute("job", taxonomy="flat")]),
)
K = mq.KAnonymity(["age", "job"], k=1)


@dataclass(frozen=True)
class WithoutTheFirst(TableMethod):
    """Written for a table, as methods of other packages may be."""

    name = "without-the-first"
    summary = "releases all records but the first as they are"

    def run(self, table: mq.Table, requirement: mq.Requirement, on_step: Any = None) -> Outcome:  # type: ignore[override]
        rows = np.arange(1, len(table))
        columns = table.take(rows).columns(requirement.qid_attributes)
        return Outcome(tuple(each.generalise(np.arange(each.domain.size)) for each in columns), kept=rows)


def test_a_run_that_is_written_for_a_table_needs_the_whole_table() -> None:
    method = WithoutTheFirst()
    assert method.needs_whole_table
    records = records_of(TABLE, K, None)
    own, there = method.run_on_table(TABLE, K), method.run(records, K)
    assert own.codes == {}
    assert there.kept is None
    read = there.in_table(records)
    assert read.kept is not None
    assert read.kept.tolist() == [1, 2, 3]
    assert [each.to_arrow().to_pylist() for each in read.columns] == [
        each.to_arrow().to_pylist() for each in own.columns
    ]
    elsewhere = replace(records, table=None)
    for refused in (lambda: method.run(elsewhere, K), method.in_chunks):
        with pytest.raises(ParameterError, match='"without-the-first" needs the whole table in one memory'):
            refused()


def test_our_own_methods_say_what_they_need() -> None:
    """None of them is taken for one that is written for a table."""
    whole = {name for name, method in table_methods().items() if method.needs_whole_table}
    assert whole == {"k-member", "greedy-cka", "cheapest-box"}
    for name, method in table_methods().items():
        assert (name in whole) == issubclass(method, WholeTableMethod), name


def test_a_method_on_records_gives_a_table_what_it_gives_records() -> None:
    records = records_of(TABLE, K, "ill")
    method = mq.TopDownSpecialization("ill")
    of_table, of_records = method.run_on_table(TABLE, K), method.run(records, K)
    assert of_records.columns[0].codes.size == 0
    assert [each.to_arrow().to_pylist() for each in of_records.in_table(records).columns] == [
        each.to_arrow().to_pylist() for each in of_table.columns
    ]
    assert of_table.steps == of_records.steps
