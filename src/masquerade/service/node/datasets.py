"""A dataset at its party: its table as it was read last, and what is published of it.

A file is read again when it has changed (its time, size or number on the disk). A database does not show that it has
changed: it is read again when the last reading is older than a few seconds, and for a session, unless the reading that
its contract names is kept (datasets.py). What could not be read is tried again after a pause.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from masquerade.arrangement import MODEL
from masquerade.data import FILE_SCHEMES, MappedParts, Records, Table, database_path, database_scheme, mapped_columns
from masquerade.engine import Engine
from masquerade.errors import BadInput, DataError, MasqueradeError, ParameterError
from masquerade.jobs import TableSection, section_file
from masquerade.methods import learning_method_of, product_of
from masquerade.protocol import (
    KEEP_AMONG_PROVIDERS,
    READERS,
    Contract,
    complete_records,
    identifiers,
    read_own_records,
    wanted_of_party,
)
from masquerade.service.agree.policy import check_policy
from masquerade.service.cards import SchemaCard, card_of
from masquerade.service.clock import SYSTEM_CLOCK, Clock
from masquerade.service.ledger import Ledger
from masquerade.service.logs import log
from masquerade.service.node.settings import DatasetSettings, NodeSettings
from masquerade.service.node.state import StateFolder
from masquerade.service.snapshot import keyed, take_snapshot
from masquerade.service.wire.control import PublishedDataset

FRESH = 5.0  # seconds for which a database's reading is good enough for an offer
_PAUSES = 10  # times as long as a failed reading took, nobody tries again

Stamp = tuple[tuple[int, int, int], ...]  # times, sizes and numbers of files


def looked_at(files: Iterable[Path]) -> Stamp:
    """Look at files in a way that shows a change. Do it before they are read."""
    found = []
    for path in files:
        try:
            status = path.stat()
        except OSError:
            found.append((0, 0, 0))
        else:
            found.append((status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(found)


@dataclass(frozen=True)
class TableReading:
    """A table as it was at one moment, and the card with its commitment."""

    table: Table
    card: SchemaCard
    stamp: Stamp
    moment: float


@dataclass(frozen=True)
class _Failed:
    """A reading that failed: nobody tries again before something has changed, or a pause is over.

    Not every cure shows in the file's time: a right may be given back, a disk may answer again.
    """

    error: BadInput
    stamp: Stamp
    until: float


class Dataset:
    """One dataset. May be asked by several threads; one of them reads."""

    def __init__(
        self,
        party: str,
        settings: DatasetSettings,
        secret: bytes,
        clock: Clock = SYSTEM_CLOCK,
        *,
        on_disk: bool = False,
    ) -> None:
        """`on_disk`: keep the table in a file that is mapped, and not in memory (data/private_copy.py)."""
        self.party, self.settings = party, settings
        self.name, self.policy = settings.name, settings.policy
        self._secret, self._clock, self._on_disk = secret, clock, on_disk
        self._lock = threading.Lock()
        self._last: TableReading | None = None
        self._failed: _Failed | None = None

    @property
    def snapshot(self) -> str | None:
        """The commitment to the table as it was read last."""
        last = self._last
        return last.card.snapshot if last is not None else None

    def changed_to(self, settings: DatasetSettings, *, on_disk: bool = False) -> Dataset:
        """The same dataset, with its secret, under a changed configuration; not read yet."""
        return Dataset(self.party, settings, self._secret, self._clock, on_disk=on_disk)

    def describes(self, reading: TableReading) -> bool:
        """Return whether the columns of a reading, which may be an older one, still mean the same."""
        return self._card(None, None) == replace(reading.card, records=None, snapshot=None)

    def reading(self, *, for_session: bool = False, quiet: bool = False) -> TableReading:
        """Read the table as it is now. Errors name the file and may show a cell: they are for the steward alone.

        `quiet`: the caller shows the error to the steward, and the log need not.
        """
        with self._lock:
            stamp = self._stamp()
            last = self._last
            # A database's reading may be stale.
            stale = last is not None and (for_session or self._clock.monotonic() - last.moment > FRESH)
            if last is not None and last.stamp == stamp and not (stale and self.settings.is_database):
                return last
            failed = self._failed
            if failed is not None and failed.stamp == stamp and self._clock.monotonic() < failed.until:
                raise type(failed.error)(*failed.error.problems)
            self._last = None  # what cannot be read is not published
            moment = self._clock.monotonic()
            try:
                self._last = self._read(stamp, moment)
            except BadInput as error:
                now = self._clock.monotonic()
                self._failed = _Failed(error, stamp, now + max(FRESH, _PAUSES * (now - moment)))
                # Its text may show a cell: its kind is told, its text is not
                if failed is None and not quiet:
                    kind = type(error).__name__
                    log().warning("a table cannot be read; `party card` shows why", dataset=self.name, kind=kind)
                raise
            if failed is not None:
                self._failed = None
                log().info("a table can be read again", dataset=self.name)
            return self._last

    def latest(self) -> TableReading:
        """The last reading, if a look at its file shows no change; a database without a file is not asked."""
        last = self._last
        return last if last is not None and last.stamp == self._stamp() else self.reading()

    def published(self, *, asked: bool) -> PublishedDataset:
        """The public card; without a snapshot when the table cannot be read. `asked`: somebody waits for it."""
        try:
            card = (self.reading() if asked else self.latest()).card
        except BadInput:
            card = self._card(None, None)
        policy = self.policy
        return PublishedDataset(
            card=card,
            public=policy.access == "public",
            users=policy.users,
            purposes=policy.purposes,
            sessions=policy.sessions,
            price=policy.price.listed,
        )

    def table_for(self, reading: TableReading, contract: Contract) -> tuple[Table, Sequence[bytes]]:
        """This party's rows without missing cells, and their identifiers, as a contract asks for them."""
        needed = contract.columns_needed(self.party)
        used = [*dict.fromkeys((*needed, self.settings.keys.identifier))]
        whole = reading.table
        table = Table(whole.arrow.select(used), whole.schema, origin=whole.origin)
        # Wrong cells are told before anybody else is bothered.
        table = (self._to_learn_from if product_of(contract) is MODEL else self._to_release)(table, contract)
        return table, identifiers(table, self.settings.keys.identifier, contract.normalize)

    def records_for(self, reading: TableReading, contract: Contract, engine: Engine) -> tuple[Records, Sequence[bytes]]:
        """Read this party's rows without missing cells, as a contract asks for them, into an engine's chunks."""
        keys, whole = self.settings.keys, reading.table
        missing = "drop" if keys.missing == "mean" else keys.missing  # means are for models alone
        wanted, how = wanted_of_party(
            self.party, contract, whole.schema, keys.identifier, missing, whole.origin.missing_values
        )
        return read_own_records(MappedParts(whole.arrow, whole.origin), wanted, engine, how)

    def without_rows(self, reading: TableReading, contract: Contract) -> Table:
        """Return the table that a contract asks for, without its rows."""
        used = dict.fromkeys((*contract.columns_needed(self.party), self.settings.keys.identifier))
        whole = reading.table
        return Table(whole.arrow.slice(0, 0).select([*used]), whole.schema, origin=whole.origin)

    def _to_release(self, table: Table, contract: Contract) -> Table:
        if contract.provider is not None and self.settings.keys.missing == "keep":
            raise DataError.about(table.origin.name, KEEP_AMONG_PROVIDERS)
        table = self._complete(table, table.arrow.column_names)
        if not len(table):
            raise DataError.about(table.origin.name, "no complete row is left")
        own = contract.columns_of(self.party)
        table.columns(column.name for column in contract.qid_columns if column in own)
        return table

    def _to_learn_from(self, table: Table, contract: Contract) -> Table:
        """The rows for a model: numbers are filled in where the dataset says so and the method takes numbers."""
        method, missing = learning_method_of(contract), self.settings.keys.missing
        if missing == "keep" or (missing == "mean" and method.takes != "numbers"):
            missing = "drop"
        return complete_records(method, contract, self.party, table, missing)

    def keyed(self, what: str, digest: bytes) -> str:
        """Return a digest of a digest that nobody without this dataset's secret can make, or try guesses at."""
        return keyed(self._secret, what, digest).hex()

    def check_policy(self) -> None:
        """Refuse a policy about columns that do not exist, or values that their taxonomies lack; reads no table."""
        place = f"{self.settings.place}.policy"
        check_policy(self.policy, self._card(None, None), place, self.settings.schema)

    def check(self) -> TableReading:
        """Read the table and everything that a contract could ask of it; errors are for the steward."""
        self.check_policy()
        reading, settings = self.reading(quiet=True), self.settings
        errors = [error for name in settings.schema.names if (error := self._wrong(reading.table, name))]
        errors += [error for name in settings.keys.outcomes if (error := self._wrong(reading.table, name))]
        if gathered := DataError.gather(errors):
            raise gathered
        table = self._complete(reading.table, settings.columns)
        identifiers(table, settings.keys.identifier, "none")
        return reading

    def _complete(self, table: Table, names: Sequence[str]) -> Table:
        """Deal with missing cells as the dataset says; nobody is found without an identifier."""
        missing = self.settings.keys.missing
        if missing == "keep":
            table = table.complete([self.settings.keys.identifier])
        return table.complete(names, "drop" if missing == "mean" else missing)  # means are for models alone

    def _wrong(self, table: Table, name: str) -> BadInput | None:
        missing, role = self.settings.keys.missing, self.settings.keys.outcomes.get(name)
        try:
            if role is not None:
                READERS[role](table.complete([name], "error" if missing == "error" else "drop"), name)
            else:
                table.complete([name], missing).column(name)
        except BadInput as error:
            return error
        return None

    def _read(self, stamp: Stamp, moment: float) -> TableReading:
        settings, columns = self.settings, self.settings.columns
        file = section_file(settings.keys, settings.base)
        if self._on_disk:
            arrow, origin = mapped_columns(file, columns)
        else:
            coded = [name for name in columns if name != settings.keys.identifier]
            source = file.read(columns, coded)
            arrow, origin = source.table, source.origin
        table = Table(arrow, settings.schema, origin=origin)
        snapshot = take_snapshot(table, self._secret).commitment.root
        return TableReading(table, self._card(len(table), snapshot), stamp, moment)

    def _card(self, records: int | None, snapshot: str | None) -> SchemaCard:
        settings = self.settings
        return card_of(
            self.party,
            settings.name,
            settings.schema,
            identifier=settings.keys.identifier,
            key=self._secret,
            sensitive=settings.keys.sensitive,
            classes=settings.keys.classes,
            outcomes=settings.keys.outcomes,
            records=records if settings.policy.publish_records else None,
            snapshot=snapshot,
            horizontal=settings.policy.least_m is not None,
        )

    def _stamp(self) -> Stamp:
        source, base = self.settings.keys.source, self.settings.base
        scheme = database_scheme(source)
        if scheme is None:
            return looked_at([base / source])
        if scheme in FILE_SCHEMES:
            path = database_path(source, base)
            wal = "-wal" if scheme == "sqlite" else ".wal"  # where changes stand first
            return looked_at([path, path.with_name(path.name + wal)])
        return ()


