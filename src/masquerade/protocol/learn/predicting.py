"""What a model says of new records: one way for each kind of models, chosen by what it is given.

`inputs_of` names the attributes that a model asks for, and which of them have categories; `predictions` applies it to
their cells. A model of mapped records needs what its sites keep (`site_key.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch

import numpy as np

from masquerade.errors import ParameterError, hint
from masquerade.protocol.learn.models.linear import LinearClassifier, LogisticModel
from masquerade.protocol.learn.models.model import Cells, Model, Numbers, Texts
from masquerade.protocol.learn.models.net import NetModel
from masquerade.protocol.learn.models.projected import MappedCox, MappedSpaceModel, MappedSvm
from masquerade.protocol.learn.models.survival import CoxSurvival
from masquerade.protocol.learn.models.tree import TreeModel
from masquerade.protocol.learn.site_key import SiteKey

Columns = dict[str, Texts | Numbers]


@dataclass(frozen=True)
class Asked:
    """What is wanted of a model besides its plain prediction."""

    target: str | None = None  # of a net: the attribute to predict
    times: tuple[float, ...] = ()  # of survival; (): those of the model's baseline
    key: SiteKey | None = None


@singledispatch
def inputs_of(model: Model, asked: Asked) -> dict[str, bool]:
    """Return the attributes that a model asks for, and whether each has categories rather than numbers."""
    raise NotImplementedError(type(model).__name__)


@singledispatch
def predictions(model: Model, cells: Cells, asked: Asked) -> Columns:
    """Return what the model says of each record, by the name of the column to write."""
    raise NotImplementedError(type(model).__name__)


@inputs_of.register
def _(model: TreeModel, asked: Asked) -> dict[str, bool]:
    return dict.fromkeys(model.attributes, True)


@predictions.register
def _(model: TreeModel, cells: Cells, asked: Asked) -> Columns:
    return {"prediction": model.predict(cells)}


@inputs_of.register
def _(model: NetModel, asked: Asked) -> dict[str, bool]:
    return dict.fromkeys(model.blanket(_target(model, asked)), True)


@predictions.register
def _(model: NetModel, cells: Cells, asked: Asked) -> Columns:
    values, chances = model.predict(_target(model, asked), cells)
    return {"prediction": values, "chance": chances}


def _target(model: NetModel, asked: Asked) -> str:
    if asked.target is None:
        raise ParameterError("the net was learned without a class; name the attribute that it is to predict")
    if asked.target not in model.parents:
        known = f"{hint(asked.target, model.parents)}; it has {', '.join(model.parents)}"
        raise ParameterError(f'the net has no attribute "{asked.target}"{known}')
    return asked.target


@inputs_of.register(LinearClassifier)
@inputs_of.register(CoxSurvival)
def _(model: LinearClassifier | CoxSurvival, asked: Asked) -> dict[str, bool]:
    return {name: isinstance(each, Mapping) for name, each in model.coefficients.items()}


@predictions.register
def _(model: LinearClassifier, cells: Cells, asked: Asked) -> Columns:
    return {"prediction": model.predict(cells), "score": model.scores(cells)}


@predictions.register
def _(model: LogisticModel, cells: Cells, asked: Asked) -> Columns:
    return {"prediction": model.predict(cells), "chance": model.chances(cells)}


@predictions.register
def _(model: CoxSurvival, cells: Cells, asked: Asked) -> Columns:
    times = _times(model.baseline, asked)
    return {"risk": model.risks(cells), **_curves(times, model.survival(cells, times))}


@inputs_of.register
def _(model: MappedSpaceModel, asked: Asked) -> dict[str, bool]:
    key = _key(asked)
    return {name: name in key.values for name in key.attributes}


@predictions.register
def _(model: MappedSvm, cells: Cells, asked: Asked) -> Columns:
    key = _key(asked)
    scores = replace(model, projection=key.projection).mapped_sum(key.design(cells)) - model.threshold
    return {"prediction": np.array(model.classes, object)[(scores > 0).astype(int)], "score": scores}


@predictions.register
def _(model: MappedCox, cells: Cells, asked: Asked) -> Columns:
    key, times = _key(asked), _times(model.baseline, asked)
    here, x = replace(model, projection=key.projection), key.design(cells)
    return {"risk": here.risks(x), **_curves(times, here.survival(x, times))}


def _key(asked: Asked) -> SiteKey:
    if asked.key is None:
        raise ParameterError(
            "prediction goes through the sites: give the file that a site of its session keeps"
        )
    return asked.key


def _times(baseline: Sequence[tuple[float, float]], asked: Asked) -> tuple[float, ...]:
    return asked.times or tuple(time for time, _ in baseline)


def _curves(times: Sequence[float], shares: Numbers) -> Columns:
    return {f"survival_{time:g}": shares[:, at] for at, time in enumerate(times)}
