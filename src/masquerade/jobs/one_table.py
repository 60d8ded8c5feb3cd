"""Tables in, releases out: read, anonymize, roll up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pyarrow.compute as pc

from masquerade import data
from masquerade.anonymize import Order, Provenance, TableMethod, VerifiedRelease, publish
from masquerade.data import OnStep, RawTable, Schema
from masquerade.errors import ParameterError, given, hint
from masquerade.jobs.guessing import Table, names_of, table_of
from masquerade.jobs.release import Release
from masquerade.methods import DEFAULT, table_methods
from masquerade.privacy import Requirement, with_sensitive_given_once, without_redundant


def read(
    source: str | Path,
    taxonomies: data.Taxonomies | None = None,
    *,
    schema: Schema | None = None,
    query: str | None = None,
    separator: str | None = None,
    encoding: str = "utf-8",
    missing_values: Sequence[str] = data.MISSING_VALUES,
    identifiers: Iterable[str] = (),
) -> Table:
    """Read a CSV or Parquet file, or a database query (`source` is then a database URL).

    Without a schema, a column with a taxonomy of its name in the folder `taxonomies` has that taxonomy,
    columns of numbers are continuous, of ISO dates dates, and the others categorical without a taxonomy. A
    release holds every column but the `identifiers`.
    """
    if not isinstance(source, str | Path):
        raise ParameterError(
            "The source parameter of read must be a file's path or a database URL; a frame goes into Table(frame). "
            f"Got {given(source)} instead."
        )
    file = data.TableFile(str(source), query, separator, encoding, missing_values=tuple(missing_values))
    found = file.read()
    if schema is None:
        schema = guess_schema(found, taxonomies, names_of("identifiers", identifiers))
    elif taxonomies is not None or tuple(identifiers):
        raise ParameterError("A schema has its own taxonomies and identifiers: give those or a schema, not both.")
    return Table(found.table, schema, origin=found.origin)


def guess_schema(source: RawTable, taxonomies: data.Taxonomies | None, identifiers: tuple[str, ...] = ()) -> Schema:
    """What the columns of a table probably mean."""
    for name in identifiers:
        if name not in source.all_columns:  # spelled wrongly, it would be released
            known = ", ".join(source.all_columns)
            raise ParameterError(
                f'The identifiers parameter of read must name columns. Got "{name}" instead'
                f"{hint(name, source.all_columns)}; the columns are: {known}."
            )
    guesses = (_guess(each, source.table, source.origin.missing_values) for each in data.infer_schema(source.table))
    schema = Schema((each for each in guesses if each.name not in identifiers), identifiers)
    return schema if taxonomies is None else data.with_taxonomies(schema, taxonomies)


def _guess(attribute: data.Attribute, table: pa.Table, missing_values: Sequence[str]) -> data.Attribute:
    """Text in which every cell is a number or a date is not categorical."""
    cells = data.distinct(table.column(attribute.name))[1] if attribute.kind == "categorical" else None
    if cells is None or not data.is_text(cells.type):
        return attribute
    words = pc.utf8_trim(cells.drop_null(), data.SPACE)
    words = words.filter(pc.invert(pc.is_in(words, pa.array(missing_values, words.type))))
    if not len(words):
        return attribute
    if pc.all(pc.match_substring_regex(words, f"^{data.NUMBER}$")).as_py():
        return data.Attribute(attribute.name, "continuous")
    if pc.all(pc.match_substring_regex(words, f"^{data.DATE}$")).as_py():
        return data.Attribute(attribute.name, "date")
    return attribute


def anonymize(
    frame: Any,
    requirement: Requirement,
    algorithm: TableMethod | None = None,
    *,
    sensitive: Iterable[str] = (),
    missing: data.Missing = "drop",
    order: Order = "shuffle",
    seed: int = 7,
    on_step: OnStep | None = None,
) -> Release:
    """Make a release of a table (or of any frame) that satisfies the requirement, and check it independently.

    A plain frame says nothing of its columns: categories of a quasi-identifier are published or become "*", and what
    `masquerade init` would take for an identifier is left out; a warning says so, and `Table.guess` makes taxonomies.
    The release holds the attributes of the table's schema, the class and the sensitive columns. Without an algorithm
    it is `Auto()`: the methods that take the requirement are tried, and the release that loses least is kept. Rows
    with a missing cell are dropped, or with `missing="error"` refused; with "keep" such a cell is a value of its own,
    "?". `order="input"` keeps the order of the rows, which can point at people: it is for evaluation. `seed` draws the
    random queries of the query error.
    """
    protected = names_of("sensitive", sensitive)
    requirement = checked_requirement(requirement, protected)
    if algorithm is None:
        algorithm = table_methods()[DEFAULT]()
    elif not callable(getattr(algorithm, "run", None)) or isinstance(algorithm, type):
        raise ParameterError(
            "The algorithm parameter of anonymize must be an algorithm such as TopDownSpecialization(). "
            f"Got {given(algorithm)} instead."
        )
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ParameterError(
            f"The seed parameter of anonymize must be a whole number of at least 0. Got {given(seed)} instead."
        )
    _check_word("missing", missing, get_args(data.Missing))
    _check_word("order", order, get_args(Order))
    if isinstance(algorithm, TableMethod):  # a job file's method is, too
        algorithm = algorithm.fitted(without_redundant(requirement.parts))
    release = publish(
        table_of(frame, requirement, getattr(algorithm, "target", None), protected),
        requirement,
        algorithm,
        sensitive=protected,
        missing=missing,
        order=order,
        seed=seed,
        on_step=on_step,
    )
    return Release.of(release)


def roll_up(
    release: Any, requirement: Requirement, *, columns: Iterable[str] | None = None, target: str | None = None
) -> Release:
    """Make a coarser release from an earlier one alone: fewer columns, a stricter requirement, merged groups.

    Whoever holds both releases learns nothing that the first does not tell, as a second run on the original table
    might. `release` is a `Release`, which knows its taxonomies; a table whose schema has them; or any frame: then
    categories are kept, or become "*". `columns` are those to keep, `target` is the class. Metrics compare with the
    earlier release.
    """
    from masquerade.anonymize import roll_up as rolled_up

    known = isinstance(release, VerifiedRelease)
    table = table_of_release(release) if known else release
    algorithm = release.settings.get("algorithm") if known else None
    made = rolled_up(
        table if isinstance(table, data.Table) else Table(table),
        checked_requirement(requirement, release.sensitive if known else ()),
        columns=None if columns is None else names_of("columns", columns),
        target=target,
        provenance=Provenance(settings={} if algorithm is None else {"algorithm": algorithm}),
    )
    return Release.of(made)


def table_of_release(release: VerifiedRelease) -> Table:
    """A release's table with what its columns are values of."""
    known = {column.name: column.domain for column in release.columns}

    def attribute(name: str) -> data.Attribute:
        domain = known.get(name)
        if isinstance(domain, data.Taxonomy):
            return data.Attribute(name, _kind_of(domain), domain)
        return data.Attribute(name) if domain is None else data.Attribute(name, domain.kind)

    return Table(release.table, Schema(attribute(name) for name in release.table.column_names))


def _kind_of(taxonomy: data.Taxonomy) -> data.AttributeKind:
    """Return what a taxonomy's leaves are."""
    if taxonomy.edges is None:
        return "categorical"
    return "date" if data.read_interval(taxonomy.leaves[0], "continuous") is None else "continuous"


def checked_requirement(requirement: object, sensitive: Sequence[str] = ()) -> Requirement:
    """Check that what a person gave is a requirement, and name the sensitive attribute that is given once."""
    if not isinstance(requirement, Requirement):
        raise ParameterError(
            'The requirement parameter must be a requirement such as KAnonymity(["age", "job"], k=50), '
            f"or several joined with &. Got {given(requirement)} instead."
        )
    return with_sensitive_given_once(requirement, sensitive)


def _check_word(parameter: str, word: object, allowed: tuple[str, ...]) -> None:
    if word not in allowed:
        choices = " or ".join(f'"{each}"' for each in allowed)
        raise ParameterError(f"The {parameter} parameter of anonymize must be {choices}. Got {given(word)} instead.")