def open_datasets(settings: NodeSettings, state: StateFolder, clock: Clock = SYSTEM_CLOCK) -> dict[str, Dataset]:
    """Read and check all datasets and the ledger; ParameterError with every problem at once."""
    ledger = Ledger.load(state.ledger)
    datasets = {}
    errors: list[MasqueradeError] = []
    for name, each in settings.datasets.items():
        try:
            secret = state.secret(name, ledger.releases(name))
            datasets[name] = Dataset(settings.name, each, secret, clock, on_disk=settings.engine is not None)
            datasets[name].check()
        except BadInput as error:
            errors.append(error)
    if gathered := ParameterError.gather(errors):
        raise gathered
    return datasets


def reopen_datasets(
    party: str, settings: NodeSettings, state: StateFolder, before: Mapping[str, Dataset], clock: Clock
) -> dict[str, Dataset]:
    """The datasets of a changed configuration, not read yet; ParameterError when a policy does not fit its columns.

    The tables may be in any state: a policy that somebody tightens must not wait for a table that is just away.
    """
    on_disk, datasets = settings.engine is not None, {}
    errors: list[MasqueradeError] = []
    for name, each in settings.datasets.items():
        if name in before:
            datasets[name] = before[name].changed_to(each, on_disk=on_disk)
        else:
            try:
                secret = state.secret(name, Ledger.load(state.ledger).releases(name))
            except BadInput as error:  # of the ledger and of secrets, which names files and shows no cell
                told = "a new dataset is left out; mend this, and start the node again"
                log().error(told, dataset=name, problems=list(error.lines))
                continue
            datasets[name] = Dataset(party, each, secret, clock, on_disk=on_disk)
        try:
            datasets[name].check_policy()
        except ParameterError as error:
            errors.append(error)
    if gathered := ParameterError.gather(errors):
        raise gathered
    return datasets


