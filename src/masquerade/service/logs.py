"""The log of a node or a coordinator: JSON lines, or lines for a person at a terminal, on standard error.

It never holds a value of a table: of what libraries log (the HTTP server, the event loop), only the kind and the first
line are kept, because their traces and the objects in them may hold anything.
"""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import Any

import structlog


def configure(*, as_json: bool) -> None:
    """Set up logging for this process."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    # The trace of an exception may hold values: only its kind is logged.
    rendering: Any = structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=False)
    structlog.configure(
        processors=[*shared, rendering],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=_printer,
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.handlers = [each for each in root.handlers if not isinstance(each, _Libraries)] + [_Libraries()]


class _Libraries(logging.Handler):
    """Forward what libraries log, from warnings upwards."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        """Log the record in our own format."""
        with suppress(Exception):  # logging must not abort the work it reports on
            kind = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else None
            told = record.getMessage().partition("\n")[0]
            log().log(record.levelno, told, library=record.name, kind=kind)


def _printer(*_: Any) -> Any:
    """Return a logger for the current standard error, which the parent process may have closed."""
    return structlog.PrintLogger(sys.stderr) if sys.stderr is not None else structlog.ReturnLogger()


def log() -> Any:
    """Return the process's log."""
    return structlog.get_logger()
