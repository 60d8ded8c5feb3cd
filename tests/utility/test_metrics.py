"""Metrics, by hand on the checked example and by brute force over the cells of small random releases."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable
from math import log2
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from examples import examples
from masquerade.anonymize import TopDownSpecialization
from masquerade.data import Attribute, Branch, Column, Continuum, Generalised, Schema, Table, Taxonomy
from masquerade.privacy import KAnonymity
from masquerade.utility import Comparison, certainty_penalties, compare, guiding_penalties, measure
from masquerade.utility.losses import leaf_losses, relative_heights
from papers.paper_tables import loan_table
from utility.small_tables import Case, Cell, Path, cases, without

QID = ["Sex", "Job", "Salary"]
ROUNDED = 1.01e-4  # figures are whole ten-thousandths, of each attribute and of all


def about(figures: dict[str, float]) -> dict[str, object]:
    """The figures as they are published; a sum over 102 cells is as exact as the mean of one."""
    exact = {name: pytest.approx(figure, abs=ROUNDED) for name, figure in figures.items()}
    return exact | {"information_loss": pytest.approx(figures["information_loss"], abs=102 * ROUNDED)}


def entropy(cells: Iterable[object]) -> float:
    counts = Counter(cells)
    return sum(n / counts.total() * log2(counts.total() / n) for n in counts.values())


def kept_by_entropies(comparison: Comparison) -> float:
    """Where each value has one cell: the entropy of the released cells over that of the original."""
    table = loan_table()
    shares = [
        entropy(column.to_arrow().to_pylist()) / entropy(table.cells(column.name).to_pylist())
        for column in comparison.released
    ]
    return sum(shares) / len(shares)


def loans(**weights: float) -> Comparison:
    """The release of the checked example: 34 records, 7 groups."""
    table = loan_table()
    requirement = KAnonymity(["Sex", "Job"], 4) & KAnonymity(["Sex", "Salary"], 5)
    outcome = TopDownSpecialization("Class").run_on_table(table, requirement)
    return Comparison(table.columns(QID), outcome.columns, table.coded("Class"), None, weights)


def suppress(whole: Comparison, kept: list[int]) -> Comparison:
    rows = np.array(kept, np.intp)
    return dataclasses.replace(whole, released=tuple(without(c, rows) for c in whole.released), kept=rows)


def test_the_checked_example() -> None:
    # Job's tree has 7 leaves and height 3: 16 records lie one level up, at 2 leaves each (Non-Technical,
    # Professional). Salary runs from 1 to 99: 7 records are in [1, 35), 5 in [35, 37), 10 in [37, 44), 12 above.
    salary = (7 * 34 + 5 * 2 + 10 * 7 + 12 * 55) / 98
    assert measure(loans()) == about(
        {
            "discernibility": 6**2 + 3**2 + 4**2 + 4**2 + 5**2 + 7**2 + 5**2,
            "weighted_discernibility": (17**2 + 17**2)
            + (9**2 + 9**2 + 4**2 + 5**2 + 7**2)
            + (7**2 + 5**2 + 10**2 + 12**2),
            "average_group_size": 34 / 7,
            "loss": (16 * 1 / 6 + salary) / (34 * 3),
            "majority": 2 + 0 + 0 + 1 + 2 + 0 + 0,
            "classification_metric": 5 / 34,
            "precision": 1 - 16 / (34 + 25 * 3 + 9 * 2),
            "ncp": (16 * 2 / 7 + salary) / (34 * 3),
            "information_loss": 16 * 1 / 3 + salary,
            "information_kept": pytest.approx(kept_by_entropies(loans()), abs=1e-3),
            "violations": None,
        }
    )
    assert 0 < kept_by_entropies(loans()) < 1


def test_weights_of_attributes() -> None:
    weighted = measure(loans(Sex=0.5, Job=2.0, Salary=1.0))["weighted_discernibility"]
    assert weighted == 0.5 * 578 + 2 * 252 + 318


def test_suppressed_rows_cost_everything() -> None:
    # The three women who are managers in [44, 99) are left out.
    whole = loans()
    smallest = int(np.argmin(whole.group_sizes))
    part = suppress(whole, np.flatnonzero(whole.groups != smallest).tolist())
    salary = (7 * 34 + 5 * 2 + 10 * 7 + 9 * 55) / 98
    figures = measure(part)
    kept = figures.pop("information_kept")
    assert kept is not None
    assert 0 < kept < kept_by_entropies(whole)
    assert figures == about(
        {
            "discernibility": 176 - 3**2 + 3 * 34,
            "weighted_discernibility": (17**2 + 14**2)
            + (6**2 + 9**2 + 4**2 + 5**2 + 7**2)
            + (7**2 + 5**2 + 10**2 + 9**2)
            + 3 * (3 * 34),
            "average_group_size": 31 / 6,
            "loss": (16 * 1 / 6 + salary + 3 * 3) / (34 * 3),
            "majority": 5 + 3,
            "classification_metric": 8 / 34,
            "precision": 1 - 16 / (31 + 25 * 3 + 6 * 2),  # of released rows alone
            "ncp": (16 * 2 / 7 + salary + 3 * 3) / (34 * 3),
            "information_loss": 16 * 1 / 3 + salary + 3 * 3,
            "violations": None,
        }
    )


def test_everything_suppressed() -> None:
    figures = measure(suppress(loans(), []))
    assert figures["discernibility"] == 34 * 34
    assert figures["average_group_size"] is None
    assert figures["precision"] is None
    assert figures["majority"] == 34
    assert figures["loss"] == figures["ncp"] == figures["classification_metric"] == 1
    assert figures["information_loss"] == 34 * 3
    assert figures["information_kept"] == 0


def test_everything_at_the_root_and_nothing_generalised() -> None:
    table = loan_table()
    roots = tuple(column.generalise(np.array([0])) for column in table.columns(QID))
    top = measure(Comparison(table.columns(QID), roots, None, None, {}))
    assert (top["loss"], top["ncp"], top["precision"], top["information_loss"]) == (1, 1, 0, 34 * 3)
    assert top["information_kept"] == 0
    raw = measure(compare(table, table, QID))
    assert (raw["loss"], raw["ncp"], raw["precision"], raw["information_loss"]) == (0, 0, 1, 0)
    assert raw["information_kept"] == 1


def test_what_does_not_apply_is_not_said_and_whole_numbers_are_whole_in_json() -> None:
    figures = measure(dataclasses.replace(loans(), classes=None))
    assert figures["majority"] is figures["classification_metric"] is None
    numbers = compare(Table(pa.table({"age": [20, 30]})), pa.table({"age": ["[20, 30)", "30"]}), ["age"])
    assert measure(numbers)["precision"] is None
    figures = json.loads(json.dumps(measure(loans())))
    for name in ("discernibility", "weighted_discernibility", "majority"):
        assert isinstance(figures[name], int), name


def test_a_single_value_has_nothing_to_lose() -> None:
    schema = Schema(
        [Attribute("town", taxonomy=Taxonomy(Branch("*", (Branch("Ulm"),)))), Attribute("age", "continuous")]
    )
    table = Table(pa.table({"town": ["Ulm", "Ulm"], "age": [20, 20]}), schema)
    figures = measure(compare(table, pa.table({"town": ["Ulm", "Ulm"], "age": ["[-inf, inf)"] * 2}), ["town", "age"]))
    assert figures["loss"] == figures["ncp"] == figures["information_loss"] == 0
    assert figures["information_kept"] == 1


def test_a_single_value_that_no_cell_tells_is_lost() -> None:
    """Whatever the original was: the figure must not tell that all records had one value."""
    towns = Taxonomy(Branch("*", (Branch("Ulm"), Branch("Bonn"))))
    schema = Schema([Attribute("town", taxonomy=towns)])
    for original in (["Ulm", "Ulm", "Ulm"], ["Ulm", "Bonn", "Bonn"]):
        figures = measure(compare(Table(pa.table({"town": original}), schema), pa.table({"town": ["*"] * 3}), ["town"]))
        assert figures["information_kept"] == 0


def test_an_outlier_changes_what_a_penalty_says_and_not_what_information_is_kept() -> None:
    """With bounds the penalty divides by their distance, which one outlier asks for."""
    ages = list(range(100))
    released = [f"[{age // 50 * 50}, {age // 50 * 50 + 50})" for age in ages]
    found = {}
    for oldest in (100, 10_000):
        schema = Schema([Attribute("age", "continuous", lower=0, upper=oldest)])
        table = Table(pa.table({"age": [*ages, oldest - 1]}), schema)
        cells = [*released, f"[100, {oldest})" if oldest > 100 else "[50, 100)"]
        found[oldest] = measure(compare(table, pa.table({"age": cells}), ["age"]))
    assert found[100]["ncp"] == pytest.approx(0.5)
    assert found[10_000]["ncp"] == pytest.approx((100 * 0.005 + 0.99) / 101, abs=ROUNDED)
    for figures in found.values():
        assert figures["information_kept"] == pytest.approx(1 / log2(100), abs=0.02)


def test_a_taxonomy_of_fixed_intervals_is_a_taxonomy() -> None:
    halves = Branch("[0, 40)", (Branch("[0, 10)"), Branch("[10, 40)")))
    hours = Taxonomy(Branch("[0, 60)", (halves, Branch("[40, 60)"))), edges=(0.0, 10.0, 40.0, 60.0))
    table = Table(pa.table({"hours": [5, 20, 50]}), Schema([Attribute("hours", "continuous", taxonomy=hours)]))
    figures = measure(compare(table, pa.table({"hours": ["[0, 40)", "[10, 40)", "[0, 60)"]}), ["hours"]))
    assert figures["loss"] == pytest.approx((1 / 2 + 0 + 1) / 3, abs=ROUNDED)
    assert figures["ncp"] == pytest.approx((2 / 3 + 0 + 1) / 3, abs=ROUNDED)
    assert figures["information_loss"] == pytest.approx(1 / 2 + 0 + 1, abs=3 * ROUNDED)
    assert figures["precision"] == pytest.approx(1 - (1 + 0 + 1) / (2 + 2 + 1), abs=ROUNDED)


def under(name: str, ways: list[Path]) -> int:
    return sum(name in path for path in ways)


def height(name: str, ways: list[Path]) -> int:
    return max(len(path) - 1 - path.index(name) for path in ways if name in path)


def covered(cell: Cell, column: list[Cell]) -> tuple[int, int]:
    """How many of the column's distinct values a cell covers, and how many there are."""
    values = {float(other.original) for other in column}
    lo, hi = cell.ends or (float(cell.original), float(cell.original) + 0.1)
    return sum(lo <= value < hi for value in values), len(values)


