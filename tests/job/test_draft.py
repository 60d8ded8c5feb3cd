"""Drafts: every one runs as it is, whatever the table looks like, and releases no identifier."""

from __future__ import annotations

import csv
import datetime
import io
import itertools
import random
import tomllib
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings, strategies as st

import masquerade as mq
from examples import examples
from masquerade.data import Branch, TableFile, Taxonomy, interval_taxonomy, outline_of_rows
from masquerade.data.taxonomy_files import Outline
from masquerade.errors import AnswerIsNo, DataError, ParameterError
from masquerade.files import FileExists
from masquerade.jobs import Draft
from masquerade.jobs.drafts.draft import _rows
from masquerade.jobs.drafts.profile import profile
from masquerade.jobs.drafts.trees import balanced, calendar, natural_order, prefixes, round_intervals
from masquerade.progress import Stage

N = 60
Cells = dict[str, list[str]]


def column(cells: list[str], name: str = "x") -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(cells, pa.string())])


def write(path: Path, cells: Cells, separator: str = ",", encoding: str = "utf-8") -> Path:
    rows = [list(cells), *zip(*cells.values(), strict=True)]
    lines = [separator.join(f'"{cell}"' if separator in cell else cell for cell in row) for row in rows]
    path.write_bytes(("\n".join(lines) + "\n").encode(encoding))
    return path


def drawn(seed: int = 1) -> random.Random:
    return random.Random(seed)


def days(form: str) -> list[str]:
    start, draw = datetime.date(1950, 3, 1), drawn()
    return [(start + datetime.timedelta(days=draw.randrange(20_000))).strftime(form) for _ in range(N)]


def words() -> list[str]:
    return [drawn(at).choice(["red", "green", "blue", "grey; dark", 'the "odd" one']) for at in range(N)]


def sentences() -> list[str]:
    return [f"Seen on day {at}: complains about this and that, and {at * 7} others" for at in range(N)]


ODD: dict[str, Cells] = {
    "dates": {"born": days("%Y-%m-%d"), "admitted": days("%d/%m/%Y"), "seen": days("%Y-%m-%d %H:%M:%S")},
    "german dates": {"Geburtsdatum": days("%d.%m.%Y"), "Farbe": words()},
    "digits that are dates": {"birth_date": days("%Y%m%d"), "colour": words()},
    "postcodes": {"zip": [f"0{drawn(at).randrange(1000, 1099)}" for at in range(N)], "sex": ["m", "f"] * 30},
    "british postcodes": {
        "postcode": [f"SW{drawn(at).randrange(1, 20)} {drawn(at).randrange(1, 9)}AA" for at in range(N)],
        "age": [str(20 + at % 50) for at in range(N)],
    },
    "free text": {"note": sentences(), "age": [str(at % 9) for at in range(N)]},
    "missing here and there": {
        "age": ["" if at % 30 == 0 else str(at % 17) for at in range(N)],
        "job": ["?" if at % 29 == 0 else f"j{at % 5}" for at in range(N)],
    },
    "missing everywhere": {
        "age": ["NA" if at % 2 else str(at % 17) for at in range(N)],
        "job": ["" if at % 3 else f"j{at % 5}" for at in range(N)],
    },
    "decimals": {"height": [f"1.{at:02d}" for at in range(N)], "gain": [f"{at * 12.5}" for at in range(N)]},
    "decimal commas": {"weight": [f"{60 + at},{at % 10}" for at in range(N)], "sex": ["m", "f"] * 30},
    "large, small and negative": {
        "debt": [str((-1) ** at * 10 ** (at % 12)) for at in range(N)],
        "rate": [f"{at % 7}e-9" for at in range(N)],
    },
    "beyond all numbers": {"gain": ["1e400", "5", "-7"] * 20, "rate": ["inf", "-inf", "3"] * 20},
    "names that need quotes": {"native country.": words(), 'say "age"': [str(at % 8) for at in range(N)]},
    "one value": {"state": ["CA"] * N, "age": [str(at % 8) for at in range(N)]},
    "stars and bars": {
        "class": ["*", "a | b", "a", "b", "a | b | c", "c"] * 10,
        "age": [str(at % 8) for at in range(N)],
    },
    "few rows": {"age": ["1", "2", "3"], "job": ["x", "y", "x"]},
}


