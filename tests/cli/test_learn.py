"""`masquerade learn`: sites as processes, and one line for every mistake."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.command import Answer, here
from parties_here import parties_here

Learn = Callable[..., Answer]

SIX = """sunny,weak,no
sunny,strong,no
rain,weak,yes
rain,strong,no
overcast,weak,yes
overcast,strong,yes
"""
GOLF = "outlook,wind,play\n" + SIX * 10
HORIZONTAL = '[parties.north]\nsource = "north.csv"\n[parties.south]\nsource = "south.csv"\n'
REST = """[attributes.outlook]
[attributes.wind]
[roles]
class = "play"
[algorithm]
name = "id3"
[output]
report = false
"""
GIVEN = HORIZONTAL + REST
PATIENTS = "age,dose,died\n61,1.5,yes\n48,2.5,no\n70,1,yes\n55,2,no\n66,3,no\n59,1.2,yes\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("north", "south"):
        (tmp_path / f"{name}.csv").write_text(GOLF)
        (tmp_path / f"{name}_patients.csv").write_text(PATIENTS)
    return tmp_path


@pytest.fixture
def learn(folder: Path, capsys: pytest.CaptureFixture[str]) -> Learn:
    def run(job: str, *options: str, command: str = "learn", code: int = 0) -> Answer:
        (folder / "job.toml").write_text(job)
        with parties_here():
            answer = here(capsys, command, folder / "job.toml", *options)
        assert answer.code == code, answer.out + answer.err
        return answer

    return run


def test_it_writes_the_model_and_says_what_it_cost(folder: Path, learn: Learn) -> None:
    done = learn(HORIZONTAL + REST.replace("report = false", ""), "--json")
    told = done.json
    tree = told["model"]["tree"]
    assert tree["attribute"] == "outlook"
    assert tree["children"]["overcast"] == {"label": "yes"}
    assert told["metrics"] == {"accuracy": 1.0, "on": "the training records"}
    assert told["records"] == 120
    assert told["rounds"] > 0
    assert set(told["bytes_sent"]) == {"north", "south"}
    assert set(told["seconds"]) == {"align", "protocol"}
    written = json.loads((folder / "model.json").read_text())
    assert written["tree"] == tree
    assert "outlook?" in (folder / "report.html").read_text()
    assert (folder / "transcripts" / "north.jsonl").exists()


def test_one_table_gives_the_same_model(folder: Path, learn: Learn) -> None:
    together = learn(HORIZONTAL + REST, "--json").json
    (folder / "both.csv").write_text(GOLF + GOLF.split("\n", 1)[1])
    alone = learn('[data]\nsource = "both.csv"\n' + REST, "--json").json
    assert alone["model"] == together["model"]
    assert alone["metrics"] == together["metrics"]


LINEAR = """
[parties.north]
source = "north_patients.csv"
[parties.south]
source = "south_patients.csv"
[attributes.age]
type = "continuous"
[attributes.dose]
type = "continuous"
[roles]
class = "died"
[algorithm]
name = "logistic"
[output]
report = false
"""
FOR_TABLES = "belongs to anonymize and mashup"
NUMBER = 'type = "continuous"'
PRIVACY = '[[privacy]]\nmodel = "k-anonymity"\nqid = ["wind"]\nk = 2\n'
WRONG = {  # what is replaced, by what, and what is said
    "a table method": ('"id3"', '"tds"', 'algorithm.name: "tds" makes a table: run masquerade'),
    "no name": ('name = "id3"', "", "algorithm.name: missing; name one of id3"),
    "no class": ('class = "play"', "", "roles.class: missing; id3 needs the column of the class"),
    "no such class": ('"play"', '"plays"', 'roles.class: nobody has a column "plays"'),
    "a requirement": ("[output]", f"{PRIVACY}[output]", f"privacy: {FOR_TABLES}"),
    "a table": ("report", 'table = "t.csv"\nreport', f"output.table: {FOR_TABLES}"),
    "a sensitive column": ("[roles]", '[roles]\nsensitive = ["wind"]', f"roles.sensitive: {FOR_TABLES}"),
    "survival": ("[roles]", '[roles]\nduration = "wind"', "roles.duration: id3 has no use for it"),
    "numbers": ("[attributes.wind]", f"[attributes.wind]\n{NUMBER}", "attributes.wind: id3 counts values"),
    "no such column": ("[roles]", "[attributes.rain]\n[roles]", "attributes.rain: nobody has this column"),
    "no means": ('"north.csv"', '"north.csv"\nmissing = "mean"', "parties.north.missing: id3 counts values"),
    "another's key": ('"id3"', '"id3"\nridge = 1.0', "algorithm.ridge: belongs to logistic"),
    "no JSON": ("report", 'model = "model.txt"\nreport', "output.model: must end in .json"),
}
WRONG_NUMBERS = {
    "no number": ('[roles]\nclass = "died"', f'[attributes.died]\n{NUMBER}\n[roles]\nclass = "age"', "column died"),
    "many classes": ('"died"', '"dose"', "class dose: logistic tells two classes apart"),
    "many dimensions": (
        '"logistic"',
        '"pp-svm"\ndimensions = 2',
        "algorithm.dimensions: must be from 1 to 1, below the columns",
    ),
    "one attribute": (
        '"logistic"',
        '"pp-svm"',
        "algorithm.dimensions: B has fewer rows than records have columns",
        "\n[attributes.dose]\n" + NUMBER,
    ),
    "a huge number": ('"north_patients.csv"', '"huge.csv"', "column dose has numbers of size 1e+31"),
}


@pytest.mark.parametrize("case", [*WRONG, *WRONG_NUMBERS])
def test_a_mistake_is_one_line_and_nothing_is_written(case: str, folder: Path, learn: Learn) -> None:
    old, new, says, *left_out = (WRONG | WRONG_NUMBERS)[case]
    (folder / "huge.csv").write_text(PATIENTS.replace("2.5", "1e31"))
    job = GIVEN if case in WRONG else LINEAR
    done = learn(job.replace(old, new, 1).replace(left_out[0] if left_out else "", ""), code=2)
    assert any(says in line for line in done.problems), done.problems
    assert case != "no name" or len(done.problems) == 1
    assert not (folder / "model.json").exists()


def test_parties_with_different_columns_need_identifiers(folder: Path, learn: Learn) -> None:
    (folder / "south.csv").write_text("play\nyes\n")
    done = learn(GIVEN, code=2)
    assert "parties.south.id: missing; parties that hold different columns" in done.err
    assert "it does not hold outlook, wind" in done.err


VERTICAL = """[parties.north]
source = "north.csv"
id = "day"
[parties.south]
source = "south.csv"
id = "day"
"""


def split(folder: Path, *, wrong: bool = False) -> None:
    """The golf days, of which north knows the outlook and south the wind, and both whether people played."""
    days = [line.split(",") for line in GOLF.splitlines()[1:]]
    north = [f"{day},{outlook},{play}" for day, (outlook, _, play) in enumerate(days)]
    south = [f"{day},{wind},{'no' if wrong else play}" for day, (_, wind, play) in enumerate(days)]
    (folder / "north.csv").write_text("\n".join(["day,outlook,play", *north]) + "\n")
    (folder / "south.csv").write_text("\n".join(["day,wind,play", *south]) + "\n")


def test_a_class_that_all_parties_hold_must_be_the_same(folder: Path, learn: Learn) -> None:
    split(folder)
    done = learn(VERTICAL + REST, "--json")
    assert done.json["metrics"]["accuracy"] == 1.0
    (folder / "model.json").unlink()
    split(folder, wrong=True)
    refused = learn(VERTICAL + REST, code=2)
    assert refused.problems  # of each party that has noticed it, one
    for line in refused.problems:
        assert "class play: " in line
        assert "agree on them, or let one party share its class" in line
    assert not (folder / "model.json").exists()
    named = VERTICAL.replace('id = "day"', 'id = "day"\nattributes = ["outlook", "play"]', 1)
    learn(named + REST)  # north's counts


@pytest.mark.parametrize("source", [HORIZONTAL, VERTICAL, '[data]\nsource = "north.csv"\n'])
def test_a_column_that_numbers_the_people_is_refused(source: str, folder: Path, learn: Learn) -> None:
    if source == VERTICAL:
        split(folder)
    north = [f"{at},{line}" for at, line in enumerate((folder / "north.csv").read_text().splitlines())]
    for name in ("north", "south")[: 2 if source == HORIZONTAL else 1]:
        (folder / f"{name}.csv").write_text("\n".join(["number" + north[0][1:], *north[1:]]) + "\n")
    done = learn(source + "[attributes.number]\n" + REST, code=2)
    assert "north.csv, column number: 60 values in 60 records nearly number the people" in done.err
    assert not (folder / "model.json").exists()


@pytest.mark.parametrize("source", [HORIZONTAL, '[data]\nsource = "north.csv"\n'])
@pytest.mark.parametrize("name", ["id3", "bayes-net"])
def test_a_model_of_too_few_people_is_refused(name: str, source: str, folder: Path, learn: Learn) -> None:
    done = learn(source + REST.replace('"id3"', f'"{name}"\nmin_records = 121'), code=1)
    assert "a model rests on at least 121 records (min_records), and there are fewer" in done.err
    assert not (folder / "model.json").exists()


@pytest.mark.parametrize("command", ["mashup", "anonymize"])
def test_other_commands_say_whose_the_method_is(command: str, learn: Learn) -> None:
    source = HORIZONTAL if command == "mashup" else '[data]\nsource = "north.csv"\n'
    done = learn(source + REST + 'model = "m.json"\n' + PRIVACY, command=command, code=2)
    assert '"id3" learns a model: run masquerade learn' in done.err
    assert "output.model: belongs to jobs of masquerade learn" in done.err
