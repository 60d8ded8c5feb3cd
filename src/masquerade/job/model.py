"""The job file's shape: every section and key, what it must be, and its default.

The `description` of a key completes the sentence "… must be …": it is shown when the key is wrong.
Required keys and contradictions between keys are not checked here but in `job/plan.py`.

The keys of `[algorithm]` depend on the method that it names (`masquerade.methods`).
"""

from __future__ import annotations

import datetime
import math
import re
import sys
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, TypeGuard

from pydantic import ConfigDict, Field, PlainValidator

from masquerade.data.continuum import ISO_DATE, ISO_TIMES, days, read_date
from masquerade.data.encode import MISSING_VALUES
from masquerade.engine.memory_size import LEAST_MEMORY, read_size, size_text
from masquerade.errors import Key, Problem
from masquerade.forms.form import Form, key

Text = Annotated[str, Field(min_length=1)]
Sign = Annotated[str, Field(min_length=1, max_length=1)]
Texts = Annotated[list[Text], Field(min_length=1)]


def _is_number(value: object) -> TypeGuard[int | float]:
    """Return whether it is a finite number that a float can hold; booleans are not numbers."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _number(
    low: float,
    high: float = math.inf,
    *,
    open_low: bool = False,
    open_high: bool = False,
    whole: bool = False,
) -> PlainValidator:
    """Validate a finite number in `[low, high]`, kept as an integer or decimal as written."""

    def check(value: object) -> int | float:
        if not _is_number(value) or (whole and not isinstance(value, int)):
            raise ValueError
        if not low <= value <= high or (open_low and value == low) or (open_high and value == high):
            raise ValueError
        return value

    return PlainValidator(check)


def _bound(value: object) -> int | float | datetime.date | str:
    """Validate a number, a date, or a date as text."""
    date = isinstance(value, datetime.date) and not isinstance(value, datetime.datetime)
    if _is_number(value) or date or isinstance(value, str):
        return value  # type: ignore[return-value] # just tested
    raise ValueError


def _report(value: object) -> str | Literal[False]:
    if value is False or (isinstance(value, str) and value):
        return value
    raise ValueError


def _date_format(value: object) -> str:
    """Validate a format that reads the dates it writes."""
    day = datetime.datetime(1987, 11, 23, tzinfo=datetime.UTC)
    if isinstance(value, str) and (
        value == ISO_TIMES or read_date(day.strftime(value), value) == days(day.date())
    ):
        return value
    raise ValueError


def _unit(value: object) -> str:
    """Validate what may stand before or after a number and is no part of it."""
    if isinstance(value, str) and re.fullmatch(r"[^0-9+.,'\s-](?:[^0-9+.,'-]{0,14}[^0-9+.,'\s-])?", value):
        return value
    raise ValueError


def _size(value: object) -> str:
    """Validate a size of memory."""
    if isinstance(value, str) and read_size(value) >= LEAST_MEMORY:
        return value
    raise ValueError


Bound = Annotated[Any, PlainValidator(_bound)]

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


class TableSection(Form):
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


class AttributeSection(Form):
    """`[attributes.NAME]`: what a column means."""

    type: Literal["categorical", "continuous", "date"] = _key(
        _one_of("categorical", "continuous", "date"), "categorical"
    )
    min: Bound = _key(_BOUND)
    max: Bound = _key(_BOUND)
    taxonomy: Text | None = _key('a file such as "job.csv" or "job.yaml", or "flat"')
    max_generalization: Texts | None = _key('a list of one or more values, such as ["Blue-collar"]')
    max_width: Annotated[float, _number(0)] | None = _key("a finite number of at least 0; for dates, days")
    min_generalization: Texts | None = _key('a list of one or more values, such as ["Technical"]')
    min_width: Annotated[float, _number(0)] | None = _key("a finite number above 0; for dates, days")
    format: Annotated[str, PlainValidator(_date_format)] = _key(
        'a format of dates with day, month and year, such as "%d/%m/%Y", or "iso"', ISO_DATE
    )
    decimal: Literal[".", ","] = _key(_one_of(".", ","), ".")
    thousands: Literal[".", ",", " ", "'"] | None = _key(_one_of(".", ",", " ", "'"))
    unit: Annotated[str, PlainValidator(_unit)] | None = _key('a text without digits, such as "$" or "kg"')
    weight: Annotated[float, _number(0)] = _key("a finite number of at least 0", 1.0)


class RolesSection(Form):
    """`[roles]`: which columns are special."""

    class_: Text | None = _key(_NAME, alias="class")
    duration: Text | None = _key(_NAME)
    event: Text | None = _key(_NAME)
    sensitive: list[Text] = _empty(list, _ANY_NAMES)
    identifiers: list[Text] = _empty(list, _ANY_NAMES)
    provider: Text | None = _key(_NAME)


class PrivacyEntry(Form):
    """`[[privacy]]`: one requirement. Besides the columns, its keys are the parameters that its model declares."""

    model_config = ConfigDict(extra="allow")

    model: Text = _key('the name of a model, such as "k-anonymity"', "")
    qid: Texts | None = _key(_NAMES)
    sensitive: Text | None = _key(_NAME)

    def given(self) -> dict[str, Any]:
        """Return the parameters that the entry sets, besides `model` and `qid`."""
        named = {} if self.sensitive is None else {"sensitive": self.sensitive}
        return named | {key: value for key, value in (self.model_extra or {}).items() if value is not None}


class EngineSection(Form):
    """`[engine]`: where counting runs, and in how much memory."""

    name: Literal["local", "dask"] = _key(_one_of("local", "dask"), "local")
    address: Text | None = _key('the address of a Dask scheduler, such as "tcp://10.0.0.5:8786"')
    memory: Annotated[str, PlainValidator(_size)] | None = _key(
        f'a size of at least {size_text(LEAST_MEMORY)}, such as "4GB"'
    )

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


class OutputSection(Form):
    """`[output]`: what to write. `report = false` writes no report."""

    table: Text = _key(
        'a file that ends in .csv or .parquet, such as "release.csv"; with an engine, a folder', "release.csv"
    )
    model: Text | None = _key('a file that ends in .json, such as "model.json"')
    report: Annotated[str | Literal[False], PlainValidator(_report)] = _key(
        'a file that ends in .html, such as "report.html", or false for none', "report.html"
    )
    order: Literal["shuffle", "input"] = _key(_one_of("shuffle", "input"), "shuffle")
    keep_provider: bool = _key(_SWITCH, False)
    escape_formulas: bool = _key(_SWITCH, False)
    labels: list[Text] = _empty(list, _ANY_NAMES)


class Job(Form):
    """A whole job file."""

    data: DataSection | None = _key("a table, written [data]")
    attributes: dict[Text, AttributeSection] = _empty(
        dict, "tables, written [attributes.NAME] for each column"
    )
    roles: RolesSection = _empty(RolesSection, "a table, written [roles]")
    privacy: list[PrivacyEntry] = _empty(
        list, "a list of tables, each written [[privacy]] in double brackets"
    )
    algorithm: dict[str, Any] = _empty(dict, "a table, written [algorithm]")  # see masquerade.methods
    parties: dict[Text, PartySection] = _empty(dict, "tables, written [parties.NAME] for each party")
    engine: EngineSection | None = _key("a table, written [engine]")
    output: OutputSection = _empty(OutputSection, "a table, written [output]")
