"""What every method that joins the parties' columns starts and ends with: the common records, the class, the hand-in.

The assembler, which is no party, gets the columns of the release in the common order and never an identifier, a raw
value of a QID attribute or an intermediate partition.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from masquerade.anonymize.preparation import refuse_unreachable
from masquerade.data.column import Coded, Column, Generalised
from masquerade.data.records import Records
from masquerade.data.table import Origin, Table
from masquerade.engine.chunks import Engine
from masquerade.engine.counts import Rows
from masquerade.errors import Bug, NoCommonRecords
from masquerade.net.progress import OnStage, Stage
from masquerade.net.script import Receive, Script, Send
from masquerade.protocol.align import align
from masquerade.protocol.attribute_terms import agreed_table
from masquerade.protocol.classes import share_class
from masquerade.protocol.columns import Columns, Received, ReportedStep, compact, write_columns
from masquerade.protocol.contract import Contract
from masquerade.protocol.engine_state import on_engine
from masquerade.protocol.gain import own_part
from masquerade.protocol.joint_histogram.pair import BackEnd
from masquerade.protocol.listed_values import refuse_unknown_to
from masquerade.protocol.method import ASSEMBLER, Seat
from masquerade.utility.comparison import Comparison
from masquerade.utility.losses import losses_of, shown_to_others
from masquerade.utility.queries import holders_error


@dataclass(frozen=True)
class CommonRecords:
    """A party's rows of the common records, in the order that all parties have them in, and what it knows of them."""

    own: Table
    classes: Coded | None  # of each record, where the contract names a class
    sensitive: dict[str, Coded]  # the sensitive columns that this party knows
    seconds: dict[str, float]  # taken so far, by part of the session
    aligned: float  # when the common records were known, by the performance counter
    kept: Rows | None = (
        None  # the rows of `own` that all the rest is about, and that are released; None for all
    )

    @property
    def n_records(self) -> int:
        """How many records all this is about."""
        return len(self.own) if self.kept is None else int(self.kept.size)

    def column(self, name: str) -> Column:
        """Return one of this party's columns, whose domain is that of all common records."""
        column = self.own.column(name)
        return column if self.kept is None else column.of_rows(self.kept)

    def only(self, rows: Rows) -> CommonRecords:
        """Return the same for just these rows of `own`."""
        if rows.size == len(self.own):
            return self
        classes = self.classes.of_rows(rows) if self.classes is not None else None
        sensitive = {name: coded.of_rows(rows) for name, coded in self.sensitive.items()}
        return replace(self, classes=classes, sensitive=sensitive, kept=rows)

    @property
    def left(self) -> Table:
        """This party's rows that are released."""
        return self.own if self.kept is None else self.own.take(self.kept)

    @property
    def n_common(self) -> int:
        """How many records are common, released or not."""
        return len(self.own)

    @property
    def has_raw_columns(self) -> bool:
        """Whether the party's process has its raw columns."""
        return True

    def on_engine(self, engine: Engine, columns: Sequence[Column]) -> Records:
        """Put these columns, the classes and the known sensitive values into an engine's chunks."""
        coded = [*self.sensitive.values(), *([self.classes] if self.classes is not None else [])]
        return on_engine(engine, self.n_records, columns, coded)

    def released(self, column: Generalised) -> Generalised:
        """Return a column that is generalised as a whole, with the codes of all records."""
        return column

    def comparison(self, released: tuple[Generalised, ...]) -> Comparison:
        """Return the released columns beside their originals."""
        originals = self.own.columns(column.name for column in released)
        return Comparison(originals, released, None, self.kept, {})

    def query_error(self, comparison: Comparison) -> int | None:
        """Return the error of queries about this party's own columns, as precisely as it may be shown."""
        return holders_error(comparison)


def find_common_rows(seat: Seat) -> Script[Rows]:
    """Align the tables in the way that the contract names; return the rows of the common records, in their order."""
    contract = seat.contract
    seat.on_stage(Stage("aligning"))
    # Each party hashes its own list and blinds every list; the others' sizes, not known yet, are usually similar.
    work = AlignProgress(seat.on_stage, len(seat.identifiers) * (len(contract.parties) + 1))
    me = contract.parties.index(seat.name)
    return (
        yield from align(
            me,
            contract.parties,
            seat.identifiers,
            contract.hash,
            contract.most_records,
            work.more,
            contract.aligned_by,
        )
    )


def refuse_nobody(contract: Contract, rows: Rows) -> None:
    """Raise NoCommonRecords if there is none."""
    if not rows.size:
        raise NoCommonRecords(
            f"the parties {', '.join(contract.parties)} have no record in common; do they use the same identifiers?"
        )


