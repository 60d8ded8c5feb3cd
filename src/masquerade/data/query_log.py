"""A log of SQL queries: which columns each reads and selects by, and which records it asks for.

Statements end with a semicolon, or where the next SELECT or WITH begins a line. A query repeated is a query more: that
is its frequency. Statements other than queries (SET, INSERT, COMMIT) are passed over and counted. Of a query's text
nothing is kept but names of columns and the values that they are compared with; no error shows any of it, because
people ask about people.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from masquerade.data.reading import why_unreadable
from masquerade.errors import DataError, ParameterError, Problem, hint

if TYPE_CHECKING:
    from sqlglot import Token, exp
    from sqlglot.optimizer.scope import Scope

# --- query columns ------------------------------------------------------------------------------------------
# Which columns of tables the names in a query stand for.
#
# A query gives columns other names (`age AS a`) and reads them from queries inside it (`FROM (SELECT …) AS
# t`, `WITH`). Every name is followed to the columns of tables that it is made of. As in SQL, WHERE and ON
# see the columns of the tables; GROUP BY, HAVING and QUALIFY also see the names that the same SELECT gives,
# and those come first.


class SelectNames:
    """The names in one SELECT of a query; `followed` are the SELECTs that led here from one around it."""

    def __init__(self, scope: Scope, followed: frozenset[int] = frozenset()) -> None:
        self.select = scope.expression
        self._scope, self._followed = scope, followed | {id(scope)}
        self._given = {each.alias.casefold(): each.this for each in self.select.expressions if each.alias and each.this}

    def gives(self, name: str) -> bool:
        """Return whether the SELECT itself gives this name to something else than a column of the same name."""
        given = self._given.get(name.casefold())
        return given is not None and all(each.casefold() != name.casefold() for each, _ in self.columns(given))

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
                where, made_of = self._made_of(node)
                if sees_given and not node.text("table"):
                    made_of = self._given.get(node.name.casefold(), made_of)
                names = [node.name] if made_of is None else [name for name, _ in where.columns(made_of)]
                yield from ((name, node) for name in names)

    def reads_a_table(self, star: exp.Expr) -> bool:
        """Return whether `*` or `t.*` is about a table, and not just about a query inside."""
        from sqlglot import exp

        table = star.table.casefold() if isinstance(star, exp.Column) else ""
        return any(
            isinstance(source, exp.Table)
            for name, (_, source) in self._scope.selected_sources.items()
            if table in ("", name.casefold())
        )

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
        for name, expression in zip(names or [each.alias_or_name for each in expressions], expressions, strict=False):
            if name.casefold() == wanted.casefold():
                return SelectNames(scope, self._followed), expression.unalias()
        return None


def is_column(node: Any) -> bool:
    """Return whether a node of sqlglot's tree is the name of a column."""
    from sqlglot import exp

    return isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier)


