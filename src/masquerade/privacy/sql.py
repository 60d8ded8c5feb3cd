"""The check of a finished release once more, in SQL: each requirement says what violates it, and DuckDB counts.

It shares nothing with `check.py` but the names of columns and the requirements' parameters. DuckDB reads the files,
writes cells as text, counts, and compares in whole numbers; what exceeds its memory it keeps on the disk meanwhile. So
what both say, two programs say. The statement that is shown is the one that runs, and it runs as it is in DuckDB's own
shell.

A statement is built of a few views: `release` has the columns of the QID as q1, q2, … and the sensitive ones as s1, s2,
…, all as text; `counts` how many records of each group have each sensitive value `v`; `groups` each group's figure and
whether it violates. So no name from a file stands anywhere but, quoted, in the first of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from masquerade.data import PARQUET_SUFFIXES, columns_of, is_partitioned, listed_files
from masquerade.errors import DataError, one_line
from masquerade.privacy.check import Verdict
from masquerade.privacy.requirement import TOLERANCE, GroupRequirement

OUTSIDE = 200 << 20  # bytes that DuckDB takes beside the memory that it is given
_LEAST = 64 << 20
_THREADS = 2
_NEAR = 1e-8  # figures that differ by less may be on either side of a bound: entropies are sums of rounded logarithms

_MOST_LISTED = 3  # colluding providers whose coalitions are listed one by one
_SCALE = 10**15  # bounds are compared as whole numbers of this part
_SEPARATORS = ",;\t|"
_NUMBER = "[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?"


class NotInSql(Exception):
    """A requirement that cannot be said in SQL, and why."""


@dataclass(frozen=True)
class GroupTest:
    """What SQL computes of a group: expressions over its rows of a relation that has the columns of the QID."""

    figure: str
    violates: str
    relation: str = "counts"
    rounded: bool = False  # a figure very near its bound may be on either side of it


@dataclass(frozen=True)
class SqlWords:
    """The names and literals with which a requirement writes its SQL."""

    qid: str  # the columns of the group, such as "q1, q2"
    value: Mapping[str, str]  # the text of each sensitive column

    def test(self, figure: str, violates: str, relation: str = "counts", *, rounded: bool = False) -> GroupTest:
        """Return the test of a group with this figure, which it fails if it violates."""
        return GroupTest(figure, violates, relation, rounded)

    def text(self, value: str) -> str:
        """Return a text literal."""
        return _text(value)

    def value_of(self, sensitive: str) -> str:
        """Return the sensitive value of a record: a text, or a list of those of several columns."""
        names = [self.value[name] for name in columns_of(sensitive)]
        return names[0] if len(names) == 1 else f"[{', '.join(names)}]"

    def listed(self, sensitive: str, values: Sequence[str] | None) -> str:
        """Return the condition that `v` is one of these values, as they are written; of None, that it is any."""
        if values is None:
            return "true"
        written = "v" if len(columns_of(sensitive)) == 1 else "array_to_string(v, ' × ')"
        return f"{written} IN ({', '.join(map(self.text, values))})"

    def at_most(self, part: str, whole: str, bound: float) -> str:
        """Return the condition that part / whole is at most a bound, up to rounding, in whole numbers."""
        most = math.floor((Fraction(bound) + Fraction(TOLERANCE)) * _SCALE)
        return f"{part} * {_SCALE}::HUGEINT <= {whole} * {most}::HUGEINT"

    def below(self, part: str, whole: str, bound: float) -> str:
        """Return the condition that part / whole is below a bound by more than rounding."""
        limit = math.ceil(Fraction(bound) * (1 - Fraction(TOLERANCE)) * _SCALE)
        return f"{part} * {_SCALE}::HUGEINT < {whole} * {limit}::HUGEINT"

    def least_left(self, records: str, m: int) -> str:
        """Return what the m providers that have the most leave, of a row each; all but one, where there are fewer."""
        if m == 0:
            return f"sum({records})"
        few = f"sum({records}) - list_sum(max({records}, {m}))"
        return f"CASE WHEN count(*) > {m} THEN {few} ELSE min({records}) END"

    def coalitions(self, m: int) -> str:
        """Return the relation of each group's largest coalitions: of m providers, or all but one."""
        if m > _MOST_LISTED:
            raise NotInSql(f"coalitions of more than {_MOST_LISTED} providers are too many to list in SQL")
        return (
            f"(WITH RECURSIVE providers AS (\n"
            f"     SELECT {self.qid}, p, count(*) OVER (PARTITION BY {self.qid}) AS n\n"
            f"     FROM (SELECT DISTINCT {self.qid}, p FROM held)),\n"
            f"   chosen AS (\n"
            f"     SELECT {self.qid}, []::VARCHAR[] AS coalition, least({m}, max(n) - 1) AS power\n"
            f"     FROM providers GROUP BY {self.qid}\n"
            f"     UNION ALL\n"
            f"     SELECT {self.qid}, list_append(coalition, p), power\n"
            f"     FROM chosen JOIN providers USING ({self.qid})\n"
            f"     WHERE len(coalition) < power AND (len(coalition) = 0 OR p > coalition[-1]))\n"
            f"   SELECT {self.qid}, coalition FROM chosen WHERE len(coalition) = power)"
        )

    def order(self, sensitive: str) -> tuple[str, str]:
        """Return columns to add to the different values `v`, and by what to order these: numbers if all are."""
        several = len(columns_of(sensitive)) > 1
        cells = [f"v[{at}]" for at in range(1, len(columns_of(sensitive)) + 1)] if several else ["v"]
        numeric = [
            f"bool_and(regexp_full_match({cell}, '{_NUMBER}')) OVER () AS numeric_{at}" for at, cell in enumerate(cells)
        ]
        keys = [f"CASE WHEN numeric_{at} THEN TRY_CAST({cell} AS DOUBLE) END, {cell}" for at, cell in enumerate(cells)]
        return ", ".join(numeric), ", ".join(keys)


