"""A table in memory as one chunk: kernels run at once, where they are called, and arrays are kept as they are.

There are no threads, no memory to keep within, and nothing is copied: what a kernel gives is what the chunk has. The
contract of `chunks.py` holds, so an algorithm over chunks is an algorithm over a table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from masquerade.engine.chunks import Arrays, Chunk, Chunks, Engine, Kernel, Loader, concatenated, one_for_each, summed

Result = TypeVar("Result")

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
