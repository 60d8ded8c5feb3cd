"""Rows in chunks that stay where they are: the one interface that algorithms see of an engine.

A chunk is a mapping from names to integer arrays of equal length: ranks, codes, the group of each row. It stays in the
memory or on the disk of whoever loaded it. A **kernel** is a function of one chunk: it returns something small that
adds up over chunks (`total`), something small for each chunk (`each`), or arrays that the chunk has from then on
(`change`). Nothing else comes back.

    engine.load(loaders) ──> chunks ──total(kernel)──> counts
                               │  ▲
                               └──┴─change(kernel): group labels by an instruction

Loaders and kernels are picklable and give the same answer whenever they are run, so a chunk that was lost with its
machine is made again from its loader and the changes since. `Here` runs them at once on a table in memory, `local.py`
on the threads of this machine, `cluster.py` on the workers of a Dask cluster.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial, reduce
from itertools import pairwise
from operator import add
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from masquerade.engine.counts import Counts, Ints, occurring

# --- sparse -------------------------------------------------------------------------------------------------
# Counts of those keys that occur: additive like `counts.py`, where a table of all keys would be mostly
# empty.


@dataclass(frozen=True, eq=False)
class SparseCounts:
    """The keys that some row has, in ascending order, and the number of rows with each."""

    keys: Counts
    counts: Counts

    @classmethod
    def of(cls, keys: Ints, bound: int) -> SparseCounts:
        """Count the rows with each key below `bound`."""
        found, counts = occurring(keys, bound)
        return cls(found.astype(np.int64, copy=False), counts)

    def __add__(self, other: SparseCounts) -> SparseCounts:
        return self.sum_of([self, other])

    @classmethod
    def sum_of(cls, several: Sequence[SparseCounts]) -> SparseCounts:
        """Add up the counts of several chunks of rows."""
        keys = np.concatenate([each.keys for each in several])
        counts = np.concatenate([each.counts for each in several])
        order = np.argsort(keys, kind="stable")
        keys, counts = keys[order], counts[order]
        starts = np.flatnonzero(np.diff(keys, prepend=-1))  # keys are not negative
        return cls(keys[starts], np.add.reduceat(counts, starts) if starts.size else counts)

    def dense(self, n_groups: int, n_values: int) -> Counts:
        """Return all counts as a table, where a key is a group's number times the number of values, plus the value."""
        table = np.zeros(n_groups * n_values, np.int64)
        table[self.keys] = self.counts
        return table.reshape(n_groups, n_values)


# --- chunks -------------------------------------------------------------------------------------------------

Result = TypeVar("Result")

Chunk = Mapping[str, NDArray[Any]]
Arrays = dict[str, NDArray[Any]]
Kernel = Callable[[Chunk], Result]
Loader = Callable[[], tuple[Arrays, Result]]  # a chunk, and what is to be known of it
OnChunk = Callable[[int, int], None]  # how many chunks are done, of how many


class Chunks(ABC):
    """The rows of a table in chunks, in order."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of chunks."""

    @abstractmethod
    def each(self, kernel: Kernel[Result] | Sequence[Kernel[Result]]) -> list[Result]:
        """Return what the kernel gives for each chunk, in order; or a kernel of its own for each."""

    @abstractmethod
    def only(self, at: int, kernel: Kernel[Result]) -> Result:
        """Return what the kernel gives for one chunk."""

    @abstractmethod
    def total(self, kernel: Kernel[Result]) -> Result:
        """Add up what the kernel gives for each chunk."""

    @abstractmethod
    def change(self, kernel: Kernel[Arrays] | Sequence[Kernel[Arrays]]) -> None:
        """Give each chunk the arrays that the kernel makes of it, in place of those with the same names."""

    @abstractmethod
    def derive(self, kernel: Kernel[Arrays]) -> Chunks:
        """Return further chunks, each with the arrays that the kernel makes of one of these; these stay as they are."""

    @abstractmethod
    def exchange(self, kernels: Sequence[Kernel[list[Arrays]]], n_chunks: int) -> Chunks:
        """Make new chunks of the rows: each kernel cuts its chunk into one piece for each of the new ones, in order."""

    @abstractmethod
    def join(self, other: Chunks, kernel: Callable[[Chunk, Chunk], Arrays]) -> None:
        """Give each chunk the arrays that the kernel makes of it and of the other's chunk at the same place."""

    @abstractmethod
    def drop(self) -> None:
        """Let go of the chunks, of which nobody wants to know anything any more."""