def find_common_records(seat: Seat, preparing: Stage) -> Script[CommonRecords]:
    """Align the tables and share the class; `preparing` is the stage that follows the alignment."""
    name, contract = seat.name, seat.contract
    refuse_unknown_to(name, contract, seat.table)
    started = time.perf_counter()
    rows = yield from find_common_rows(seat)
    refuse_nobody(contract, rows)
    own = agreed_table(seat.table, contract.attributes).take(rows)
    aligned = time.perf_counter()
    seat.on_stage(preparing)
    needed = contract.columns_needed(name)
    held = own.coded(contract.class_name) if contract.class_name in needed else None
    # What cannot be reached is refused before anything is shown, as far as this party can tell.
    sensitive = known_sensitive(name, contract, own, held)
    if held is not None:
        seat.before_showing()
    classes = yield from share_class(name, contract, held, len(own))
    if held is None and classes is not None:
        sensitive = known_sensitive(name, contract, own, classes)
    return CommonRecords(own, classes, sensitive, {"align": aligned - started}, aligned)


def hand_in(
    seat: Seat,
    common: CommonRecords,
    released: Mapping[str, Generalised],
    *,
    steps: Sequence[ReportedStep] = (),
    histograms_by: tuple[BackEnd, ...] = (),
) -> Script[int]:
    """Give the assembler this party's columns, generalised where they are in `released`. Return the common records."""
    name, contract = seat.name, seat.contract
    seconds = dict(common.seconds)
    seconds["protocol"] = time.perf_counter() - common.aligned - seconds.get("prepare", 0.0)
    seat.before_showing()
    seat.on_stage(Stage("handing in"))
    comparison = common.comparison(tuple(released.values()))
    if any(comparison.violations.values()):
        raise Bug("a column is generalised beyond its boundaries; nothing was handed in")
    left = common.left
    yield Send(
        (ASSEMBLER,),
        Columns(
            table=write_columns(handed_in(name, contract, left, released)),
            steps=tuple(steps) if seat.show_steps else (),
            losses=shown_to_others(losses_of(comparison), comparison.rows),
            left_out=tuple(seat.left_out),
            seconds=seconds,
            suppressed=common.n_common - common.n_records,
            histograms_by=histograms_by,
            query_error=common.query_error(comparison),
        ),
    )
    heard = yield Receive(ASSEMBLER, Received)
    wanted = seat.on_joined if common.has_raw_columns else None
    if wanted is not None and common.classes is not None and heard.error is not None:
        mine = [column.name for column in contract.columns_of(name)]
        wanted(own_part(left, mine, common.classes, heard.error))
    return common.n_common


@dataclass
class AlignProgress:
    """Reports the progress of the alignment, at most once a second."""

    on_stage: OnStage
    expected: int
    done: int = 0
    reported: float = field(default_factory=time.monotonic)

    def more(self, points: int) -> None:
        """Add `points` finished points."""
        self.done += points
        now = time.monotonic()
        if now - self.reported >= 1:
            self.reported = now
            percent = min(99, 100 * self.done // max(self.expected, 1))
            self.on_stage(Stage("aligning", percent=percent))


def known_sensitive(name: str, contract: Contract, own: Table, classes: Coded | None) -> dict[str, Coded]:
    """Return the sensitive columns that this party knows; RequirementUnreachable if all records in one group fail."""
    parts = contract.parts
    mine = {column.name for column in contract.columns_of(name)}
    sensitive = {
        part.sensitive: own.coded(part.sensitive)
        for part in parts
        if part.sensitive is not None and part.sensitive in mine
    }
    if classes is not None and contract.class_name in contract.requirement.sensitive_attributes:
        sensitive[classes.name] = classes  # all parties know it, whichever holds it
    judged = [part for part in parts if part.sensitive is None or part.sensitive in sensitive]
    # Every party reaches the same conclusion, in the same words.
    common = Table(own.arrow, own.schema, origin=Origin("the common records"))
    refuse_unreachable(common, judged, sensitive)
    return sensitive


def handed_in(name: str, contract: Contract, own: Table, released: Mapping[str, Generalised]) -> pa.Table:
    """Return a party's columns of the release: the generalised ones, and those released unchanged."""
    cells = {
        column.name: released[column.name].to_arrow() if column.name in released else own.cells(column.name)
        for column in contract.columns_of(name)
    }
    if contract.class_holder == name and contract.class_name is not None:
        cells[contract.class_name] = own.cells(contract.class_name)
    return pa.table({each: compact(column) for each, column in cells.items()})