@dataclass(frozen=True)
class SqlVerdict:
    """What SQL says of one requirement; without a statement, `reason` is why it says nothing."""

    requirement: GroupRequirement
    statement: str = ""
    reason: str = ""
    groups: int = 0
    violating: int = 0
    value: float | None = None
    group: Mapping[str, str] | None = None
    differs: str = ""  # from our own verdict, and how

    @property
    def holds(self) -> bool:
        """Whether no group violates."""
        return not self.violating

    def summary(self) -> dict[str, object]:
        """Return the entry of a JSON summary."""
        told: dict[str, object] = {"model": self.requirement.model, "qid": list(self.requirement.qid)}
        if self.reason:
            return {**told, "not_in_sql": self.reason}
        told |= {
            "statement": self.statement,
            "holds": self.holds,
            "groups": self.groups,
            "violating_groups": self.violating,
            "value": self.value,
            "agrees": not self.differs,
        }
        return told if self.group is None else {**told, "first_violating_group": dict(self.group)}

    def lines(self) -> Iterator[str]:
        """Yield what a command prints: the statement, and what came of it."""
        if self.reason:
            yield f"-- {one_line(str(self.requirement))}: {self.reason}"
            return
        yield f"-- {one_line(str(self.requirement))}"
        yield self.statement
        found = f"{self.violating} violate it" if self.violating else "it holds"
        first = (
            "" if self.group is None else f"; first ({', '.join(f'{n} = {cell}' for n, cell in self.group.items())})"
        )
        yield one_line(f"-- {self.groups} groups: {found}{first}")
        yield f"-- {self.differs or 'the same as counted without SQL'}"


@dataclass(frozen=True)
class SqlTable:
    """A table as DuckDB reads it: what stands after FROM, and the text of each of its columns."""

    relation: str
    cells: Mapping[str, str]

    def release(self, qid: Sequence[str], special: Sequence[str], *, numbered: bool = False) -> str:
        """Return the view of the columns that a requirement asks for, with each row's number if asked."""
        columns = [f"{self.cells[name]} AS q{at}" for at, name in enumerate(qid, 1)]
        columns += [f"trim({self.cells[name]}, E' \\t\\r\\n') AS s{at}" for at, name in enumerate(special, 1)]
        columns += ["row_number() OVER () AS row"] * numbered
        listed = ",\n         ".join(columns)
        return f"release AS (\n  SELECT {listed}\n  FROM {self.relation})"


def check_in_sql(
    source: Path | pa.Table,
    verdicts: Sequence[Verdict],
    *,
    memory: int | None = None,
    unescape: bool = False,
    name: str = "table",
) -> tuple[SqlVerdict, ...]:
    """Judge each requirement again, in SQL, and say where it differs from the verdict on it.

    `source` is the path of a file or of a folder of Parquet files, or an Arrow table, and `name` what errors call it;
    `memory` is what may be taken, in bytes. With `unescape`, cells are read as they were before formulas in them were
    escaped.
    """
    with _duckdb(memory) as connection, _named(name):
        table = _opened(connection, source, unescape)
        asked = dict.fromkeys(
            column
            for part in (verdict.requirement for verdict in verdicts)
            for column in (*part.qid, *(columns_of(part.sensitive) if part.sensitive is not None else ()))
        )
        if absent := [column for column in asked if column not in table.cells]:
            raise DataError.about(name, f"DuckDB finds no column {', '.join(absent)}")
        return tuple(_judged(connection, table, verdict) for verdict in verdicts)


