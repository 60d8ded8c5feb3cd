"""The blow-up generator of Figure 12."""

from __future__ import annotations

import itertools
from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from experiments import of_experiments
from masquerade.errors import ParameterError

blow_up = of_experiments("_blow_up").blow_up

TABLE = pa.table(
    {
        "id": [0, 1, 2],
        "a": ["x", "y", "z"],
        "b": pa.chunked_array([["u", "v", "u"]]).dictionary_encode(),
        "c": [0.5, None, 2.5],
        "class": ["N", "Y", "N"],
    }
)
QID = ["a", "b", "c"]


def test_the_originals_come_first_and_types_stay() -> None:
    big = blow_up(TABLE, QID, 1000, seed=1)
    assert big.num_rows == 1000
    assert big.schema.equals(TABLE.schema)
    assert big.slice(0, 3).to_pylist() == TABLE.to_pylist()
    assert blow_up(TABLE, QID, 3, seed=1).equals(TABLE)


def test_variations_inherit_what_is_not_varied() -> None:
    big = blow_up(TABLE, QID, 3 * 500, seed=1)
    assert big["id"].to_pylist() == [0, 1, 2] * 500
    assert big["class"].to_pylist() == ["N", "Y", "N"] * 500


def test_values_come_from_their_own_column_and_are_not_missing() -> None:
    big = blow_up(TABLE, QID, 9000, seed=1).slice(3)
    of_first = big.filter(pc.equal(big["id"], 0))
    assert set(of_first["a"].to_pylist()) == {"x", "y", "z"}
    assert set(of_first["b"].to_pylist()) == {"u", "v"}
    assert set(of_first["c"].to_pylist()) == {0.5, 2.5}


def test_each_subset_and_each_value_is_as_likely_as_any_other() -> None:
    # All values differ from the originals but by chance 1/1000: what changed is what was chosen.
    n = 1000
    table = pa.table({name: [f"{name}{at}" for at in range(n)] for name in QID})
    big = blow_up(table, QID, 15 * n, seed=5).slice(n)
    changed = Counter(
        frozenset(name for name in QID if row[name] != f"{name}{at % n}") for at, row in enumerate(big.to_pylist())
    )
    subsets = [frozenset(some) for size in (1, 2, 3) for some in itertools.combinations(QID, size)]
    for subset in subsets:
        assert changed[subset] == pytest.approx(2000, rel=0.1)
    assert changed[frozenset()] < 50
    assert max(Counter(big["a"].to_pylist()).values()) < 60


def test_a_seed_gives_the_same_table() -> None:
    assert blow_up(TABLE, QID, 100, seed=1).equals(blow_up(TABLE, QID, 100, seed=1))
    assert not blow_up(TABLE, QID, 100, seed=1).equals(blow_up(TABLE, QID, 100, seed=2))


@pytest.mark.parametrize(
    ("table", "names", "n_rows", "told"),
    [
        (TABLE, ["d"], 10, 'no column "d"'),
        (TABLE, [], 10, "names parameter of blow_up must be 1 to 62 different columns"),
        (TABLE, ["a", "a"], 10, "names parameter of blow_up must be 1 to 62 different columns"),
        (TABLE, QID, 2, "n_rows parameter of blow_up must be at least the number of rows, 3"),
        (TABLE.slice(0, 0), QID, 2, "of a table that is not empty"),
    ],
)
def test_wrong_arguments(table: pa.Table, names: list[str], n_rows: int, told: str) -> None:
    with pytest.raises(ParameterError, match=told):
        blow_up(table, names, n_rows, seed=1)
