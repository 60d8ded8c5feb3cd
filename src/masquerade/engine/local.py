"""All cores of this machine: kernels run in threads, on chunks in memory, and beyond the stated memory on the disk.

numpy and Arrow let go of Python's lock while they work on an array, so threads share the cores. The stated memory is
what the whole process may hold, Python and its libraries included. Of what those leave, half holds chunks; arrays that
do not fit are written to a folder that only we may read, and mapped for as long as a kernel looks at them. A quarter is
for what kernels make on the way, all threads together, and a quarter for what is added up.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from functools import cache, partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from masquerade.engine.chunks import (
    LEAST_MEMORY,
    Arrays,
    Chunk,
    Chunks,
    Engine,
    Kernel,
    Loader,
    concatenated,
    one_for_each,
    size_text,
    summed,
)
from masquerade.errors import ParameterError, Problem

# --- allocation ---------------------------------------------------------------------------------------------
# Give memory back to the system after each pass, so that a process holds what it uses, and little more.
#
# The C library keeps what is freed for later, in a heap of each thread, and Arrow has an allocator of its
# own that keeps even more. Within a pass that is good: the next array takes the place of the last. After
# many passes it adds a third to the memory of a process that makes and drops large arrays of different
# sizes.


def return_free_memory() -> None:
    """Return what is free to the system."""
    pa.default_memory_pool().release_unused()
    _trim()(0)


@cache
def _trim() -> Callable[[int], object]:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):  # not the GNU C library; others return memory by themselves
        return lambda _: None


# --- local --------------------------------------------------------------------------------------------------

Result = TypeVar("Result")

_ITSELF = 160 << 20  # Python, Arrow, numpy and our own code, before any row is read
MOST_ROWS = 1 << 20  # of a chunk: larger ones gain nothing
_LEAST_ROWS = 1 << 12
_LEAST_OF_THREAD = 48 << 20  # bytes: where there are fewer, fewer threads run
_HELD, _MADE, _ADDED = 0.5, 0.25, 0.25  # shares of the rest: for chunks, for kernels, for what is added up


class LocalEngine(Engine):
    """Threads of this process, within a stated memory."""

    name = "local"

    def __init__(self, memory: int = 8 << 30, threads: int | None = None, folder: Path | None = None) -> None:
        """`memory` in bytes is what this process may hold; the rest is written into a folder inside `folder`."""
        if memory < LEAST_MEMORY:
            text = f"at least {size_text(LEAST_MEMORY)}"
            raise ParameterError(Problem(allowed=text, found=f'"{size_text(memory)}"', key=("engine", "memory")))
        pa.set_memory_pool(pa.system_memory_pool())  # Arrow asks the C library, as numpy does, from now on
        self.memory = memory
        self._rest = memory - _ITSELF
        self.threads = threads or min(os.cpu_count() or 1, self._rest // _LEAST_OF_THREAD)
        self.summing_memory = int(self._rest * _ADDED)
        self._pool = ThreadPoolExecutor(self.threads, "engine")
        self._spilled = _Spilled(int(self._rest * _HELD), folder)

    def load(self, loaders: Sequence[Loader[Result]]) -> tuple[Chunks, list[Result]]:
        """Load chunks, as many at a time as there are threads."""

        def load(loader: Loader[Result]) -> tuple[_LocalChunk, Result]:
            arrays, told = loader()
            return _LocalChunk(self._spilled, arrays), told

        loaded = self.run([partial(load, loader) for loader in loaders])
        return LocalChunks(self, [chunk for chunk, _ in loaded]), [told for _, told in loaded]

    def run(self, tasks: Sequence[Callable[[], Result]], *, quietly: bool = False) -> list[Result]:
        """Run tasks in the threads; the first that fails ends those that have not begun."""
        futures: list[Future[Result]] = [self._pool.submit(task) for task in tasks]
        try:
            for done, future in enumerate(as_completed(futures), start=1):
                future.result()
                if not quietly:
                    self.tell(done, len(futures))
        except BaseException:
            for future in futures:
                future.cancel()
            raise
        return_free_memory()
        return [future.result() for future in futures]

    def insist_on_summing(self, needed: int, what: str) -> None:
        """Raise if `what` takes more bytes than may be held for what is added up."""
        if needed > self.summing_memory:
            self.refuse_memory(needed / self.summing_memory, f"; {what} take about {size_text(needed, whole=True)}")

    def insist_on_room(self, needed: int, what: str) -> None:
        """Raise if `what` takes more bytes than the chunks leave, while no kernel runs."""
        held = self._spilled.held
        if needed > self._rest - held:
            # More memory would also hold more of what is on the disk: half of it.
            enough = needed / (1 - _HELD) if self._spilled.folder is not None else held + needed
            self.refuse_memory(enough / self._rest, f"; {what} take about {size_text(needed, whole=True)}")

    def refuse_memory(self, times: float, why: str) -> NoReturn:
        """Raise, because it would take `times` the memory that Python leaves."""
        enough = size_text(_ITSELF + int(self._rest * times), whole=True)
        found = f'"{size_text(self.memory)}"'
        raise ParameterError(Problem(why, allowed=f"at least {enough} for this", found=found, key=("engine", "memory")))

    def rows_at_once(self, bytes_per_row: int) -> int:
        """Return how many rows a chunk may have so that one for each thread fits what kernels may make."""
        fitting = int(self._rest * _MADE) // (self.threads * max(bytes_per_row, 1))
        return max(min(fitting, MOST_ROWS), _LEAST_ROWS)

    def __exit__(self, *_: object) -> None:
        """Let go of all chunks, and remove what was written of them."""
        self._pool.shutdown(cancel_futures=True)
        self._spilled.remove()


class LocalChunks(Chunks):
    """Chunks of this process."""

    def __init__(self, engine: LocalEngine, chunks: Sequence[_LocalChunk]) -> None:
        self._engine, self._chunks = engine, chunks

    def __len__(self) -> int:
        return len(self._chunks)

    def each(self, kernel: Kernel[Result] | Sequence[Kernel[Result]]) -> list[Result]:
        """Run the kernel on every chunk."""
        kernels = one_for_each(kernel, len(self))
        return self._engine.run([partial(each, chunk) for each, chunk in zip(kernels, self._chunks, strict=True)])

    def only(self, at: int, kernel: Kernel[Result]) -> Result:
        """Run the kernel on one chunk."""
        return kernel(self._chunks[at])

    def total(self, kernel: Kernel[Result]) -> Result:
        """Add up in each thread, then those sums: no more than one for each thread is held."""
        waiting, lock = iter(self._chunks), threading.Lock()
        done = 0

        def add_up() -> list[Result]:
            nonlocal done
            so_far: list[Result] = []
            while True:
                with lock:
                    chunk = next(waiting, None)
                if chunk is None:
                    return so_far
                counted = kernel(chunk)
                so_far = [summed([*so_far, counted])] if so_far else [counted]
                with lock:
                    done += 1
                    self._engine.tell(done, len(self))

        sums = self._engine.run([add_up] * min(self._engine.threads, len(self)), quietly=True)
        return summed([each for some in sums for each in some])  # type: ignore[no-any-return]

    def change(self, kernel: Kernel[Arrays] | Sequence[Kernel[Arrays]]) -> None:
        """Run the kernel on every chunk and keep what it makes."""
        kernels = one_for_each(kernel, len(self))

        def change(kernel: Kernel[Arrays], chunk: _LocalChunk) -> None:
            chunk.update(kernel(chunk))

        self._engine.run([partial(change, *both) for both in zip(kernels, self._chunks, strict=True)])

    def derive(self, kernel: Kernel[Arrays]) -> Chunks:
        """Run the kernel on every chunk, and keep what it makes beside them."""

        def derive(chunk: _LocalChunk) -> _LocalChunk:
            return _LocalChunk(self._engine._spilled, kernel(chunk))

        return LocalChunks(self._engine, self._engine.run([partial(derive, chunk) for chunk in self._chunks]))

    def exchange(self, kernels: Sequence[Kernel[list[Arrays]]], n_chunks: int) -> Chunks:
        """Keep all pieces, where they do not fit on the disk, and put those of each new chunk together."""
        spilled = self._engine._spilled

        def scatter(kernel: Kernel[list[Arrays]], chunk: _LocalChunk) -> list[_LocalChunk]:
            return [_LocalChunk(spilled, piece) for piece in kernel(chunk)]

        pieces = self._engine.run([partial(scatter, *both) for both in zip(kernels, self._chunks, strict=True)])

        def gather(at: int) -> _LocalChunk:
            own = [each[at] for each in pieces]
            made = _LocalChunk(spilled, concatenated([dict(piece) for piece in own]))
            for piece in own:
                piece.drop()
            return made

        return LocalChunks(self._engine, self._engine.run([partial(gather, at) for at in range(n_chunks)]))

    def join(self, other: Chunks, kernel: Callable[[Chunk, Chunk], Arrays]) -> None:
        """Run the kernel on the chunks of both."""
        assert isinstance(other, LocalChunks)

        def join(mine: _LocalChunk, theirs: _LocalChunk) -> None:
            mine.update(kernel(mine, theirs))

        self._engine.run([partial(join, *both) for both in zip(self._chunks, other._chunks, strict=True)])

    def drop(self) -> None:
        """Let go of all arrays, in memory and on the disk."""
        for chunk in self._chunks:
            chunk.drop()
        self._chunks = []


class _Spilled:
    """How much is held in memory, and the folder for the rest."""

    def __init__(self, most: int, folder: Path | None) -> None:
        self.held = 0  # bytes of the arrays in memory
        self.folder: tempfile.TemporaryDirectory[str] | None = None  # made for the first array that is written
        self._most, self._files = most, 0
        self._parent = folder
        self._lock = threading.Lock()

    def put(self, array: NDArray[Any]) -> NDArray[Any] | Path:
        """Keep an array in memory if there is room, else on the disk."""
        with self._lock:
            if self.held + array.nbytes <= self._most:
                self.held += array.nbytes
                return array
            if self.folder is None:
                self.folder = tempfile.TemporaryDirectory(prefix="masquerade-", dir=self._parent)
            self._files += 1
            path = Path(self.folder.name) / f"{self._files}.npy"
        np.save(path, array, allow_pickle=False)
        return path

    def drop(self, kept: NDArray[Any] | Path) -> None:
        """Let go of an array."""
        if isinstance(kept, Path):
            kept.unlink()
            return
        with self._lock:
            self.held -= kept.nbytes

    def remove(self) -> None:
        """Remove the folder."""
        if self.folder is not None:
            self.folder.cleanup()


class _LocalChunk(Mapping[str, NDArray[Any]]):
    """The arrays of one chunk, each in memory or mapped from the disk when it is asked for."""

    def __init__(self, spilled: _Spilled, arrays: Arrays) -> None:
        self._spilled = spilled
        self._kept: dict[str, NDArray[Any] | Path] = {}
        self.update(arrays)

    def update(self, arrays: Arrays) -> None:
        for name, array in arrays.items():
            kept = self._spilled.put(array)
            if name in self._kept:
                self._spilled.drop(self._kept[name])
            self._kept[name] = kept

    def drop(self) -> None:
        """Let go of all arrays."""
        for kept in self._kept.values():
            self._spilled.drop(kept)
        self._kept.clear()

    def __getitem__(self, name: str) -> NDArray[Any]:
        kept = self._kept[name]
        if isinstance(kept, Path):
            mapped: NDArray[Any] = np.load(kept, mmap_mode="r")
            return mapped
        return kept

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)
