"""Cells that a spreadsheet would run: found, escaped, and given back."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from examples import examples
from masquerade.data import count_formulas, escape_formulas, unescape_formulas

FORMULAS = ["=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0", "-2+3+cmd", "\t=1", "\r=1", "=", "-"]
HARMLESS = ["", "a=b", "-5", "+3.5e-7", "1,234", "[-inf, 37)", "'tis", "O'Neil", "10%"]


@pytest.mark.parametrize("cell", FORMULAS)
def test_what_a_spreadsheet_would_run_begins_with_an_apostrophe(cell: str) -> None:
    assert escape_formulas(pa.table({"note": [cell]}))["note"].to_pylist() == ["'" + cell]


@pytest.mark.parametrize("cell", HARMLESS)
def test_other_cells_stay_as_they_are(cell: str) -> None:
    assert escape_formulas(pa.table({"note": [cell]}))["note"].to_pylist() == [cell]


@settings(max_examples=examples(200))
@given(st.lists(st.none() | st.text("=+-@'\t\ra1 ", max_size=5), max_size=6))
def test_escaped_cells_are_given_back(cells: list[str | None]) -> None:
    plain = pa.table({"a": pa.array(cells, pa.string()), "n": list(range(len(cells)))})
    coded = plain.set_column(0, "a", plain["a"].dictionary_encode())
    for table in (plain, coded):
        escaped = escape_formulas(table)
        assert unescape_formulas(escaped).equals(table)
        assert not any(each and each[0] in "=@\t\r" for each in escaped["a"].to_pylist())


def test_formulas_are_counted_by_column() -> None:
    texts = pa.chunked_array([["=1", "b", None], ["=1", "-7", "@x"]])
    table = pa.table({"plain": texts, "coded": texts.dictionary_encode(), "n": range(6), "none": ["a"] * 6})
    assert count_formulas(table) == {"plain": 3, "coded": 3}
