"""Known answers: with a fixed source of randomness every message and every key is the one that is written down here.

A change of format, of derivation or of order would make parties of two versions misunderstand each other, or reuse what
must not be reused; so it must be noticed. Beside the pinned digests, the extension, the tables and the trees are
computed once more from their definitions, with Python's own numbers and one block at a time.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import reduce
from operator import xor

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from crypto.two_parties import set_up
from homes import home
from masquerade.crypto import (
    BidWords,
    BlockReceiver,
    BlockSender,
    Delta,
    Evaluator,
    Garbler,
    Orderer,
    Owner,
    PowerOfTwo,
    SharedEvaluation,
    TableReceiver,
    TableSender,
    TransferReceiver,
    TripleMaking,
    TweakedHash,
    UnitReceiver,
    UnitSender,
    UnitVectors,
    batches,
    compare_bids,
    derive_key,
    expand,
    hold,
    share_message,
    to_bits,
    transfer_extension as column_seeds,
    undefeated,
    word_for,
)
from masquerade.crypto.base_transfer import BaseReceiver, BaseSender
from masquerade.crypto.punctured_trees import RowSums, TreeReceiver, TreeSender
from masquerade.crypto.transfer_extension import SentBatch

CHOICES = np.array([0, 1, 1, 0, 1, 0, 0, 1, 1, 1], np.uint8)


@pytest.fixture(autouse=True)
def fixed_randomness(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every "random" byte comes from SHAKE-256 over the number of the call."""
    calls = 0

    def bytes_of_call(count: int) -> bytes:
        nonlocal calls
        calls += 1
        return hashlib.shake_256(b"masquerade, known answers %d" % calls).digest(count)

    with monkeypatch.context() as patch:
        patch.setattr(os, "urandom", bytes_of_call)
        yield


def digest(*parts: bytes | np.ndarray) -> str:
    """Sixteen digits that stand for all parts in their order."""
    total = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else np.ascontiguousarray(part).tobytes()
        total.update(len(data).to_bytes(8, "big") + data)
    return total.hexdigest()[:16]


# The definitions, one block at a time. A block is a number; its bytes are the number's, the lowest first.


def aes(key: bytes, number: int) -> int:
    cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    return int.from_bytes(cipher.update(number.to_bytes(16, "little")), "little")


def hashed(key: bytes, number: int, tweak: int) -> int:
    inner = aes(key, number)
    return aes(key, inner ^ tweak) ^ inner


def numbers(blocks: np.ndarray) -> list[int]:
    return [int(low) | int(high) << 64 for low, high in blocks.reshape(-1, 2)]


def bytes_of(number: int) -> bytes:
    return number.to_bytes(16, "little")


def ghash(key: int, column: int) -> bytes:
    """Σ cⱼ·Hᵏ⁻ʲ⁺² for the three blocks of a column, in the field of GCM."""

    def reversed_bits(block: int) -> int:
        return int(f"{int.from_bytes(bytes_of(block), 'big'):0128b}"[::-1], 2)

    def times(one: int, other: int) -> int:
        product = reduce(xor, (one << at for at in range(128) if other >> at & 1), 0)
        for at in range(254, 127, -1):
            product ^= (product >> at & 1) * (0x87 | 1 << 128) << at - 128
        return product

    total, multiplier = 0, reversed_bits(key)
    for at in range(3):
        total = times(total ^ reversed_bits(column >> 128 * at & (1 << 128) - 1), multiplier)
    return bytes_of(reversed_bits(times(total, multiplier)))


def test_keys_of_purposes() -> None:
    """SHA-256 over lengths and parts, cut to 16 bytes."""
    text = b"masquerade/crypto/1\0" + (7).to_bytes(8, "big") + b"session" + (4).to_bytes(8, "big") + b"duel"
    assert derive_key(b"session", b"duel") == hashlib.sha256(text).digest()[:16]
    assert derive_key(b"session", b"duel").hex() == "b6ecbb40a62329ec48d012bfff3e76b0"


