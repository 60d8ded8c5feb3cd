"""An oblivious pseudo-random function: the receiver gets F at its items, the sender can evaluate F anywhere.

    receiver   P: a key-value store of its items y → h(y), 64 bits;  the 464 choice columns C·P, C a public random code
    extension  q_i = t_i ⊕ s_i·(C·P)_i     for the columns i = 1 … 464 (transfer extension with a code for choices)
    sender     F(x) = H(M·(q(x) ⊕ s ∘ C·h(x)), x)        receiver   F(y) = H(M·t(y), y)

q(x) is what the store whose slots are the rows of q has at x. Where P(x) = h(x) the two agree; elsewhere the sender's
input has M·(s ∘ C·d) in it, d = P(x) ⊕ h(x) ≠ 0, of which the receiver knows nothing. Pinkas, Rosulek, Trieu, Yanai,
"PSI from PaXoS" (EUROCRYPT 2020), with the store of `key_value_store`. M, a public random matrix of 128 rows, shortens
rows before they are hashed: our addition, argued for in docs/crypto.md with the check below.

A receiver whose columns are not those of one store could learn digits of s. So at the end of each store the sender
draws a key, and the receiver answers with digests of its columns that must fit (`column_check`; Keller, Orsini,
Scholl 2015, for codes: Orrù, Orsini, Scholl 2017). Who cheats in b columns passes with probability 2⁻ᵇ. 384 random
slots beside the store mask what the digests would tell of P. No value of F may leave the sender before that.

One setup serves one direction of one session, for as many stores as are needed, one after the other. A store of n
items takes 58 bytes a slot, 1.3 to 2.5 slots an item.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from masquerade.crypto.base_transfer import BaseReceiver, BaseSender, NeedsBase
from masquerade.crypto.bits import DIGEST_BYTES, WIDTH, BitMatrix, Columns, bit_columns, digests, transpose
from masquerade.crypto.hashing import BLOCK_BYTES, Blocks, TweakedHash, derive_key, expand, random_bytes
from masquerade.crypto.key_value_store import StoreLayout, Words, decode, encode, selected
from masquerade.errors import BadMessage, ParameterError

COLUMNS = 464
CHOICE_BITS = 64  # of a value in the store
SEED_BYTES = 32  # of a check
ANSWER_BYTES = CHOICE_BITS * DIGEST_BYTES + 32
_MASK_SLOTS = 384  # as many as a digest has bits
_BLOCK = 4096  # bytes of each column in one message
PLACES_TWEAK, VALUE_TWEAK = 1, 3  # see `items`


class Layout:
    """The slots of one store as they are extended: the store, then random ones, in whole blocks of 128."""

    def __init__(self, capacity: int) -> None:
        self.shape = StoreLayout(capacity)
        self.store_slots = -(-self.shape.size // 128) * 128
        self.slots = self.store_slots + _MASK_SLOTS
        self.column_bytes = self.slots // 8

    def blocks(self) -> Iterator[slice]:
        """Yield which bytes of each column each message has."""
        for at in range(0, self.column_bytes, _BLOCK):
            yield slice(at, min(at + _BLOCK, self.column_bytes))


class _Public:
    """What both parties derive from the session: the code, the matrix and the hashes."""

    def __init__(self, session: bytes) -> None:
        drawn = np.unpackbits(expand(derive_key(session, b"oprf/matrices"), COLUMNS * (CHOICE_BITS + WIDTH) // 8))
        code, shorten = drawn[: COLUMNS * CHOICE_BITS], drawn[COLUMNS * CHOICE_BITS :]
        self.code = BitMatrix(code.reshape(COLUMNS, CHOICE_BITS), group=8)
        self.shorten = BitMatrix(shorten.reshape(WIDTH, COLUMNS), group=5)
        self.hash = TweakedHash(derive_key(session, b"oprf/hash"))

    def rows(self, columns: Columns) -> Blocks:
        """Shorten the columns and return their rows, one block a slot."""
        return transpose(self.shorten.times(columns).view(np.uint8))


class PrfReceiver(NeedsBase):
    """Gets F at the items of its stores. `session` is the same text on both sides, unique to one run."""

    def __init__(self, session: bytes) -> None:
        self._public = _Public(session)
        self._base = BaseSender(session, COLUMNS)
        self._zeros: _Streams | None = None
        self._ones: _Streams | None = None

    def finish_setup(self, message: bytes) -> None:
        """Take the sender's message of the base transfers."""
        keys = self._base.receive(message)
        self._zeros, self._ones = _Streams(keys[:, 0]), _Streams(keys[:, 1])

    def query(self, store: ItemStore) -> Query:
        """Begin to query F at the items of a store."""
        if self._zeros is None or self._ones is None:
            raise ParameterError("the transfers are not set up: exchange the setup messages first")
        return Query(self._public, self._zeros, self._ones, store)


