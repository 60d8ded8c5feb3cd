"""The base class of models, which are what the parties of a session learn, and what else a model's file says.

A model is read from JSON and written as JSON, the same that `learn --json`, the model's file and a party's message
have. What a peer or a file says is checked when it is read.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import isclose
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from masquerade.engine import distinct_values
from masquerade.errors import ParameterError

Texts = NDArray[np.object_]
Numbers = NDArray[np.float64]
Cells = Mapping[str, Sequence[Any] | NDArray[Any]]  # by attribute: texts, or numbers (dates as days)
Unseen = dict[str, NDArray[np.bool_]]  # by attribute: which records have a value that the model has never seen

_ROUNDING = 1e-6  # between the numbers of two parties' models


class NotAModel(ValueError):
    """A text that is no model of this kind; the message says why, and quotes nothing."""


@dataclass(frozen=True)
class Model(ABC):
    """A model that has been learned."""

    @classmethod
    @abstractmethod
    def read(cls, written: Mapping[str, Any]) -> Self:
        """Return the model that was written like this; NotAModel if none was."""

    @abstractmethod
    def as_json(self) -> dict[str, Any]:
        """Return the model as it is written."""

    def derived(self) -> dict[str, Any]:
        """Return figures that follow from the model, for readers of its file; they are not read back."""
        return {}


class Classifier(Model):
    """A model that says which class a record has."""

    @property
    @abstractmethod
    def classes(self) -> tuple[str, ...]:
        """The classes that it tells apart."""

    @property
    @abstractmethod
    def attributes(self) -> tuple[str, ...]:
        """The attributes that it asks for."""

    @abstractmethod
    def predict(self, cells: Cells) -> Texts:
        """Return the class of each record."""


def unseen_in(cells: Cells, known: Mapping[str, Sequence[str]]) -> Unseen:
    """Mark the records that have another value than those known, for each attribute where there are such."""
    found: Unseen = {}
    for name, values in known.items():
        own, places = distinct_values(np.asarray(cells[name], object).astype(str))
        strange = ~np.isin(own, np.array(values, str))
        if strange.any():
            found[name] = strange[places]
    return found


def known_categories(name: str, column: Any, known: Collection[str]) -> tuple[NDArray[np.str_], NDArray[np.intp]]:
    """Return an attribute's different values, and each record's among them; ParameterError if one is not known."""
    values, places = distinct_values(np.asarray(column, object).astype(str))
    for value in values:
        if value not in known:
            some = ", ".join(f'"{each}"' for each in list(known)[:10])
            text = f'attribute {name}: "{value}" is none of the categories that the model knows'
            raise ParameterError(f"{text}: {some}")
    return values, places


def alike(one: Any, other: Any, rounding: float = _ROUNDING) -> bool:
    """Return whether two models, as written, are the same but for rounding."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(alike(one[key], other[key], rounding) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(partial(alike, rounding=rounding), one, other))
    if isinstance(one, float | int) and isinstance(other, float | int):
        return isclose(one, other, rel_tol=rounding, abs_tol=rounding)
    return bool(one == other)


# --- ranking ------------------------------------------------------------------------------------------------
# How well scores rank records: area under the ROC curve, and Harrell's concordance of survival.

_AT_A_TIME = 1 << 22  # pairs


def area_under_curve(scores: Numbers, positive: NDArray[np.bool_]) -> float:
    """Return how often a positive record has the higher score of two, ties counting half; NaN where one kind lacks."""
    high, low = scores[positive], np.sort(scores[~positive])
    if not high.size or not low.size:
        return float("nan")
    below, at_most = np.searchsorted(low, high, "left"), np.searchsorted(low, high, "right")
    return float((below + at_most).sum() / (2 * high.size * low.size))


def concordant_pairs(risks: Numbers, durations: Numbers, died: NDArray[np.bool_]) -> tuple[int, int]:
    """Return twice the number of pairs that are ranked rightly, ties counting half, and twice that of all pairs.

    A pair counts where the one who is known to die first does so before the other leaves, or at the same time while the
    other is alive.
    """
    right = pairs = 0
    dying = np.flatnonzero(died)
    step = max(1, _AT_A_TIME // max(len(risks), 1))
    for first in range(0, dying.size, step):
        some = dying[first : first + step, None]
        later = (durations[None, :] > durations[some]) | ((durations[None, :] == durations[some]) & ~died[None, :])
        pairs += 2 * int(later.sum())
        right += 2 * int((later & (risks[some] > risks[None, :])).sum())
        right += int((later & (risks[some] == risks[None, :])).sum())
    return right, pairs


def concordance(risks: Numbers, durations: Numbers, died: NDArray[np.bool_]) -> float:
    """Return the share of pairs that are ranked rightly; NaN where there is none."""
    right, pairs = concordant_pairs(risks, durations, died)
    return right / pairs if pairs else float("nan")


@dataclass(frozen=True)
class Learned:
    """A model and its figures; `curves` has what charts are drawn from (a ROC curve, say)."""

    algorithm: Mapping[str, Any]  # the method's name and settings
    model: Model
    roles: Mapping[str, str]  # class, or duration and event
    parties: tuple[str, ...]
    n_records: int
    metrics: Mapping[str, Any]
    curves: Mapping[str, Any] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    dropped_out: tuple[str, ...] = ()  # parties of the contract that the model was finished without
    session: str = ""  # the hash of the contract by which it was learned; "": of one table
    missing_values: tuple[str, ...] | None = None  # texts that meant a missing cell; None: it is not known

    def summary(self) -> dict[str, Any]:
        """Return what `learn --json` says of the model itself."""
        return {
            "model": {**self.model.as_json(), **self.model.derived()},
            "algorithm": dict(self.algorithm),
            "metrics": dict(self.metrics),
            "records": self.n_records,
            "dropped_out": list(self.dropped_out),
            **({"session": self.session} if self.session else {}),
            "seconds": {part: round(took, 3) for part, took in self.seconds.items()},
        }

    def file(self) -> str:
        """Return the text of the model's file: the model, and what is needed to use it."""
        written = {
            **self.model.as_json(),
            **self.model.derived(),
            "algorithm": dict(self.algorithm),
            "roles": dict(self.roles),
            "parties": list(self.parties),
            "dropped_out": list(self.dropped_out),
            "records": self.n_records,
            **({"session": self.session} if self.session else {}),
            **({} if self.missing_values is None else {"missing_values": list(self.missing_values)}),
            "metrics": dict(self.metrics),
            "curves": dict(self.curves),
        }
        return json.dumps(written, indent=2, ensure_ascii=False) + "\n"