def runs(draft: Draft) -> dict[str, object]:
    """Anonymise by the draft; returns the summary."""
    written = mq.anonymize_job(draft.job)
    assert mq.verify_job(written.table, draft.job)
    return written.summary


@pytest.mark.parametrize("case", ODD)
def test_a_draft_runs_as_it_is(case: str, tmp_path: Path) -> None:
    separator = ";" if "comma" in case else ","
    draft = mq.draft(write(tmp_path / "people.csv", ODD[case], separator), tmp_path / "job.toml")
    tomllib.loads(draft.job.read_text("utf-8"))
    assert [each["name"] for each in draft.attributes] == list(ODD[case])
    assert runs(draft)["released"]


TYPES: list[tuple[str, str, str]] = [
    *[("dates", name, "date") for name in ("born", "admitted", "seen")],
    ("german dates", "Geburtsdatum", "date"),
    ("digits that are dates", "birth_date", "date"),
    ("postcodes", "zip", "code"),
    ("british postcodes", "postcode", "code"),
    ("free text", "note", "text"),
    ("missing everywhere", "age", "number"),
    ("decimal commas", "weight", "number"),
    ("beyond all numbers", "gain", "category"),
    ("names that need quotes", "native country.", "category"),
]


@pytest.mark.parametrize(("case", "name", "kind"), TYPES)
def test_types_are_found(case: str, name: str, kind: str) -> None:
    assert profile(name, column(ODD[case][name]), ["", "?"]).type == kind


def test_roles_and_reasons(tmp_path: Path) -> None:
    cells = {
        "patient_id": [f"p{at}" for at in range(N)],
        "row": [str(at + 1) for at in range(N)],
        "email": [f"u{at}@example.org" for at in range(N)],
        "token": [f"{at * 7919:x}zz" for at in range(N)],
        "note": sentences(),
        "age": [str(20 + at % 40) for at in range(N)],
        "diagnosis": ["flu", "cold", "gout"] * 20,
        "income": ["low", "high"] * 30,
    }
    draft = mq.draft(
        write(tmp_path / "people.csv", cells), tmp_path / "job.toml", target="income", sensitive=["diagnosis"], k=4
    )
    roles = {each["name"]: each["role"] for each in draft.attributes}
    assert [name for name, role in roles.items() if role == "identifier"] == ["patient_id", "row", "email", "token"]
    assert (roles["note"], roles["age"]) == ("other", "quasi-identifier")
    assert (roles["diagnosis"], roles["income"]) == ("sensitive", "class")
    assert all(each["reason"] for each in draft.attributes)
    job = tomllib.loads(draft.text)
    assert [(each["model"], each.get("k"), each.get("l")) for each in job["privacy"]] == [
        ("k-anonymity", 4, None),
        ("l-diversity", None, 2),
    ]
    release = runs(draft)
    assert set(release["dropped"]) == {"patient_id", "row", "email", "token", "note"}  # type: ignore[call-overload]


def test_reasons_are_true(tmp_path: Path) -> None:
    cells = {
        "x": ["a", "b", "c"] * 20,
        "y": ["d"] * 59 + ["e"],
        "void": [""] * N,
        "one": ["", "v"] * 30,
        "when": [f"{1 + at % 12:02d}/{1 + at % 11:02d}/1999" for at in range(N)],
        "seen": [f"{1 + at % 28:02d}.05.1999" for at in range(N)],
        "size": [f"1,{at % 4}" for at in range(N)],
    }
    reasons = {
        each["name"]: each["reason"]
        for each in mq.draft(write(tmp_path / "t.csv", cells, ";"), tmp_path / "job.toml").attributes
    }
    assert reasons["void"] == "left out: no row has a value"
    assert reasons["one"] == "left out: it has the same value in every row that has one"
    assert reasons["when"].endswith("its dates are read as %d/%m/%Y, though %m/%d/%Y fits, too")
    assert reasons["seen"].endswith("its dates are read as %d.%m.%Y")
    assert reasons["size"].endswith("its commas are taken for decimal points")
    two = write(tmp_path / "two.csv", {name: cells[name] for name in "xy"})
    first, second = mq.draft(two, tmp_path / "two.toml").attributes
    assert first["reason"].startswith("with y it tells 4 groups of rows apart, 1 of them of one row;")
    assert second["reason"].startswith("with x it tells 4 groups of rows apart, 1 of them of one row;")


