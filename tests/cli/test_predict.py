"""`masquerade predict`: what models say of new rows, and who may ask those of mapped records."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pytest

import masquerade as mq
from cli.command import Answer, here
from contract.learning import EXAMPLES
from masquerade.files import PRIVATE
from masquerade.methods import learning_methods
from masquerade.protocol import LearningMethod, concordance
from parties_here import parties_here

Run = Callable[..., Answer]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)

    def command(*words: object, code: int = 0) -> Answer:
        with parties_here():
            answer = here(capsys, *words)
        assert answer.code == code, answer.err
        return answer

    return command


def write_job(name: str, places: str, roles: dict[str, str] | None = None, **keys: object) -> Path:
    """The contract suite's example of a method, as a table and a job; returns the job."""
    example = EXAMPLES[name]
    pyarrow.csv.write_csv(example.table.arrow, "people.csv")
    kinds = {each.name: each.kind for each in example.table.schema}
    lines = [places, *(f'[attributes.{each}]\ntype = "{kind}"' for each, kind in kinds.items()), "[roles]"]
    lines += [f'{role} = "{column}"' for role, column in (example.roles if roles is None else roles).items()]
    lines += [f'[algorithm]\nname = "{name}"', *(f"{key} = {value}" for key, value in keys.items())]
    lines += ["[output]\nreport = false\n"]
    Path("job.toml").write_text("\n".join(lines))
    return Path("job.toml")


ONE = '[data]\nsource = "people.csv"'


@pytest.mark.parametrize("name", learning_methods())
def test_every_model_is_applied_to_the_rows_of_a_table(name: str, run: Run) -> None:
    roles = None if EXAMPLES[name].roles else {"class": "play"}  # a net is asked for any column
    made = run("learn", write_job(name, ONE, roles), "--json")
    key = Path("model.site-key.json")
    assert key.exists() is (learning_methods()[name].kept is not LearningMethod.kept)
    words: list[object] = ["predict", "model.json", "people.csv", "--json"]
    said = run(*words, *(["--site-key", key] if key.exists() else []))
    told, table = said.json["predictions"], EXAMPLES[name].table.arrow
    assert said.json["rows"] == len(table)
    if "risk" in told:
        died = table["dead"].to_numpy() == 1
        ranked = concordance(np.array(told["risk"]), table["months"].to_numpy(), died)
        assert ranked == pytest.approx(made.json["metrics"]["concordance"], abs=1e-6)
        curves = [each for each in told if each.startswith("survival_")]
        assert all(0 <= share <= 1 for each in curves for share in told[each])
        return
    label = (roles or EXAMPLES[name].roles)["class"]
    truth = table[label].to_pylist()
    right = sum(one == other for one, other in zip(told["prediction"], truth, strict=True)) / len(truth)
    assert right == pytest.approx(made.json["metrics"].get("accuracy", right), abs=1e-6)
    assert right > 0.6
    assert sum(said.json["counts"].values()) == len(truth)


SITES = "\n".join(f'[parties.{name}]\nsource = "{name}.csv"' for name in ("north", "south"))


def learned_by_sites(run: Run, name: str = "pp-svm") -> tuple[dict[str, Any], list[Path]]:
    """A model of two sites with half of the rows each, and what each site keeps."""
    job, table = write_job(name, SITES), EXAMPLES[name].table.arrow
    half = len(table) // 2
    for site, rows in {"north": table.slice(0, half), "south": table.slice(half)}.items():
        pyarrow.csv.write_csv(rows, f"{site}.csv")
    made = run("learn", job, "--json")
    return made.json, sorted(Path("transcripts").glob("*.site-key.json"))


@pytest.mark.parametrize("name", ["pp-svm", "pp-cox"])
def test_a_site_predicts_by_what_it_keeps_to_itself(name: str, run: Run) -> None:
    made, keys = learned_by_sites(run, name)
    session = made["session"]
    newest = [each for each in keys if session[:16] in each.name]
    assert [each.name.split("-")[0] for each in newest] == ["north", "south"]
    for each in newest:
        assert stat.S_IMODE(each.stat().st_mode) == PRIVATE
    matrix = json.loads(newest[0].read_text())["matrix"]
    others = [path for path in Path().rglob("*") if path.is_file() and path not in newest]
    for path in others:
        assert str(matrix[0][0]).encode() not in path.read_bytes(), path
    said = [run("predict", "model.json", "people.csv", "--site-key", key, "--json").json for key in newest]
    assert said[0] == said[1]
    if name == "pp-svm":
        truth = EXAMPLES[name].table.arrow["died"].to_pylist()
        found = said[0]["predictions"]["prediction"]
        right = sum(one == other for one, other in zip(found, truth, strict=True)) / len(truth)
        assert right == pytest.approx(made["metrics"]["accuracy"], abs=1e-6)


