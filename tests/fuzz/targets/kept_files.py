"""Any bytes as each file that this house keeps: an audit log, a ledger, a transcript, a DkA note, a snapshot's key."""

from __future__ import annotations

import msgspec
import numpy as np

from fuzz.oracle import allowing, scratch
from masquerade.audit import AuditLog, last_records, verify
from masquerade.errors import DataError, ParameterError
from masquerade.net import Transcript, read_transcript
from masquerade.protocol.dka.checkpoint import Notebook
from masquerade.service import Ledger, StateFolder, read_key
from masquerade.service.node.state import Snapshots
from service.party_nodes import PEOPLE

PATH = scratch() / "file"
STATE = StateFolder(scratch())


def fuzz(data: bytes) -> None:
    PATH.write_bytes(data)
    PATH.chmod(0o600)
    for read in (verify, Ledger.load, read_transcript, read_key, last_records, Notebook):
        with allowing(DataError, ParameterError):
            read(PATH)
    STATE._snapshots.write_bytes(data)
    with allowing(DataError, ParameterError):
        assert STATE.snapshots is not None


def seeds() -> dict[str, bytes]:
    folder = scratch()
    with AuditLog(folder / "audit-log", PEOPLE["bank"]) as log:
        log.contract(b"{}", "0f" * 32)
        log.refusal("ana", ["no"], "s1")
        log.seal()
    with Transcript(folder / "transcript") as transcript:
        transcript.sent("bank", "instruct", b"x")
        transcript.received("bank", "columns", b"y")
    notes = Notebook(folder / "dka-notes")
    notes.aligned(np.arange(3))
    notes.named(b"session")
    notes.played(np.array([True, False, True]))
    (folder / "snapshots").write_bytes(msgspec.json.encode(Snapshots()))
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
