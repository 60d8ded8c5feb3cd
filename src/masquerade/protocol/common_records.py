"""What every method that joins the parties' columns starts and ends with: the common records, the class, the hand-in.

The assembler, which is no party, gets the columns of the release in the common order and never an identifier, a raw
value of a QID attribute or an intermediate partition.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from masquerade.anonymize.preparation import refuse_unreachable
from masquerade.data.column import Coded, Generalised
from masquerade.data.table import Origin, Table
from masquerade.errors import NoCommonRecords
from masquerade.net.progress import OnStage, Stage
from masquerade.net.script import Receive, Script, Send
from masquerade.protocol.align import align
from masquerade.protocol.classes import share_class
from masquerade.protocol.columns import Columns, Received, ReportedStep, write_columns
from masquerade.protocol.contract import Contract
from masquerade.protocol.gain import own_part
from masquerade.protocol.joint_histogram.pair import BackEnd
from masquerade.protocol.listed_values import refuse_unknown_to
from masquerade.protocol.method import ASSEMBLER, Seat
from masquerade.utility.comparison import Comparison
from masquerade.utility.losses import losses_of
from masquerade.utility.queries import holders_error


@dataclass(frozen=True)
class CommonRecords:
    """A party's rows of the common records, in the order that all parties have them in, and what it knows of them."""

    own: Table
    classes: Coded | None  # of each record, where the contract names a class
    sensitive: dict[str, Coded]  # the sensitive columns that this party knows
    seconds: dict[str, float]  # taken so far, by part of the session
    aligned: float  # when the common records were known, by the performance counter


def find_common_records(seat: Seat, preparing: Stage) -> Script[CommonRecords]:
    """Align the tables and share the class; `preparing` is the stage that follows the alignment."""
    name, contract, identifiers = seat.name, seat.contract, seat.identifiers
    refuse_unknown_to(name, contract, seat.table)
    seat.on_stage(Stage("aligning"))
    started = time.perf_counter()
    # Each party hashes its own list and blinds every list; the others' sizes, not known yet, are usually similar.
    work = AlignProgress(seat.on_stage, len(identifiers) * (len(contract.parties) + 1))
    me = contract.parties.index(name)
    rows = yield from align(
        me, contract.parties, identifiers, contract.hash, contract.most_records, work.more
    )
    if not rows.size:
        raise NoCommonRecords(
            f"the parties {', '.join(contract.parties)} have no record in common; do they use the same identifiers?"
        )
    own = seat.table.take(rows)
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
    name, contract, own = seat.name, seat.contract, common.own
    seconds = dict(common.seconds)
    seconds["protocol"] = time.perf_counter() - common.aligned - seconds.get("prepare", 0.0)
    seat.before_showing()
    seat.on_stage(Stage("handing in"))
    comparison = _comparison(own, tuple(released.values()))
    yield Send(
        (ASSEMBLER,),
        Columns(
            table=write_columns(handed_in(name, contract, own, released)),
            steps=tuple(steps) if seat.show_steps else (),
            losses=losses_of(comparison),
            left_out=tuple(seat.left_out),
            seconds=seconds,
            histograms_by=histograms_by,
            query_error=holders_error(comparison),
        ),
    )
    heard = yield Receive(ASSEMBLER, Received)
    if seat.on_joined is not None and common.classes is not None and heard.error is not None:
        mine = [column.name for column in contract.columns_of(name)]
        seat.on_joined(own_part(own, mine, common.classes, heard.error))
    return len(own)


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
    return pa.table({each: _plain(column) for each, column in cells.items()})


def _plain(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Strip a raw column's dictionary, which may name values of people who are not in common."""
    if isinstance(column, pa.ChunkedArray) and pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    return column


def _comparison(own: Table, released: tuple[Generalised, ...]) -> Comparison:
    originals = own.columns(column.name for column in released)
    return Comparison(originals, released, None, None, {})
