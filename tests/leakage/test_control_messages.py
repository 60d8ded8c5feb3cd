"""Control messages: what nodes and coordinator tell each other does not depend on what is in the tables.

A whole service runs twice, on tables with other cells and as many rows. All that travels between coordinator and nodes,
in both directions, is recorded and must be the same, but for what is drawn afresh (secrets and the digests that hide
behind them, names of sessions, times) and for the totals that a party tells at its end.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from leakage.coins import Leak
from masquerade.service import Status
from memory_network import MemoryLink
from service_house import House

# Drawn afresh in every service and session, or the time: never made of cells.
FRESH = {"nonce", "signature", "signatures", "token", "keys", "session", "address", "addresses", "now"}
FRESH |= {"certificate_until", "expiry", "fingerprints"}
# Digests keyed with a secret that stays at home (tests/service/test_snapshot.py).
COMMITMENTS = {"snapshot", "replaced", "schema"}
TOTALS = {"round", "bytes_sent", "messages", "seconds"}
PASSING = {"ready", "running"}  # whether a party is asked while it is so is a matter of time

Seen = dict[str, set[str]]  # by who asks what: all that was said, each thing once


def hidden(said: Any) -> Any:
    """A message without what is drawn afresh, and without totals."""
    if isinstance(said, dict):
        without = FRESH | COMMITMENTS | TOTALS
        return {key: "…" if key in without else hidden(each) for key, each in said.items()}
    return [hidden(each) for each in said] if isinstance(said, list) else said


def heard(folder: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Seen, list[bytes]]:
    """Everything that is asked and answered in one session."""
    told: list[tuple[str, bytes]] = []
    exchange = MemoryLink.exchange

    async def recorded(self: MemoryLink, method: str, path: str, body: bytes, *more: Any) -> tuple[int, bytes]:
        status, answer = await exchange(self, method, path, body, *more)
        place = re.sub("[0-9a-f]{16,}", "…", path)
        told.append((f"{self.identity.name} asks {method} {place}", body))
        told.append((f"answer {status} to {self.identity.name}: {method} {place}", answer))
        return status, answer

    with monkeypatch.context() as patched, House(folder, people=60, prefix="person-", seed=seed) as house:
        patched.setattr(MemoryLink, "exchange", recorded)
        for party in house.parties:
            house.write_node(party, show_progress=False)
        house.start_nodes()
        ana = house.user("ana")
        with house.coordinator() as coordinator:
            house.known(coordinator, ana)
            done = house.finished(coordinator, coordinator.ask(ana, house.request()).id)
            assert (done.status, done.cause) == (Status.PUBLISHED, None)
    seen: dict[str, set[str]] = {}
    for what, data in told:
        if data:
            said = json.loads(data)
            if said.get("state") not in PASSING:
                seen.setdefault(what, set()).add(json.dumps(hidden(said)))  # as it is ordered
    return seen, [data for _, data in told if data]


def test_they_do_not_depend_on_the_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worlds = [heard(tmp_path / str(seed), seed, monkeypatch) for seed in (7, 8)]
    (one, data), (other, _) = worlds
    both = one.keys() & other.keys()  # who asks first, and how often, is a matter of time
    for route in (
        "GET /v1/datasets",
        "POST /v1/offers",
        "POST /v1/contracts",
        "POST /v1/sessions",
        "GET /v1/sessions/…",
    ):
        assert f"answer 200 to coordinator: {route}" in both
    for what in sorted(both):
        if one[what] != other[what]:
            raise Leak(f"{what} depends on the tables: {sorted(one[what] ^ other[what])}")
    if any(b"person-" in each for each in data):
        raise Leak("a control message has an identifier")
