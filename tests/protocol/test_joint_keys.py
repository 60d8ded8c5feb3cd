"""Keys of several parties: the ratios are those of the joined table, and nothing else is opened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import masquerade as mq
from examples import examples
from masquerade.errors import ParameterError, PeerBrokeProtocol, RequirementUnreachable
from masquerade.methods import method_of
from masquerade.net import Script
from masquerade.net.memory import Wire, run_together
from masquerade.protocol import (
    ASSEMBLER,
    MOST_SETS,
    Assembly,
    Contract,
    Contribution,
    JointKeys,
    JointRatios,
    Participant,
)
from masquerade.protocol.joint_keys import RatioScale, joint_ratios
from masquerade.protocol.providers.shared_counts import prepare
from protocol.tampering import changing, cut_short

# The paper's Table 1, and who holds what.
PEOPLE = {
    "age": [20, 30, 40, 20, 40],
    "sex": ["Female", "Female", "Female", "Male", "Male"],
    "state": ["CA", "CA", "TX", "NY", "CA"],
}
HOLDERS = {"age": "ann", "sex": "ann", "state": "ben"}


def contract_of(*sets: tuple[str, ...], parties: tuple[str, ...] = ("ann", "ben"), **options: Any) -> Contract:
    return Contract(
        parties=parties,
        columns=tuple(Contribution(name, holder, "attribute") for name, holder in HOLDERS.items()),
        requirements=(),
        method={"name": "joint-keys", "sets": [list(each) for each in sets], "least_records": 1, **options},
    )


def scripts_of(
    contract: Contract, people: dict[str, list[Any]] = PEOPLE, on_showing: Callable[[str], None] = lambda name: None
) -> dict[str, Any]:
    question = JointKeys.of(contract)
    made: dict[str, Any] = {ASSEMBLER: question.assembler(Assembly(contract))}
    n = len(people["age"])
    for at, name in enumerate(contract.parties):
        order = np.random.default_rng(at).permutation(n)
        own = {column: [people[column][row] for row in order] for column in contract.columns_needed(name)}
        table = mq.Table(pa.table(own or {"nothing": [0] * n}))
        participant = Participant(
            name, contract, table, [b"%d" % row for row in order], before_showing=partial(on_showing, name)
        )
        made[name] = question.party(participant)
    return made


def asked(contract: Contract, people: dict[str, list[Any]] = PEOPLE) -> JointRatios:
    found = run_together(scripts_of(contract, people))[ASSEMBLER]
    assert isinstance(found, JointRatios)
    return found


@pytest.mark.parametrize(("measure", "ratios"), [("distinct", (1.0, 0.8, 1.0)), ("separation", (1.0, 0.9, 1.0))])
def test_the_papers_table_1(measure: str, ratios: tuple[float, ...]) -> None:
    """{age, state} is a key; {sex, state} is 0.8-distinct and 0.9-separation."""
    sets = (("age", "state"), ("sex", "state"), ("age", "sex", "state"))
    found = asked(contract_of(*sets, measure=measure))
    assert (found.sets, found.ratios) == (sets, ratios)
    assert (found.records, found.compared) == (5, 5)


def test_a_party_without_a_column_of_the_set() -> None:
    parties = ("ann", "ben", "carl")
    assert asked(contract_of(("sex", "state"), parties=parties)).ratios == (0.8,)


@settings(max_examples=examples(12), deadline=None)
@given(
    st.integers(2, 3),
    st.integers(1, 30),
    st.sampled_from(["distinct", "separation"]),
    st.sampled_from([None, 3, 100]),
    st.integers(0, 10**6),
)
def test_ratios_are_those_of_the_joined_labels(
    parties: int, n: int, measure: Any, steps: int | None, seed: int
) -> None:
    draw = np.random.default_rng(seed)
    groups = draw.integers(0, draw.integers(1, n + 1, (parties, 2))[:, :, None], (parties, 2, n))
    names, scale = tuple("abc"[:parties]), RatioScale(n, measure, steps)

    def part(me: int) -> Script[Any]:
        shared = yield from prepare(me, names, b"test")
        return (yield from joint_ratios(shared, [*groups[me]], scale))

    opened, *others = run_together({name: part(me) for me, name in enumerate(names)}).values()
    assert all(each == opened for each in others)
    for at, number in enumerate(opened):
        counts = Counter(zip(*groups[:, at].tolist(), strict=True)).values()
        alike = n - len(counts) if measure == "distinct" else sum(c * (c - 1) for c in counts)
        whole = n if measure == "distinct" else n * (n - 1)
        apart = (whole - alike, whole) if whole else (1, 1)
        if steps is None:
            assert scale.ratio(number) == apart[0] / apart[1]
        else:
            assert number == steps * apart[0] // apart[1]


def test_a_sample_compares_so_many_records() -> None:
    people = {"age": [*range(40)], "sex": ["f"] * 40, "state": ["CA"] * 40}
    found = asked(contract_of(("age", "state"), sample=6), people)
    assert (found.records, found.compared, found.ratios) == (40, 6, (1.0,))
    few = asked(contract_of(("sex", "state"), sample=6), people)
    assert few.ratios == (1 / 6,)  # one group of six


def test_only_the_steps_of_a_precision_are_opened() -> None:
    """In worlds whose ratios lie within one step, what travels openly is the same."""
    worlds = []
    for states in (["CA", "CA", "TX", "NY", "CA"], ["CA", "CA", "CA", "NY", "TX"]):
        wire = Wire()
        scripts = scripts_of(contract_of(("sex", "state"), precision="0.5"), PEOPLE | {"state": states})
        worlds.append(run_together(scripts, wire)[ASSEMBLER].ratios)
    assert worlds == [(0.5,), (0.5,)]  # 0.8 and 0.6


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"sets": []}, "1 to 16 sets"),
        ({"sets": [["age"]] * 2}, "all different"),
        ({"sets": [["age", "state"], ["state", "age"]]}, "all different"),
        ({"sets": [[str(at), "b"] for at in range(MOST_SETS + 1)]}, "1 to 16 sets"),
        ({"sets": [["age", "age"]]}, "all different"),
        ({"measure": "entropy"}, "distinct"),
        ({"precision": "0.3"}, "1 divided by a whole number"),
        ({"precision": "0.0001"}, "at least 0.001"),
        ({"sample": 1}, "at least 2"),
    ],
)
def test_what_no_contract_may_ask(options: dict[str, Any], problem: str) -> None:
    written = {"name": "joint-keys", "sets": [["age", "state"]], **options}
    contract = Contract(("ann", "ben"), (), (), written)
    with pytest.raises(ParameterError, match=problem):
        method_of(contract)


def test_what_a_steward_reads() -> None:
    contract = contract_of(("age", "state"), precision="0.01")
    told = method_of(contract).disclosure(contract, "ann", None, show_steps=True)
    assert told.columns == ()
    assert told.peers_learn[-1] == "ben, the coordinator and the recipients: the distinct ratio of age, state, to 0.01"


@pytest.mark.parametrize(
    ("kind", "sender"),
    [
        ("shared-seed", "ben"),
        ("shared-order", "ben"),
        ("shared-delivery", "ann"),
        ("shared-masked", "ben"),
        ("shared-result", "ann"),
    ],
)
def test_a_short_message_names_its_sender(kind: str, sender: str) -> None:
    scripts = scripts_of(contract_of(("age", "state")))
    scripts[sender] = cut_short(scripts[sender], kind)
    with pytest.raises(PeerBrokeProtocol) as caught:
        run_together(scripts)
    assert caught.value.peer == sender


@pytest.mark.parametrize("lie", [lambda _: (3,), lambda _: (), lambda _: (-1,)])
def test_a_party_that_reports_another_ratio(lie: Any) -> None:
    scripts = scripts_of(contract_of(("age", "state")))
    scripts["ben"] = changing(scripts["ben"], "joint-ratios", opened=lie)
    with pytest.raises(PeerBrokeProtocol, match="ben reports other ratios than ann"):
        run_together(scripts)


def test_ratios_that_no_records_have() -> None:
    scripts = scripts_of(contract_of(("age", "state")))
    for name in ("ann", "ben"):
        scripts[name] = changing(scripts[name], "joint-ratios", opened=lambda _: (9,))
    with pytest.raises(PeerBrokeProtocol, match="no records have"):
        run_together(scripts)


@pytest.mark.parametrize("align", ["curve", "oprf"])
def test_common_records_are_found_in_the_way_that_the_contract_names(align: str) -> None:
    contract = contract_of(("sex", "state"), align=align)
    assert contract.aligned_by == align
    assert asked(contract).ratios == (0.8,)


def test_fewer_common_records_than_agreed_end_it_before_anything_is_shown() -> None:
    shown: list[str] = []
    scripts = scripts_of(contract_of(("sex", "state"), least_records=6), on_showing=shown.append)
    with pytest.raises(RequirementUnreachable, match="fewer than 6 records in common"):
        run_together(scripts)
    assert shown == []
