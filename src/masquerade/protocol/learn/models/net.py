"""A Bayes net: the parents of each attribute, and how likely its values are given theirs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from masquerade.engine.numbering import distinct_values
from masquerade.errors import ParameterError
from masquerade.protocol.learn.models.linear import is_number
from masquerade.protocol.learn.models.model import Cells, Model, NotAModel, Numbers, Texts


def _is_row(row: Any) -> bool:
    return isinstance(row, dict) and all(isinstance(row.get(key), dict) for key in ("given", "chances"))


def _logarithms(
    name: str, rows: Mapping[tuple[str, ...], Mapping[str, float]], asked: list[Texts]
) -> Numbers:
    """Return the logarithm of each record's chance; `asked` has the parents' values, then its own."""
    codes, known = np.zeros(len(asked[0]), np.int64), []
    for column in asked:  # number the combinations that occur, and look up each once
        values, places = distinct_values(column.astype(str))
        known.append(values)
        codes = codes * len(values) + places
    combinations, places = distinct_values(codes)
    shape = tuple(map(len, known))
    found = np.empty(len(combinations))
    for at, each in enumerate(zip(*np.unravel_index(combinations, shape), strict=True)):
        *given, value = (str(values[place]) for values, place in zip(known, each, strict=True))
        chance = rows.get(tuple(given), {}).get(value)
        if not is_number(chance) or not 0 < float(chance or 0) <= 1:
            told = ", ".join(f'"{word}"' for word in (*given, value))
            raise ParameterError(f"attribute {name}: the net knows nothing of {told}")
        found[at] = np.log(float(chance or 0))
    logarithms: Numbers = found[places]
    return logarithms


@dataclass(frozen=True)
class NetModel(Model):
    """The parents by attribute, in the order in which they came, and the tables, where they were opened.

    A table is a list of {"given": values by parent, "chances": chances by value}.
    """

    parents: Mapping[str, tuple[str, ...]]
    tables: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> NetModel:
        """Read `{"parents": …, "tables": …}`."""
        parents, tables = written.get("parents"), written.get("tables", {})
        if not isinstance(parents, dict) or not isinstance(tables, dict):
            raise NotAModel("it has no parents by attribute")
        earlier: list[str] = []
        for name, own in parents.items():
            if not isinstance(own, list) or not set(own) <= set(earlier):
                raise NotAModel("a parent does not come before its child")
            earlier.append(name)
        return cls({name: tuple(own) for name, own in parents.items()}, tables)

    def blanket(self, target: str) -> tuple[str, ...]:
        """Return the attributes on which the target depends: its parents, its children and their other parents."""
        around = {target: None} | dict.fromkeys(
            each for name, own in self.parents.items() if target in (name, *own) for each in (name, *own)
        )
        return tuple(name for name in self.parents if name in around and name != target)

    def predict(self, target: str, cells: Cells) -> tuple[Texts, Numbers]:
        """Return each record's likeliest value of the target given the others, and how likely it is.

        ParameterError if the tables were not opened, or have no row for what occurs.
        """
        first = self._table(target)[0]
        values = tuple(first["chances"])
        size = len(next(iter(cells.values()))) if cells else 1
        likely = np.zeros((size, len(values)))  # logarithms
        for name, own in self.parents.items():
            if target not in (name, *own):
                continue
            rows = {tuple(row["given"][each] for each in own): row["chances"] for row in self._table(name)}
            for at, value in enumerate(values):
                asked = [
                    np.full(size, value, object) if each == target else np.asarray(cells[each], object)
                    for each in (*own, name)
                ]
                likely[:, at] += _logarithms(name, rows, asked)
        best = likely.argmax(axis=1)
        shares = np.exp(likely - likely.max(axis=1, keepdims=True))
        return np.array(values, object)[best], 1 / shares.sum(axis=1)

    def _table(self, name: str) -> list[dict[str, Any]]:
        table = self.tables.get(name)
        if not isinstance(table, list) or not table or not all(map(_is_row, table)):
            raise ParameterError(f"the net has no table of {name}; one that was learned with tables predicts")
        return table

    def as_json(self) -> dict[str, Any]:
        """Return `{"parents": …, "tables": …}`."""
        return {
            "parents": {name: list(own) for name, own in self.parents.items()},
            "tables": dict(self.tables),
        }