def read_all(datasets: Mapping[str, Dataset]) -> None:
    """Read and check the tables; those that are amiss are logged, and read again whenever somebody asks."""
    for name, dataset in datasets.items():
        try:
            dataset.check()
        except BadInput as error:  # its text may show a cell
            told = "a table cannot be read by the changed configuration; `party card` shows why"
            log().error(told, dataset=name, kind=type(error).__name__)


# --- kept readings ------------------------------------------------------------------------------------------
# Readings of databases that are kept: a session runs on the table that was offered, or agreed on.
#
# A table in a database may change at every moment; then the one that a session finds is never the one that the contract
# names by its commitment. So the reading behind an offer is kept for a while, and the one behind a contract that was
# signed, or that waits for a person, until its session is done or the contract has expired. Of each dataset at most
# MOST readings are kept, in memory alone: when there are more, those that were merely offered go first, and then the
# oldest. Whoever comes for one that is gone is told that the table has changed.
#
# A file is not kept: whoever replaces one means the new one to count.

MOST = 8  # readings of one dataset
OFFER_STANDS = 120  # seconds
LONGEST = 86_400  # seconds after which a contract is asked about again, or its reading goes


@dataclass
class _Kept:
    reading: TableReading
    section: TableSection  # where it was read
    offered_until: int = 0
    deals: dict[str, int] = field(default_factory=dict)  # until when each of them is alive

    def is_spoken_of(self, now: int) -> bool:
        self.deals = {deal: until for deal, until in self.deals.items() if until > now}
        return bool(self.deals) or self.offered_until > now


