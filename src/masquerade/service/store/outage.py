"""A database that is away, as opposed to a mistake of ours.

Whoever meets an outage has stored nothing that it can be sure of. Nothing is decided then; it is looked at again when
the database is back, where the row's version says whether the move was made after all.
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
    """Whether the database is the matter: it does not answer, or cannot be read or written now."""
    return isinstance(error, DBAPIError | NoConnection) and not isinstance(error, _OURS)