def test_whoever_has_no_matrix_or_another_models_is_told(run: Run) -> None:
    first, keys = learned_by_sites(run)
    second, _ = learned_by_sites(run)
    wrong = run("predict", "model.json", "people.csv", "--site-key", keys[0], code=2)
    assert wrong.out == ""
    assert wrong.err.splitlines() == [
        f"error: {keys[0].name}: the matrix is of session {first['session'][:16]}, and model.json is of "
        f"{second['session'][:16]}: use the one of this model's session"
    ]
    nobody = run("predict", "model.json", "people.csv", code=2)
    assert "maps records by a matrix that its sites keep to themselves; at a site" in nobody.err
    Path("broken.json").write_text('{"matrix": [[0.123456]]}')
    broken = run("predict", "model.json", "people.csv", "--site-key", "broken.json", code=2)
    assert "broken.json: this is no file of a site's matrix" in broken.err
    assert "0.123456" not in broken.err


def test_rows_keep_their_order_and_what_is_incomplete_stays_empty(run: Run) -> None:
    run("learn", write_job("logistic", ONE), "--json")
    Path("new.csv").write_text("who,age,income,town\nann,61,40000,Bern\nben,,1,Bern\ncem,40,90000,Chur\n")
    printed = run("predict", "model.json", "new.csv", "--keep", "who")
    header, ann, ben, cem = printed.out.splitlines()
    assert header == "who,prediction,probability_of_yes"
    assert ann.startswith("ann,")
    assert ben == "ben,,"
    assert cem.startswith("cem,no,")
    told = run("predict", "model.json", "new.csv", "--keep", "who", "--output", "said.csv")
    assert told.out.splitlines()[1:] == ["rows without a cell that the model needs: 1", "predictions: said.csv"]
    assert Path("said.csv").read_text() == printed.out


def test_a_job_says_what_the_columns_mean(run: Run) -> None:
    Path("ages.csv").write_text("[0, 50);[0, 100)\n[50, 100);[0, 100)\n")
    Path("people.csv").write_text("age,ill\n" + "20,no\n30,no\n60,yes\n70,yes\n" * 5)
    Path("job.toml").write_text(
        f'{ONE}\n[attributes.age]\ntype = "continuous"\ntaxonomy = "ages.csv"\n[roles]\nclass = "ill"\n'
        '[algorithm]\nname = "id3"\n[output]\nreport = false\n'
    )
    run("learn", "job.toml")
    Path("new.csv").write_text("age\n99\n1\n")
    said = run("predict", "model.json", "new.csv", "--job", "job.toml", "--json")
    assert said.json["predictions"]["prediction"] == ["yes", "no"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("model.json", "new.csv"), 'new.csv: no column "income", which the model needs'),
        (("model.json", "people.csv", "--keep", "incom"), 'no column "incom", which is to be kept'),
        (("job.toml", "people.csv"), "job.toml: this is no file of a model"),
        (("model.json", "people.csv", "--site-key", "model.json"), 'a model by "logistic" needs none'),
        (("model.json", "people.csv", "--times", "soon"), "--times: must be numbers of at least 0, such as 12,24"),
        (("model.json", "people.csv", "--output", "said.pdf"), "said.pdf: a table cannot be written"),
        (("none.json", "people.csv"), "none.json"),
    ],
)
def test_a_mistake_is_one_line(words: tuple[str, ...], said: str, run: Run) -> None:
    run("learn", write_job("logistic", ONE), "--json")
    Path("new.csv").write_text("age,town\n1,Bern\n")
    answer = run("predict", *words, code=2)
    assert answer.out == ""
    (line,) = answer.err.splitlines()
    assert said in line


@pytest.fixture
def tree(run: Run) -> Path:
    """A tree that asks for the weather, and on rainy days for the wind."""
    tree = {
        "attribute": "outlook",
        "children": {
            "sunny": {"label": "no"},
            "rain": {"attribute": "wind", "children": {"weak": {"label": "yes"}, "strong": {"label": "no"}}},
        },
    }
    Path("tree.json").write_text(json.dumps({"algorithm": {"name": "id3"}, "tree": tree}))
    return Path("tree.json")


