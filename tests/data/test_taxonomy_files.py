"""Taxonomy files of every form: files that cannot be read, files in use, and whatever bytes there may be."""

from __future__ import annotations

import csv
import io
import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings, strategies as st

from examples import examples
from masquerade.data import AttributeKind, Branch, Taxonomy, read_taxonomy
from masquerade.data.taxonomy_files import find_taxonomies
from masquerade.errors import MasqueradeError, TaxonomyError
from strategies import branches

ADULT = Path(__file__).parents[2] / "../shared/data/adult"
KINDS: list[AttributeKind] = ["categorical", "continuous", "date"]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    for name, reason in [("none.csv", "No such file or directory"), ("folder.csv", "Is a directory")]:
        with pytest.raises(TaxonomyError, match=f"^{name}: cannot be read: {reason}$"):
            read_taxonomy(tmp_path / name, source=name)
    with pytest.raises(TaxonomyError, match="cannot be read"):
        read_taxonomy(Path("a\0.csv"))


def test_broken_encoding_names_the_line(tmp_path: Path) -> None:
    text = "a;*\nb;*\nM\xfcller;*\n".encode("latin-1")
    told = ["a.csv: line 3: the text is not UTF-8; save the file as UTF-8"]
    assert problems(tmp_path, "a.csv", text) == told


def test_an_unknown_ending(tmp_path: Path) -> None:
    told = ['a.json: a taxonomy file ends in .csv, .txt, .yaml, .yml; got ".json"']
    assert problems(tmp_path, "a.json", "{}") == told


def test_the_taxonomies_of_a_folder(tmp_path: Path) -> None:
    for name in ["job.csv", "town.yaml", "age.TXT", "notes.md", "sex.yml"]:
        (tmp_path / name).touch()
    (tmp_path / "folder.csv").mkdir()
    found = find_taxonomies(tmp_path)
    assert {name: path.name for name, path in found.items()} == {
        "age": "age.TXT",
        "job": "job.csv",
        "sex": "sex.yml",
        "town": "town.yaml",
    }
    (tmp_path / "town.csv").touch()
    with pytest.raises(TaxonomyError, match=r"two taxonomies for town: town\.csv and town\.yaml; keep one$"):
        find_taxonomies(tmp_path)
    with pytest.raises(TaxonomyError, match=r"none: No such file or directory; expected is a folder"):
        find_taxonomies(tmp_path / "none")


# --- files in use ---


@pytest.mark.parametrize(
    ("name", "leaves", "levels"),
    [
        ("relationship", 6, 3),
        ("race", 5, 3),
        ("sex", 2, 2),
        ("marital-status", 7, 4),
        ("native-country", 41, 5),
        ("education", 16, 5),
        ("workclass", 8, 5),
        ("occupation", 14, 3),
    ],
)
def test_adults_taxonomies_have_the_papers_counts(name: str, leaves: int, levels: int) -> None:
    if not ADULT.exists():
        pytest.skip("the Adult data is not here (../shared/data/adult)")
    taxonomy = read_taxonomy(ADULT / "taxonomies" / f"{name}.csv")
    assert (taxonomy.size, taxonomy.height + 1) == (leaves, levels)


def test_arx_hierarchies_load() -> None:
    if not ADULT.exists():
        pytest.skip("the Adult data is not here (../shared/data/adult)")
    found = find_taxonomies(ADULT / "arx_hierarchies")
    shapes = {}
    for name, path in found.items():
        taxonomy = read_taxonomy(path)
        shapes[name.removeprefix("adult_hierarchy_")] = (taxonomy.size, taxonomy.height + 1)
    assert shapes == {
        "age": (100, 5),
        "education": (16, 4),
        "marital-status": (7, 3),
        "native-country": (41, 3),
        "occupation": (14, 3),
        "race": (5, 2),
        "salary-class": (2, 2),
        "sex": (2, 2),
        "workclass": (8, 3),
    }
    ages = read_taxonomy(found["adult_hierarchy_age"], "continuous")
    assert ages.leaves[:3] == ("1", "2", "3")
    assert ages.edges is None


# --- properties ---


def rows(branch: Branch, above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    path = (branch.name, *above)
    return [row for child in branch.children for row in rows(child, path)] if branch.children else [path]


def nested(branch: Branch) -> object:
    """As JSON, which is YAML."""
    return {branch.name: [nested(child) if child.children else child.name for child in branch.children]}


@settings(max_examples=examples(60), deadline=None)
@given(branches(min_leaves=2, chains=True))
def test_a_tree_reads_back(tmp_path_factory: pytest.TempPathFactory, tree: Branch) -> None:
    folder = tmp_path_factory.mktemp("tree")
    text = io.StringIO()
    csv.writer(text, delimiter=";").writerows(rows(tree))
    expected = Taxonomy(tree).nodes
    assert read(folder, "a.csv", text.getvalue()).nodes == expected
    assert read(folder, "a.yaml", json.dumps(nested(tree))).nodes == expected


LINES = st.text(alphabet="ab*;,\"\n\t [)(]-0123456789.:{}&!~#?|>'xyeinf%@\\", max_size=60)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["a.csv", "a.yaml"])
@settings(max_examples=examples(80), deadline=None)
@given(
    text=st.binary(max_size=60)
    | LINES.map(str.encode)
    | st.text(max_size=40).map(lambda text: text.encode("utf-8", "surrogatepass"))
)
@example(text=b"[0,1);[0,2)\n[1,2);[0,2)\n")
@example(text=b"%YAML 99999999999999999999.1\n---\na: b")
@example(text=b'a: "\\UFFFFFFFF"')
def test_any_bytes_are_a_taxonomy_or_an_explained_error(
    tmp_path_factory: pytest.TempPathFactory, name: str, kind: AttributeKind, text: bytes
) -> None:
    folder = tmp_path_factory.getbasetemp()
    told: tuple[str, ...] = ()
    try:
        taxonomy = read(folder, name, text, kind)
    except MasqueradeError as error:
        told = error.lines
    if told:
        assert all(problem.startswith(f"{name}: ") and len(problem.splitlines()) == 1 for problem in told)
    else:
        assert taxonomy.size == len(set(taxonomy.leaves)) >= 1


