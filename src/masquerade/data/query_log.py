"""A log of SQL queries: which columns each reads and selects by, and which records it asks for.

Statements end with a semicolon, or where the next SELECT or WITH begins a line. A query repeated is a query more: that
is its frequency. Statements other than queries (SET, INSERT, COMMIT) are passed over and counted. Of a query's text
nothing is kept but names of columns and the values that they are compared with; no error shows any of it, because
people ask about people.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from masquerade.data.query_columns import SelectNames
from masquerade.data.query_condition import Condition, condition_of
from masquerade.data.reading import why_unreadable
from masquerade.errors import DataError, ParameterError, Problem, hint

if TYPE_CHECKING:
    from sqlglot import Token, exp

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

    _check_dialect(dialect)
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


def _check_dialect(dialect: str | None) -> None:
    import sqlglot

    known = sorted(each.value for each in sqlglot.Dialects if each.value)
    if dialect is not None and dialect not in known:
        raise ParameterError(
            Problem(
                parameter="dialect",
                owner="weights",
                allowed=f"one of {', '.join(known)}",
                found=f'"{dialect}"',
            )
        )


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
        if not isinstance(
            select.parent, exp.Exists
        ):  # which asks whether there is a record, not what it holds
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
