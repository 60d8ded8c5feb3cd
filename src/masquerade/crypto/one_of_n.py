"""1-out-of-N transfer: in each of many, the receiver takes one entry of a table; the sender does not learn which.

Naor, Pinkas, "Oblivious Transfer and Polynomial Evaluation" (STOC 1999). The ⌈log₂ N⌉ bits of the index choose from
as many pairs of random keys. With the table laid out as a rectangle, the upper bits' keys together make a row key for
each row, the lower bits' keys a column key for each column:

    row key  R_h = ⊕_i H(k_i^{h_i}, h),   column key C_l likewise,   mask of entry (h, l) = G(R_h)[l] ⊕ G(C_l)[h]

The receiver has one row key and one column key; every other entry is masked by a key that it lacks. The generator
runs over about 2·√N keys, not over N·log N, so that tables of bits cost little more than their own length.

Two messages: 16·⌈log₂ N⌉ bytes per transfer one way (IKNP), the masked tables back: N bits or N·size bytes each.
Semi-honest; a table's length N is public.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto.bits import Bits, digits, pack, unpack
from masquerade.crypto.hashing import Blocks, Bytes, TweakCounter, TweakedHash, derive_key
from masquerade.crypto.transfer_extension import ReceivedBatch, TransferReceiver, TransferSender
from masquerade.errors import BadMessage, ParameterError

_LONGEST = 1 << 32
_CHUNK = 1 << 22  # entries at a time


class _Layout:
    """The layout of N entries in a rectangle, row by row."""

    def __init__(self, entries: int) -> None:
        self.entries = entries
        self.digits = digits_of(entries)
        self.low = self.digits // 2
        self.high = self.digits - self.low
        self.columns = 1 << self.low
        self.rows = -(-entries // self.columns)


class _Keys:
    """Derives row and column keys and their masks, identically on both sides of a session."""

    def __init__(self, session: bytes) -> None:
        self._combine = TweakedHash(derive_key(session, b"one-of-n/keys"))
        self._expand = TweakedHash(derive_key(session, b"one-of-n/masks"))
        self.numbers = TweakCounter()  # of transfers

    def combine(self, keys: Blocks, first: int, side: int, values: NDArray[np.uint64]) -> Blocks:
        """Compute ⊕_i H(k_i, value) for consecutive transfers: keys uint64[digits, n, 2], values uint64[n]."""
        total = np.zeros(keys.shape[1:], np.uint64)
        numbers = np.arange(first, first + keys.shape[1], dtype=np.uint64)
        for place, key in enumerate(keys):
            tweaks = np.empty((len(numbers), 2), np.uint64)
            tweaks[:, 0] = numbers
            tweaks[:, 1] = (values << np.uint64(16)) | np.uint64(2 * place + side)
            total ^= self._combine.hash(key, tweaks)
        return total

    def mask(self, keys: Blocks, first: int, side: int, length: int, size: int | None) -> Bytes:
        """Expand each transfer's key to a mask, uint8[n, length, size]; without a size, bits, uint8[n, length, 1]."""
        needed = length * size if size is not None else -(-length // 8)
        tweaks = 2 * np.arange(first, first + len(keys), dtype=np.uint64) + np.uint64(side)
        words = self._expand.expand(keys, tweaks, -(-needed // 8))
        raw = np.ascontiguousarray(words).view(np.uint8)[:, :needed]
        if size is not None:
            return raw.reshape(len(keys), length, size)
        return np.unpackbits(raw, axis=1, count=length, bitorder="little")[:, :, None]


class TableSender:
    """Offers tables on top of extended transfers. `session` is the same text on both sides."""

    def __init__(self, session: bytes, transfers: TransferSender) -> None:
        self._keys = _Keys(session)
        self._transfers = transfers

    def offer(self, message: bytes, tables: Bytes) -> bytes:
        """Answer the receiver's message, for tables uint8[n, N, size]."""
        if tables.ndim != 3 or tables.dtype != np.uint8 or not tables.shape[2]:
            raise ParameterError(f"tables must be uint8[n, N, size]. Got {tables.dtype}{list(tables.shape)} instead.")
        return self._masked(message, tables, tables.shape[2])

    def offer_bits(self, message: bytes, tables: Bits) -> bytes:
        """Answer the receiver's message, for tables of bits uint8[n, N]."""
        if tables.ndim != 2 or tables.dtype != np.uint8 or (tables.size and tables.max() > 1):
            raise ParameterError(f"tables must be zeros and ones uint8[n, N]. Got {tables.dtype}{list(tables.shape)}.")
        return pack(np.frombuffer(self._masked(message, tables[:, :, None], None), np.uint8)).tobytes()

    def _masked(self, message: bytes, tables: Bytes, size: int | None) -> bytes:
        count, entries = tables.shape[:2]
        layout = _Layout(entries)
        batch = self._transfers.extend(message, count * layout.digits)
        first = self._keys.numbers.take(count)
        pairs = np.stack(batch.random()).reshape(2, layout.digits, count, 2)
        out = np.empty_like(tables)
        step = max(1, _CHUNK // (layout.rows * layout.columns * (size or 1)))
        for at in range(0, count, step):
            part = slice(at, min(at + step, count))
            masks = self._masks(pairs[:, :, part], first + at, layout, size)
            np.bitwise_xor(tables[part], masks[:, :entries], out=out[part])
        return out.tobytes()

    def _masks(self, pairs: Blocks, first: int, layout: _Layout, size: int | None) -> Bytes:
        count = pairs.shape[2]
        rows = self._side(pairs[:, layout.low :], first, 0, layout.rows, layout.columns, size)
        columns = self._side(pairs[:, : layout.low], first, 1, layout.columns, layout.rows, size)
        rows ^= columns.transpose(0, 2, 1, 3)
        return rows.reshape(count, layout.rows * layout.columns, -1)

    def _side(self, pairs: Blocks, first: int, side: int, keys: int, length: int, size: int | None) -> Bytes:
        """Return the masks of all keys of one side, uint8[n, keys, length, size]."""
        count = pairs.shape[2]
        out = np.empty((count, keys, length, size or 1), np.uint8)
        places = np.arange(pairs.shape[1])
        for value in range(keys):
            chosen = pairs[(value >> places) & 1, places]
            key = self._keys.combine(chosen, first, side, np.full(count, value, np.uint64))
            out[:, value] = self._keys.mask(key, first, side, length, size)
        return out


class TableReceiver:
    """Takes an entry of each table on top of extended transfers."""

    def __init__(self, session: bytes, transfers: TransferReceiver) -> None:
        self._keys = _Keys(session)
        self._transfers = transfers
        self._waiting: tuple[_Layout, NDArray[np.uint64], ReceivedBatch] | None = None

    def ask(self, indices: NDArray[np.uint64], entries: int) -> bytes:
        """Return the message that requests one of `entries` entries in each transfer."""
        if self._waiting is not None:
            raise ParameterError("the last tables were not received yet")
        layout = _Layout(entries)
        wanted = as_indices(indices, entries)
        message, batch = self._transfers.extend(digits(wanted, layout.digits).ravel())
        self._waiting = layout, wanted, batch
        return message

    def receive(self, message: bytes, size: int) -> Bytes:
        """Return the requested entries, uint8[n, size]."""
        layout, wanted, batch = self._asked()
        if len(message) != len(wanted) * layout.entries * size:
            raise BadMessage(
                f"{len(wanted)} tables of {layout.entries} entries of {size} bytes take "
                f"{len(wanted) * layout.entries * size} bytes. Got {len(message)} instead."
            )
        tables = np.frombuffer(message, np.uint8).reshape(len(wanted), layout.entries, size)
        return self._unmasked(layout, wanted, batch, tables, size)

    def receive_bits(self, message: bytes) -> Bits:
        """Return the requested bits, uint8[n]."""
        layout, wanted, batch = self._asked()
        total = len(wanted) * layout.entries
        if len(message) != -(-total // 8):
            raise BadMessage(
                f"{len(wanted)} tables of {layout.entries} bits take {-(-total // 8)} bytes. Got {len(message)}."
            )
        tables = unpack(np.frombuffer(message, np.uint8), total).reshape(len(wanted), layout.entries, 1)
        return self._unmasked(layout, wanted, batch, tables, None)[:, 0]

    def _asked(self) -> tuple[_Layout, NDArray[np.uint64], ReceivedBatch]:
        if self._waiting is None:
            raise ParameterError("no tables were asked for")
        return self._waiting

    def _unmasked(
        self, layout: _Layout, wanted: NDArray[np.uint64], batch: ReceivedBatch, tables: Bytes, size: int | None
    ) -> Bytes:
        self._waiting = None
        count = len(wanted)
        first = self._keys.numbers.take(count)
        keys = batch.random().reshape(layout.digits, count, 2)
        at = np.arange(count)
        row = (wanted >> np.uint64(layout.low)).astype(np.int64)
        column = (wanted & np.uint64(layout.columns - 1)).astype(np.int64)
        row_key = self._keys.combine(keys[layout.low :], first, 0, row.astype(np.uint64))
        column_key = self._keys.combine(keys[: layout.low], first, 1, column.astype(np.uint64))
        mask = self._keys.mask(row_key, first, 0, layout.columns, size)[at, column]
        mask ^= self._keys.mask(column_key, first, 1, layout.rows, size)[at, row]
        return np.asarray(tables[at, wanted.astype(np.int64)] ^ mask)


def digits_of(entries: int) -> int:
    """Return how many extended transfers a 1-out-of-`entries` transfer takes: ⌈log₂ entries⌉."""
    if not 1 <= entries <= _LONGEST:
        raise ParameterError(f"a table must have between 1 and 2^32 entries. Got {entries} instead.")
    return (entries - 1).bit_length()


def as_indices(indices: NDArray[np.uint64], entries: int) -> NDArray[np.uint64]:
    """Check that the indices lie in a table of `entries` entries, and return them."""
    array = np.asarray(indices)
    if array.shape == (0,):
        return np.zeros(0, np.uint64)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise ParameterError(f"indices must be a vector of whole numbers. Got {array.dtype}{list(array.shape)}.")
    if array.size and (int(array.min()) < 0 or int(array.max()) >= entries):
        raise ParameterError(f"indices must lie between 0 and {entries - 1}")
    return array.astype(np.uint64)
