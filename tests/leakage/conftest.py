"""Sessions are recorded once for all tests of a process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from leakage.coins import Recording, Tapes
from leakage.figures import staged
from leakage.sessions import SESSIONS


@pytest.fixture(scope="session")
def recordings() -> Callable[[str, int], Recording]:
    """A session with a set of private data, on the same tapes as every other."""

    @cache
    def played(name: str, private: int) -> Recording:
        with staged() as stages:
            return replace(SESSIONS[name].play(private, Tapes()), stages=stages)

    return played