DAYS = "day,outlook,wind\n1,sunny,storm\n2,foggy,weak\n3,rain,storm\n4,rain,weak\n5,foggy,\n"


def test_a_tree_says_nothing_of_a_value_that_it_has_never_seen(tree: Path, run: Run) -> None:
    Path("days.csv").write_text(DAYS)
    said = run("predict", tree, "days.csv", "--keep", "day")
    assert said.out.splitlines() == ["day,prediction", "1,no", "2,", "3,", "4,yes", "5,"]
    assert said.err.splitlines() == [
        "warning: days.csv: column outlook: 1 row has a value that the model has never seen: "
        '"foggy" (row 2); no prediction there',
        "warning: days.csv: column wind: 1 row has a value that the model has never seen: "
        '"storm" (row 3); no prediction there',
    ]
    told = run("predict", tree, "days.csv", "--json").json
    assert (told["unseen_rows"], told["incomplete_rows"]) == (2, 1)
    assert told["unseen"] == [
        {"column": "outlook", "rows": 1, "first_row": 2, "values": ["foggy"]},
        {"column": "wind", "rows": 1, "first_row": 3, "values": ["storm"]},
    ]
    written = run("predict", tree, "days.csv", "--output", "said.csv")
    assert "rows with a value that it has never seen: 2" in written.out


def test_strict_refuses_the_first_value_that_the_model_has_never_seen(tree: Path, run: Run) -> None:
    Path("days.csv").write_text(DAYS)
    said = run("predict", tree, "days.csv", "--strict", "--output", "said.csv", code=2)
    assert said.out == ""
    assert said.err.splitlines() == [
        'error: days.csv: row 2 (line 3), column outlook: the model has never seen "foggy"; it knows "sunny", "rain"'
    ]
    assert not Path("said.csv").exists()
    Path("days.csv").write_text("outlook,wind\nrain,weak\n,storm\n")
    assert run("predict", tree, "days.csv", "--strict").out.splitlines() == ["prediction", "yes", '""']


def test_a_tree_of_one_leaf_needs_no_columns(run: Run) -> None:
    Path("leaf.json").write_text('{"algorithm": {"name": "id3"}, "tree": {"label": "no"}}')
    Path("days.csv").write_text(DAYS)
    said = run("predict", "leaf.json", "days.csv", "--json")
    assert said.json["predictions"]["prediction"] == ["no"] * 5


@pytest.mark.parametrize("name", ["bayes-net", "logistic", "svm", "cox", "pp-svm", "pp-cox"])
def test_every_model_says_nothing_of_values_that_it_has_never_seen(name: str, run: Run) -> None:
    run("learn", write_job(name, ONE, {"class": "play"} if name == "bayes-net" else None))
    column = "humidity" if name == "bayes-net" else "town"
    table = pyarrow.csv.read_csv("people.csv").slice(0, 3)
    cells = [*table[column].to_pylist()[:2], "never"]
    at = table.column_names.index(column)
    pyarrow.csv.write_csv(table.set_column(at, column, pyarrow.array(cells)), "new.csv")
    pyarrow.csv.write_csv(table, "old.csv")
    key = Path("model.site-key.json")
    words: list[object] = ["--site-key", key] if key.exists() else []
    told = run("predict", "model.json", "new.csv", "--json", *words)
    assert told.json["unseen"] == [{"column": column, "rows": 1, "first_row": 3, "values": ["never"]}]
    before = run("predict", "model.json", "old.csv", "--json", *words).json["predictions"]
    for column_, cells in told.json["predictions"].items():
        assert cells == [*before[column_][:2], None]
    strict = run("predict", "model.json", "new.csv", "--strict", *words, code=2)
    (line,) = strict.err.splitlines()
    assert f'row 3 (line 4), column {column}: the model has never seen "never"; it knows ' in line
    pyarrow.csv.write_csv(
        table.set_column(at, column, pyarrow.array(["never"] * 3)), "new.csv"
    )  # nothing is left to say
    nothing = run("predict", "model.json", "new.csv", "--json", *words)
    assert all(cells == [None] * 3 for cells in nothing.json["predictions"].values())


