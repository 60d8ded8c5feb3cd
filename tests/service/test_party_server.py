"""Whom the coordinator tells which parties it knows: its parties, over real TLS, and nobody else."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from masquerade.errors import NotAllowed
from masquerade.net.identity import Identity, TrustStore, make_trial
from masquerade.service.clock import SYSTEM_CLOCK
from masquerade.service.coordinator.coordinator import Coordinator
from masquerade.service.coordinator.directory import party_app
from masquerade.service.coordinator.settings import CoordinatorSettings
from masquerade.service.wire.control import Parties
from masquerade.service.wire.peers import PeerHttp, serve


def test_parties_hear_of_each_other_and_others_of_nobody(tmp_path: Path) -> None:
    identities = make_trial(tmp_path, ["coordinator", "bank", "clinic", "visitor"])
    (tmp_path / "coordinator.toml").write_text(
        'identity = "coordinator"\ntrust = "coordinator/trust"\n'
        '[parties.bank]\naddress = "127.0.0.1:1"\n[parties.clinic]\naddress = "127.0.0.1:2"\n'
    )
    own = CoordinatorSettings.load(tmp_path / "coordinator.toml")

    async def asked(name: str, address: str) -> Parties:
        folder = tmp_path / name
        identity, trust = Identity.load(folder), TrustStore.load(folder / "trust")
        async with PeerHttp("coordinator", address, identity, trust) as line:
            told: Parties = await line.call("GET", "/v1/parties", answer=Parties)
            return told

    async def scenario(made: Coordinator) -> None:
        app = party_app(own, made.directory, made.wakeup, SYSTEM_CLOCK)
        async with serve(app, "127.0.0.1:0", own.identity, own.trust) as address:
            for name in ("bank", "clinic"):
                assert (await asked(name, address)).fingerprints == {
                    party: identities[party].fingerprint for party in ("bank", "clinic")
                }
            with pytest.raises(NotAllowed, match="visitor is not among the parties"):
                await asked("visitor", address)

    with Coordinator(own) as made:
        asyncio.run(scenario(made))
