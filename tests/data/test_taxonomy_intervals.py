"""Taxonomies over numbers and dates: trees of fixed intervals, in order and without gaps."""

from __future__ import annotations

from pathlib import Path

import pytest

from data.taxonomy_texts import names, problems, read


def test_fixed_intervals_stand_in_numeric_order(tmp_path: Path) -> None:
    text = "[30,inf);old;*\n[10, 2e1);[0,30);*\n[0,10.0);[0,30);*\n[20,30);[0,30);*\n"
    taxonomy = read(tmp_path, "age.csv", text, "continuous")
    assert names(taxonomy) == ["*", "[0, 30)", "[0, 10)", "[10, 20)", "[20, 30)", "[30, inf)"]
    assert taxonomy.edges == (0, 10, 20, 30, float("inf"))


def test_fixed_intervals_of_decimals_and_negatives_in_yaml(tmp_path: Path) -> None:
    text = "'*':\n  cold: ['[-inf, -2.5)', '[-2.5, 0)']\n  warm: ['[0, 0.1)', '[0.1, inf)']\n"
    taxonomy = read(tmp_path, "t.yaml", text, "continuous")
    assert taxonomy.label(0, 2) == "cold"
    assert taxonomy.edges == (float("-inf"), -2.5, 0, 0.1, float("inf"))


def test_fixed_intervals_of_dates(tmp_path: Path) -> None:
    text = "[1990-01-01,inf);*\n[1980-01-01,1990-01-01);*\n"
    taxonomy = read(tmp_path, "birth.csv", text, "date")
    assert taxonomy.leaves == ("[1980-01-01, 1990-01-01)", "[1990-01-01, inf)")
    assert taxonomy.edges == (3652, 7305, float("inf"))


def test_numbers_as_leaves(tmp_path: Path) -> None:
    taxonomy = read(tmp_path, "age.csv", "1.0;0-4;*\n+2;0-4;*\n05;5-9;*\n", "continuous")
    assert taxonomy.leaves == ("1", "2", "5")
    assert taxonomy.label(0, 2) == "0-4"
    assert taxonomy.edges is None
    dates = read(tmp_path, "day.csv", "2000-01-01;*\n1999-01-01;*\n", "date")
    assert dates.leaves == ("2000-01-01", "1999-01-01")


def test_for_a_categorical_attribute_intervals_are_names(tmp_path: Path) -> None:
    taxonomy = read(tmp_path, "a.csv", "[5,6);*\n[0,2);*\n")
    assert taxonomy.leaves == ("[5,6)", "[0,2)")
    assert taxonomy.edges is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[0,12);*\n[10,20);*\n[21,30);*\n",
            [
                'the intervals "[0,12)" (line 1) and "[10,20)" (line 2) overlap',
                'there is a gap between the intervals "[10,20)" (line 2) and "[21,30)" (line 3)',
            ],
        ),
        (
            "[0,100);*\n[10,20);*\n[50,60);*\n",
            [
                'the intervals "[0,100)" (line 1) and "[10,20)" (line 2) overlap',
                'the intervals "[0,100)" (line 1) and "[50,60)" (line 3) overlap',
            ],
        ),
        ("[0,1);*\n[0,1.0);*\n", ['the intervals "[0,1)" (line 1) and "[0,1.0)" (line 2) overlap']),
        (
            "[0,10);a;*\n[10,20);b;*\n[20,30);a;*\n",
            [
                '"a" (line 1) covers "[0, 10)" and "[20, 30)", but not what is between them; '
                "a node must cover one run of intervals"
            ],
        ),
        (
            "[0,10);[0,30);*\n[10,20);[0,30);*\n[20,30);*\n",
            ['"[0,30)" (line 1) is not the union of its children, which is [0, 20)'],
        ),
        (
            "[0,10);*\n15;*\n",
            ['the leaf "[0,10)" (line 1) is an interval and "15" (line 2) is a number; leaves must be all of one kind'],
        ),
        (
            "young;*\n[5,3);*\n[5,7);*\n",
            [
                'line 1: leaf "young" is neither an interval such as [0, 10) nor a number',
                'line 2: leaf "[5,3)" is neither an interval such as [0, 10) nor a number',
            ],
        ),
        ("inf;*\n5;*\n", ['line 1: leaf "inf" is neither an interval such as [0, 10) nor a number']),
        ("1;a;*\n1.0;a;*\n", ['"1" (line 1) and "1.0" (line 2) are the same leaf']),
        ("2.0;1;*\n1.0;1;*\n", ['"1" (line 1) and the leaf "1.0" (line 2) have one name']),
    ],
    ids=lambda value: repr(value)[:30] if isinstance(value, str) else "",
)
def test_what_is_wrong_with_intervals(tmp_path: Path, text: str, expected: list[str]) -> None:
    assert problems(tmp_path, "a.csv", text, "continuous") == [f"a.csv: {line}" for line in expected]


def test_a_leaf_that_is_no_date(tmp_path: Path) -> None:
    assert problems(tmp_path, "a.csv", "[1,2);*\n2001-02-29;*\n", "date") == [
        'a.csv: line 1: leaf "[1,2)" is neither an interval such as [1980-01-01, 1990-01-01) nor a date',
        'a.csv: line 2: leaf "2001-02-29" is neither an interval such as [1980-01-01, 1990-01-01) nor a date',
    ]
