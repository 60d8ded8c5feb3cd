"""Taxonomies as rows from leaf to root: what reads, and the one clear line for everything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from data.taxonomy_texts import names, problems, read
from masquerade.data import read_taxonomy


def test_rows_of_unequal_depth(tmp_path: Path) -> None:
    taxonomy = read(tmp_path, "job.csv", "Baker;Blue;Any\nLawyer;Any\nWelder;Technical;Blue;Any\n")
    assert names(taxonomy) == ["Any", "Blue", "Baker", "Welder", "Lawyer"]
    assert taxonomy.leaves == ("Baker", "Welder", "Lawyer")
    assert taxonomy.source == "job.csv"
    assert taxonomy.edges is None


def test_the_source_is_the_path_unless_somebody_says_otherwise(tmp_path: Path) -> None:
    file = tmp_path / "job.TXT"
    file.write_text("a;*\nb;*\n")
    assert read_taxonomy(file).source == str(file)


def test_byte_order_mark_quotes_blank_lines_and_space_around_cells(tmp_path: Path) -> None:
    text = '\ufeffa ;\tA;*\r\n\r\n   \r\n"b;c";A; *\r\n"say ""d""";*\r\n "two\nlines";*\r\n'
    taxonomy = read(tmp_path, "a.csv", text)
    assert taxonomy.leaves == ("a", "b;c", 'say "d"', "two\nlines")
    assert taxonomy.label(0, 2) == "A"


def test_padding_and_doubled_rows_are_harmless(tmp_path: Path) -> None:
    text = "Other;Other;*;*\na;A;*\na;A;*\nb;A;*;;\n"
    assert names(read(tmp_path, "a.csv", text)) == ["*", "Other", "A", "a", "b"]


def test_children_stand_in_the_order_of_their_first_row(tmp_path: Path) -> None:
    taxonomy = read(tmp_path, "a.csv", "b;B;*\na;A;*\nc;B;*\n")
    assert taxonomy.leaves == ("b", "c", "a")


def test_chains_are_one_node(tmp_path: Path) -> None:
    assert names(read(tmp_path, "a.csv", "a;A;AA;Any;*\nb;B;Any;*\nc;B;Any;*\n")) == ["Any", "a", "B", "b", "c"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["a.csv: the file is empty; expected is one row a leaf: leaf;parent;…;root"]),
        ("\n \r\n", ["a.csv: the file is empty; expected is one row a leaf: leaf;parent;…;root"]),
        (
            "a;Any\nb;Any\nc;All\n",
            ['a.csv: two roots: "Any" (line 1) and "All" (line 3); all paths must end in one root'],
        ),
        ("a;A;*\n\nb;A;B;*\nc;B;*\n", ['a.csv: "A" stands under two parents: "*" (line 1) and "B" (line 3)']),
        ("a;A;*\nb;B;*\na;B;*\n", ['a.csv: "a" stands under two parents: "A" (line 1) and "B" (line 3)']),
        ("a;b;c;b;*\n", ['a.csv: line 1: "b" is its own ancestor: it stands in one path twice']),
        (
            "x;a;b;*\ny;b;a;*\n",
            [
                'a.csv: "b" stands under two parents: "*" (line 1) and "a" (line 2)',
                'a.csv: "a" stands under two parents: "b" (line 1) and "*" (line 2)',
            ],
        ),
        (
            "x;a;b\ny;b;a\n",
            [
                'a.csv: "a" is its own ancestor: "a" under "b" under "a"',
                'a.csv: two roots: "b" (line 1) and "a" (line 2); all paths must end in one root',
            ],
        ),
        ("A;*\nx;A;*\n", ['a.csv: "A" (line 1) is a leaf, and "A" (line 2) an inner node; it can be one of them']),
        (
            "a;;*\nb;*\n;*\n",
            [
                'a.csv: line 1: cell 2 is empty, before "*"; a short row just has fewer cells',
                'a.csv: line 3: cell 1 is empty, before "*"; a short row just has fewer cells',
            ],
        ),
        ("a;*\n;;\nb;*\n", ["a.csv: line 2: all cells are empty"]),
        ("a,A,*\nb,A,*\n", ['a.csv: there is no ";" in it, but ","; rows are leaf;parent;…;root, separated by ";"']),
        ('a;*\n"b;*\n', ["a.csv: line 2: unexpected end of data"]),
    ],
    ids=lambda value: repr(value)[:30] if isinstance(value, str) else "",
)
def test_what_is_wrong_with_rows(tmp_path: Path, text: str, expected: list[str]) -> None:
    assert problems(tmp_path, "a.csv", text) == expected


def test_all_problems_of_a_file_at_once(tmp_path: Path) -> None:
    assert problems(tmp_path, "a.csv", "a;A;*\nb;;*\nc;A;Any\na;B;*\n") == [
        'a.csv: line 2: cell 2 is empty, before "*"; a short row just has fewer cells',
        'a.csv: "A" stands under two parents: "*" (line 1) and "Any" (line 3)',
        'a.csv: "a" stands under two parents: "A" (line 1) and "B" (line 4)',
        'a.csv: two roots: "*" (line 1) and "Any" (line 3); all paths must end in one root',
    ]


def test_thousands_of_problems_are_cut_short(tmp_path: Path) -> None:
    told = problems(tmp_path, "a.csv", "".join(f"v{at};;*\n" for at in range(1000)))
    assert len(told) == 21
    assert told[-1] == "a.csv: 980 more problems like these"


def test_a_name_with_a_line_break_stays_on_one_line(tmp_path: Path) -> None:
    (told,) = problems(tmp_path, "a.csv", 'x;A\n"y\nz";"B\nB"\n')
    assert told == 'a.csv: two roots: "A" (line 1) and "B\\nB" (line 2); all paths must end in one root'


def test_too_many_levels(tmp_path: Path) -> None:
    row = ";".join(f"n{at}" for at in range(5000))
    assert problems(tmp_path, "a.csv", row) == ["a.csv: line 1: 5000 levels; allowed are at most 100"]
