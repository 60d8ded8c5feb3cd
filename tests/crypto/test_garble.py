"""Garbled evaluation against plain evaluation, what it shows, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from crypto.two_parties import balanced, comparison, set_up
from examples import examples
from masquerade.crypto import (
    Bits,
    Builder,
    Circuit,
    Delta,
    Evaluator,
    Garbler,
    Garbling,
    corrected,
    garble,
    to_bits,
    words,
)
from masquerade.crypto.circuit import evaluate
from masquerade.crypto.hashing import expand_blocks, random_blocks
from masquerade.errors import BadMessage, ParameterError

KEY = b"one session only"


def some_circuit(width: int = 9) -> Circuit:
    """Additions, comparisons, inversions, constants and an output that is an input."""
    build = Builder()
    x, y = build.input("x", width), build.input("y", width)
    total = words.add(build, x, y)
    build.output("sum", total)
    build.output("less", [words.less_than(build, x, words.inverted(y), shallow=True)])
    build.output("mixed", [x[0] ^ 1, 0, 1, words.is_zero(build, total), build.xor(x[-1], y[0])])
    return build.build()


def random_bits(shape: tuple[int, ...], seed: int) -> Bits:
    return np.random.default_rng(seed).integers(0, 2, shape).astype(np.uint8)


def run(circuit: Circuit, inputs: dict[str, Bits]) -> tuple[Garbling, garble.Evaluation]:
    """Both parties' sides of a fresh session, all labels straight from the garbler."""
    n = next(iter(inputs.values())).shape[1]
    garbling = Garbler(KEY, Delta()).garble(circuit, n)
    labels = {name: garbling.encode(name, bits) for name, bits in inputs.items()}
    return garbling, Evaluator(KEY).evaluate(circuit, n, garbling.tables, labels)


@given(seed=st.integers(0, 2**32), n=st.integers(1, 20), width=st.integers(1, 30))
@settings(max_examples=examples(25), deadline=None)
def test_all_ways_to_read_an_output_give_the_plain_one(seed: int, n: int, width: int) -> None:
    circuit = some_circuit(width)
    inputs = {"x": random_bits((width, n), seed), "y": random_bits((width, n), seed + 1)}
    plain = evaluate(circuit, inputs)
    garbling, evaluation = run(circuit, inputs)
    names = tuple(circuit.outputs)
    learnt = evaluation.decode(garbling.reveal(*names), *names)
    told = garbling.decode(evaluation.labels(*names), *names)
    ours, theirs = garbling.shares(*names), evaluation.shares(*names)
    for name in names:
        np.testing.assert_array_equal(learnt[name], plain[name])
        np.testing.assert_array_equal(told[name], plain[name])
        np.testing.assert_array_equal(ours[name] ^ theirs[name], plain[name])


def test_instances_in_several_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garble, "_CHUNK_BYTES", 1)
    circuit = some_circuit()
    inputs = {"x": random_bits((9, 333), 1), "y": random_bits((9, 333), 2)}
    garbling, evaluation = run(circuit, inputs)
    learnt = evaluation.decode(garbling.reveal("sum"), "sum")["sum"]
    np.testing.assert_array_equal(learnt, evaluate(circuit, inputs)["sum"])


def test_the_evaluators_labels_come_from_transfers_made_ahead() -> None:
    width = 64
    circuit = comparison(width)
    sender, receiver = set_up()
    choices = random_bits((width,), 3)
    message, received = receiver.extend(choices)
    delta = Delta()
    zeros, told = sender.extend(message, width).correlate_xor(delta.block)
    held = received.correlated_xor(told).reshape(width, 1, 2)

    mine, theirs = to_bits([12345], width), to_bits([12346], width)
    flips = theirs ^ choices[:, None]
    taken = corrected(zeros.reshape(width, 1, 2), flips, delta)
    garbling = Garbler(KEY, delta).garble(circuit, 1, {"right": taken}, {"left": mine})
    evaluation = Evaluator(KEY).evaluate(circuit, 1, garbling.tables, {"right": held}, garbling.seed)
    assert evaluation.decode(garbling.reveal("right is larger"), "right is larger")["right is larger"].tolist() == [[1]]


