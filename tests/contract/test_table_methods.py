"""What every method on one table keeps, for every requirement: one suite over both registries."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import masquerade as mq
from contract.methods import TABLE_METHODS, entry_of, settings_of
from contract.people import (
    BOUNDED,
    QID,
    SCHEMA,
    SCHEMAS,
    STEPWISE,
    Record,
    assert_kept_promises,
    assert_refusals,
    holds_of_everybody,
    people,
    requirements,
)
from examples import QUICK, examples
from masquerade.anonymize import TableMethod, hopeless_at_once
from masquerade.errors import ParameterError
from masquerade.methods import table_methods
from masquerade.privacy import REQUIREMENTS, GroupRequirement, without_redundant
from privacy.definitions import SENSITIVE, definition_of

pytestmark = pytest.mark.usefixtures("few_queries")

TARGETS = (None, "class")
METHODS = [
    (method, {"target": target, **entry_of(name, TABLE_METHODS).always, **chosen})
    for name, method in table_methods().items()
    for target in TARGETS
    for chosen in settings_of(method, entry_of(name, TABLE_METHODS).values)
]
CROWDS = (36,) if QUICK else (36, 12)


def cases() -> Iterator[Any]:
    """Every setting with every requirement; the defaults with both targets in both crowds, others with one of each."""
    for name, method in table_methods().items():
        entry = entry_of(name, TABLE_METHODS)
        for number, chosen in enumerate(settings_of(method, entry.values)):
            for place, requirement in enumerate(requirements()):
                one = TARGETS[(number + place) % 2], CROWDS[(number + place // 2) % len(CROWDS)]
                for target, n in (one,) if number else product(TARGETS, CROWDS):
                    settings = {"target": target, **entry.always, **chosen}
                    yield pytest.param(method, settings, requirement, n, id=f"{name}-{settings}-{requirement}-{n}")


@pytest.mark.parametrize(("method", "chosen", "requirement", "n"), [*cases()])
def test_contract(method: type[TableMethod], chosen: dict[str, Any], requirement: mq.Requirement, n: int) -> None:
    keeps_its_contract(method, chosen, requirement, people(n, seed=n))


@settings(max_examples=examples(100), deadline=None)
@given(st.sampled_from(METHODS), st.sampled_from(requirements()), st.integers(4, 60), st.integers(0, 2**32))
def test_contract_with_other_people(
    method: tuple[type[TableMethod], dict[str, Any]], requirement: mq.Requirement, n: int, seed: int
) -> None:
    keeps_its_contract(*method, requirement, people(n, seed))


def keeps_its_contract(
    method: type[TableMethod], chosen: dict[str, Any], requirement: mq.Requirement, records: list[Record]
) -> None:
    n, parts = len(records), without_redundant(requirement.parts)
    frame = pa.Table.from_pylist(records)

    def released(schema: mq.Schema, order: Any = "input") -> mq.Release:
        made = method(**chosen).fitted(parts)
        return mq.anonymize(mq.Table(frame, schema), requirement, made, sensitive=[SENSITIVE], order=order)

    for schema in (SCHEMA, STEPWISE, BOUNDED):  # a method that needs steps refuses the first, and so on
        if refused := refusals(method, chosen, parts, schema):
            with pytest.raises(ParameterError) as caught:
                released(schema)
            assert caught.value.problems == refused
        else:
            break
    else:
        return
    violated = [part for part in parts if not holds_of_everybody(part, records)]
    if hopeless_at_once(violated, method.leaves_out):
        with pytest.raises(mq.RequirementUnreachable, match=parts[0].model):
            released(schema)
        return
    try:
        release = released(schema)
    except mq.RequirementUnreachable:
        assert schema is BOUNDED or violated, "without boundaries, all records in one group satisfy"
        return

    assert_kept_promises(release.table, records, parts, release.verdicts)
    assert frame.to_pylist() == records, "the input is untouched"
    target = [chosen["target"]] if chosen["target"] else []
    assert release.table.column_names == [*SCHEMA.names, *target, SENSITIVE]
    assert release.summary["rows"] == n
    assert release.summary["released"] == release.table.num_rows > 0
    assert release.table.num_rows + release.suppressed == n, "nobody is lost"
    most = entry_of(method.name, TABLE_METHODS).may_suppress(method(**chosen), requirement, n)
    assert release.suppressed <= most, "no more are left out than may be"
    assert release.table["row"].to_pylist() == sorted(release.table["row"].to_pylist()), "input order"
    assert release.settings["algorithm"]["name"] == method.name
    again = released(schema, "shuffle").table.sort_by("row")
    assert again.equals(release.table.combine_chunks()), "the same answer again, in another order"


def refusals(
    method: type[TableMethod], chosen: dict[str, Any], parts: tuple[GroupRequirement, ...], schema: mq.Schema
) -> tuple[Any, ...]:
    """What is wrong with these settings, or with these requirements for them."""
    try:
        return tuple(dict.fromkeys(method(**chosen).fitted(parts).refusals(parts, schema)))
    except ParameterError as error:
        return error.problems


@pytest.mark.parametrize("name", table_methods())
def test_every_refusal_has_its_words(name: str) -> None:
    said = {
        str(problem)
        for method, chosen in METHODS
        if method.name == name
        for requirement in requirements()
        for schema in SCHEMAS
        for problem in refusals(method, chosen, without_redundant(requirement.parts), schema)
    }
    assert_refusals(said, entry_of(name, TABLE_METHODS).refuses)


@pytest.mark.parametrize("model", REQUIREMENTS)
def test_some_method_takes_every_model(model: str) -> None:
    for make in definition_of(model).examples:
        parts = make(QID).parts
        assert any(not refusals(method, {}, parts, STEPWISE) for method in table_methods().values())
        assert not refusals(table_methods()["greedy-cka"], {}, parts, BOUNDED)