class Engine(AbstractContextManager["Engine"], ABC):
    """Where counting runs."""

    name: str
    on_chunk: OnChunk | None = None  # told how far a pass over the chunks has got
    summing_memory: int = 1 << 30  # bytes that whoever adds up may hold for it

    @abstractmethod
    def load(self, loaders: Sequence[Loader[Result]]) -> tuple[Chunks, list[Result]]:
        """Load each chunk where it is to stay. Return them, and what their loaders tell of each."""

    @abstractmethod
    def run(self, tasks: Sequence[Callable[[], Result]]) -> list[Result]:
        """Run tasks that need no chunk, and return their small results in order."""

    @abstractmethod
    def rows_at_once(self, bytes_per_row: int) -> int:
        """Return how many rows a chunk may have so that all that are in work at once fit the memory."""

    def insist_on_summing(self, needed: int, what: str) -> None:
        """Raise if `what` takes more bytes than may be held for what is added up."""

    def insist_on_room(self, needed: int, what: str) -> None:
        """Raise if `what` takes more bytes than the chunks leave, while no kernel runs."""

    def refuse_memory(self, times: float, why: str) -> None:
        """Raise where memory is stated, because it would take `times` of it."""

    def check_files(self, paths: Sequence[str]) -> None:
        """Raise unless every place where kernels run can read these files."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of all chunks."""

    def tell(self, done: int, total: int) -> None:
        """Report progress."""
        if self.on_chunk is not None:
            self.on_chunk(done, total)


def concatenated(pieces: Sequence[Arrays]) -> Arrays:
    """Return one chunk of several pieces with the same arrays."""
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}


def summed(results: Sequence[Any]) -> Any:
    """Add up the results of several chunks."""
    if len(results) > 1 and isinstance(results[0], SparseCounts):
        return SparseCounts.sum_of(results)  # sorted once
    if results and isinstance(results[0], tuple):
        return tuple(summed(parts) for parts in zip(*results, strict=True))
    return reduce(add, results)


def one_for_each(kernel: Any, n_chunks: int) -> Sequence[Any]:
    """Return a kernel for every chunk."""
    return kernel if isinstance(kernel, Sequence) else [kernel] * n_chunks


# --- here ---------------------------------------------------------------------------------------------------
# A table in memory as one chunk: kernels run at once, where they are called, and arrays are kept as they are. There are
# no threads, no memory to keep within, and nothing is copied: what a kernel gives is what the chunk has.

_NO_BOUND = 1 << 60  # rows, or bytes: the table is in memory already, with whatever is made of it


class Here(Engine):
    """This thread, on arrays that somebody holds anyway."""

    name = "here"
    summing_memory = _NO_BOUND

    def load(self, loaders: Sequence[Loader[Result]]) -> tuple[HereChunks, list[Result]]:
        """Load chunks, as a rule one."""
        loaded = [loader() for loader in loaders]
        return HereChunks([arrays for arrays, _ in loaded]), [told for _, told in loaded]

    def hold(self, arrays: Arrays) -> HereChunks:
        """Return one chunk of these arrays."""
        return HereChunks([dict(arrays)])

    def run(self, tasks: Sequence[Callable[[], Result]]) -> list[Result]:
        """Run the tasks one after the other."""
        return [task() for task in tasks]

    def rows_at_once(self, bytes_per_row: int) -> int:
        """Return a number that no table exceeds: all rows are here."""
        return _NO_BOUND


class HereChunks(Chunks):
    """Chunks of whoever asks: as a rule one, all rows of a table."""

    def __init__(self, chunks: Sequence[Arrays]) -> None:
        self._chunks = list(chunks)

    def __len__(self) -> int:
        return len(self._chunks)

    def each(self, kernel: Kernel[Result] | Sequence[Kernel[Result]]) -> list[Result]:
        """Run the kernel on every chunk."""
        kernels = one_for_each(kernel, len(self))
        return [each(chunk) for each, chunk in zip(kernels, self._chunks, strict=True)]

    def only(self, at: int, kernel: Kernel[Result]) -> Result:
        """Run the kernel on one chunk."""
        return kernel(self._chunks[at])

    def total(self, kernel: Kernel[Result]) -> Result:
        """Add up what the kernel gives; of one chunk that is the sum."""
        if len(self._chunks) == 1:
            return kernel(self._chunks[0])
        return summed(self.each(kernel))  # type: ignore[no-any-return]

    def change(self, kernel: Kernel[Arrays] | Sequence[Kernel[Arrays]]) -> None:
        """Run the kernel on every chunk and keep what it makes."""
        for each, chunk in zip(one_for_each(kernel, len(self)), self._chunks, strict=True):
            chunk.update(each(chunk))

    def derive(self, kernel: Kernel[Arrays]) -> HereChunks:
        """Run the kernel on every chunk, and keep what it makes beside them."""
        return HereChunks([dict(kernel(chunk)) for chunk in self._chunks])

    def exchange(self, kernels: Sequence[Kernel[list[Arrays]]], n_chunks: int) -> HereChunks:
        """Put the pieces of each new chunk together; one piece is a chunk as it is."""
        pieces = [kernel(chunk) for kernel, chunk in zip(kernels, self._chunks, strict=True)]
        if len(pieces) == 1:
            return HereChunks(pieces[0])
        return HereChunks([concatenated([each[at] for each in pieces]) for at in range(n_chunks)])

    def join(self, other: Chunks, kernel: Callable[[Chunk, Chunk], Arrays]) -> None:
        """Run the kernel on the chunks of both."""
        assert isinstance(other, HereChunks)
        for mine, theirs in zip(self._chunks, other._chunks, strict=True):
            mine.update(kernel(mine, theirs))

    def drop(self) -> None:
        """Let go of all arrays."""
        self._chunks.clear()


