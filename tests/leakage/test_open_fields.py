"""Open and public fields: a simulator makes every view, byte for byte, from what docs/leakage.md grants."""

from __future__ import annotations

from typing import Any

import pytest

from leakage.frozen import Frozen
from leakage.sessions import SESSIONS
from leakage.views import compare

FROZEN = Frozen.read()


@pytest.mark.parametrize("name", SESSIONS)
@pytest.mark.parametrize("which", [0, 1])
def test_a_simulator_makes_every_view(name: str, which: int, recordings: Any) -> None:
    private = FROZEN.sessions[name]["private"][which]
    recording = recordings(name, private)
    compare(recording, SESSIONS[name].simulate(private, recording), FROZEN)