# --- query condition ----------------------------------------------------------------------------------------
# Conditions of queries, as far as they compare one column with values: what a WHERE says about a record.
#
# Whatever else a condition may hold (functions, comparisons of two columns, queries inside) is `UNKNOWN`:
# nobody can tell from a table alone which records it holds for.

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

    operators: dict[type, Operator] = {exp.EQ: "=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
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


# --- query log ----------------------------------------------------------------------------------------------

MOST_STATEMENTS = 100_000  # a longer log tells nothing more about frequencies


@dataclass(frozen=True)
class Named:
    """A column as a query names it."""

    name: str
    line: int  # of the log, from 1
    may_be_other: bool = False  # than the table's: a name that the query gives, or a column of another table


@dataclass(frozen=True)
class LoggedQuery:
    """One query: the columns that it reads (SELECT, GROUP BY) and selects by (WHERE, ON, HAVING)."""

    line: int
    features: tuple[Named, ...]
    selections: tuple[Named, ...]
    wanted: tuple[Condition, ...]  # of each SELECT with a WHERE, which records it asks for
    reads_everything: bool = False  # SELECT *

    @property
    def named(self) -> Iterator[Named]:
        """All columns, each as often as it is read or selected by."""
        yield from self.features
        yield from self.selections


@dataclass(frozen=True)
class QueryLog:
    """The queries of a log, in its order, and how many other statements it has."""

    source: str
    queries: tuple[LoggedQuery, ...]
    passed_over: int = 0

    def check_columns(self, known: Sequence[str]) -> dict[str, str]:
        """Return the known column behind each name; DataError with every name that is none.

        Names are compared as SQL does: letters of either case, unless two columns differ in that alone. Those that
        may be something else, and are of no known column, are left out.
        """
        folded: dict[str, list[str]] = {}
        for name in known:
            folded.setdefault(name.casefold(), []).append(name)
        meant: dict[str, str] = {}
        problems: dict[str, Problem] = {}
        for query in self.queries:
            for each in query.named:
                alike = [each.name] if each.name in known else folded.get(each.name.casefold(), [])
                if len(alike) == 1:
                    meant[each.name] = alike[0]
                elif each.name not in problems and not each.may_be_other:
                    text = f'no column "{each.name}" in the job{hint(each.name, known)}'
                    problems[each.name] = Problem(text, source=self.source, line=each.line)
        if problems:
            raise DataError(*problems.values())
        return meant


def read_query_log(path: str | Path, dialect: str | None = None) -> QueryLog:
    """Read a log; DataError with its file and line where it is no SQL, or holds no query."""
    require_sqlglot()
    source = Path(path)
    try:
        text = source.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise DataError.about(source, "the text is not UTF-8; save the file as UTF-8", line=line) from None
    except (OSError, ValueError) as error:  # ValueError: an impossible path
        raise why_unreadable(source, error) from None
    return parse_query_log(text, str(path), dialect)


def kept_query_log(path: str | Path) -> QueryLog:
    """Read a log, or return it as it was read before if the file is the same."""
    try:
        state = Path(path).stat()
    except (OSError, ValueError):
        return read_query_log(path)
    return _read_once(str(path), state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=4)  # a job asks for it when it is checked, cut by and measured
def _read_once(path: str, _changed: int, _size: int) -> QueryLog:
    return read_query_log(path)


def parse_query_log(text: str, source: str, dialect: str | None = None) -> QueryLog:
    """Parse the text of a log."""
    import sqlglot
    from sqlglot import exp

    known = sorted(each.value for each in sqlglot.Dialects if each.value)
    if dialect is not None and dialect not in known:
        raise ParameterError(
            Problem(parameter="dialect", owner="weights", allowed=f"one of {', '.join(known)}", found=f'"{dialect}"')
        )
    # It reports commands that it does not know as warnings; they are passed over here.
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    queries: list[LoggedQuery] = []
    passed_over = 0
    reader = sqlglot.Dialect.get_or_raise(dialect)
    for tokens in _statements(_tokens(text, source, dialect), source):
        line = tokens[0].line
        try:
            (statement,) = reader.parser().parse(tokens, text)
        except (sqlglot.errors.SqlglotError, RecursionError, ValueError) as error:
            at = next((each.get("line") for each in getattr(error, "errors", ())), None)
            raise DataError.about(source, "cannot be read as SQL", line=at or line) from None
        if isinstance(statement, exp.Query):
            try:
                queries.append(_query(statement, line))
            except (sqlglot.errors.SqlglotError, RecursionError, AttributeError):
                # It parses some broken statements, and then stumbles over its own tree of them.
                raise DataError.about(source, "cannot be read as SQL", line=line) from None
        elif statement is None or isinstance(statement, exp.Condition | exp.Alias):
            raise DataError.about(source, "cannot be read as SQL", line=line)
        else:
            passed_over += 1
    if not queries:
        others = f" among {passed_over} statements" if passed_over else ""
        raise DataError.about(source, f"no query{others}; a log has SELECT statements")
    return QueryLog(source, tuple(queries), passed_over)


def require_sqlglot() -> None:
    """Say which extra reads query logs, where it is not installed."""
    if find_spec("sqlglot") is None:
        raise ParameterError('query logs need sqlglot; install it with pip install "masquerade[sql]"')


def _tokens(text: str, source: str, dialect: str | None) -> list[Token]:
    import sqlglot

    try:
        return list(sqlglot.tokenize(text, read=dialect))
    except sqlglot.errors.SqlglotError:
        lines = text.splitlines(keepends=True)
        good, bad = 0, len(lines)  # a quotation that does not end fails from its line on
        while bad - good > 1:
            middle = (good + bad) // 2
            try:
                sqlglot.tokenize("".join(lines[:middle]), read=dialect)
                good = middle
            except sqlglot.errors.SqlglotError:
                bad = middle
        text = "cannot be read as SQL: a quotation does not end"
        raise DataError.about(source, text, line=bad) from None


def _statements(tokens: Sequence[Token], source: str) -> Iterator[list[Token]]:
    """Yield the tokens of each statement, without semicolons."""
    from sqlglot import TokenType

    joining = {TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT, TokenType.ALL, TokenType.DISTINCT}
    statement: list[Token] = []
    depth, line, has_select, count = 0, 0, False, 0
    for token in tokens:
        starts_line = token.line != line
        line = token.line
        ends = token.token_type == TokenType.SEMICOLON
        begins = (
            depth == 0
            and starts_line
            and has_select
            and token.token_type in (TokenType.SELECT, TokenType.WITH)
            and statement[-1].token_type not in joining
        )
        if (ends or begins) and statement:
            yield statement
            statement, has_select, depth = [], False, 0
            count += 1
            if count >= MOST_STATEMENTS:
                text = f"more than {MOST_STATEMENTS:,} statements; take a part of the log"
                raise DataError.about(source, text, line=token.line)
        if not ends:
            depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
            has_select = has_select or (depth == 0 and token.token_type == TokenType.SELECT)
            statement.append(token)
    if statement:
        yield statement


def _query(statement: exp.Query, line: int) -> LoggedQuery:
    from sqlglot import exp
    from sqlglot.optimizer.scope import traverse_scope

    inside = {each.alias.casefold() for each in statement.find_all(exp.CTE)}
    several = len({each.name.casefold() for each in statement.find_all(exp.Table)} - inside) > 1
    features: list[Named] = []
    selections: list[Named] = []
    wanted: list[Condition] = []
    everything = False
    for scope in traverse_scope(statement):
        select = scope.expression
        if not isinstance(select, exp.Select):
            continue
        names, joins = SelectNames(scope), select.args.get("joins") or ()
        named = partial(_named, names, several, line)
        if not isinstance(select.parent, exp.Exists):  # which asks whether there is a record, not what it holds
            features += named(select.expressions)
            everything = everything or any(map(names.reads_a_table, filter(_is_star, select.expressions)))
        features += named([select.args.get("group")], sees_given=True)
        selections += named([select.args.get("where"), *(join.args.get("on") for join in joins)])
        selections += named([select.args.get("having"), select.args.get("qualify")], sees_given=True)
        using = [each for join in joins for each in join.args.get("using") or ()]
        selections += [Named(each.name, line, several) for each in using]
        if (where := select.args.get("where")) is not None:
            wanted.append(condition_of(where.this, names.column))
    return LoggedQuery(line, _once(features), _once(selections), tuple(wanted), everything)


def _named(
    names: SelectNames, several: bool, line: int, parts: Iterable[Any], sees_given: bool = False
) -> Iterator[Named]:
    """Yield the columns that parts of a SELECT name; `several` says that the query reads several tables."""
    for part in parts:
        if part is not None:
            for name, node in names.columns(part, sees_given=sees_given):
                yield Named(name, int(node.this.meta.get("line", line)), several or names.gives(name))


def _is_star(node: Any) -> bool:
    from sqlglot import exp

    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def _once(named: Sequence[Named]) -> tuple[Named, ...]:
    """Return each column once: a query that names it twice asks about it once."""
    return tuple({each.name: each for each in reversed(named)}.values())[::-1]
