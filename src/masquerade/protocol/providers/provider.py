"""One provider's part of a session: hand its records to a trusted third party, or take part without one.

Without one, all providers walk the same tree of cuts (`tree`), each with its own records, from the group of all records
or where there are boundaries from those that can be released within them (`start`); every question about
a part is answered by all of them jointly (`secret_counts`). Then each labels its own records and hands in the rows,
in random order. The assembler gets the rows of the release by provider, for it verifies against coalitions.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import pyarrow as pa

from masquerade.anonymize import shuffled
from masquerade.data import Table
from masquerade.engine import Counts, Flags, Rows, rows_by_rank
from masquerade.errors import DataError, ParameterError, PeerBrokeProtocol, RequirementUnreachable
from masquerade.net import Receive, Script, Send
from masquerade.privacy import Requirement
from masquerade.progress import OnStage, Stage, silent
from masquerade.protocol.common_records import settle_cells
from masquerade.protocol.contract import Contract, agreed_table
from masquerade.protocol.hand_in import Received, shown_seconds, write_columns
from masquerade.protocol.method import ASSEMBLER, Participant
from masquerade.protocol.providers import circuits
from masquerade.protocol.providers.axes import Range, Ranks
from masquerade.protocol.providers.criterion import Criterion
from masquerade.protocol.providers.cuts import HolderGroups, losses_of, rounded_size, settings_of
from masquerade.protocol.providers.domains import (
    SIGNALS,
    Bits,
    all_values,
    is_value,
    ranges_of,
    sensitive_codes,
    values_of,
)
from masquerade.protocol.providers.messages import (
    Axes,
    ProviderRecords,
    Rows as RowsMessage,
    Size,
    Values,
    checked_length,
    digest_of,
    plain_columns,
    write_schema,
)
from masquerade.protocol.providers.method import (
    Collaboration,
    criteria_of,
    qid_names,
    qids_of,
    refuse_impossible,
    refuse_private_leaves,
    sensitive_names,
)
from masquerade.protocol.providers.shared_counts import SecretJudge, SharedBits, prepare
from masquerade.protocol.providers.third_party_counts import CountingJudge, SensitiveCodes
from masquerade.protocol.providers.tree import Group, PartJudge, Settings, partition
from masquerade.utility import compare, holders_error, shown_to_others

# --- start --------------------------------------------------------------------------------------------------
# Where providers of the same columns start that keep to boundaries: every value as general as is allowed.
#
# The most general allowed values of each attribute are public: nodes of a taxonomy, or the first intervals
# of repeated halving that are no wider than allowed. So are the groups that they make, of which most may be
# empty. Each is judged once, over the records of all providers; of those that may not stand, everybody
# leaves its own records out, and the cutting (`tree`) starts from the others. With several QIDs, or where
# groups are compared with all records, records that leave are missing elsewhere: what stood is judged
# again, until nothing falls, as on one table (`anonymize/preparation.py`).
#
#  who              learns
#  every provider   of each group at the boundaries whether it may stand, and if so whether it may be divided; with
#                   several QIDs, or t-closeness, also in which round a group fell. Not which of the others are empty
#  assembler        how many records each provider left out
#
# A group that may stand is one or several groups of the release, whose cells lie in it: its verdict follows
# from the release. That another may not is told to those without records in it, too, who cannot tell it
# from one without any. Cost: one evaluation of the circuit of a verdict for each group, and one more in
# each further round if it stood so far.

MOST_GROUPS = 1 << 17  # at the boundaries of a QID: each is tested, also those without records

Side = tuple[Settings, Sequence[PartJudge]]  # linked QIDs: how they are cut, and a judge for each


@dataclass(frozen=True, eq=False)
class StartGroups:
    """The records of this holder that can be released, and the groups in which each set of linked QIDs starts.

    The rows of the groups are places among `rows`.
    """

    rows: Rows
    groups: Sequence[Sequence[Group]]  # in the order of the sets


def start_within_boundaries(
    sides: Sequence[Side], requirement: Requirement, *, alone: bool
) -> Script[StartGroups | None]:
    """Find out who can be released within the boundaries; None without boundaries, and so without a question.

    With `alone` nothing changes for those who stay when others leave: there is one QID, and no group is compared with
    all records.
    """
    if not any(axis.limits for settings, _ in sides for axis in settings.released):
        return None
    everything = np.arange(sides[0][0].ranks[0].size, dtype=np.intp)
    for _, judges in sides:
        for judge in judges:
            yield from judge.whole(everything)
    qids = [_Qid(settings, number, judge) for settings, judges in sides for number, judge in enumerate(judges)]
    left = everything
    while True:
        stays = np.ones(left.size, bool)
        fell = False
        for qid in qids:
            fell |= yield from qid.judge_again(left)
            stays &= qid.stands[qid.cells[left]]
        if not all(qid.stands.any() for qid in qids):
            raise RequirementUnreachable(
                f"collaborate: {requirement} cannot be reached within max_generalization and max_width: every group "
                "violates even at them; allow more, or ask for less",
                public=True,
            )
        left = left[stays]
        if alone or not fell:
            break
    waiting = iter(qids)
    return StartGroups(left, [[group for _ in judges for group in next(waiting).groups(left)] for _, judges in sides])


class _Qid:
    """The groups of one QID at the boundaries: which of them stand, and which of these may be divided."""

    def __init__(self, settings: Settings, number: int, judge: PartJudge) -> None:
        self._settings, self._number, self._judge = settings, number, judge
        limited = sorted(at for at in settings.qids[number] if settings.axes[at].limits)
        self._shape = [len(settings.axes[at].limits) for at in limited]
        self._limited = limited
        n_groups = prod(self._shape)
        if n_groups > MOST_GROUPS:
            names = ", ".join(settings.axes[at].name for at in limited)
            raise ParameterError(
                f"the boundaries of {names} make {n_groups} groups, each of which must be tested, and at most "
                f'{MOST_GROUPS} can be; allow more, or use third_party = "trusted" with choose = "certainty"'
            )
        self.cells: Ranks = np.zeros(settings.ranks[0].size, np.int64)  # the group of each of this holder's rows
        for at in limited:
            axis = settings.axes[at]
            self.cells = self.cells * len(axis.limits) + axis.limit_of(settings.ranks[at])
        self.stands: Flags = np.ones(n_groups, bool)
        self._divisible: Flags = np.zeros(n_groups, bool)

    def judge_again(self, left: Rows) -> Script[bool]:
        """Judge what has stood so far, with these records; return whether anything fell."""
        asked = np.flatnonzero(self.stands)
        places = self._places(left, asked)
        told = yield from self._judge.of_rows(left).acceptable(places)
        self.stands[asked] = told.private
        self._divisible[asked] = told.divisible
        return not bool(told.private.all())

    def groups(self, left: Rows) -> list[Group]:
        """Return the groups that stand, with the places of their records among those that are left."""
        asked, settings = np.flatnonzero(self.stands), self._settings
        live = settings.qids[self._number] | {len(settings.axes) - 1}
        return [
            Group(self._cell(int(number)), rows, bool(self._divisible[number]), live, self._number)
            for number, rows in zip(asked, self._places(left, asked), strict=True)
        ]

    def _cell(self, number: int) -> tuple[Range, ...]:
        cells = [axis.root for axis in self._settings.axes]
        if self._shape:
            for at, place in zip(self._limited, np.unravel_index(number, self._shape), strict=True):
                cells[at] = self._settings.axes[at].limits[int(place)]
        return tuple(cells)

    def _places(self, left: Rows, asked: Counts) -> list[Rows]:
        """Return, for each of these groups, the places of its records among those that are left."""
        cells = self.cells[left]
        order = rows_by_rank(cells, self.stands.size)
        ends = np.searchsorted(cells[order], [asked, asked + 1])
        return [order[first:last] for first, last in ends.T.tolist()]


def cut_from_start(
    contract: Contract, sides: Sequence[Side], own: Sequence[Sequence[PartJudge]], me: int | None, on_stage: OnStage
) -> Script[tuple[Rows, list[HolderGroups]]]:
    """Cut each set of linked QIDs from the groups that it starts in. Return the rows that are released, and the groups.

    `own` and `me` are those of `partition`.
    """
    tried, before = 0, 0  # so far, and with the sets before this one

    def on_round(attempted: int, groups: int) -> None:
        nonlocal tried
        tried = before + attempted
        on_stage(Stage("cutting", tried=tried, detail=f"{groups} groups at work"))

    def on_own_round(attempted: int, groups: int) -> None:
        if me is None:
            on_round(attempted, groups)
        else:
            on_stage(CUTTING_OWN)

    on_part = silent if me is None else on_stage  # a third party, which waits for nobody, tells its rounds alone
    if contract.bounded:
        on_part(Stage("testing the boundaries"))
    criteria = criteria_of(contract)
    # The verdict on a group depends on its own records alone, even where others are left out.
    alone = len(criteria) == 1 and not criteria[0].compares_with_whole
    start = yield from start_within_boundaries(sides, contract.requirement, alone=alone)
    left = np.arange(sides[0][0].ranks[0].size) if start is None else start.rows
    on_part(Stage("cutting"))
    finished = []
    for number, ((settings, judges), by_own) in enumerate(zip(sides, own, strict=True)):
        here = settings.of_rows(left)
        groups = yield from partition(
            here,
            [judge.of_rows(left) for judge in judges],
            [judge.of_rows(left) for judge in by_own],
            me,
            on_round,
            on_own_round,
            None if start is None else start.groups[number],
        )
        finished.append(HolderGroups(here, groups))
        before = tried
    return left, finished


# --- provider -----------------------------------------------------------------------------------------------

MOST_SIZE_BITS = 40
CUTTING_OWN = Stage("cutting", detail="its own groups")  # their number stays private


def provider(participant: Participant) -> Script[int]:
    """Run this provider's part. Return how many of its records are released; those that a third party gets, of one.

    What `participant.on_stage` raises ends the session, too: the only way to stop a long computation
    that waits for nobody.
    """
    contract, left_out = participant.contract, participant.left_out
    table = agreed_table(participant.table, contract.attributes)
    on_stage = participant.on_stage
    refuse_impossible(contract)
    if not len(table):
        raise DataError.about(table.origin.name, "no complete row is left")
    handed: ProviderRecords | RowsMessage
    if Collaboration.of(contract).third_party == "trusted":
        on_stage(Stage("preparing the records"))
        schema = write_schema(table.schema, qid_names(contract))
        refuse_unusable(contract, table)  # that the third party can use them
        names = contract.release_order
        cells = plain_columns({each: table.standard_cells(each) for each in names}, names)
        handed, released = ProviderRecords(write_columns(cells), tuple(left_out), schema), len(table)
    else:
        refuse_private_leaves(contract, table.schema)
        refuse_unusable(contract, table)
        participant.before_showing()
        handed = yield from _without_third_party(participant, contract, table, tuple(left_out), on_stage)
        released = len(table) - handed.suppressed
    participant.before_showing()
    on_stage(Stage("handing in"))
    yield Send((ASSEMBLER,), handed)
    del handed  # the assembler may take its time
    yield Receive(ASSEMBLER, Received)
    return released


def _without_third_party(
    participant: Participant, contract: Contract, table: Table, left_out: tuple[str, ...], on_stage: OnStage
) -> Script[RowsMessage]:
    name = participant.name
    criteria = criteria_of(contract)
    me = contract.parties.index(name)
    started = time.perf_counter()
    on_stage(Stage("preparing the circuits"))
    yield from _compare_axes(name, contract, table)
    shared = yield from prepare(me, contract.parties, contract.hash)
    sensitive = yield from _agree_on_values(criteria, table)
    sizes: list[int] = []
    terms = Collaboration.of(contract)
    if terms.provider_aware or terms.choose == "fitness" or any(each.on_counts for each in criteria):
        sizes = yield from _agree_on_sizes(shared, len(table))
    signals = yield from _agree_on_ranges(shared, contract, table)
    prepared = time.perf_counter()
    places = np.full(len(table), me, np.int64)
    sides: list[Side] = []
    own = []
    for qids in qids_of(contract):
        known = [(qid.criterion, [sensitive[each] for each in qid.criterion.attributes]) for qid in qids]
        secret = [SecretJudge(criterion, shared, codes, sum(sizes)) for criterion, codes in known]
        sides.append((settings_of(contract, table, qids, signals, places, sizes), secret))
        own.append([CountingJudge(criterion, places, codes) for criterion, codes in known])
    left, finished = yield from cut_from_start(contract, sides, own, me, on_stage)
    suppressed = len(table) - int(left.size)
    if suppressed:
        table = table.take(left)
    columns: dict[str, pa.Array | pa.ChunkedArray] = {each: table.cells(each) for each in contract.release_order}
    for cut in finished:
        columns |= cut.labels()
    cells = plain_columns(columns, contract.release_order)
    # The cuts, as far as we have records there, and which of these are left.
    settle_cells(participant, left, cells)
    ended = time.perf_counter()
    return RowsMessage(
        write_columns(shuffled(cells)),
        shown_to_others(losses_of(finished), len(table)),
        left_out,
        shown_seconds({"prepare": prepared - started, "protocol": ended - prepared}, exactly=participant.show_steps),
        holders_error(compare(table, Table(cells), qid_names(contract))) if len(table) else None,
        suppressed,
    )


def refuse_unusable(contract: Contract, table: Table) -> None:
    """Raise DataError for records that cannot be generalised as their schema says."""
    names = qid_names(contract)
    table.columns(names)
    if Collaboration.of(contract).at_public_places:
        for name, each in ranges_of(table, names).items():
            each.signals(table.column(name))


def _agree_on_ranges(shared: SharedBits, contract: Contract, table: Table) -> Script[dict[str, Bits]]:
    """Find out, of numbers without bounds, what must be known of all providers' values to have a common axis."""
    asked = ranges_of(table, qid_names(contract))
    if not asked:
        return {}
    own = np.concatenate([each.signals(table.column(name)) for name, each in asked.items()])
    found = yield from shared.evaluate(circuits.any_of(len(contract.parties)), own[None], "any")
    if (own > found[0]).any():
        raise shared.contradicted()
    return {name: found[0, at * SIGNALS : (at + 1) * SIGNALS] for at, name in enumerate(asked)}


