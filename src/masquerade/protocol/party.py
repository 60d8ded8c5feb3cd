"""One party's part of a mashup by top-down specialization: align, share the class, specialise, check, hand in."""

from __future__ import annotations

import time
from collections.abc import Sequence

from masquerade.anonymize.local_view import LocalView
from masquerade.anonymize.public_state import PublicState
from masquerade.crypto.circuits_library import BidWords
from masquerade.errors import Bug
from masquerade.net.progress import Stage
from masquerade.net.script import Script
from masquerade.privacy.k_anonymity import KAnonymity
from masquerade.protocol.argmax import ArgMax, LastWinnerFirst, plain
from masquerade.protocol.boundaries.start import start_within_boundaries
from masquerade.protocol.columns import ReportedStep
from masquerade.protocol.common_records import CommonRecords, find_common_records, hand_in
from masquerade.protocol.contract import Contract
from masquerade.protocol.mashup import JointSchema, Round, mashup
from masquerade.protocol.method import Seat
from masquerade.protocol.participation import Participation
from masquerade.protocol.remote_checks import RemoteChecks
from masquerade.protocol.remote_sensitive import remote_qid
from masquerade.protocol.secure_argmax import prepare
from masquerade.protocol.sensitive_checks import prepare_checks
from masquerade.utility.scores import FIXED_ONE, Score, score_named


def party(
    seat: Seat, score_name: str | None, participation: Participation, *, hides_scores: bool
) -> Script[int]:
    """Run this party's part. Return the number of common records.

    `seat.on_step` is called with this party's own specializations as they are made.
    """
    name, contract, on_stage = seat.name, seat.contract, seat.on_stage
    me = contract.parties.index(name)
    common = yield from find_common_records(
        seat, Stage("preparing the comparisons" if hides_scores else "specialising")
    )
    seat.before_showing()
    before = time.perf_counter()
    common, start = yield from start_within_boundaries(name, contract, common, on_stage, whole_columns=True)
    score = score_named(score_name, contract.class_name is not None)
    common = common.on(seat.engine)
    view, state, schema = _prepared(name, contract, common, score)
    for instruction in start.instructions():
        numbers = state.specialise(instruction)
        if instruction.attribute in view.own:
            view.start(instruction.attribute, numbers)
    # A score that is constant, of candidates that can only become invalid, bounds a party's bids while others win.
    falling = not score.weighs_anonymity and not participation.holds_back
    argmax: ArgMax = LastWinnerFirst() if falling else plain
    own = common.columns(contract, name)
    checks = yield from prepare_checks(RemoteChecks, me, contract, common.sensitive, own, common.n_records)
    if hides_scores:
        words = bid_words(score, common.n_records, len(schema.attributes))
        argmax = yield from prepare(me, contract.parties, words)
        on_stage(Stage("specialising"))
    if hides_scores or checks is not None or contract.bounded:
        common.seconds["prepare"] = time.perf_counter() - before
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
        common.classes,
        argmax=argmax,
        checks=checks,
        participation=participation,
        on_round=on_round,
    )
    if not all(partition.holds() for partition in state.partitions):
        raise Bug("the mashup arrived at groups that the requirement refuses; nothing was handed in")
    released = {
        each.name: common.released(view.released(each.name))
        for each in contract.qid_columns
        if each.holder == name
    }
    return (
        yield from hand_in(
            seat,
            common,
            released,
            steps=_reported(rounds, view),
            histograms_by=checks.histograms_by if checks is not None else (),
        )
    )


def _prepared(
    name: str, contract: Contract, common: CommonRecords, score: Score
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
    columns = {
        position: common.records.columns[column.name]
        for position, column in enumerate(joint)
        if column.holder == name
    }
    state = PublicState(common.records, schema.attributes, [*parts, *sizes], common.sensitive)
    target = common.classes.name if common.classes is not None else None
    counts = state.scored(tuple(columns.values()), target)
    return LocalView(columns, counts, score), state, schema


def bid_words(score: Score, n_records: int, n_attributes: int) -> BidWords:
    """Return the format of a bid: as many bits as every score that the table can have takes, and no more.

    All parties know the score, the number of common records and the joint schema, so they agree without a message.
    """
    # One bit for the sign and one for what rounding adds to a score at its bound.
    width = FIXED_ONE.bit_length() - 1 + score.whole_bits(n_records) + 2
    return BidWords(width, max(1, (n_attributes - 1).bit_length()))


def _reported(rounds: Sequence[Round], view: LocalView, first: int = 0) -> tuple[ReportedStep, ...]:
    """Return this party's own specializations among these rounds, which are numbered from `first`."""
    reported = []
    for number, each in enumerate(rounds, first):
        if each.candidate is not None:
            step = view.step(each.candidate)
            reported.append(ReportedStep(number, step.attribute, step.value, step.children, step.score))
    return tuple(reported)