def test_labels_from_a_seed_give_the_plain_outputs_and_serve_once() -> None:
    circuit, names = some_circuit(), ("x", "y")
    inputs = {name: random_bits((9, 70), seed) for seed, name in enumerate(names)}
    plain = evaluate(circuit, inputs)
    for own in (("x",), ("y",), names):
        given = {name: inputs[name] for name in reversed(own)}
        garbling = Garbler(KEY, Delta()).garble(circuit, 70, own=given)
        labels = {name: garbling.encode(name, inputs[name]) for name in names if name not in own}
        evaluation = Evaluator(KEY).evaluate(circuit, 70, garbling.tables, labels, garbling.seed)
        outputs = tuple(circuit.outputs)
        for name, bits in evaluation.decode(garbling.reveal(*outputs), *outputs).items():
            np.testing.assert_array_equal(bits, plain[name])
        with pytest.raises(ParameterError, match="was encoded before"):
            garbling.encode(own[0], inputs[own[0]])
        with pytest.raises(BadMessage, match="a seed of 15 bytes"):
            Evaluator(KEY).evaluate(circuit, 70, garbling.tables, labels, garbling.seed[:-1])


def test_the_labels_of_a_seed_are_the_same_whatever_the_input_is() -> None:
    """The evaluator sees the seed and labels that follow from it; the garbler's bits are in the others alone."""
    circuit = some_circuit()
    for bits in (np.zeros((9, 3), np.uint8), np.ones((9, 3), np.uint8)):
        garbling = Garbler(KEY, Delta()).garble(circuit, 3, own={"x": bits})
        wires = garbling._zeros[circuit.inputs["x"].start - 1 : circuit.inputs["x"].stop - 1]
        held = wires ^ (np.uint64(0) - bits[..., None].astype(np.uint64) & garbling._delta)
        assert np.array_equal(held.reshape(-1, 2), expand_blocks(garbling.seed, 27))


def test_every_wire_has_two_labels_that_differ_by_delta_and_in_colour() -> None:
    circuit = some_circuit()
    delta = Delta()
    garbler = Garbler(KEY, delta)
    assert int(delta.block[0]) & 1
    x, y = random_bits((9, 50), 4), random_bits((9, 50), 5)
    names = tuple(circuit.outputs)
    garbling = garbler.garble(circuit, 50)
    labels = {"x": garbling.encode("x", x), "y": garbling.encode("y", y)}
    held = np.frombuffer(
        Evaluator(KEY).evaluate(circuit, 50, garbling.tables, labels).labels(*names), np.uint64
    ).reshape(-1, 50, 2)
    truth = np.concatenate([evaluate(circuit, {"x": x, "y": y})[name] for name in names])
    colours = np.concatenate([garbling.shares(*names)[name] for name in names])
    # The held label is the one of the wire's value: its colour is the value's, masked by the garbler's bit.
    np.testing.assert_array_equal((held[..., 0] & np.uint64(1)).astype(np.uint8) ^ colours, truth)
    # XOR is free: the last of "mixed" is x[-1] ⊕ y[0], and so are the labels.
    x_labels = np.frombuffer(labels["x"], np.uint64).reshape(9, 50, 2)
    y_labels = np.frombuffer(labels["y"], np.uint64).reshape(9, 50, 2)
    np.testing.assert_array_equal(held[-1], x_labels[-1] ^ y_labels[0])


def test_a_garbling_is_evaluated_once_and_no_tweak_twice() -> None:
    circuit = some_circuit()
    x = random_bits((9, 2), 6)
    garbling = Garbler(KEY, Delta()).garble(circuit, 2)
    labels = {"x": garbling.encode("x", x), "y": garbling.encode("y", x)}
    evaluator = Evaluator(KEY)
    evaluator.evaluate(circuit, 2, garbling.tables, labels)
    other = Garbler(KEY, Delta()).garble(circuit, 2)  # begins at tweak 0, too
    others = {"x": other.encode("x", x), "y": other.encode("y", x)}
    for tables, held in ((garbling.tables, labels), (other.tables, others)):
        with pytest.raises(ParameterError, match="used before"):
            evaluator.evaluate(circuit, 2, tables, held)


def test_tweaks_go_on_from_circuit_to_circuit() -> None:
    circuit = some_circuit()
    garbler, evaluator = Garbler(KEY, Delta()), Evaluator(KEY)
    for seed in range(3):
        inputs = {"x": random_bits((9, 5), seed), "y": random_bits((9, 5), seed + 10)}
        garbling = garbler.garble(circuit, 5)
        labels = {name: garbling.encode(name, bits) for name, bits in inputs.items()}
        evaluation = evaluator.evaluate(circuit, 5, garbling.tables, labels)
        learnt = evaluation.decode(garbling.reveal("sum"), "sum")["sum"]
        np.testing.assert_array_equal(learnt, evaluate(circuit, inputs)["sum"])


def test_a_difference_belongs_to_one_garbler() -> None:
    delta = Delta()
    Garbler(KEY, delta)
    with pytest.raises(ParameterError, match="another garbler"):
        Garbler(b"another session!", delta)


