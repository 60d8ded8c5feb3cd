"""The workers of a Dask cluster: kernels run where the chunks are, and nothing but their small results comes back.

A chunk is a future. A change makes another future of it; the scheduler remembers from which, back to the loader, so
what a lost worker held is made again from the files and the changes since. Loaders and kernels are functions of this
package: all workers need the same version of it, and see the files under the same names as we do.
"""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from operator import getitem
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from masquerade.engine.chunks import Arrays, Chunk, Chunks, Engine, Kernel, Loader, concatenated, one_for_each, summed
from masquerade.engine.local import MOST_ROWS
from masquerade.errors import ClusterError, MasqueradeError, ParameterError, Problem, given

Result = TypeVar("Result")
Future = Any  # Dask ships no complete types

_ADDRESS = ("engine", "address")
_SAME = ("distributed", "numpy", "pyarrow", "masquerade")  # packages whose versions must be ours
_CONNECT = 10.0  # seconds
_SUMMED_AT_ONCE = 8
_SHARE_OF_WORKER = 0.1  # of a worker's memory for one chunk that is being read
_RETRIES = 2  # of a task whose worker failed it, as when a file could not be read for a moment


class DaskEngine(Engine):
    """A Dask cluster, by the address of its scheduler."""

    name = "dask"

    def __init__(self, address: str, connect: float = _CONNECT) -> None:
        """Connect; raise ClusterError unless there are workers like us, ParameterError for no address at all."""
        if ":" not in address:
            allowed = 'the address of a Dask scheduler, such as "tcp://10.0.0.5:8786"'
            raise ParameterError(Problem(allowed=allowed, found=given(address), key=("engine", "address")))
        try:
            from distributed import Client
        except ModuleNotFoundError:
            raise ParameterError(
                Problem(
                    'needs the extra dask; install "masquerade[dask]", or use name = "local"', key=("engine", "name")
                )
            ) from None
        self.address = address
        self._context = _quietly()
        self._context.__enter__()
        try:
            try:
                self.client: Any = Client(address, timeout=connect, set_as_default=False)  # type: ignore[no-untyped-call]
            except (OSError, ValueError, TimeoutError, asyncio.CancelledError):
                raise self._error("no Dask scheduler answers there; is it running?") from None
            try:
                self._check_workers()
            except BaseException:
                self.client.close()  # type: ignore[no-untyped-call]
                raise
        except BaseException:
            self._context.__exit__(None, None, None)
            raise

    @property
    def dashboard(self) -> str:
        """The address of the page that shows what the cluster does."""
        return str(self.client.dashboard_link)

    def _error(self, text: str) -> ClusterError:
        return ClusterError(Problem(f"{self.address}: {text}", key=_ADDRESS))

    def _check_workers(self) -> None:
        """Raise unless there is a worker, and all have our versions."""
        with suppress(TimeoutError):
            self.client.wait_for_workers(1, timeout=_CONNECT / 2)
        workers = self._workers()
        if not workers:
            raise self._error("the cluster has no worker; start one with `dask worker ADDRESS`")
        ours = _versions()
        try:
            theirs = self.client.run(_versions)
        except (ImportError, AttributeError, OSError, TimeoutError) as error:
            raise self._error(
                f"a worker cannot run our code ({_first_line(error)}); install masquerade {ours['masquerade']} there"
            ) from None
        for worker, versions in sorted(theirs.items()):
            for package, here in ours.items():
                if (there := versions.get(package)) != here:
                    raise self._error(
                        f"worker {worker} has {package} {there}, and this machine {here}; install the same versions"
                    )

    def _workers(self) -> dict[str, Any]:
        found: dict[str, Any] = self.client.scheduler_info(n_workers=-1)["workers"]
        return found

    def check_files(self, paths: Sequence[str]) -> None:
        """Raise unless every worker can read these files."""
        for worker, unreadable in sorted(self.client.run(_unreadable, list(paths)).items()):
            if unreadable:
                raise self._error(
                    f"worker {worker} cannot read {unreadable[0]}; all workers must see the files under the same names"
                )

    def load(self, loaders: Sequence[Loader[Result]]) -> tuple[Chunks, list[Result]]:
        """Load the chunks, spread over the workers."""
        with self._explaining():
            loaded = [self._submit(loader, retries=_RETRIES) for loader in loaders]
            told = self._results([self._submit(getitem, each, 1) for each in loaded])
            chunks = [self._submit(getitem, each, 0) for each in loaded]
        return DaskChunks(self, chunks), told

    def run(self, tasks: Sequence[Callable[[], Result]]) -> list[Result]:
        """Run tasks on any workers."""
        with self._explaining():
            return self._results([self._submit(task, retries=_RETRIES) for task in tasks])

    def rows_at_once(self, bytes_per_row: int) -> int:
        """Return how many rows take a small share of the least worker's memory."""
        limits = [each["memory_limit"] or 0 for each in self._workers().values()]
        least = min((limit for limit in limits if limit), default=8 << 30)
        fitting = int(least * _SHARE_OF_WORKER) // max(bytes_per_row, 1)
        return max(min(fitting, MOST_ROWS), 1 << 12)

    def _submit(self, function: Callable[..., Any], *arguments: Any, retries: int = 0) -> Future:
        """Have a function run where its arguments are.

        The dashboard and the logs show its name alone: Dask would take the text of the whole function.
        """
        name = f"{_name_of(function)}-{uuid4().hex}"
        return self.client.submit(_Named(function), *arguments, key=name, pure=False, retries=retries)

    def _results(self, futures: Sequence[Future]) -> list[Any]:
        """Gather results, telling how many are there."""
        from distributed import as_completed

        finished = as_completed(futures, loop=self.client.loop)  # type: ignore[no-untyped-call]
        for done, _ in enumerate(finished, start=1):
            self.tell(done, len(futures))
        gathered: list[Any] = self.client.gather(list(futures))
        return gathered

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Say what went wrong on the cluster in one line; our own errors come back as they are."""
        from distributed.client import FutureCancelledError
        from distributed.scheduler import KilledWorker

        try:
            yield
        except MasqueradeError:
            raise
        except KilledWorker as error:
            raise self._error(
                f"worker {error.last_worker.address} and others before it died at the same work; "
                "has each of them enough memory?"
            ) from None
        except MemoryError:
            raise self._error("a worker ran out of memory") from None
        except (OSError, TimeoutError, FutureCancelledError, asyncio.CancelledError) as error:
            raise self._error(f"the cluster failed: {_first_line(error)}") from None

    def __exit__(self, *_: object) -> None:
        """Let go of all chunks, and of the cluster."""
        self.client.close()
        self._context.__exit__(None, None, None)


class DaskChunks(Chunks):
    """Chunks on the workers of a cluster."""

    def __init__(self, engine: DaskEngine, chunks: Sequence[Future]) -> None:
        self._engine, self._chunks = engine, chunks

    def __len__(self) -> int:
        return len(self._chunks)

    def each(self, kernel: Kernel[Result] | Sequence[Kernel[Result]]) -> list[Result]:
        """Run the kernel on every chunk."""
        with self._engine._explaining():
            return self._engine._results(self._submitted(kernel))

    def only(self, at: int, kernel: Kernel[Result]) -> Result:
        """Run the kernel on one chunk, where it is."""
        with self._engine._explaining():
            given: Result = self._engine._submit(kernel, self._chunks[at]).result()
        return given

    def total(self, kernel: Kernel[Result]) -> Result:
        """Add up what the kernel gives, a few chunks at a time, on the workers."""
        with self._engine._explaining():
            parts = self._submitted(kernel)
            while len(parts) > 1:
                parts = [
                    self._engine._submit(summed, parts[at : at + _SUMMED_AT_ONCE])
                    for at in range(0, len(parts), _SUMMED_AT_ONCE)
                ]
            counted: Result = parts[0].result()
        self._engine.tell(len(self), len(self))
        return counted

    def change(self, kernel: Kernel[Arrays] | Sequence[Kernel[Arrays]]) -> None:
        """Run the kernel on every chunk and keep what it makes there."""
        kernels = one_for_each(kernel, len(self))
        with self._engine._explaining():
            self._chunks = self._submitted([partial(_changed, each) for each in kernels])

    def derive(self, kernel: Kernel[Arrays]) -> Chunks:
        """Run the kernel on every chunk; what it makes stays with the worker that ran it."""
        with self._engine._explaining():
            return DaskChunks(self._engine, self._submitted(kernel))

    def exchange(self, kernels: Sequence[Kernel[list[Arrays]]], n_chunks: int) -> Chunks:
        """Let the workers send each other the pieces."""
        submit = self._engine._submit
        with self._engine._explaining():
            scattered = self._submitted(kernels)
            made = [submit(concatenated, [submit(getitem, each, at) for each in scattered]) for at in range(n_chunks)]
        return DaskChunks(self._engine, made)

    def join(self, other: Chunks, kernel: Callable[[Chunk, Chunk], Arrays]) -> None:
        """Run the kernel on the chunks of both."""
        assert isinstance(other, DaskChunks)
        submit = self._engine._submit
        with self._engine._explaining():
            self._chunks = [
                submit(partial(_joined, kernel), mine, theirs)
                for mine, theirs in zip(self._chunks, other._chunks, strict=True)
            ]

    def drop(self) -> None:
        """Let the workers forget them, but for what other chunks are made again from."""
        self._chunks = []

    def _submitted(self, kernel: Any) -> list[Future]:
        kernels = one_for_each(kernel, len(self))
        submit = self._engine._submit
        return [submit(each, chunk) for each, chunk in zip(kernels, self._chunks, strict=True)]


@dataclass(frozen=True, repr=False)
class _Named:
    """A function of which texts show nothing but the name."""

    function: Callable[..., Any]

    def __repr__(self) -> str:
        return _name_of(self.function)

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)


def _name_of(function: Callable[..., Any]) -> str:
    """Return what a person may read of a function: its name, or that of the kernel that it applies."""
    if isinstance(function, partial):
        return _name_of(function.args[0] if function.args and callable(function.args[0]) else function.func)
    name = getattr(function, "__name__", type(function).__name__)
    return name.strip("_<>")


def _changed(kernel: Kernel[Arrays], chunk: Chunk) -> Arrays:
    return {**chunk, **kernel(chunk)}


def _joined(kernel: Callable[[Chunk, Chunk], Arrays], chunk: Chunk, other: Chunk) -> Arrays:
    return {**chunk, **kernel(chunk, other)}


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: version(name) for name in _SAME}}


def _unreadable(paths: Sequence[str]) -> list[str]:
    return [path for path in paths if not (Path(path).exists() and os.access(path, os.R_OK))]


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep Dask's own lines from standard error: what matters becomes one line of ours."""
    import logging
    import warnings

    known = ["distributed", *(name for name in logging.root.manager.loggerDict if name.startswith("distributed."))]
    levels = {logging.getLogger(name): logging.getLogger(name).level for name in known}
    for logger in levels:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")  # of loaders that bring their rows along
            yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)
