"""One party's part of a mashup: align, share the class, specialise, check, hand in.

Everything but the last step happens among the parties. The assembler, which is no party, gets the columns of the
release in the common order and never an identifier, a raw value of a QID attribute or an intermediate partition.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from masquerade.anonymize.local_view import LocalView
from masquerade.anonymize.preparation import refuse_unreachable
from masquerade.anonymize.public_state import PublicState
from masquerade.data.column import Coded, Generalised
from masquerade.data.table import Origin, Table
from masquerade.errors import Bug, NoCommonRecords
from masquerade.net.progress import OnStage, Stage
from masquerade.net.script import Receive, Script, Send
from masquerade.privacy.k_anonymity import KAnonymity
from masquerade.protocol.align import align
from masquerade.protocol.argmax import ArgMax, plain
from masquerade.protocol.bid_width import bid_words
from masquerade.protocol.classes import share_class
from masquerade.protocol.columns import Columns, Received, ReportedStep, write_columns
from masquerade.protocol.contract import Contract
from masquerade.protocol.gain import own_part
from masquerade.protocol.joint_specialization import JointSpecialization
from masquerade.protocol.listed_values import refuse_unknown_to
from masquerade.protocol.mashup import JointSchema, Round, mashup
from masquerade.protocol.method import ASSEMBLER, Seat
from masquerade.protocol.participation import AlwaysTakePart, Participation, TakePartWhenEven
from masquerade.protocol.remote_checks import prepare_checks
from masquerade.protocol.remote_sensitive import remote_qid
from masquerade.protocol.secure_argmax import prepare
from masquerade.utility.comparison import Comparison
from masquerade.utility.losses import losses_of
from masquerade.utility.queries import holders_error
from masquerade.utility.scores import Score, score_named


def party(method: JointSpecialization, seat: Seat) -> Script[int]:
    """Run this party's part. Return the number of common records.

    `seat.on_step` is called with this party's own specializations as they are made.
    """
    name, contract, identifiers = seat.name, seat.contract, seat.identifiers
    on_stage = seat.on_stage
    me = contract.parties.index(name)
    refuse_unknown_to(name, contract, seat.table)
    on_stage(Stage("aligning"))
    started = time.perf_counter()
    # Each party hashes its own list and blinds every list; the others' sizes, not known yet, are usually similar.
    work = AlignProgress(on_stage, len(identifiers) * (len(contract.parties) + 1))
    rows = yield from align(
        me, contract.parties, identifiers, contract.hash, contract.most_records, work.more
    )
    if not rows.size:
        raise NoCommonRecords(
            f"the parties {', '.join(contract.parties)} have no record in common; do they use the same identifiers?"
        )
    own = seat.table.take(rows)
    aligned = time.perf_counter()

    hides_scores = method.argmax == "secure"
    on_stage(Stage("preparing the comparisons" if hides_scores else "specialising"))
    needed = contract.columns_needed(name)
    held = own.coded(contract.class_name) if contract.class_name in needed else None
    # What cannot be reached is refused before anything is shown, as far as this party can tell.
    sensitive = _known_sensitive(name, contract, own, held)
    if held is not None:
        seat.before_showing()
    classes = yield from share_class(name, contract, held, len(own))
    if held is None and classes is not None:
        sensitive = _known_sensitive(name, contract, own, classes)
    score = score_named(method.score, contract.class_name is not None)
    view, state, schema = _prepared(name, contract, own, classes, sensitive, score)
    seat.before_showing()
    argmax: ArgMax = plain
    seconds = {"align": aligned - started}
    before = time.perf_counter()
    checks = yield from prepare_checks(me, contract, sensitive, len(own))
    if hides_scores:
        words = bid_words(score.name, len(own), len(schema.attributes))
        argmax = yield from prepare(me, contract.parties, words)
        on_stage(Stage("specialising"))
    if hides_scores or checks is not None:
        seconds["prepare"] = time.perf_counter() - before
    made = 0

    def on_round(one: Round) -> None:
        nonlocal made
        made += 1
        on_stage(Stage("specialising", round=made))
        if seat.on_step is not None:
            for step in _reported([one], view, made - 1):
                seat.on_step(step)

    rounds = yield from mashup(
        me,
        contract.parties,
        schema,
        view,
        state,
        classes,
        argmax=argmax,
        checks=checks,
        participation=_strategy(method, contract),
        on_round=on_round,
    )
    if not all(partition.holds() for partition in state.partitions):
        raise Bug("the mashup arrived at groups that the requirement refuses; nothing was handed in")
    seconds["protocol"] = time.perf_counter() - aligned - seconds.get("prepare", 0.0)

    seat.before_showing()
    on_stage(Stage("handing in"))
    released = {each.name: view.released(each.name) for each in contract.qid_columns if each.holder == name}
    comparison = _comparison(own, tuple(released.values()))
    yield Send(
        (ASSEMBLER,),
        Columns(
            table=write_columns(handed_in(name, contract, own, released)),
            steps=_reported(rounds, view) if seat.show_steps else (),
            losses=losses_of(comparison),
            left_out=tuple(seat.left_out),
            seconds=seconds,
            histograms_by=checks.histograms_by if checks is not None else (),
            query_error=holders_error(comparison),
        ),
    )
    heard = yield Receive(ASSEMBLER, Received)
    if seat.on_joined is not None and classes is not None and heard.error is not None:
        mine = [column.name for column in contract.columns_of(name)]
        seat.on_joined(own_part(own, mine, classes, heard.error))
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


def _known_sensitive(name: str, contract: Contract, own: Table, classes: Coded | None) -> dict[str, Coded]:
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


def _prepared(
    name: str,
    contract: Contract,
    own: Table,
    classes: Coded | None,
    sensitive: dict[str, Coded],
    score: Score,
) -> tuple[LocalView, PublicState, JointSchema]:
    parts = contract.parts
    joint = contract.qid_columns
    schema = JointSchema(
        tuple(column.name for column in joint),
        tuple(contract.parties.index(column.holder) for column in joint),
    )
    # The group sizes implied by requirements on other parties' sensitive values are checked here, before any request.
    holder = {column.name: column.holder for column in contract.columns}
    sizes = [KAnonymity(part.qid, part.implied_size) for part in parts if remote_qid(part, holder)]
    state = PublicState(schema.attributes, [*parts, *sizes], sensitive, len(own))
    columns = {
        position: own.column(column.name) for position, column in enumerate(joint) if column.holder == name
    }
    return LocalView(columns, classes, score), state, schema


def _strategy(method: JointSpecialization, contract: Contract) -> Participation:
    if method.adversary != "malicious":
        return AlwaysTakePart()
    holders = {column.holder for column in contract.qid_columns}
    bystanders = frozenset(at for at, name in enumerate(contract.parties) if name not in holders)
    return TakePartWhenEven(len(contract.parties), float(method.epsilon), bystanders)


def handed_in(name: str, contract: Contract, own: Table, released: dict[str, Generalised]) -> pa.Table:
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


def _reported(rounds: Sequence[Round], view: LocalView, first: int = 0) -> tuple[ReportedStep, ...]:
    """Return this party's own specializations among these rounds, which are numbered from `first`."""
    reported = []
    for number, each in enumerate(rounds, first):
        if each.candidate is not None:
            step = view.step(each.candidate)
            reported.append(ReportedStep(number, step.attribute, step.value, step.children, step.score))
    return tuple(reported)


def _comparison(own: Table, released: tuple[Generalised, ...]) -> Comparison:
    originals = own.columns(column.name for column in released)
    return Comparison(originals, released, None, None, {})
