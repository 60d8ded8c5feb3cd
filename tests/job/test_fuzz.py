"""Whatever a job file holds, the loader answers with a job or with a `JobError`."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import HealthCheck, given, settings, strategies as st
from pydantic import BaseModel

from examples import examples
from job.job_files import JOB, parse_job, write_job
from masquerade.errors import JobError
from masquerade.forms import known_keys, parameters_of
from masquerade.jobs import Job
from masquerade.jobs.model import AttributeSection, DataSection, OutputSection, PartySection, PrivacyEntry, RolesSection
from masquerade.jobs.plan import Plan
from masquerade.methods.registry import methods

T = TypeVar("T")
ALGORITHM = sorted({"name", "seed", "sauce", *(each.name for method in methods() for each in parameters_of(method))})
NAMES = st.sampled_from(["age", "job", "city", "disease", "income", "ssn", "hospital", "", "a.b", "[key]", "ü"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**400), 10**400)
    | st.floats()
    | st.text(max_size=5)
    | NAMES
    | st.sampled_from(
        ["k-anonymity", "l-diversity", "confidence-bounding", "tds", "date", "continuous", "flat", "drop"]
    )
    | st.dates()
    | st.datetimes()
    | st.times()
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6
)


def section(model: type[BaseModel]) -> st.SearchStrategy[Any]:
    """A table with some of the section's keys, and sometimes one that it does not have; or no table at all."""
    keys = st.sampled_from([*known_keys(model), "sauce"])
    return st.dictionaries(keys, VALUES | st.lists(NAMES, max_size=3), max_size=6) | VALUES


JOBS = st.fixed_dictionaries(
    {},
    optional={
        "data": section(DataSection),
        "attributes": st.dictionaries(NAMES, section(AttributeSection), max_size=4) | VALUES,
        "roles": section(RolesSection),
        "privacy": st.lists(section(PrivacyEntry), max_size=3) | VALUES,
        "algorithm": st.dictionaries(st.sampled_from(ALGORITHM), VALUES, max_size=6) | VALUES,
        "parties": st.dictionaries(NAMES, section(PartySection), max_size=2) | VALUES,
        "output": section(OutputSection),
        "sauce": VALUES,
    },
)


def attempt(do: Callable[[], T]) -> tuple[T | None, tuple[str, ...]]:
    """The answer, or the problems."""
    try:
        return do(), ()
    except JobError as error:
        return None, error.lines


def settled(path: Path) -> Plan:
    plan = Plan(path)
    plan.data(), plan.outputs(), plan.algorithm(plan.schema())
    plan.settle()
    return plan


@settings(max_examples=examples(300), deadline=None)
@given(JOBS)
def test_any_content_gives_a_job_or_its_problems(content: dict[str, Any]) -> None:
    job, problems = attempt(lambda: parse_job(content))
    assert isinstance(job, Job) != bool(problems)
    assert all(problem.startswith("job: ") for problem in problems)
    assert not any("pydantic" in problem or "Input should" in problem for problem in problems)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=JOBS)
def test_any_plan_is_settled_or_refused(content: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text(toml({key: value for key, value in content.items() if value is not None}), encoding="utf-8")
    plan, problems = attempt(lambda: settled(path))
    assert (plan is None) == bool(problems)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, len(JOB)), removed=st.integers(0, 12), added=st.text(max_size=6) | st.sampled_from(
    ["[", "]]", "\n[output]\n", "=", '"', "nan", "-1", "0", "true", "1979-05-27", "{}", "\n", "age", "'''"]
))  # fmt: skip
def test_a_slip_in_the_text_gives_a_plan_or_its_problems(cut: int, removed: int, added: str, tmp_path: Path) -> None:
    path = write_job(tmp_path, JOB)
    path.write_bytes((JOB[:cut] + added + JOB[cut + removed :]).encode("utf-8", "surrogatepass"))
    plan, problems = attempt(lambda: settled(path))
    assert (plan is None) == bool(problems)
    assert all(problem.startswith(str(path)) for problem in problems)


def toml(value: Any, top: bool = True) -> str:
    """A TOML text of the value; what TOML cannot say is left out."""
    if isinstance(value, dict):
        pairs = [f"{quoted(key)} = {toml(each, False)}" for key, each in value.items() if each is not None]
        return "\n".join(pairs) if top else "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(toml(each, False) for each in value if each is not None) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return repr(value)


def quoted(text: str) -> str:
    escaped = "".join(c if c.isalnum() and c.isascii() else f"\\U{ord(c):08x}" for c in text)
    return f'"{escaped}"'
