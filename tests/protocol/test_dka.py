"""DkA: the framework and DkA-Datafly, against plain counting, with its simulators and its breaks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import masquerade as mq
from crypto.two_parties import balanced
from examples import examples
from masquerade.crypto import unpack
from masquerade.data import Column
from masquerade.errors import PeerBrokeProtocol, RequirementUnreachable
from masquerade.net import Receive, Script, Send
from masquerade.net.memory import SentMessage, Wire, run_together
from masquerade.protocol import ASSEMBLER, Assembly, AttributeTerms, Contract, Participant
from masquerade.protocol.dka import side as rounds
from masquerade.protocol.dka.anonymizers import ByMondrian, Descent, FullDomain, Grouped, all_large
from masquerade.protocol.dka.checkpoint import Notebook, notes_purpose
from masquerade.protocol.dka.checks import PairTests
from masquerade.protocol.dka.method import Dka
from masquerade.protocol.dka.plain import plain_dka
from masquerade.protocol.dka.side import BottomUpSide, ChiShare, DataflySide, OnRound, Side, TopDownSide, play
from masquerade.protocol.pairs import Pair, prepare_pair
from masquerade.protocol.sensitive.back_ends import shared_tests
from masquerade.protocol.sensitive.histogram import Bounds
from masquerade.utility import Comparison, certainty_losses, losses_of, measure
from protocol.party_scripts import contract_for
from protocol.tampering import changing, cut_short

PARTIES = ("anna", "berta")
NAMES = ("job", "town", "age")
HOLDERS = {"job": "anna", "town": "berta", "age": "berta"}


def _tree(name: str, *sizes: int) -> mq.Branch:
    groups = [
        mq.Branch(f"{name} {at}", tuple(mq.Branch(f"{name} {at}.{leaf}") for leaf in range(size)))
        for at, size in enumerate(sizes)
    ]
    return mq.Branch(f"any {name}", tuple(groups))


TREES = {"job": _tree("job", 3, 2, 2), "town": _tree("town", 2, 2), "age": _tree("age", 4, 3, 1)}
SCHEMA = mq.Schema(mq.Attribute(name, taxonomy=mq.Taxonomy(tree)) for name, tree in TREES.items())


def people(n: int, seed: int) -> mq.Table:
    rng = np.random.default_rng(seed)
    cells = {}
    for name, tree in TREES.items():
        leaves = [leaf.name for branch in tree.children for leaf in branch.children]
        weights = rng.dirichlet(np.ones(len(leaves)))
        cells[name] = rng.choice(leaves, n, p=weights).tolist()
    return mq.Table(pa.table(cells), SCHEMA)


def columns_of(table: mq.Table, me: int) -> tuple[Column, ...]:
    return table.columns(name for name in NAMES if HOLDERS[name] == PARTIES[me])


def contract_of(k: int, local: str = "datafly", join: str = "assembler") -> Contract:
    return contract_for(mq.KAnonymity(NAMES, k), HOLDERS, Dka(local=local, join=join))


def scripts(
    table: mq.Table, k: int, books: dict[str, Notebook] | None = None, local: str = "datafly", join: str = "assembler"
) -> dict[str, Any]:
    contract = contract_of(k, local, join)
    ids = [str(row).encode() for row in range(len(table))]
    made: dict[str, Any] = {ASSEMBLER: Dka.of(contract).assembler(Assembly(contract))}
    for name in PARTIES:
        notebook = books[name] if books is not None else None
        made[name] = Dka.of(contract).party(Participant(name, contract, table, ids), notebook)
    return made


def bag(table: pa.Table) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row[name] for name in NAMES) for row in table.to_pylist())


def plainly(
    table: mq.Table, k: int, local: str = "datafly", on_round: OnRound | None = None
) -> tuple[Counter[tuple[object, ...]], tuple[Side, ...]]:
    columns = [columns_of(table, 0), columns_of(table, 1)]
    sides = plain_dka(columns, len(table), k, local, on_round=on_round)
    cells = {column.name: column.to_arrow() for side in sides for column in side.released()}
    return bag(pa.table(cells)), sides


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(8, 120), st.integers(0, 10**6), st.integers(1, 8))
def test_the_plain_rounds_make_the_join_k_anonymous(n: int, seed: int, k: int) -> None:
    released, sides = plainly(people(n, seed), k)
    assert all(count >= k for count in released.values())
    assert n - released.total() < k
    assert np.array_equal(sides[0].passed, sides[1].passed)


@settings(max_examples=examples(8), deadline=None)
@given(st.integers(8, 60), st.integers(0, 10**6), st.integers(2, 6))
def test_the_release_is_that_of_plain_rounds(n: int, seed: int, k: int) -> None:
    table = people(n, seed)
    expected, _ = plainly(table, k)
    results = run_together(scripts(table, k))
    release = results[ASSEMBLER]
    assert bag(release.table) == expected
    assert release.suppressed == n - expected.total()
    assert results["anna"] == results["berta"] == release.rows == n


def test_a_suppressed_record_counts_as_lost_altogether() -> None:
    table, k = people(30, 1), 5
    sides = plainly(table, k)[1]
    kept = sides[0].passed
    assert 0 < kept.size < len(table)
    columns = [*columns_of(table, 0), *columns_of(table, 1)]
    everything = Comparison(tuple(columns), (*sides[0].released(), *sides[1].released()), None, kept, {"age": 3.0})
    weighted = msgspec.structs.replace(contract_of(k), attributes=(AttributeTerms("age", weight="3.0"),))
    parts = scripts(table, k) | {ASSEMBLER: Dka.of(weighted).assembler(Assembly(weighted))}
    release = run_together(parts)[ASSEMBLER]
    assert {**release.metrics, "information_kept": None} == pytest.approx(
        measure(everything) | {"information_kept": None}  # told of 100 records or more
    )
    assert release.attribute_losses == certainty_losses(losses_of(everything))
    released_alone = sum(count**2 for count in bag(release.table).values())
    assert release.metrics["discernibility"] == released_alone + release.suppressed * len(table)


def test_with_k_of_one_everybody_passes_at_once() -> None:
    wire = Wire()
    release = run_together(scripts(people(20, 1), 1), wire)[ASSEMBLER]
    assert bag(release.table) == bag(people(20, 1).arrow)
    assert not any(each.kind == "dka-chi" for each in wire.heard)


def test_fewer_common_records_than_k() -> None:
    with pytest.raises(RequirementUnreachable, match="k = 9 needs at least 9 common records; there are 8"):
        run_together(scripts(people(8, 1), 9))


def rounds_of(own: Any, n: int, k: int, kind: Any = BottomUpSide) -> tuple[int, int]:
    def part(me: int) -> Script[int]:
        pair = yield from prepare_pair(me, PARTIES, b"test")
        side = kind(own[me], n, k)
        yield from play(PairTests(pair), side)
        return int(side.round)

    results = run_together({name: part(me) for me, name in enumerate(PARTIES)})
    return results["anna"], results["berta"]


def joint_sizes(own: Any, n: int) -> list[int]:
    pairs = zip(*(each.groups(np.arange(n))[0].tolist() for each in own), strict=True)
    return sorted(Counter(pairs).values())


def released_sizes(own: Any, n: int) -> list[int]:
    """How often each row of the join occurs, by its written cells alone."""
    cells = [column.to_arrow().to_pylist() for each in own for column in each.released(np.arange(n))]
    return sorted(Counter(zip(*cells, strict=True)).values())


@pytest.mark.parametrize("kind", [FullDomain, ByMondrian])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_framework_stops_at_the_first_anonymized_round(kind: Any, seed: int) -> None:
    table, n, k = people(50, seed), 50, 4
    own = [kind(columns_of(table, me), n, k) for me in (0, 1)]
    rounds = rounds_of(own, n, k)
    assert min(joint_sizes(own, n)) >= k
    assert min(released_sizes(own, n)) >= k
    again = [kind(columns_of(table, me), n, k) for me in (0, 1)]
    for each in again:
        each.start()
        assert all_large(each, np.arange(n), k)
    plain_rounds = 1
    while min(joint_sizes(again, n)) < k:
        plain_rounds += 1
        for each in again:
            each.further()
    assert rounds == (plain_rounds, plain_rounds)
    assert joint_sizes(again, n) == joint_sizes(own, n)


@pytest.mark.parametrize(("seed", "k"), [(1, 4), (2, 3), (3, 25), (5, 2)])
def test_top_down_ends_before_the_first_round_that_fails(seed: int, k: int) -> None:
    table, n = people(50, seed), 50
    own = [Descent(columns_of(table, me), n, k) for me in (0, 1)]
    rounds = rounds_of(own, n, k, TopDownSide)
    again = [Descent(columns_of(table, me), n, k) for me in (0, 1)]
    for each in again:
        each.start()
    sizes, plain_rounds = joint_sizes(again, n), 1
    assert sizes == [n]
    while True:
        moved = [each.further() for each in again]
        if not any(moved) or min(joint_sizes(again, n)) < k:
            break
        sizes, plain_rounds = joint_sizes(again, n), plain_rounds + 1
    assert rounds == (plain_rounds, plain_rounds)
    assert joint_sizes(own, n) == sizes
    assert min(sizes) >= k
    assert min(released_sizes(own, n)) >= k


def test_full_domain_has_one_level_for_all_values_of_an_attribute() -> None:
    table = people(60, 8)
    own = FullDomain(columns_of(table, 1), 60, 6)
    own.start()
    for column in own.released(np.arange(60)):
        assert isinstance(column.domain, mq.Taxonomy)
        ends = zip(column.lo.tolist(), column.hi.tolist(), strict=True)
        depths = {column.domain.node(lo, hi).depth for lo, hi in ends}
        assert len(depths) == 1


# Simulators. A view is what a party gets: kinds and sizes of messages, and bits that look random.


def shape(heard: list[SentMessage]) -> list[tuple[str, int]]:
    return [(each.kind, len(each.data)) for each in heard]


def shares_of(heard: list[SentMessage]) -> list[bytes]:
    return [each.data for each in heard if each.kind == "dka-chi"]


def real_view(table: mq.Table, k: int, me: int) -> tuple[list[SentMessage], list[np.ndarray[Any, Any]], list[Any]]:
    """What party `me` hears in the rounds of DkA-Datafly, every χ, and its own labels in each round."""
    wire, chis, labels = Wire(), [], []

    def part(number: int) -> Script[None]:
        pair = yield from prepare_pair(number, PARTIES, b"test")
        side = DataflySide(columns_of(table, number), len(table), k)
        if number == me:
            labels.append(side.labels())

        def on_round(passes: Any) -> None:
            chis.append(passes)
            labels.append(side.labels())

        yield from play(PairTests(pair), side, on_round=on_round if number == me else None)

    run_together({name: part(number) for number, name in enumerate(PARTIES)}, wire)
    return wire.seen_by(PARTIES[me]), chis, labels


@pytest.mark.parametrize("me", [0, 1])
def test_algorithm_7_simulates_a_view_from_own_data_and_chi(me: int) -> None:
    """The simulator knows nothing of the other party: all its labels are "never", and χ is given."""
    table, k = people(60, 7), 4
    view, chis, labels = real_view(table, k, me)
    wire, simulated = Wire(), []

    def own() -> Script[None]:
        pair = yield from prepare_pair(me, PARTIES, b"test")
        side = DataflySide(columns_of(table, me), len(table), k)
        simulated.append(side.labels())
        yield from play(PairTests(pair), side, on_round=lambda _: simulated.append(side.labels()))

    def other() -> Script[None]:
        pair = yield from prepare_pair(1 - me, PARTIES, b"test")
        for chi in chis:
            bound = len(table) // k
            nothing = np.full(chi.size, bound, np.uint64)
            yield from shared_tests(pair, nothing, k, Bounds(chi.size, (bound, bound), (k, k)))
            heard = yield Receive(PARTIES[me], ChiShare)
            mine = np.frombuffer(heard.bits, np.uint8)
            wanted = np.packbits(chi.astype(np.uint8), bitorder="little")
            yield Send((PARTIES[me],), ChiShare((wanted ^ mine).tobytes()))

    run_together({PARTIES[me]: own(), PARTIES[1 - me]: other()}, wire)
    assert len(chis) > 1
    assert shape(wire.seen_by(PARTIES[me])) == shape(view)
    assert all(np.array_equal(one, two) for one, two in zip(simulated, labels, strict=True))


@pytest.mark.parametrize("kind", [FullDomain, ByMondrian])
@pytest.mark.parametrize("me", [0, 1])
def test_algorithm_5_simulates_the_rounds_from_own_data_and_the_release(kind: Any, me: int) -> None:
    """How many rounds there were follows from the own columns of the release: nothing else was heard."""
    table, n, k = people(60, 12), 60, 4
    own = [kind(columns_of(table, number), n, k) for number in (0, 1)]
    rounds = rounds_of(own, n, k)[me]
    released = [column.to_arrow().to_pylist() for column in own[me].released(np.arange(n))]
    simulator = kind(columns_of(table, me), n, k)
    simulator.start()
    simulated = 1
    while [column.to_arrow().to_pylist() for column in simulator.released(np.arange(n))] != released:
        simulator.further()
        simulated += 1
    # Further steps at the top change nothing, so that the simulator may see fewer rounds there, never more.
    assert simulated == rounds


def omega(own: Grouped, n: int, k: int, pair: Pair) -> Script[Any]:
    labels = np.asarray(own.groups(np.arange(n))[0], np.uint64)
    return (yield from shared_tests(pair, labels, k, Bounds(n, (n, n))))


@pytest.mark.parametrize("me", [0, 1])
def test_omega_alone_is_random(me: int) -> None:
    """Whether all records pass or none does, a party's ω is a string of fair coins."""
    table, n = people(400, 1), 400
    for k in (1, n):

        def part(number: int, k: int = k) -> Script[Any]:
            pair = yield from prepare_pair(number, PARTIES, b"test")
            own = FullDomain(columns_of(table, number), n, 1)
            return (yield from omega(own, n, k, pair))

        results = run_together({name: part(number) for number, name in enumerate(PARTIES)})
        assert balanced(results[PARTIES[me]])
        assert set((results["anna"] ^ results["berta"]).tolist()) == {int(k == 1)}


