"""What every method that learns a model keeps: n parties learn what one table gives, and refusals have their words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from contract.learning import EXAMPLES, LearningExample
from masquerade.arrangement import PROVIDER, Arrangement
from masquerade.data import Attribute, Schema, Table
from masquerade.errors import DataError, PeerBrokeProtocol
from masquerade.methods import learning_method_of, learning_methods, written_method
from masquerade.net import Send, kind_of
from masquerade.net.memory import Wire, run_together
from masquerade.protocol import (
    ASSEMBLER,
    EVERYBODY,
    Assembly,
    Contract,
    Contribution,
    Learned,
    LearningMethod,
    LearningProposal,
    Participant,
    alone_at,
)
from masquerade.protocol.learn.frame import LearnedModel
from masquerade.protocol.learn.models import alike

NAMES = ("anna", "berta", "carla")


def example_of(method: type[LearningMethod]) -> LearningExample:
    assert method.name in EXAMPLES, f"add {method.name} to tests/contract/learning.py"
    return EXAMPLES[method.name]


def contract_of(
    method: LearningMethod, example: LearningExample, names: tuple[str, ...], arrangement: Arrangement
) -> Contract:
    """Who holds what: everybody everything, or the columns in turns."""
    target = example.roles.get("class")
    roles = {name: role for role, name in example.roles.items() if role != "class"}
    used = [*example.table.schema.names, *roles]
    turns = {name: names[at % len(names)] for at, name in enumerate(used)}
    columns = tuple(
        Contribution(name, EVERYBODY if arrangement == "horizontal" else turns[name], roles.get(name, "attribute"))  # type: ignore[arg-type] # a role
        for name in used
        if name != target
    )
    return Contract(
        names,
        columns,
        (),
        written_method(method),
        class_name=target,
        class_from=None if arrangement == "horizontal" or target is None else names[-1],
        provider=PROVIDER if arrangement == "horizontal" else None,
    )


def tables_of(contract: Contract, table: Table) -> Iterator[Table]:
    """Each party's own table: some of the records, or its columns of the records, in an order of its own."""
    random = np.random.default_rng(1)
    parts = np.array_split(np.arange(len(table)), len(contract.parties))
    for number, name in enumerate(contract.parties):
        if contract.arrangement == "horizontal":
            yield table.take(parts[number])
            continue
        needed = [*contract.columns_needed(name), "person"]
        schema = Schema([each for each in table.schema if each.name in needed])
        mixed = pa.array(random.permutation(len(table)))
        yield Table(table.arrow.select(needed).take(mixed), schema)


def scripts_of(method: LearningMethod, contract: Contract, tables: Iterable[Table]) -> dict[str, Any]:
    scripts: dict[str, Any] = {ASSEMBLER: method.assembler(Assembly(contract))}
    for name, own in zip(contract.parties, tables, strict=True):
        ids = [str(each).encode() for each in own.arrow["person"].to_pylist()]
        scripts[name] = method.party(Participant(name, contract, own, ids))
    return scripts


def learned_by(method: LearningMethod, contract: Contract, table: Table, wire: Wire | None = None) -> Learned:
    found: Learned = run_together(scripts_of(method, contract, tables_of(contract, table)), wire)[ASSEMBLER]
    return found


def sessions() -> Iterator[Any]:
    for method in learning_methods().values():
        example = example_of(method)
        for arrangement in method.arrangements:
            for n in example.parties:
                yield pytest.param(method, arrangement, n, id=f"{method.name}, {arrangement}, {n}")


@pytest.mark.parametrize(("method", "arrangement", "n"), list(sessions()))
def test_n_parties_learn_what_one_table_gives(method: type[LearningMethod], arrangement: Arrangement, n: int) -> None:
    example = example_of(method)
    made = method(**example.settings)
    contract = contract_of(made, example, NAMES[:n], arrangement)
    wire = Wire()
    learned = learned_by(made, contract, example.table, wire)
    one = contract_of(made, example, ("one",), "horizontal")
    alone = made.learned_alone(alone_at(made, one, example.table))
    if "model" in example.same:
        one_of, other = (
            {key: value for key, value in each.model.as_json().items() if key not in example.but}
            for each in (learned, alone)
        )
        assert alike(one_of, other, example.rounding)
    assert learned.n_records == alone.n_records == len(example.table)
    if "metrics" in example.same:
        assert alike(dict(learned.metrics), dict(alone.metrics))
    assert learned.metrics.keys() == alone.metrics.keys()
    assert not learned.metrics or learned.metrics["on"] == "the training records"
    assert made.learns.read(learned.model.as_json()) == learned.model
    people = {str(each) for each in example.table.arrow["person"].to_pylist()}
    last = {each.sender: each.kind for each in wire.seen_by(ASSEMBLER)}
    assert {*last.values()} == {kind_of(each) for each in made.ends_with}
    assert not people & {each.data.decode("latin-1") for each in wire.heard}


@pytest.mark.parametrize("method", list(learning_methods().values()), ids=lambda each: each.name)
def test_without_evaluation_nothing_but_the_model_is_opened(method: type[LearningMethod]) -> None:
    example = example_of(method)
    made = method(**{**example.settings, "evaluate": False})
    contract = contract_of(made, example, NAMES[: example.parties[0]], method.arrangements[0])
    learned = learned_by(made, contract, example.table)
    assert learned.metrics == {}
    assert learned.curves == {}


