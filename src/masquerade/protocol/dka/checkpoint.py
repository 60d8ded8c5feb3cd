"""What a party saves between rounds, so that an interrupted session resumes after the last complete one.

What was opened in each round (which records passed, or whether all did) is all that a party ever received; everything
else follows from it and from its own table, by replaying. Transfers and circuits are never saved: after an interruption
they are made afresh.

A run has a name drawn from all parties' randomness. Parties resume only when all remember the same run, from the last
round that all remember; otherwise they start anew. The notes are secret: they say which of the party's people the
others know too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from masquerade.crypto import pack, unpack
from masquerade.data import Table
from masquerade.engine import Rows
from masquerade.errors import ParameterError, PeerBrokeProtocol
from masquerade.files import PRIVATE, write_whole
from masquerade.forms import msgpack_decoder
from masquerade.net import Message, Receive, Script, Send
from masquerade.protocol.contract import Contract
from masquerade.protocol.hand_in import write_columns


class Remembered(Message, tag="dka-remembered", frozen=True):
    """Which run a party remembers, and how many of its rounds; an empty name for none."""

    run: bytes
    rounds: int


class _Round(msgspec.Struct, frozen=True):
    size: int
    passes: bytes


class _Note(msgspec.Struct, frozen=True):
    purpose: bytes
    run: bytes
    rows: bytes
    rounds: tuple[_Round, ...]


class Notebook:
    """The notes of one party, saved to a file if it has one.

    `purpose` is a digest of the terms and of the own table. Notes with another purpose are ignored.
    """

    def __init__(self, path: Path | None = None, purpose: bytes = b"") -> None:
        self._path, self._purpose = path, purpose
        self.run = b""
        self.rows: Rows = np.zeros(0, np.intp)
        self.rounds: list[NDArray[np.bool_]] = []
        self._read()

    def aligned(self, rows: Rows) -> None:
        """Start a new run with these common records."""
        self.run, self.rows, self.rounds = b"", rows, []

    def named(self, session: bytes) -> None:
        """Set the new run's name, the same at all parties."""
        self.run = hashlib.sha256(b"masquerade/dka/run/1\0" + session).digest()
        self._write()

    def keep(self, rounds: int) -> None:
        """Forget all but the first `rounds` rounds."""
        self.rounds = self.rounds[:rounds]

    def played(self, passes: NDArray[np.bool_]) -> None:
        """Save which records passed in a finished round."""
        self.rounds.append(passes)
        self._write()

    def finished(self) -> None:
        """Delete the notes of a finished run."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def _write(self) -> None:
        if self._path is None:
            return
        rounds = tuple(_Round(each.size, pack(each.astype(np.uint8)).tobytes()) for each in self.rounds)
        note = _Note(self._purpose, self.run, self.rows.astype("<i8").tobytes(), rounds)
        write_whole(self._path, msgspec.msgpack.encode(note), PRIVATE)

    def _read(self) -> None:
        if self._path is None or not self._path.exists():
            return
        try:
            note = msgpack_decoder(_Note).decode(self._path.read_bytes())
            rows = np.frombuffer(note.rows, "<i8").astype(np.intp)
            rounds = [unpack(np.frombuffer(each.passes, np.uint8), each.size).astype(bool) for each in note.rounds]
        except (ValueError, RecursionError, OSError, ParameterError):
            return  # an unreadable file counts as none
        if note.purpose == self._purpose:
            self.run, self.rows, self.rounds = note.run, rows, rounds


def notes_purpose(contract: Contract, table: Table, identifiers: Sequence[bytes]) -> bytes:
    """Return a digest of the terms, without the session's nonce, and of the own table: notes are valid for these."""
    digest = hashlib.sha256(msgspec.structs.replace(contract, nonce="").canonical())
    for identifier in identifiers:
        digest.update(len(identifier).to_bytes(8, "big") + identifier)
    digest.update(write_columns(table.arrow))
    return digest.digest()


def agree_on_start(peers: Sequence[str], notebook: Notebook) -> Script[bool]:
    """Return whether all resume a run that they remember; the notebook then holds the rounds that all remember."""
    yield Send(tuple(peers), Remembered(notebook.run, len(notebook.rounds)))
    runs, rounds = {notebook.run}, len(notebook.rounds)
    for peer in peers:
        theirs = yield Receive(peer, Remembered)
        if theirs.rounds < 0:
            raise PeerBrokeProtocol(peer, f"remembers {theirs.rounds} rounds")
        runs.add(theirs.run)
        rounds = min(rounds, theirs.rounds)
    if not notebook.run or len(runs) > 1:
        return False
    notebook.keep(rounds)
    return True
