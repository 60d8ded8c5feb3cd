"""One party's part of DkA: align, run the rounds, hand in.

The records are joined on a hidden identifier (§1.2 of the paper): `align` gives both parties their common
records in one order, and each hands its columns of the released ones to the assembler in that order.
"""

from __future__ import annotations

import time

from masquerade.errors import NoCommonRecords
from masquerade.net.progress import Stage
from masquerade.net.script import Receive, Script, Send
from masquerade.protocol.align import align
from masquerade.protocol.columns import Columns, Received, write_columns
from masquerade.protocol.dka.checkpoint import Notebook, agree_on_start, notes_purpose
from masquerade.protocol.dka.joint_tests import PairTests
from masquerade.protocol.dka.method import Dka
from masquerade.protocol.dka.rounds import play
from masquerade.protocol.joint_histogram.pair import prepare_pair
from masquerade.protocol.method import ASSEMBLER, Seat, proposal_of, refuse
from masquerade.protocol.party import AlignProgress, handed_in
from masquerade.utility.comparison import Comparison
from masquerade.utility.losses import losses_of
from masquerade.utility.queries import holders_error


def dka_party(seat: Seat, notebook: Notebook | None = None) -> Script[int]:
    """Run this party's part. Return the number of common records, released or not.

    If `seat.notes` survive, an interrupted session resumes after its last complete round.
    """
    name, contract, identifiers = seat.name, seat.contract, seat.identifiers
    method = Dka.of(contract)
    refuse(method.refusals(proposal_of(contract)))
    if notebook is None:
        purpose = notes_purpose(contract, seat.table, identifiers)
        notebook = Notebook(seat.notes, purpose) if seat.notes is not None else Notebook()
    on_stage = seat.on_stage
    me = contract.parties.index(name)
    k = contract.parts[0].implied_size
    mine = [column.name for column in contract.qid_columns if column.holder == name]
    started = time.perf_counter()
    peer = contract.parties[1 - me]
    resumes = yield from agree_on_start(peer, notebook)
    if not resumes:
        on_stage(Stage("aligning"))
        work = AlignProgress(on_stage, len(identifiers) * 3)
        rows = yield from align(
            me, contract.parties, identifiers, contract.hash, contract.most_records, work.more
        )
        notebook.aligned(rows)
    rows = notebook.rows
    if not rows.size:
        raise NoCommonRecords(
            f"the parties {' and '.join(contract.parties)} have no record in common; do they use the same identifiers?"
        )
    own = seat.table.take(rows)
    side = method.algorithm.side(own.columns(mine), len(own), k)
    for opened in notebook.rounds:
        side.hear(opened)
    aligned = time.perf_counter()

    on_stage(Stage("preparing the transfers"))
    pair = yield from prepare_pair(me, contract.parties, b"dka\0" + contract.hash)
    if not resumes:
        notebook.named(pair.session)
    seat.before_showing()
    yield from play(PairTests(pair), side, on_stage=on_stage, on_round=notebook.played)
    finished = time.perf_counter()

    seat.before_showing()
    on_stage(Stage("handing in"))
    passed = side.passed
    released = {column.name: column for column in side.released()}
    comparison = Comparison(own.columns(mine), tuple(released.values()), None, passed, {})
    yield Send(
        (ASSEMBLER,),
        Columns(
            table=write_columns(handed_in(name, contract, own.take(passed), released)),
            steps=(),
            losses=losses_of(comparison),
            left_out=tuple(seat.left_out),
            seconds={"align": aligned - started, "protocol": finished - aligned},
            suppressed=len(own) - passed.size,
            histograms_by=tuple(sorted(pair.histograms_by)),
            query_error=holders_error(comparison),
        ),
    )
    yield Receive(ASSEMBLER, Received)
    notebook.finished()
    return len(own)