def test_base_transfers() -> None:
    sender, receiver = BaseSender(b"known", 10), BaseReceiver(b"known", CHOICES)
    keys, taken = sender.receive(receiver.message()), receiver.receive(sender.message())
    assert np.array_equal(keys[np.arange(10), CHOICES], taken)
    assert digest(sender.message()) == "6d4314b248671641"
    assert digest(receiver.message()) == "168b596489c3bdfd"
    assert digest(keys) == "2a94911f0e397e04"


def test_extended_transfers() -> None:
    sender, receiver = set_up(b"known")
    message, received = receiver.extend(CHOICES)
    parts = sender.extend(message, 10).split([3, 2, 2, 3])
    theirs = received.split([3, 2, 2, 3])
    zeros, ones = parts[0].random()
    blocks, told = parts[1].correlate_xor(np.array([5, 6], np.uint64))
    elements, answer = parts[2].correlate(PowerOfTwo(20), np.array([7, 8], np.uint64))
    rows = np.arange(60, dtype=np.uint8).reshape(2, 3, 10)
    chosen = parts[3].send(rows[0], rows[1])
    assert digest(message) == "3fa99a58f6397c76"
    assert digest(zeros, ones, theirs[0].random()) == "bd1ae74b3082dc2a"
    assert digest(blocks, told, theirs[1].correlated_xor(told)) == "46128a6aad33e000"
    assert digest(elements, answer, theirs[2].correlated(PowerOfTwo(20), answer)) == "16daf32bfe9f6738"
    assert digest(chosen, theirs[3].receive(chosen, 10)) == "477a99937d0b1854"


def test_extended_transfers_by_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    """q_j = v_j ⊕ r_j·Δ by columns of π(s ⊕ c) ⊕ s; the two blocks are H(q_j, j) and H(q_j ⊕ Δ, j)."""
    seeds: list[np.ndarray] = []
    honest = column_seeds.grow

    def watched(hashing: TweakedHash, keys: np.ndarray) -> tuple[np.ndarray, bytes]:
        grown = honest(hashing, keys)
        seeds.extend((keys, grown[0]))
        return grown

    monkeypatch.setattr(home(TransferReceiver), "grow", watched)
    sender, receiver = set_up(b"known")
    secret = numbers(sender._secret)[0]
    message, received = receiver.extend(CHOICES)
    sent: SentBatch = sender.extend(message, 10)
    zeros, ones = (numbers(blocks) for blocks in sent.random())
    stream_key = derive_key(b"known", b"transfer-streams")
    # Each column is three blocks of 128 bits: ten that serve, and padding, then two of choices that the check needs.
    streams = [
        [sum((aes(stream_key, leaf ^ at) ^ leaf) << 128 * at for at in range(3)) for leaf in numbers(tree)]
        for tree in seeds[1]
    ]
    told = np.frombuffer(message, np.uint8, 32 * 48, 16 + 4096).reshape(32, 48)
    picks = reduce(xor, streams[0]) ^ int.from_bytes(told[0].tobytes(), "little")
    assert picks & (1 << 128) - 1 == sum(int(bit) << at for at, bit in enumerate(CHOICES))
    assert message[:16] == (0).to_bytes(8, "little") + (10).to_bytes(8, "little")
    assert all(
        each.tobytes() == (reduce(xor, tree) ^ picks).to_bytes(48, "little")
        for each, tree in zip(told, streams, strict=True)
    )
    # On the last level, the sum of all leaves on a side is under the key of the other choice of the lowest digit.
    last = numbers(np.frombuffer(message[16 + 3 * 1024 : 16 + 4096], np.uint64).reshape(-1, 2))
    for tree, leaves in enumerate(seeds[1]):
        for side in (0, 1):
            total = reduce(xor, numbers(leaves)[side::2])
            assert last[2 * tree + side] == total ^ numbers(seeds[0][4 * tree, 1 - side])[0]
    columns = [
        reduce(xor, (stream for x, stream in enumerate(tree) if x >> digit & 1))
        for tree in streams
        for digit in range(4)
    ]
    # The proof: GHASH of the choices under two keys, which follow from all that was said, and a hash of the columns'.
    said = hashlib.sha256(b"masquerade/transfer-check/1\0" + hashlib.sha256(b"known").digest())
    for heard in (receiver.setup(), sender.setup(), message[16 : 16 + 4096], message[:16], told):
        said.update(heard)
    keys = [aes(derive_key(said.digest(), b"column-check", bytes([number])), 0) for number in (0, 1)]
    proven = hashlib.sha256(b"".join(ghash(key, column) for column in columns for key in keys)).digest()
    assert message[16 + 4096 + 32 * 48 :] == b"".join(ghash(key, picks) for key in keys) + proven
    key = derive_key(b"known", b"transfer-hash")
    for transfer, choice in enumerate(CHOICES.tolist()):
        v = sum((column >> transfer & 1) << place for place, column in enumerate(columns))
        q = v ^ (secret if choice else 0)
        assert zeros[transfer] == hashed(key, q, transfer)
        assert ones[transfer] == hashed(key, q ^ secret, transfer)
    assert numbers(received.random()) == [(zeros, ones)[choice][at] for at, choice in enumerate(CHOICES.tolist())]


