"""What tests of the readers share: a wish for every column, and the one line that a database's reader tells."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path

import pytest

from masquerade.data.read_sql import read_sql
from masquerade.errors import DataError


class _Every:
    def __contains__(self, name: object) -> bool:
        return True


EVERY_COLUMN: Container[str] = _Every()
"""For `coded`: every column of text as a dictionary of its distinct cells, whatever the columns are."""


def problem(url: str, query: str, base: Path = Path(), **options: object) -> str:
    """The one line that a query is refused with."""
    with pytest.raises(DataError) as caught:
        read_sql(url, query, base, **options)  # type: ignore[arg-type]
    assert len(caught.value.lines) == 1
    assert "\n" not in str(caught.value)
    return caught.value.lines[0]