def test_an_input_is_encoded_once() -> None:
    garbling = Garbler(KEY, Delta()).garble(some_circuit(), 1)
    garbling.encode("x", random_bits((9, 1), 8))
    with pytest.raises(ParameterError, match="encoded before"):
        garbling.encode("x", random_bits((9, 1), 9))


def test_wrong_labels_are_noticed_by_whoever_reads() -> None:
    circuit = some_circuit()
    x = random_bits((9, 3), 10)
    garbling = Garbler(KEY, Delta()).garble(circuit, 3)
    labels = {"x": random_blocks(27).tobytes(), "y": garbling.encode("y", x)}
    evaluation = Evaluator(KEY).evaluate(circuit, 3, garbling.tables, labels)
    with pytest.raises(BadMessage, match="neither of its tags"):
        evaluation.decode(garbling.reveal("sum"), "sum")
    with pytest.raises(BadMessage, match="none of its wire's"):
        garbling.decode(evaluation.labels("sum"), "sum")


def test_another_sessions_key_gives_nothing() -> None:
    circuit = some_circuit()
    x = random_bits((9, 3), 11)
    garbling = Garbler(KEY, Delta()).garble(circuit, 3)
    labels = {"x": garbling.encode("x", x), "y": garbling.encode("y", x)}
    evaluation = Evaluator(b"another session!").evaluate(circuit, 3, garbling.tables, labels)
    with pytest.raises(BadMessage):
        evaluation.decode(garbling.reveal("sum"), "sum")


def test_messages_of_the_wrong_length_are_refused() -> None:
    circuit = some_circuit()
    x = random_bits((9, 3), 12)
    garbling, evaluation = run(circuit, {"x": x, "y": x})
    fresh = Garbler(KEY, Delta()).garble(circuit, 3)
    labels = {"x": fresh.encode("x", x), "y": fresh.encode("y", x)}
    evaluator = Evaluator(KEY)
    with pytest.raises(BadMessage, match="tables of"):
        evaluator.evaluate(circuit, 3, fresh.tables[:-1], labels)
    with pytest.raises(BadMessage, match='labels of "y"'):
        evaluator.evaluate(circuit, 3, fresh.tables, labels | {"y": labels["y"] + b"\0"})
    with pytest.raises(ParameterError, match="labels are needed"):
        evaluator.evaluate(circuit, 3, fresh.tables, {"x": labels["x"]})
    with pytest.raises(BadMessage, match="tags of"):
        evaluation.decode(garbling.reveal("less"), "sum")
    with pytest.raises(BadMessage, match="labels of the outputs"):
        garbling.decode(evaluation.labels("less"), "sum")
    with pytest.raises(ParameterError, match='no output "sums"'):
        garbling.reveal("sums")
    with pytest.raises(ParameterError, match='input "x" takes'):
        Garbler(KEY, Delta()).garble(circuit, 3, {"x": np.zeros((9, 2, 2), np.uint64)})


def bits_set(data: bytes) -> NDArray[np.float64]:
    """How often each of the 128 bits of a block is 1, in standard deviations from a half."""
    blocks = np.unpackbits(np.frombuffer(data, np.uint8)).reshape(-1, 128)
    n = len(blocks)
    deviations: NDArray[np.float64] = (blocks.sum(axis=0) - n / 2) / np.sqrt(n / 4)
    return deviations


@pytest.mark.parametrize("value", [0, 2**16 - 1], ids=["all zeros", "all ones"])
def test_what_the_evaluator_sees_looks_uniform_whatever_the_garbler_holds(value: int) -> None:
    circuit = comparison(16)
    n = 4000
    garbling = Garbler(KEY, Delta()).garble(circuit, n)
    left = garbling.encode("left", to_bits([value] * n, 16))
    # 8 standard deviations: a chance of about 2^-49 a bit for an honest garbler.
    assert np.abs(bits_set(garbling.tables[8:])).max() < 8
    assert np.abs(bits_set(left)).max() < 8
    right = garbling.encode("right", to_bits(range(n), 16))
    evaluation = Evaluator(KEY).evaluate(circuit, n, garbling.tables, {"left": left, "right": right})
    share = evaluation.shares("right is larger")["right is larger"]
    assert balanced(share)


def test_neighbouring_blocks_of_the_tables_are_unrelated() -> None:
    n = 4000
    garbling = Garbler(KEY, Delta()).garble(comparison(16), n)
    blocks = np.frombuffer(garbling.tables[8:], np.uint64).reshape(-1, 2)
    assert len(np.unique(blocks, axis=0)) == len(blocks)
    for step in (1, 2, 2 * n):  # the halves of a gate, neighbouring instances, neighbouring gates
        assert np.abs(bits_set((blocks[step:] ^ blocks[:-step]).tobytes())).max() < 8
