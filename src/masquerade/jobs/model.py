"""The job file's shape: every section and key, what it must be, and its default.

The `description` of a key completes the sentence "… must be …": it is shown when the key is wrong.
Required keys and contradictions between keys are not checked here but in `jobs/plan.py`.

The keys of `[algorithm]` depend on the method that it names (`masquerade.methods`).
"""

from __future__ import annotations

import datetime
import re
import sys
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, PlainValidator

from masquerade.data import (
    ISO_DATE,
    ISO_TIMES,
    MISSING_VALUES,
    Attribute,
    AttributeKind,
    Number,
    ProductColumn,
    Schema,
    Taxonomy,
    days,
    read_date,
    read_taxonomy,
)
from masquerade.engine import LEAST_MEMORY, Engine, read_size, size_text
from masquerade.errors import JobError, Key, ParameterError, Problem
from masquerade.forms import Form, Problems, key, shown_value as shown
from masquerade.privacy import GroupRequirement

Text = Annotated[str, Field(min_length=1)]
Sign = Annotated[str, Field(min_length=1, max_length=1)]
Texts = Annotated[list[Text], Field(min_length=1)]


def _passing(test: Callable[[Any], object]) -> PlainValidator:
    """Validate by a test, which may raise ValueError; what passes it is kept as it is written."""

    def check(value: object) -> object:
        if not test(value):
            raise ValueError
        return value

    return PlainValidator(check)


