"""Extended transfers: every kind against its definition, what each side sees, and what must not be reused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from crypto.two_parties import balanced, looks_random, random_bits, set_up
from examples import examples
from masquerade.crypto import (
    PowerOfTwo,
    ReceivedBatch,
    TransferReceiver,
    TransferSender,
    TweakedHash,
    transfer_extension as column_seeds,
)
from masquerade.crypto.hashing import random_blocks
from masquerade.crypto.transfer_extension import PROOF_BYTES, SentBatch, message_bytes
from masquerade.errors import BadMessage, ParameterError

RINGS = [PowerOfTwo(1), PowerOfTwo(13), PowerOfTwo(64)]
Pair = tuple[TransferSender, TransferReceiver]


@pytest.fixture(scope="module")
def pair() -> Pair:
    sender, receiver = set_up()
    sender.extend(receiver.extend([1])[0], 1)  # the first batch is longer than all others
    return sender, receiver


def batch(pair: Pair, choices: np.ndarray) -> tuple[SentBatch, ReceivedBatch]:
    sender, receiver = pair
    message, received = receiver.extend(choices)
    return sender.extend(message, len(choices)), received


def picked(choices: np.ndarray, zeros: np.ndarray, ones: np.ndarray) -> np.ndarray:
    return np.where(choices.reshape(-1, *[1] * (zeros.ndim - 1)) == 1, ones, zeros)


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(st.integers(0, 1), max_size=200))
def test_random_transfers_give_the_chosen_block(pair: Pair, choices: list[int]) -> None:
    bits = np.array(choices, np.uint8)
    sent, received = batch(pair, bits)
    zeros, ones = sent.random()
    assert np.array_equal(received.random(), picked(bits, zeros, ones))
    assert (zeros != ones).any(axis=1).all()


@pytest.mark.parametrize("count", [1, 127, 128, 129, 8_192, 8_193, 65_537])
def test_batches_of_every_length_follow_each_other(pair: Pair, count: int) -> None:
    choices = random_bits(count)
    message, received = pair[1].extend(choices)
    assert len(message) == message_bytes(count)
    zeros, ones = pair[0].extend(message, count).random()
    assert np.array_equal(received.random(), picked(choices, zeros, ones))
    assert len({block.tobytes() for block in np.concatenate([zeros, ones])[:5000]}) == min(2 * count, 5000)


@settings(max_examples=examples(15), deadline=None)
@given(st.integers(0, 50), st.booleans())
def test_xor_correlation(pair: Pair, count: int, one_for_all: bool) -> None:
    choices, delta = random_bits(count), random_blocks(1 if one_for_all else count)
    sent, received = batch(pair, choices)
    zeros, message = sent.correlate_xor(delta[0] if one_for_all else delta)
    assert len(message) == 16 * count
    assert np.array_equal(received.correlated_xor(message), picked(choices, zeros, zeros ^ delta))


@settings(max_examples=examples(30), deadline=None)
@given(st.sampled_from(RINGS), st.integers(0, 30), st.sampled_from([None, 1, 2, 5]))
def test_ring_correlation(pair: Pair, ring: PowerOfTwo, count: int, width: int | None) -> None:
    choices = random_bits(count)
    deltas = ring.random((count,) if width is None else (count, width))
    sent, received = batch(pair, choices)
    zeros, message = sent.correlate(ring, deltas)
    assert len(message) == ring.element_bytes * deltas.size
    got = received.correlated(ring, message, width)
    plain = [(int(zero) + int(delta)) % ring.modulus for zero, delta in zip(zeros.flat, deltas.flat, strict=True)]
    expected = picked(choices, zeros, np.array(plain, np.uint64).reshape(zeros.shape))
    assert np.array_equal(got, expected)
    assert zeros.size == 0 or int(zeros.max()) < ring.modulus


@settings(max_examples=examples(20), deadline=None)
@given(st.integers(0, 30), st.integers(1, 40))
def test_chosen_messages(pair: Pair, count: int, size: int) -> None:
    choices = random_bits(count)
    zeros, ones = np.random.default_rng(count).integers(0, 256, (2, count, size), dtype=np.uint8)
    sent, received = batch(pair, choices)
    assert np.array_equal(received.receive(sent.send(zeros, ones), size), picked(choices, zeros, ones))


def test_parts_of_a_batch_become_different_kinds(pair: Pair) -> None:
    choices = random_bits(100)
    sent, received = (side.split([30, 0, 70]) for side in batch(pair, choices))
    zeros, ones = sent[0].random()
    assert np.array_equal(received[0].random(), picked(choices[:30], zeros, ones))
    ring = PowerOfTwo(32)
    mine, message = sent[2].correlate(ring, ring.elements([7] * 70))
    got = received[2].correlated(ring, message)
    assert ring.subtract(got, mine).tolist() == (7 * choices[30:].astype(int)).tolist()


# What each side sees.


@pytest.mark.parametrize("choice", [0, 1])
def test_the_senders_view_does_not_depend_on_the_choices(choice: int) -> None:
    """All columns look random for constant choices, and no two columns have them in common."""
    _, receiver = set_up()
    count = 8_192
    message, _ = receiver.extend(np.full(count, choice, np.uint8))
    assert looks_random(message[16:])
    columns = np.unpackbits(np.frombuffer(message, np.uint8, count * 4, 16 + 4096).reshape(32, -1), axis=1)
    assert all(balanced(column) for column in columns)
    assert all(balanced(columns[0] ^ column) for column in columns[1:])


def test_two_batches_of_the_same_choices_share_no_column() -> None:
    """A stream that began anew would show the choices' difference."""
    _, receiver = set_up()
    choices = random_bits(8192)
    first, second = (np.frombuffer(receiver.extend(choices)[0][-4 * 8448 :], np.uint8) for _ in range(2))
    assert looks_random((first ^ second).tobytes())


