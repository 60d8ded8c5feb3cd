"""Millions of oblivious transfers from 128, with 4 bytes each: SoftSpokenOT (Roy, CRYPTO 2022), with its check.

The sender has a secret Δ of 128 digits, four at a time: δ. For each δ both have sixteen streams G_x but for one, G_δ,
which the sender lacks (`column_seeds`).

    receiver (choices r): u = ⊕ₓ G_x,  v = ⊕ₓ x·G_x,  sends c = u ⊕ r          v has four columns, one a digit of x
    sender:               w = ⊕ₓ (x ⊕ δ)·G_x = v ⊕ δ·u,  q = w ⊕ δ·c = v ⊕ δ·r;   by rows: q_j = v_j ⊕ r_j·Δ

With one digit at a time this is the extension of Ishai, Kilian, Nissim, Petrank (CRYPTO 2003), at four times the bytes.

The parties run the base transfers once with exchanged roles (`setup`, `finish_setup`; both messages may be sent at
once). Then every `extend` is one message from the receiver, in the order of its calls, and yields a batch
(`transfer_batches`) that becomes random, correlated or chosen transfers. The first one brings the sums of the trees
that the streams' seeds are leaves of, 4 kB more.

One setup serves one direction of one session: `session` is a text that names the session, the sender and the
receiver, the same on both sides. Columns are read from their streams once, so a batch can neither be replayed
nor repeated.

A receiver whose columns are not those of one vector of choices, or whose sums do not fit its trees, would learn digits
of Δ from what comes of it. So every message ends with a proof (`_Check`), and the sender returns no batch before it has
found it right: no pad, label or tag that depends on a row leaves it earlier. A receiver that bets on b digits of Δ
passes with probability 2⁻ᵇ, and otherwise is known to have cheated. docs/crypto.md has the argument.

A sender that deviates learns nothing of the choices; what it makes of a batch is its own affair, and that of the
protocol above. Random-oracle-like use of the hash is the correlation robustness of `hashing`.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from masquerade.crypto.base_transfer import BaseReceiver, BaseSender, NeedsBase
from masquerade.crypto.bits import WIDTH, Bits, as_bits, choose, digests, pack, transpose
from masquerade.crypto.hashing import (
    BLOCK_BYTES,
    Blocks,
    Bytes,
    SeedStreams,
    TweakCounter,
    TweakedHash,
    as_blocks,
    blocks_from_bytes,
    derive_key,
    random_blocks,
    random_bytes,
)
from masquerade.crypto.rings import Elements, PowerOfTwo
from masquerade.errors import BadMessage, ParameterError

# --- column seeds -------------------------------------------------------------------------------------------
# Seeds of the extension's columns: for each four digits of the sender's secret, all but one of sixteen.
#
# The receiver grows a tree from a root for each four digits: a node's two children are its hash, expanded.
# Of every level it adds up the left and the right children, and masks each sum with the base transfer's key
# for the **other** choice. So the sender, whose digit on this level is s, opens the sum of the children on
# the side 1 − s: those it knows but for one, the sibling of the node on its own path, which the sum
# completes. In the end it lacks the leaf that its digits name (Goldreich, Goldwasser, Micali 1986;
# punctured by one transfer a level, as in Schoppmann et al., CCS 2019).
#
# The sender's leaves are numbered from the one that it lacks: place y has leaf y ⊕ δ, and place 0 none.

DIGITS = 4  # of the secret at a time: a column of bits for four
LEAVES = 1 << DIGITS
TREES = WIDTH // DIGITS
SUMS_BYTES = 2 * WIDTH * 16

Leaves = NDArray[np.uint64]  # uint64[trees, leaves, 2]


def grow(hashing: TweakedHash, keys: NDArray[np.uint64]) -> tuple[Leaves, bytes]:
    """Return the leaves of fresh trees, and the masked sums for the sender; `keys` are those of all base transfers."""
    nodes: Leaves = random_blocks(TREES).reshape(TREES, 1, 2)
    by_level = keys.reshape(TREES, DIGITS, 2, 2)
    masked = np.empty((DIGITS, TREES, 2, 2), np.uint64)
    for level in range(DIGITS):
        nodes = _children(hashing, nodes, level)
        sides = nodes.reshape(TREES, -1, 2, 2)
        masked[level] = np.bitwise_xor.reduce(sides, axis=1) ^ by_level[:, DIGITS - 1 - level, ::-1]
    return nodes, masked.tobytes()


def open_all_but_one(hashing: TweakedHash, keys: Blocks, secret: Bits, sums: bytes) -> Leaves:
    """Return the leaves by their places, from the chosen keys of all base transfers; those at place 0 are zeros."""
    masked = blocks_from_bytes(sums, 2 * WIDTH).reshape(DIGITS, TREES, 2, 2)
    by_level, digits = keys.reshape(TREES, DIGITS, 2), secret.reshape(TREES, DIGITS).astype(np.intp)
    nodes: Leaves = np.zeros((TREES, 1, 2), np.uint64)
    trees, path = np.arange(TREES), np.zeros(TREES, np.intp)
    for level in range(DIGITS):
        place = DIGITS - 1 - level
        own = digits[:, place]
        nodes = _children(hashing, nodes, level)
        # What grew from the unknown node means nothing: its place is zero, its sibling's follows from the sum.
        path = 2 * path + own
        nodes[trees, path] = nodes[trees, path ^ 1] = 0
        known = np.bitwise_xor.reduce(nodes.reshape(TREES, -1, 2, 2), axis=1)[trees, 1 - own]
        nodes[trees, path ^ 1] = known ^ masked[level, trees, 1 - own] ^ by_level[:, place]
    leaves: Leaves = nodes[trees[:, None], np.arange(LEAVES) ^ path[:, None]]
    return leaves


def _children(hashing: TweakedHash, nodes: Leaves, level: int) -> Leaves:
    count = nodes.shape[0] * nodes.shape[1]
    expanded = hashing.expand(nodes.reshape(count, 2), level * TREES * LEAVES, 4)
    return expanded.reshape(TREES, 2 * nodes.shape[1], 2).copy()


# --- transfer batches ---------------------------------------------------------------------------------------
# The uses of a batch of extended transfers: random, correlated or chosen values.
#
# | kind | sender has | receiver has | extra message from the sender | |---|---|---|---| | random | two
# random blocks, or bits | the chosen one | none | | correlated, XOR | x | x ⊕ r·d | 16 bytes per transfer |
# | correlated, ring | x | x + r·d | one element per transfer | | chosen | m₀, m₁ | m_r | both, masked |
#
# Ishai et al. 2003 for chosen values; Asharov, Lindell, Schneider, Zohner, "More Efficient Oblivious
# Transfer and Extensions for Faster Secure Computation" (CCS 2013) for the correlated and random kinds.
#
# A batch is used once, for one kind: its hash values are one-time pads. `split` cuts it into parts that may
# be used for different kinds.

_AT_A_TIME = 1 << 12


class _Batch(ABC):
    """Rows of the extension with their consecutive numbers, to be used once."""

    def __init__(self, hashing: TweakedHash, first: int, rows: Blocks) -> None:
        self._hash, self._first, self._rows = hashing, first, rows
        self._used = False

    def __len__(self) -> int:
        return len(self._rows)

    def split(self, sizes: Sequence[int]) -> list[Self]:
        """Split into consecutive parts of these sizes, which must add up to the whole batch."""
        if sum(sizes) != len(self) or any(size < 0 for size in sizes):
            raise ParameterError(f"the parts of a batch must make up its {len(self)} transfers. Got {sum(sizes)}.")
        self._use()
        ends = np.cumsum([0, *sizes]).tolist()
        return [self._part(start, end) for start, end in pairwise(ends)]

    def _use(self) -> None:
        if self._used:
            raise ParameterError("these transfers were used before: a second use would reuse their pads")
        self._used = True

    @abstractmethod
    def _part(self, start: int, end: int) -> Self:
        """Return the transfers from `start` up to, excluding, `end`."""


class SentBatch(_Batch):
    """The sender's side of a batch."""

    def __init__(self, hashing: TweakedHash, first: int, rows: Blocks, secret: Blocks) -> None:
        super().__init__(hashing, first, rows)
        self._secret = secret

    def random(self) -> tuple[Blocks, Blocks]:
        """Return two random blocks per transfer; the receiver has one of them."""
        self._use()
        return self._pads(2)

    def random_bits(self) -> tuple[Bits, Bits]:
        """Return two random bits per transfer; the receiver has one of them."""
        self._use()
        zeros, ones = np.empty(len(self), np.uint8), np.empty(len(self), np.uint8)
        secrets = np.tile(self._secret, (_AT_A_TIME, 1))  # XORs of whole arrays are the fastest
        for part in _parts(len(self), _AT_A_TIME):
            rows, first = self._rows[part], self._first + part.start
            zeros[part] = _lowest_bits(self._hash.hash(rows, first))
            ones[part] = _lowest_bits(self._hash.hash(rows ^ secrets[: len(rows)], first))
        return zeros, ones

    def correlate_xor(self, delta: Blocks) -> tuple[Blocks, bytes]:
        """Return blocks x, and the message that gives the receiver x ⊕ r·Δ. One Δ for all, or one for each."""
        deltas = np.broadcast_to(delta, (len(self), 2))
        if deltas.dtype != np.uint64:
            raise ParameterError(f"a difference must be uint64 words. Got {deltas.dtype} instead.")
        self._use()
        zeros, ones = self._pads(2)
        return zeros, (zeros ^ ones ^ deltas).tobytes()

    def correlate(self, ring: PowerOfTwo, deltas: Elements) -> tuple[Elements, bytes]:
        """Return elements x, and the message that gives the receiver x + r·Δ; one Δ or row of them per transfer."""
        if len(deltas) != len(self) or deltas.dtype != np.uint64:
            raise ParameterError(f"{len(self)} transfers need as many differences. Got {len(deltas)} instead.")
        self._use()
        width = int(np.prod(deltas.shape[1:], dtype=np.int64))
        zeros, ones = (_elements(ring, pads, deltas.shape) for pads in self._pads(ring.words * width))
        return zeros, ring.encode(ring.add(ring.subtract(zeros, ones), deltas))

    def send(self, zeros: Bytes, ones: Bytes) -> bytes:
        """Return the message that gives the receiver its choice of each pair of rows, uint8[n, size]."""
        if zeros.shape != ones.shape or zeros.ndim != 2 or len(zeros) != len(self) or not zeros.shape[1]:
            raise ParameterError(
                f"{len(self)} transfers need two arrays uint8[{len(self)}, size]. Got {zeros.shape}, {ones.shape}."
            )
        self._use()
        pads = self._pads(-(-zeros.shape[1] // 8))
        return b"".join(
            (_raw(pad, zeros.shape[1]) ^ message).tobytes() for pad, message in zip(pads, (zeros, ones), strict=True)
        )

    def _pads(self, words: int) -> tuple[Elements, Elements]:
        return (
            self._hash.expand(self._rows, self._first, words),
            self._hash.expand(self._rows ^ self._secret, self._first, words),
        )

    def _part(self, start: int, end: int) -> SentBatch:
        return SentBatch(self._hash, self._first + start, self._rows[start:end], self._secret)


class ReceivedBatch(_Batch):
    """The receiver's side of a batch."""

    def __init__(self, hashing: TweakedHash, first: int, rows: Blocks, choices: Bits) -> None:
        super().__init__(hashing, first, rows)
        self.choices = choices

    def random(self) -> Blocks:
        """Return the chosen one of the sender's two random blocks in each transfer."""
        self._use()
        return self._pads(2)

    def random_bits(self) -> Bits:
        """Return the chosen one of the sender's two random bits in each transfer."""
        self._use()
        chosen = np.empty(len(self), np.uint8)
        for part in _parts(len(self), _AT_A_TIME):
            chosen[part] = _lowest_bits(self._hash.hash(self._rows[part], self._first + part.start))
        return chosen

    def correlated_xor(self, message: bytes) -> Blocks:
        """Return x ⊕ r·Δ for the sender's x and Δ."""
        changes = blocks_from_bytes(message, len(self))
        self._use()
        return self._pads(2) ^ choose(self.choices, as_blocks(changes))

    def correlated(self, ring: PowerOfTwo, message: bytes, width: int | None = None) -> Elements:
        """Return x + r·Δ for the sender's x and Δ; `width` elements per transfer when Δ has rows."""
        shape = (len(self),) if width is None else (len(self), width)
        changes = ring.decode(message, int(np.prod(shape))).reshape(shape)
        self._use()
        pads = _elements(ring, self._pads(ring.words * (width or 1)), shape)
        return ring.add(pads, choose(self.choices, changes))

    def receive(self, message: bytes, size: int) -> Bytes:
        """Return the chosen rows, uint8[n, size]."""
        if len(message) != 2 * len(self) * size:
            raise BadMessage(
                f"{len(self)} pairs of {size} bytes take {2 * len(self) * size} bytes. Got {len(message)} instead."
            )
        self._use()
        pairs = np.frombuffer(message, np.uint8).reshape(2, len(self), size)
        mask = (np.uint8(0) - self.choices)[:, None]
        chosen = pairs[0] ^ ((pairs[0] ^ pairs[1]) & mask)
        return np.asarray(chosen ^ _raw(self._pads(-(-size // 8)), size))

    def _pads(self, words: int) -> Elements:
        return self._hash.expand(self._rows, self._first, words)

    def _part(self, start: int, end: int) -> ReceivedBatch:
        return ReceivedBatch(self._hash, self._first + start, self._rows[start:end], self.choices[start:end])


def _elements(ring: PowerOfTwo, pads: Elements, shape: tuple[int, ...]) -> Elements:
    return ring.from_words(pads.reshape(*shape, ring.words))


def _raw(pads: Elements, size: int) -> Bytes:
    return np.ascontiguousarray(pads).view(np.uint8)[:, :size]


def _parts(count: int, size: int) -> Iterator[slice]:
    """Yield the parts in which much is worked on, so that what comes between stays in the cache."""
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def _lowest_bits(blocks: Blocks) -> Bits:
    return (blocks[:, 0] & np.uint64(1)).astype(np.uint8)


# --- check --------------------------------------------------------------------------------------------------


class _Check:
    """The proof that columns fit together: the digest of r, then one of the digests of all columns v.

    Digests (`bits.digests`) are linear, so the sender finds those of v from its own: digest(qᵢ) = digest(vᵢ) ⊕
    Δᵢ·digest(r). Their keys follow by SHA-256 from the setup, the trees' sums and all columns of the batch, which are
    fixed before the keys are known. 256 random choices after each batch, of which nothing is made, keep the digest of r
    uniform.
    """

    def __init__(self, session: bytes) -> None:
        self._set_up = hashlib.sha256(b"masquerade/transfer-check/1\0" + hashlib.sha256(session).digest())

    def hear(self, message: bytes) -> None:
        """Note a message of the setup; both parties note the same ones in the same order."""
        self._set_up.update(message)

    def prove(self, told: Iterable[bytes], columns: Bytes, picks: Bytes) -> bytes:
        """Return the proof for the receiver's columns v and its choices r, packed; `told` is what the sender gets."""
        seed = self._seed(told)
        own = digests(picks[None], seed, _CHECK_KEYS).tobytes()
        return own + hashlib.sha256(digests(columns, seed, _CHECK_KEYS).tobytes()).digest()

    def holds(self, told: Iterable[bytes], columns: Bytes, secret: Bits, proof: bytes) -> bool:
        """Return whether a proof fits the sender's columns q."""
        own = np.frombuffer(proof[:_MASK_BYTES], np.uint64)
        expected = digests(columns, self._seed(told), _CHECK_KEYS)
        expected ^= choose(secret, np.broadcast_to(own, expected.shape))
        return hmac.compare_digest(hashlib.sha256(expected.tobytes()).digest(), proof[_MASK_BYTES:])

    def _seed(self, told: Iterable[bytes]) -> bytes:
        said = self._set_up.copy()
        for part in told:
            said.update(part)
        return said.digest()


# --- transfer extension -------------------------------------------------------------------------------------

_HEADER = struct.Struct("<QQ")  # number of the first transfer, how many
_NOT_SET_UP = "the transfers are not set up: exchange the setup messages first"
_CHUNK = 1 << 10  # bytes of each stream at a time: 8,192 transfers, 512 kB of all streams
_CHECK_KEYS = 2
_MASK_BYTES = BLOCK_BYTES * _CHECK_KEYS  # as many as a digest has, of random choices after a batch
PROOF_BYTES = _MASK_BYTES + hashlib.sha256().digest_size


class TransferSender(NeedsBase):
    """Offers two values in each transfer and does not learn which one was taken."""

    def __init__(self, session: bytes) -> None:
        secret = np.frombuffer(random_bytes(WIDTH // 8), np.uint8)
        self._secret = secret.view(np.uint64)
        self._digits = np.unpackbits(secret, bitorder="little")
        self._hash = TweakedHash(derive_key(session, b"transfer-hash"))
        self._trees = TweakedHash(derive_key(session, b"transfer-trees"))
        self._base = BaseReceiver(session, self._digits)
        self._keys: Blocks | None = None
        self._stream_key = derive_key(session, b"transfer-streams")
        self._streams: SeedStreams | None = None
        self._indices = TweakCounter()
        self._check = _Check(session)

    def finish_setup(self, message: bytes) -> None:
        """Take the receiver's message of the base transfers."""
        self._keys = self._base.receive(message)
        self._check.hear(message)
        self._check.hear(self._base.message())

    def extend(self, message: bytes, count: int) -> SentBatch:
        """Return the sender's side of `count` transfers, from the receiver's message.

        BadMessage if its columns do not fit together; there are no further transfers then.
        """
        if self._keys is None:
            raise ParameterError(_NOT_SET_UP)
        is_first = self._streams is None
        first = _first(message, count, self._indices, is_first=is_first)
        at = _HEADER.size
        if self._streams is None:
            sums = message[at : at + SUMS_BYTES]
            self._check.hear(sums)
            leaves = open_all_but_one(self._trees, self._keys, self._digits, sums)
            self._streams = SeedStreams(self._stream_key, leaves[:, 1:].reshape(-1, 2))
            at += SUMS_BYTES
        start = at
        columns = np.empty((WIDTH, _column_bytes(count)), np.uint8)
        by_tree = columns.reshape(TREES, DIGITS, -1)
        chosen = (np.uint8(0) - self._digits).reshape(TREES, DIGITS, 1)
        for part in _parts(columns.shape[1], _CHUNK):
            width = part.stop - part.start
            _weigh(self._streams.read(width).reshape(TREES, LEAVES - 1, -1), by_tree[:, :, part])
            corrections = np.frombuffer(message, np.uint8, TREES * width, at).reshape(TREES, 1, width)
            by_tree[:, :, part] ^= corrections & chosen
            at += TREES * width
        told = message[: _HEADER.size], message[start:at]
        if not self._check.holds(told, columns, self._digits, message[at:]):
            self._keys = None
            raise BadMessage("the choices of its transfers are not the same in all columns")
        return SentBatch(self._hash, first, transpose(columns)[:count], self._secret)


class TransferReceiver(NeedsBase):
    """Takes one of two values in each transfer and learns nothing about the other."""

    def __init__(self, session: bytes) -> None:
        self._hash = TweakedHash(derive_key(session, b"transfer-hash"))
        self._trees = TweakedHash(derive_key(session, b"transfer-trees"))
        self._base = BaseSender(session, WIDTH)
        self._stream_key = derive_key(session, b"transfer-streams")
        self._streams: SeedStreams | None = None
        self._sums = b""  # until they are sent
        self._indices = TweakCounter()
        self._check = _Check(session)

    def finish_setup(self, message: bytes) -> None:
        """Take the sender's message of the base transfers."""
        leaves, self._sums = grow(self._trees, self._base.receive(message))
        self._streams = SeedStreams(self._stream_key, leaves.reshape(-1, 2))
        self._check.hear(self._base.message())
        self._check.hear(message)
        self._check.hear(self._sums)

    def extend(self, choices: ArrayLike) -> tuple[bytes, ReceivedBatch]:
        """Return the message for the sender, and the receiver's side of one transfer per choice."""
        if self._streams is None:
            raise ParameterError(_NOT_SET_UP)
        bits = as_bits(choices)
        count = len(bits)
        first = self._indices.take(count)
        columns = np.empty((WIDTH, _column_bytes(count)), np.uint8)
        by_tree = columns.reshape(TREES, DIGITS, -1)
        picks = np.zeros(columns.shape[1], np.uint8)
        picks[: -(-count // 8)] = pack(bits)
        picks[-_MASK_BYTES:] = np.frombuffer(random_bytes(_MASK_BYTES), np.uint8)
        told = [_HEADER.pack(first, count)]
        for part in _parts(len(picks), _CHUNK):
            leaves = self._streams.read(part.stop - part.start).reshape(TREES, LEAVES, -1)
            total = _weigh(leaves, by_tree[:, :, part])
            told.append((total ^ picks[part]).tobytes())
        proof = self._check.prove(told, columns, picks)
        told.insert(1, self._sums)
        self._sums = b""
        return b"".join((*told, proof)), ReceivedBatch(self._hash, first, transpose(columns)[:count], bits)


def message_bytes(count: int, *, is_first: bool = False) -> int:
    """Return the length of the receiver's message for `count` transfers; the first one is longer."""
    return _HEADER.size + TREES * _column_bytes(count) + PROOF_BYTES + (SUMS_BYTES if is_first else 0)


def _first(message: bytes, count: int, indices: TweakCounter, *, is_first: bool) -> int:
    expected, size = indices.take(0), message_bytes(max(count, 0), is_first=is_first)
    first, announced = _HEADER.unpack_from(message) if len(message) >= _HEADER.size else (expected, count)
    if first == expected and (count < 0 or len(message) != size):
        raise BadMessage(f"{count} transfers take a message of {size} bytes. Got {len(message)}.")
    if (first, announced) != (expected, count):
        raise BadMessage(
            f"the transfers {expected} to {expected + count - 1} come next. Got {announced} from {first} instead."
        )
    return indices.take(count)


def _column_bytes(count: int) -> int:
    """Return the length of a column: whole blocks, then the choices of which nothing is made."""
    return BLOCK_BYTES * -(-count // (8 * BLOCK_BYTES)) + _MASK_BYTES


def _weigh(leaves: NDArray[np.uint64], columns: Bytes) -> Bytes:
    """Put into `columns`, for each digit, the sum of those leaves whose number has it; return the sum of all.

    Of a tree with one leaf less, number 0 is lacking, and the sum of all means nothing.
    """
    lacking = LEAVES - leaves.shape[1]
    sums = columns.view(np.uint64)
    for digit in reversed(range(DIGITS)):
        half = 1 << digit
        low, high = leaves[:, : half - lacking], leaves[:, half - lacking : 2 * half - lacking]
        np.bitwise_xor.reduce(high, axis=1, out=sums[:, digit])
        low ^= high[:, lacking:]
    return leaves[:, 0].view(np.uint8)
