"""Settings of a coordinator, written for a test."""

from __future__ import annotations

from pathlib import Path

from masquerade.service import CoordinatorSettings

PARTIES = '[parties.bank]\naddress = "127.0.0.1:7001"\n[parties.clinic]\naddress = "127.0.0.1:7002"\n'
HEAD = 'identity = "coordinator"\ntrust = "coordinator/trust"\n'


def read_settings(trial: Path, text: str, *, head: str = HEAD) -> CoordinatorSettings:
    """The settings of a file that stands beside the identities of a trial."""
    path = trial / "coordinator.toml"
    path.write_text(head + text)
    return CoordinatorSettings.load(path)
