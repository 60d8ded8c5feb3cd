"""A decision tree of categories, as ID3 grows it: {"attribute", "children" by value} or {"label"}."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from masquerade.protocol.learn.models.model import Cells, Classifier, NotAModel, Texts, Unseen

Path = tuple[tuple[str, str], ...]  # attributes and their values, from the root on


@dataclass(frozen=True)
class TreeModel(Classifier):
    """A tree, nested as it is written."""

    tree: dict[str, Any]

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> TreeModel:
        """Read `{"tree": …}`."""
        model = cls(written.get("tree"))  # type: ignore[arg-type] # checked now
        _check(model.tree)
        return model

    def as_json(self) -> dict[str, Any]:
        """Return `{"tree": …}`."""
        return {"tree": self.tree}

    @cached_property
    def leaves(self) -> tuple[tuple[Path, str], ...]:
        """Each leaf's path and label."""
        return tuple(_leaves(self.tree))

    @property
    def classes(self) -> tuple[str, ...]:
        """The labels of its leaves, in order."""
        return tuple(sorted({label for _, label in self.leaves}))

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that it asks for, in the order of their first question."""
        return tuple(dict.fromkeys(name for path, _ in self.leaves for name, _ in path))

    @cached_property
    def values(self) -> dict[str, tuple[str, ...]]:
        """The values of each attribute that it asks for, as far as its nodes know them."""
        found: dict[str, dict[str, None]] = {}
        for path, _ in self.leaves:
            for name, value in path:
                found.setdefault(name, {})[value] = None
        return {name: tuple(values) for name, values in found.items()}

    def predict(self, cells: Cells) -> Texts:
        """Return each record's class; None where a node on its way does not know its value."""
        return self._followed(cells)[0]

    def unseen(self, cells: Cells) -> Unseen:
        """Mark the records that stop on their way, by the attribute whose value the node there does not know."""
        return self._followed(cells)[1]

    def _followed(self, cells: Cells) -> tuple[Texts, Unseen]:
        columns = {name: np.asarray(column, object) for name, column in cells.items()}
        size = len(next(iter(columns.values()))) if columns else 1
        found, unseen = np.empty(size, object), Unseen()
        waiting = [(self.tree, np.arange(size))]
        while waiting:
            node, rows = waiting.pop()
            if "label" in node:
                found[rows] = node["label"]
                continue
            column, children = columns[node["attribute"]][rows], node["children"]
            left = np.ones(rows.size, bool)
            for value, child in children.items():
                fits = column == value
                left &= ~fits
                waiting.append((child, rows[fits]))
            if left.any():
                unseen.setdefault(node["attribute"], np.zeros(size, bool))[rows[left]] = True
        return found, unseen


def _check(tree: Any) -> None:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict):
            raise NotAModel("a node of the tree is no table")
        if isinstance(node.get("label"), str) and node.keys() == {"label"}:
            continue
        children = node.get("children")
        if node.keys() != {"attribute", "children"} or not isinstance(node["attribute"], str):
            raise NotAModel("a node of the tree has neither a label, nor an attribute and children")
        if not isinstance(children, dict) or not children:
            raise NotAModel("a node of the tree has no children")
        waiting += children.values()


def _leaves(tree: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    """Yield the leaves from left to right; in a loop, since a tree may be deeper than Python's stack."""
    waiting: list[tuple[dict[str, Any], Path]] = [(tree, ())]
    while waiting:
        node, path = waiting.pop()
        if "label" in node:
            yield path, node["label"]
            continue
        below = [(child, (*path, (node["attribute"], value))) for value, child in node["children"].items()]
        waiting += reversed(below)