def test_tables() -> None:
    sender, receiver = set_up(b"known")
    offering, asking = TableSender(b"known", sender), TableReceiver(b"known", receiver)
    wanted = np.array([4, 0, 2], np.uint64)
    tables = np.arange(3 * 5 * 2, dtype=np.uint8).reshape(3, 5, 2)
    ask = asking.ask(wanted, 5)
    answer = offering.offer(ask, tables)
    assert asking.receive(answer, 2).tolist() == [[8, 9], [10, 11], [24, 25]]
    assert digest(ask, answer) == "263d9d997129b0a4"
    bits = offering.offer_bits(asking.ask(wanted, 5), tables[:, :, 0] & 1)
    assert digest(bits) == "a9b599e043017b84"


def test_tables_by_definition() -> None:
    """Entry (h, l) of a table of 2 × 2 is under G(R_h)[l] ⊕ G(C_l)[h], with one digit each."""
    sender, receiver = set_up(b"known")
    pairs: list[tuple[list[int], list[int]]] = []
    honest = sender.extend

    class Watched:
        def extend(self, message: bytes, count: int) -> SentBatch:
            batch = honest(message, count)
            pads = batch._pads(2)
            pairs.append((numbers(pads[0]), numbers(pads[1])))
            return batch

    offering = TableSender(b"known", Watched())  # type: ignore[arg-type] # a sender that lets us look
    asking = TableReceiver(b"known", receiver)
    table = np.array([[[1], [2], [3], [4]]], np.uint8)
    answer = offering.offer(asking.ask(np.array([2], np.uint64), 4), table)
    keys, masks = derive_key(b"known", b"one-of-n/keys"), derive_key(b"known", b"one-of-n/masks")
    lower, upper = zip(*pairs[0], strict=True)  # the two random keys of the lower, and of the upper digit
    for high in (0, 1):
        row = hashed(keys, upper[high], (high << 16 | 0) << 64)
        for low in (0, 1):
            column = hashed(keys, lower[low], (low << 16 | 1) << 64)
            mask = bytes_of(hashed(masks, row, 0))[low] ^ bytes_of(hashed(masks, column, 1))[high]
            assert answer[2 * high + low] == mask ^ table[0, 2 * high + low, 0]


def test_trees() -> None:
    sender, receiver = set_up(b"known")
    sending, receiving = TreeSender(b"known", sender), TreeReceiver(b"known", receiver)
    ask = receiving.ask(np.array([0, 4, 2], np.uint64), 5)
    leaves, answer = sending.answer(ask, 3, 5)
    heard = receiving.receive(answer)
    assert digest(ask, answer) == "62294e28ad132477"
    assert digest(leaves, heard) == "7ab68d928e01ea0e"