def test_a_parquet_file_and_a_database(tmp_path: Path) -> None:
    table = mq.generate_people(80).drop_columns(["ssn"])
    times = [datetime.datetime(1999, 5, 1 + at % 28, at % 24) for at in range(80)]
    table = table.append_column("seen", pa.array(times, pa.timestamp("us")))
    pyarrow.parquet.write_table(table, tmp_path / "people.parquet")
    assert runs(mq.draft(tmp_path / "people.parquet", tmp_path / "parquet.toml"))["released"]
    import sqlite3

    with sqlite3.connect(tmp_path / "people.db") as database:
        database.execute("CREATE TABLE people (age INTEGER, sex TEXT)")
        database.executemany("INSERT INTO people VALUES (?, ?)", [(at % 30, "mf"[at % 2]) for at in range(N)])
    file = TableFile(f"sqlite:///{tmp_path}/people.db", "SELECT * FROM people")
    assert runs(mq.draft(file, tmp_path / "database.toml"))["released"] == N


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_the_encoding_goes_into_the_job(encoding: str, tmp_path: Path) -> None:
    cells = {"Straße": ["Ä", "Ö", "Ü"] * 20, "age": [str(at % 9) for at in range(N)]}
    path = write(tmp_path / "leute.csv", cells, ";", encoding)
    assert runs(mq.draft(path, tmp_path / "job.toml"))["released"] == N


def test_hierarchies_beside_the_table_are_used_where_they_fit(tmp_path: Path) -> None:
    cells = {
        "job": ["clerk", "cook"] * 30,
        "town": ["Rome", "Oslo", "Oslo"] * 20,
        "age": [str(at % 20) for at in range(N)],
    }
    path = write(tmp_path / "people.csv", cells)
    (tmp_path / "people_hierarchy_job.csv").write_text("clerk;office;*\ncook;kitchen;*\n")
    (tmp_path / "hierarchies").mkdir()
    (tmp_path / "hierarchies" / "town.csv").write_text("Rome;Italy;*\n")
    (tmp_path / "age.csv").write_text("[0, 10);*\n[10, 20);*\n")
    draft = mq.draft(path, tmp_path / "job.toml")
    told = {each["name"]: each["reason"] for each in draft.attributes}
    assert "the taxonomy in people_hierarchy_job.csv" in told["job"]
    assert "the taxonomy in age.csv" in told["age"]
    assert "town.csv does not fit: a value of the column is no leaf of it" in told["town"]
    assert [path.name for path in draft.taxonomies] == ["town.csv"]
    assert runs(draft)["released"] == N


def test_what_cannot_be_drafted(tmp_path: Path) -> None:
    path = write(tmp_path / "people.csv", {"ssn": [str(at) for at in range(N)], "note": sentences()})
    with pytest.raises(AnswerIsNo, match=r"no column is left .*: ssn \(its name, .*, note \(left out: free text"):
        mq.draft(path, tmp_path / "job.toml")
    with pytest.raises(DataError, match='no column "noet"'):
        mq.draft(path, tmp_path / "job.toml", sensitive=["noet"])
    with pytest.raises(ParameterError, match="both the class and sensitive"):
        mq.draft(path, tmp_path / "job.toml", target="note", sensitive=["note"])
    with pytest.raises(ParameterError, match="name one table"):
        mq.draft([path, path], tmp_path / "job.toml")
    assert not (tmp_path / "job.toml").exists()
    (tmp_path / "job.toml").write_text("mine")
    with pytest.raises(FileExists, match="already"):
        mq.draft(path, tmp_path / "job.toml")
    assert (tmp_path / "job.toml").read_text() == "mine"