class KeptReadings:
    """All readings that are kept. Several threads may ask."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], _Kept] = {}  # by dataset and commitment, the oldest first
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def offered(self, dataset: Dataset, reading: TableReading, now: int) -> None:
        """Keep a reading that an offer names."""
        with self._lock:
            if (kept := self._entry(dataset, reading)) is not None:
                kept.offered_until = now + OFFER_STANDS
                self._bound(dataset.name, now)

    def agreed(self, dataset: Dataset, reading: TableReading, deal: str, until: int, now: int) -> None:
        """Keep a reading that a contract names, which is signed or waits for a person, until the contract expires."""
        with self._lock:
            if (kept := self._entry(dataset, reading)) is not None:
                kept.deals[deal] = min(until, now + LONGEST)
                self._bound(dataset.name, now)

    def find(self, dataset: Dataset, snapshot: str, now: int) -> TableReading | None:
        """The reading that a contract names, if it is kept; not once the configuration has another source, or other
        meanings of its columns.
        """
        with self._lock:
            kept = self._kept.get((dataset.name, snapshot))
            if kept is None or not kept.is_spoken_of(now):
                return None
            as_it_was = kept.section == dataset.settings.section and dataset.describes(kept.reading)
            return kept.reading if as_it_was else None

    def done(self, deal: str, now: int) -> None:
        """Let go of the readings of a deal that is carried out."""
        with self._lock:
            for kept in self._kept.values():
                kept.deals.pop(deal, None)
        self.tidy(now)

    def tidy(self, now: int) -> None:
        """Forget the readings that no open offer or contract names."""
        with self._lock:
            self._kept = {key: kept for key, kept in self._kept.items() if kept.is_spoken_of(now)}

    def _entry(self, dataset: Dataset, reading: TableReading) -> _Kept | None:
        snapshot = reading.card.snapshot
        if not dataset.settings.is_database or snapshot is None:
            return None
        return self._kept.setdefault((dataset.name, snapshot), _Kept(reading, dataset.settings.section))

    def _bound(self, dataset: str, now: int) -> None:
        mine = {key: kept for key, kept in self._kept.items() if key[0] == dataset}
        dead = [key for key, kept in mine.items() if not kept.is_spoken_of(now)]
        merely_offered = [key for key, kept in mine.items() if key not in dead and not kept.deals]
        agreed = [key for key, kept in mine.items() if kept.deals]
        surplus = max(len(mine) - MOST, len(dead))
        for key in [*dead, *merely_offered, *agreed][:surplus]:
            del self._kept[key]
