"""Passwords for tests, how a refusal reads, and all that the store keeps of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from argon2 import PasswordHasher
from sqlalchemy import create_engine, text

from masquerade.errors import NotAllowed
from masquerade.service.accounts import Lockout

RIGHT = "correct horse battery"
WRONG = "wrong horse battery"
CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)  # tests sign in often
LOCKOUT = Lockout(failures=3, window=timedelta(minutes=10), first=timedelta(minutes=1), longest=timedelta(minutes=5))


def refusal(act: Callable[[], Any]) -> str:
    """What somebody is told who is not let in."""
    with pytest.raises(NotAllowed) as refused:
        act()
    return str(refused.value)


def everything_stored(database_url: str) -> str:
    """All that the store keeps of credentials, as text to search in."""
    engine = create_engine(database_url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as connection:
        rows = [
            connection.execute(text(f'SELECT * FROM "{table}"')).all() for table in ("users", "api_tokens", "guards")
        ]
    engine.dispose()
    return repr(rows)