@given(cases())
@settings(deadline=None, max_examples=examples(150))
def test_brute_force_over_cells(case: Case) -> None:
    lost, uncertain, climbed, taller, path_length = 0.0, 0.0, 0, 0.0, 0
    for name, column in case.cells.items():
        for row, cell in enumerate(column):
            if row not in case.kept:
                lost, uncertain, taller = lost + 1, uncertain + 1, taller + 1
            elif name in case.paths:
                ways = case.paths[name]
                leaves = under(cell.released, ways)
                lost += (leaves - 1) / max(len(ways) - 1, 1)
                uncertain += leaves / len(ways) if leaves > 1 else 0
                taller += height(cell.released, ways) / max(height(ways[0][0], ways), 1)
                climbed += len(cell.path) - 1 - cell.path.index(cell.released)
                path_length += len(cell.path) - 1
            else:
                inside, values = covered(cell, column)
                share = inside / values if inside > 1 else 0
                lost += (inside - 1) / max(values - 1, 1)
                uncertain, taller = uncertain + share, taller + share
    figures = measure(case.comparison())
    cells = case.rows * len(case.cells)
    assert figures["loss"] == pytest.approx(lost / cells, abs=ROUNDED)
    assert figures["ncp"] == pytest.approx(uncertain / cells, abs=ROUNDED)
    assert figures["information_loss"] == pytest.approx(taller, abs=cells * ROUNDED)
    precision = pytest.approx(1 - climbed / path_length, abs=2 * ROUNDED) if path_length else None
    assert figures["precision"] == precision


