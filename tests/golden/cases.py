"""Commands on small tables, and what they leave behind: the JSON that they print, and the files that they write.

A case is a job, and one or several commands that are run in a folder with the tables. Nothing of it names a module.
"""

from __future__ import annotations

import csv
import io
import json
import re
import secrets
import shutil
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet
import pytest

HERE = Path(__file__).parent
TABLES = HERE / "tables"
COMMANDS = HERE / "commands"

# What a run draws afresh or measures: never a figure of the release.
FRESH = {"seconds", "bytes_sent", "transcripts"}
KEPT = {".csv", ".json", ".toml", ".yaml"}  # pages and Parquet files are looked at elsewhere


@dataclass(frozen=True)
class Case:
    """Commands that are run one after the other; the last word of each is `--json` by itself."""

    commands: Sequence[str]
    job: str = ""
    tables: Mapping[str, str] = field(default_factory=dict)  # how the people are dealt: see `deal`


def attributes(*names: str) -> str:
    """What is said of columns in a job."""
    said = {
        "age": 'type = "continuous"\nmin = 0\nmax = 120',
        "job": 'taxonomy = "job.csv"',
        "town": 'taxonomy = "flat"',
        "salary": 'type = "continuous"',
        "months": 'type = "continuous"',
    }
    return "".join(f"[attributes.{name}]\n{said.get(name, '')}\n" for name in names)


def privacy(model: str, qid: Sequence[str] = ("age", "job"), **parameters: Any) -> str:
    """One requirement."""
    keys = {"model": model, **({"qid": list(qid)} if qid else {}), **parameters}
    return "[[privacy]]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in keys.items())


def algorithm(name: str, **parameters: Any) -> str:
    """The method."""
    return "[algorithm]\n" + "".join(f"{k} = {_toml(v)}\n" for k, v in {"name": name, **parameters}.items())


def _toml(value: Any) -> str:
    return json.dumps(value)


ONE = '[data]\nsource = "people.csv"\n'
THREE = ("age", "job", "town")
ROLES = '[roles]\nclass = "income"\nsensitive = ["disease"]\nidentifiers = ["ssn"]\n'
K = privacy("k-anonymity", k=4)
INPUT = '[output]\norder = "input"\n'


def one_table(requirements: str = K, method: str = "", *, names: Sequence[str] = THREE, more: str = "") -> str:
    """A job of one table."""
    return ONE + attributes(*names) + ROLES + requirements + method + (more or INPUT)


BANK_AND_CLINIC = {"bank": "ssn job salary income", "clinic": "ssn age town disease income"}
HOUSES = {"north": "*0", "south": "*1", "west": "*2"}  # every third person


def parties(*names: str, key: str = 'id = "ssn"\n') -> str:
    """The parties of a job."""
    return "".join(f'[parties.{name}]\nsource = "{name}.csv"\n{key}' for name in names)


TWO = parties("bank", "clinic")
ALL = parties(*HOUSES, key="")
JOINT = attributes("age", "job", "town", "salary")
JOINT_ROLES = '[roles]\nclass = "income"\nsensitive = ["disease"]\n'
JOINT_K = privacy("k-anonymity", ("age", "job"), k=4) + privacy("k-anonymity", ("town", "salary"), k=5)
FULL = ("age", "job", "town", "salary")
M = privacy("k-anonymity", THREE, k=6) + privacy("l-diversity", THREE, sensitive="disease", l=2)
M += privacy("m-privacy", (), m=1)
TOGETHER = attributes(*THREE).replace('"flat"', '"town.csv"')
TOGETHER += '[roles]\nsensitive = ["disease"]\nidentifiers = ["ssn"]\n'
ANONYMIZE = ("anonymize job.toml",)
MASHUP = ("mashup job.toml",)
LEARN = ("learn job.toml", "predict model.json people.csv --output predictions.csv")


def _every_requirement() -> Iterator[tuple[str, str]]:
    told = {"sensitive": "disease"}
    yield "l-diversity", privacy("l-diversity", **told, l=2)
    yield "entropy-l-diversity", privacy("entropy-l-diversity", **told, l=1.5)
    yield "recursive-l-diversity", privacy("recursive-l-diversity", **told, c=3, l=2)
    yield "t-closeness", privacy("t-closeness", **told, t=0.3)
    yield "alpha-k-anonymity", privacy("alpha-k-anonymity", **told, alpha=0.6, k=3)
    yield "confidence-bounding", privacy("confidence-bounding", **told, confidence=0.7)
    yield "p-sensitive", privacy("p-sensitive-k-anonymity", **told, p=2, k=3)
    yield "two qids", K + privacy("k-anonymity", ("age", "town"), k=6)


