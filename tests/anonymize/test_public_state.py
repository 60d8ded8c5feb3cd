"""The public state by hand: who carries what, and who is left out; in one chunk and in several."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import masquerade as mq
from masquerade.anonymize import Instruction, PublicState
from masquerade.data import Records
from masquerade.engine import Engine, Here, LocalEngine
from masquerade.privacy import KAnonymity
from masquerade.protocol.common_records import on_engine


@pytest.fixture(params=["here", "local"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    monkeypatch.setattr(LocalEngine, "rows_at_once", lambda *_: 3)
    with Here() if request.param == "here" else LocalEngine(threads=1) as engine:
        yield engine


def instruction(attribute: str, value: int, *children: int) -> Instruction:
    return Instruction(attribute, value, max(children) + 1, np.array(children, np.uint8))


def n_records(n: int, engine: Engine) -> Records:
    """So many records, of which nothing is known."""
    return on_engine(Records.of(mq.Table(pa.table({"row": range(n)})), []), engine)


def kept(state: PublicState) -> list[int]:
    """The records that are released."""
    assert state.released is not None
    return np.flatnonzero(np.concatenate([*state.each_label()])).tolist()


def test_records_that_are_left_out_stay_left_out(engine: Engine) -> None:
    """Seven records, groups of two. Two children of a leave out a record each; b then splits the others."""
    state = PublicState(n_records(7, engine), ["a", "b"], [KAnonymity(["a", "b"], 2)], {}, may_suppress=3)
    first = state.told(instruction("a", 0, 0, 0, 0, 0, 0, 1, 2))
    assert state.allows(first)
    assert state.leaves_out(first) == 2
    assert list(state.specialise(first)) == [1, 2, 3]
    assert kept(state) == [0, 1, 2, 3, 4]
    assert state.all_carriers("a") == [5, 1, 1]
    assert [state.n_carriers("a", value) for value in state.cut["a"]] == [5, 1, 1]
    assert state.all_carriers("b") == [state.n_carriers("b", 0)] == [7]

    # The two that are out agree on b, and would be a large enough group with each other: they are not asked.
    second = state.told(instruction("b", 0, 0, 0, 0, 1, 1, 2, 2))
    assert state.leaves_out(second) == 0
    worse = state.told(instruction("b", 0, 0, 1, 1, 2, 3, 3, 3))
    assert state.leaves_out(worse) == 3
    assert not state.allows(worse)
    third = state.told(instruction("b", 0, 0, 0, 1, 1, 2, 2, 2))
    assert state.leaves_out(third) == 1
    state.specialise(third)
    assert kept(state) == [0, 1, 2, 3]
    [partition] = state.partitions
    assert partition.sizes[0] == 3
    assert sorted(partition.sizes[1:][partition.sizes[1:] > 0].tolist()) == [2, 2]


def test_without_an_allowance_everybody_is_kept(engine: Engine) -> None:
    state = PublicState(n_records(3, engine), ["a"], [KAnonymity(["a"], 2)], {})
    assert not state.allows(state.told(instruction("a", 0, 0, 0, 1)))
    assert state.released is None
