"""What a simulator makes of the start of a mashup within boundaries, given who is out and where the others start."""

from __future__ import annotations

from math import prod
from typing import Any

import msgspec
import numpy as np

import masquerade as mq
from leakage.coins import Recording
from leakage.views import Made, Rows
from masquerade.anonymize import boundary_codes, reachable_rows
from masquerade.crypto import pack
from masquerade.engine import renumber
from masquerade.protocol import Contract
from masquerade.protocol.boundaries import BoundaryStart, testers
from masquerade.protocol.tds.instruction_code import pack as packed


def within_boundaries(
    contract: Contract, own: dict[str, mq.Table], *, whole_columns: bool
) -> tuple[Rows, BoundaryStart]:
    """Who is left, and where they start: counted openly on the joined table."""
    holder, n_records = contract.holders, len(own[contract.parties[0]])
    columns = {name: own[holder[name]].column(name) for name in contract.bounded}
    rows = reachable_rows(contract.parts, [*columns.values()], {}, n_records, whole_columns=whole_columns)
    values = {}
    for name, column in columns.items():
        numbers, used = renumber(*boundary_codes(column.of_rows(rows), whole_columns=whole_columns))
        values[name] = numbers.astype(np.int64), int(used.size)
    return rows, BoundaryStart(values)


def told(
    contract: Contract, rows: Rows, start: BoundaryStart, n_records: int, recording: Recording
) -> list[tuple[str, Made, tuple[str, ...]]]:
    """Each message of the start that has something open in it: its sender, itself, its receivers."""
    holder = contract.holders
    deciding = testers(contract.parties, holder, contract.parts, contract.bounded)
    stays = np.zeros(n_records, np.uint8)
    stays[rows] = 1
    found: list[tuple[str, Made, tuple[str, ...]]] = []
    for name in deciding:
        peers = tuple(each for each in deciding if each != name)
        if peers:
            found.append((name, Made("most-groups", most=[_most(contract, name, n_records)]), peers))
    for name in deciding:
        for peer in deciding:
            if name != peer:  # all shares but one are coins; the last makes them fit
                bits = pack(stays)
                for other in deciding:
                    if other != name:
                        bits = bits ^ _share(recording, other, name)
                found.append((name, Made("dka-chi", bits=bits.tobytes()), (peer,)))
        others = tuple(each for each in contract.parties if each not in deciding)
        if others:
            found.append((name, Made("reachable", bits=np.packbits(stays).tobytes()), others))
    for name in contract.parties:
        mine = [start.values[each] for each in contract.bounded if holder[each] == name]
        if mine:
            counts = [n_values for _, n_values in mine]
            values = [packed(numbers.astype(np.uint32), n_values) for numbers, n_values in mine]
            everybody = tuple(each for each in contract.parties if each != name)
            found.append((name, Made("start-values", counts=counts, values=values), everybody))
    return found


def _most(contract: Contract, name: str, n_records: int) -> int:
    """What the contract and k allow: with widths as many as k does."""
    (part,) = contract.parts
    holder, most = contract.holders, n_records // part.implied_size
    limits = [each for each in contract.attributes if each.is_bounded and holder[each.name] == name]
    if any(each.max_width is not None for each in limits):
        return most
    return min(most, prod(len(each.max_generalization) for each in limits))


def _share(recording: Recording, sender: str, receiver: str) -> Any:
    sent = [each for each in recording.between(sender, receiver) if each.kind == "dka-chi"]
    return np.frombuffer(msgspec.msgpack.decode(sent[0].data)["bits"], np.uint8)