def _methods() -> Iterator[tuple[str, Case]]:
    for name in ("auto", "tds", "mondrian", "cheapest-box", "k-member"):
        yield name, Case(ANONYMIZE, one_table(method=algorithm(name)))
    flat = privacy("k-anonymity", ("job", "town"), k=5)
    yield "datafly", Case(ANONYMIZE, one_table(flat, algorithm("datafly"), names=("job", "town")))
    bounded = one_table(method=algorithm("greedy-cka")).replace("max = 120", "max = 120\nmax_width = 40", 1)
    yield "greedy-cka", Case(ANONYMIZE, bounded)
    for name in ("tds", "mondrian"):
        for model, requirement in _every_requirement():
            yield f"{name}, {model}", Case(ANONYMIZE, one_table(requirement, algorithm(name)))
        engine = '[output]\norder = "input"\ntable = "release.parquet"\n[engine]\nmemory = "512MB"\n'
        chunked = one_table(method=algorithm(name), more=engine)
        yield f"{name}, in chunks", Case(ANONYMIZE, chunked)
    yield "tds, more attributes", Case(ANONYMIZE, one_table(method=algorithm("tds"), names=FULL))
    yield "mondrian, relaxed", Case(ANONYMIZE, one_table(method=algorithm("mondrian", strict=False)))
    provided = one_table(M, algorithm("mondrian")).replace("[roles]", '[roles]\nprovider = "house"')
    yield "mondrian, m-privacy", Case(ANONYMIZE, provided)
    bounded = one_table(method=algorithm("mondrian")).replace("max = 120", "max = 120\nmax_width = 40", 1)
    yield "mondrian, bounded", Case(ANONYMIZE, bounded)


def _others() -> Iterator[tuple[str, Case]]:
    job = one_table(method=algorithm("tds"))
    yield "drafted", Case(("init people.csv --sensitive disease --class income --k 3", "anonymize job.toml"))
    yield "a table by itself", Case(("anonymize people.csv --k 4 --qid age,job --output release.csv",))
    yield "drafted mashup", Case(("init --parties bank.csv clinic.csv",), tables=BANK_AND_CLINIC)
    yield "unreachable", Case(ANONYMIZE, one_table(privacy("k-anonymity", k=121)))
    yield "wrong", Case(ANONYMIZE, one_table(privacy("k-anonymty", ("age", "jb"), k=0)))
    yield "verified", Case((*ANONYMIZE, "verify release.csv --job job.toml"), job)
    yield (
        "evaluated",
        Case((*ANONYMIZE, "evaluate people.csv release.csv --job job.toml --queries 50 --folds 2"), job),
    )
    yield (
        "attacked",
        Case((*ANONYMIZE, "attack release.csv --job job.toml --original people.csv --population 1000"), job),
    )
    yield "compared", Case(("compare job.toml --k 3,9 --methods tds,mondrian,datafly",), job)
    yield (
        "keys",
        Case(
            (
                "keys people.csv --columns age,job,town,income --exact",
                "keys people.csv --columns age,job,town,disease --all --beta 0.9 --measure separation",
                "keys people.csv --columns age,job,town --epsilon 0.2 --delta 0.1",
            )
        ),
    )
    yield (
        "masks",
        Case(
            (
                "mask people.csv --measure distinct --beta 0.2 --never ssn",
                "mask people.csv --measure separation --beta 0.9 --never ssn,salary",
            )
        ),
    )
    yield "weights", Case(("weights --job job.toml --by information",), job)


def _mashups() -> Iterator[tuple[str, Case]]:
    def of(method: str, requirements: str = JOINT_K, roles: str = JOINT_ROLES) -> Case:
        return Case(MASHUP, TWO + JOINT + roles + requirements + method, BANK_AND_CLINIC)

    yield "mashup by tds", of(algorithm("tds"))
    yield "mashup by mondrian", of(algorithm("mondrian"))
    yield "mashup by dka", of(algorithm("dka", local="mondrian"), privacy("k-anonymity", FULL, k=4), "")
    diverse = privacy("l-diversity", ("age", "job"), sensitive="disease", l=2) + JOINT_K
    yield "mashup by mondrian, l-diversity", of(algorithm("mondrian"), diverse)
    for third in ("secure", "trusted"):
        job = ALL + TOGETHER + M + algorithm("mondrian", third_party=third)
        yield f"horizontal, {third}", Case(MASHUP, job, HOUSES)
    question = Case(("keys job.toml --columns job,town,age",), TWO, BANK_AND_CLINIC)
    yield "joint keys", question


