"""Conditions of queries, as far as they compare one column with values: what a WHERE says about a record.

Whatever else a condition may hold (functions, comparisons of two columns, queries inside) is `UNKNOWN`: nobody can tell
from a table alone which records it holds for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

Operator = Literal["=", "<", "<=", ">", ">=", "like", "missing"]
_MIRRORED: dict[Operator, Operator] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


@dataclass(frozen=True)
class Compared:
    """A column compared with a value, both as written: `age >= 50`."""

    column: str
    operator: Operator
    value: str = ""


@dataclass(frozen=True)
class All:
    """Every part holds."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class Some:
    """At least one part holds."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class Not:
    """The part does not hold."""

    part: Condition


@dataclass(frozen=True)
class Unknown:
    """Something that a table alone does not decide."""


Condition = Compared | All | Some | Not | Unknown
UNKNOWN = Unknown()

ColumnOf = Callable[[Any], str | None]


def comparisons(condition: Condition) -> Iterator[Compared]:
    """Yield the comparisons of a condition, from left to right."""
    if isinstance(condition, Compared):
        yield condition
    elif isinstance(condition, All | Some):
        for part in condition.parts:
            yield from comparisons(part)
    elif isinstance(condition, Not):
        yield from comparisons(condition.part)


def condition_of(node: Any, column_of: ColumnOf) -> Condition:
    """Return the condition that a node of sqlglot's tree means; `column_of` names the column that a part of it is."""
    from sqlglot import exp

    operators: dict[type, Operator] = {
        exp.EQ: "=",
        exp.LT: "<",
        exp.LTE: "<=",
        exp.GT: ">",
        exp.GTE: ">=",
    }
    if isinstance(node, exp.Paren):
        return condition_of(node.this, column_of)
    if isinstance(node, exp.And | exp.Or):
        kind = All if isinstance(node, exp.And) else Some
        return kind(tuple(condition_of(part, column_of) for part in node.flatten()))
    if isinstance(node, exp.Not):
        return Not(condition_of(node.this, column_of))
    if isinstance(node, exp.NEQ):
        return Not(_compared(node.this, "=", node.expression, column_of))
    if isinstance(node, exp.Between):
        low, high = node.args["low"], node.args["high"]
        return All((_compared(node.this, ">=", low, column_of), _compared(node.this, "<=", high, column_of)))
    if isinstance(node, exp.In) and node.expressions and not node.args.get("query"):
        return Some(tuple(_compared(node.this, "=", each, column_of) for each in node.expressions))
    if isinstance(node, exp.Like):
        return _compared(node.this, "like", node.expression, column_of)
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        column = column_of(node.this)
        return UNKNOWN if column is None else Compared(column, "missing")
    if type(node) in operators:
        return _compared(node.this, operators[type(node)], node.expression, column_of)
    return UNKNOWN


def _compared(left: Any, operator: Operator, right: Any, column_of: ColumnOf) -> Condition:
    column, value = column_of(left), _value(right)
    if column is None and operator in _MIRRORED:
        column, operator, value = column_of(right), _MIRRORED[operator], _value(left)
    return UNKNOWN if column is None or value is None else Compared(column, operator, value)


def _value(node: Any) -> str | None:
    """Return a constant as written; None for anything else."""
    from sqlglot import exp

    if isinstance(node, exp.Paren | exp.Cast):
        return _value(node.this)
    if isinstance(node, exp.Neg):
        value = _value(node.this)
        return None if value is None else f"-{value}"
    return node.this if isinstance(node, exp.Literal) else None
