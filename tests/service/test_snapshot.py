"""Commitments to tables: what they tell apart, what they do not, and what opens what."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from masquerade.data import Attribute, Branch, Schema, Table, Taxonomy
from masquerade.errors import ParameterError
from masquerade.service.cards import card_of, rounded_up
from masquerade.service.snapshot import (
    CHUNK,
    Commitment,
    check_column,
    check_table,
    column_key,
    commit,
    make_secret,
    take_snapshot,
)
from masquerade.service.wire.control import Published, PublishedDataset, read_said

SECRET = bytes(range(32))
KEY = bytes(reversed(range(32)))


def _root(columns: dict[str, object]) -> str:
    return commit(Table(pa.table(columns)), KEY).root


CELLS = st.lists(st.none() | st.text(max_size=4), min_size=1, max_size=12)


@settings(deadline=None)
@given(CELLS, CELLS)
def test_different_cells_have_different_commitments(one: list[str | None], other: list[str | None]) -> None:
    roots = [_root({"a": pa.array(cells, pa.string())}) for cells in (one, other)]
    assert (roots[0] == roots[1]) == (one == other)


@settings(deadline=None)
@given(st.lists(st.none() | st.integers(-5, 5), min_size=1, max_size=9), CELLS, st.data())
def test_only_values_count_not_how_arrow_holds_them(
    numbers: list[int | None], texts: list[str | None], data: st.DataObject
) -> None:
    cells: list[Any]
    for cells, kind in ((numbers, pa.int64()), (texts, pa.string())):
        cut = data.draw(st.integers(0, len(cells)))
        others: list[Any] = [pa.array(texts, pa.large_string())]
        if kind == pa.int64():
            others = [
                pa.array(cells, pa.int8()),
                pa.array([None if cell is None else float(cell) for cell in cells], pa.float64()),
                pa.array([float("nan") if cell is None else cell for cell in cells], pa.float32()),
            ]
        others += [
            pa.array(cells, kind).dictionary_encode(),
            pa.chunked_array([pa.array(cells[:cut], kind), pa.array(cells[cut:], kind)]),
            pa.array([*cells, *cells, *cells], kind).slice(len(cells), len(cells)),
        ]
        assert {_root({"a": each}) for each in others} == {_root({"a": pa.array(cells, kind)})}


KINDS = [
    *(["17"], [17], [17.5], [True], [datetime.date(1970, 1, 18)], [datetime.datetime(1970, 1, 18)]),
    *([Decimal("17.00")], [datetime.time(17)], [""], ["17", "17"], [1], [None]),
    *(pa.array([2**64 - 1], pa.uint64()), pa.array([None], pa.int64()), pa.array([None], pa.string())),
    *(pa.array([], pa.string()), ["1", "7"], ["17", ""]),
]


def test_every_kind_of_cell_has_a_commitment_of_its_own() -> None:
    roots = [_root({name: cells}) for cells in map(pa.array, KINDS) for name in ("a", "b")]
    assert len(set(roots)) == len(roots)
    assert roots == [_root({name: cells}) for cells in map(pa.array, KINDS) for name in ("a", "b")]


def test_rows_have_an_order_and_columns_have_none() -> None:
    assert _root({"a": [1, 2], "b": ["x", "y"]}) == _root({"b": ["x", "y"], "a": [1, 2]})
    assert _root({"a": [1, 2]}) != _root({"a": [2, 1]})
    assert _root({"a": [1, 2], "b": [3, 4]}) != _root({"a": [3, 4], "b": [1, 2]})


def test_one_cell_far_inside_a_large_column_counts() -> None:
    numbers = np.arange(3 * CHUNK + 17)
    root = _root({"a": numbers})
    for row in (0, CHUNK - 1, CHUNK, 3 * CHUNK, 3 * CHUNK + 16):
        changed = numbers.copy()
        changed[row] += 1
        assert _root({"a": changed}) != root
    swapped = np.concatenate([numbers[CHUNK : 2 * CHUNK], numbers[:CHUNK], numbers[2 * CHUNK :]])
    assert _root({"a": swapped}) != root


def test_an_auditor_checks_the_table_and_single_columns() -> None:
    table = Table(pa.table({"age": [30, 40], "disease": ["Flu", "HIV"]}))
    snapshot = take_snapshot(table, SECRET)
    root = snapshot.commitment.root
    assert check_table(root, table, snapshot.key)
    assert not check_table(root, Table(pa.table({"age": [30, 41], "disease": ["Flu", "HIV"]})), snapshot.key)
    assert not check_table(root, table, KEY)
    key = column_key(snapshot.key, "disease")
    assert check_column(root, snapshot.commitment, "disease", ["Flu", "HIV"], key)
    assert check_column(root, snapshot.commitment, "disease", table.arrow["disease"], key)
    assert not check_column(root, snapshot.commitment, "disease", ["Flu", "Flu"], key)
    assert not check_column(root, snapshot.commitment, "disease", ["Flu", "HIV"], column_key(snapshot.key, "age"))
    with pytest.raises(ParameterError, match=r'no column "diseas" \(did you mean "disease"\?\); it has age'):
        check_column(root, snapshot.commitment, "diseas", ["Flu", "HIV"], key)


def test_a_party_cannot_show_the_auditor_other_columns_than_it_committed_to() -> None:
    snapshot = take_snapshot(Table(pa.table({"age": [30], "disease": ["HIV"]})), SECRET)
    forged = commit(Table(pa.table({"age": [30], "disease": ["Flu"]})), snapshot.key)
    mixed = Commitment(snapshot.commitment.root, forged.columns)
    for shown in (forged, mixed):
        assert not check_column(
            snapshot.commitment.root, shown, "disease", ["Flu"], column_key(snapshot.key, "disease")
        )


def test_the_commitment_is_the_same_for_the_same_table_and_hides_it_otherwise() -> None:
    table, next_day = Table(pa.table({"a": ["x"]})), Table(pa.table({"a": ["y"]}))
    snapshot = take_snapshot(table, SECRET)
    assert take_snapshot(Table(pa.table({"a": ["x"]})), SECRET) == snapshot
    assert take_snapshot(table, make_secret()).commitment != snapshot.commitment
    later = take_snapshot(next_day, SECRET)
    assert later.key != snapshot.key  # what opens one snapshot opens no other
    assert not check_table(later.commitment.root, next_day, snapshot.key)
    guessed = commit(table, bytes(32))  # who guesses the cells, but not the key, can confirm nothing
    assert not {guessed.root, *guessed.columns.values()} & {
        snapshot.commitment.root,
        *snapshot.commitment.columns.values(),
    }
    assert snapshot.key.hex() not in repr(snapshot)
    assert str(snapshot.key) not in repr(snapshot)


def test_equal_columns_do_not_look_equal_and_keys_have_their_length() -> None:
    columns = commit(Table(pa.table({"a": ["x", "y"], "b": ["x", "y"]})), KEY).columns
    assert columns["a"] != columns["b"]
    assert column_key(KEY, "a") != column_key(KEY, "b")
    with pytest.raises(ParameterError, match="key has 32 bytes; got 5"):
        take_snapshot(Table(pa.table({"a": [1]})), b"short")


# --- Cards, which a party publishes: columns without their values, and a rounded number of records ---


def test_a_card_never_has_values() -> None:
    tree = Taxonomy(Branch("Anywhere", (Branch("North", (Branch("Kiel"), Branch("Husum"))), Branch("Ulm"))))
    schema = Schema(
        [
            Attribute("town", taxonomy=tree),
            Attribute("age", "continuous", lower=18, upper=97),
            Attribute("job", taxonomy="flat"),
            Attribute("firm", taxonomy=Taxonomy.flat(["Acme", "Zeta"])),
            Attribute("land", taxonomy=Taxonomy(Branch("Utopia"))),
        ]
    )
    card = card_of("clinic", "patients", schema, identifier="ssn", key=bytes(32), sensitive=["disease"], records=4_321)
    written = msgspec.json.encode(card).decode()
    assert '"Anywhere"' in written
    for value in ("North", "Kiel", "Husum", "Ulm", "18", "97", "Acme", "Zeta", "Utopia", "4321"):
        assert f'"{value}"' not in written
        assert f":{value}" not in written
    assert (card.records, card.names) == (4_400, ("town", "age", "job", "firm", "land", "disease"))
    assert card.columns[3].taxonomy is None
    assert [column.role for column in card.columns][-1] == "sensitive"
    other = Schema([Attribute("age", "continuous", lower=18, upper=98)])
    first, second = (
        card_of("clinic", "p", each, identifier="ssn", key=bytes(32))
        for each in (Schema([Attribute("age", "continuous", lower=18, upper=97)]), other)
    )
    assert first.schema != second.schema  # other bounds make another release
    assert first.schema != card_of("clinic", "p", other, identifier="ssn", key=b"1" * 32).schema
    with pytest.raises(ParameterError, match='"ssn" identifies people'):
        card_of("clinic", "p", schema, identifier="ssn", key=bytes(32), sensitive=["ssn"])


@given(st.integers(0, 10**9))
def test_records_are_rounded_up(records: int) -> None:
    told = rounded_up(records)
    assert records <= told
    assert told % 100 == 0
    assert told - records < max(100, records / 9)
    assert len(str(told).rstrip("0")) <= 2


def test_a_newer_nodes_card_is_read_without_what_is_not_known_here() -> None:
    tree = Taxonomy(Branch("Anywhere", (Branch("North"), Branch("South"))))
    card = card_of("clinic", "patients", Schema([Attribute("town", taxonomy=tree)]), identifier="ssn", key=bytes(32))
    published = Published("clinic", (PublishedDataset(card),))
    newer = msgspec.to_builtins(published)
    described = newer["datasets"][0]["card"]
    for place in (described, described["columns"][0], described["columns"][0]["taxonomy"]):
        place["since"] = "a later version"
    assert read_said(msgspec.json.encode(newer), Published, "clinic") == published
    described["since"] = "\x1b[1A"  # what nobody here knows is not stored, and must be plain all the same
    with pytest.raises(ParameterError, match="control character"):
        read_said(msgspec.json.encode(newer), Published, "clinic")


def test_what_says_who_may_ask_is_refused_when_it_is_not_known_here() -> None:
    card = card_of("clinic", "patients", Schema([Attribute("age")]), identifier="ssn", key=bytes(32))
    newer = msgspec.to_builtins(Published("clinic", (PublishedDataset(card),)))
    newer["datasets"][0]["only_on"] = "mondays"
    with pytest.raises(ParameterError, match="only_on"):
        read_said(msgspec.json.encode(newer), Published, "clinic")
