"""Distinguish a database outage from a mistake of ours.

After an outage it is uncertain whether a change was stored. Nothing is decided then; it is checked again when the
database is back, where the row's version says whether the move was made after all.
"""

from __future__ import annotations

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, NotSupportedError, ProgrammingError
from sqlalchemy.exc import TimeoutError as NoConnection

_OURS = (
    DataError,
    IntegrityError,
    NotSupportedError,
    ProgrammingError,
)  # a statement that is wrong stays wrong


def is_outage(error: BaseException) -> bool:
    """Return whether the database is at fault: it does not answer, or cannot be read or written now."""
    return isinstance(error, DBAPIError | NoConnection) and not isinstance(error, _OURS)
