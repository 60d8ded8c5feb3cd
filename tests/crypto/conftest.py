from __future__ import annotations

import pytest

from crypto.two_parties import Transfers, set_up


@pytest.fixture(scope="module")
def transfers() -> Transfers:
    """One setup for many uses, as in a session."""
    return set_up()