def test_trees_by_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first two nodes are a transfer's; a node's children are H(node, (number of the tree, 2·level + side))."""
    sender, receiver = set_up(b"known")
    sending, receiving = TreeSender(b"known", sender), TreeReceiver(b"known", receiver)
    sending.answer(receiving.ask(np.array([1], np.uint64), 3), 1, 3)  # so that the next has number 1
    receiving._waiting = None
    ask = receiving.ask(np.array([5], np.uint64), 6)
    first = np.arange(4, dtype=np.uint64).reshape(2, 1, 2)
    monkeypatch.setattr(SentBatch, "random", lambda _: tuple(first))
    leaves, _ = sending.answer(ask, 1, 6)
    key = derive_key(b"known", b"punctured-trees")
    level = numbers(first)
    for depth in (1, 2):
        level = [hashed(key, node, 1 | (2 * depth + side) << 64) for node in level for side in (0, 1)]
    assert numbers(leaves) == level[:6]


def test_pseudorandom_rows_and_unit_products() -> None:
    """A row's words are π(s ⊕ (c‖c)) plus the seed, lane by lane; the table of one record follows from them."""
    word = word_for(100)
    seeds = np.arange(3 * 1 * 2, dtype=np.uint64).reshape(3, 1, 2)
    rows = RowSums(b"known", 3, 11, word, workers=1)
    totals = rows.add(seeds)
    key = derive_key(b"known", b"stretched-rows")
    expected = np.zeros((3, 16), np.uint16)
    for leaf, seed in enumerate(numbers(seeds)):
        for block in (1, 2):
            made = bytes_of(aes(key, seed ^ (block | block << 64)))
            lanes = np.frombuffer(made, np.uint16) + np.frombuffer(bytes_of(seed), np.uint16)
            expected[leaf, 8 * block - 8 : 8 * block] = lanes
    assert np.array_equal(rows.total(), expected[:, :11])
    assert np.array_equal(totals[0], expected[:, :11].sum(axis=0, dtype=np.uint16))

    sender, receiver = set_up(b"known")
    sending = UnitSender(b"known", sender, 4, 3, word)
    receiving = UnitReceiver(b"known", receiver, 4, 3, word)
    ask = receiving.ask(np.array([3, 0, 0], np.uint64))
    trees, told = sending.answer(ask, np.array([1, 2, 3], np.uint64))
    receiving.receive(trees, told)
    assert digest(ask, trees, told, receiving.share(), sending.share()) == "5d62e9fb29a66224"


def test_a_garbled_comparison() -> None:
    words, delta = BidWords(6, 2), Delta()
    circuit = compare_bids(words.width, True)
    garbling = Garbler(derive_key(b"known", b"duel"), delta).garble(circuit, 1)
    labels = {
        "left": garbling.encode("left", words.each([(5, 1)])),
        "right": garbling.encode("right", words.each([(7, 2)])),
    }
    held = Evaluator(derive_key(b"known", b"duel")).evaluate(circuit, 1, garbling.tables, labels)
    tags = garbling.reveal("left wins", "right wins")
    read = held.decode(tags, "left wins", "right wins")
    assert [int(bits[0, 0]) for bits in read.values()] == [0, 1]
    assert digest(delta.block, *labels.values()) == "b5bf12abc4ddc440"
    assert digest(garbling.tables) == "1dc16abdc7a1dbd4"
    assert digest(tags, held.labels("left wins", "right wins")) == "f67a59d9f8483fec"


def test_triples_and_a_shared_evaluation() -> None:
    """Three parties find who won all its comparisons; the pairs' transfers are stood in for by fixed bits."""
    held = hold(undefeated(3), 3)
    parties = [TripleMaking(held, me, 8) for me in range(3)]
    for left, right in ((0, 1), (0, 2), (1, 2)):
        zeros, ones = (np.frombuffer(os.urandom(48), np.uint8) & 1 for _ in range(2))
        correction = parties[left].correct(right, zeros, ones)
        taken = np.where(parties[right].choices(left) == 1, ones, zeros).astype(np.uint8)
        parties[right].absorb(left, taken, correction)
    triples = [each.triples() for each in parties]
    won = {"0 1": 1, "1 0": 0, "0 2": 1, "2 0": 0, "1 2": 0, "2 1": 1}
    evaluations = []
    for me in range(3):
        shares = {
            name: np.array([[bit ^ 1 if str(me) == name[0] else int(str(me) == name[2])]], np.uint8)
            for name, bit in won.items()
        }
        evaluations.append(SharedEvaluation(held, me, shares, triples[me]))
    told = [each.message for each in evaluations]
    assert all(message is not None for message in told)
    for me, each in enumerate(evaluations):
        each.hear([message for other, message in enumerate(told) if other != me and message is not None])
    results = [each.shares("winner") for each in evaluations]
    assert (results[0] ^ results[1] ^ results[2])[:, 0].tolist() == [1, 0, 0]
    assert digest(*(message or b"" for message in told), *map(share_message, results)) == "95433290c8b7f269"