def test_the_proof_does_not_depend_on_the_choices() -> None:
    """The digest of choices that are all 0 would be 0, but for the random ones beside them."""
    _, receiver = set_up()
    proofs = [receiver.extend(np.zeros(128, np.uint8))[0][-PROOF_BYTES:] for _ in range(200)]
    assert looks_random(b"".join(proofs))


@pytest.mark.parametrize("choice", [0, 1])
def test_the_receivers_view_does_not_depend_on_the_message_it_did_not_choose(pair: Pair, choice: int) -> None:
    count = 4096
    constant, other = np.full((count, 16), 0x5A, np.uint8), np.zeros((count, 16), np.uint8)
    sent, received = batch(pair, np.full(count, choice, np.uint8))
    messages = (other, constant) if choice == 0 else (constant, other)
    answer = sent.send(*messages)
    halves = [np.frombuffer(half, np.uint8) for half in (answer[: count * 16], answer[count * 16 :])]
    # What the receiver knows are its own pads; the other half stays under pads unrelated to them.
    own_pads = halves[choice] ^ messages[choice].ravel()
    assert np.array_equal(received.receive(answer, 16), messages[choice])
    assert looks_random(halves[1 - choice].tobytes())
    assert looks_random((halves[1 - choice] ^ own_pads).tobytes())


def test_a_correlations_message_does_not_show_the_difference_to_who_chose_zero(pair: Pair) -> None:
    ring = PowerOfTwo(64)
    for delta in (0, 2**64 - 1):
        sent, received = batch(pair, np.zeros(4096, np.uint8))
        _, message = sent.correlate(ring, np.full(4096, delta, np.uint64))
        view = np.frombuffer(message, np.uint64) ^ received.correlated(ring, message)
        assert looks_random(message)
        assert looks_random(view.tobytes())


def test_the_sender_lacks_the_leaf_that_its_digits_name_and_has_all_others() -> None:
    secret, keys = random_bits(128), random_blocks(256).reshape(128, 2, 2)
    hashing = TweakedHash(bytes(16))
    leaves, sums = column_seeds.grow(hashing, keys)
    assert looks_random(sums)
    opened = column_seeds.open_all_but_one(hashing, keys[np.arange(128), secret], secret, sums)
    lacking = secret.reshape(32, 4) @ (1, 2, 4, 8)
    for tree in range(32):
        assert not opened[tree, 0].any()
        for place in range(1, 16):
            assert np.array_equal(opened[tree, place], leaves[tree, place ^ lacking[tree]])
    assert len({leaf.tobytes() for leaf in leaves.reshape(-1, 2)}) == 512