# --- trees ---

TEXTS = st.text("ab0*|;", min_size=1, max_size=4)
NUMBERS = st.decimals(-(10**9), 10**9, places=3, allow_nan=False).map(str)
DATES = st.dates(datetime.date(1860, 1, 1), datetime.date(2100, 1, 1)).map(str)


@given(st.lists(NUMBERS, min_size=1, max_size=20))
@settings(max_examples=examples(50))
def test_round_intervals_cover_all_numbers(cells: list[str]) -> None:
    found = profile("x", column(cells), [""])
    tree = interval_taxonomy(outline_of_rows(_rows(round_intervals(found)), "x"), "continuous", "x")
    assert tree.edges is not None
    assert tree.edges[0] <= min(map(float, cells))
    assert max(map(float, cells)) < tree.edges[-1]
    assert len(tree.leaves) <= 130


@given(st.lists(DATES, min_size=1, max_size=20))
@settings(max_examples=examples(30))
def test_a_calendar_covers_all_dates(cells: list[str]) -> None:
    found = profile("x", column(cells), [""])
    tree = interval_taxonomy(outline_of_rows(_rows(calendar(found)), "x"), "date", "x")
    assert tree.edges is not None
    days_of = [datetime.date.fromisoformat(cell).toordinal() - 719163 for cell in cells]
    assert tree.edges[0] <= min(days_of)
    assert max(days_of) < tree.edges[-1]


@given(st.lists(TEXTS, min_size=2, max_size=20, unique=True))
@settings(max_examples=examples(50))
def test_a_tree_of_categories_has_all_of_them(cells: list[str]) -> None:
    found = profile("x", column(cells), [""])
    for make in (balanced, prefixes):
        leaves = [path[0] for path in make(found)]
        assert sorted(leaves) == sorted(found.cells)
    assert set(Taxonomy(outline_of_rows(_rows(balanced(found)), "x").branch()).leaves) == set(found.cells)


# --- speed ---


