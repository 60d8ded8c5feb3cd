"""One party's part of a mashup by Mondrian: align, share the class, cut level by level, hand in."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import count

import numpy as np

from masquerade.anonymize import Axis, Dimensions, Judge, axes_of, begins_with_union, by_qid, judge_of, judge_of_records
from masquerade.crypto import BidWords
from masquerade.data import Coded, Generalised
from masquerade.engine import Counts, first_rows, value_counts
from masquerade.net import Script
from masquerade.privacy import GroupRequirement, KAnonymity
from masquerade.progress import Stage
from masquerade.protocol.boundaries import BoundaryStart, start_within_boundaries
from masquerade.protocol.common_records import CommonRecords, find_common_records, hand_in
from masquerade.protocol.comparing.argmax import prepare
from masquerade.protocol.contract import Contract
from masquerade.protocol.method import Participant
from masquerade.protocol.mondrian.checks import CutChecks
from masquerade.protocol.mondrian.levels import SCORE_BITS, cut_together
from masquerade.protocol.mondrian.linked import Alike, begin_with_union, cut_linked_together
from masquerade.protocol.mondrian.linked_groups import LinkedGroups, groups_alike
from masquerade.protocol.mondrian.method import JointMondrian, apart
from masquerade.protocol.mondrian.own_cuts import FinishedGroups, OwnGroups
from masquerade.protocol.sensitive.checks import prepare_checks
from masquerade.protocol.tds.party import JointSchema


def party(method: JointMondrian, participant: Participant) -> Script[int]:
    """Run this party's part. Return the number of common records."""
    name, contract, on_stage = participant.name, participant.contract, participant.on_stage
    me = contract.parties.index(name)
    common = yield from find_common_records(participant, Stage("preparing the comparisons"))
    participant.before_showing()
    before = time.perf_counter()
    common, start = yield from start_within_boundaries(name, contract, common, on_stage, whole_columns=False)
    common = common.on(participant.engine)
    own = common.columns(contract, name)
    checks = yield from prepare_checks(CutChecks, me, contract, common.sensitive, own, common.n_records)
    words = BidWords(SCORE_BITS, max(1, (len(contract.qid_columns) - 1).bit_length()))
    argmax = yield from prepare(me, contract.parties, words, rounds_ahead=0)
    common.seconds["prepare"] = time.perf_counter() - before
    on_stage(Stage("cutting"))
    levels = count(1)
    released: dict[str, Generalised] = {}
    labels: list[Counts] = []

    def on_level() -> None:
        on_stage(Stage("cutting", round=next(levels)))

    for parts in apart(contract.parts):
        schema, qids = schema_of(contract, parts), qids_of(parts)
        if len(qids) > 1:
            begin: FinishedGroups | None = None
            alike: Alike = ()
            sizes = value_counts(*start.groups(frozenset().union(*qids), common.n_records))
            if begins_with_union(parts, sizes):
                whole = own_groups(method, name, contract, parts, common, start)
                begin, alike = yield from begin_with_union(me, contract.parties, schema, whole, argmax, on_level)
            linked = linked_groups(method, name, contract, parts, common, start, begin, alike)
            columns = yield from cut_linked_together(me, contract.parties, schema, qids, linked, argmax, on_level)
            labels += [numbers for numbers, _ in linked.groups]
        else:
            groups = own_groups(method, name, contract, parts, common, start)
            asking = checks.of(parts) if checks is not None else None
            finished = yield from cut_together(me, contract.parties, schema, groups, argmax, asking, on_level)
            columns = finished.released()
            labels.append(finished.labels)
        released |= {column.name: column for column in columns}
    used = checks.histograms_by if checks is not None else ()
    return (yield from hand_in(participant, common, released, groups=labels, histograms_by=used))


def schema_of(contract: Contract, parts: Sequence[GroupRequirement]) -> JointSchema:
    """Return the attributes of these requirements' QIDs, in the joint order."""
    named = {name for part in parts for name in part.qid}
    columns = [column for column in contract.qid_columns if column.name in named]
    return JointSchema.of(contract, columns)