# Misuse.


def test_transfers_need_their_setup() -> None:
    with pytest.raises(ParameterError, match="not set up"):
        TransferReceiver(b"session").extend([0, 1])
    with pytest.raises(ParameterError, match="not set up"):
        TransferSender(b"session").extend(bytes(message_bytes(1, is_first=True)), 1)


def test_a_setup_serves_once() -> None:
    sender, receiver = set_up()
    with pytest.raises(ParameterError, match="every setup needs fresh ones"):
        sender.finish_setup(TransferReceiver(b"session, a to b").setup())
    with pytest.raises(ParameterError, match="every setup needs fresh ones"):
        receiver.finish_setup(sender.setup())


def test_two_setups_have_nothing_in_common() -> None:
    """The same session text, fresh secrets all the same."""
    first, second = (set_up()[1].extend(np.zeros(128, np.uint8))[0] for _ in range(2))
    assert balanced(np.unpackbits(np.frombuffer(first, np.uint8)[16:] ^ np.frombuffer(second, np.uint8)[16:]))


def test_a_replayed_or_reordered_message_is_refused() -> None:
    sender, receiver = set_up()
    first, _ = receiver.extend(random_bits(10))
    second, _ = receiver.extend(random_bits(10))
    with pytest.raises(BadMessage, match=r"transfers 0 to 9 come next\. Got 10 from 10"):
        sender.extend(second, 10)
    sender.extend(first, 10)
    with pytest.raises(BadMessage, match=r"transfers 10 to 19 come next\. Got 10 from 0"):
        sender.extend(first, 10)
    sender.extend(second, 10)


def test_a_message_of_the_wrong_length_is_refused(pair: Pair) -> None:
    sender, receiver = pair
    message, received = receiver.extend(random_bits(5))
    for wrong in (message[:-1], message + b"\0", b""):
        with pytest.raises(BadMessage, match="5 transfers take a message of 1616 bytes"):
            sender.extend(wrong, 5)
    with pytest.raises(BadMessage, match="129 transfers take"):
        sender.extend(message, 129)
    sent = sender.extend(message, 5)
    answer = sent.send(np.zeros((5, 3), np.uint8), np.ones((5, 3), np.uint8))
    with pytest.raises(BadMessage, match=r"5 pairs of 3 bytes take 30 bytes\. Got 29"):
        received.receive(answer[:-1], 3)
    assert received.receive(answer, 3).shape == (5, 3)  # a refused message does not use the batch up


def test_a_batch_is_used_once(pair: Pair) -> None:
    sent, received = batch(pair, random_bits(8))
    sent.random()
    received.random()
    with pytest.raises(ParameterError, match="used before"):
        sent.correlate_xor(random_blocks(1)[0])
    with pytest.raises(ParameterError, match="used before"):
        received.random()
    sent, received = batch(pair, random_bits(8))
    sent.split([8])
    with pytest.raises(ParameterError, match="used before"):
        sent.random()
    with pytest.raises(ParameterError, match="make up its 8 transfers"):
        received.split([4, 3])


def test_inputs_of_the_wrong_shape_are_refused(pair: Pair) -> None:
    sent, received = batch(pair, random_bits(4))
    ring = PowerOfTwo(20)
    with pytest.raises(ParameterError, match="two arrays"):
        sent.send(np.zeros((4, 2), np.uint8), np.zeros((4, 3), np.uint8))
    with pytest.raises(ParameterError, match="as many differences"):
        sent.correlate(ring, ring.random(5))
    with pytest.raises(ParameterError, match="bits must be"):
        pair[1].extend([0, 1, 2])
    with pytest.raises(BadMessage, match=r"4 blocks take 64 bytes\. Got 48"):
        received.correlated_xor(bytes(48))
    with pytest.raises(BadMessage, match="must lie below 1048576"):
        received.correlated(ring, b"\0\0\x10" * 4)