@given(cases())
@settings(deadline=None, max_examples=examples(100))
def test_brute_force_over_information(case: Case) -> None:
    """Of each cell −log₂ of the share of the records that it may mean, beside that of its value alone."""
    shares = []
    for name, column in case.cells.items():
        times = Counter(cell.original for cell in column)

        def may_be(cell: Cell, name: str = name) -> set[str | int]:
            if name in case.paths:
                return {path[-1] for path in case.paths[name] if cell.released in path}
            values = {float(other.original) for other in case.cells[name]}
            lo, hi = cell.ends or (float(cell.original), float(cell.original) + 0.1)
            return {value for value in values if lo <= value < hi}

        bits = kept = 0.0
        exact = True
        for row, cell in enumerate(column):
            bits += log2(case.rows / times[cell.original])
            meant = may_be(cell) if row in case.kept else None
            if meant is not None:
                kept += log2(case.rows / sum(times[value] for value in meant))
            exact = exact and meant is not None and len(meant) == 1
        share = kept / bits if bits > 0 else float(exact)
        assert -1e-9 <= share <= 1 + 1e-9
        shares.append(share)
    assert measure(case.comparison())["information_kept"] == pytest.approx(sum(shares) / len(shares), abs=6e-4)


@given(cases())
@settings(deadline=None, max_examples=examples(100))
def test_brute_force_over_groups(case: Case) -> None:
    looks = {row: tuple(cells[row].released for cells in case.cells.values()) for row in case.kept}
    groups = Counter(looks.values())
    left_out = case.rows - len(case.kept)
    figures = measure(case.comparison())
    assert figures["discernibility"] == sum(groups[looks[row]] for row in case.kept) + left_out * case.rows
    by_attribute = {
        name: Counter(cells[row].released for row in case.kept).values() for name, cells in case.cells.items()
    }
    assert figures["weighted_discernibility"] == sum(
        case.weights[name] * (sum(size**2 for size in sizes) + left_out * case.rows)
        for name, sizes in by_attribute.items()
    )
    assert figures["average_group_size"] == (len(case.kept) / len(groups) if groups else None)
    outvoted = 0
    for look, size in groups.items():
        votes = Counter(case.classes[row] for row in case.kept if looks[row] == look)
        outvoted += size - max(votes.values())
    assert figures["majority"] == outvoted + left_out
    assert figures["classification_metric"] == pytest.approx((outvoted + left_out) / case.rows)