def statement_of(
    part: GroupRequirement, words: SqlWords, test: GroupTest, table: SqlTable, *, first: bool = False
) -> str:
    """Return the SQL that counts a requirement's groups and those that violate it, or names the first of these."""
    views = [table.release(part.qid, tuple(words.value), numbered=first)]
    if part.sensitive is None:
        views.append(f"counts AS (\n  SELECT {words.qid}, 1 AS records FROM release)")
    elif not part.wraps:
        value = words.value_of(part.sensitive)
        views.append(
            f"counts AS (\n  SELECT {words.qid}, {value} AS v, count(*) AS records\n"
            f"  FROM release GROUP BY {words.qid}, v)"
        )
    views.append(
        f"groups AS (\n  SELECT {words.qid}, {test.figure} AS figure,\n         {test.violates} AS violates\n"
        f"  FROM {test.relation} GROUP BY {words.qid})"
    )
    worst = "min" if part.worst == "smallest" else "max"
    asked = (
        f"SELECT {words.qid} FROM release SEMI JOIN (SELECT * FROM groups WHERE violates) USING ({words.qid})"
        "\nORDER BY row LIMIT 1"
        if first
        else f"SELECT count(*) AS groups, count_if(violates) AS violating, {worst}(figure) AS value\nFROM groups"
    )
    return "WITH " + ",\n".join(views) + f"\n{asked};"


def _judged(connection: Any, table: SqlTable, verdict: Verdict) -> SqlVerdict:
    part = verdict.requirement
    special = columns_of(part.sensitive) if part.sensitive is not None else ()
    words = SqlWords(
        ", ".join(f"q{at}" for at in range(1, len(part.qid) + 1)),
        {name: f"s{at}" for at, name in enumerate(special, 1)},
    )
    try:
        test = part.sql(words)
    except NotInSql as reason:
        return SqlVerdict(part, reason=str(reason))
    statement = statement_of(part, words, test, table)
    found = _one_row(connection, statement)
    first = _one_row(connection, statement_of(part, words, test, table, first=True)) if found[1] else None
    value = None if found[2] is None or not math.isfinite(found[2]) else found[2]
    told = SqlVerdict(
        part,
        statement,
        groups=found[0],
        violating=found[1],
        value=value,
        group=None if first is None else dict(zip(part.qid, first, strict=True)),
    )
    return replace(told, differs=_difference(told, verdict, test))


def _difference(told: SqlVerdict, verdict: Verdict, test: GroupTest) -> str:
    """Return how SQL differs from our own verdict; boundaries are not its affair."""
    ours = verdict.group is None if verdict.requirement.within_boundaries else verdict.holds
    close = test.rounded and _alike(told.value, verdict.requirement.limit, _NEAR)
    if told.holds != ours and not close:
        return f"differs: counted without SQL, it {'holds' if ours else 'does not hold'}"
    if told.groups != verdict.groups:
        return f"differs: counted without SQL, there are {verdict.groups} groups"
    if told.value is not None and not _alike(told.value, verdict.value, TOLERANCE):
        return f"differs: counted without SQL, the worst group's figure is {verdict.value}"
    return ""


def _alike(one: float | None, other: float | None, tolerance: float) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance)


def _one_row(connection: Any, statement: str) -> tuple[Any, ...]:
    row: tuple[Any, ...] = connection.execute(statement).fetchone()
    return row


# --- reading ---


@contextmanager
def _duckdb(memory: int | None) -> Iterator[Any]:
    """Open DuckDB without a database of its own; what exceeds the memory goes to a folder that is gone afterwards."""
    try:
        import duckdb
    except ImportError:
        raise DataError('checking in SQL needs the library: pip install "masquerade[duckdb]"') from None
    with TemporaryDirectory(prefix="masquerade-sql-") as folder:
        config: dict[str, str | bool | int | float | list[str]] = {
            "autoinstall_known_extensions": "false",  # nothing is fetched from anywhere
            "autoload_known_extensions": "false",
            "temp_directory": folder,
            "threads": _THREADS,
        }
        if memory is not None:
            config["memory_limit"] = f"{max(memory - OUTSIDE, _LEAST)}B"
        with duckdb.connect(":memory:", config=config) as connection:
            yield connection


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Raise what DuckDB refuses as a DataError about the table."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise DataError.about(name, one_line(f"DuckDB: {str(error).splitlines()[0]}")) from None


