"""One party's part of a mashup by Mondrian: align, share the class, cut level by level, hand in."""

from __future__ import annotations

import time

from masquerade.anonymize.mondrian.axes import axes_of
from masquerade.anonymize.mondrian.choices import CHOICES, INFORMATION_GAIN
from masquerade.anonymize.mondrian.qids import judge_of
from masquerade.crypto.circuits_library import BidWords
from masquerade.data.column import Coded
from masquerade.net.progress import Stage
from masquerade.net.script import Script
from masquerade.privacy.k_anonymity import KAnonymity
from masquerade.privacy.requirement import GroupRequirement, without_redundant
from masquerade.protocol.common_records import find_common_records, hand_in
from masquerade.protocol.contract import Contract
from masquerade.protocol.mashup import JointSchema
from masquerade.protocol.method import Seat
from masquerade.protocol.multidimensional.cut_checks import CutChecks
from masquerade.protocol.multidimensional.levels import SCORE_BITS, cut_together
from masquerade.protocol.multidimensional.method import JointMondrian
from masquerade.protocol.multidimensional.own_cuts import OwnGroups
from masquerade.protocol.secure_argmax import prepare
from masquerade.protocol.sensitive_checks import prepare_checks


def party(method: JointMondrian, seat: Seat) -> Script[int]:
    """Run this party's part. Return the number of common records."""
    name, contract, on_stage = seat.name, seat.contract, seat.on_stage
    me = contract.parties.index(name)
    common = yield from find_common_records(seat, Stage("preparing the comparisons"))
    own = common.own
    columns = contract.qid_columns
    schema = JointSchema(
        tuple(column.name for column in columns),
        tuple(contract.parties.index(column.holder) for column in columns),
    )
    axes = axes_of([own.column(column.name) for column in columns if column.holder == name])
    classes = common.classes if method.choose == INFORMATION_GAIN else None
    known = known_parts(contract, common.sensitive)
    judge = judge_of(known, common.sensitive, len(own), classes, method.merging(contract))
    groups = OwnGroups(axes, judge, CHOICES[method.choose], method.strict, len(own))
    seat.before_showing()
    before = time.perf_counter()
    checks = yield from prepare_checks(CutChecks, me, contract, common.sensitive, len(own))
    words = BidWords(SCORE_BITS, max(1, (len(columns) - 1).bit_length()))
    argmax = yield from prepare(me, contract.parties, words, rounds_ahead=0)
    common.seconds["prepare"] = time.perf_counter() - before
    on_stage(Stage("cutting"))
    partition = yield from cut_together(
        me,
        contract.parties,
        schema,
        groups,
        argmax,
        checks,
        lambda level: on_stage(Stage("cutting", round=level)),
    )
    released = {column.name: column for column in partition.released(axes)}
    used = checks.histograms_by if checks is not None else ()
    return (yield from hand_in(seat, common, released, histograms_by=used))


def known_parts(contract: Contract, sensitive: dict[str, Coded]) -> list[GroupRequirement]:
    """Return what this party can judge: of requirements on values that it does not know, the size that they imply."""
    return [
        part
        if part.sensitive is None or part.sensitive in sensitive
        else KAnonymity(part.qid, part.implied_size)
        for part in without_redundant(contract.parts)
    ]
