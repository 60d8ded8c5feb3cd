"""What a model says of new records: one way for each kind of models, chosen by what it is given.

`inputs_of` names the attributes that a model asks for, and the values that it knows of those that have categories.
`answers` applies it to the records whose values it knows, and says which are the others. A model of mapped records
needs what its sites keep (`projection.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade.errors import ParameterError, hint, shown
from masquerade.protocol.learn.bayes_net import NetModel
from masquerade.protocol.learn.cox import CoxSurvival, usual_times
from masquerade.protocol.learn.id3 import TreeModel
from masquerade.protocol.learn.linear import LinearClassifier, LogisticModel
from masquerade.protocol.learn.models import Cells, Model, Numbers, Texts, Unseen, unseen_in
from masquerade.protocol.learn.projected import MappedCox, MappedSpaceModel, MappedSvm
from masquerade.protocol.learn.projection import SiteKey

SHOWN = 10  # values, in a warning and in an error

Columns = dict[str, Texts | Numbers]


@dataclass(frozen=True)
class Asked:
    """What is wanted of a model besides its plain prediction."""

    target: str | None = None  # of a net: the attribute to predict
    times: tuple[float, ...] = ()  # of survival; (): some of the model's baseline
    key: SiteKey | None = None


@dataclass(frozen=True)
class UnseenValues:
    """The rows of which a model says nothing because it has never seen their value in a column."""

    column: str
    rows: int
    first_row: int  # from 1
    values: tuple[str, ...]  # the different ones

    def warning(self, source: str = "") -> str:
        """Return one line for a person."""
        some = ", ".join(shown(value) for value in self.values[:SHOWN])
        more = f" and {len(self.values) - SHOWN:,} more" if len(self.values) > SHOWN else ""
        rows = f"{self.rows:,} {'row has a value' if self.rows == 1 else 'rows have values'}"
        place = f"{source}: column {self.column}" if source else f"column {self.column}"
        first = f"row {self.first_row}" if self.rows == 1 else f"the first in row {self.first_row}"
        return f"{place}: {rows} that the model has never seen: {some}{more} ({first}); no prediction there"


def unseen_values(unseen: Unseen, cells: Cells, place_of: Callable[[int], int] = int) -> tuple[UnseenValues, ...]:
    """Return what a model has never seen, by column; `place_of` gives a record's row in the table, from 0."""
    found = []
    for name, strange in unseen.items():
        where = np.flatnonzero(strange)
        values = tuple(sorted({str(value) for value in np.asarray(cells[name])[where]}))
        found.append(UnseenValues(name, where.size, place_of(int(where[0])) + 1, values))
    return tuple(found)


@dataclass(frozen=True)
class PredictedRecords:
    """What a model says of the records whose values it knows."""

    columns: Columns  # what it says, by the name of the column to write
    rows: NDArray[np.intp]  # of which records
    unseen: Unseen


def answers(model: Model, cells: Cells, size: int, asked: Asked) -> PredictedRecords:
    """Apply a model to as many of `size` records as it can say anything of."""
    unseen = unseen_of(model, cells, asked)
    strange = np.zeros(size, bool)
    for each in unseen.values():
        strange |= each
    rows = np.flatnonzero(~strange)
    known: dict[str, NDArray[Any]] = {name: np.asarray(each)[rows] for name, each in cells.items()}
    columns = predictions(model, known, asked)
    if not cells:  # whatever a record is like, the answer is the same
        columns = {name: values.repeat(size) for name, values in columns.items()}
    return PredictedRecords(columns, rows, unseen)


@singledispatch
def inputs_of(model: Model, asked: Asked) -> dict[str, tuple[str, ...] | None]:
    """Return the attributes that a model asks for, with the values that it knows; None for numbers."""
    raise NotImplementedError(type(model).__name__)


@singledispatch
def unseen_of(model: Model, cells: Cells, asked: Asked) -> Unseen:
    """Mark the records of which the model says nothing, by the attributes whose values it has never seen."""
    inputs = inputs_of(model, asked)
    return unseen_in(cells, {name: values for name, values in inputs.items() if values is not None})