@pytest.mark.parametrize("method", list(learning_methods().values()), ids=lambda each: each.name)
def test_a_method_says_what_it_lacks(method: type[LearningMethod]) -> None:
    made = method(**example_of(method).settings)
    told = [each for each in made.refusals(LearningProposal(roles={})) if each.key[0] == "roles"]
    assert {each.key[-1] for each in told} == {role for role, needed in method.roles.items() if needed}
    named = dict.fromkeys(("class", "duration", "event"), "x")
    told = [each for each in made.refusals(LearningProposal(roles=named)) if each.key[0] == "roles"]
    assert {each.key[-1] for each in told} == named.keys() - method.roles.keys()
    if method.takes == "values":
        schema = Schema([Attribute("age", "continuous")])
        (problem,) = (each for each in made.refusals(LearningProposal(schema=schema)) if each.key[0] == "attributes")
        assert "counts values: give a taxonomy of intervals" in str(problem)
    if len(method.arrangements) == 1:
        other: Arrangement = "vertical" if method.arrangements == ("horizontal",) else "horizontal"
        assert any(
            "needs parties that hold" in str(each) for each in made.refusals(LearningProposal(arrangement=other))
        )


@pytest.mark.parametrize("method", list(learning_methods().values()), ids=lambda each: each.name)
def test_a_contract_names_the_method_and_what_it_shows(method: type[LearningMethod]) -> None:
    example = example_of(method)
    made = method(**example.settings)
    contract = contract_of(made, example, NAMES[:2], method.arrangements[0])
    assert learning_method_of(Contract.read(contract.canonical())) == made
    shown = made.disclosure(contract, "anna", example.table.schema, show_steps=False)
    assert shown.columns == ()
    assert any("the model" in line for line in shown.peers_learn)


@pytest.mark.parametrize("name", ["cox", "pp-cox"])
@pytest.mark.parametrize(
    ("column", "cells", "said"),
    [
        ("dead", ["1", "0", "maybe"], "row 3, column dead: an event must be one of 1 and 0"),
        ("months", [1.0, -2.0, 3.0], "row 2, column months: a duration must be at least 0"),
    ],
)
def test_what_is_no_survival_is_named(name: str, column: str, cells: list[Any], said: str) -> None:
    example, made = EXAMPLES[name], learning_methods()[name]()
    arrow = example.table.arrow.slice(0, 3)
    arrow = arrow.set_column(arrow.column_names.index(column), column, pa.array(cells))
    table = Table(arrow, example.table.schema)
    contract = contract_of(made, example, ("one",), "horizontal")
    with pytest.raises(DataError, match=said):
        made.learned_alone(alone_at(made, contract, table))


def with_class_everywhere(name: str, n: int = 2) -> tuple[LearningMethod, Contract, LearningExample]:
    """Parties with different columns, all of which hold the class."""
    example = replace(EXAMPLES[name], roles={"class": "play"})
    made = learning_methods()[name](**example.settings)
    return (made, msgspec.structs.replace(contract_of(made, example, NAMES[:n], "vertical"), class_from=None), example)


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("name", ["id3", "bayes-net"])
def test_a_class_that_all_hold_is_compared_and_learned_from_once(name: str, n: int) -> None:
    made, contract, example = with_class_everywhere(name, n)
    learned = learned_by(made, contract, example.table)
    one = contract_of(made, example, ("one",), "horizontal")
    alone = made.learned_alone(alone_at(made, one, example.table))
    assert alike(learned.model.as_json(), alone.model.as_json(), example.rounding)
    assert dict(learned.metrics) == dict(alone.metrics)
    shown = made.disclosure(contract, NAMES[0], example.table.schema, show_steps=False)
    assert any("classes of the common records are the same as theirs" in line for line in shown.peers_learn)


def test_parties_whose_classes_differ_stop_and_say_so() -> None:
    made, contract, example = with_class_everywhere("id3")
    own, other = tables_of(contract, example.table)
    classes = ["no" if at == 7 else each for at, each in enumerate(other.arrow["play"].to_pylist())]
    assert classes != other.arrow["play"].to_pylist()
    at = other.arrow.column_names.index("play")
    other = Table(other.arrow.set_column(at, "play", pa.array(classes)), other.schema)
    with pytest.raises(DataError, match=r"has other classes than .* for some of the 60 common records"):
        run_together(scripts_of(made, contract, (own, other)))


def test_whoever_hands_in_another_model_is_noticed() -> None:
    """Nobody can tell which of two parties lies, so both are named, and nothing is written."""
    method = learning_methods()["id3"]
    example = example_of(method)
    made = method()
    contract = contract_of(made, example, NAMES[:2], "horizontal")

    def lying(script: Any) -> Any:
        heard = None
        while True:
            try:
                move = script.send(heard)
            except StopIteration as end:
                return end.value
            if isinstance(move, Send) and isinstance(move.message, LearnedModel):
                other = msgspec.structs.replace(move.message, model=b'{"tree": {"label": "yes"}}')
                move = Send(move.peers, other)
            heard = yield move

    scripts = scripts_of(made, contract, tables_of(contract, example.table))
    scripts["berta"] = lying(scripts["berta"])
    with pytest.raises(PeerBrokeProtocol, match="anna and berta handed in different models"):
        run_together(scripts)
