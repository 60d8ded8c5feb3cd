"""What one party of a learning session has and knows when it learns: its records, all parties' values, who is there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from msgspec import Meta
from numpy.typing import NDArray

from masquerade.arrangement import Arrangement
from masquerade.data import FLAT, Attribute, Continuum, Schema, Table, Taxonomy, encode
from masquerade.errors import DataError, PeerBrokeProtocol, Problem
from masquerade.net import Message, Receive, Script, Send
from masquerade.progress import OnStage, silent
from masquerade.protocol.contract import EVERYBODY, Contract, OutcomeRole
from masquerade.protocol.learn.models import Cells, Numbers
from masquerade.protocol.learn.sums import Openings, prepare_aggregation
from masquerade.protocol.method import forgotten

# --- numbers ------------------------------------------------------------------------------------------------
# A party's columns as numbers: numbers and dates as they are, categories as 0 and 1.


def cells_of(table: Table, name: str) -> Numbers:
    """Return a column of numbers, or of dates as days; a missing cell is NaN, where the table keeps such."""
    attribute = table.schema[name] if name in table.schema else Attribute(name, "continuous")
    plain = replace(attribute, taxonomy=None, max_generalization=(), max_width=None)
    column = encode(plain, table.cells(name), table.problem, keep_missing=table.keeps_missing)
    assert isinstance(column.domain, Continuum)
    values = column.domain.values.astype(np.float64)
    known = np.concatenate((np.full(column.domain.first, np.nan), values))
    numbers: Numbers = known[column.ranks]
    return numbers


# --- means --------------------------------------------------------------------------------------------------
# Missing numbers: each is the mean of what all parties have in its column.
#
# Where the parties have different records, the means come of sums over all of them (`sums.py`), which are
# opened; where they have different columns, each finds its own.


def filled(
    table: Table,
    names: list[str],
    me: int,
    parties: tuple[str, ...],
    purpose: bytes,
    *,
    pooled: bool,
    openings: Openings | None = None,
) -> Script[Table]:
    """Return the table with its missing numbers filled in; `pooled`: by the means of all parties' records."""
    columns = [cells_of(table, name) for name in names]
    known = np.array([[np.nansum(column), np.count_nonzero(~np.isnan(column))] for column in columns])
    if pooled and len(parties) > 1:
        sums = yield from prepare_aggregation(me, parties, purpose, openings)
        known = (yield from sums.total(known.ravel())).reshape(-1, 2)
    for name, (_, count) in zip(names, known, strict=True):
        if round(count) == 0:
            raise DataError(f"attribute {name}: nobody has a number, so there is no mean")
    arrow = table.arrow
    for name, column, (total, count) in zip(names, columns, known, strict=True):
        whole: Numbers = np.where(np.isnan(column), total / count, column)
        arrow = arrow.set_column(arrow.column_names.index(name), name, pa.array(whole))
    plain = [Attribute(each.name, "continuous") if each.name in names else each for each in table.schema]
    return Table(arrow, Schema(plain), origin=table.origin)


# --- outcomes -----------------------------------------------------------------------------------------------
# What models of survival predict: how long each record was followed, and whether that ended by the event.

_EVENTS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def durations_of(table: Table, name: str) -> Numbers:
    """Return each record's duration; DataError unless all are numbers of at least 0."""
    durations = cells_of(table, name)
    wrong = np.flatnonzero(~(durations >= 0))
    if wrong.size:
        raise DataError(table.problem("a duration must be at least 0", int(wrong[0]), name))
    return durations


def events_of(table: Table, name: str) -> NDArray[np.bool_]:
    """Return whose duration ended by the event; DataError unless every cell says yes or no."""
    coded = table.coded(name)
    meant = [_EVENTS.get(label.strip().lower().removesuffix(".0")) for label in coded.labels]
    unknown = [code for code, each in enumerate(meant) if each is None]
    if unknown:
        text = "an event must be one of 1 and 0, true and false, or yes and no"
        raise DataError(table.problem(text, int(np.argmax(np.isin(coded.codes, unknown))), name))
    events: NDArray[np.bool_] = np.array(meant, bool)[coded.codes]
    return events