def own_groups(
    method: JointMondrian,
    name: str,
    contract: Contract,
    parts: Sequence[GroupRequirement],
    common: CommonRecords,
    start: BoundaryStart,
) -> OwnGroups:
    """Return a party's view of the groups over all attributes of these requirements, before anything is cut."""
    names, table = schema_of(contract, parts).attributes, common.records
    columns = [each for each in common.columns(contract, name) if each.name in names]
    known = known_parts(parts, common.sensitive)
    classes = common.classes.name if method.counts_classes and common.classes is not None else None
    judge = judge_of_records(table, known, classes, method.merging(contract))
    own = [each.name for each in columns]
    choice = method.choice(contract, parts, own, n_classes_of(method, common), common.n_records)
    first = None
    if start.values:
        qids = frozenset().union(*qids_of(parts))
        labels, n_groups = start.groups(qids, common.n_records)
        rows = first_rows(labels, n_groups)
        general = [common.column(each.name).most_general(rows) for each in columns]
        first = labels, np.array(general, np.int64).reshape(len(columns), 2, n_groups)
    return OwnGroups(table, Dimensions(tuple(columns)), judge, choice, method.strict, first)


def linked_groups(
    method: JointMondrian,
    name: str,
    contract: Contract,
    parts: Sequence[GroupRequirement],
    common: CommonRecords,
    start: BoundaryStart,
    begin: FinishedGroups | None = None,
    alike: Alike = (),
) -> LinkedGroups:
    """Return a party's view of the groups of several QIDs that share attributes, before they are cut together.

    They `begin` at groups over all attributes, if there are any, given which have equal cells along each.
    """
    judges = {qid: own_judge(method, contract, own, common) for qid, own in by_qid(parts).items()}
    names, axes = schema_of(contract, parts).attributes, own_axes(name, contract, parts, common)
    starts, cells = {qid: start.groups(qid, common.n_records) for qid in judges}, None
    if begin is not None:
        starts = {
            qid: (numbers.take(begin.labels).astype(np.int64), n_groups)
            for qid, (numbers, n_groups) in groups_alike(judges, names, alike, begin.cells.shape[2]).items()
        }
        cells = {at: own[:, begin.labels] for at, own in zip(axes, begin.cells, strict=True)}
    return LinkedGroups(
        names,
        axes,
        judges,
        method.choice(contract, parts, names, n_classes_of(method, common), common.n_records),
        common.n_records,
        method.strict,
        starts,
        cells,
    )


def n_classes_of(method: JointMondrian, common: CommonRecords) -> int:
    """Return the number of classes, if cuts are chosen by them."""
    return len(common.classes.labels) if method.counts_classes and common.classes is not None else 1


def qids_of(parts: Sequence[GroupRequirement]) -> list[frozenset[str]]:
    """Return the different QIDs of these requirements."""
    return list(by_qid(parts))


def own_axes(
    name: str, contract: Contract, parts: Sequence[GroupRequirement], common: CommonRecords
) -> dict[int, Axis]:
    """Return a party's own dimensions, by their position among all of these QIDs'."""
    attributes = schema_of(contract, parts).attributes
    held = {column.name for column in contract.columns_of(name)}
    own = [at for at, each in enumerate(attributes) if each in held]
    axes = axes_of([common.column(attributes[at]) for at in own])
    return dict(zip(own, axes, strict=True))


def own_judge(
    method: JointMondrian, contract: Contract, parts: Sequence[GroupRequirement], common: CommonRecords
) -> Judge:
    """Return what a party can judge of requirements on one QID."""
    classes = common.classes if method.counts_classes else None
    known = known_parts(parts, common.sensitive)
    return judge_of(known, common.sensitive, common.n_records, classes, method.merging(contract))


def known_parts(parts: Sequence[GroupRequirement], sensitive: dict[str, Coded]) -> list[GroupRequirement]:
    """Return what this party can judge: of requirements on values that it does not know, the size that they imply."""
    return [
        part if part.sensitive is None or part.sensitive in sensitive else KAnonymity(part.qid, part.implied_size)
        for part in parts
    ]
