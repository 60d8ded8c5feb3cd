"""A Bayes net: the parents of each attribute, and how likely its values are given theirs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from masquerade.engine.numbering import distinct_values
from masquerade.errors import ParameterError
from masquerade.protocol.learn.models.linear import is_number
from masquerade.protocol.learn.models.model import Cells, Model, NotAModel, Numbers, Texts

_LEAST = (
    2.0**-11
)  # stands for 0: what is below 1/1,024 is written as 0 (`net_tables.py`), and may occur all the same


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
        model = cls({name: tuple(own) for name, own in parents.items()}, tables)
        for name in tables:
            if name not in parents or not all(map(tables.__contains__, parents[name])):
                raise NotAModel("it has a table of an attribute without its parents'")
            if not _is_table(tables[name], {each: model.values(each) for each in parents[name]}):
                raise NotAModel(f"its table of {name} is incomplete")
        return model

    def blanket(self, target: str) -> tuple[str, ...]:
        """Return the attributes on which the target depends: its parents, its children and their other parents."""
        around = {target: None} | dict.fromkeys(
            each for name, own in self.parents.items() if target in (name, *own) for each in (name, *own)
        )
        return tuple(name for name in self.parents if name in around and name != target)

    def values(self, name: str) -> tuple[str, ...]:
        """Return the values of an attribute; ParameterError if the tables were not opened."""
        return tuple(self._table(name)[0]["chances"])

    def chances(self, target: str, cells: Cells) -> Numbers:
        """Return how likely each value of the target is given the others, [records, values].

        All cells must be values that the net knows.
        """
        values = self.values(target)
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
                likely[:, at] += _logarithms(rows, asked)
        shares = np.exp(likely - likely.max(axis=1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def _table(self, name: str) -> list[dict[str, Any]]:
        if name not in self.tables:
            raise ParameterError(f"the net has no table of {name}; one that was learned with tables predicts")
        table: list[dict[str, Any]] = self.tables[name]
        return table

    def as_json(self) -> dict[str, Any]:
        """Return `{"parents": …, "tables": …}`."""
        return {
            "parents": {name: list(own) for name, own in self.parents.items()},
            "tables": dict(self.tables),
        }


def _is_table(table: Any, known: Mapping[str, tuple[str, ...]]) -> bool:
    """Return whether a table has one row for each combination of the parents' values, with the same values in each."""
    if not isinstance(table, list) or not all(isinstance(row, dict) for row in table):
        return False
    given, chances = ([row.get(key) for row in table] for key in ("given", "chances"))
    if not all(isinstance(each, dict) for each in (*given, *chances)) or not table or not chances[0]:
        return False
    whole = all(
        each.keys() == known.keys() and all(each[name] in known[name] for name in known) for each in given
    )
    return (
        whole
        and len({tuple(each[name] for name in known) for each in given}) == len(given)
        and len(given) == prod(map(len, known.values()))
        and all(each.keys() == chances[0].keys() for each in chances)
        and all(is_number(chance) and 0 <= chance <= 1 for each in chances for chance in each.values())
    )


def _logarithms(rows: Mapping[tuple[str, ...], Mapping[str, float]], asked: list[Texts]) -> Numbers:
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
        found[at] = np.log(max(rows[tuple(given)][value], _LEAST))
    logarithms: Numbers = found[places]
    return logarithms
