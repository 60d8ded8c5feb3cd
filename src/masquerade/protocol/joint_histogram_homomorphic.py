"""The joint histogram by homomorphic encryption: the other back end, whose work grows with n·P instead of n·P·Q.

    encryptor (its labels are slots)     one packed unit vector a record, encrypted
    adder (its labels are groups)        multiplies the ciphertexts of each of its groups, adds one mask to the whole
                                         packed number, 40 binary digits longer, re-randomises with a full-length
                                         exponent, and sends them back: all groups up to the bound, empty or not
    both                                 subtract the mask inside a garbled circuit, since sums carry from slot to slot,
                                         and compare: shares of "this cell has at least k records"
    both                                 look each record's bit up, by one-of-N transfers both ways

From the DkA paper's SSI_t (§3), with each record's label encrypted once instead of one vector a record and test.
Okamoto and Uchiyama's scheme, 2,048 bits. Party 0 encrypts. Cost: n·⌈P/slots⌉ encryptions and products, Q·⌈P/slots⌉
decryptions, about 2·w ANDs a cell, n·(P + Q) bits of table.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from masquerade.crypto.bits import Bits
from masquerade.crypto.circuit import to_bits
from masquerade.crypto.circuits_library import masked_threshold
from masquerade.crypto.homomorphic import Slots
from masquerade.crypto.okamoto_uchiyama import OkamotoUchiyamaPublic, generate
from masquerade.crypto.one_of_n import as_indices
from masquerade.net.script import Message, Receive, Script, Send
from masquerade.protocol.joint_histogram import Bounds, EntriesOffered, EntriesWanted, Labels
from masquerade.protocol.joint_histogram_pair import Pair, blaming, shared_outputs

KEY_BITS = 2048
PLAINTEXT_BITS = KEY_BITS // 3 - 1
_BATCH = 4096  # ciphertexts, or records, in one message


class EncryptionKey(Message, tag="histogram-key", frozen=True):
    """The encryptor's public key."""

    key: bytes


class EncryptedLabels(Message, tag="histogram-labels", frozen=True):
    """Packed unit vectors of some records."""

    ciphertexts: bytes


class EncryptedGroups(Message, tag="histogram-groups", frozen=True):
    """Masked sums of the adder's groups."""

    ciphertexts: bytes


def slots_for(bounds: Bounds) -> tuple[int, int]:
    """(slots of a ciphertext, ciphertexts of a record)."""
    most = Slots.most(bounds.records.bit_length(), PLAINTEXT_BITS)
    pieces = -(-bounds.labels[0] // most)
    return -(-bounds.labels[0] // pieces), pieces  # as even as possible: fewer empty slots in the circuits


def homomorphic_group_bits(pair: Pair, labels: Labels, at_least: int, bounds: Bounds) -> Script[Bits]:
    """This party's XOR share, for each record, of "its joint group has at least so many records"."""
    own = as_indices(labels, bounds.labels[pair.me] + 1)
    count, pieces = slots_for(bounds)
    slots = Slots(count, bounds.records.bit_length(), PLAINTEXT_BITS)
    run = _encryptor if pair.me == 0 else _adder
    numbers = yield from run(pair, own, bounds, slots, pieces)
    circuit = masked_threshold(slots.bits, at_least, slots.count)
    name = "masked" if pair.me == 0 else "mask"
    bits = to_bits(numbers, slots.bits * slots.count)
    shared = yield from shared_outputs(pair, circuit, len(numbers), {name: bits})
    # One instance a group and piece; its slots are labels of party 0.
    cells = shared["reached"].reshape(slots.count, bounds.labels[1], pieces).transpose(2, 0, 1)
    table = np.zeros((bounds.labels[0] + 1, bounds.labels[1] + 1), np.uint8)
    table[:-1, :-1] = cells.reshape(-1, bounds.labels[1])[: bounds.labels[0]]
    return (yield from looked_up_bits(pair, table, own, bounds))


def _encryptor(pair: Pair, own: Labels, bounds: Bounds, slots: Slots, pieces: int) -> Script[list[int]]:
    key = generate(KEY_BITS)
    yield Send((pair.peer,), EncryptionKey(key.public.to_bytes()))
    for part in _batches(bounds.records, max(1, _BATCH // pieces)):
        messages = [
            slots.unit(label % slots.count)
            if piece == label // slots.count and label < bounds.labels[0]
            else 0
            for label in own[part].tolist()
            for piece in range(pieces)
        ]
        ciphertexts = key.public.encode([key.encrypt(message) for message in messages])
        yield Send((pair.peer,), EncryptedLabels(ciphertexts))
    numbers: list[int] = []
    for part in _batches(bounds.labels[1] * pieces, _BATCH):
        heard = yield Receive(pair.peer, EncryptedGroups)
        with blaming(pair.peer):
            sums = key.public.decode(heard.ciphertexts, part.stop - part.start)
        numbers.extend(key.decrypt(each) for each in sums)
    return numbers


def _adder(pair: Pair, own: Labels, bounds: Bounds, slots: Slots, pieces: int) -> Script[list[int]]:
    told = yield Receive(pair.peer, EncryptionKey)
    with blaming(pair.peer):
        public = OkamotoUchiyamaPublic.from_bytes(told.key)
    sums = [1] * ((bounds.labels[1] + 1) * pieces)  # the last group's are of records that are counted nowhere
    for part in _batches(bounds.records, max(1, _BATCH // pieces)):
        heard = yield Receive(pair.peer, EncryptedLabels)
        with blaming(pair.peer):
            ciphertexts = public.decode(heard.ciphertexts, (part.stop - part.start) * pieces)
        for at, ciphertext in enumerate(ciphertexts):
            group = int(own[part.start + at // pieces]) * pieces + at % pieces
            sums[group] = public.add(sums[group], ciphertext)
    masks = [slots.mask() for _ in range(bounds.labels[1] * pieces)]
    for part in _batches(len(masks), _BATCH):
        masked = [
            public.rerandomise(public.add_plain(total, mask))
            for total, mask in zip(sums[part], masks[part], strict=True)
        ]
        yield Send((pair.peer,), EncryptedGroups(public.encode(masked)))
    return masks


def looked_up_bits(pair: Pair, table: Bits, own: Labels, bounds: Bounds) -> Script[Bits]:
    """This party's XOR share of the bit in each record's cell, from its share of the table of bits."""
    mine = table if pair.me == 0 else table.T
    choices = bounds.labels[pair.me] + 1
    shares = np.empty(bounds.records, np.uint8)
    for part in _batches(bounds.records, _BATCH):
        yield Send((pair.peer,), EntriesWanted(pair.table_receiver.ask(own[part], choices)))
        wanted = yield Receive(pair.peer, EntriesWanted)
        masks = np.frombuffer(os.urandom(part.stop - part.start), np.uint8) & np.uint8(1)
        offered = mine[own[part].astype(np.intp)] ^ masks[:, None]
        with blaming(pair.peer):
            tables = pair.table_sender.offer_bits(wanted.columns, offered)
        yield Send((pair.peer,), EntriesOffered(tables))
        answer = yield Receive(pair.peer, EntriesOffered)
        with blaming(pair.peer):
            shares[part] = masks ^ pair.table_receiver.receive_bits(answer.tables)
    return shares


def _batches(total: int, size: int) -> Iterator[slice]:
    for at in range(0, total, size):
        yield slice(at, min(at + size, total))
