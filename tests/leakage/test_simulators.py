"""Simulators: from a party's own input and its result alone, a view that the honest party cannot tell from a real one.

A simulated peer knows nothing. Where a real one sends what depends on its secrets, it sends uniform bytes (random
points for base transfers); where a result is opened, it fits its last message to the result that it is given. The
honest party runs its real code against it: it must come to the end, with the given result, and hear messages of the
same kinds, in the same order, of the same lengths as in earnest.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from nacl import bindings
from numpy.typing import NDArray

from crypto.two_parties import balanced
from masquerade.crypto import BidWords, ReceivedBatch, TransferReceiver, TransferSender, compare_bids, pack, unpack
from masquerade.crypto.transfer_extension import _Check
from masquerade.net import Message, Receive, Script, Send, kind_of
from masquerade.net.memory import Wire, run_together
from masquerade.protocol.comparing.argmax import OUTPUTS, Bid, EvaluatingSide, Garbled, GarblingSide, prepare
from masquerade.protocol.dka.checks import PairTests
from masquerade.protocol.dka.side import ChiShare, DataflySide, play
from masquerade.protocol.pairs import prepare_pair
from masquerade.protocol.sensitive.back_ends import shared_tests
from masquerade.protocol.sensitive.histogram import Bounds
from masquerade.protocol.shared_circuits import Share
from protocol.test_dka import PARTIES, columns_of, people, real_view, shape

WORDS = BidWords(20, 3)
# Public numbers at the head of a message: which transfers and tweaks come next.
HEADERS = {
    "histogram-ask": 16,
    "look-up-ask": 16,
    "circuit-input": 16,
    "argmax-order": 16,
    "circuit-garbled": 8,
    "argmax-garbled": 8,
}
POINTS = ("pair-base", "base-transfers")


def random_points(size: int) -> bytes:
    """Random elements of the group that base transfers live in."""
    scalars = (bindings.crypto_core_ed25519_scalar_reduce(os.urandom(64)) for _ in range(size // 32))
    return b"".join(map(bindings.crypto_scalarmult_ed25519_base_noclamp, scalars))


def uniform(message: Message) -> Message:
    """A message of the same kind and length that depends on nobody's secret."""
    kind = kind_of(message)

    def instead(data: bytes, header: int) -> bytes:
        if kind in POINTS:
            return random_points(len(data))
        return data[:header] + os.urandom(max(0, len(data) - header))

    changed: dict[str, Any] = {}
    for number, field in enumerate(message.__struct_fields__):
        value = getattr(message, field)
        if isinstance(value, bytes):
            changed[field] = instead(value, HEADERS.get(kind, 0) if number == 0 else 0)
        elif isinstance(value, tuple):
            changed[field] = tuple(os.urandom(len(each)) for each in value)
    return msgspec.structs.replace(message, **changed)


def knowing_nothing(script: Script[Any], fit: Callable[[Send], Script[Message]] | None = None) -> Script[Any]:
    """A peer that sends uniform messages; for those of `fit`'s kind, what that makes of them."""
    heard: Any = None
    stored: dict[tuple[str, type[Message]], Any] = {}
    while True:
        try:
            move = script.send(heard)
        except StopIteration as end:
            return end.value
        if isinstance(move, Receive):
            key = move.peer, move.kind
            heard = stored.pop(key) if key in stored else (yield move)
            continue
        message = uniform(move.message)
        if fit is not None and isinstance(move.message, ChiShare | Share):
            fitting, answer = fit(move), None
            while True:  # it hears the others first, and the script gets what was heard when it asks
                try:
                    wanted = fitting.send(answer)
                except StopIteration as end:
                    message = end.value
                    break
                assert isinstance(wanted, Receive)
                answer = stored[wanted.peer, wanted.kind] = yield wanted
        heard = yield Send(move.peers, message)


@pytest.fixture(autouse=True)
def proofs_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proof of columns is uniform but for a hash, which follows from the columns and the sender's own secrets."""
    monkeypatch.setattr(_Check, "holds", lambda *_: True)


# The joint histogram: nothing is opened, so that nothing but uniform bytes is needed.


@pytest.mark.parametrize("me", [0, 1])
def test_a_joint_histograms_view_is_uniform(me: int) -> None:
    own = np.arange(300, dtype=np.uint64) % 8
    bounds = Bounds(300, (7, 7))

    def part(number: int, labels: NDArray[np.uint64]) -> Script[Any]:
        pair = yield from prepare_pair(number, PARTIES, b"test")
        return (yield from shared_tests(pair, labels, 20, bounds))

    real, simulated = Wire(), Wire()
    run_together({name: part(number, own) for number, name in enumerate(PARTIES)}, real)
    scripts = {PARTIES[me]: part(me, own)}
    scripts[PARTIES[1 - me]] = knowing_nothing(part(1 - me, np.full(300, 7, np.uint64)))
    share = run_together(scripts, simulated)[PARTIES[me]]
    assert shape(simulated.seen_by(PARTIES[me])) == shape(real.seen_by(PARTIES[me]))
    assert balanced(share)