@pytest.mark.parametrize("cell", ["{:05d}", "thing {}"], ids=["codes", "categories"])
def test_a_tree_is_built_once_however_many_values_there_are(
    cell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = [0]
    branch = Outline.branch

    def counted(outline: Outline) -> Branch:
        built[0] += 1
        return branch(outline)

    monkeypatch.setattr(Outline, "branch", counted)
    cells = {"place": [cell.format(at // 2) for at in range(400)], "age": [str(at % 9) for at in range(400)]}
    mq.draft(write(tmp_path / "people.csv", cells), tmp_path / "job.toml")
    assert built[0] <= len(cells)


def test_a_draft_says_what_is_being_done(tmp_path: Path) -> None:
    stages: list[Stage] = []
    cells = {"age": [str(at % 9) for at in range(N)], "sex": ["m", "f"] * 30}
    mq.draft(write(tmp_path / "people.csv", cells), tmp_path / "job.toml", on_stage=stages.append)
    assert [stage.detail for stage in stages if stage.detail] == ["age", "sex"] * 2


def labels_of(cells: list[str], likeness: list[float] | None = None) -> list[list[str]]:
    return balanced(profile("x", column(cells), [""]), likeness)


def children(paths: list[list[str]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in paths:
        for child, parent in itertools.pairwise(path):
            found.setdefault(parent, set()).add(child)
    return found


@given(st.lists(NUMBERS, min_size=1, max_size=40), st.lists(DATES, min_size=1, max_size=20))
@settings(max_examples=examples(30))
def test_a_node_of_intervals_has_few_children(numbers: list[str], dates: list[str]) -> None:
    for make, cells, most in ((round_intervals, numbers, 3), (calendar, dates, 31)):
        below = children(make(profile("x", column(cells), [""])))
        assert max(map(len, below.values()), default=0) <= most


def test_years_come_in_steps_of_two_without_a_narrow_rest() -> None:
    paths = round_intervals(profile("age", column([str(age) for age in range(3, 96)]), [""]))
    path = next(path for path in paths if path[0] == "[30, 35)")
    assert path == ["[30, 35)", "[30, 40)", "[20, 40)", "[0, 40)", "*"]
    assert next(path for path in paths if path[0] == "[95, 100)")[1:] == ["[90, 100)", "[80, 100)", "[40, 100)", "*"]


def test_skewed_numbers_are_cut_by_their_rows() -> None:
    costs = [str(round(10 * 1.02**at, 2)) for at in range(500)]
    found = profile("cost", column(costs), [""])
    paths = round_intervals(found)
    rows = Counter[str]()
    for cost in found.cells:
        path = next(path for path in paths if float(path[0][1:].split(",")[0]) <= float(cost) < end_of(path[0]))
        rows.update(path)
    assert max(rows[path[0]] for path in paths) <= 0.05 * len(costs)
    for parent, below in children(paths).items():
        assert len(below) == 2
        assert all(rows[child] >= 0.3 * rows[parent] for child in below)


def end_of(interval: str) -> float:
    return float(interval.rstrip(")").split(",")[1])


def test_a_value_that_most_rows_have_is_cut_off() -> None:
    gains = ["0"] * 900 + [str(100 + 997 * at) for at in range(100)]
    paths = round_intervals(profile("gain", column(gains), [""]))
    assert paths[0] == ["[0, 100)", "*"]


@pytest.mark.parametrize(
    ("cells", "order"),
    [
        (["high", "low", "medium"], ["low", "medium", "high"]),
        (["10-19", "<10", "20-29", "100+"], ["<10", "10-19", "20-29", "100+"]),
        (["stage 10", "stage 2", "stage 1"], ["stage 1", "stage 2", "stage 10"]),
        (["5th-6th", "10th", "1st-4th"], ["1st-4th", "5th-6th", "10th"]),
        (["Mon", "Fri", "Tue"], ["Mon", "Tue", "Fri"]),
        (["XL", "s", "M"], ["s", "M", "XL"]),
        (["nurse", "cook", "9 to 5"], None),
    ],
)
def test_categories_keep_an_order_of_their_own(cells: list[str], order: list[str] | None) -> None:
    found = natural_order(cells)
    assert (found and [cells[at] for at in found]) == order


def test_ordered_categories_are_ranges_even_with_a_class() -> None:
    cells = ["low", "very low", "medium", "high", "very high"] * 20
    names = {name for path in labels_of(cells, [0.1, 0.9, 0.3, 0.2, 0.8]) for name in path}
    assert names <= {*cells, "*", "very low | low", "medium – very high", "high | very high", "medium | high"}


def test_the_order_of_an_ordered_column_is_kept() -> None:
    cells = pa.array(["tau", "mu", "pi", "mu"] * 15).dictionary_encode()
    given = pa.array(["pi", "tau", "mu"])
    indices = pa.array([given.to_pylist().index(cell) for cell in cells.to_pylist()], pa.int8())
    ordered = pa.DictionaryArray.from_arrays(indices, given, ordered=True)
    paths = balanced(profile("x", pa.chunked_array([ordered]), [""]), [0.9, 0.1, 0.5])
    assert [path[0] for path in paths] == ["pi", "tau", "mu"]


def test_labels_are_short_and_those_of_one_node_alone() -> None:
    jobs = [f"{first}{second}-clerical work of the usual kind" for first in "abcdef" for second in "uvwxyz"]
    draw = drawn()
    likeness = [draw.random() for _ in jobs]
    for alike in (None, likeness):
        paths = labels_of(jobs * 2, alike)
        covered: dict[str, set[str]] = {}
        for path in paths:
            for name in path[1:]:
                covered.setdefault(name, set()).add(path[0])
        assert len({frozenset(leaves) for leaves in covered.values()}) == len(covered)
        assert all(len(name) <= 70 for name in covered)
        for name, leaves in covered.items():
            if alike is None and name != "*":
                assert name.split(" – ")[0].split(" | ")[0][:2] == min(leaves)[:2]
            if " more" in name:
                assert name.endswith(f" + {len(leaves) - 1} more")


def test_labels_with_asterisks_mark_nothing(tmp_path: Path) -> None:
    cells = {"x": ["*a", "b*", "*c", "d*"] * 15, "age": [str(at % 20) for at in range(N)]}
    assert runs(mq.draft(write(tmp_path / "t.csv", cells), tmp_path / "job.toml"))["released"] == N


def test_short_names_are_listed_beside_the_release(tmp_path: Path) -> None:
    draw = drawn()
    jobs = [f"job of {chr(97 + at % 15) * 3}" for at in range(400)]
    cells = {
        "job": jobs,
        "age": [str(20 + draw.randrange(50)) for _ in jobs],
        "grade": [draw.choice(["low", "medium", "high"]) for _ in jobs],
        "income": ["high" if draw.random() < (ord(job[-1]) - 96) / 15 else "low" for job in jobs],
    }
    draft = mq.draft(write(tmp_path / "people.csv", cells), tmp_path / "job.toml", target="income", k=60)
    assert tomllib.loads(draft.text)["output"]["labels"] == ["job"]
    written = mq.anonymize_job(draft.job)
    assert written.labels == tmp_path / "people-release-labels.csv"
    assert written.summary["labels"] == str(written.labels)
    rows = csv.DictReader(io.StringIO(written.labels.read_text("utf-8"), newline=""))
    listed: dict[str, set[str]] = {}
    for row in rows:
        assert row["attribute"] == "job"
        listed.setdefault(row["label"], set()).add(row["value"])
    found = set(written.release.table.column("job").to_pylist()) - {"*"} - set(jobs)
    assert found
    assert set(listed) == found
    paths = [line.split(";") for line in (tmp_path / "job-taxonomies/job.csv").read_text("utf-8").splitlines()]
    for label, values in listed.items():
        assert values == {path[0] for path in paths if label in path}
    assert mq.verify_job(written.table, draft.job)
    # Whoever reads the release back finds in the labels the nodes that they are.
    found_again = mq.attack_job(written.table, draft.job)
    assert next(each.value for each in found_again if each.name == "prosecutor") <= 1 / 60
    [taxonomy] = [column.domain for column in written.release.columns if column.name == "job"]
    assert isinstance(taxonomy, Taxonomy)
    assert {taxonomy.find(label).name for label in found} == found
    draft.job.write_text(draft.text.replace("[output]", '[output]\norder = "input"'), "utf-8")
    again = mq.anonymize_job(draft.job)
    worth = mq.evaluate_job(tmp_path / "people.csv", again.table, draft.job, queries=0)
    assert worth["metrics"]["ncp"] == pytest.approx(again.release.metrics["ncp"])


def test_nothing_is_listed_where_labels_say_what_they_are(tmp_path: Path) -> None:
    cells = {"zip": [f"71{drawn(at).randrange(100, 999)}" for at in range(N)], "sex": ["m", "f"] * 30}
    draft = mq.draft(write(tmp_path / "people.csv", cells), tmp_path / "job.toml", k=3)
    assert "labels" not in tomllib.loads(draft.text)["output"]
    assert mq.anonymize_job(draft.job).labels is None
    assert not list(tmp_path.glob("*-labels.csv"))


@pytest.mark.parametrize(
    ("name", "words", "kind"),
    [
        ("home", ["abroad"], "code"),
        ("zip", ["abroad", "homeless"], "code"),
        ("home", ["aa", "bb", "cc"] * 9, "category"),
    ],
)
def test_words_among_codes_leave_them_codes(name: str, words: list[str], kind: str) -> None:
    cells = [f"{71_000 + 10 * at}" for at in range(40)] + [f"{word}{'x' * (at // 3)}" for at, word in enumerate(words)]
    found = profile(name, column(cells), [""])
    assert found.type == kind
    if kind == "code":
        paths = {path[0]: path for path in prefixes(found)}
        assert paths["abroad"] == ["abroad", "*"]
        assert paths["71230"] == ["71230", "7123*", "712**", "71***", "7****", "*"]


def test_numbers_with_a_word_are_no_codes() -> None:
    assert profile("children", column([*map(str, range(30)), "many"]), [""]).type == "category"