def test_sizes_depend_on_chi_alone() -> None:
    """Two other parties' tables that lead to the same χ give views of the same shape."""
    table = people(40, 3)
    renamed = {name: table.arrow.column(name).to_pylist() for name in NAMES}
    swap = {f"town {at}.{leaf}": f"town {at}.{1 - leaf}" for at in (0, 1) for leaf in (0, 1)}
    renamed["town"] = [swap[town] for town in renamed["town"]]  # the same groups by other names
    other = mq.Table(pa.table(renamed), SCHEMA)
    one, chis, _ = real_view(table, 3, 0)
    two, same, _ = real_view(other, 3, 0)
    assert all(np.array_equal(a, b) for a, b in zip(chis, same, strict=True))
    assert shape(one) == shape(two)
    assert shares_of(one) != shares_of(two)


# Breaks.


def breaking(script: Script[Any], after: int) -> Script[Any]:
    """A party that vanishes when it has heard so many shares of χ, before it takes the last in."""
    heard: Any = None
    seen = 0
    while True:
        try:
            move = script.send(heard)
        except StopIteration as end:
            return end.value
        heard = yield move
        if isinstance(move, Receive) and move.kind is ChiShare:
            seen += 1
            if seen == after:
                raise ConnectionError("gone")


@pytest.mark.parametrize("who", PARTIES)
def test_a_broken_session_goes_on_after_its_last_whole_round(who: str, tmp_path: Path) -> None:
    table, k = people(60, 7), 4
    ids = [str(row).encode() for row in range(len(table))]
    purposes = {name: notes_purpose(contract_of(k), table, ids) for name in PARTIES}

    def books() -> dict[str, Notebook]:
        return {name: Notebook(tmp_path / name, purposes[name]) for name in PARTIES}

    whole = Wire()
    expected = run_together(scripts(table, k), whole)[ASSEMBLER]
    rounds = sum(each.kind == "dka-chi" for each in whole.seen_by(who))
    assert rounds == 5
    first = scripts(table, k, books())
    first[who] = breaking(first[who], 3)
    with pytest.raises(ConnectionError):
        run_together(first)
    assert len(books()[who].rounds) == 2
    assert (tmp_path / who).stat().st_mode & 0o077 == 0
    wire = Wire()
    resumed = run_together(scripts(table, k, books()), wire)[ASSEMBLER]
    assert bag(resumed.table) == bag(expected.table)
    kinds = Counter(each.kind for each in wire.seen_by(who))
    assert kinds["dka-chi"] == rounds - 2
    assert "blinded" not in kinds  # nobody is aligned again
    assert kinds["pair-base"] == 1  # and the transfers are fresh
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("local", ["top-down", "full-domain", "mondrian"])
def test_every_local_algorithm_gives_the_release_of_plain_rounds_and_resumes(local: str) -> None:
    table, k = people(40, 6), 3
    expected, sides = plainly(table, k, local)
    assert sides[0].round > 1
    books = {name: Notebook() for name in PARTIES}
    first = scripts(table, k, books, local)
    first["anna"] = breaking(first["anna"], 2)
    with pytest.raises(ConnectionError):
        run_together(first)
    wire = Wire()
    release = run_together(scripts(table, k, books, local), wire)[ASSEMBLER]
    assert bag(release.table) == expected
    assert min(expected.values()) >= k
    assert release.suppressed == 0
    assert not any(each.kind == "blinded" for each in wire.heard)  # both went on where they were


