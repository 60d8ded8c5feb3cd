"""n-party sharing against plain evaluation, its triples, and what a party sees."""

from __future__ import annotations

import os
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from masquerade.crypto import BadMessage, circuits_library, gmw, words
from masquerade.crypto.bits import pack
from masquerade.crypto.circuit import Bits, Builder, Circuit, evaluate
from masquerade.crypto.gmw import InputMasks, SharedEvaluation, opened, share_message
from masquerade.crypto.transfer_extension import TransferReceiver, TransferSender
from masquerade.crypto.triples import TripleMaking, Triples
from masquerade.errors import ParameterError


def random_bits(*shape: int) -> Bits:
    return np.random.default_rng(int.from_bytes(os.urandom(8), "big")).integers(0, 2, shape).astype(np.uint8)


def made_triples(n_parties: int, count: int) -> list[Triples]:
    """Triples by the protocol, on random transfers of bits drawn here in both parties' place."""
    makings = [TripleMaking(count) for _ in range(n_parties)]
    for one, other in combinations(range(n_parties), 2):
        sender, chooser = (one, other) if (one + other) % 2 else (other, one)
        zeros, ones = random_bits(2 * count), random_bits(2 * count)
        chosen = np.where(makings[chooser].choices, ones, zeros).astype(np.uint8)
        correction = makings[sender].correct(chooser, zeros, ones)
        makings[chooser].absorb(sender, chosen, correction)
    return [making.triples(n_parties) for making in makings]


def masks_of(n_parties: int) -> list[InputMasks]:
    seeds = {pair: os.urandom(16) for pair in permutations(range(n_parties), 2)}
    return [
        InputMasks(
            me,
            {peer: seeds[me, peer] for peer in range(n_parties) if peer != me},
            {peer: seeds[peer, me] for peer in range(n_parties) if peer != me},
        )
        for me in range(n_parties)
    ]


def run(
    circuit: Circuit, n_parties: int, inputs: dict[str, Bits], owners: dict[str, int]
) -> tuple[list[Bits], list[list[bytes]]]:
    """All parties in one process: what each opens (all outputs), and what each sent."""
    masks = masks_of(n_parties)
    n = next(iter(inputs.values())).shape[1]
    shares = [
        {
            name: masks[me].own(inputs[name])
            if owners[name] == me
            else masks[me].of(owners[name], inputs[name].shape)
            for name in circuit.inputs
        }
        for me in range(n_parties)
    ]
    triples = made_triples(n_parties, max(1, circuit.n_and * n))
    parts = [SharedEvaluation(circuit, me, n_parties, shares[me], triples[me]) for me in range(n_parties)]
    messages = [part.message for part in parts]
    sent: list[list[bytes]] = [[] for _ in parts]
    rounds = 0
    while all(message is not None for message in messages):
        told = [message for message in messages if message is not None]
        for me, message in enumerate(told):
            sent[me].append(message)
        messages = [part.hear(told[:me] + told[me + 1 :]) for me, part in enumerate(parts)]
        rounds += 1
    assert messages == [None] * n_parties
    assert rounds == circuit.depth
    assert all(len(left) == max(1, circuit.n_and * n) - circuit.n_and * n for left in triples)
    outputs = [part.shares(*circuit.outputs) for part in parts]
    told = [share_message(share) for share in outputs]
    return [opened(share, told[:me] + told[me + 1 :]) for me, share in enumerate(outputs)], sent


@given(
    n_parties=st.integers(2, 5), n=st.integers(1, 19), width=st.integers(1, 12), seed=st.integers(0, 2**32)
)
@settings(max_examples=examples(25), deadline=None)
def test_everybody_opens_what_plain_evaluation_gives(n_parties: int, n: int, width: int, seed: int) -> None:
    build = Builder()
    x, y = build.input("x", width), build.input("y", width)
    build.output("sum", words.add(build, x, y, shallow=True))
    build.output("less", [words.less_than(build, x, y, shallow=True), 1, 0, x[0] ^ 1])
    circuit = build.build()
    rng = np.random.default_rng(seed)
    inputs = {name: rng.integers(0, 2, (width, n)).astype(np.uint8) for name in "xy"}
    results, _ = run(circuit, n_parties, inputs, {"x": 0, "y": n_parties - 1})
    plain = evaluate(circuit, inputs)
    for result in results:
        np.testing.assert_array_equal(result, np.concatenate([plain["sum"], plain["less"]]))


@pytest.mark.parametrize("n_parties", [2, 3, 5])
def test_the_winner_among_the_parties(n_parties: int) -> None:
    coding = circuits_library.BidWords(80, 4)
    circuit = circuits_library.winner(n_parties, coding.width, True)
    bids = [(500, 7), None, (2**70, 3), (2**70, 2), (-9, 0)][:n_parties]
    inputs = {f"party {party}": coding.bits(bid) for party, bid in enumerate(bids)}
    results, _ = run(circuit, n_parties, inputs, {f"party {party}": party for party in range(n_parties)})
    best = {2: 0, 3: 2, 5: 3}[n_parties]
    for result in results:
        assert np.flatnonzero(result[:, 0]).tolist() == [best]


@pytest.mark.parametrize("n_parties", [2, 3, 5])
def test_triples_multiply_and_a_partys_shares_are_balanced(n_parties: int) -> None:
    count = 10_001
    shares = [triples.take(count) for triples in made_triples(n_parties, count)]
    a, b, c = (np.bitwise_xor.reduce([share[part] for share in shares]) for part in range(3))
    np.testing.assert_array_equal(c, a & b)
    for share in shares:
        # Nobody's c tells its a, b or their product: every cell of the joint table is as likely.
        for other in (share[0], share[1], share[0] & share[1]):
            ones = share[2][other == 1]
            assert abs(ones.mean() - 0.5) < 6 * 0.5 / np.sqrt(len(ones))
    for left in range(n_parties):  # nor do all shares of c but one tell c
        rest = np.bitwise_xor.reduce([share[2] for at, share in enumerate(shares) if at != left])
        assert abs((rest ^ c).mean() - 0.5) < 6 * 0.5 / np.sqrt(count)