def _is_number(value: object) -> bool:
    """Return whether it is a finite number that a float can hold; booleans are not numbers."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _is_date_format(value: object) -> bool:
    """Return whether a format reads the dates it writes."""
    day = datetime.datetime(1987, 11, 23, tzinfo=datetime.UTC)
    return isinstance(value, str) and (value == ISO_TIMES or read_date(day.strftime(value), value) == days(day.date()))


def _is_day(value: object) -> bool:
    return isinstance(value, datetime.date) and not isinstance(value, datetime.datetime)


_UNIT = re.compile(r"[^0-9+.,'\s-](?:[^0-9+.,'-]{0,14}[^0-9+.,'\s-])?")  # may be beside a number, and is no part of it

Amount = Annotated[float, _passing(lambda value: _is_number(value) and value >= 0)]
Bound = Annotated[Any, _passing(lambda value: _is_number(value) or _is_day(value) or isinstance(value, str))]
Report = Annotated[str | Literal[False], _passing(lambda value: value is False or (isinstance(value, str) and value))]
DateFormat = Annotated[str, _passing(_is_date_format)]
Unit = Annotated[str, _passing(lambda value: isinstance(value, str) and _UNIT.fullmatch(value))]
Memory = Annotated[str, _passing(lambda value: isinstance(value, str) and read_size(value) >= LEAST_MEMORY)]

_NAME = 'a name, such as "age"'
_NAMES = 'a list of one or more names, such as ["age", "job"]'
_ANY_NAMES = 'a list of names, such as ["age", "job"]'
_BOUND = 'a finite number, or for type = "date" a date such as 1980-12-31'
_SWITCH = "true or false"
DEFAULT_MEMORY = "8GB"  # of the engine


def _one_of(*words: str) -> str:
    return "one of " + ", ".join(f'"{word}"' for word in words)


def _key(must_be: str, default: Any = None, alias: str | None = None) -> Any:
    return key(default, description=must_be, alias=alias)


def _empty(kind: Callable[[], Any], must_be: str) -> Any:
    return Field(default_factory=kind, description=must_be)


class _Section(Form, defer_build=True):
    """A part of a job. The job has a validator for all of them, so that they need none of their own."""


class TableSection(_Section):
    """The location and format of a table."""

    source: Text = _key('a file such as "patients.csv", or a database URL', "")
    query: Text | None = _key('a query, such as "SELECT * FROM patients"')
    missing: Literal["drop", "error", "keep", "mean"] = _key(_one_of("drop", "error", "keep", "mean"), "drop")
    missing_values: list[str] = _empty(
        lambda: list(MISSING_VALUES), 'a list of texts that mean a missing cell, such as ["", "NA"]'
    )
    separator: Sign | None = _key('one character, such as ";"')
    encoding: Text = _key('an encoding, such as "utf-8" or "latin-1"', "utf-8")


class DataSection(TableSection):
    """`[data]`: the table of `anonymize`, or of `learn` on one table."""

    partition: Text | None = _key(
        'a column of the query\'s result that tells all rows apart, such as "id"; an [engine] reads ranges of it'
    )


class PartySection(TableSection):
    """`[parties.NAME]`: one party of a mashup, or one site that learns a model with others."""

    id: Text = _key('the name of the identifier\'s column, such as "ssn"', "")
    normalize: Literal["none", "strip", "casefold"] = _key(_one_of("none", "strip", "casefold"), "strip")
    attributes: Texts | None = _key(_NAMES)


class AttributeSection(_Section):
    """`[attributes.NAME]`: what a column means."""

    type: Literal["categorical", "continuous", "date"] = _key(
        _one_of("categorical", "continuous", "date"), "categorical"
    )
    min: Bound = _key(_BOUND)
    max: Bound = _key(_BOUND)
    taxonomy: Text | None = _key('a file such as "job.csv" or "job.yaml", or "flat"')
    max_generalization: Texts | None = _key('a list of one or more values, such as ["Blue-collar"]')
    max_width: Amount | None = _key("a finite number of at least 0; for dates, days")
    min_generalization: Texts | None = _key('a list of one or more values, such as ["Technical"]')
    min_width: Amount | None = _key("a finite number above 0; for dates, days")
    format: DateFormat = _key('a format of dates with day, month and year, such as "%d/%m/%Y", or "iso"', ISO_DATE)
    decimal: Literal[".", ","] = _key(_one_of(".", ","), ".")
    thousands: Literal[".", ",", " ", "'"] | None = _key(_one_of(".", ",", " ", "'"))
    unit: Unit | None = _key('a text without digits, such as "$" or "kg"')
    weight: Amount = _key("a finite number of at least 0", 1.0)


class RolesSection(_Section):
    """`[roles]`: which columns are special."""

    class_: Text | None = _key(_NAME, alias="class")
    duration: Text | None = _key(_NAME)
    event: Text | None = _key(_NAME)
    sensitive: list[Text] = _empty(list, _ANY_NAMES)
    identifiers: list[Text] = _empty(list, _ANY_NAMES)
    provider: Text | None = _key(_NAME)


class PrivacyEntry(_Section):
    """`[[privacy]]`: one requirement. Besides the columns, its keys are the parameters that its model declares."""

    model_config = ConfigDict(extra="allow")

    model: Text = _key('the name of a model, such as "k-anonymity"', "")
    qid: Texts | None = _key(_NAMES)
    sensitive: Text | None = _key(_NAME)

    def given(self) -> dict[str, Any]:
        """Return the parameters that the entry sets, besides `model` and `qid`."""
        named = {} if self.sensitive is None else {"sensitive": self.sensitive}
        return named | {key: value for key, value in (self.model_extra or {}).items() if value is not None}


class EngineSection(_Section):
    """`[engine]`: where counting runs, and in how much memory."""

    name: Literal["local", "dask"] = _key(_one_of("local", "dask"), "local")
    address: Text | None = _key('the address of a Dask scheduler, such as "tcp://10.0.0.5:8786"')
    memory: Memory | None = _key(f'a size of at least {size_text(LEAST_MEMORY)}, such as "4GB"')

    def contradictions(self) -> Iterator[tuple[Key, Problem | str]]:
        """Yield an address that is missing or has no use, and a memory that a cluster has of its own."""
        if self.name == "dask" and self.address is None:
            yield ("engine", "address"), 'missing; name the scheduler, such as "tcp://10.0.0.5:8786"'
        if self.name != "dask" and self.address is not None:
            yield ("engine", "address"), 'belongs to name = "dask"'
        if self.name == "dask" and self.memory is not None:
            yield (
                ("engine", "memory"),
                'belongs to name = "local"; a Dask worker is started with its own --memory-limit',
            )

    @property
    def memory_bytes(self) -> int:
        """What may be held at once."""
        return read_size(self.memory or DEFAULT_MEMORY)


class OutputSection(_Section):
    """`[output]`: what to write. `report = false` writes no report."""

    table: Text = _key(
        'a file that ends in .csv or .parquet, such as "release.csv"; with an engine, a folder', "release.csv"
    )
    model: Text | None = _key('a file that ends in .json, such as "model.json"')
    report: Report = _key('a file that ends in .html, such as "report.html", or false for none', "report.html")
    order: Literal["shuffle", "input"] = _key(_one_of("shuffle", "input"), "shuffle")
    keep_provider: bool = _key(_SWITCH, False)
    escape_formulas: bool = _key(_SWITCH, False)
    labels: list[Text] = _empty(list, _ANY_NAMES)


class Job(Form):
    """A whole job file."""

    data: DataSection | None = _key("a table, written [data]")
    attributes: dict[Text, AttributeSection] = _empty(dict, "tables, written [attributes.NAME] for each column")
    roles: RolesSection = _empty(RolesSection, "a table, written [roles]")
    privacy: list[PrivacyEntry] = _empty(list, "a list of tables, each written [[privacy]] in double brackets")
    algorithm: dict[str, Any] = _empty(dict, "a table, written [algorithm]")  # see masquerade.methods
    parties: dict[Text, PartySection] = _empty(dict, "tables, written [parties.NAME] for each party")
    engine: EngineSection | None = _key("a table, written [engine]")
    output: OutputSection = _empty(OutputSection, "a table, written [output]")


# --- attributes ---------------------------------------------------------------------------------------------
# Build the schema from `[attributes.NAME]`, reading the taxonomies.


def schema_of(
    job: Job, qid: Container[str], base: Path, problems: Problems, taxonomies: Mapping[Path, str] = MappingProxyType({})
) -> Schema:
    """Return the attributes in the job's order; invalid ones are added to `problems` and left out.

    `taxonomies` are the texts of files that are not written.
    """
    attributes = []
    for name, section in job.attributes.items():
        with problems.collecting(("attributes", name)):
            attributes.append(_attribute(name, section, name in qid, base, problems, taxonomies))
    identifiers = [name for name in job.roles.identifiers if name not in job.attributes]
    return Schema(attributes, identifiers)


def _attribute(
    name: str, section: AttributeSection, in_qid: bool, base: Path, problems: Problems, taxonomies: Mapping[Path, str]
) -> Attribute:
    key: Key = ("attributes", name)
    lower = _checked_bound((*key, "min"), section.min, section.type, problems)
    upper = _checked_bound((*key, "max"), section.max, section.type, problems)
    if lower is not None and upper is not None and lower >= upper:
        problems.add((*key, "min"), f"must be below max, {shown(section.max)}; got {shown(section.min)}")
        lower = upper = None
    for word, kind in (
        ("format", "date"),
        ("decimal", "continuous"),
        ("thousands", "continuous"),
        ("unit", "continuous"),
    ):
        if word in section.model_fields_set and section.type != kind:
            problems.add((*key, word), f'belongs to attributes of type = "{kind}"; this one is {section.type}')
    if section.thousands == section.decimal:
        problems.add((*key, "thousands"), f'must be another sign than decimal; both are "{section.decimal}"')
    taxonomy: Any = section.taxonomy
    if taxonomy is None:
        if section.type == "categorical" and in_qid:
            problems.add(key, 'a categorical attribute of a QID needs taxonomy = "file.csv", "file.yaml" or "flat"')
    elif taxonomy != "flat":
        with problems.collecting((*key, "taxonomy")):
            # An invalid taxonomy is reported with its own file and lines.
            file = base / taxonomy
            taxonomy = read_taxonomy(file, section.type, text=taxonomies.get(file))
    # After a problem the attribute is never used, but the others are still checked.
    unusable = isinstance(taxonomy, str) and taxonomy != "flat"
    attribute = Attribute(
        name,
        section.type,
        None if unusable else taxonomy,
        lower,
        upper,
        section.weight,
        section.format,
        section.decimal,
        thousands="" if section.thousands == section.decimal else section.thousands or "",
        unit=section.unit or "",
    )
    for word in ("min_generalization", "min_width"):
        if getattr(section, word) is not None and not in_qid:
            problems.add((*key, word), "belongs to attributes of a QID; the others are released as they are")
    if unusable:
        return attribute
    names = tuple(section.max_generalization or ())
    try:
        return replace(
            attribute,
            max_generalization=names,
            max_width=section.max_width,
            min_generalization=tuple(section.min_generalization or ()),
            min_width=section.min_width,
        )
    except ParameterError as error:
        problems.collect(error)
        return attribute


def _checked_bound(key: Key, bound: object, kind: AttributeKind, problems: Problems) -> Number | None:
    """Return a bound as a number; dates as days."""
    if bound is None or problems.about(key[:2]):
        return None
    if kind == "categorical":
        problems.add(key, 'bounds belong to attributes of type = "continuous" or "date"; this one is categorical')
    elif kind == "date":
        try:
            date = datetime.date.fromisoformat(bound) if isinstance(bound, str) else bound
        except ValueError:
            date = None
        if isinstance(date, datetime.date):
            return days(date)
        problems.add(key, f"must be a date such as 1980-12-31; got {shown(bound)}")
    elif isinstance(bound, int | float):
        return bound
    else:
        problems.add(key, f"must be a number; got {shown(bound)}")
    return None


def engine_of(section: EngineSection) -> Engine:
    """Open an engine, to be closed by whoever uses it. What is wrong with it names the key below `engine`."""
    if section.name == "dask":
        from masquerade.engine import DaskEngine

        assert section.address is not None
        return DaskEngine(section.address)
    from masquerade.engine import LocalEngine

    return LocalEngine(section.memory_bytes)


@dataclass(frozen=True)
class SensitiveTaxonomies:
    """Where a job names the taxonomies; without `base`, a form whose entries hold them themselves."""

    job: Job
    base: Path | None

    def wanted(self, model: type[GroupRequirement], given: Mapping[str, Any]) -> bool:
        """Return whether an entry needs a taxonomy and does not hold it."""
        named = isinstance(given.get("sensitive"), str) and not isinstance(given["sensitive"], ProductColumn)
        return self.base is not None and named and "taxonomy" not in given and model.needs_taxonomy(given)

    def tree_of(self, name: str) -> Taxonomy:
        """Read the taxonomy of a sensitive attribute; raise JobError if it has none that would do."""
        assert self.base is not None  # otherwise none is wanted
        section = self.job.attributes.get(name, AttributeSection())
        if section.type != "categorical":
            text = f'a taxonomy\'s distance is for categories, and {name} is {section.type}; use "ordered"'
            raise JobError(Problem(text, key=("distance",)))
        if section.taxonomy is None or section.taxonomy == "flat":
            text = f'missing; give [attributes.{name}] taxonomy = "file.csv" or "file.yaml", or use another distance'
            raise JobError(Problem(text, key=("taxonomy",)))
        return read_taxonomy(self.base / section.taxonomy)
