"""What every method that joins the parties' columns starts and ends with: the common records, the class, the hand-in.

A party's rows of the common records are `Records`: one chunk of its table, where that is in this memory, or the chunks
that an engine has read. The order of the common records is in this process while they are put into it, and so are the
classes, which all parties know; everything else stays in the chunks until it is handed in.

The assembler, which is no party, gets the columns of the release in the common order and never an identifier, a raw
value of a QID attribute or an intermediate partition.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Generic

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from masquerade.anonymize import refuse_violating_whole
from masquerade.data import Coded, Column, Generalised, Records, Table, by_cut, codes_of, ranks_of
from masquerade.engine import Arrays, Chunk, Counts, Engine, Ints, Kernel, Rows, summed
from masquerade.errors import Bug, DataError, NoCommonRecords, ParameterError, PeerBrokeProtocol, Problem
from masquerade.net import Message, Receive, Script, Send
from masquerade.privacy import GroupRequirement
from masquerade.progress import Stage
from masquerade.protocol.align.align import align, digest_of_people, who_differs
from masquerade.protocol.align.identifiers import Identifiers
from masquerade.protocol.contract import Contract, agreed_table
from masquerade.protocol.hand_in import (
    Columns,
    Received,
    ReportedStep,
    compact,
    digest_of_cells,
    in_order_of_occurrence,
    own_part,
    shown_seconds,
    write_columns,
)
from masquerade.protocol.method import ASSEMBLER, Participant
from masquerade.protocol.own_rows import COMMON, cells_of, counted_columns, in_common_order
from masquerade.protocol.pairs import BackEnd
from masquerade.protocol.sensitive.checks import remote_parts
from masquerade.utility import (
    Answer,
    Comparison,
    Query,
    Shown,
    error_of_holder,
    estimated_answers,
    losses_of,
    queries_of_holder,
    shown_to_others,
    true_answers,
)

# --- classes ------------------------------------------------------------------------------------------------
# The class of the common records, which all parties of a mashup share.
#
# Either every party holds it: then every two parties test whether theirs are equal, and learn that one bit
# (protocol/align/align.py). Where two differ, all parties stop, since nobody can be equal to both; nobody is told how
# many records differ, nor which. Or one party shares it with the others, because the contract says so.


class ClassColumn(Message, tag="class-column", frozen=True):
    """The sender's classes of the common records: labels, and four bytes per record."""

    labels: tuple[str, ...]
    codes: bytes


def share_class(me: str, contract: Contract, own: Coded | None, n_rows: int) -> Script[Coded | None]:
    """Return the class of the common records, the same for all parties; None when the contract has none."""
    name = contract.class_name
    if name is None:
        return None
    if contract.class_from is None:
        assert own is not None
        yield from insist_on_same_classes(me, contract, own, n_rows)
        return own
    if contract.class_from == me:
        assert own is not None
        column = ClassColumn(own.labels, own.codes.astype("<u4").tobytes())
        yield Send(tuple(party for party in contract.parties if party != me), column)
        return own
    message = yield Receive(contract.class_from, ClassColumn)
    codes = np.frombuffer(message.codes, "<u4") if len(message.codes) == 4 * n_rows else None
    if codes is None or (codes.size and int(codes.max()) >= len(message.labels)):
        raise PeerBrokeProtocol(contract.class_from, f"sent classes that do not fit the {n_rows} common records")
    return Coded(name, codes.astype(np.int32), tuple(message.labels))


def insist_on_same_classes(me: str, contract: Contract, own: Coded, n_rows: int) -> Script[None]:
    """Test with every other party whether it has the same classes; DataError where one has others."""
    number, session = contract.parties.index(me), b"same classes\0" + contract.hash
    different = yield from who_differs(number, contract.parties, _digest(own), session)
    if different:
        raise DataError(
            f"class {contract.class_name}: {me} has other classes than {', '.join(different)} for some of the {n_rows} "
            "common records; agree on them, or let one party share its class"
        )


def _digest(coded: Coded) -> bytes:
    digest = hashlib.sha256(len(coded.labels).to_bytes(4, "little"))
    for label in coded.labels:
        digest.update(len(label.encode()).to_bytes(4, "little") + label.encode())
    digest.update(coded.codes.astype("<u4").tobytes())
    return digest.digest()


# --- listed values ------------------------------------------------------------------------------------------
# Refuse sensitive values that a requirement lists and no record has: a typing error would disable the requirement.
#
# The holder of the sensitive attribute looks for them in its whole table, before its first message; a trusted third
# party looks in the records of all providers. The error names values that were asked for, and no others.
#
# A value that the holder's table has, but no common record, is fine: the requirement holds for it as it is,
# and refusing it would reveal something about people who are not in common. There a mashup goes on where
# `anonymize` would refuse the joined table.

