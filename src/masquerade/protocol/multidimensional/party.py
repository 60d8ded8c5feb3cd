"""One party's part of a mashup by Mondrian: align, share the class, cut level by level, hand in."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import count

from masquerade.anonymize.mondrian.axes import axes_of
from masquerade.anonymize.mondrian.choices import CHOICES, INFORMATION_GAIN
from masquerade.anonymize.mondrian.qids import judge_of
from masquerade.crypto.circuits_library import BidWords
from masquerade.data.column import Coded, Generalised
from masquerade.net.progress import Stage
from masquerade.net.script import Script
from masquerade.privacy.k_anonymity import KAnonymity
from masquerade.privacy.requirement import GroupRequirement
from masquerade.protocol.common_records import CommonRecords, find_common_records, hand_in
from masquerade.protocol.contract import Contract
from masquerade.protocol.mashup import JointSchema
from masquerade.protocol.method import Seat
from masquerade.protocol.multidimensional.cut_checks import CutChecks
from masquerade.protocol.multidimensional.levels import SCORE_BITS, cut_together
from masquerade.protocol.multidimensional.method import JointMondrian, apart
from masquerade.protocol.multidimensional.own_cuts import OwnGroups
from masquerade.protocol.secure_argmax import prepare
from masquerade.protocol.sensitive_checks import prepare_checks


def party(method: JointMondrian, seat: Seat) -> Script[int]:
    """Run this party's part. Return the number of common records."""
    name, contract, on_stage = seat.name, seat.contract, seat.on_stage
    me = contract.parties.index(name)
    common = yield from find_common_records(seat, Stage("preparing the comparisons"))
    n_records = len(common.own)
    seat.before_showing()
    before = time.perf_counter()
    checks = yield from prepare_checks(CutChecks, me, contract, common.sensitive, n_records)
    words = BidWords(SCORE_BITS, max(1, (len(contract.qid_columns) - 1).bit_length()))
    argmax = yield from prepare(me, contract.parties, words, rounds_ahead=0)
    common.seconds["prepare"] = time.perf_counter() - before
    on_stage(Stage("cutting"))
    levels = count(1)
    released: dict[str, Generalised] = {}
    for parts in apart(contract.parts):
        schema = schema_of(contract, parts)
        groups = own_groups(method, name, contract, parts, common)
        partition = yield from cut_together(
            me,
            contract.parties,
            schema,
            groups,
            argmax,
            checks.of(parts) if checks is not None else None,
            lambda: on_stage(Stage("cutting", round=next(levels))),
        )
        released |= {column.name: column for column in partition.released(groups.axes)}
    used = checks.histograms_by if checks is not None else ()
    return (yield from hand_in(seat, common, released, histograms_by=used))


def schema_of(contract: Contract, parts: Sequence[GroupRequirement]) -> JointSchema:
    """Return the attributes of one QID, in the joint order."""
    columns = [column for column in contract.qid_columns if column.name in parts[0].qid]
    return JointSchema(
        tuple(column.name for column in columns),
        tuple(contract.parties.index(column.holder) for column in columns),
    )


def own_groups(
    method: JointMondrian,
    name: str,
    contract: Contract,
    parts: Sequence[GroupRequirement],
    common: CommonRecords,
) -> OwnGroups:
    """Return a party's view of the groups of one QID, before anything is cut."""
    own = common.own
    held = {column.name for column in contract.columns_of(name)}
    axes = axes_of([own.column(each) for each in schema_of(contract, parts).attributes if each in held])
    classes = common.classes if method.choose == INFORMATION_GAIN else None
    judge = judge_of(
        known_parts(parts, common.sensitive), common.sensitive, len(own), classes, method.merging(contract)
    )
    return OwnGroups(axes, judge, CHOICES[method.choose], method.strict, len(own))


def known_parts(parts: Sequence[GroupRequirement], sensitive: dict[str, Coded]) -> list[GroupRequirement]:
    """Return what this party can judge: of requirements on values that it does not know, the size that they imply."""
    return [
        part
        if part.sensitive is None or part.sensitive in sensitive
        else KAnonymity(part.qid, part.implied_size)
        for part in parts
    ]
