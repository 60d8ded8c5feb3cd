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

from cli.command import Answer, here
from contract.learning import EXAMPLES
from masquerade.files import PRIVATE
from masquerade.methods import learning_methods
from masquerade.protocol.learn.ranking import concordance
from parties_here import parties_here

Run = Callable[..., Answer]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)

    def command(*words: object) -> Answer:
        with parties_here():
            return here(capsys, *words)

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
    roles = {"class": "play"} if name == "bayes-net" else None
    made = run("learn", write_job(name, ONE, roles), "--json")
    assert made.code == 0, made.err
    key = Path("model.site-key.json")
    assert key.exists() is name.startswith("pp-")
    words: list[object] = ["predict", "model.json", "people.csv", "--json"]
    said = run(*words, *(["--site-key", key] if key.exists() else []))
    assert said.code == 0, said.err
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
    assert made.code == 0, made.err
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
    wrong = run("predict", "model.json", "people.csv", "--site-key", keys[0])
    assert (wrong.code, wrong.out) == (2, "")
    assert wrong.err.splitlines() == [
        f"error: {keys[0].name}: the matrix is of session {first['session'][:16]}, and model.json is of "
        f"{second['session'][:16]}: use the one of this model's session"
    ]
    nobody = run("predict", "model.json", "people.csv")
    assert nobody.code == 2
    assert "maps records by a matrix that its sites keep to themselves; at a site" in nobody.err
    Path("broken.json").write_text('{"matrix": [[0.123456]]}')
    broken = run("predict", "model.json", "people.csv", "--site-key", "broken.json")
    assert broken.code == 2
    assert "broken.json: this is no file of a site's matrix" in broken.err
    assert "0.123456" not in broken.err


def test_rows_keep_their_order_and_what_is_incomplete_stays_empty(run: Run) -> None:
    run("learn", write_job("logistic", ONE), "--json")
    Path("new.csv").write_text("who,age,income,town\nann,61,40000,Bern\nben,,1,Bern\ncem,40,90000,Chur\n")
    printed = run("predict", "model.json", "new.csv", "--keep", "who")
    assert printed.code == 0, printed.err
    header, ann, ben, cem = printed.out.splitlines()
    assert header == "who,prediction,chance"
    assert ann.startswith("ann,")
    assert ben == "ben,,"
    assert cem.startswith("cem,no,")
    told = run("predict", "model.json", "new.csv", "--keep", "who", "--output", "said.csv")
    assert told.out.splitlines()[1:] == [
        "rows without a cell that the model needs: 1",
        "predictions: said.csv",
    ]
    assert Path("said.csv").read_text() == printed.out


def test_a_job_says_what_the_columns_mean(run: Run) -> None:
    Path("ages.csv").write_text("[0, 50);[0, 100)\n[50, 100);[0, 100)\n")
    Path("people.csv").write_text("age,ill\n20,no\n30,no\n60,yes\n70,yes\n")
    Path("job.toml").write_text(
        f'{ONE}\n[attributes.age]\ntype = "continuous"\ntaxonomy = "ages.csv"\n[roles]\nclass = "ill"\n'
        '[algorithm]\nname = "id3"\n[output]\nreport = false\n'
    )
    assert run("learn", "job.toml").code == 0
    Path("new.csv").write_text("age\n99\n1\n")
    said = run("predict", "model.json", "new.csv", "--job", "job.toml", "--json")
    assert said.json["predictions"]["prediction"] == ["yes", "no"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("model.json", "new.csv"), 'new.csv: no column "income", which the model needs'),
        (("model.json", "people.csv", "--keep", "incom"), 'no column "incom", which is to be kept'),
        (("job.toml", "people.csv"), "job.toml: this is no file of a model"),
        (("model.json", "odd.csv"), 'attribute town: "Davos" is none of the categories that the model knows'),
        (("model.json", "people.csv", "--site-key", "model.json"), 'a model by "logistic" needs none'),
        (
            ("model.json", "people.csv", "--times", "soon"),
            "--times: must be numbers of at least 0, such as 12,24",
        ),
        (("model.json", "people.csv", "--output", "said.pdf"), "said.pdf: a table cannot be written"),
        (("none.json", "people.csv"), "none.json"),
    ],
)
def test_a_mistake_is_one_line(words: tuple[str, ...], said: str, run: Run) -> None:
    run("learn", write_job("logistic", ONE), "--json")
    Path("new.csv").write_text("age,town\n1,Bern\n")
    Path("odd.csv").write_text("age,income,town\n1,2,Davos\n")
    answer = run("predict", *words)
    assert (answer.code, answer.out) == (2, "")
    (line,) = answer.err.splitlines()
    assert said in line
