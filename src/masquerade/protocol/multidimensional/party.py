"""One party's part of a mashup by Mondrian: align, share the class, cut level by level, hand in."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import count

from masquerade.anonymize.mondrian.axes import Axis, axes_of
from masquerade.anonymize.mondrian.choices import CHOICES, INFORMATION_GAIN
from masquerade.anonymize.mondrian.judge import Judge
from masquerade.anonymize.mondrian.linked_qids import LinkedGroups
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
from masquerade.protocol.multidimensional.linked_levels import cut_linked_together
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

    def on_level() -> None:
        on_stage(Stage("cutting", round=next(levels)))

    for parts in apart(contract.parts):
        schema, qids = schema_of(contract, parts), qids_of(parts)
        if len(qids) > 1:
            linked = linked_groups(method, name, contract, parts, common)
            columns = yield from cut_linked_together(
                me, contract.parties, schema, qids, linked, argmax, on_level
            )
        else:
            groups = own_groups(method, name, contract, parts, common)
            asking = checks.of(parts) if checks is not None else None
            partition = yield from cut_together(
                me, contract.parties, schema, groups, argmax, asking, on_level
            )
            columns = partition.released(groups.axes)
        released |= {column.name: column for column in columns}
    used = checks.histograms_by if checks is not None else ()
    return (yield from hand_in(seat, common, released, histograms_by=used))


def schema_of(contract: Contract, parts: Sequence[GroupRequirement]) -> JointSchema:
    """Return the attributes of these requirements' QIDs, in the joint order."""
    named = {name for part in parts for name in part.qid}
    columns = [column for column in contract.qid_columns if column.name in named]
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
    axes = own_axes(name, contract, parts, common)
    judge = own_judge(method, contract, parts, common)
    return OwnGroups([*axes.values()], judge, CHOICES[method.choose], method.strict, len(common.own))


def linked_groups(
    method: JointMondrian,
    name: str,
    contract: Contract,
    parts: Sequence[GroupRequirement],
    common: CommonRecords,
) -> LinkedGroups:
    """Return a party's view of the groups of several QIDs that share attributes, before anything is cut."""
    judges = {
        qid: own_judge(method, contract, [part for part in parts if {*part.qid} == qid], common)
        for qid in qids_of(parts)
    }
    return LinkedGroups(
        schema_of(contract, parts).attributes,
        own_axes(name, contract, parts, common),
        judges,
        CHOICES[method.choose],
        len(common.own),
        method.strict,
    )


def qids_of(parts: Sequence[GroupRequirement]) -> list[frozenset[str]]:
    """Return the different QIDs of these requirements."""
    return list(dict.fromkeys(frozenset(part.qid) for part in parts))


def own_axes(
    name: str, contract: Contract, parts: Sequence[GroupRequirement], common: CommonRecords
) -> dict[int, Axis]:
    """Return a party's own dimensions, by their position among all of these QIDs'."""
    attributes = schema_of(contract, parts).attributes
    held = {column.name for column in contract.columns_of(name)}
    own = [at for at, each in enumerate(attributes) if each in held]
    axes = axes_of([common.own.column(attributes[at]) for at in own])
    return dict(zip(own, axes, strict=True))


def own_judge(
    method: JointMondrian, contract: Contract, parts: Sequence[GroupRequirement], common: CommonRecords
) -> Judge:
    """Return what a party can judge of requirements on one QID."""
    classes = common.classes if method.choose == INFORMATION_GAIN else None
    known = known_parts(parts, common.sensitive)
    return judge_of(known, common.sensitive, len(common.own), classes, method.merging(contract))


def known_parts(parts: Sequence[GroupRequirement], sensitive: dict[str, Coded]) -> list[GroupRequirement]:
    """Return what this party can judge: of requirements on values that it does not know, the size that they imply."""
    return [
        part
        if part.sensitive is None or part.sensitive in sensitive
        else KAnonymity(part.qid, part.implied_size)
        for part in parts
    ]