READERS: Mapping[OutcomeRole, Callable[[Table, str], Any]] = {"duration": durations_of, "event": events_of}


# --- values -------------------------------------------------------------------------------------------------
# Which values each column may have, agreed on before anything is counted.
#
# A taxonomy lists them, and is the same everywhere. Of a column without one, and of the class, every holder
# tells its peers the values that its records have; but none that nearly number the people. The parties also
# tell the magnitude of their numbers of records, a power of two, and whether they have missing numbers to fill in.

MOST_VALUES = 10_000
_SHARE = 5  # a value has on average at least a fifth of `min_records` records: 2 of 10
_LEAST_BITS = 8  # fewer records than this many bits can count are not told from each other

Values = Mapping[str, tuple[str, ...]]
Codes = NDArray[np.int64]


class ColumnValues(Message, tag="learn-values", frozen=True):
    """The values of the sender's columns, by column, and how many bits its number of records has."""

    values: Annotated[dict[str, Annotated[tuple[str, ...], Meta(max_length=MOST_VALUES)]], Meta(max_length=MOST_VALUES)]
    bits: Annotated[int, Meta(ge=_LEAST_BITS, le=64)]
    has_gaps: bool  # whether a number is missing, and to be filled in


@dataclass(frozen=True)
class AgreedValues:
    """The values of all parties' columns, bits of the largest number of records, and whether numbers are missing."""

    values: Values
    most_bits: int
    has_gaps: bool


def own_codes(table: Table, name: str) -> tuple[Codes, tuple[str, ...]]:
    """Return each record's code in a column, and the values by code: a taxonomy's leaves, or what occurs."""
    attribute = table.schema[name] if name in table.schema else Attribute(name)
    if attribute.taxonomy is not None:
        column = table.column(name)
        assert isinstance(column.domain, Taxonomy)
        return column.ranks.astype(np.int64), column.domain.leaves
    coded = table.coded(name)
    return coded.codes.astype(np.int64), coded.labels