@singledispatch
def predictions(model: Model, cells: Cells, asked: Asked) -> Columns:
    """Return what the model says of each record, by the name of the column to write; it knows all their values."""
    raise NotImplementedError(type(model).__name__)


@inputs_of.register
def _(model: TreeModel, asked: Asked) -> dict[str, tuple[str, ...] | None]:
    return dict(model.values)


@unseen_of.register
def _(model: TreeModel, cells: Cells, asked: Asked) -> Unseen:
    return model.unseen(cells)


@predictions.register
def _(model: TreeModel, cells: Cells, asked: Asked) -> Columns:
    return {"prediction": model.predict(cells)}


@inputs_of.register
def _(model: NetModel, asked: Asked) -> dict[str, tuple[str, ...] | None]:
    return {name: model.values(name) for name in model.blanket(_target(model, asked))}


@predictions.register
def _(model: NetModel, cells: Cells, asked: Asked) -> Columns:
    target = _target(model, asked)
    values, chances = model.values(target), model.chances(target, cells)
    likeliest = np.array(values, object)[chances.argmax(axis=1)]
    return {"prediction": likeliest, **_probabilities(values, chances)}


def _target(model: NetModel, asked: Asked) -> str:
    if asked.target is None:
        raise ParameterError("the net was learned without a class; name the attribute that it is to predict")
    if asked.target not in model.parents:
        known = f"{hint(asked.target, model.parents)}; it has {', '.join(model.parents)}"
        raise ParameterError(f'the net has no attribute "{asked.target}"{known}')
    return asked.target


@inputs_of.register(LinearClassifier)
@inputs_of.register(CoxSurvival)
def _(model: LinearClassifier | CoxSurvival, asked: Asked) -> dict[str, tuple[str, ...] | None]:
    return {name: tuple(each) if isinstance(each, Mapping) else None for name, each in model.coefficients.items()}


@predictions.register
def _(model: LinearClassifier, cells: Cells, asked: Asked) -> Columns:
    return {"prediction": model.predict(cells), "score": model.scores(cells)}


@predictions.register
def _(model: LogisticModel, cells: Cells, asked: Asked) -> Columns:
    positive = model.chances(cells)
    chances = np.column_stack([1 - positive, positive])
    return {"prediction": model.predict(cells), **_probabilities(model.classes, chances)}


@predictions.register
def _(model: CoxSurvival, cells: Cells, asked: Asked) -> Columns:
    times = asked.times or usual_times(model.baseline)
    return {"risk": model.risks(cells), **_curves(times, model.survival(cells, times))}


@inputs_of.register
def _(model: MappedSpaceModel, asked: Asked) -> dict[str, tuple[str, ...] | None]:
    key = _key(asked)
    return {name: key.values.get(name) for name in key.attributes}


@predictions.register
def _(model: MappedSvm, cells: Cells, asked: Asked) -> Columns:
    key = _key(asked)
    scores = replace(model, projection=key.projection).mapped_sum(key.design(cells)) - model.threshold
    return {"prediction": np.array(model.classes, object)[(scores > 0).astype(int)], "score": scores}


@predictions.register
def _(model: MappedCox, cells: Cells, asked: Asked) -> Columns:
    key, times = _key(asked), asked.times or usual_times(model.baseline)
    here, x = replace(model, projection=key.projection), key.design(cells)
    return {"risk": here.risks(x), **_curves(times, here.survival(x, times))}


def _key(asked: Asked) -> SiteKey:
    if asked.key is None:
        raise ParameterError("prediction goes through the sites: give the file that a site of its session keeps")
    return asked.key


def _probabilities(classes: Sequence[str], chances: Numbers) -> Columns:
    """Return a column for each class; of two classes, for the second alone."""
    shown = range(1 if len(classes) == 2 else 0, len(classes))
    return {f"probability_of_{classes[at]}": chances[:, at] for at in shown}


def _curves(times: Sequence[float], shares: Numbers) -> Columns:
    return {f"survival_{time:g}": shares[:, at] for at, time in enumerate(times)}
