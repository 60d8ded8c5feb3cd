"""What the contract suite must know of a method that learns a model: one entry a method.

A new method needs an entry here, and nothing else in the tests of this folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from masquerade.data import Attribute, Schema, Table


@dataclass(frozen=True)
class LearningExample:
    """A method that learns a model, and the records to learn from."""

    table: Table
    roles: Mapping[str, str]  # class, or duration and event
    parties: tuple[int, ...] = (2, 3)  # numbers of parties to try
    settings: Mapping[str, Any] = field(default_factory=dict)
    rounding: float = 1e-6  # how far numbers may be from those of one table
    same: tuple[str, ...] = ("model", "metrics")  # what is the same on one table
    but: tuple[str, ...] = ()  # of the model


def games(n: int = 60) -> Table:
    """Categories, and a class that two of them decide, nearly."""
    random = np.random.default_rng(5)
    outlook = random.choice(["sunny", "overcast", "rain"], n)
    humidity = random.choice(["high", "normal"], n)
    wind = random.choice(["weak", "strong"], n)
    play = np.where((outlook == "overcast") | ((outlook == "sunny") & (humidity == "normal")), "yes", "no")
    play[random.random(n) < 0.1] = "yes"
    cells = {"outlook": outlook, "humidity": humidity, "wind": wind, "play": play, "person": np.arange(n)}
    names = ("outlook", "humidity", "wind")
    return Table(pa.table(cells), Schema([Attribute(name) for name in names], ["person"]))


def patients(n: int = 90) -> Table:
    """Numbers in very different units, a category, and a class that depends on them."""
    random = np.random.default_rng(4)
    age, income = random.normal(60, 10, n), random.normal(50_000, 20_000, n).round()
    town = random.choice(["Aarau", "Bern", "Chur"], n)
    tendency = -0.1 * (age - 60) + 0.00003 * (income - 50_000) + (town == "Chur")
    died = np.where(random.random(n) < 1 / (1 + np.exp(tendency)), "yes", "no")
    cells = {"age": age, "income": income, "town": town, "died": died, "person": np.arange(n)}
    numbers = [Attribute(name, "continuous") for name in ("age", "income")]
    return Table(pa.table(cells), Schema([*numbers, Attribute("town")], ["person"]))


def survivors(n: int = 60) -> Table:
    """The same attributes, how long each patient was seen, and whether until death; some die at the same time."""
    table = patients(n)
    random = np.random.default_rng(6)
    age, town = (np.array(table.arrow[name].to_pylist()) for name in ("age", "town"))
    death = random.exponential(12 * np.exp(-0.04 * (age - 60) - 0.5 * (town == "Bern")))
    leaves = random.exponential(15, n)
    months = pa.array(np.ceil(np.minimum(death, leaves)))
    dead = pa.array((death <= leaves).astype(int))
    arrow = table.arrow.drop_columns(["died"]).append_column("months", months).append_column("dead", dead)
    return Table(arrow, table.schema)


SURVIVAL = {"duration": "months", "event": "dead"}

EXAMPLES: dict[str, LearningExample] = {
    "id3": LearningExample(games(), {"class": "play"}),
    "bayes-net": LearningExample(games(), {}),
    "logistic": LearningExample(patients(), {"class": "died"}),
    # Exact is the margin of one table alone: sites do not let single records cross it.
    "svm": LearningExample(patients(), {"class": "died"}, parties=(3,), settings={"min_records": 1}),
    "cox": LearningExample(survivors(), SURVIVAL, parties=(2,), rounding=1e-4, same=("model",), but=("baseline",)),
    "pp-svm": LearningExample(patients(), {"class": "died"}, parties=(3,), same=()),  # another random matrix
    "pp-cox": LearningExample(survivors(), SURVIVAL, parties=(2,), same=()),
}