def _compare_axes(name: str, contract: Contract, table: Table) -> Script[None]:
    """Check that all providers generalise alike; otherwise they would walk different trees."""
    names = qid_names(contract)
    own = tuple(digest_of(each, contract.hash) for each in write_schema(table.schema, names))
    peers = tuple(each for each in contract.parties if each != name)
    yield Send(peers, Axes(own))
    told = {}
    for peer in peers:
        heard = yield Receive(peer, Axes)
        checked_length("digests of attributes", len(heard.digests), len(own), peer)
        told[peer] = heard.digests
    for at, attribute in enumerate(names):
        others = [peer for peer in peers if told[peer][at] != own[at]]
        if not others:
            continue
        held = Counter([own[at], *(told[peer][at] for peer in peers)])
        if held.most_common(1)[0][1] > held[own[at]]:  # more of them agree with each other than with us
            raise ParameterError(
                f"attribute {attribute}: our kind, taxonomy or bounds are not those of {', '.join(others)}"
            )
        raise PeerBrokeProtocol(
            others[0], f"generalises attribute {attribute} otherwise than we do: kind, taxonomy or bounds differ"
        )


def _agree_on_values(criteria: Sequence[Criterion], table: Table) -> Script[dict[str, SensitiveCodes]]:
    """Exchange values through the assembler, which sees them in the rows anyway; the others will, in the release."""
    names = sensitive_names(criteria)
    if not names:
        return {}
    yield Send((ASSEMBLER,), Values(tuple(tuple(values_of(table, name)) for name in names)))
    told = yield Receive(ASSEMBLER, Values)
    codes = {}
    for at, name in enumerate(names):
        values = told.values[at] if len(told.values) == len(names) else ()
        own = set(values_of(table, name))
        if not own <= set(values) or not all(is_value(value, name) for value in values):
            raise PeerBrokeProtocol(ASSEMBLER, f"sent values of {name} that do not fit ours")
        codes[name] = sensitive_codes(table, name, all_values([values]))
    for criterion in criteria:
        criterion.bind([codes[name].labels for name in criterion.attributes])
    return codes


def _agree_on_sizes(shared: SharedBits, records: int) -> Script[list[int]]:
    own = rounded_size(records)
    yield Send(shared.peers, Size(own))
    sizes = []
    for name in shared.parties:
        bits = own
        if name in shared.peers:
            told = yield Receive(name, Size)
            bits = told.bits
            if not 0 <= bits <= MOST_SIZE_BITS:
                raise PeerBrokeProtocol(name, f"says that it has about 2^{bits} records")
        sizes.append(1 << bits)
    return sizes
