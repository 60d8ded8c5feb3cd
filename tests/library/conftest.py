"""A coordinator's API that answers, and a client of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import masquerade as mq
from library.live_api import LiveApi, live_api


@pytest.fixture(scope="session")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveApi]:
    """One server for all tests: each asks for sessions of its own."""
    with live_api(tmp_path_factory.mktemp("api"), requests_per_minute=100_000) as server:
        yield server


@pytest.fixture
def client(api: LiveApi) -> Iterator[mq.Client]:
    """The client of ana, an analyst."""
    with mq.Client(api.url, api.token) as connected:
        yield connected
