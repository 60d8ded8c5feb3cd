"""The DkA paper's own join: two parties join under encryption, and no third process does."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import masquerade as mq
from masquerade.crypto import SecretKey, generate_okamoto_uchiyama as generate
from masquerade.errors import PeerBrokeProtocol, RequirementViolated
from masquerade.net.memory import Wire, run_together
from masquerade.net.script import decode
from masquerade.protocol import ASSEMBLER
from masquerade.protocol.dka.encrypted_join import join_first, join_second
from masquerade.protocol.hand_in import Columns, read_stream, write_columns
from protocol.tampering import changing, cut_short
from protocol.test_dka import NAMES, bag, people, plainly, scripts as sessions

LEFT = pa.table({"job": pa.array(["cook", "cook", "judge", "judge", "cook"]).dictionary_encode()})
RIGHT = pa.table({"town": ["Rome", "Rome", "Bern", "Bern", "Rome"], "age": ["old", "old", "any", "any", "old"]})
ORDER = ("town", "job", "age")
PAIRS = mq.KAnonymity(ORDER, 2)


@pytest.fixture(scope="module")
def key() -> SecretKey:
    return generate()


def scripts(key: SecretKey, left: pa.Table = LEFT, right: pa.Table = RIGHT) -> dict[str, Any]:
    return {
        "anna": join_first("berta", left, right.column_names, ORDER, PAIRS, key),
        "berta": join_second("anna", right, ORDER, PAIRS),
    }


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


def test_both_get_the_join_in_an_order_of_its_own(key: SecretKey) -> None:
    wire = Wire()
    joined = run_together(scripts(key), wire)
    expected = [("Bern", "judge", "any")] * 2 + [("Rome", "cook", "old")] * 3
    assert rows(joined["anna"]) == rows(joined["berta"]) == expected
    assert joined["anna"].column_names == list(ORDER)
    assert [message.kind for message in wire.heard] == [
        *("join-key", "join-rows", "join-rows"),
        *("join-cells", "join-release"),
    ]


def test_neither_recognises_its_records(key: SecretKey) -> None:
    """The ciphertexts that come back have other noise, and records of equal cells another order each time."""
    sent: list[tuple[bytes, ...]] = []
    orders = set()
    for _ in range(12):
        wire = Wire()
        run_together(
            scripts(key, pa.table({"job": ["cook"] * 5}), pa.table({"town": ["Rome"] * 5, "age": ["old"] * 5})), wire
        )
        there, back = (_ciphertexts(message.data) for message in wire.heard if message.kind == "join-rows")
        assert not set(there) & set(back)
        sent.append(there)
        orders.add(tuple(back))
    assert len({each for one in sent for each in one}) == 12 * 5
    assert len(orders) == 12


def _ciphertexts(data: bytes) -> tuple[bytes, ...]:
    found = data[-5 * 256 :]
    return tuple(found[at : at + 256] for at in range(0, len(found), 256))


def test_every_order_of_the_second_party_is_possible(key: SecretKey) -> None:
    """Of records whose cells are equal there, the first party sees its own in every order."""
    left, right = pa.table({"job": ["a", "b"]}), pa.table({"town": ["Rome"] * 2, "age": ["old"] * 2})
    seen: Counter[tuple[int, ...]] = Counter()
    for _ in range(40):
        wire = Wire()
        pair = {
            "anna": join_first("berta", left, right.column_names, ORDER, mq.KAnonymity(["town"], 2), key),
            "berta": join_second("anna", right, ORDER, mq.KAnonymity(["town"], 2)),
        }
        run_together(pair, wire)
        back = [message.data for message in wire.heard if message.kind == "join-rows"][1]
        seen[tuple(key.decrypt(each) for each in key.public.decode(back[-2 * 256 :], 2))] += 1
    assert set(seen) == {(0, 1), (1, 0)}


def test_the_rows_of_all_kinds_of_cells_are_joined(key: SecretKey) -> None:
    left = pa.table({"job": pa.array([1.5, None, 1.5, None])})
    right = pa.table({"town": pa.array([7, 7, 7, 7]), "age": pa.array([None, "x", None, "x"])})
    pair = {
        "anna": join_first("berta", left, right.column_names, ORDER, mq.KAnonymity(["town"], 2), key),
        "berta": join_second("anna", right, ORDER, mq.KAnonymity(["town"], 2)),
    }
    joined = run_together(pair)["berta"]
    assert Counter(rows(joined)) == Counter([(7, 1.5, None)] * 2 + [(7, None, "x")] * 2)


def test_a_join_that_does_not_satisfy_is_not_shown(key: SecretKey) -> None:
    wire = Wire()
    unique = pa.table({"town": ["Rome"] * 5, "age": [f"age {at}" for at in range(5)]})
    with pytest.raises(RequirementViolated):
        run_together(scripts(key, right=unique), wire)
    assert "join-release" not in [message.kind for message in wire.heard]


def test_one_record_in_place_of_all_is_noticed(key: SecretKey) -> None:
    """A second party that has one record decrypted again and again would learn its cells."""
    pair = scripts(key)
    pair["berta"] = changing(pair["berta"], "join-rows", rows=lambda rows: rows[:256] * 5)
    with pytest.raises(PeerBrokeProtocol, match=r"berta.*other rows than it was given"):
        run_together(pair)


def test_cells_that_the_first_party_changes_are_noticed(key: SecretKey) -> None:
    other = pa.table({"town": ["Rome"] * 5, "job": ["cook"] * 5, "age": ["old"] * 5})
    pair = scripts(key)
    pair["anna"] = changing(pair["anna"], "join-release", table=lambda _: write_columns(other))
    with pytest.raises(PeerBrokeProtocol, match=r"anna.*other cells than it was given"):
        run_together(pair)


@pytest.mark.parametrize("local", ["datafly", "mondrian"])
def test_the_release_is_that_of_the_assemblers_join(local: str) -> None:
    table = people(30, 5)
    wire = Wire()
    results = run_together(sessions(table, 4, local=local, join="parties"), wire)
    expected, sides = plainly(table, 4, local)
    release = results[ASSEMBLER]
    assert bag(release.table) == expected
    assert release.suppressed == 30 - sides[0].passed.size
    handed = [decode(each.data, [Columns]).table for each in wire.heard if each.kind == "columns"]
    assert handed[0] == handed[1]
    for data in handed:  # the assembler sees the rows sorted: nothing of the common order
        told = [tuple(row.values()) for row in read_stream(data, NAMES, 30).to_pylist()]
        assert told == sorted(told)


def test_a_table_of_which_there_are_two_is_not_released() -> None:
    parties = sessions(people(30, 5), 4, join="parties")
    other = pa.table(dict.fromkeys(NAMES, ["any"] * 30))
    parties["berta"] = changing(parties["berta"], "columns", table=lambda _: write_columns(other))
    with pytest.raises(PeerBrokeProtocol, match="anna or berta handed in another table than was joined"):
        run_together(parties)


@pytest.mark.parametrize(
    ("kind", "guilty"),
    [
        ("join-key", "anna"),
        ("join-rows", "anna"),
        ("join-rows", "berta"),
        ("join-cells", "berta"),
        ("join-release", "anna"),
    ],
)
def test_a_short_message_is_its_senders_fault(key: SecretKey, kind: str, guilty: str) -> None:
    pair = scripts(key)
    pair[guilty] = cut_short(pair[guilty], kind)
    with pytest.raises(PeerBrokeProtocol, match=guilty):
        run_together(pair)
