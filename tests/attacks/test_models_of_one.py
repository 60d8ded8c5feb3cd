"""Attack: to read single people off a model that was learned with everybody following the protocol.

A tree asked for a column that numbers the customers had a leaf, with her disease as its label, for each of them; one of
age and town told 102 of 102 people apart; a net's row of two people told what both have, and counts to the person. Now
a column that nearly numbers the people is in no model. And where one is anyway, because its owner departs from the
program or a taxonomy lists its values, fewer than `min_records` people are no node and no row of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import masquerade as mq
from contract.learning import LearningExample
from contract.test_learning_methods import NAMES, contract_of, learned_by
from masquerade.arrangement import Arrangement
from masquerade.data import common_people, generate_people, people_taxonomies, read_taxonomy, split_people
from masquerade.errors import DataError
from masquerade.net.memory import Wire
from masquerade.protocol import BayesNetMethod, Id3, LearningMethod, NetModel, TreeModel, alone_at
from masquerade.protocol.learn import site

PEOPLE = 120
DISEASE = {"class": "disease"}


def customers(n: int = PEOPLE) -> mq.Table:
    """Customers with a number each, and their diseases."""
    random = np.random.default_rng(2)
    number = [f"c{each:03}" for each in random.permutation(n)]
    disease = random.choice(["flu", "cold", "gout"], n, p=[0.5, 0.3, 0.2])
    columns = {"customer": number, "sex": random.choice(["f", "m"], n), "disease": disease, "person": np.arange(n)}
    return mq.Table(pa.table(columns), mq.Schema([mq.Attribute("customer"), mq.Attribute("sex")], ["person"]))


def learned(
    method: LearningMethod,
    table: mq.Table,
    roles: Mapping[str, str],
    split: Arrangement | None,
    wire: Wire | None = None,
) -> Any:
    """The model of one table, or of two parties with other records, or other columns."""
    example = LearningExample(table, roles)
    if split is None:
        return method.learned_alone(alone_at(method, contract_of(method, example, ("one",), "horizontal"), table)).model
    return learned_by(method, contract_of(method, example, NAMES[:2], split), table, wire).model


SPLITS = pytest.mark.parametrize("split", [None, "horizontal", "vertical"])


@SPLITS
@pytest.mark.parametrize("method", [Id3(), BayesNetMethod()], ids=lambda each: each.name)
def test_a_column_that_numbers_the_customers_is_refused_before_its_values_are_told(
    method: LearningMethod, split: Arrangement | None
) -> None:
    wire = Wire()
    with pytest.raises(DataError) as caught:
        learned(method, customers(), DISEASE, split, wire)
    (problem,) = caught.value.problems
    assert problem.column == "customer"
    assert "nearly number the people" in problem.text
    assert not any(b"c007" in each.data for each in wire.heard)


@SPLITS
def test_a_holder_that_lists_its_customers_all_the_same_gets_nobodys_disease(
    split: Arrangement | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "refuse_identifying", lambda *_: None)
    table = customers()
    columns, diseases = {"customer": texts(table, "customer")}, texts(table, "disease")
    told = learned(Id3(min_records=1, evaluate=False), table, DISEASE, None)
    assert told.predict(columns).tolist() == diseases.tolist()  # so it was: 120 of 120 by name
    model = learned(Id3(evaluate=False), table, DISEASE, split)
    assert set(model.predict(columns)) == {"flu"}


@pytest.mark.parametrize(
    ("values", "records", "min_records", "refused"),
    [
        (16, 189, 10, False),  # education
        (9, 12, 10, False),  # of a small site: 10 values are never too many
        (11, 21, 10, True),
        (50, 102, 10, False),  # two records a value
        (52, 102, 10, True),
        (120, 120, 5, False),
        (120, 120, 6, True),
        (26, 102, 20, True),
    ],
)
def test_a_column_may_have_a_value_for_every_two_records(
    values: int, records: int, min_records: int, refused: bool
) -> None:
    table = mq.Table(pa.table({"c": [str(row % values) for row in range(records)]}))
    with pytest.raises(DataError) if refused else nullcontext():
        site.refuse_identifying(table, ["c"], min_records)


def test_values_that_a_taxonomy_lists_are_no_secret() -> None:
    cells = [str(row) for row in range(30)]
    listed = mq.Taxonomy(mq.Branch("any", tuple(map(mq.Branch, cells))), "listed.csv")
    for taxonomy, refused in ((None, True), ("flat", True), (listed, False)):
        table = mq.Table(pa.table({"c": cells}), mq.Schema([mq.Attribute("c", taxonomy=taxonomy)]))
        with pytest.raises(DataError) if refused else nullcontext():
            site.refuse_identifying(table, ["c"], 10)


def texts(table: mq.Table, name: str) -> Any:
    return np.array(table.arrow[name].to_pylist(), object)


def leaves_of(method: LearningMethod, table: mq.Table, target: str) -> list[tuple[str, Counter[str], Counter[str]]]:
    """Each leaf of the table's tree: its label, the classes of its people, and of those of its parent."""
    contract = contract_of(method, LearningExample(table, {"class": target}), ("one",), "horizontal")
    place = alone_at(method, contract, table)
    tree, cells, classes = method.learned_alone(place).model, place.cells(), texts(table, target)
    assert isinstance(tree, TreeModel)
    found, everybody = [], np.arange(len(table))
    waiting = [(tree.tree, everybody, everybody)]
    while waiting:
        node, rows, above = waiting.pop()
        if "label" in node:
            found.append((node["label"], Counter(classes[rows]), Counter(classes[above])))
        for value, child in node.get("children", {}).items():
            waiting.append((child, rows[cells[node["attribute"]][rows] == value], rows))
    return found


