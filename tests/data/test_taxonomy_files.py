"""Taxonomy files of every form: files that cannot be read, files in use, and whatever bytes there may be."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import example, given, settings, strategies as st

from data.taxonomy_texts import problems, read
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
