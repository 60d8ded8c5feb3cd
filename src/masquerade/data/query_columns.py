"""Which columns of tables the names in a query stand for.

A query gives columns other names (`age AS a`) and reads them from queries inside it (`FROM (SELECT …) AS t`, `WITH`).
Every name is followed to the columns of tables that it is made of. As in SQL, WHERE and ON see the columns of the
tables; GROUP BY, HAVING and QUALIFY also see the names that the same SELECT gives, and those come first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.optimizer.scope import Scope


class SelectNames:
    """The names in one SELECT of a query; `followed` are the SELECTs that led here from one around it."""

    def __init__(self, scope: Scope, followed: frozenset[int] = frozenset()) -> None:
        self.select = scope.expression
        self._scope, self._followed = scope, followed | {id(scope)}
        self._given = {
            each.alias.casefold(): each.this for each in self.select.expressions if each.alias and each.this
        }

    def gives(self, name: str) -> bool:
        """Return whether the SELECT itself gives this name to something else than a column of the same name."""
        given = self._given.get(name.casefold())
        return given is not None and all(
            each.casefold() != name.casefold() for each, _ in self.columns(given)
        )

    def column(self, node: exp.Expr) -> str | None:
        """Return the column of a table that a name in WHERE or ON stands for; None for anything else."""
        if not is_column(node):
            return None
        where, made_of = self._made_of(node)
        return node.name if made_of is None else where.column(made_of)

    def columns(self, part: exp.Expr, *, sees_given: bool = False) -> Iterator[tuple[str, exp.Expr]]:
        """Yield the columns of tables in a part of the SELECT, with their places, without those of a query inside."""
        from sqlglot import exp

        for node in part.walk(prune=lambda each: isinstance(each, exp.Query)):
            if is_column(node):
                for name in self._origins(node, sees_given):
                    yield name, node

    def reads_a_table(self, star: exp.Expr) -> bool:
        """Return whether `*` or `t.*` is about a table, and not just about a query inside."""
        from sqlglot import exp

        table = star.table.casefold() if isinstance(star, exp.Column) else ""
        return any(
            isinstance(source, exp.Table)
            for name, (_, source) in self._scope.selected_sources.items()
            if table in ("", name.casefold())
        )

    def _origins(self, column: Any, sees_given: bool) -> list[str]:
        where, made_of = self._made_of(column)
        if sees_given and not column.table:
            made_of = self._given.get(column.name.casefold(), made_of)
        return [column.name] if made_of is None else [name for name, _ in where.columns(made_of)]

    def _made_of(self, column: Any) -> tuple[SelectNames, exp.Expr | None]:
        """Return what a query inside makes a column of, with the SELECT that says so; None for a table's own."""
        from sqlglot import exp

        scope: Scope | None = self._scope
        while scope is not None:  # a query inside also sees what the one around it reads from
            reads_table = False
            for name, (_, source) in scope.selected_sources.items():
                if column.table.casefold() not in ("", name.casefold()):
                    continue
                if isinstance(source, exp.Table):
                    reads_table = True
                elif (found := self._output(source, column.name)) is not None:
                    return found
            if reads_table:
                break
            scope = scope.parent
        return self, None

    def _output(self, scope: Scope, wanted: str) -> tuple[SelectNames, exp.Expr] | None:
        """Return what a query inside makes the wanted column of; None where it has none, or refers to itself."""
        from sqlglot import exp

        names = scope.outer_columns
        while scope.set_operation_scopes:  # the first SELECT gives the names
            scope = scope.set_operation_scopes[0]
        if id(scope) in self._followed or not isinstance(scope.expression, exp.Select):
            return None
        expressions = scope.expression.expressions
        for name, expression in zip(
            names or [each.alias_or_name for each in expressions], expressions, strict=False
        ):
            if name.casefold() == wanted.casefold():
                return SelectNames(scope, self._followed), expression.unalias()
        return None


def is_column(node: Any) -> bool:
    """Return whether a node of sqlglot's tree is the name of a column."""
    from sqlglot import exp

    return isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier)
