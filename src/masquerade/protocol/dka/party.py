"""One party's part of DkA: align, run the rounds, hand in.

The records are joined on a hidden identifier (§1.2 of the paper): `align` gives all parties their common records in one
order, and each hands its columns of the released ones to the assembler in that order. With `join = "parties"` two
parties join them themselves, under encryption (`encrypted_join.py`), and hand in the joined table. Two parties test by
a joint histogram (`checks.py`), more by sorting under sharing (`checks.py`).
"""

from __future__ import annotations

import time

import pyarrow as pa

from masquerade.anonymize import hopeless_at_once, refuse_violating_whole
from masquerade.errors import RequirementUnreachable
from masquerade.net import Receive, Script, Send
from masquerade.progress import Stage
from masquerade.protocol.common_records import find_common_rows, handed_in, refuse_nobody, settle_cells
from masquerade.protocol.contract import Contract, agreed_table
from masquerade.protocol.dka.checkpoint import Notebook, agree_on_start, notes_purpose
from masquerade.protocol.dka.checks import joint_tests, prepare_sensitive_tests, prepare_tests
from masquerade.protocol.dka.encrypted_join import join_first, join_second
from masquerade.protocol.dka.method import LocalAlgorithm
from masquerade.protocol.dka.side import play
from masquerade.protocol.hand_in import Columns, Received, shown_seconds, write_columns
from masquerade.protocol.method import ASSEMBLER, Participant
from masquerade.protocol.pairs import Pair
from masquerade.utility import Comparison, holders_error, losses_of, shown_to_others


def dka_party(
    participant: Participant, algorithm: LocalAlgorithm, *, join_among_parties: bool, notebook: Notebook | None = None
) -> Script[int]:
    """Run this party's part. Return the number of common records, released or not.

    If `participant.notes` survive, or a notebook is given, an interrupted session resumes after its last whole round.
    """
    name, contract, identifiers = participant.name, participant.contract, participant.identifiers
    if notebook is None:
        purpose = notes_purpose(contract, participant.table, identifiers)
        notebook = Notebook(participant.notes, purpose) if participant.notes is not None else Notebook()
    on_stage = participant.on_stage
    me = contract.parties.index(name)
    k = max(part.implied_size for part in contract.parts)
    mine = [column.name for column in contract.qid_columns if column.holder == name]
    started = time.perf_counter()
    peers = tuple(each for each in contract.parties if each != name)
    resumes = yield from agree_on_start(peers, notebook)
    if not resumes:
        notebook.aligned((yield from find_common_rows(participant)))
    rows = notebook.rows
    refuse_nobody(contract, rows)
    own = agreed_table(participant.table, contract.attributes).take(rows)
    # What cannot be reached is refused before anything is shown, as far as this party can tell.
    held = {column.name for column in contract.columns_of(name)}
    sensitive = {
        part.sensitive: own.coded(part.sensitive)
        for part in contract.parts
        if part.sensitive is not None and part.sensitive in held
    }
    known = [part for part in contract.parts if part.sensitive in sensitive]
    judged = hopeless_at_once(known, algorithm.opens_chi)
    whole = {each: (coded.histogram(), coded.labels) for each, coded in sensitive.items()}
    refuse_violating_whole("the common records", len(own), judged, whole)
    only_sizes = all(part.only_sizes for part in contract.parts)
    side = algorithm.side(own.columns(mine), len(own), k, only_sizes)
    for opened in notebook.rounds:
        side.hear(opened)
    aligned = time.perf_counter()

    on_stage(Stage("preparing the transfers"))
    participant.before_showing()
    purpose = b"dka\0" + contract.hash
    tested, session = yield from prepare_tests(me, contract.parties, purpose)
    tests = joint_tests(
        tested, (yield from prepare_sensitive_tests(me, contract.parties, contract, contract.parts, own))
    )
    if not resumes:
        notebook.named(session)
    yield from play(tests, side, on_stage=on_stage, on_round=notebook.played)
    finished = time.perf_counter()

    passed = side.passed
    if not passed.size:  # as all parties know
        notebook.finished()
        every = "in the rounds every group violated it, however general"
        raise RequirementUnreachable(f"the common records: {contract.requirement} cannot be reached: {every}")
    participant.before_showing()
    released = {column.name: column for column in side.released()}
    comparison = Comparison(own.columns(mine), tuple(released.values()), None, passed, {})
    cells = handed_in(name, contract, own.take(passed), released)
    settle_cells(participant, rows[passed], cells)
    if join_among_parties:
        on_stage(Stage("joining"))
        cells = yield from _joined(me, contract, cells)
        finished = time.perf_counter()
    on_stage(Stage("handing in"))
    yield Send(
        (ASSEMBLER,),
        Columns(
            table=write_columns(cells),
            steps=(),
            losses=shown_to_others(losses_of(comparison), comparison.rows),
            left_out=tuple(participant.left_out),
            seconds=shown_seconds(
                {"align": aligned - started, "protocol": finished - aligned}, exactly=participant.show_steps
            ),
            suppressed=len(own) - passed.size,
            histograms_by=tuple(sorted(tested.histograms_by)) if isinstance(tested, Pair) else (),
            query_error=holders_error(comparison),
        ),
    )
    yield Receive(ASSEMBLER, Received)
    notebook.finished()
    return len(own)


def _joined(me: int, contract: Contract, cells: pa.Table) -> Script[pa.Table]:
    """Join with the other party; `cells` are this one's, in the common order."""
    peer, order = contract.parties[1 - me], contract.release_order
    if me == 0:
        theirs = contract.handed_in_by(peer)
        return (yield from join_first(peer, cells, theirs, order, contract.requirement))
    return (yield from join_second(peer, cells, order, contract.requirement))