@pytest.mark.parametrize("value", [0, 1])
def test_every_partys_messages_are_balanced_whatever_the_inputs(value: int) -> None:
    n, width = 800, 8
    circuit = circuits_library.comparison(width, True)
    inputs = {name: np.full((width, n), value, np.uint8) for name in ("left", "right")}
    _, sent = run(circuit, 3, inputs, {"left": 0, "right": 1})
    for messages in sent:
        bits = np.unpackbits(np.frombuffer(b"".join(messages), np.uint8))
        assert abs(bits.mean() - 0.5) < 6 * 0.5 / np.sqrt(bits.size)
    # All but one party's messages together are balanced, too: the last share hides what is opened.
    pair = np.frombuffer(b"".join(sent[0]), np.uint8) ^ np.frombuffer(b"".join(sent[1]), np.uint8)
    assert abs(np.unpackbits(pair).mean() - 0.5) < 6 * 0.5 / np.sqrt(8 * pair.size)


def test_shares_of_an_input_are_balanced_and_never_repeat() -> None:
    masks = masks_of(3)
    secret = np.ones((4, 1000), np.uint8)
    first, second = ([masks[0].own(secret), *(masks[me].of(0, secret.shape) for me in (1, 2))] for _ in "12")
    for shares in (first, second):
        np.testing.assert_array_equal(np.bitwise_xor.reduce(shares), secret)
        assert all(abs(share.mean() - 0.5) < 6 * 0.5 / np.sqrt(4000) for share in shares)
    for before, after in zip(first, second, strict=True):
        assert abs((before ^ after).mean() - 0.5) < 6 * 0.5 / np.sqrt(4000)


def test_triples_are_used_once_and_run_out() -> None:
    packed = pack(random_bits(20))
    triples = Triples(packed, packed, packed, 20)
    seen = [triples.take(count)[0] for count in (3, 0, 9, 8)]
    np.testing.assert_array_equal(np.concatenate(seen), np.unpackbits(packed, count=20, bitorder="little"))
    with pytest.raises(ParameterError, match="1 triples are needed and 0 are left"):
        triples.take(1)
    with pytest.raises(ParameterError, match="3 bytes"):
        Triples(packed[:2], packed, packed, 20)


def test_transfers_for_triples_are_used_once_and_all_are_needed() -> None:
    making = TripleMaking(10)
    making.correct(1, random_bits(20), random_bits(20))
    with pytest.raises(ParameterError, match="party 1 were used before"):
        making.correct(1, random_bits(20), random_bits(20))
    with pytest.raises(ParameterError, match="transfers with 1 peers"):
        making.triples(3)
    with pytest.raises(BadMessage, match="1 bytes"):
        making.absorb(2, random_bits(20), b"1")
    with pytest.raises(ParameterError, match="20 transfers"):
        making.absorb(2, random_bits(10), b"123")


def test_triples_from_extended_transfers() -> None:
    sender, chooser = TransferSender(b"triples"), TransferReceiver(b"triples")
    to_chooser, to_sender = sender.setup(), chooser.setup()
    sender.finish_setup(to_sender)
    chooser.finish_setup(to_chooser)
    makings = TripleMaking(1000), TripleMaking(1000)
    columns, received = chooser.extend(makings[1].choices)
    told = makings[0].correct(1, *sender.extend(columns, 2000).random_bits())
    makings[1].absorb(0, received.random_bits(), told)
    (a, b, c), (a2, b2, c2) = (making.triples(2).take(1000) for making in makings)
    np.testing.assert_array_equal(c ^ c2, (a ^ a2) & (b ^ b2))


def test_misuse_of_an_evaluation_is_refused() -> None:
    circuit = circuits_library.comparison(4, True)
    shares = {"left": random_bits(4, 3), "right": random_bits(4, 3)}
    triples = made_triples(2, circuit.n_and * 3)[0]
    part = SharedEvaluation(circuit, 0, 2, shares, triples)
    assert part.message is not None
    with pytest.raises(ParameterError, match="not over yet"):
        part.shares("right is larger")
    with pytest.raises(BadMessage, match="shares of"):
        part.hear([part.message[:-1]])
    with pytest.raises(ParameterError, match="2 messages from 1 peers"):
        part.hear([part.message, part.message])
    while part.message is not None:
        part.hear([part.message])
    with pytest.raises(ParameterError, match="is over"):
        part.hear([b""])
    with pytest.raises(ParameterError, match="do not fit"):
        SharedEvaluation(circuit, 0, 2, {"left": shares["left"]}, triples)
    with pytest.raises(ParameterError, match="party 2 of 2"):
        SharedEvaluation(circuit, 2, 2, shares, triples)
    with pytest.raises(BadMessage, match="shares of"):
        gmw.opened(random_bits(3, 3), [b"\0"])
    with pytest.raises(ParameterError, match="a seed to and a seed from"):
        InputMasks(0, {1: bytes(16)}, {2: bytes(16)})
    one, other = bytes(16), bytes([1]) * 16
    for sent, heard in (({1: one, 2: one}, {1: other, 2: bytes([2]) * 16}), ({1: one}, {1: one})):
        with pytest.raises(ParameterError, match="a seed of its own"):
            InputMasks(0, sent, heard)
