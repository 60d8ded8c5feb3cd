"""Sizes of memory as a job file writes them, and the least that an engine takes."""

from __future__ import annotations

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