class ItemStore:
    """The receiver's items in a store: y → h(y). It may be used with several senders."""

    def __init__(self, items: Blocks, capacity: int, family: TweakedHash) -> None:
        self.items = items
        self.layout = Layout(capacity)
        self.at = self.layout.shape.positions(items, family, PLACES_TWEAK)
        # Nobody sees the store itself: what is unset may be zero.
        unset = np.zeros(self.layout.shape.size, np.uint64)
        self.words = encode(self.layout.shape, self.at, values_of(items, family), unset)


class Query:
    """One store of the receiver at one sender: send all `messages`, answer the check, then evaluate."""

    def __init__(self, public: _Public, zeros: _Streams, ones: _Streams, store: ItemStore) -> None:
        self._public, self._zeros, self._ones, self._store = public, zeros, ones, store
        self._layout = layout = store.layout
        slots = np.zeros(layout.slots, np.uint64)
        slots[: layout.shape.size] = store.words
        beside = random_bytes(8 * _MASK_SLOTS)  # for this sender alone
        slots[layout.store_slots :] = np.frombuffer(beside, np.uint64)
        self._choices = bit_columns(slots)
        self._kept = np.empty((COLUMNS, layout.column_bytes), np.uint8)
        self._rows = np.empty((layout.slots, 2), np.uint64)

    def messages(self) -> Iterator[bytes]:
        """Yield the masked columns, a block at a time."""
        for part in self._layout.blocks():
            columns = self._zeros.read(part.stop - part.start)
            self._kept[:, part] = columns.view(np.uint8)
            self._rows[8 * part.start : 8 * part.stop] = self._public.rows(columns)
            columns ^= self._ones.read(part.stop - part.start)
            columns ^= self._public.code.times(self._choices[:, part.start // 8 : part.stop // 8])
            yield columns.tobytes()

    def answer(self, seed: bytes) -> bytes:
        """Answer the sender's check: the digests of the choices, and one of all columns' digests."""
        if len(seed) != SEED_BYTES:
            raise BadMessage(f"a check's seed has {SEED_BYTES} bytes. Got {len(seed)} instead.")
        choices = digests(self._choices.view(np.uint8), seed)
        kept, self._kept = self._kept, np.empty((0, 0), np.uint8)
        return choices.tobytes() + hashlib.sha256(digests(kept, seed).tobytes()).digest()

    def evaluate(self) -> Blocks:
        """Return F at each item."""
        inputs = decode(self._layout.shape, self._rows, self._store.at)
        return self._public.hash.hash(inputs, self._store.items)


class PrfSender(NeedsBase):
    """Evaluates F anywhere; does not learn the receiver's items. `family` hashes items, as on the other side."""

    def __init__(self, session: bytes, family: TweakedHash) -> None:
        self._public = _Public(session)
        self._family = family
        secret = np.frombuffer(random_bytes(COLUMNS // 8), np.uint8)
        self._digits = np.unpackbits(secret)
        self._base = BaseReceiver(session, self._digits)
        self._chosen: _Streams | None = None
        # M·(s ∘ C·h) is linear in h: one block for each of its bits.
        code = self._digits[:, None] & self._public.code.bits
        linear = (self._public.shorten.bits.astype(np.uint16) @ code.astype(np.uint16)) & 1
        packed = np.packbits(linear.astype(np.uint8).T, axis=1, bitorder="little")
        self._images: Words = np.ascontiguousarray(packed).view(np.uint64)

    def finish_setup(self, message: bytes) -> None:
        """Take the receiver's message of the base transfers."""
        self._chosen = _Streams(self._base.receive(message))

    def store(self, capacity: int) -> HeldStore:
        """Begin a store that the receiver makes for up to this many items."""
        if self._chosen is None:
            raise ParameterError("the transfers are not set up: exchange the setup messages first")
        return HeldStore(self, self._chosen, capacity)


class HeldStore:
    """The sender's side of one store: take all messages, check, then evaluate."""

    def __init__(self, sender: PrfSender, chosen: _Streams, capacity: int) -> None:
        self._public, self._family, self._images = sender._public, sender._family, sender._images
        self._chosen = chosen
        self._mask = (np.uint64(0) - sender._digits.astype(np.uint64))[:, None]
        self._layout = Layout(capacity)
        self._kept = np.empty((COLUMNS, self._layout.column_bytes), np.uint8)
        self._rows = np.empty((self._layout.slots, 2), np.uint64)
        self._blocks = self._layout.blocks()
        self._next = next(self._blocks, None)
        self._seed = b""
        self._passed = False

    @property
    def messages(self) -> int:
        """How many messages the receiver sends."""
        return sum(1 for _ in self._layout.blocks())

    def take(self, message: bytes) -> None:
        """Take the receiver's next message."""
        part = self._next
        if part is None:
            raise ParameterError("all columns of this store have come")
        width = part.stop - part.start
        if len(message) != COLUMNS * width:
            raise BadMessage(f"columns of {width} bytes take {COLUMNS * width}. Got {len(message)}.")
        columns = self._chosen.read(width)
        columns ^= np.frombuffer(message, np.uint64).reshape(COLUMNS, -1) & self._mask
        self._kept[:, part] = columns.view(np.uint8)
        self._rows[8 * part.start : 8 * part.stop] = self._public.rows(columns)
        self._next = next(self._blocks, None)

    def challenge(self) -> bytes:
        """Return the seed of the check, once all columns are here."""
        if self._next is not None or self._seed:
            raise ParameterError("a check is made once, when all columns have come")
        self._seed = random_bytes(SEED_BYTES)
        return self._seed

    def check(self, answer: bytes) -> None:
        """Check the receiver's answer; BadMessage where its columns are not those of one store."""
        if not self._seed or len(answer) != ANSWER_BYTES:
            raise BadMessage(f"the answer to a check has {ANSWER_BYTES} bytes. Got {len(answer)} instead.")
        choices = np.frombuffer(answer, np.uint64, CHOICE_BITS * DIGEST_BYTES // 8).reshape(CHOICE_BITS, -1)
        expected = digests(self._kept, self._seed)
        expected ^= self._public.code.times(choices) & self._mask
        if not hmac.compare_digest(hashlib.sha256(expected.tobytes()).digest(), answer[-32:]):
            raise BadMessage("its columns are not those of one store")
        self._kept = np.empty((0, 0), np.uint8)
        self._passed = True

    def evaluate(self, items: Blocks) -> Blocks:
        """Return F at any items, for this store."""
        if not self._passed:
            raise ParameterError("nothing is evaluated before the columns are checked")
        shape = self._layout.shape
        inputs = decode(shape, self._rows, shape.positions(items, self._family, PLACES_TWEAK))
        inputs ^= selected(self._images, values_of(items, self._family))
        return self._public.hash.hash(inputs, items)


def values_of(items: Blocks, family: TweakedHash) -> Words:
    """Return h of each item: what the receiver's store has for it."""
    return np.ascontiguousarray(family.hash(items, np.full(len(items), VALUE_TWEAK, np.uint64))[:, 0])


class _Streams:
    """The pseudo-random bytes of each column, read in step."""

    def __init__(self, keys: Blocks) -> None:
        self._streams = [
            Cipher(algorithms.AES(key.tobytes()), modes.CTR(bytes(BLOCK_BYTES))).encryptor() for key in keys
        ]
        self._room = np.empty((len(keys), _BLOCK + BLOCK_BYTES), np.uint8)  # OpenSSL wants a block more

    def read(self, width: int) -> Columns:
        """Return the next `width` bytes of each column."""
        zeros = bytes(width)
        for stream, row in zip(self._streams, self._room, strict=True):
            stream.update_into(zeros, row[: width + BLOCK_BYTES].data)
        return np.ascontiguousarray(self._room[:, :width]).view(np.uint64)