def test_a_net_knows_a_value_that_is_rare_beside_its_parents(run: Run) -> None:
    """A chance below 1/1,024 is written as 0."""
    cells = ["a,x\n"] * 2000 + ["b,y\n"] * 2000
    Path("people.csv").write_text("one,two\n" + "".join(cells))
    Path("job.toml").write_text(
        f'{ONE}\n[attributes.one]\n[attributes.two]\n[algorithm]\nname = "bayes-net"\n[output]\nreport = false\n'
    )
    run("learn", "job.toml")
    tables = json.loads(Path("model.json").read_text())["tables"]
    assert {chance for row in tables["two"] for chance in row["chances"].values()} == {0, 1}
    Path("new.csv").write_text("two\nx\ny\n")
    said = run("predict", "model.json", "new.csv", "--attribute", "one", "--json")
    assert said.json["predictions"]["prediction"] == ["a", "b"]
    assert said.json["predictions"]["probability_of_b"] == pytest.approx([0, 1], abs=1e-3)


def test_a_probability_names_its_class_and_more_than_two_have_one_each(run: Run) -> None:
    run("learn", write_job("bayes-net", ONE, {"class": "outlook"}))
    said = run("predict", "model.json", "people.csv", "--json").json["predictions"]
    named = [each for each in said if each.startswith("probability_of_")]
    assert sorted(named) == ["probability_of_overcast", "probability_of_rain", "probability_of_sunny"]
    shares = np.array([said[each] for each in named])
    assert shares.sum(axis=0) == pytest.approx(1)
    likeliest = np.array(named)[shares.argmax(axis=0)]
    assert [f"probability_of_{value}" for value in said["prediction"]] == likeliest.tolist()


def test_the_words_that_meant_a_missing_cell_when_learning_mean_one_when_predicting(run: Run) -> None:
    write_job("logistic", ONE)
    Path("job.toml").write_text(Path("job.toml").read_text().replace(ONE, f'{ONE}\nmissing_values = ["", "?", "n/a"]'))
    run("learn", "job.toml")
    Path("new.csv").write_text("age,income,town\n50,n/a,Bern\n50,40000,n/a\n50,40000,-\n50,40000,Bern\n")
    said = run("predict", "model.json", "new.csv", "--json").json
    assert (said["incomplete_rows"], said["unseen_rows"]) == (2, 1)
    asked = run("predict", "model.json", "new.csv", "--missing-values", "-,n/a", "--json").json
    assert (asked["incomplete_rows"], asked["unseen_rows"]) == (3, 0)
    written = json.loads(Path("model.json").read_text())
    del written["missing_values"]  # as in an older file
    Path("old.json").write_text(json.dumps(written))
    by_job = run("predict", "old.json", "new.csv", "--job", "job.toml", "--json").json
    assert (by_job["incomplete_rows"], by_job["unseen_rows"]) == (2, 1)
    plain = run("predict", "old.json", "new.csv", code=2)
    assert 'new.csv: row 1 (line 2), column income: "n/a" is not a number' in plain.err


def test_a_number_that_no_interval_of_the_job_covers_is_one_that_the_model_has_never_seen(run: Run) -> None:
    Path("ages.csv").write_text("[0, 50);[0, 100)\n[50, 100);[0, 100)\n")
    Path("people.csv").write_text("age,ill\n" + "20,no\n30,no\n60,yes\n70,yes\n" * 5)
    Path("job.toml").write_text(
        f'{ONE}\n[attributes.age]\ntype = "continuous"\ntaxonomy = "ages.csv"\n[roles]\nclass = "ill"\n'
        '[algorithm]\nname = "id3"\n[output]\nreport = false\n'
    )
    run("learn", "job.toml")
    Path("new.csv").write_text("age\n99\n101\n")
    said = run("predict", "model.json", "new.csv", "--job", "job.toml", "--json").json
    assert said["predictions"]["prediction"] == ["yes", None]
    assert said["unseen"] == [{"column": "age", "rows": 1, "first_row": 2, "values": ["101"]}]


def test_python_warns_and_gives_nothing(tree: Path) -> None:
    frame = pyarrow.table({"outlook": ["rain", "foggy"], "wind": ["weak", "weak"]})
    with pytest.warns(UserWarning, match='column outlook: 1 row has a value .*"foggy"'):
        said = mq.predict(tree, frame)
    assert said.table["prediction"].to_pylist() == ["yes", None]
    assert said.unseen_rows == 1
    with pytest.raises(mq.DataError, match='row 2, column outlook: the model has never seen "foggy"'):
        mq.predict(tree, frame, strict=True)
    known = mq.predict(tree, pyarrow.table({"outlook": ["rain", "-"], "wind": ["weak"] * 2}), missing_values=["-"])
    assert (known.incomplete, known.unseen) == (1, ())