def _opened(connection: Any, source: Path | pa.Table, unescape: bool) -> SqlTable:
    """Find out how DuckDB reads a source, and under which names."""
    if not isinstance(source, Path):
        connection.register("released", source)
        return _described(connection, "released", source.column_names, unescape)
    if is_partitioned(str(source), Path()) or source.suffix.lower() in PARQUET_SUFFIXES:
        files = [_literal(each) for each in listed_files(source)]
        names = connection.execute(
            f"SELECT name FROM parquet_schema({files[0]}) WHERE num_children IS NULL ORDER BY column_id"
        ).fetchall()
        relation = f"read_parquet([{', '.join(files)}], hive_partitioning = false)"
        return _described(connection, relation, [name for (name,) in names], unescape)
    return _opened_csv(connection, source, unescape)


def _opened_csv(connection: Any, path: Path, unescape: bool) -> SqlTable:
    """Read the header by the separator under which it has the most columns; all cells are text."""
    import duckdb

    headers: dict[str, tuple[str | None, ...]] = {}
    for sign in _SEPARATORS:
        options = f"""header = false, all_varchar = true, delim = '{sign}', quote = '"', escape = '"'"""
        try:
            headers[sign] = _one_row(
                connection, f"SELECT * FROM read_csv({_literal(path)}, {options}, skip = 0, comment = '') LIMIT 1"
            )
        except duckdb.Error:  # rows of different lengths
            continue
    if not headers:
        raise DataError.about(path, "DuckDB finds no separator under which all rows have as many cells")
    sign = max(headers, key=lambda each: len(headers[each]))
    names = [cell or "" for cell in headers[sign]]
    columns = ", ".join(f"{_text(each)}: 'VARCHAR'" for each in _told_apart(names))
    relation = (
        f"read_csv({_literal(path)}, auto_detect = false, header = true, delim = {_text(sign)}, "
        f"""quote = '"', escape = '"', columns = {{{columns}}})"""
    )
    return _described(connection, relation, names, unescape)


def _described(connection: Any, relation: str, names: Sequence[str], unescape: bool) -> SqlTable:
    """Give each column its text; the names are those of the file, which DuckDB may have changed to tell them apart."""
    found = connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
    if len(names) != len(found):  # of nested columns a file lists the parts
        names = [theirs for theirs, *_ in found]
    cells = {
        own: _cell('"' + theirs.replace('"', '""') + '"', kind, unescape)
        for own, (theirs, kind, *_) in zip(names, found, strict=True)
    }
    return SqlTable(relation, cells)


def _cell(column: str, kind: str, unescape: bool) -> str:
    """Return a cell as text: missing as nothing, a number without a trailing .0."""
    text = f"CAST({column} AS VARCHAR)"
    if kind in ("DOUBLE", "FLOAT") or kind.startswith("DECIMAL"):
        short = f"rtrim(rtrim({text}, '0'), '.')"
        return f"coalesce(CASE WHEN regexp_matches({text}, '^[^e]*[.][^e]*$') THEN {short} ELSE {text} END, '')"
    if kind == "BOOLEAN":
        return f"CASE {column} WHEN true THEN 'True' WHEN false THEN 'False' ELSE '' END"
    if kind != "VARCHAR" and not kind.startswith("ENUM"):
        return f"coalesce({text}, '')"
    text = f"coalesce({column if kind == 'VARCHAR' else text}, '')"
    return f"regexp_replace({text}, '^''(''*[-=+@\\t\\r])', '\\1')" if unescape else text


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _literal(path: Path) -> str:
    """Return the path of one file, whose name DuckDB would take for a pattern if it has signs of one."""
    shown = "".join(f"[{sign}]" if sign in "*?[" else sign for sign in str(path.absolute()))
    return _text(shown)


def _told_apart(names: Sequence[str]) -> list[str]:
    """Return the names, changed where DuckDB, which does not look at capitals, would not tell them apart."""
    used: set[str] = set()
    told = []
    for at, name in enumerate(names, 1):
        free = name if name and name.lower() not in used else f"{name} ({at})"
        used.add(free.lower())
        told.append(free)
    return told
