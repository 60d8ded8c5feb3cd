"""Any bytes as the configuration of a node, a coordinator or a client: settings, or a ParameterError."""

from __future__ import annotations

from fuzz.oracle import allowing, scratch
from masquerade.client import settings as client
from masquerade.errors import ParameterError
from masquerade.service import CoordinatorSettings, NodeSettings
from service.party_nodes import Folder

FOLDER = Folder(scratch()).path / "clinic"
(FOLDER / "coordinator").symlink_to(FOLDER / "identity")


def fuzz(data: bytes) -> None:
    path = FOLDER / "fuzzed.toml"
    path.write_bytes(data)
    with allowing(ParameterError):
        NodeSettings.load(path)
    with allowing(ParameterError):
        CoordinatorSettings.load(path)
    with allowing(ParameterError):
        client.read_settings(path, with_request=True)


def seeds() -> dict[str, bytes]:
    return {"node": (FOLDER / "clinic.toml").read_bytes()}
