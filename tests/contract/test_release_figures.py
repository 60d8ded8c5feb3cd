"""What judges a release gives the same of a table at hand and of the same rows in chunks, wherever those are.

The figures, the counts that reports and attackers ask for, and the verdicts of the check that knows the cells alone.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings, strategies as st

import masquerade as mq
from examples import examples
from masquerade.anonymize import wanted_of
from masquerade.anonymize.method import records_of
from masquerade.data import Origin, Records, joined_chunks
from masquerade.data.records import ReadPart
from masquerade.engine import Engine, Here, LocalEngine
from masquerade.errors import ParameterError
from masquerade.privacy import ReleasedRows, verify
from masquerade.utility import COUNTED, NEEDING_WORKLOAD, Comparison, Measurer, counts_before
from strategies import CLASS, SENSITIVE, requirements, tables

CHUNKS = 3


@dataclass(frozen=True)
class Slice:
    """Some rows of a table in memory, as an engine reads them."""

    table: pa.Table
    first: int

    @property
    def rows(self) -> int:
        return int(self.table.num_rows)

    def read(self, columns: Sequence[str], coded: Container[str] = ()) -> pa.Table:
        return self.table.select(list(columns))

    def origin(self, missing_values: Sequence[str]) -> Origin:
        return Origin("table", missing_values=tuple(missing_values), first_row=self.first)


def slices(table: pa.Table) -> list[Slice]:
    ends = [at * table.num_rows // CHUNKS for at in range(CHUNKS + 1)]
    return [Slice(table.slice(first, last - first), first) for first, last in pairwise(ends)]


def in_chunks(table: mq.Table, requirement: mq.Requirement, engine: Engine) -> Records:
    wanted = wanted_of(table.schema, requirement, CLASS, (SENSITIVE,), "drop", table.origin.missing_values)
    parts = slices(table.arrow)
    chunks, told = engine.load([ReadPart(part, wanted) for part in parts])
    return joined_chunks("table", wanted, engine, parts, chunks, told)


def figures(records: Records, method: Any, requirement: mq.Requirement) -> dict[str, Any]:
    """All that is counted of a release."""
    outcome = method.run(records, requirement)
    comparison = Comparison.of(records, outcome, CLASS)
    coded = [records.coded_with_codes(name) for name in (CLASS, SENSITIVE)]
    measurer = Measurer(records.table, CLASS)
    groups = comparison.values_of_groups(coded, 1 << 30)
    return {
        **{name: measurer.figure(name, comparison) for name in COUNTED if name not in NEEDING_WORKLOAD},
        "released": comparison.released_rows,
        "suppressed": comparison.suppressed,
        "labels": [column.labels for column in comparison.released],
        "codes": [counts.tolist() for counts in comparison.code_counts],
        "sizes": comparison.group_sizes.tolist(),
        "providers": comparison.providers_of_groups(coded[1]).tolist(),
        "values": comparison.values(coded),
        "groups": {name: (labels, counts.tolist()) for name, (labels, counts) in groups.items()},
        "before": counts_before(records, comparison, requirement, [SENSITIVE]),
    }


@settings(max_examples=examples(60), deadline=None)
@given(data=st.data(), table=tables(min_rows=CHUNKS, max_rows=60), suppression=st.sampled_from([0.0, 0.3]))
def test_chunks_give_the_figures_of_a_table_at_hand(data: st.DataObject, table: mq.Table, suppression: float) -> None:
    requirement = data.draw(requirements(table))
    method = mq.TopDownSpecialization(CLASS, suppression=suppression)
    try:
        expected = figures(records_of(table, requirement, CLASS, (SENSITIVE,)), method, requirement)
    except (mq.RequirementUnreachable, ParameterError):
        assume(False)
    with Here() as engine:
        assert figures(in_chunks(table, requirement, engine), method, requirement) == expected


def test_an_engine_of_this_machine_gives_them_too(tmp_path: Any) -> None:
    """Chunks with nobody released in one of them, and threads beside each other."""
    random = np.random.default_rng(3)
    n = 300
    table = mq.Table(
        pa.table(
            {
                "age": random.integers(20, 60, n),
                "town": random.choice(["Aarau", "Bern", "Chur"], n),
                CLASS: random.choice(["yes", "no"], n),
                SENSITIVE: random.choice(["flu", "gout", "measles"], n),
            }
        ),
        mq.Schema([mq.Attribute("age", "continuous"), mq.Attribute("town", taxonomy="flat")]),
    )
    requirement = mq.KAnonymity(["age", "town"], k=9) & mq.LDiversity(["age", "town"], l=2, sensitive=SENSITIVE)
    method = mq.TopDownSpecialization(CLASS, suppression=0.1)
    expected = figures(records_of(table, requirement, CLASS, (SENSITIVE,)), method, requirement)
    with LocalEngine(threads=2, folder=tmp_path) as engine:
        assert figures(in_chunks(table, requirement, engine), method, requirement) == expected


@pytest.mark.parametrize("memory", [1 << 30, 5_000])
@settings(max_examples=examples(30), deadline=None)
@given(data=st.data(), table=tables(min_rows=CHUNKS, max_rows=60))
def test_chunks_give_the_verdicts_of_a_table_at_hand(data: st.DataObject, table: mq.Table, memory: int) -> None:
    """The raw table is a release, too, as a rule a bad one."""
    requirement = data.draw(requirements(table))
    cells = table.arrow
    with Here() as engine:
        engine.summing_memory = memory
        rows = ReleasedRows("table", cells.column_names, (engine, slices(cells)))
        assert rows.verdicts(requirement) == verify(cells, requirement, bind=False)
