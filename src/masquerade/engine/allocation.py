"""Give memory back to the system after each pass, so that a process holds what it uses, and little more.

The C library keeps what is freed for later, in a heap of each thread, and Arrow has an allocator of its own that keeps
even more. Within a pass that is good: the next array takes the place of the last. After many passes it adds a third to
the memory of a process that makes and drops large arrays of different sizes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import pyarrow as pa


def allocate_plainly() -> None:
    """Have Arrow ask the C library for memory, as numpy does, from now on."""
    pa.set_memory_pool(pa.system_memory_pool())


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