# --- shares -------------------------------------------------------------------------------------------------
# Counts of more keys than may be held at once: a share of the keys in each pass over the chunks.
#
# There may be as many keys as rows. Adding up chunks takes a few times the memory of the sum, so where all keys
# would be too many, each pass counts those of one range. Ranges are cut where the keys of the first chunk suggest,
# hence all have about as many; they are in ascending order, and so is what they give together.

_BYTES_PER_KEY = 64  # while counts of chunks are added up
_SAMPLED = 1 << 12  # keys by which ranges are cut
_WHOLE = np.iinfo(np.int64).max


def counted_shares(
    chunks: Chunks, kernel: Kernel[SparseCounts], engine: Engine, unit: int = 1
) -> Iterator[SparseCounts]:
    """Yield the counts of all keys, range by range; keys that are equal when divided by `unit` stay together."""
    if not len(chunks):
        return
    if isinstance(engine, Here):  # the rows are in memory, and so are their keys
        yield chunks.total(kernel)
        return
    n_keys, some = chunks.only(0, partial(_outline, kernel=kernel))
    shares = -(-n_keys * len(chunks) * _BYTES_PER_KEY // engine.summing_memory)
    if shares <= 1:
        yield chunks.total(kernel)
        return
    places = np.arange(1, shares) * some.size // shares
    ends = np.unique(some[places] // unit) * unit
    for lo, hi in pairwise([0, *ends.tolist(), _WHOLE]):
        yield chunks.total(partial(_within, kernel=kernel, lo=lo, hi=hi))


def counted_keys(chunks: Chunks, kernel: Kernel[SparseCounts], engine: Engine) -> SparseCounts:
    """Return the counts of all keys, which the caller must be able to hold."""
    parts = list(counted_shares(chunks, kernel, engine))
    if len(parts) == 1:
        return parts[0]
    empty: Counts = np.empty(0, np.int64)
    keys = np.concatenate([empty, *(each.keys for each in parts)])
    return SparseCounts(keys, np.concatenate([empty, *(each.counts for each in parts)]))


def _outline(chunk: Chunk, *, kernel: Kernel[SparseCounts]) -> tuple[int, Counts]:
    """Tell how many keys a chunk has, and some of them, evenly spread."""
    keys = kernel(chunk).keys
    return keys.size, keys[:: max(keys.size // _SAMPLED, 1)].copy()


def _within(chunk: Chunk, *, kernel: Kernel[SparseCounts], lo: int, hi: int) -> SparseCounts:
    """Count the keys of one range."""
    counted = kernel(chunk)
    first, last = np.searchsorted(counted.keys, [lo, hi])
    return SparseCounts(counted.keys[first:last].copy(), counted.counts[first:last].copy())


# --- memory size --------------------------------------------------------------------------------------------
# Sizes of memory as a job file writes them, and the least that an engine takes.

LEAST_MEMORY = 512 << 20  # Python, Arrow and numpy take a third of that before any row is read
_UNITS = {"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}


def size_text(size: int, *, whole: bool = False) -> str:
    """Write a number of bytes as a job file does: `512MB`, `8GB`; with `whole`, the next larger one in few digits."""
    if whole:
        parts = 1024 if size < 1 << 30 else 10
        size = -(-size * parts // (1 << 30)) * (1 << 30) // parts
    for unit, value in reversed(_UNITS.items()):
        if size >= value:
            return f"{size // value}{unit}" if size % value == 0 else f"{size / value:.1f}{unit}"
    return f"{size}B"


def read_size(text: str) -> int:
    """Read `512MB` or `1.5 GB`; raise ValueError if it is no size."""
    written = text.strip().upper()
    for unit, value in _UNITS.items():
        if written.endswith(unit):
            number = float(written.removesuffix(unit))
            if not 0 < number < 1 << 40:
                raise ValueError(text)
            return int(number * value)
    raise ValueError(text)
