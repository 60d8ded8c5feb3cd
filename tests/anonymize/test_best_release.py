"""The best of several methods: what is tried, what is kept, what is told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

import masquerade as mq
from contract.people import QID, STEPWISE, people
from masquerade.anonymize import BestRelease, TableMethod, side_by_side
from masquerade.anonymize.auto import best_of
from masquerade.cli.anonymize import choice_lines
from masquerade.data import Outcome, Step, Tried
from masquerade.errors import ParameterError, Problem

TABLE = mq.Table(pa.Table.from_pylist(people(60, seed=3)), STEPWISE)
K3 = mq.KAnonymity(QID, k=3)


def tried(value: float | None, ncp: float | None) -> Tried:
    return Tried({"name": f"{value} {ncp}"}, value, ncp)


@dataclass(frozen=True)
class Some(BestRelease):
    """Of these alone."""

    among: tuple[type[TableMethod], ...] = ()

    def methods(self) -> Iterable[type[TableMethod]]:
        return self.among


def test_the_release_that_loses_least_is_kept_as_its_method_makes_it() -> None:
    release = mq.anonymize(TABLE, K3, mq.Auto(), order="input")
    assert release.choice is not None
    found = {str(each.method): each.value for each in release.choice.tried}
    assert {each.method["name"] for each in release.choice.tried} == {
        "tds",
        "mondrian",
        "cheapest-box",
        "datafly",
        "k-member",
    }
    assert release.metrics["ncp"] == release.choice.chosen.value == min(filter(None, found.values()))
    kinds = {"mondrian": mq.Mondrian, "cheapest-box": mq.CheapestBox, "k-member": mq.KMember}
    settings = dict(release.choice.chosen.method)
    alone = mq.anonymize(TABLE, K3, kinds[settings.pop("name")](**settings), order="input")
    assert release.table.equals(alone.table)
    assert release.query_error == alone.query_error
    assert release.summary["choice"]["method"] == release.choice.chosen.method["name"]
    assert release.summary["choice"]["left_out"] == release.summary["choice"]["failed"] == []


def test_it_is_what_nobody_asks_for() -> None:
    release = mq.anonymize(TABLE, K3)
    assert release.choice is not None
    assert release.settings["algorithm"] == {"name": "auto", "measure": "ncp", "budget": 5.0}


@pytest.mark.parametrize("measure", ["precision", "query_error", "discernibility"])
def test_another_measure(measure: str) -> None:
    choice = mq.anonymize(TABLE, K3, mq.Auto(measure=measure)).choice
    assert choice is not None
    best = max if measure == "precision" else min
    assert choice.chosen.value == best(each.value for each in choice.tried if each.value is not None)


def test_a_class_is_judged_by_trees() -> None:
    choice = mq.anonymize(TABLE, K3, mq.Auto("class")).choice
    assert choice is not None
    assert choice.measure == "classification_error"
    assert all(each.value is not None and each.ncp is not None for each in choice.tried)


def test_of_equal_errors_the_one_that_lost_less() -> None:
    close, low, far = tried(0.21, 0.1), tried(0.2, 0.5), tried(0.4, 0.01)
    assert best_of([low, close, far], "classification_error", 100) is close
    assert best_of([low, close, far], "classification_error", 100_000) is low
    assert best_of([low, close, far], "ncp", 100) is low
    assert best_of([low, close, far], "precision", 100) is far


def test_what_cannot_be_told_is_chosen_by_its_loss() -> None:
    one, other = tried(None, 0.3), tried(None, 0.2)
    assert best_of([one, other], "classification_error", 4) is other
    assert best_of([one, tried(0.9, None)], "classification_error", 4).value == 0.9


def test_methods_over_the_budget_are_left_out_and_named() -> None:
    little = mq.anonymize(TABLE, K3, mq.Auto(budget=1e-9)).choice
    assert little is not None
    assert [each.method["name"] for each in little.tried] == ["tds"], "the cheapest always runs"
    assert {each["name"] for each in little.left_out} == {"tds", "mondrian", "cheapest-box", "datafly", "k-member"}
    cells = len(TABLE) * len(QID) / 1_000_000
    usual = sum(each.seconds_per_million for each in (mq.TopDownSpecialization, mq.Mondrian, mq.Datafly))
    some = mq.anonymize(TABLE, K3, mq.Auto(budget=usual * cells * 1.001)).choice
    assert some is not None
    assert [each.method["name"] for each in some.tried] == ["tds", "mondrian", "datafly"], "usual settings first"


def test_steps_are_those_of_the_chosen_one() -> None:
    seen: list[Step] = []
    release = mq.anonymize(TABLE, K3, Some(among=(mq.TopDownSpecialization,)), on_step=seen.append)
    assert tuple(seen) == release.steps != ()


@dataclass(frozen=True)
class Unwilling(TableMethod):
    """Refuses everything."""

    name = "unwilling"
    summary = "refuses everything"

    def refusals(self, parts: Sequence[object], schema: mq.Schema) -> Iterator[Problem]:
        yield Problem("not today")

    def run(self, *_: object) -> Outcome:  # type: ignore[override] # never called
        raise AssertionError


def test_what_everybody_refuses_has_their_reasons() -> None:
    with pytest.raises(ParameterError, match="not today"):
        mq.anonymize(TABLE, K3, Some(among=(Unwilling,)))
    willing = mq.anonymize(TABLE, K3, Some(among=(Unwilling, mq.Mondrian)))
    assert willing.choice is not None
    assert willing.choice.chosen.method["name"] == "mondrian"


@dataclass(frozen=True)
class Broken(TableMethod):
    """Fails when it runs."""

    name = "broken"
    summary = "fails when it runs"

    def run(self, table: mq.Table, *_: object) -> Outcome:  # type: ignore[override] # never gets far
        raise KeyError(table.arrow.to_pylist()[0])  # an error's text may hold a record


class Leaving(Broken):
    """Ends the process."""

    name = "leaving"

    def run(self, *_: object) -> Outcome:
        raise SystemExit(3)


class Confused(Broken):
    """Fails when it is asked."""

    name = "confused"

    def refusals(self, parts: Sequence[object], schema: mq.Schema) -> Iterator[Problem]:
        raise ZeroDivisionError


class Lazy(Broken):
    """Releases everything as it is."""

    name = "lazy"

    def run(self, *_: object) -> Outcome:
        return Outcome(())


@pytest.mark.parametrize(
    ("method", "kind"),
    [(Broken, "KeyError"), (Leaving, "SystemExit"), (Confused, "ZeroDivisionError"), (Lazy, "RequirementViolated")],
)
def test_a_method_of_another_package_that_fails_is_left_out_and_named(
    method: type[TableMethod], kind: str, tmp_path: Path
) -> None:
    release = mq.anonymize(TABLE, K3, Some(among=(method, mq.Mondrian)))
    assert release.choice is not None
    assert {each.method["name"] for each in release.choice.tried} == {"mondrian"}
    [failed] = release.summary["choice"]["failed"]
    reason = f"failed with {kind} (package {__name__.partition('.')[0]})"
    assert (failed["method"], failed["reason"]) == (method.name, reason)
    assert choice_lines(release)[-1] == f"warning: {method.name} {reason}"
    release.report(tmp_path / "report.html")
    assert f"because they failed: <bdi>{method.name} {reason}</bdi>." in (tmp_path / "report.html").read_text()
    with pytest.raises(ParameterError) as caught:
        mq.anonymize(TABLE, K3, Some(among=(method,)))
    assert caught.value.lines == (f"{method.name} {reason}",)


def test_it_is_no_row_of_a_comparison() -> None:
    found = side_by_side(TABLE, K3, [Broken, Confused, mq.Mondrian])
    assert {row.name for row in found.rows} == {"mondrian"}
    assert {name: str(problem).split(" (")[0] for name, [problem] in found.refused.items()} == {
        "broken": "failed with KeyError",
        "confused": "failed with ZeroDivisionError",
    }


def test_our_own_bugs_surface(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Outcome:
        raise KeyError

    monkeypatch.setattr(mq.Mondrian, "run", fail)
    with pytest.raises(KeyError):
        mq.anonymize(TABLE, K3)
    with pytest.raises(KeyError):
        side_by_side(TABLE, K3, [mq.Mondrian])


def test_the_report_shows_what_was_tried(tmp_path: Path) -> None:
    release = mq.anonymize(TABLE, K3, mq.Auto("class", budget=1e-4))
    release.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "Methods that were tried" in page
    assert page.count('<span class="mark good">kept</span>') == 1
    assert "Left out, because they would have taken longer than the budget: <bdi>" in page
    mq.anonymize(TABLE, K3, mq.Mondrian()).report(tmp_path / "other.html")
    assert "Methods that were tried" not in (tmp_path / "other.html").read_text()


def test_nothing_more_is_tried_once_a_release_loses_nothing() -> None:
    same = mq.Table(pa.Table.from_pylist(people(60, seed=3)[:1] * 6), STEPWISE)
    release = mq.anonymize(same, K3)
    choice = release.choice
    assert choice is not None
    assert [each.ncp for each in choice.tried].index(0) == len(choice.tried) - 1
    assert "cheapest-box" in {each["name"] for each in choice.spared}
    (line,) = [line for line in choice_lines(release) if line.startswith("not tried, as no release")]
    assert line.count("datafly") <= 1
    assert "cheapest-box" in line
    assert mq.anonymize(TABLE, K3).choice.spared == ()  # type: ignore[union-attr] # as above


def test_it_tells_what_it_tries_and_how_long_each_may_take() -> None:
    told: list[str] = []
    choice = mq.anonymize(TABLE, K3, mq.Auto().telling(told.append)).choice
    assert choice is not None
    assert len(told) == len(choice.tried)
    for text, each in zip(told, choice.tried, strict=True):
        assert f": {each.method['name']} (" in text or f": {each.method['name']}," in text
        assert "may take" in text