def _models() -> Iterator[tuple[str, Case]]:
    numbers = '[attributes.age]\ntype = "continuous"\n[attributes.salary]\ntype = "continuous"\n'
    values = "[attributes.job]\n[attributes.town]\n"
    to_class = '[roles]\nclass = "income"\n'
    survival = '[roles]\nduration = "months"\nevent = "died"\n'
    jobs = {
        "id3": values + to_class + algorithm("id3"),
        "bayes-net": values + to_class + algorithm("bayes-net"),
        "logistic": numbers + to_class + algorithm("logistic"),
        "svm": numbers + to_class + algorithm("svm"),
        "cox": numbers + survival + algorithm("cox"),
    }
    for name, job in jobs.items():
        silent = "[output]\nreport = false\n"
        apply = LEARN[1] if name != "bayes-net" else f"{LEARN[1]} --attribute job"
        yield f"{name}, one table", Case((LEARN[0], apply), ONE + job + silent)
        sites = dict(list(HOUSES.items())[:2])
        if name != "cox":  # its sums are rounded by chance, too much for its standard errors
            yield f"{name}, two sites", Case(LEARN[:1], parties(*sites, key="") + job + silent, sites)


CASES = {
    name.replace(", ", "-").replace(" ", "-"): case for name, case in (*_methods(), *_others(), *_mashups(), *_models())
}


def deal(case: Case, folder: Path) -> None:
    """The tables of a case: everybody's, and each party's columns or people; and its job."""
    shutil.copytree(TABLES, folder, dirs_exist_ok=True)
    with (folder / "people.csv").open(newline="") as file:
        people = [*csv.DictReader(file)]
    for name, which in case.tables.items():
        rows = people[int(which[1:]) :: 3] if which.startswith("*") else people
        names = [*people[0]] if which.startswith("*") else which.split()
        _write(folder / f"{name}.csv", names, rows)
    if case.job:
        tomllib.loads(case.job)
        (folder / "job.toml").write_text(case.job)


def _write(path: Path, names: Sequence[str], rows: Sequence[Mapping[str, str]]) -> None:
    path.write_text("\n".join([",".join(names), *(",".join(row[each] for each in names) for row in rows)]) + "\n")


def left_behind(case: Case, folder: Path, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What the commands of a case print and write, by the name of the file that it is kept in."""
    deal(case, folder)
    drawn = secrets.token_hex  # of files in the making; nonces are always the same, so that sessions keep their names
    monkeypatch.setattr(secrets, "token_hex", lambda size: "0f" * 16 if size == 16 else drawn(size))
    before = {path.name for path in folder.iterdir()}
    told = []
    for command in case.commands:
        answer = run(*command.split(), "--json")
        said = json.loads(answer.out) if answer.out else None
        if case.tables and isinstance(said, dict):
            said.pop("classification", None)  # cross-validated in the order of the joined rows, which is drawn
        told.append({"command": command, "code": answer.code, "says": without_fresh(said), "errors": answer.err})
    found = {"answers.json": json.dumps(told, indent=1, ensure_ascii=False) + "\n"}
    for path in sorted(folder.iterdir()):
        if path.name not in before and path.suffix in KEPT:
            found[path.name] = path.read_text() if path.suffix != ".json" else _rounded_file(path.read_text())
        elif path.name not in before and path.suffix == ".parquet":
            found["release.csv"] = _as_csv(path)
    if 'order = "input"' not in case.job:
        found |= {name: _sorted(text) for name, text in found.items() if name.endswith("release.csv")}
    return {name: text.replace(str(folder), "FOLDER") for name, text in found.items()}


def _sorted(table: str) -> str:
    head, *rows = table.splitlines()
    return "\n".join([head, *sorted(rows)]) + "\n"


def _as_csv(folder: Path) -> str:
    """A folder of Parquet files as one table; rows of an engine stand in the order of its chunks."""
    text = io.BytesIO()
    pyarrow.csv.write_csv(pyarrow.parquet.read_table(folder), text)
    return text.getvalue().decode()


def _rounded_file(text: str) -> str:
    return json.dumps(without_fresh(json.loads(text)), indent=1, ensure_ascii=False) + "\n"


def without_fresh(said: Any) -> Any:
    """What is told, without what is drawn afresh, and with as many digits as every machine has alike."""
    if isinstance(said, dict):
        return {key: without_fresh(each) for key, each in said.items() if key not in FRESH}
    if isinstance(said, list):
        return [without_fresh(each) for each in said]
    if isinstance(said, float):
        return float(f"{said:.9g}")
    return re.sub(r"\d+(\.\d+)? s\b", "… s", said) if isinstance(said, str) else said
