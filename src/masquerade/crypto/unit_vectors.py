"""Shares of unit vectors whose places are shared themselves: neither party knows where the 1 is.

For each record the parties hold XOR shares of a place i < size, and both end with additive shares (modulo 2^16 or 2^32)
of e_i. Both grow a tree of random blocks from a root of their own; off the path to i all nodes of one are those of the
other, and cancel, and on it they are unrelated. The lowest digit of a block is its mark t; on the path the parties'
marks differ. A level from the one above, with Lᵦ and Rᵦ the XOR of all left and of all right children of party b:

    correction   C = R₀ ⊕ R₁ or, if the path turns right, L₀ ⊕ L₁: of the child that leaves the path. One transfer each
                 way multiplies a party's own L ⊕ R by the other's share of the digit; then both tell their share of C
    marks        T_L = the XOR of all left children's marks, ⊕ 1 if the path turns left; T_R likewise
    corrected    children of a marked node ⊕ C, with T_L or T_R in the place of its mark. Now the child that leaves the
                 path is the same on both sides, and the one on it is not

A leaf stands for eight places, and expands to as many words. On the path the words of both differ by what must be
added to make e_{i mod 8} of them:

    W = σ·(e_{i mod 8} − (V₀ − V₁)),  Vᵦ the sum of all leaves' words,  σ = t₀ − t₁ = ±1 = Σ t₀ − Σ t₁ over all leaves
    shares    party 0: words + t·W at each leaf;  party 1: the same, negated

A table of eight rows gives shares of e_{i mod 8}, and a transfer each way multiplies by σ.

Doerner, shelat, "Scaling ORAM for Secure Computation" (CCS 2017), on the distributed point functions of Boyle, Gilboa,
Ishai (CCS 2016). What is sent, C, T and W, is uniform to either party, as each includes a block or words of the other's
that it lacks. Cost of a vector: 2·⌈log₂(size / 8)⌉ + 6 transfers; in all, 74 bytes for each digit of the place but the
last three and 250 for the words, where they are of 16 bits; 3·size / 8 hashes on each side. Semi-honest; the number of
vectors and their size are public.
"""

from __future__ import annotations

import numpy as np

from masquerade.crypto.bits import Bits, choose, digits, pack, unpack
from masquerade.crypto.garble import Labels
from masquerade.crypto.hashing import Blocks, Bytes, TweakedHash, blocks_from_bytes, derive_key, random_blocks
from masquerade.crypto.one_of_n import as_indices, digits_of
from masquerade.crypto.punctured_trees import Growth, Words, WordType, random_words
from masquerade.crypto.transfer_extension import ReceivedBatch, SentBatch, TransferReceiver, TransferSender
from masquerade.errors import BadMessage

LANES = 8  # places of a leaf
_ONE = np.uint64(1)