def test_notes_for_something_else_are_ignored(tmp_path: Path) -> None:
    table = people(50, 1)
    ids = [str(row).encode() for row in range(50)]
    first = scripts(table, 4, {name: Notebook(tmp_path / name, b"one") for name in PARTIES})
    first["anna"] = breaking(first["anna"], 2)
    with pytest.raises(ConnectionError):
        run_together(first)
    assert Notebook(tmp_path / "anna", b"one").rounds
    assert not Notebook(tmp_path / "anna", b"another").rounds
    (tmp_path / "anna").write_bytes(b"\xff broken")
    assert not Notebook(tmp_path / "anna", b"one").rounds
    one, other = contract_of(4), contract_of(5)
    assert notes_purpose(one, table, ids) == notes_purpose(contract_of(4), table, ids)  # whatever the nonce
    assert notes_purpose(one, table, ids) != notes_purpose(other, table, ids)
    assert notes_purpose(one, table, ids) != notes_purpose(one, people(50, 2), ids)
    # Only one of the two remembers: both start anew.
    wire = Wire()
    books = {name: Notebook(tmp_path / name, b"one") for name in PARTIES}
    run_together(scripts(table, 4, books), wire)
    assert any(each.kind == "blinded" for each in wire.heard)


@pytest.mark.parametrize("guilty", PARTIES)
def test_a_short_share_of_chi_is_its_senders_fault(guilty: str) -> None:
    made = scripts(people(40, 2), 4)
    made[guilty] = cut_short(made[guilty], "dka-chi")
    with pytest.raises(PeerBrokeProtocol, match=rf"{guilty}.*bytes of χ where 40 records have 5"):
        run_together(made)


