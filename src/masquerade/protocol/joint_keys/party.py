"""One party's part in finding joint ratios, and the assembler's.

    align    the common records, in an order that nobody chose; a sample is the first of them; where they are fewer
             than the contract says, all parties end here
    number   each party the groups of its own columns of a set; one that has none of them numbers all records 0
    open     the ratio of each set (`sorted_ratios.py`), to all parties
    tell     the assembler, whom all parties must tell the same

Who learns what: everybody which of its own people all have (`protocol/align.py`), and the ratio of each set; the
assembler the ratios and the number of common records. No cell, no label and no number of groups of a party leaves it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import numpy as np
from msgspec import Meta

from masquerade.data.table import Table
from masquerade.engine.numbering import group_rows
from masquerade.errors import PeerBrokeProtocol, RequirementUnreachable
from masquerade.net.progress import Stage
from masquerade.net.script import Message, Receive, Script, Send
from masquerade.protocol.attribute_terms import agreed_table
from masquerade.protocol.collaborate.shared_bits import prepare
from masquerade.protocol.columns import Received, Seconds
from masquerade.protocol.common_records import find_common_rows, refuse_nobody
from masquerade.protocol.contract import Contract
from masquerade.protocol.joint_keys.ratios import JointRatios
from masquerade.protocol.joint_keys.sorted_ratios import Groups, Scale, joint_ratios
from masquerade.protocol.method import ASSEMBLER, Seat
from masquerade.protocol.pairwise_setup import exchange_nonces
from masquerade.risk.separation import cell_codes

if TYPE_CHECKING:
    from masquerade.protocol.joint_keys.method import JointKeys


class RatiosFound(Message, tag="joint-ratios", frozen=True):
    """What a party has found: the opened number of each set, from this many common records."""

    records: int
    opened: Annotated[tuple[int, ...], Meta(max_length=64)]
    seconds: Seconds


def joint_keys_party(question: JointKeys, seat: Seat) -> Script[int]:
    """Run one party's part; return the number of common records."""
    name, contract = seat.name, seat.contract
    started = time.perf_counter()
    rows = yield from find_common_rows(seat)
    refuse_nobody(contract, rows)
    common = agreed_table(seat.table, contract.attributes).take(rows)
    aligned = time.perf_counter()
    seat.on_stage(Stage("numbering groups"))
    if len(common) < question.least_records:  # every party sees it, and in the same words
        text = f"the parties have fewer than {question.least_records:,} records in common; no ratio is opened"
        raise RequirementUnreachable(text, public=True)
    own = common if question.sample is None else common.take(np.arange(_compared(question, common)))
    sets = question.asked(contract)
    groups = [_groups(own, name, contract, columns) for columns in sets]
    scale = Scale(len(own), question.measure, question.steps)
    seat.before_showing()
    seat.on_stage(Stage("preparing the transfers"))
    me = contract.parties.index(name)
    nonces = yield from exchange_nonces(me, contract.parties)
    shared = yield from prepare(me, contract.parties, b"joint-keys\0" + contract.hash + b"".join(nonces))
    opened = yield from joint_ratios(shared, groups, scale, seat.on_stage)
    seconds = {"align": aligned - started, "protocol": time.perf_counter() - aligned}
    yield Send((ASSEMBLER,), RatiosFound(len(common), tuple(opened), seconds))
    yield Receive(ASSEMBLER, Received)
    return len(common)


def collect_ratios(question: JointKeys, contract: Contract) -> Script[JointRatios]:
    """Return the ratios that all parties report."""
    heard: dict[str, RatiosFound] = {}
    sets = question.asked(contract)
    for party in contract.parties:
        found = heard[party] = yield Receive(party, RatiosFound)
        first = heard[contract.parties[0]]
        if (found.records, found.opened) != (first.records, first.opened):
            who = f"{party} reports other ratios than {contract.parties[0]}"
            raise PeerBrokeProtocol("", f"{who}: one of them does not follow the protocol")
        compared = found.records if question.sample is None else min(question.sample, found.records)
        scale = Scale(compared, question.measure, question.steps)
        possible = len(found.opened) == len(sets) and all(
            0 <= number <= scale.most for number in found.opened
        )
        if not max(1, question.least_records) <= found.records <= contract.most_records or not possible:
            raise PeerBrokeProtocol(party, "reports ratios that no records have")
    yield Send(contract.parties, Received())
    seconds = {
        part: max(each.seconds.get(part, 0.0) for each in heard.values()) for part in ("align", "protocol")
    }
    ratios = tuple(scale.ratio(number) for number in first.opened)
    return JointRatios(
        sets,
        ratios,
        question.measure,
        question.precision,
        first.records,
        compared,
        contract.parties,
        seconds,
    )


def _compared(question: JointKeys, common: Table) -> int:
    return len(common) if question.sample is None else min(question.sample, len(common))


def _groups(own: Table, name: str, contract: Contract, columns: Sequence[str]) -> Groups:
    """Number the groups of a party's own columns of a set."""
    mine = [each.name for each in contract.columns_of(name) if each.name in columns]
    numbers, _ = group_rows([cell_codes(own, each) for each in mine], len(own))
    return numbers