# --- taxonomies written for a test ---


def read(folder: Path, name: str, text: str | bytes, kind: AttributeKind = "categorical") -> Taxonomy:
    """A file with this text, read back."""
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_taxonomy(file, kind, source=name)


def problems(folder: Path, name: str, text: str | bytes, kind: AttributeKind = "categorical") -> list[str]:
    """Every problem that is told of a file with this text."""
    with pytest.raises(TaxonomyError) as caught:
        read(folder, name, text, kind)
    return list(caught.value.lines)


def names(taxonomy: Taxonomy) -> list[str]:
    return [node.name for node in taxonomy]


# --- rows from leaf to root ---


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


# --- nested YAML ---


def test_a_nested_tree(tmp_path: Path) -> None:
    text = """
Any:
  Blue:
    - Baker
    - Technical: [Welder, Fitter]
  White: {Lawyer: , Clerk: null, Judge: ~, Notary: [], Doctor: {}}
  Idle: Student
"""
    taxonomy = read(tmp_path, "job.yaml", text)
    assert " ".join(names(taxonomy)) == (
        "Any Blue Baker Technical Welder Fitter White Lawyer Clerk Judge Notary Doctor Student"
    )


def test_names_stay_as_they_are_written(tmp_path: Path) -> None:
    text = "'*':\n  yes: [1980-01-01, 007, 1.0, 1e3, no, 0x10, '~', null, !!int 5, ' padded ']\n  2: true\n"
    taxonomy = read(tmp_path, "a.yml", text)
    assert taxonomy.leaves == ("1980-01-01", "007", "1.0", "1e3", "no", "0x10", "~", "null", "5", "padded", "true")
    assert taxonomy.label(0, 10) == "yes"
    quoted = read(tmp_path, "a.yml", "any: {a: 'null', b: null, c: \"~\"}")
    assert quoted.leaves == ("null", "b", "~")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "the file is empty; expected is one key, the root, over its children"),
        ("# nothing\n", "the file is empty; expected is one key, the root, over its children"),
        ("hello", "line 1: expected is one key, the root, over its children"),
        ("- a\n- b\n", "line 1: a list at the top; expected is one key, the root, over its children"),
        ("{}", "line 1: no key at all; expected is one key, the root, over its children"),
        ("A: [a]\nB: [b]\n", 'two roots: "A" (line 1) and "B" (line 2); all paths must end in one root'),
        ("A:\n  x: [a]\n  y: [a, b]\n", '"a" stands under two parents: "x" (line 2) and "y" (line 3)'),
        ("A:\n  x: [a]\n  y: [b]\n  x: [c]\n", 'line 4: the key "x" stands already in line 2'),
        ("A:\n- a\n- [b]\n", "line 3: a list directly in a list; expected is a leaf, or a key over its children"),
        ("A:\n  ? [b]\n  : c\n", "line 2: a key that is no plain name; expected is a name over its children"),
        ("A:\n- a\n- ''\n", "line 3: an empty name"),
        ("A: [b]\n---\nC: [d]\n", "line 2: a second document begins; a taxonomy is one"),
        ("A: [b\nC: d\n", "line 2: not YAML: did not find expected ',' or ']'"),
        ("A:\n\tb: c\n", "line 2: not YAML: found character that cannot start any token"),
        ("A:\n  b: \x01\n", "line 2: not YAML: control characters are not allowed"),
        ("A: [a, {x: {y: A}}]", 'line 1: "A" is its own ancestor: it stands in one path twice'),
        ("A: [x, {x: [b]}]", '"x" (line 1) is a leaf, and "x" (line 1) an inner node; it can be one of them'),
        ("A: &a [b]\nC: *a\n", 'line 1: anchors and aliases ("&", "*") have no place in a taxonomy; quote such a name'),
        (
            "*: [a, b]",
            "line 1: not YAML: did not find expected alphabetic or numeric character; "
            'quote a name that begins with "*" or "&"',
        ),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_what_is_wrong_with_yaml(tmp_path: Path, text: str, expected: str) -> None:
    assert problems(tmp_path, "a.yaml", text) == [f"a.yaml: {expected}"]


@pytest.mark.parametrize("text", ["{a: " * 5000, "[" * 5000, "a:\n- " + "b:\n - " * 5000, "? " * 5000])
def test_deep_nesting_is_one_clear_error(tmp_path: Path, text: str) -> None:
    assert len(problems(tmp_path, "a.yaml", text)) == 1


def test_too_many_levels_of_yaml(tmp_path: Path) -> None:
    tree = "".join(f"{' ' * at}n{at}:\n" for at in range(101))
    told = ["a.yaml: line 101: more than 100 levels; allowed are at most 100"]
    assert problems(tmp_path, "a.yaml", tree) == told
    assert read(tmp_path, "a.yaml", tree.partition("\n")[2]).leaves == ("n100",)


def test_aliases_do_not_multiply(tmp_path: Path) -> None:
    laughs = "a: &a [x, x]\n" + "".join(f"{n}: &{n} [*{p}, *{p}]\n" for p, n in pairwise("abcdefghi"))
    assert "anchors and aliases" in problems(tmp_path, "a.yaml", laughs)[0]


# --- trees of fixed intervals, in order and without gaps ---


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
