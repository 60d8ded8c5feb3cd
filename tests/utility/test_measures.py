"""The figures by which releases are compared and chosen."""

from __future__ import annotations

import pyarrow as pa
import pytest

import masquerade as mq
from masquerade.anonymize import anonymised
from masquerade.data.query_log import parse_query_log
from masquerade.utility import (
    MEASURES,
    NEEDING_CLASS,
    NEEDING_WORKLOAD,
    Measurer,
    cost,
    margin,
    measures,
    usual_measure,
)

TABLE = mq.Table(
    pa.table({"age": list(range(30)), "class": ["n"] * 15 + ["y"] * 15}), mq.Schema([mq.Attribute("age", "continuous")])
)
K3 = mq.KAnonymity(["age"], k=3)


def test_every_measure_has_a_figure() -> None:
    made = anonymised(TABLE, K3, mq.Mondrian("class"))
    measurer = Measurer(made.table, "class")
    figures = measurer.figures(made.comparison)
    others = set(MEASURES) - set(NEEDING_WORKLOAD)
    assert set(figures) == others
    assert figures == {name: measurer.figure(name, made.comparison) for name in others}
    asked = Measurer(made.table, "class", workload=parse_query_log("SELECT age FROM t WHERE age < 9", "q.sql"))
    assert set(asked.figures(made.comparison)) == set(MEASURES)
    without = Measurer(made.table).figures(anonymised(TABLE, K3, mq.Mondrian()).comparison)
    assert {name for name, value in without.items() if value is not None} <= set(MEASURES) - set(NEEDING_CLASS)


def test_a_tree_finds_what_the_release_keeps_and_misjudges_what_it_lost() -> None:
    fine = anonymised(TABLE, K3, mq.Mondrian("class")).comparison
    nothing = anonymised(TABLE, K3.with_k(30), mq.Mondrian("class")).comparison
    measurer = Measurer(TABLE, "class")
    assert measurer.figure("classification_error", fine) < 0.2  # type: ignore[operator] # there is one
    assert measurer.figure("classification_error", nothing) >= 0.3  # type: ignore[operator] # there is one


def test_suppressed_rows_are_misjudged() -> None:
    steps = mq.Taxonomy.flat("abcd")
    cells = pa.table({"town": ["a"] * 60 + ["b"] * 60 + ["c"], "class": ["n"] * 60 + ["y"] * 61})
    table = mq.Table(cells, mq.Schema([mq.Attribute("town", taxonomy=steps)]))
    made = anonymised(table, mq.KAnonymity(["town"], 3), mq.Datafly("class"))
    assert made.comparison.suppressed == 1
    error = Measurer(table, "class").figure("classification_error", made.comparison)
    assert error == pytest.approx(1 / 121, abs=1e-4)


def test_few_rows_tell_nothing() -> None:
    few = TABLE.take(range(4))  # type: ignore[arg-type] # any rows will do
    made = anonymised(few, K3, mq.Mondrian("class"))
    assert Measurer(few, "class").figure("classification_error", made.comparison) is None


def test_the_usual_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (usual_measure(False), usual_measure(True)) == ("ncp", "classification_error")
    monkeypatch.setattr(measures, "has_sklearn", lambda: False)
    assert usual_measure(True) == "classification_metric"


def test_less_is_better_and_trees_have_a_margin() -> None:
    assert cost("ncp", 0.1) < cost("ncp", 0.2)
    assert cost("precision", 0.2) < cost("precision", 0.1)
    assert margin("ncp", 0.2, 100) == 0
    assert margin("classification_error", 0.2, 100) == pytest.approx(0.04)