# DkA-Datafly: χ is given (Algorithm 7), and the last share fits it.


@pytest.mark.parametrize("me", [0, 1])
def test_a_view_of_dka_datafly_is_uniform_but_for_chi(me: int) -> None:
    table, k = people(60, 7), 4
    view, chis, labels = real_view(table, k, me)
    simulated: list[Any] = []
    given = iter(chis)

    def own() -> Script[DataflySide]:
        pair = yield from prepare_pair(me, PARTIES, b"test")
        side = DataflySide(columns_of(table, me), len(table), k)
        yield from play(PairTests(pair), side, on_round=lambda _: simulated.append(side.labels()))
        return side

    def other() -> Script[None]:
        """Rounds without a table: every label is "never", and the answers are those of χ."""
        pair = yield from prepare_pair(1 - me, PARTIES, b"test")
        for chi in chis:
            bound = len(table) // k
            nothing = np.full(chi.size, bound, np.uint64)
            yield from shared_tests(pair, nothing, k, Bounds(chi.size, (bound, bound), (k, k)))
            yield Send((PARTIES[me],), ChiShare(bytes(-(-chi.size // 8))))
            yield Receive(PARTIES[me], ChiShare)

    def fit(_: Send) -> Script[Message]:
        heard = yield Receive(PARTIES[me], ChiShare)
        wanted = pack(next(given).astype(np.uint8))
        return ChiShare((wanted ^ np.frombuffer(heard.bits, np.uint8)).tobytes())

    wire = Wire()
    scripts = {PARTIES[me]: own(), PARTIES[1 - me]: knowing_nothing(other(), fit)}
    side = run_together(scripts, wire)[PARTIES[me]]
    assert len(chis) > 1
    assert shape(wire.seen_by(PARTIES[me])) == shape(view)
    assert all(np.array_equal(one, two) for one, two in zip(simulated, labels[1:], strict=True))
    assert side.passed.size == sum(int(chi.sum()) for chi in chis)


# The arg-max of three: the view of one against two peers that know nothing but the winner.


@pytest.mark.parametrize("me", [0, 1, 2])
@pytest.mark.parametrize("winner", [0, 1, 2])
def test_a_view_of_three_parties_arg_max_follows_from_the_winner(me: int, winner: int) -> None:
    names = ("anna", "berta", "carla")
    bids = [Bid(5 if number == winner else 1, number) for number in range(3)]
    last = names[2] if me != 2 else names[1]

    def part(number: int, bid: Bid | None) -> Script[Any]:
        argmax = yield from prepare(number, names, WORDS, rounds_ahead=2)
        return (yield from argmax(number, names, lambda: bid))

    def fit(move: Send) -> Script[Message]:
        wanted = np.array([1 << winner], np.uint8)
        for name in names:
            if name != last:
                wanted = wanted ^ np.frombuffer((yield Receive(name, Share)).data, np.uint8)
        return Share(pack(unpack(wanted, 3)).tobytes())

    real, simulated = Wire(), Wire()
    run_together({name: part(number, bids[number]) for number, name in enumerate(names)}, real)
    scripts = {
        name: part(number, bids[me])
        if number == me
        else without_a_result(knowing_nothing(part(number, None), fit if name == last else None))
        for number, name in enumerate(names)
    }
    found = run_together(scripts, simulated)[names[me]]
    assert found.party == winner
    assert shape(simulated.seen_by(names[me])) == shape(real.seen_by(names[me]))


def without_a_result(script: Script[Any]) -> Script[None]:
    """A simulated peer finds that what it hears makes no sense; nobody asks it."""
    try:
        yield from script
    except Exception as error:  # after its last message
        assert "impossibly" in str(error)  # noqa: PT017 - not the error that is tested


# The comparison of two, either side.


def set_up_comparison() -> tuple[GarblingSide, EvaluatingSide]:
    sender, receiver = TransferSender(b"test"), TransferReceiver(b"test")
    to_evaluator, to_garbler = sender.setup(), receiver.setup()
    sender.finish_setup(to_garbler)
    receiver.finish_setup(to_evaluator)
    return (
        GarblingSide(b"test", sender, WORDS.width, is_left=True),
        EvaluatingSide(b"test", receiver, WORDS.width, is_left=False),
    )


@pytest.mark.parametrize("result", [(0, 0), (0, 1), (1, 0)])
def test_an_evaluators_view_of_a_comparison_follows_from_its_result(result: tuple[int, int]) -> None:
    """Random tables, seed and labels; the tags fit the labels that the evaluator will arrive at, whatever they mean."""
    _, evaluating = set_up_comparison()
    evaluating.order(1, 0, None)
    evaluating.flips(WORDS.each([(3, 1)]))
    held = evaluating._bidding
    assert held is not None
    circuit = compare_bids(WORDS.width, True)
    tables = bytes(8) + os.urandom(32 * circuit.n_and)
    theirs, chosen = os.urandom(16), os.urandom(16 * WORDS.width)
    # The simulator has the evaluator's view, hence its labels: it walks through the circuit by itself.
    walked = EvaluatingSide(b"test", TransferReceiver(b"test"), WORDS.width, is_left=False)
    walked._bidding = ReceivedBatch(held._hash, held._first, held._rows, held.choices)
    arrived = walked.evaluate(Garbled(tables, theirs, chosen, b""))
    tags = np.frombuffer(os.urandom(2 * 8 * 2), np.uint64).reshape(2, 2, 1).copy()
    for at, (name, bit) in enumerate(zip(OUTPUTS, result, strict=True)):
        tags[bit, at, 0] = tag_of(arrived, name)
    seen = evaluating.evaluate(Garbled(tables, theirs, chosen, tags.tobytes()))
    read = seen.decode(tags.tobytes(), *OUTPUTS)
    assert tuple(int(read[name][0, 0]) for name in OUTPUTS) == result
    # As long as in earnest.
    garbling, evaluating = set_up_comparison()
    assert garbling.stock_up(evaluating.order(1, 0, None), 1, 1, None) == b""
    _, real = garbling.garble(WORDS.each([(9, 0)]), evaluating.flips(WORDS.each([(3, 1)])), reveal=True)
    lengths = [len(real.tables), len(real.seed), len(real.chosen), len(real.tags)]
    assert lengths == [len(tables), len(theirs), len(chosen), tags.nbytes]


def tag_of(evaluation: Any, name: str) -> int:
    """The tag of the label that the evaluator holds for an output."""
    outputs = evaluation._outputs[OUTPUTS.index(name)]
    tweak = evaluation._tag_tweak + OUTPUTS.index(name)
    return int(evaluation._hash.hash(outputs, tweak)[0, 0])


@pytest.mark.parametrize("result", [(0, 0), (0, 1), (1, 0)])
def test_a_garblers_view_of_a_comparison_follows_from_its_result(result: tuple[int, int]) -> None:
    """Random columns and a random masked bid; the labels that come back are those of the result."""
    garbling, evaluating = set_up_comparison()
    order = evaluating.order(1, 0, None)
    garbling.stock_up(order[:16] + os.urandom(len(order) - 16), 1, 1, None)
    kept, _ = garbling.garble(WORDS.each([(3, 1)]), os.urandom(-(-WORDS.width // 8)), reveal=True)
    bits = np.array(result, np.uint64).reshape(2, 1, 1)
    labels = kept._outputs ^ (np.uint64(0) - bits & kept._delta)
    read = kept.decode(labels.tobytes(), *OUTPUTS)
    assert tuple(int(read[name][0, 0]) for name in OUTPUTS) == result


def test_shares_of_a_comparison_are_fair_coins_whatever_the_bids() -> None:
    """The colour of the label for false is fresh in every comparison, and shows nobody how it ended."""
    for bids in (((9, 0), (3, 1)), ((3, 0), (9, 1)), (None, None)):
        garbling, evaluating = set_up_comparison()
        n_comparisons = 400
        evaluating_order = evaluating.order(n_comparisons, 0, None)
        garbling.stock_up(evaluating_order, n_comparisons, 1, None)
        shares: list[list[int]] = []
        for _ in range(n_comparisons):
            mine, theirs = (WORDS.each([bid]) for bid in bids)
            kept, message = garbling.garble(mine, evaluating.flips(theirs), reveal=False)
            seen = evaluating.evaluate(message)
            assert message.tags == b""
            shares.append([int(each.shares(name)[name][0, 0]) for each in (kept, seen) for name in OUTPUTS])
        bits = np.array(shares, np.uint8)
        left, right = (bids[0] or (-1,))[0], (bids[1] or (-1,))[0]
        assert (bits[:, 0] ^ bits[:, 2] == int(left > right)).all()
        assert (bits[:, 1] ^ bits[:, 3] == int(right > left)).all()
        for column in range(4):
            assert balanced(bits[:, column])
        assert balanced(bits[:, 0] ^ bits[:, 1])  # nor do the two results of one comparison share a coin
        assert balanced(bits[:-1, 0] ^ bits[1:, 0])  # nor two comparisons