def refuse_identifying(table: Table, names: Iterable[str], min_records: int) -> None:
    """Raise DataError for columns with nearly as many values as records.

    As many as `min_records` are always few enough; and values that a taxonomy lists are known anyway.
    """
    problems = []
    for name in names:
        taxonomy = table.schema[name].taxonomy if name in table.schema else None
        if isinstance(taxonomy, Taxonomy) and taxonomy.source != FLAT:
            continue
        n_values = len(own_codes(table, name)[1])
        if n_values > min_records and n_values * min_records > _SHARE * len(table):
            most = max(min_records, _SHARE * len(table) // min_records)
            text = f"{n_values:,} values in {len(table):,} records nearly number the people; at most {most:,} are taken"
            mend = "leave the column out, or group its values by a taxonomy"
            problems.append(Problem(f"{text} (min_records = {min_records:,}): {mend}", table.origin.name, column=name))
    if problems:
        raise DataError(*problems)


def agree_on_values(
    me: int, parties: tuple[str, ...], table: Table, names: Sequence[str], min_records: int
) -> Script[AgreedValues]:
    """Tell all parties which values one's own columns have, and hear theirs."""
    refuse_identifying(table, names, min_records)
    own = {name: own_codes(table, name)[1] for name in names}
    for name, values in own.items():
        if len(values) > MOST_VALUES:
            text = f"column {name} has {len(values)} values; a model takes at most {MOST_VALUES}"
            raise DataError.about(table.origin.name, f"{text}: give a taxonomy, or intervals")
    bits, has_gaps = max(len(table).bit_length(), _LEAST_BITS), table.keeps_missing
    others = tuple(name for number, name in enumerate(parties) if number != me)
    if others:
        yield Send(others, ColumnValues(own, bits, has_gaps))
    told = {parties[me]: own}
    for name in others:
        heard = yield Receive(name, ColumnValues)
        told[name], bits, has_gaps = heard.values, max(bits, heard.bits), has_gaps or heard.has_gaps
    joined = {column: _union(column, told, table) for column in dict.fromkeys(chain.from_iterable(told.values()))}
    return AgreedValues(joined, bits, has_gaps)


def _union(column: str, told: Mapping[str, Values], table: Table) -> tuple[str, ...]:
    """Return all values of a column: a taxonomy's in its order, others sorted, as numbers if all are."""
    lists = {party: values[column] for party, values in told.items() if column in values}
    for party, values in lists.items():
        if len(set(values)) < len(values):
            raise PeerBrokeProtocol(party, f"has a value of {column} twice")
    first = next(iter(lists.values()))
    if len(lists) == 1 or all(values == first for values in lists.values()):
        return first
    if column in table.schema and table.schema[column].taxonomy not in (None, FLAT):
        raise DataError(f"attribute {column}: {' and '.join(lists)} have different taxonomies; use the same")
    everything = {value for values in lists.values() for value in values}
    try:
        return tuple(sorted(everything, key=lambda value: (float(value), value)))
    except ValueError:
        return tuple(sorted(everything))


# --- site ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Site:
    """One party's side of the records: its own ones, or its columns of the common ones, in the common order."""

    name: str
    contract: Contract
    table: Table
    values: Mapping[str, tuple[str, ...]]  # of each column that has categories, whoever holds it
    most_bits: int  # of the number of records of the party that has most
    parties: tuple[str, ...]  # who takes part, in the contract's order: all but those that have dropped out
    on_stage: OnStage = silent
    openings: Openings | None = None  # what was opened; None: nothing is made again when a site drops out
    keep: Callable[[str, bytes], None] = forgotten  # as the party's participant has it
    memory: dict[str, Any] = field(default_factory=dict)  # what a method goes on from when a site drops out

    @property
    def me(self) -> int:
        """This party's number."""
        return self.parties.index(self.name)

    @property
    def count_bits(self) -> int:
        """No count of records reaches 2 to the power of this."""
        adds_up = self.arrangement == "horizontal"
        return self.most_bits + (len(self.parties) - 1).bit_length() if adds_up else self.most_bits

    @property
    def arrangement(self) -> Arrangement:
        """How the parties hold their data."""
        return self.contract.arrangement

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes of the model, in the joint order."""
        return attributes_of(self.contract)

    @property
    def classes(self) -> tuple[str, ...]:
        """The values of the class."""
        assert self.contract.class_name is not None
        return self.values[self.contract.class_name]

    def holder(self, column: str) -> int | None:
        """Return the number of the party that holds a column; None if every party does."""
        if column == self.contract.class_name:
            who = self.contract.class_from
        else:
            who = next(each.holder for each in self.contract.columns if each.name == column)
        return None if who in (None, EVERYBODY) else self.parties.index(who)

    def holds(self, column: str) -> bool:
        """Return whether this party has a column."""
        return self.holder(column) in (None, self.me)

    def codes(self, column: str) -> Codes:
        """Return each record's place among the column's values."""
        codes, labels = own_codes(self.table, column)
        place = {value: at for at, value in enumerate(self.values[column])}
        return np.array([place[label] for label in labels], np.int64)[codes]

    def cells(self) -> Cells:
        """Return this party's attributes as models take them: categories as texts, numbers as numbers."""
        held = [name for name in self.attributes if self.holds(name)]
        return {
            name: np.array(self.values[name], object)[self.codes(name)]
            if name in self.values
            else cells_of(self.table, name)
            for name in held
        }

    def purpose(self, word: str) -> bytes:
        """Return a text that is fresh in this session, to key primitives with; `word` is for one use."""
        return word.encode() + b"\0" + self.contract.hash


def attributes_of(contract: Contract) -> tuple[str, ...]:
    """Return the attributes of a contract's model, in the joint order, without class, duration and event."""
    return tuple(
        column.name for column in contract.columns if column.role == "attribute" and column.name != contract.class_name
    )
