"""Sessions are recorded once for all tests of a process."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from leakage.coins import Recording, Tapes
from leakage.sessions import SESSIONS


@pytest.fixture(scope="session")
def recordings() -> Callable[[str, int], Recording]:
    """A session with a set of private data, on the same tapes as every other."""
    return cache(lambda name, private: SESSIONS[name].play(private, Tapes()))
