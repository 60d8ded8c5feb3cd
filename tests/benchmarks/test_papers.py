"""`bench papers`: what it declares of the papers, how it judges, and a whole run on generated data."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

import masquerade
from masquerade.cli import bench
from masquerade.errors import ParameterError
from masquerade.report.release import pages

pytestmark = pytest.mark.system

FOLDER = Path(__file__).parents[2] / "benchmarks"
HOUSE = Path(masquerade.__file__).parent


@pytest.fixture
def papers() -> Iterator[ModuleType]:
    """The experiment, whose data is where it was again afterwards."""
    loaded = bench._load("papers", FOLDER / "papers.py")  # not before: it puts benchmarks/ on the path
    pages().get_template("page.html")  # as after any report: the frame of both is compiled already, to cut texts
    before = loaded._data._root
    yield loaded
    loaded._data._root = before


def test_declarations_name_what_there_is(papers: ModuleType) -> None:
    for experiment in [each for paper in papers.PAPERS for each in paper.experiments]:
        module = bench._load(experiment.name, bench.find_experiments()[experiment.name])
        unknown = [key for key in experiment.quick if not hasattr(module, key)]
        assert not unknown, f"{experiment.name} has no such constants"
        for exhibit in experiment.exhibits:
            assert any((folder / exhibit.code).exists() for folder in (HOUSE, FOLDER.parent)), exhibit.code


def test_the_page_on_papers_tells_every_exhibit(papers: ModuleType) -> None:
    told = (FOLDER.parent / "docs/papers.md").read_text(encoding="utf-8")
    for experiment in [each for paper in papers.PAPERS for each in paper.experiments]:
        for exhibit in experiment.exhibits:
            assert f"| {exhibit.name} |" in told, f"{experiment.name}: {exhibit.name}"


def row(what: str, met: bool | None) -> dict[str, Any]:
    return {"what": what, "met": met}


def test_verdicts_follow_from_goals_and_claims(papers: ModuleType) -> None:
    from _exhibits.exhibit import by_claims, by_goals

    judge = by_goals("It rains.")
    assert judge({}, [row("a", True), row("b", None)]).word == "reproduced"
    missed = judge({}, [row("a", True), row("b", False)])
    assert (missed.word, missed.why) == ("not reproduced", "not: b. It rains.")
    assert judge({}, [row("a", None)]).word == "not comparable"
    claims = by_claims(lambda results: ((f"x is {n}", results["x"] == n) for n in (1, 2, 3, 4, 5)))
    assert claims({"x": 1}, []).why == "not: x is 2; x is 3; x is 4; 1 more."


def test_generated_data_stands_in_and_is_not_compared(
    papers: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {"N_RECORDS": 200, "KS": range(2, 3)}
    (paper,) = (each for each in papers.PAPERS if each.name == "constrained-k-anonymity")
    (experiment,) = paper.experiments
    small = replace(paper, experiments=(replace(experiment, quick=few),))
    monkeypatch.setattr(papers, "PAPERS", (small,))
    monkeypatch.setattr(papers._data, "_root", tmp_path / "nothing")
    monkeypatch.setattr(papers._stand_in, "RECORDS", {"adult.data": 300, "adult.test": 100})
    said: list[str] = []
    told = papers.run(said.append, tmp_path / "out", quick=True)
    assert "generated" in said[0]
    assert "UCI" in said[0]
    assert {each["verdict"] for each in told["exhibits"]} == {"not comparable"}
    assert "n_records = 200" in told["exhibits"][0]["settings"]
    page = (tmp_path / "out/papers.html").read_text(encoding="utf-8")
    assert "Figures 8 and 9" in page
    assert "<script" not in page
    with (tmp_path / "out/papers.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {each["exhibit"] for each in rows} == {"Figures 8 and 9", "Tables 1 and 2"}
    assert json.loads((tmp_path / "out/constrained.json").read_text())["figures"]


def breaks(papers: ModuleType, patched: pytest.MonkeyPatch, error: Exception) -> None:
    """Let every experiment end with an error."""

    def broken(*given: Any, **more: Any) -> dict[str, Any]:
        raise error

    patched.setattr(papers.bench, "run", broken)
    patched.setattr(papers._stand_in, "write_stand_ins", lambda root: None)


def test_an_experiment_that_cannot_run_does_not_end_the_others(
    papers: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks(papers, monkeypatch, ParameterError("bench: a library is missing"))
    told = papers.run(lambda _: None, tmp_path, paper="m-privacy")
    assert {(each["verdict"], each["why"]) for each in told["exhibits"]} == {("not run", "bench: a library is missing")}
    assert len(told["exhibits"]) > 5


def test_a_bug_in_an_experiment_is_told_after_the_page_is_written(
    papers: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks(papers, monkeypatch, AttributeError("somebody's data"))
    with pytest.raises(AttributeError):
        papers.run(lambda _: None, tmp_path, paper="m-privacy")
    page = (tmp_path / "papers.html").read_text(encoding="utf-8")
    assert "a bug of ours (AttributeError)" in page
    assert "somebody" not in page


def test_cuts_by_fitness_are_scored_each_way() -> None:
    """The variants of Algorithm 2 run on a small table, and the least fit part is what the method itself takes."""
    fitness = bench._load("m_privacy_fitness", FOLDER / "m_privacy_fitness.py")
    people = [{"age": at % 7, "site": f"{at % 3}"} for at in range(60)]
    schema = masquerade.Schema([masquerade.Attribute("age", "continuous")])
    table = masquerade.Table(pa.Table.from_pylist(people), schema)
    requirement = masquerade.MPrivacy(1, masquerade.KAnonymity(["age"], 4), "site")

    def ranges(method: Any) -> Any:
        return method.run_on_table(table, requirement).columns[0].to_arrow().to_pylist()

    own = ranges(masquerade.ProviderAwareMondrian(choose="fitness"))
    assert ranges(fitness.Fittest(choose="fitness")) == own
    for way in fitness.WAYS:
        assert len(set(ranges(fitness.Fittest(choose="fitness", way=way, first=True)))) > 1


def test_real_data_is_judged(papers: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a whole folder of files that are as UCI's; --data may name the folder of adult.data itself."""
    monkeypatch.setattr(papers._stand_in, "RECORDS", {"adult.data": 60, "adult.test": 40})
    papers._stand_in.write_stand_ins(tmp_path / "data")
    papers._data.use(tmp_path / "data/adult")
    assert papers._find_data(lambda _: None, tmp_path / "generated")
    assert not (tmp_path / "generated").exists()


@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        ("papers", {"paper": "m-privvacy"}, r'no paper "m-privvacy" \(did you mean "m-privacy"\?\); there are'),
        ("adult", {"quick": True}, "adult has no --quick; papers has"),
    ],
)
def test_options_that_do_not_fit_are_named(name: str, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ParameterError, match=problem):
        bench.run(name, bench.find_experiments()[name], None, options=options)