# --- penalties ---
# What a value costs: by ranks or bounds where it is published, by widths where it guides a choice.


@given(values=st.lists(st.integers(-50, 50), min_size=1, max_size=12, unique=True).map(sorted), data=st.data())
@settings(deadline=None, max_examples=examples(100))
def test_intervals_share_the_range_the_bounds_or_the_distinct_values(values: list[int], data: st.DataObject) -> None:
    domain = Continuum(np.array(values), "continuous")
    inner = data.draw(st.sets(st.integers(1, max(domain.size - 1, 1))))
    cut = np.array(sorted({0, *(at for at in inner if at < domain.size)}))
    written = cut_at(domain, cut)
    widths = guiding_penalties(domain, written.lo, written.hi)
    assert widths.sum() == pytest.approx(1.0 if domain.size > 1 else 0.0)
    covered = np.diff([*cut, domain.size])
    assert certainty_penalties(written).tolist() == [n / domain.size if n > 1 else 0 for n in covered]
    bounded = cut_at(Continuum(domain.values, "continuous", -60, 70), cut)
    assert certainty_penalties(bounded).sum() == pytest.approx(1.0)


def cut_at(domain: Continuum, cut: np.ndarray[Any, Any]) -> Generalised:
    return Column("x", np.arange(domain.size, dtype=np.int32), domain).generalise(cut)


@given(st.integers(10, 10**9), st.floats(0.25, 4))
@settings(deadline=None, max_examples=examples(50))
def test_what_is_published_is_the_same_wherever_the_values_lie(largest: int, stretched: float) -> None:
    values, cut = np.array([1.0, 2, 5, 9]), np.array([0, 1, 3])
    moved = values * stretched
    moved[-1] = 36 + largest
    here, there = (cut_at(Continuum(each), cut) for each in (values, moved))
    for penalties in (certainty_penalties, leaf_losses, relative_heights):
        assert penalties(here).tolist() == penalties(there).tolist()
    # With bounds they follow from the cells, whatever else the data has.
    assert certainty_penalties(cut_at(Continuum(values, upper=101, lower=1), cut)).tolist() == [0.01, 0.07, 0.92]


def test_of_nodes_by_hand() -> None:
    taxonomy = Taxonomy(Branch("*", (Branch("ab", (Branch("a"), Branch("b"))), Branch("c"), Branch("d"))))
    lo, hi = np.array([0, 0, 1]), np.array([4, 2, 2])
    assert guiding_penalties(taxonomy, lo, hi).tolist() == [1.0, 0.5, 0.0]


def test_of_rows_forgets_what_no_row_has() -> None:
    taxonomy = Taxonomy(Branch("*", tuple(map(Branch, "abc"))))
    column = Column("x", np.array([0, 1, 2, 0, 2], np.int32), taxonomy).generalise(np.array([0, 1, 2]))
    some = column.of_rows(np.array([1, 2, 4]))
    assert some.labels == ("b", "c")
    assert some.codes.tolist() == [0, 1, 1]
    assert (some.lo.tolist(), some.hi.tolist()) == ([1, 2], [2, 3])
    assert some.to_arrow().to_pylist() == ["b", "c", "c"]
