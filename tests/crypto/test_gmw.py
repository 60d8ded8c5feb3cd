"""n-party sharing against plain evaluation, its triples, and what a party sees."""

from __future__ import annotations

import os
from itertools import combinations, permutations
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from crypto.two_parties import balanced, comparison, set_up
from examples import examples
from masquerade.crypto import (
    Bits,
    Builder,
    Circuit,
    HeldCircuit,
    InputMasks,
    SharedEvaluation,
    TripleMaking,
    Triples,
    ZeroShares,
    gmw,
    hold,
    opened,
    share_message,
    words,
)
from masquerade.crypto.circuit import evaluate
from masquerade.errors import BadMessage, ParameterError

Kind = TypeVar("Kind", InputMasks, ZeroShares)


def random_bits(*shape: int) -> Bits:
    return np.random.default_rng(int.from_bytes(os.urandom(8), "big")).integers(0, 2, shape).astype(np.uint8)


def made_triples(held: HeldCircuit, instances: int) -> list[Triples]:
    """Triples by the protocol, on random transfers of bits drawn here in both parties' place."""
    makings = [TripleMaking(held, me, instances) for me in range(held.n_parties)]
    for one, other in combinations(range(held.n_parties), 2):
        sender, chooser = (one, other) if (one + other) % 2 else (other, one)
        count = makings[sender].transfers(chooser)
        assert count == makings[chooser].transfers(sender)
        zeros, ones = random_bits(count), random_bits(count)
        chosen = np.where(makings[chooser].choices(sender), ones, zeros).astype(np.uint8)
        correction = makings[sender].correct(chooser, zeros, ones)
        makings[chooser].absorb(sender, chosen, correction)
    return [making.triples() for making in makings]


def unpacked(rows: np.ndarray, count: int) -> Bits:
    return np.unpackbits(rows, axis=1, count=count, bitorder="little")


def seeded(kind: type[Kind], n_parties: int) -> list[Kind]:
    """Every party's side, from fresh seeds for each direction between two of them."""
    seeds = {pair: os.urandom(16) for pair in permutations(range(n_parties), 2)}
    return [
        kind(
            me,
            {peer: seeds[me, peer] for peer in range(n_parties) if peer != me},
            {peer: seeds[peer, me] for peer in range(n_parties) if peer != me},
        )
        for me in range(n_parties)
    ]