class UnitVectors:
    """One party's side of many vectors, a batch at a time. Both call the methods in the order in which they stand.

    Parties are numbered 0 and 1. `session` is the same text on both sides, and unique. What a method returns is for the
    other party's next one, where it says so.
    """

    def __init__(
        self, session: bytes, me: int, transfers: tuple[TransferSender, TransferReceiver], size: int, word: WordType
    ) -> None:
        self._me, self._size, self._word = me, size, word
        self._sender, self._receiver = transfers
        self._growth = Growth(session)
        self._words = TweakedHash(derive_key(session, b"unit-vectors/words"))
        self._leaves = -(-size // LANES)
        self.depth = digits_of(self._leaves)
        self.digits = self.depth + digits_of(LANES)  # of a place

    def begin(self, places: Labels) -> bytes:
        """Take this party's shares of a batch of places; return its digits, hidden in transfers."""
        n = len(places)
        within = as_indices(places, 1 << self.digits)
        self.low = within & np.uint64(LANES - 1)
        self._path: Bits = digits(within >> np.uint64(digits_of(LANES)), self.depth)[::-1]  # highest first
        self._numbers = self._growth.take(n)
        self._level, self._nodes = 0, random_blocks(n).reshape(1, n, 2).copy()
        self._nodes[..., 0] = self._nodes[..., 0] & ~_ONE | np.uint64(self._me)
        message, batch = self._receiver.extend(self._path.ravel())
        self._received: list[ReceivedBatch] = batch.split([n] * self.depth)
        return message

    def hear(self, message: bytes) -> None:
        """Take the other party's digits."""
        n = len(self.low)
        self._sent: list[SentBatch] = self._sender.extend(message, self.depth * n).split([n] * self.depth)

    def grow(self) -> bytes:
        """Grow a level; return what the other party multiplies with its digit."""
        above = len(self._nodes)
        children = self._growth.grow(self._nodes, self._numbers, self._level, 2 * above)
        self._children = children.reshape(above, 2, -1, 2)
        self._sums: Blocks = np.bitwise_xor.reduce(self._children, axis=0)
        difference = self._sums[0] ^ self._sums[1]
        path = self._path[self._level]
        kept, message = self._sent[self._level].correlate_xor(difference)
        self._lost = self._sums[1] ^ choose(path, difference) ^ kept
        return message

    def correct(self, message: bytes) -> bytes:
        """Take the product; return this party's share of the correction."""
        path = self._path[self._level]
        self._lost ^= self._received[self._level].correlated_xor(message)
        left, self._right_marks = (self._sums[..., 0] & _ONE).astype(np.uint8) ^ path
        left ^= np.uint8(self._me)  # of both parties together, 1 where the path turns left
        self._lost[:, 0] = self._lost[:, 0] & ~_ONE | left
        return b"".join((self._lost.tobytes(), pack(self._right_marks).tobytes()))

    def descend(self, message: bytes) -> None:
        """Take the other party's share of the correction, and correct the level."""
        n, size = len(self._lost), self._lost.nbytes
        expected = size + -(-n // 8)
        if len(message) != expected:
            raise BadMessage(f"{n} corrections take {expected} bytes. Got {len(message)} instead.")
        left = self._lost ^ blocks_from_bytes(message[:size], n)
        right = left.copy()
        marks = self._right_marks ^ unpack(np.frombuffer(message[size:], np.uint8), n)
        right[:, 0] = right[:, 0] & ~_ONE | marks
        parents = np.uint64(0) - (self._nodes[..., 0] & _ONE)
        for side, change in enumerate((left, right)):
            self._children[:, side] ^= change & parents[..., None]
        self._level += 1
        needed = -(-self._leaves // (1 << (self.depth - self._level)))
        self._nodes = self._children.reshape(-1, n, 2)[:needed]

    def table(self, masks: Words) -> Bytes:
        """Return the table from which a party with all but these shares of i mod 8 takes e_{i mod 8} less the masks."""
        n = len(self.low)
        rows = np.zeros((n, LANES, LANES), self._word)
        lanes = np.arange(LANES)
        rows[:, lanes, lanes] = 1
        rows = rows[np.arange(n)[:, None], lanes ^ self.low.astype(np.int64)[:, None]] - masks[:, None]
        return np.ascontiguousarray(rows).view(np.uint8).reshape(n, LANES, -1)

    def finish(self, low: Words) -> bytes:
        """Take this party's share of e_{i mod 8}, words[n, 8]; return its share of the sign, hidden in transfers."""
        n = len(self.low)
        leaves = self._nodes.reshape(-1, 2)
        numbers = np.broadcast_to(self._numbers, (self._leaves, n)).reshape(-1)
        wide = self._words.expand(leaves, numbers, LANES * self._word.itemsize // 8)
        self._leaf_words = np.ascontiguousarray(wide).view(self._word).reshape(self._leaves, n, LANES)
        total = self._leaf_words.sum(axis=0, dtype=self._word)
        self._rest = low - total if self._me == 0 else low + total
        self._leaf_marks = (self._nodes[..., 0] & _ONE).astype(self._word)
        marked = self._leaf_marks.sum(axis=0, dtype=np.int64)
        # One party's sum is even and the other's is next to it: their second digits tell which is larger.
        sign = marked >> 1 & 1
        if self._me == 0:
            sign ^= marked & 1 ^ 1
        self._sign: Bits = sign.astype(np.uint8)
        message, self._sign_batch = self._receiver.extend(self._sign)
        return message

    def multiply(self, message: bytes) -> bytes:
        """Take the other party's hidden sign; return both products of it."""
        batch = self._sender.extend(message, len(self._sign))
        masks = random_words(self._rest.shape, self._word)
        signed = np.where(self._sign[:, None], np.zeros((), self._word) - self._rest, self._rest)
        self._share = masks
        return batch.send(_raw(signed - masks), _raw(np.zeros((), self._word) - signed - masks))

    def tell(self, message: bytes) -> bytes:
        """Take the product; return this party's share of the words W."""
        told = self._sign_batch.receive(message, LANES * self._word.itemsize)
        self._share = self._share + np.ascontiguousarray(told).view(self._word)
        return self._share.tobytes()

    def vectors(self, message: bytes) -> Words:
        """Take the other party's share of W; return this party's shares of the unit vectors, words[n, size]."""
        n = len(self._share)
        if len(message) != self._share.nbytes:
            raise BadMessage(f"{n} rows of words take {self._share.nbytes} bytes. Got {len(message)} instead.")
        change = self._share + np.frombuffer(message, self._word).reshape(n, LANES)
        self._leaf_words += self._leaf_marks[..., None] * change
        if self._me == 1:
            np.negative(self._leaf_words, out=self._leaf_words)
        rows = np.ascontiguousarray(self._leaf_words.transpose(1, 0, 2)).reshape(n, -1)
        return rows[:, : self._size]


def _raw(rows: Words) -> Bytes:
    return np.ascontiguousarray(rows).view(np.uint8)
