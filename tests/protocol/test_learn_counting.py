"""Counts of columns that more than two parties hold, and how exact logarithms of them may be."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from contract.learning import EXAMPLES, LearningExample, games
from contract.test_learning_methods import contract_of, learned_by, tables_of
from examples import examples
from masquerade.errors import ParameterError
from masquerade.methods import learning_methods
from masquerade.net import Script
from masquerade.net.memory import run_together
from masquerade.protocol import alone_at
from masquerade.protocol.learn import counting
from masquerade.protocol.learn.counting import CountQuery, ManySites, SharedCounts, precision_for
from masquerade.protocol.learn.shared_numbers import RING, prepare_shared_numbers

NAMES = ("anna", "berta", "carla", "doris")
SIZES = {"a": 2, "b": 3, "c": 2, "d": 3}
QUESTIONS = [
    CountQuery(("d", "a")),
    CountQuery(("b", "c", "a")),
    CountQuery(("d",), (("a", 1),)),
    CountQuery(("a", "d"), (("b", 2), ("c", 0))),
    CountQuery(("c", "d"), (("a", 0), ("b", 1))),
]


def plain(codes: dict[str, Any], question: CountQuery) -> list[int]:
    """The counts in the clear, by looking at each record."""
    table = np.zeros([SIZES[name] for name in question.attributes], int)
    for row in range(len(codes["a"])):
        if all(codes[name][row] == value for name, value in question.given):
            table[tuple(codes[name][row] for name in question.attributes)] += 1
    return [int(each) for each in table.ravel()]


@settings(max_examples=examples(6), deadline=None)
@given(st.data())
def test_columns_of_several_parties_are_counted_as_in_one_table(data: st.DataObject) -> None:
    """However the columns are split, each question by itself or all combinations at once, in parts or not."""
    n, parties = data.draw(st.integers(1, 12)), NAMES[: data.draw(st.integers(3, 4))]
    codes = {name: np.array(data.draw(st.lists(st.integers(0, size - 1), min_size=n, max_size=n)))
             for name, size in SIZES.items()}  # fmt: skip
    holder = {name: data.draw(st.integers(0, len(parties) - 1)) for name in SIZES}
    few = data.draw(st.sampled_from([0, prod(SIZES.values())]))

    def part(me: int) -> Script[Any]:
        own = {name: each for name, each in codes.items() if holder[name] == me} or {"": np.zeros(n, np.int64)}
        shared = yield from prepare_shared_numbers(me, parties, b"test")
        return (yield from SharedCounts(own, SIZES, 8, holder).answers(ManySites(shared), QUESTIONS))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ManySites, "few_cells", few)
        patch.setattr(counting, "_ENTRIES", data.draw(st.sampled_from([40, 1 << 19])))
        found = run_together({name: part(me) for me, name in enumerate(parties)})
    for at, question in enumerate(QUESTIONS):
        shares = [found[name][at] for name in parties]
        total = shares[0]
        for each in shares[1:]:
            total = RING.add(total, each)
        assert [int(each) for each in total] == plain(codes, question)


@pytest.mark.parametrize(
    ("terms", "most"), [(None, (1 << 27) - 1), (2, (1 << 27) - 1), (3, 131_071), (4, 8_191), (5, 1_023)]
)
def test_logarithms_take_as_many_records_as_they_say(terms: int | None, most: int) -> None:
    assert precision_for(most.bit_length(), terms).terms == (terms or 2)
    with pytest.raises(ParameterError, match=f"at most {most:,} records, and there are more"):
        precision_for((most + 1).bit_length(), terms)


def test_fewer_terms_are_taken_where_more_do_not_fit() -> None:
    assert precision_for((131_071).bit_length(), None).terms == 3
    assert precision_for((131_072).bit_length(), None).terms == 2


@pytest.mark.parametrize(("n", "terms"), [(250, 3), (260, 2)])
@pytest.mark.parametrize(("arrangement", "parties"), [("horizontal", 2), ("horizontal", 3), ("vertical", 2)])
def test_n_parties_are_as_exact_as_one_table(
    n: int, terms: int, arrangement: Any, parties: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Near the bound, which is 256 records here, magnitudes of the parties' tables do not tell on which side it is."""
    monkeypatch.setattr(counting, "_widest", lambda each: {3: 8, 2: 20}[each])
    used: list[int] = []
    made = counting.Precision

    def noted(bits: int, terms: int, **more: Any) -> Any:
        used.append(terms)
        return made(bits, terms, **more)

    monkeypatch.setattr(counting, "Precision", noted)
    method = learning_methods()["id3"](evaluate=False)
    example = LearningExample(games(n), EXAMPLES["id3"].roles)
    contract = contract_of(method, example, NAMES[:parties], arrangement)
    together = learned_by(method, contract, example.table)
    assert set(used) == {terms}
    alone = contract_of(method, example, NAMES[:1], "horizontal")
    (table,) = tables_of(alone, example.table)
    assert method.learned_alone(alone_at(method, alone, table)).model == together.model
    assert set(used) == {terms}
