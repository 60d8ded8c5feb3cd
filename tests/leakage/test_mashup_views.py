"""docs/leakage.md, shown: a simulator that knows only what the page grants makes each party's view of a mashup."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import masquerade as mq
from masquerade.net.memory import SentMessage, Wire
from masquerade.net.script import decode, encode
from masquerade.protocol import ASSEMBLER, Contract, ReportedStep
from masquerade.protocol.comparing.argmax import BestScore
from masquerade.protocol.hand_in import Columns
from masquerade.protocol.tds.instruction_code import pack
from masquerade.protocol.tds.party import Instruct
from papers.paper_tables import loan_table
from protocol.test_mashup import LOANS, REQUIREMENT, contract_of, run_mashup


def recorded(contract: Contract, table: mq.Table) -> Wire:
    wire = Wire()
    run_mashup(table, contract, wire=wire, uncommon=5)
    return wire


def handed_in(wire: Wire) -> dict[str, Columns]:
    return {
        heard.sender: decode(heard.data, [Columns])  # type: ignore[misc] # of this kind
        for heard in wire.seen_by(ASSEMBLER)
    }


def simulated_instructions(contract: Contract, handed: dict[str, Columns]) -> list[tuple[str, Instruct]]:
    """All instructions, from the released cells in the common order and the order of the steps alone."""
    cells: dict[str, list[str]] = {}
    steps: list[tuple[str, ReportedStep]] = []
    for party, columns in handed.items():
        cells.update(pa.ipc.open_stream(columns.table).read_all().to_pydict())
        steps += [(party, step) for step in columns.steps]
    steps.sort(key=lambda each: each[1].round)
    names = [column.name for column in contract.qid_columns]
    parent = {(step.attribute, child): step.value for _, step in steps for child in step.children}
    number: dict[tuple[str, str], int] = {}
    made: dict[str, int] = {}
    instructions = []
    for party, step in steps:
        number.setdefault((step.attribute, step.value), 0)
        children = []
        for cell in cells[step.attribute]:
            lineage = [cell]
            while (step.attribute, lineage[-1]) in parent:
                lineage.append(parent[step.attribute, lineage[-1]])
            if step.value in lineage:
                children.append(next(at for at, child in enumerate(step.children) if child in lineage))
        occurring = sorted({*children})  # nobody is told of the others
        packed = pack(np.array([occurring.index(child) for child in children], np.uint8), len(occurring))
        value = number[step.attribute, step.value]
        instructions.append((party, Instruct(names.index(step.attribute), value, len(occurring), packed)))
        first = made.get(step.attribute, 1)
        told = [step.children[child] for child in occurring]
        number.update({(step.attribute, child): first + at for at, child in enumerate(told)})
        made[step.attribute] = first + len(told)
    return instructions


@pytest.mark.parametrize("party", ["bank", "loans"])
def test_a_partys_view_follows_from_the_release_and_the_order_of_steps(party: str) -> None:
    contract = contract_of(REQUIREMENT, LOANS, argmax="plain")
    wire = recorded(contract, loan_table())
    view = [heard for heard in wire.seen_by(party) if heard.sender != ASSEMBLER]
    by_kind: dict[str, list[SentMessage]] = {}
    for heard in view:
        by_kind.setdefault(heard.kind, []).append(heard)
    # Nothing travels but what the page lists.
    alignment = {"list-size", "sizes-heard", "blinded", "positions", "equality-share", "equality-proof"}
    assert set(by_kind) <= {*alignment, "score", "instruct", "finished"}

    simulated = [encode(each) for who, each in simulated_instructions(contract, handed_in(wire)) if who != party]
    assert [heard.data for heard in by_kind["instruct"]] == simulated
    # A message is a score and an attribute; the rounds' scores are granted.
    for heard in by_kind["score"]:
        sent: Any = decode(heard.data, [BestScore])
        assert sent.position in range(-1, 3)
        assert len(sent.score) <= 8
    # Equal groups show nothing but that they are equal; of classes, see tests/attacks/test_class_digests.py.
    own = [heard for heard in wire.heard if heard.sender == party]
    mine = {heard.data for heard in own if heard.kind == "finished"}
    assert {heard.data for heard in by_kind["finished"]} == mine


def test_the_assembler_gets_the_release_and_what_the_page_lists() -> None:
    contract = contract_of(REQUIREMENT, LOANS)
    wire = recorded(contract, loan_table())
    assert {heard.kind for heard in wire.seen_by(ASSEMBLER)} == {"columns"}
    cells = {}
    for columns in handed_in(wire).values():
        table = pa.ipc.open_stream(columns.table).read_all()
        for name in table.column_names:
            column = table.column(name).combine_chunks()
            if isinstance(column, pa.DictionaryArray):  # a dictionary names values of the cut, or cells as they come
                told = {child for step in columns.steps for child in step.children} | {"ANY_Sex", "ANY_Job"}
                named = column.dictionary.to_pylist()
                assert set(named) <= told or named == list(dict.fromkeys(column.to_pylist()))
            cells[name] = column.to_pylist()
    assert set(cells) == {"Sex", "Job", "Salary", "Class"}


def test_raw_columns_carry_no_value_of_people_who_are_not_common() -> None:
    """A dictionary of the whole table would name them."""
    table = loan_table()
    towns = pa.array(["Ulm"] * 29 + ["Nowhere"] * 5).dictionary_encode()
    held = mq.Table(table.arrow.append_column("Town", towns), mq.Schema([*table.schema, mq.Attribute("Town")]))
    contract = contract_of(REQUIREMENT, {**LOANS, "Town": "bank"})
    common = held.take(np.arange(29))
    wire = recorded(contract, common)
    seen = b"".join(heard.data for heard in wire.seen_by(ASSEMBLER))
    assert b"Ulm" in seen
    assert b"Nowhere" not in seen