# Returns the values of a column, wherever its rows are.
Values = Callable[[str], Coded]


def refuse_unknown_values(
    parts: Iterable[GroupRequirement], values_of: Values, who: str = "nobody has a record"
) -> None:
    """Raise a problem for each requirement that lists values which no record of the table has.

    Another is a requirement with a taxonomy that lacks values of the table: the holder finds that out before its first
    message, too. The requirement is the problem's owner. `who` says whose table it is: "the clinic has no record".
    """
    problems = []
    for part in parts:
        listed = part.values or ()
        known = set(values_of(part.sensitive).labels) if listed and part.sensitive is not None else set()
        if unknown := [f'"{value}"' for value in listed if value not in known]:
            lacking = f"{who} with {part.sensitive} = {' or '.join(unknown)}"
            text = f"{lacking}; a bound on a value that is nowhere binds nothing"
            problems.append(Problem(text, owner=str(part)))
        if part.sensitive is not None and part.needs_taxonomy(part.parameters()):
            try:
                part.bind(values_of(part.sensitive).labels)
            except ParameterError as error:
                problems += [each.at(owner=str(part), key=("taxonomy",)) for each in error.problems]
    if problems:
        raise ParameterError(*problems)


def refuse_unknown_to(name: str, contract: Contract, values_of: Values) -> None:
    """Do the same for one party of a mashup and its own table, for the sensitive values that it hands in.

    Providers of the same columns are not checked: another provider may have the value.
    """
    if contract.provider is not None:
        return
    own = {column.name for column in contract.columns_of(name)}
    if contract.class_holder == name and contract.class_name is not None:
        own.add(contract.class_name)
    judged = [part for part in contract.parts if part.sensitive in own]
    refuse_unknown_values(judged, values_of, f"{name} has no record")


# --- common records -----------------------------------------------------------------------------------------

_BYTES_PER_CELL = 16


@dataclass(frozen=True)
class CommonRecords:
    """A party's rows of the common records, in the order that all parties have them in, and what it knows of them."""

    everybody: Records  # all that are common, those that cannot be released, too
    records: Records  # those that all the rest is about, and that are released
    kept: Rows | None  # which of all these are; None for all
    classes: Coded | None  # of each of them, where the contract names a class
    sensitive: dict[str, Coded]  # the sensitive columns that this party knows
    seconds: dict[str, float]  # taken so far, by part of the session
    aligned: float  # when the common records were known, by the performance counter
    own_rows: Rows  # where each of all of them is in our own table

    @property
    def own(self) -> Table:
        """All common records as a table, for what needs whole columns at once."""
        return self.everybody.together("boundaries between parties")

    @property
    def n_records(self) -> int:
        """How many records all this is about."""
        return len(self.records)

    def column(self, name: str) -> Column:
        """Return one of this party's columns with its ranks; its domain is that of all common records."""
        column = self.own.column(name)
        return column if self.kept is None else column.of_rows(self.kept)

    def columns(self, contract: Contract, name: str) -> list[Column]:
        """Return this party's columns of the QIDs, without ranks: those are in the chunks."""
        return [self.records.columns[each.name] for each in contract.qid_columns if each.holder == name]

    def only(self, rows: Rows) -> CommonRecords:
        """Return the same for just these rows, which may not be all: those that can be released."""
        if rows.size == len(self.everybody):
            return self
        classes = self.classes.of_rows(rows) if self.classes is not None else None
        sensitive = {name: coded.of_rows(rows) for name, coded in self.sensitive.items()}
        chunks = self.everybody.chunks.derive(partial(_rows_of, rows=rows))
        counted = {**sensitive, **({classes.name: classes} if classes is not None else {})}
        left = replace(
            self.everybody,
            chunks=chunks,
            sizes=(rows.size,),
            whole={name: coded.histogram() for name, coded in counted.items()},
            table=self.own.take(rows),
        )
        return replace(self, records=left, kept=rows, classes=classes, sensitive=sensitive)

    def on(self, engine: Engine | None) -> CommonRecords:
        """Return the same with the chunks on the party's engine, if it has one and they are not there yet."""
        if engine is None or self.records.engine is engine:
            return self
        return replace(self, records=on_engine(self.records, engine))

    @property
    def left(self) -> Table:
        """The released rows: all raw columns where this process has them, else those that are released as they are."""
        records = self.records
        if records.table is not None:
            return records.table
        columns = {}
        for name, values in records.cells.items():
            numbers = collected(records, partial(_array_of, name=cells_of(name)))
            columns[name] = pa.chunked_array([values.take(pa.array(numbers))])
        return Table(pa.table(columns), records.schema)

    def released(self, column: Generalised) -> Generalised:
        """Collect the codes of a column that is generalised as a whole, chunk by chunk."""
        return replace(column, codes=collected(self.records, by_cut(column)))

    def comparison(self, released: tuple[Generalised, ...]) -> Comparison:
        """Return the released columns beside their originals, which are counted where they are."""
        originals = tuple(self.records.columns[each.name] for each in released)
        left_out = len(self.everybody) - len(self.records)
        return _HandedIn(originals, released, None, None, {}, left_out, common=self)

    def query_error(self, comparison: Comparison) -> int | None:
        """Return the error of queries about our own columns, as precisely as it may be shown."""
        queries = queries_of_holder(comparison)
        if queries is None:
            return None
        true = self.everybody.chunks.each(partial(_true_answers, queries=queries, originals=comparison.originals))
        estimated = self.records.chunks.each(
            [
                partial(_estimates, queries=queries, released=codes)
                for codes in _sliced(comparison.released, self.records.sizes)
            ]
        )
        return error_of_holder(np.sum(true, axis=0), np.sum(estimated, axis=0), comparison.rows)


