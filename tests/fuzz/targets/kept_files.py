"""Any bytes as each file that this house keeps: an audit log, a ledger, a transcript, a DkA note, a snapshot's key."""

from __future__ import annotations

from fuzz.oracle import allowing, scratch
from masquerade.audit.tail import last_records
from masquerade.audit.verify import verify
from masquerade.errors import DataError, ParameterError
from masquerade.net.transcript import read_transcript
from masquerade.protocol.dka.checkpoint import Notebook
from masquerade.service.ledger import Ledger
from masquerade.service.node.state import State
from masquerade.service.snapshot_key import read_key

PATH = scratch() / "file"
STATE = State(scratch())


def fuzz(data: bytes) -> None:
    PATH.write_bytes(data)
    PATH.chmod(0o600)
    for read in (verify, Ledger.load, read_transcript, read_key, last_records, Notebook):
        with allowing(DataError, ParameterError):
            read(PATH)
    STATE._snapshots.write_bytes(data)
    with allowing(DataError, ParameterError):
        assert STATE.snapshots is not None
