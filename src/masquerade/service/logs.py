"""The log of a node or a coordinator: JSON lines, or lines for a person at a terminal, on standard error.

Never a value of a table: libraries that log (the HTTP server, the event loop) are told by kind and first line alone,
because their traces and the objects that they show may hold anything.
"""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
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
    root = logging.getLogger()
    root.handlers = [each for each in root.handlers if not isinstance(each, _Libraries)] + [_Libraries()]


class _Libraries(logging.Handler):
    """Takes in what libraries log, from warnings upwards."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        """Tell it in our own form."""
        with suppress(Exception):  # a log must not end what it tells of
            kind = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else None
            told = record.getMessage().partition("\n")[0]
            log().log(record.levelno, told, library=record.name, kind=kind)


def _printer(*_: Any) -> Any:
    """Standard error as it is now; whoever started us may have closed it."""
    return structlog.PrintLogger(sys.stderr) if sys.stderr is not None else structlog.ReturnLogger()


def log() -> Any:
    """The node's log."""
    return structlog.get_logger()