@dataclass(frozen=True, eq=False)
class _HandedIn(Comparison):
    """Released columns, whose codes are in this process, as they are handed in; their originals are in chunks."""

    common: CommonRecords = field(kw_only=True)

    @property
    def _seen(self) -> int:
        return self.common.n_records

    def _total(self, count: Callable[[Shown], Answer]) -> Answer:
        records = self.common.records
        names = tuple(column.name for column in self.originals)
        pieces = _sliced(self.released, records.sizes)
        return summed(records.chunks.each([_Counted(count, names, each) for each in pieces]))  # type: ignore[no-any-return]

    @cached_property
    def all_rank_counts(self) -> tuple[Counts, ...]:
        if not self.suppressed:
            return self.rank_counts
        everybody = replace(self.common, records=self.common.everybody)
        return replace(self, released=(), unseen=0, common=everybody).rank_counts


def find_common_rows(participant: Participant) -> Script[Rows]:
    """Align the tables in the way that the contract names; return the rows of the common records, in their order."""
    contract = participant.contract
    participant.on_stage(Stage("aligning"))
    participant.before_list(participant.name, len(participant.identifiers))
    # Each party hashes its own list and blinds every list; the others' sizes, not known yet, are usually similar.
    expected = max(len(participant.identifiers) * (len(contract.parties) + 1), 1)
    done, reported = 0, time.monotonic()

    def on_done(points: int) -> None:
        nonlocal done, reported
        done, now = done + points, time.monotonic()
        if now - reported >= 1:  # at most once a second
            reported = now
            participant.on_stage(Stage("aligning", percent=min(99, 100 * done // expected)))

    me = contract.parties.index(participant.name)
    rows = yield from align(
        me,
        contract.parties,
        participant.identifiers,
        contract.hash,
        contract.most_records,
        on_done,
        contract.aligned_by,
        participant.before_list,
    )
    # In the order of our own table: the common one is another in every session.
    participant.settled("people", digest_of_people(Identifiers.of(participant.identifiers).take(np.sort(rows))))
    return rows


def refuse_nobody(contract: Contract, rows: Rows) -> None:
    """Raise NoCommonRecords if there is none."""
    if not rows.size:
        raise NoCommonRecords(
            f"the parties {', '.join(contract.parties)} have no record in common; do they use the same identifiers?"
        )


def find_common_records(participant: Participant, preparing: Stage) -> Script[CommonRecords]:
    """Align the tables and share the class; `preparing` is the stage that follows the alignment."""
    name, contract = participant.name, participant.contract
    own = participant.records
    refuse_unknown_to(name, contract, participant.table.coded if own is None else own.coded.__getitem__)
    started = time.perf_counter()
    rows = yield from find_common_rows(participant)
    refuse_nobody(contract, rows)
    # Of a table only the cells of common records are looked at; an engine has looked at all while it read them.
    everybody = (
        records_of(name, contract, agreed_table(participant.table, contract.attributes).take(rows))
        if own is None
        else in_common_order(own, rows)
    )
    aligned = time.perf_counter()
    participant.on_stage(preparing)
    class_name, held = contract.class_name, None
    if class_name is not None and class_name in contract.columns_needed(name):
        held = with_codes(everybody, class_name)
    # What cannot be reached is refused before anything is shown, as far as this party can tell.
    sensitive = known_sensitive(name, contract, everybody, held)
    if held is not None:
        participant.before_showing()
    classes = yield from share_class(name, contract, held, len(everybody))
    if held is None and classes is not None:
        everybody = with_classes(everybody, classes)
        sensitive = known_sensitive(name, contract, everybody, classes)
    return CommonRecords(everybody, everybody, None, classes, sensitive, {"align": aligned - started}, aligned, rows)


def records_of(name: str, contract: Contract, table: Table) -> Records:
    """Return a party's common records, where they are a table, as one chunk of it."""
    return replace(Records.of(table, *counted_columns(name, contract)), name=COMMON)


def on_engine(records: Records, engine: Engine) -> Records:
    """Put records that are one chunk here into an engine's chunks."""
    arrays = records.chunks.only(0, dict)
    rows = engine.rows_at_once(_BYTES_PER_CELL * max(len(arrays), 1))
    loaders = [
        partial(
            _read_piece,
            arrays={name: array[at : at + rows] for name, array in arrays.items()},
            rows=min(rows, len(records) - at),
        )
        for at in range(0, len(records), rows)
    ]
    chunks, sizes = engine.load(loaders)
    return replace(records, engine=engine, chunks=chunks, sizes=tuple(sizes))


def hand_in(
    participant: Participant,
    common: CommonRecords,
    released: Mapping[str, Generalised],
    *,
    groups: Sequence[Counts],
    steps: Sequence[ReportedStep] = (),
    histograms_by: tuple[BackEnd, ...] = (),
) -> Script[int]:
    """Give the assembler this party's columns, generalised where they are in `released`. Return the common records.

    `groups` has each record's group, for each part of the requirement that has groups of its own.
    """
    name, contract = participant.name, participant.contract
    seconds = dict(common.seconds)
    seconds["protocol"] = time.perf_counter() - common.aligned - seconds.get("prepare", 0.0)
    participant.before_showing()
    participant.on_stage(Stage("handing in"))
    comparison = common.comparison(tuple(released.values()))
    if any(comparison.violations.values()):
        raise Bug("a column is generalised beyond its boundaries; nothing was handed in")
    left = common.left
    cells = handed_in(name, contract, left, released)
    settle_cells(participant, common.own_rows if common.kept is None else common.own_rows[common.kept], cells, groups)
    yield Send(
        (ASSEMBLER,),
        Columns(
            table=write_columns(cells),
            steps=tuple(steps) if participant.show_steps else (),
            losses=shown_to_others(losses_of(comparison), comparison.rows),
            left_out=tuple(participant.left_out),
            seconds=shown_seconds(seconds, exactly=participant.show_steps),
            suppressed=len(common.everybody) - common.n_records,
            histograms_by=histograms_by,
            query_error=common.query_error(comparison),
        ),
    )
    heard = yield Receive(ASSEMBLER, Received)
    wanted = participant.on_joined if common.records.table is not None else None
    if wanted is not None and common.classes is not None and heard.error is not None:
        mine = [column.name for column in contract.columns_of(name)]
        wanted(own_part(left, mine, common.classes, heard.error))
    return len(common.everybody)


def known_sensitive(name: str, contract: Contract, records: Records, classes: Coded | None) -> dict[str, Coded]:
    """Return the sensitive columns that this party knows; RequirementUnreachable if all records in one group fail.

    Codes come along where requirements on them are tested under sharing, and where they are in this memory anyway.
    """
    parts = contract.parts
    mine = {column.name for column in contract.columns_of(name)}
    fetched = {part.sensitive for part in (parts if records.table is not None else remote_parts(contract))}
    sensitive = {
        part.sensitive: with_codes(records, part.sensitive)
        if part.sensitive in fetched
        else records.coded[part.sensitive]
        for part in parts
        if part.sensitive is not None and part.sensitive in mine
    }
    if classes is not None and contract.class_name in contract.requirement.sensitive_attributes:
        sensitive[classes.name] = classes  # all parties know it, whichever holds it
    judged = [part for part in parts if part.sensitive is None or part.sensitive in sensitive]
    # Every party reaches the same conclusion, in the same words.
    whole = {each: (records.whole[each], coded.labels) for each, coded in sensitive.items()}
    refuse_violating_whole(COMMON, len(records), judged, whole)
    return sensitive


def settle_cells(participant: Participant, own_rows: Rows, cells: pa.Table, groups: Sequence[Counts] = ()) -> None:
    """Settle which of our own rows are released, with which cells, and which of them are in one group."""
    order = np.argsort(own_rows)  # that of our table: the common one is another in every session
    digest = hashlib.sha256(own_rows[order].astype("<i8").tobytes())
    for labels in groups:
        digest.update(in_order_of_occurrence(pa.array(labels[order])).indices.to_numpy().astype("<i4").tobytes())
    digest.update(digest_of_cells(cells.take(pa.array(order))))
    participant.settled("cells", digest.digest())


def handed_in(name: str, contract: Contract, own: Table, released: Mapping[str, Generalised]) -> pa.Table:
    """Return a party's columns of the release: the generalised ones, and those released unchanged."""
    cells = {
        column.name: released[column.name].to_arrow() if column.name in released else own.cells(column.name)
        for column in contract.columns_of(name)
    }
    if contract.class_holder == name and contract.class_name is not None:
        cells[contract.class_name] = own.cells(contract.class_name)
    return pa.table({each: compact(column) for each, column in cells.items()})


def with_codes(records: Records, name: str) -> Coded:
    """Fetch the codes of a column."""
    return replace(records.coded[name], codes=collected(records, partial(_array_of, name=codes_of(name))))


def with_classes(records: Records, classes: Coded) -> Records:
    """Let the chunks have the classes that another party shares."""
    ends = np.cumsum(records.sizes)
    records.chunks.change(
        [
            partial(_put, name=codes_of(classes.name), values=classes.codes[end - size : end])
            for size, end in zip(records.sizes, ends.tolist(), strict=True)
        ]
    )
    coded = {**records.coded, classes.name: replace(classes, codes=np.empty(0, np.int32))}
    return replace(records, coded=coded, whole={**records.whole, classes.name: classes.histogram()})


def collected(records: Records, kernel: Kernel[Ints]) -> NDArray[np.int32]:
    """Put together an array of all chunks, one chunk at a time; that of one chunk is not copied."""
    if len(records.chunks) == 1:
        return records.chunks.only(0, kernel).astype(np.int32, copy=False)
    found = np.empty(len(records), np.int32)
    first = 0
    for at, size in enumerate(records.sizes):
        found[first : first + size] = records.chunks.only(at, kernel)
        first += size
    return found


def _sliced(released: Sequence[Generalised], sizes: Sequence[int]) -> list[tuple[Generalised, ...]]:
    """Cut released columns into those of each chunk."""
    ends = np.cumsum(sizes).tolist()
    return [
        tuple(replace(each, codes=each.codes[end - size : end]) for each in released)
        for size, end in zip(sizes, ends, strict=True)
    ]


def _read_piece(arrays: Arrays, rows: int) -> tuple[Arrays, int]:
    """The loader of some rows of a chunk."""
    return arrays, rows


def _rows_of(chunk: Chunk, *, rows: Rows) -> Arrays:
    """Some rows of a chunk, in this order."""
    return {name: array.take(rows) for name, array in chunk.items()}


def _array_of(chunk: Chunk, *, name: str) -> Ints:
    found: Ints = chunk[name]
    return found


def _put(chunk: Chunk, *, name: str, values: Ints) -> Arrays:
    return {name: values}


@dataclass(frozen=True, eq=False)
class _Counted(Generic[Answer]):
    """Counts a chunk's records, beside their released values."""

    count: Callable[[Shown], Answer]
    names: tuple[str, ...]
    released: tuple[Generalised, ...]

    def __call__(self, chunk: Chunk) -> Answer:
        return self.count(_InChunk(self, chunk))


@dataclass(frozen=True, eq=False)
class _InChunk:
    """A chunk's records as they were and as they are released."""

    of: _Counted[Any]
    chunk: Chunk

    def codes(self, at: int) -> Ints:
        return self.of.released[at].codes

    def ranks(self, at: int) -> Ints:
        found: Ints = self.chunk[ranks_of(self.of.names[at])]
        return found

    def values(self, coded: Coded) -> Ints:
        found: Ints = self.chunk[codes_of(coded.name)]
        return found


def _true_answers(chunk: Chunk, *, queries: Sequence[Query], originals: tuple[Column, ...]) -> NDArray[np.float64]:
    """Answers queries about a chunk's records."""
    with_ranks = tuple(replace(each, ranks=chunk[ranks_of(each.name)]) for each in originals)
    return true_answers(Comparison(with_ranks, (), None, None, {}), queries)


def _estimates(chunk: Chunk, *, queries: Sequence[Query], released: tuple[Generalised, ...]) -> NDArray[np.float64]:
    """Answers queries about a chunk's records by their released values."""
    return estimated_answers(Comparison((), released, None, None, {}), queries)