def of_the_demo() -> tuple[mq.Table, str]:
    """Those of 300 people whom all three parties of the demo know, and what its analyst learns from."""
    everybody = generate_people(300)
    table = common_people(everybody, split_people(everybody))
    texts = people_taxonomies()
    trees = {
        "sex": mq.Attribute("sex", taxonomy="flat"),
        "hours": mq.Attribute(
            "hours", "continuous", taxonomy=read_taxonomy("hours.csv", "continuous", text=texts["hours.csv"])
        ),
        "education": mq.Attribute("education", taxonomy=read_taxonomy("education.csv", text=texts["education.csv"])),
    }
    return mq.Table(table.select([*trees, "approved"]), mq.Schema([*trees.values()])), "approved"


def of_age_and_town() -> tuple[mq.Table, str]:
    """People who are alone with their age and town, nearly all."""
    random = np.random.default_rng(4)
    columns = {
        "age": random.integers(20, 70, 102),
        "town": random.choice([f"town {each}" for each in range(40)], 102),
        "disease": random.choice(["flu", "cold", "gout"], 102),
    }
    schema = mq.Schema([mq.Attribute("age", "continuous", taxonomy="flat"), mq.Attribute("town")])
    return mq.Table(pa.table(columns), schema), "disease"


@pytest.mark.parametrize(("people", "of_one"), [(of_the_demo, 10), (of_age_and_town, 60)])
def test_no_leaf_rests_on_fewer_than_ten_people(people: Callable[[], tuple[mq.Table, str]], of_one: int) -> None:
    table, target = people()
    before = leaves_of(Id3(min_records=1), table, target)
    assert sum(own.total() == 1 for _, own, _ in before) > of_one
    for label, own, above in leaves_of(Id3(), table, target):
        if own.total() < 10:
            own = above
        assert own.total() >= 10
        assert own[label] == max(own.values())


def chances(table: mq.Table, method: LearningMethod | None = None) -> Any:
    """What a net of two attributes tells: how likely each value of b is, given a."""
    model = learned(method or BayesNetMethod(), table, {}, None)
    assert isinstance(model, NetModel)
    return {tuple(row["given"].values()): row["chances"] for row in model.tables["b"]}


def pairs(cells: Mapping[tuple[str, str], int]) -> mq.Table:
    rows = [pair for pair, n in cells.items() for _ in range(n)]
    columns = {name: [row[at] for row in rows] for at, name in enumerate("ab")}
    return mq.Table(pa.table(columns), mq.Schema([mq.Attribute("a"), mq.Attribute("b")]))


COMMON = {("x", "yes"): 100, ("y", "no"): 100}


def test_a_row_of_few_people_of_a_net_says_nothing_of_them() -> None:
    few = [chances(pairs({**COMMON, ("z", "yes"): yes, ("z", "no"): 9 - yes})) for yes in (9, 4, 0)]
    assert [each["z",] for each in few] == [{"yes": 0.5, "no": 0.5}] * 3
    assert few[0]["x",]["yes"] > 0.95
    told = chances(pairs({**COMMON, ("z", "yes"): 2}), BayesNetMethod(min_records=1))
    assert told["z",]["yes"] > 0.7  # so it was: both have it


def test_counts_of_a_net_do_not_differ_by_one_person() -> None:
    """Whoever knows 11 of the 12 people of a row learns of the last one only where a count is at a step's edge."""
    rows = [chances(pairs({**COMMON, ("z", "yes"): yes, ("z", "no"): 12 - yes}))["z",]["yes"] for yes in range(13)]
    before = BayesNetMethod(min_records=1)
    exact = [
        chances(pairs({**COMMON, ("z", "yes"): yes, ("z", "no"): 12 - yes}), before)["z",]["yes"] for yes in range(13)
    ]
    assert len(set(exact)) == 13  # so it was
    edges = [at for at in range(1, 13) if rows[at] != rows[at - 1]]
    assert edges == [1, 4, 9, 12]