def _letting_all_fail(script: Script[Any]) -> Script[Any]:
    """A party that tells what it hears of χ, so that no record passes at either."""
    heard, own = None, b""
    while True:
        try:
            move = script.send(heard)
        except StopIteration as end:
            return end.value
        if isinstance(move, Send) and isinstance(move.message, ChiShare):
            own = move.message.bits
            theirs = yield Receive(move.peers[0], ChiShare)
            heard = yield Send(move.peers, theirs)
        elif isinstance(move, Receive) and move.kind is ChiShare:
            heard = ChiShare(own)
        else:
            heard = yield move


@pytest.mark.parametrize("guilty", PARTIES)
def test_who_lets_every_test_fail_does_not_keep_the_other_for_ever(
    guilty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "MOST_ROUNDS", 9)
    made = scripts(people(40, 2), 4)
    made[guilty] = _letting_all_fail(made[guilty])
    # Each names the other; here the first to find out is heard.
    with pytest.raises(PeerBrokeProtocol, match="let groups fail in 9 rounds"):
        run_together(made)


def test_the_assembler_names_who_tells_another_number_of_suppressed_records() -> None:
    made = scripts(people(40, 2), 4)
    made["berta"] = changing(made["berta"], "columns", suppressed=lambda _: 39)
    with pytest.raises(PeerBrokeProtocol, match=r"berta.*reported 39 suppressed records where anna reported"):
        run_together(made)


def test_opened_shares_are_whole() -> None:
    """Nothing of χ is in the padding of its last byte."""
    wire = Wire()
    run_together(scripts(people(41, 2), 4), wire)
    first = next(each for each in wire.heard if each.kind == "dka-chi")
    bits = msgspec.msgpack.decode(first.data)["bits"]
    assert len(bits) == 6
    assert not unpack(np.frombuffer(bits, np.uint8), 48)[41:].any()
