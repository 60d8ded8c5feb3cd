"""Requirements by name, those of other packages included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

import masquerade as mq
from masquerade.errors import BadInput, ParameterError
from masquerade.forms import parameter, whole
from masquerade.privacy import REQUIREMENTS, GroupRequirement, qid, requirement_named
from masquerade.privacy.registry import GROUP, Registry
from masquerade.privacy.requirement import sensitive
from masquerade.protocol.providers.criterion import Criterion
from masquerade.protocol.sensitive.checks import refuse_remote_sensitive


@dataclass(frozen=True)
class EvenGroups(GroupRequirement):
    """Groups in which every sensitive value that occurs does so equally often, up to a slack."""

    model: ClassVar[str] = "even-groups"
    worst = "largest"

    qid: Sequence[str] = qid()
    slack: int = parameter(whole(0), help="how much more often one value may occur than another")
    sensitive: str = sensitive()

    def figures(self, histogram: Any, whole: Any, labels: Sequence[str]) -> Any:
        rarest = np.where(histogram > 0, histogram, histogram.max()).min(axis=1)
        return histogram.max(axis=1) - rarest

    def holds(self, histogram: Any, whole: Any, labels: Sequence[str]) -> Any:
        return self.figures(histogram, whole, labels) <= self.slack

    def complaint(self, figure: float, size: int) -> str:
        return f"has a value {figure:g} times more often than another; at most {self.slack} are allowed"


@dataclass(frozen=True)
class Pairs(mq.KAnonymity):
    """k-anonymity that says nothing of coalitions, but that more records never break it."""

    constraint = None


TABLE = mq.Table(
    pa.table(
        {
            "job": ["a", "a", "b", "b", "b", "b"],
            "age": [1, 2, 3, 4, 5, 6],
            "disease": ["Flu", "HIV", "Flu", "Flu", "HIV", "HIV"],
        }
    ),
    mq.Schema([mq.Attribute("job", taxonomy="flat"), mq.Attribute("age", "continuous")]),
)
EVEN = EvenGroups(["job", "age"], 0, "disease")

# --- a model that declares the least ---


def test_one_table_needs_no_more_than_the_least() -> None:
    release = mq.anonymize(TABLE, EVEN & mq.KAnonymity(["job", "age"], 2), mq.Mondrian())
    assert [verdict.holds for verdict in release.verdicts] == [True, True]
    assert release.summary["groups"] > 1
    verdict = mq.verify(TABLE, EvenGroups(["job"], 0, "disease")).verdicts[0]
    assert verdict.holds
    assert verdict.summary() == {
        "model": "even-groups", "qid": ["job"], "slack": 0, "sensitive": "disease",
        "holds": True, "value": 0, "groups": 2,
    }  # fmt: skip
    broken = mq.verify(TABLE.take(np.array([0, 2, 3, 4])), EvenGroups(["job"], 0, "disease")).verdicts[0]
    assert "group (job = b) has a value 1 times more often than another" in str(broken.violation)


def test_its_parameters_are_checked_and_compared() -> None:
    with pytest.raises(ParameterError) as caught:
        EvenGroups(["job"], -1, "disease")
    assert caught.value.lines == (
        "The slack parameter of EvenGroups must be a whole number of at least 0. Got -1 instead.",
    )
    (problem,) = caught.value.problems
    assert (problem.parameter, problem.allowed, problem.found) == ("slack", "a whole number of at least 0", "-1")
    assert EVEN.covers(EvenGroups(["job"], 0, "disease"))
    assert not EVEN.covers(EvenGroups(["job"], 1, "disease"))  # nothing says which way is stricter
    assert str(EVEN) == "even-groups (slack = 0, sensitive = disease) over job, age"


def test_what_it_does_not_declare_is_refused_with_a_reason() -> None:
    with pytest.raises(ParameterError, match=r"must be made of k-anonymity, l-diversity, .* Got 'even-groups' instead"):
        mq.MPrivacy(1, EVEN, "hospital")
    [(_, reason)] = refuse_remote_sensitive([EVEN], {"job": "bank", "age": "bank", "disease": "clinic"})
    assert "needs a secure check that this version does not have" in reason
    assert "or one of l-diversity, entropy-l-diversity, recursive-l-diversity, t-closeness, alpha-k-" in reason
    with pytest.raises(ParameterError, match="even-groups cannot be tested where nobody sees all counts; use one of"):
        Criterion.of(3, 1, [EVEN])


def test_one_that_gains_from_records_needs_no_more_for_m_privacy() -> None:
    table = mq.Table(pa.table({"job": ["a"] * 4, "hospital": ["x", "x", "y", "z"]}))
    for k, holds in ((2, True), (3, False)):
        for way in ("exact", "direct", "top-down", "bottom-up", "binary", "adaptive"):
            private = mq.MPrivacy(1, Pairs(["job"], k), "hospital", way)
            assert mq.verify(table, private).holds == holds


# --- the registry ---


def test_the_built_in_models_by_name() -> None:
    assert requirement_named("k-anonymity") is mq.KAnonymity
    assert [name for name, model in REQUIREMENTS.items() if model.wraps] == ["m-privacy"]
    assert all(name == model.model for name, model in REQUIREMENTS.items())
    assert all(model.promise for model in REQUIREMENTS.plain.values())
    with pytest.raises(ParameterError, match=r'no model "k-anonimity" \(did you mean "k-anonymity"\?\)'):
        requirement_named("k-anonimity")


def other_packages(monkeypatch: pytest.MonkeyPatch, *points: tuple[str, str]) -> None:
    found = EntryPoints(EntryPoint(name, value, GROUP) for name, value in points)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: found.select(group=group))


def test_a_model_of_another_package_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    other_packages(monkeypatch, ("even-groups", f"{__name__}:EvenGroups"))
    models = Registry()
    assert models["even-groups"].__name__ == "EvenGroups"
    assert list(models)[-1] == "even-groups"
    assert "even-groups" in models.plain


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("k-anonymity", f"{__name__}:Pairs", "the name is taken; give it another, or remove the package"),
        ("odd-groups", f"{__name__}:EvenGroups", 'declares another name than its entry point: "even-groups"'),
        ("odd-groups", "no_such_package:Odd", "cannot be loaded (ModuleNotFoundError: No module named"),
        ("odd-groups", "pathlib:Path", "must be a class derived from masquerade.privacy.requirement.Group"),
    ],
)
def test_one_that_cannot_be_used_is_named(name: str, value: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    other_packages(monkeypatch, (name, value))
    with pytest.raises(BadInput) as caught:
        len(Registry())
    (text,) = caught.value.lines
    assert text.startswith(f'masquerade.requirements "{name}" of an unknown package: {line}')
