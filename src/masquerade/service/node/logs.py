"""A node's log: JSON lines, or lines for a person at a terminal, on standard error. Never a value of a table."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog


def configure(*, as_json: bool) -> None:
    """Set the log up for this process."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    # The trace of an exception may hold values: kinds are told, traces are not.
    rendering: Any = (
        structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=False)
    )
    structlog.configure(
        processors=[*shared, rendering],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=_printer,
        cache_logger_on_first_use=False,
    )


def _printer(*_: Any) -> Any:
    """Standard error as it is now; whoever started us may have closed it."""
    return structlog.PrintLogger(sys.stderr) if sys.stderr is not None else structlog.ReturnLogger()


def log() -> Any:
    """The node's log."""
    return structlog.get_logger()
