"""A release's classification error: on rows that were held out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from masquerade.utility import classification as release_error_module, release_error
from masquerade.utility.classification import SPLITS, Classification


def people(rows: int, noise: float) -> pa.Table:
    rng = np.random.default_rng(3)
    age = rng.integers(0, 4, rows)
    labels = np.array(["[-inf, 20)", "[20, 40)", "[40, 60)", "[60, inf)"])
    rich = (age >= 2) != (rng.random(rows) < noise)
    return pa.table({"age": labels[age], "job": rng.choice(["a", "b"], rows), "income": np.where(rich, "high", "low")})


@pytest.mark.parametrize("coded", [False, True])
def test_a_release_has_one_figure_however_it_is_shuffled(coded: bool) -> None:
    table = people(3000, 0.2)

    def shuffled(seed: int) -> pa.Table:
        mixed = table.take(np.random.default_rng(seed).permutation(len(table)))
        columns = {name: mixed.column(name).dictionary_encode() for name in mixed.column_names}
        return pa.table(columns) if coded else mixed

    errors = {release_error(shuffled(seed), "income") for seed in range(3)}
    assert errors == {release_error(table.select(["income", "job", "age"]), "income")}


def test_few_trees_are_grown(monkeypatch: pytest.MonkeyPatch) -> None:
    """One for each split, and some on fewer records to choose the price of a leaf once."""
    grown: list[int] = []
    wrong = Classification._wrong

    def counting(self: Classification, features: Any, classes: Any, train: Any, *more: Any) -> Any:
        grown.append(train.size)
        return wrong(self, features, classes, train, *more)

    monkeypatch.setattr(Classification, "_wrong", counting)
    monkeypatch.setattr(release_error_module, "_TUNED_ON", 600)
    release_error(people(3000, 0.2), "income")
    assert len(grown) == 2 * SPLITS
    assert sum(size <= 600 for size in grown) == SPLITS


def test_the_error_on_held_out_rows_is_what_was_put_in() -> None:
    assert release_error(people(2000, 0.0), "income") == 0
    error = release_error(people(3000, 0.2), "income")
    assert error is not None
    assert abs(error - 0.2) < 0.05
    assert release_error(people(3000, 0.2), "income") == error
    guess = release_error(people(3000, 0.0).select(["job", "income"]), "income")
    assert guess is not None
    assert guess > 0.4
    assert release_error(people(3, 0.0), "income") is None
    assert release_error(people(50, 0.0).select(["income"]), "income") is not None