def test_elements_of_rings_and_bits_of_words() -> None:
    seed = bytes(range(16))
    assert digest(PowerOfTwo(20).from_seed(seed, 9)) == "046beceb72897190"
    assert digest(expand(seed, 40)) == "c3ba65b70ffbfe70"
    assert to_bits([6], 4)[:, 0].tolist() == [0, 1, 1, 0]
    # A candidate, the score shifted by 2^5, and the position counted from the last.
    assert BidWords(6, 2).word((5, 1)) == 0b1_100101_10
    assert BidWords(6, 2).word(None) == 0


def test_values_in_an_order() -> None:
    sender, receiver = set_up(b"known")
    owner = Owner(sender, np.array([5, 7, 11], np.uint16))
    orderer = Orderer(receiver, np.array([2, 0, 1]), word_for(100))
    (stages,) = batches(3)
    ask = orderer.ask(stages)
    answer = owner.answer(ask, stages)
    orderer.start(owner.start)
    orderer.receive(answer)
    assert (owner.share() ^ orderer.share()).tolist() == [11, 5, 7]
    assert digest(owner.start, ask, answer, owner.share(), orderer.share()) == "b6fca2b42a866067"


def test_unit_vectors() -> None:
    word, places = word_for(100), (np.array([3, 9], np.uint64), np.array([3, 6], np.uint64))
    there, back = set_up(b"known"), set_up(b"known, back")
    sides = [
        UnitVectors(b"known", 0, (there[0], back[1]), 17, word),
        UnitVectors(b"known", 1, (back[0], there[1]), 17, word),
    ]
    told = [side.begin(own) for side, own in zip(sides, places, strict=True)]
    travelled = [*told]
    for step in ("hear", "grow", "correct", "descend", "grow", "correct", "descend"):
        found = [getattr(side, step)(*([] if step == "grow" else [told[1 - at]])) for at, side in enumerate(sides)]
        told = found
        travelled += [each for each in found if each is not None]
    masks = np.arange(16, dtype=np.uint16).reshape(2, 8)
    taken = sides[0].table(masks)[np.arange(2), sides[1].low.astype(int)]
    told = [sides[0].finish(masks), sides[1].finish(np.ascontiguousarray(taken).view(np.uint16))]
    for step in ("multiply", "tell"):
        travelled += told
        told = [getattr(side, step)(told[1 - at]) for at, side in enumerate(sides)]
    shares = [side.vectors(told[1 - at]) for at, side in enumerate(sides)]
    assert np.array_equal(shares[0] + shares[1], np.eye(17, dtype=np.uint16)[[0, 15]])
    assert digest(*travelled, *told, *shares) == "a3f0e70f817417ef"


def test_block_products() -> None:
    """Rows expand as those of unit products do."""
    word, sums = word_for(100), RowSums(b"known", 3, 11, word_for(100), workers=1)
    sender, receiver = set_up(b"known")
    sending = BlockSender(b"known", sender, 3, 11, 2, word)
    receiving = BlockReceiver(b"known", receiver, 3, 11, 2, word)
    ask = receiving.ask(np.array([2, 0], np.uint64))
    trees = sending.answer(ask, 2)
    share = sending.expand()
    by_record = sums.add(sending._seeds)
    assert np.array_equal(share[0], np.zeros((), word) - sums.total())
    assert sending.mask(np.ones((2, 11), np.uint16)) == (by_record + np.uint16(1)).tobytes()
    assert digest(ask, trees, share, receiving.expand(trees)) == "3e395bc8d8bd5b11"
