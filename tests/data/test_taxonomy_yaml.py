"""Taxonomies as nested YAML: what reads, and the one clear line for everything else."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from data.taxonomy_texts import names, problems, read


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
    assert names(taxonomy) == (
        [
            "Any",
            "Blue",
            "Baker",
            "Technical",
            "Welder",
            "Fitter",
            "White",
            "Lawyer",
            "Clerk",
            "Judge",
            "Notary",
            "Doctor",
            "Student",
        ]
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
