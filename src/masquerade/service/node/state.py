"""A node's state folder, which only its owner may read.

audit.jsonl         all that was agreed, refused, said and heard; audit.head how far it goes
ledger.jsonl        what was released from which snapshot; ledger.head how far it goes
site-keys/ID.json   what predicting by a model of mapped records needs; ID is that of its session
secrets/NAME.key    each dataset's secret, from which its commitments are made
pending/DEAL.json   contracts that wait for a person; DEAL is the deal's digest
approved/DEAL       deals that a person has approved; refused/DEAL those that one has refused
ran/CONTRACT        contracts whose session has begun: each runs once
requests/NONCE-N    the deal of each session that has begun for a signed request, as often as the deal allows
configuration       a digest of the configuration that the node runs by, for as long as it runs
snapshots.json      what is published now, and which commitments it has replaced
lock                held by the one node that uses the folder
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from masquerade.audit import AuditLog
from masquerade.data import Table
from masquerade.errors import Conflict, ParameterError, hint
from masquerade.files import PRIVATE, FileError, FileExists, FileLock, kept_secret, write_new, write_whole
from masquerade.forms import json_decoder
from masquerade.jobs import section_file
from masquerade.service.agree.signing import SignedContract
from masquerade.service.canonical import canonical
from masquerade.service.ledger import Ledger
from masquerade.service.node.settings import NodeSettings
from masquerade.service.snapshot import KEY_BYTES, SnapshotKey, key_of, make_secret, provision_of

_MOST_REPLACED = 1000
_FOLDERS = ("secrets", "site-keys", "pending", "approved", "refused", "ran", "requests")


class Snapshots(msgspec.Struct, frozen=True):
    """The commitments that are published, by dataset, and those that they replaced, the latest last."""

    current: dict[str, str] = {}
    replaced: tuple[str, ...] = ()

    def with_current(self, current: Mapping[str, str], datasets: Collection[str]) -> Snapshots:
        """Return the snapshots after a publication; a dataset that cannot be read keeps its last one."""
        now = {name: old for name, old in self.current.items() if name in datasets} | dict(current)
        gone = [*self.replaced, *(old for name, old in self.current.items() if now.get(name) != old)]
        kept = [root for root in dict.fromkeys(gone) if root not in now.values()]
        return Snapshots(now, tuple(kept[-_MOST_REPLACED:]))


class StateFolder:
    """The folder's files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.audit = folder / "audit.jsonl"
        self.ledger = folder / "ledger.jsonl"
        self.pending = folder / "pending"
        self.approved = folder / "approved"
        self.refused = folder / "refused"
        self._snapshots = folder / "snapshots.json"
        self._configuration = folder / "configuration"

    def make(self) -> None:
        """Make the folder and those in it, where there are none yet."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name in _FOLDERS:
                (self.folder / name).mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise FileError.at(self.folder, f"cannot be made: {error.strerror}") from None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder's lock: two nodes would each release what the other one does not know of."""
        lock = FileLock(self.folder / "lock", str(self.folder))
        if not lock.hold():
            raise FileError.at(self.folder, "another node uses this state folder; stop it first")
        try:
            yield
        finally:
            lock.release()

    def secret(self, dataset: str, releases: int = 0) -> bytes:
        """Read a dataset's secret; make it at the first time, as long as the ledger has no release of the dataset."""
        path = self._secret(dataset)
        if (lost := self.lost_secret(dataset, releases)) is not None:
            raise FileError(lost)
        secret = kept_secret(path, "this secret", make_secret)
        if len(secret) != KEY_BYTES:
            raise FileError.at(path, f"a dataset's secret has {KEY_BYTES} bytes; got {len(secret)}")
        return secret

    def lost_secret(self, dataset: str, releases: int) -> str | None:
        """Say that the secret behind releases of the ledger is gone, and how to go on; None when it is there."""
        path = self._secret(dataset)
        if not releases or path.exists():
            return None
        return (
            f"{path}: the secret of {dataset} is missing, and the ledger has {releases} "
            f"release{'s' if releases > 1 else ''} of it; with a new secret the ledger would not know the same table "
            "again, and would let a second release through that breaks the first: restore the file from a backup, or "
            f"begin anew on purpose with `masquerade party ledger CONF --forget {dataset}`"
        )

    def lost_audit(self, releases: int) -> str | None:
        """Say that the audit log is gone with its head, though there were releases; None when it is there."""
        if not releases or (self.audit.exists() and self.audit.stat().st_size):
            return None
        return (
            f"{self.audit}: the audit log is missing or empty, and the ledger has {releases} "
            f"release{'s' if releases > 1 else ''}; restore it from a backup, or go on without it on purpose with "
            f"`masquerade audit forget {self.audit} --identity FOLDER`"
        )

    def renew_secret(self, dataset: str) -> None:
        """Make a new secret for a dataset whose own is lost, because a person says so."""
        write_new(self._secret(dataset), make_secret(), PRIVATE)

    def keep_for_model(self, session: str, secret: bytes) -> None:
        """Keep what this party needs to use a model, for its owner alone."""
        write_whole(self.folder / "site-keys" / f"{session}.json", secret, PRIVATE)

    def _secret(self, dataset: str) -> Path:
        return self.folder / "secrets" / f"{dataset}.key"

    def runs_now(self, contract: str, expiry: int) -> bool:
        """Record that a contract's session begins; return False when it has begun before."""
        path = self.folder / "ran" / contract
        try:
            write_new(path, str(expiry).encode(), PRIVATE)
        except FileExists:
            return False
        return True

    def has_run(self, contract: str) -> bool:
        """Return whether a contract's session has begun."""
        return (self.folder / "ran" / contract).exists()

    def request_runs_now(self, nonce: str, deal: str, until: int, most: int) -> bool:
        """Record that a session of a signed request begins; return False when it has for another deal, or too often."""
        for number in range(1, most + 1):
            path = self.folder / "requests" / f"{nonce}-{number}"
            try:
                write_new(path, f"{until} {deal}".encode(), PRIVATE)
            except FileExists:
                if path.read_text().partition(" ")[2] != deal:
                    return False
            else:
                return True
        return False

    def deals_of_request(self, nonce: str) -> tuple[str, ...]:
        """Return the deal of each session that has begun for a signed request."""
        found = (self.folder / "requests").glob(f"{nonce}-*")
        return tuple(path.read_text().partition(" ")[2] for path in found)

    def tidy(self, now: int, keep: int) -> None:
        """Forget contracts and requests that expired more than `keep` seconds ago: nobody can run them any more."""
        for folder in ("ran", "requests"):
            for path in (self.folder / folder).iterdir():
                until = path.read_text().partition(" ")[0]
                if until.isdecimal() and int(until) + keep < now:
                    path.unlink(missing_ok=True)

    @property
    def snapshots(self) -> Snapshots:
        """The snapshots that were published last."""
        try:
            return json_decoder(Snapshots).decode(self._snapshots.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return Snapshots()
        except (OSError, ValueError, RecursionError):
            raise FileError.at(
                self._snapshots,
                "cannot be read, and nothing is published; restore it, or remove it to begin anew: "
                "the coordinator then does not hear which snapshots were replaced before, and may serve a release "
                "of theirs from its cache until that ends",
            ) from None

    def note_snapshots(self, snapshots: Snapshots) -> None:
        """Record the snapshots that are published now."""
        write_whole(self._snapshots, canonical(snapshots), PRIVATE)

    @property
    def configuration(self) -> str | None:
        """The digest of the configuration that a node runs by, or ran by before it was killed."""
        try:
            return self._configuration.read_text()
        except (OSError, UnicodeDecodeError):
            return None

    def note_configuration(self, digest: str | None) -> None:
        """Record the configuration that the node runs by; None when it has ended."""
        if digest is None:
            self._configuration.unlink(missing_ok=True)
        else:
            write_whole(self._configuration, digest, PRIVATE)


# --- snapshot keys ------------------------------------------------------------------------------------------
# Hand an auditor the key to the table that a contract commits this party to.


def hand_out(
    settings: NodeSettings,
    contract: SignedContract,
    out: Path,
    column: str | None,
    table: str | None,
    said_by: Mapping[str, Any],
) -> SnapshotKey:
    """Write the key of this party's table in a contract, or of one column, to a new file; the audit log notes it.

    `table` is a copy of the table as it was then. Conflict when neither is what the contract commits to.
    """
    if out.exists():  # before anything is noted
        raise ParameterError(f"{out}: exists already, and is not overwritten")
    provision = provision_of(contract, settings.name)
    known = settings.datasets
    if provision.dataset not in known:
        listed = f"{hint(provision.dataset, known)}; there are {', '.join(known)}"
        raise ParameterError(f'{settings.path}: there is no dataset "{provision.dataset}"{listed}')
    dataset, state = known[provision.dataset], StateFolder(settings.state)
    section, base = dataset.section, dataset.base
    if table is not None:
        section, base = section.model_copy(update={"source": table, "query": None}), Path()
    source = section_file(section, base).read(dataset.columns)
    state.make()
    found = key_of(
        Table(source.table, origin=source.origin),
        state.secret(dataset.name, Ledger.load(state.ledger).releases(dataset.name)),
        party=settings.name,
        dataset=dataset.name,
        column=column,
        separator=section.separator,
        encoding=section.encoding,
    )
    if found.snapshot != provision.snapshot:
        raise Conflict(
            f"{source.origin.name}: is not the table that the contract commits to (snapshot {found.snapshot[:12]}, the "
            f"contract has {provision.snapshot[:12]}); give a copy of what it was then, with --table"
        )
    with AuditLog(state.audit, settings.identity) as audit:  # before it is there
        told = {"dataset": dataset.name, "snapshot": found.snapshot, "column": column}
        audit.append("snapshot key", {**told, **said_by})
    write_new(out, msgspec.json.encode(found) + b"\n", PRIVATE)
    return found
