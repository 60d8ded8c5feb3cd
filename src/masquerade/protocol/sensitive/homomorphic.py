"""The joint histogram by homomorphic encryption: the other back end, whose work grows with n·P instead of n·P·Q.

    encryptor (its labels are slots)     one packed unit vector a record, encrypted
    adder (its labels are groups)        multiplies the ciphertexts of each of its groups, adds one uniform message to
                                         the whole, and uniform noise, and sends them back: all groups up to the bound,
                                         empty or not
    both                                 subtract the mask inside a garbled circuit, since sums carry from slot to slot,
                                         and compare: shares of "this cell has at least k records"
    both                                 look each record's bit up, by one-of-N transfers both ways

From the DkA paper's SSI_t (§3), with each record's label encrypted once instead of one vector a record and test.
Paillier's scheme, 2,048 bits, whose public modulus lets the mask be uniform: the encryptor gets uniform elements of the
group back, whatever it encrypted, so that nothing put above the slots or into the noise tells it who was added to whom.
The party that makes it cheaper encrypts, usually that with fewer labels.
Cost: n·⌈P/slots⌉ encryptions and products, Q·⌈P/slots⌉ decryptions, about 2·w ANDs a cell, n·(P + Q) bits of table.
"""

from __future__ import annotations

import numpy as np

from masquerade.crypto import Bits, PaillierPublic, Slots, generate_paillier, masked_threshold, random_bytes, to_bits
from masquerade.net import Message, Receive, Script, Send
from masquerade.protocol.pairs import Pair, blaming, received, shared_outputs, slices
from masquerade.protocol.sensitive.costs import KEY_BITS, PLAINTEXT_BITS, Packing, packing_for
from masquerade.protocol.sensitive.histogram import (
    Bounds,
    EntriesOffered,
    EntriesWanted,
    Labels,
    checked_labels,
    checked_threshold,
)

_BATCH = 4096  # ciphertexts, or records, in one message


class EncryptionKey(Message, tag="histogram-key", frozen=True):
    """The encryptor's public key, and the proof that it lets the adder's masks be uniform."""

    key: bytes
    proof: bytes


class EncryptedLabels(Message, tag="histogram-labels", frozen=True):
    """Packed unit vectors of some records."""

    ciphertexts: bytes


class EncryptedGroups(Message, tag="histogram-groups", frozen=True):
    """Masked sums of the adder's groups."""

    ciphertexts: bytes


def homomorphic_group_bits(pair: Pair, labels: Labels, at_least: int, bounds: Bounds) -> Script[Bits]:
    """Return this party's XOR share, for each record, of "its joint group has ≥ `at_least` records"."""
    own, at_least = checked_labels(labels, pair.me, bounds), checked_threshold(at_least, bounds)
    packing = packing_for(bounds)
    numbers, slots = yield from _masked_sums(pair, own, bounds, packing)
    circuit = masked_threshold(slots.bits, at_least, slots.count)
    name = "masked" if pair.me == packing.encryptor else "mask"
    bits = to_bits(numbers, slots.bits * slots.count)
    shared = yield from shared_outputs(pair, circuit, len(numbers), {name: bits})
    # One instance per group and piece; its slots are labels of the encryptor.
    n_labels, n_groups = bounds.labels[packing.encryptor], bounds.labels[1 - packing.encryptor]
    cells = shared["reached"].reshape(slots.count, n_groups, packing.pieces).transpose(2, 0, 1)
    # A record counted nowhere has the count 0, which reaches a threshold of 0 only; one party's share says so.
    table = np.full((n_labels + 1, n_groups + 1), at_least == 0 and pair.me == 0, np.uint8)
    table[:-1, :-1] = cells.reshape(-1, n_groups)[:n_labels]
    return (yield from looked_up_bits(pair, table if packing.encryptor == 0 else table.T, own, bounds))


def _masked_sums(pair: Pair, own: Labels, bounds: Bounds, packing: Packing) -> Script[tuple[list[int], Slots]]:
    """Return, for each group and piece, the masked packed counts (the encryptor) or the mask (the adder)."""
    pair.histograms_by.add("encryption")
    slots = Slots(packing.slots, bounds.records.bit_length(), PLAINTEXT_BITS)
    run = _encryptor if pair.me == packing.encryptor else _adder
    return (yield from run(pair, own, bounds, slots, packing.pieces)), slots


def _encryptor(pair: Pair, own: Labels, bounds: Bounds, slots: Slots, pieces: int) -> Script[list[int]]:
    key = generate_paillier(KEY_BITS)
    yield Send((pair.peer,), EncryptionKey(key.public.to_bytes(), key.proof()))
    nowhere = bounds.labels[pair.me]
    for part in slices(bounds.records, max(1, _BATCH // pieces)):
        messages = [
            slots.unit(label % slots.count) if piece == label // slots.count and label < nowhere else 0
            for label in own[part].tolist()
            for piece in range(pieces)
        ]
        ciphertexts = key.public.encode([key.encrypt(message) for message in messages])
        yield Send((pair.peer,), EncryptedLabels(ciphertexts))
    numbers: list[int] = []
    for part in slices(bounds.labels[1 - pair.me] * pieces, _BATCH):
        sums = yield from received(pair.peer, EncryptedGroups, key.public.decode, part.stop - part.start)
        numbers.extend(key.decrypt(each) for each in sums)
    return numbers


def _adder(pair: Pair, own: Labels, bounds: Bounds, slots: Slots, pieces: int) -> Script[list[int]]:
    told = yield Receive(pair.peer, EncryptionKey)
    with blaming(pair.peer):
        public = PaillierPublic.from_bytes(told.key)
        public.check(told.proof)
    n_groups = bounds.labels[pair.me]
    sums = [1] * ((n_groups + 1) * pieces)  # the last group has the records that are counted nowhere
    for part in slices(bounds.records, max(1, _BATCH // pieces)):
        size = (part.stop - part.start) * pieces
        ciphertexts = yield from received(pair.peer, EncryptedLabels, public.decode, size)
        for at, ciphertext in enumerate(ciphertexts):
            group = int(own[part.start + at // pieces]) * pieces + at % pieces
            sums[group] = public.add(sums[group], ciphertext)
    masks: list[int] = []
    for part in slices(n_groups * pieces, _BATCH):
        masked = [public.mask(total) for total in sums[part]]
        masks += (mask for _, mask in masked)
        yield Send((pair.peer,), EncryptedGroups(public.encode([ciphertext for ciphertext, _ in masked])))
    return masks


def looked_up_bits(pair: Pair, table: Bits, own: Labels, bounds: Bounds) -> Script[Bits]:
    """Return this party's XOR share of the bit in each record's cell, from its share of the table of bits."""
    mine = table if pair.me == 0 else table.T
    choices = bounds.labels[pair.me] + 1
    shares = np.empty(bounds.records, np.uint8)
    for part in slices(bounds.records, _BATCH):
        yield Send((pair.peer,), EntriesWanted(pair.table_receiver.ask(own[part], choices)))
        wanted = yield Receive(pair.peer, EntriesWanted)
        masks = np.frombuffer(random_bytes(part.stop - part.start), np.uint8) & np.uint8(1)
        offered = mine[own[part].astype(np.intp)] ^ masks[:, None]
        with blaming(pair.peer):
            tables = pair.table_sender.offer_bits(wanted.columns, offered)
        yield Send((pair.peer,), EntriesOffered(tables))
        shares[part] = masks ^ (yield from received(pair.peer, EntriesOffered, pair.table_receiver.receive_bits))
    return shares