def run(
    circuit: Circuit,
    n_parties: int,
    inputs: dict[str, Bits],
    owners: dict[str, int],
    *,
    keep: bool = False,
    relay: bool = False,
) -> tuple[list[Bits], list[list[bytes]]]:
    """All parties in one process: what each opens (all outputs), and what each sent.

    Inputs are shared among all, or stay with those who `keep` them; messages go to all, or to one who combines them.
    """
    masks = seeded(InputMasks, n_parties)
    n = next(iter(inputs.values())).shape[1]
    shares = [
        {
            name: (inputs[name] if owners[name] == me else np.zeros_like(inputs[name]))
            if keep
            else masks[me].own(inputs[name])
            if owners[name] == me
            else masks[me].of(owners[name], inputs[name].shape)
            for name in circuit.inputs
        }
        for me in range(n_parties)
    ]
    held = hold(circuit, n_parties, owners if keep else None)
    triples = made_triples(held, 8 * -(-n // 8))
    parts = [SharedEvaluation(held, me, shares[me], triples[me]) for me in range(n_parties)]
    messages = [part.message for part in parts]
    sent: list[list[bytes]] = [[] for _ in parts]
    rounds = 0
    while all(message is not None for message in messages):
        told = [message for message in messages if message is not None]
        for me, message in enumerate(told):
            sent[me].append(message)
        if relay:
            combined = parts[0].combine(told[1:])
            messages = [part.take(combined) for part in parts]
        else:
            messages = [part.hear(told[:me] + told[me + 1 :]) for me, part in enumerate(parts)]
        rounds += 1
    assert messages == [None] * n_parties
    assert rounds == circuit.depth
    assert all(len(left) == -n % 8 for left in triples)
    zeros = seeded(ZeroShares, n_parties)
    outputs = [part.shares(*circuit.outputs) for part in parts]
    outputs = [share ^ zero.draw(share.shape) for share, zero in zip(outputs, zeros, strict=True)]
    told = [share_message(share) for share in outputs]
    return [opened(share, told[:me] + told[me + 1 :]) for me, share in enumerate(outputs)], sent


@given(
    n_parties=st.integers(2, 5),
    n=st.integers(1, 19),
    width=st.integers(1, 12),
    seed=st.integers(0, 2**32),
    keep=st.booleans(),
    relay=st.booleans(),
)
@settings(max_examples=examples(25), deadline=None)
def test_everybody_opens_what_plain_evaluation_gives(
    n_parties: int, n: int, width: int, seed: int, keep: bool, relay: bool
) -> None:
    build = Builder()
    x, y = build.input("x", width), build.input("y", width)
    build.output("sum", words.add(build, x, y, shallow=True))
    build.output("less", [words.less_than(build, x, y, shallow=True), 1, 0, x[0] ^ 1])
    circuit = build.build()
    rng = np.random.default_rng(seed)
    inputs = {name: rng.integers(0, 2, (width, n)).astype(np.uint8) for name in "xy"}
    results, _ = run(circuit, n_parties, inputs, {"x": 0, "y": n_parties - 1}, keep=keep, relay=relay)
    plain = evaluate(circuit, inputs)
    for result in results:
        np.testing.assert_array_equal(result, np.concatenate([plain["sum"], plain["less"]]))


@pytest.mark.parametrize("n_parties", [2, 3, 5])
def test_triples_multiply_and_a_partys_shares_are_balanced(n_parties: int) -> None:
    build = Builder()
    x, y = build.input("x", 1), build.input("y", 1)
    build.output("both", [build.both(x[0], y[0])])
    count = 10_008
    made = made_triples(hold(build.build(), n_parties), count)
    shares = [[unpacked(rows, count)[0] for rows in triples.take(count)] for triples in made]
    a, b, c = (np.bitwise_xor.reduce([share[part] for share in shares]) for part in range(3))
    np.testing.assert_array_equal(c, a & b)
    for share in shares:
        # Nobody's c tells its a, b or their product: every cell of the joint table is as likely.
        for other in (share[0], share[1], share[0] & share[1]):
            ones = share[2][other == 1]
            assert balanced(ones)
    for left in range(n_parties):  # nor do all shares of c but one tell c
        rest = np.bitwise_xor.reduce([share[2] for at, share in enumerate(shares) if at != left])
        assert balanced(rest ^ c)


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("value", [0, 1])
def test_every_partys_messages_are_balanced_whatever_the_inputs(value: int, keep: bool) -> None:
    n, width = 800, 8
    circuit = comparison(width, True)
    inputs = {name: np.full((width, n), value, np.uint8) for name in ("left", "right")}
    _, sent = run(circuit, 3, inputs, {"left": 0, "right": 1}, keep=keep)
    if keep:
        assert not any(sent.pop())  # the third party has no part in a comparison of the others
    for messages in sent:
        bits = np.unpackbits(np.frombuffer(b"".join(messages), np.uint8))
        assert balanced(bits)
    if keep:
        return  # the first layer's messages of the two are about different operands
    # All but one party's messages together are balanced, too: the last share hides what is opened.
    pair = np.frombuffer(b"".join(sent[0]), np.uint8) ^ np.frombuffer(b"".join(sent[1]), np.uint8)
    assert balanced(np.unpackbits(pair))


def test_shares_of_an_input_are_balanced_and_never_repeat() -> None:
    masks = seeded(InputMasks, 3)
    secret = np.ones((4, 1000), np.uint8)
    first, second = ([masks[0].own(secret), *(masks[me].of(0, secret.shape) for me in (1, 2))] for _ in "12")
    for shares in (first, second):
        np.testing.assert_array_equal(np.bitwise_xor.reduce(shares), secret)
        assert all(balanced(share) for share in shares)
    for before, after in zip(first, second, strict=True):
        assert balanced(before ^ after)


def test_shares_of_zero_are_balanced_and_add_up() -> None:
    zeros = seeded(ZeroShares, 3)
    for _ in "12":
        shares = [each.draw((4, 1000)) for each in zeros]
        assert not np.bitwise_xor.reduce(shares).any()
        assert all(balanced(share) for share in shares)


def test_a_wire_is_held_by_those_whose_inputs_it_depends_on() -> None:
    """Comparing two of five parties' numbers takes transfers of these two; the three others take no part."""
    build = Builder()
    inputs = [build.input(f"party {each}", 4) for each in range(5)]
    less = words.less_than(build, inputs[1], inputs[3])
    build.output("less", [less])
    build.output("all", [build.both(less, inputs[4][0])])
    held = hold(build.build(), 5, {f"party {each}": each for each in range(5)})
    making = TripleMaking(held, 1, 8)
    last = int(held.circuit.outputs["all"][0]) >> 1
    assert int(held.wires[last]) == 0b11010
    assert [TripleMaking(held, 0, 8).transfers(peer) for peer in range(1, 5)] == [0] * 4
    assert making.transfers(4) == 8  # its share of `less`, and the other's bit
    assert making.transfers(3) > 8 * 4
    assert held.most_products * 8 == making.transfers(3)


def test_triples_are_used_once_and_run_out() -> None:
    rows = np.packbits(random_bits(3, 20), axis=1, bitorder="little")
    triples = Triples(rows, rows, rows, 20)
    seen = [unpacked(triples.take(count)[0], count) for count in (3, 0, 9)]
    more = triples.joined(Triples(rows, rows, rows, 20))
    seen.append(unpacked(more.take(28)[1], 28))
    np.testing.assert_array_equal(np.concatenate(seen, axis=1), np.tile(unpacked(rows, 20), 2))
    with pytest.raises(ParameterError, match="1 instances are needed and of 0 are left"):
        more.take(1)
    with pytest.raises(ParameterError, match="3 bytes"):
        Triples(rows[:, :2], rows[:, :2], rows[:, :2], 20)


def test_transfers_for_triples_are_used_once_and_all_are_needed() -> None:
    held = hold(comparison(1, True), 3)
    making = TripleMaking(held, 0, 8)
    count = making.transfers(1)
    making.correct(1, random_bits(count), random_bits(count))
    with pytest.raises(ParameterError, match="party 1 were used before"):
        making.correct(1, random_bits(count), random_bits(count))
    with pytest.raises(ParameterError, match="transfers with party 2 are missing"):
        making.triples()
    with pytest.raises(BadMessage, match="1 bytes"):
        making.absorb(2, random_bits(count), b"1")
    with pytest.raises(ParameterError, match=f"{count} transfers"):
        making.absorb(2, random_bits(10), bytes(count // 8))
    with pytest.raises(ParameterError, match="multiple of 8"):
        TripleMaking(held, 0, 9)
    with pytest.raises(ParameterError, match="between 2 and 64"):
        hold(held.circuit, 1)


def test_triples_from_extended_transfers() -> None:
    sender, chooser = set_up()
    held = hold(comparison(4, True), 2)
    makings = TripleMaking(held, 0, 1000), TripleMaking(held, 1, 1000)
    columns, received = chooser.extend(makings[1].choices(0))
    told = makings[0].correct(1, *sender.extend(columns, makings[0].transfers(1)).random_bits())
    makings[1].absorb(0, received.random_bits(), told)
    (a, b, c), (a2, b2, c2) = (making.triples().take(1000) for making in makings)
    np.testing.assert_array_equal(c ^ c2, (a ^ a2) & (b ^ b2))


def test_misuse_of_an_evaluation_is_refused() -> None:
    held = hold(comparison(4, True), 2)
    shares = {"left": random_bits(4, 3), "right": random_bits(4, 3)}
    triples = made_triples(held, 8)[0]
    part = SharedEvaluation(held, 0, shares, triples)
    assert part.message is not None
    with pytest.raises(ParameterError, match="not over yet"):
        part.shares("right is larger")
    with pytest.raises(BadMessage, match="shares of"):
        part.hear([part.message[:-1]])
    with pytest.raises(BadMessage, match="shares of"):
        part.take(part.message[:-1])
    with pytest.raises(ParameterError, match="2 messages from 1 peers"):
        part.hear([part.message, part.message])
    while part.message is not None:
        part.hear([part.message])
    with pytest.raises(ParameterError, match="is over"):
        part.hear([b""])
    with pytest.raises(ParameterError, match="do not fit"):
        SharedEvaluation(held, 0, {"left": shares["left"]}, triples)
    with pytest.raises(ParameterError, match="party 2 of 2"):
        SharedEvaluation(held, 2, shares, triples)
    with pytest.raises(BadMessage, match="shares of"):
        gmw.opened(random_bits(3, 3), [b"\0"])
    with pytest.raises(ParameterError, match="a seed to and a seed from"):
        InputMasks(0, {1: bytes(16)}, {2: bytes(16)})
    one, other = bytes(16), bytes([1]) * 16
    for sent, heard in (({1: one, 2: one}, {1: other, 2: bytes([2]) * 16}), ({1: one}, {1: one})):
        with pytest.raises(ParameterError, match="a seed of its own"):
            InputMasks(0, sent, heard)
