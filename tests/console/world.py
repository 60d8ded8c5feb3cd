"""A coordinator's folder with people, parties and sessions in every state; and a process that serves it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from argon2 import PasswordHasher

from forked import Forked
from masquerade.anonymize import TopDownSpecialization, publish
from masquerade.audit import AuditLog
from masquerade.net import make_trial
from masquerade.privacy import KAnonymity
from masquerade.protocol import JointRatios
from masquerade.report import attacks_on
from masquerade.service import Accounts, ColumnCard, Coordinator, CoordinatorSettings, SchemaCard, SessionRecord, Status
from masquerade.service.agree.terms import PriceList
from masquerade.service.cards import TaxonomyCard
from masquerade.service.store import NewRelease
from masquerade.service.wire.control import Published, PublishedDataset
from papers.paper_tables import loan_table

PASSWORD = "correct horse battery"
PEOPLE = {"ana": "analyst", "ben": "analyst", "root": "admin"}
WISH: Mapping[str, Any] = {
    "purpose": "research",
    "attributes": ["age", "job"],
    "class": "income",
    "budget": 5000,
    "privacy": [{"model": "k-anonymity", "qid": ["age", "job"], "k": 5}],
}

_CONFIGURATION = """
identity = "identity/coordinator"
trust = "identity/coordinator/trust"
address = "127.0.0.1:0"
requests_per_minute = 100000

[timings]
refresh = 3600  # nobody asks the parties here: once seen, they count as reachable as long as the tests take

"""


class World:
    """The coordinator whose store the served process shares; tests move its sessions by hand."""

    wish = WISH

    def __init__(self, folder: Path, cards: Sequence[Published] = ()) -> None:
        cards = cards or PUBLISHED
        parties = [each.party for each in cards]
        folder.mkdir(parents=True, exist_ok=True)
        make_trial(folder / "identity", ["coordinator", *parties])
        self.configuration = folder / "coordinator.toml"
        sections = [f'[parties.{party}]\naddress = "127.0.0.1:{port}"\n' for port, party in enumerate(parties, start=1)]
        self.configuration.write_text(_CONFIGURATION + "".join(sections))
        self.coordinator = Coordinator(CoordinatorSettings.load(self.configuration))
        self.coordinator.settings.releases.mkdir(parents=True, exist_ok=True)
        self.store = self.coordinator.store
        # As weak as it may be: what is tested here is the way to the hash.
        self.accounts = Accounts(self.store, hasher=PasswordHasher(1, 8, 1))
        for name, role in PEOPLE.items():
            self.accounts.create(name, PASSWORD, role)
        for published in cards:
            self.coordinator.directory.take_in(published, published.party)
        with AuditLog(self.coordinator.settings.audit, self.coordinator.settings.identity) as log:
            log.refusal("ana", ["a reason"])
        self._contracts = 0

    def close(self) -> None:
        self.coordinator.close()

    # --- sessions in their states ---

    def user(self, name: str) -> Any:
        return self.store.users.get(name)

    def asked(self, client: str = "ana", **changes: Any) -> SessionRecord:
        return self.coordinator.ask(self.user(client), {**self.wish, **changes})

    def tell(self, session: SessionRecord, kind: str, **data: Any) -> None:
        self.store.events.append(session.id, kind, data)

    def negotiating(self, session: SessionRecord | None = None) -> SessionRecord:
        return self.store.sessions.advance(session or self.asked(), Status.NEGOTIATING)

    def offer(self, session: SessionRecord, party: str, turn: int, k: int, price: int = 500) -> None:
        wanted = [{"model": "k-anonymity", "qid": ["age", "job"], "k": k}]
        self.store.offers.add(session.id, party, turn, {"requirements": wanted}, price)
        self.tell(session, "offer", party=party, round=turn, price=price, requirements=[f"k {k}"], reasons=[])

    def refusal(self, session: SessionRecord, party: str, turn: int, *reasons: str) -> None:
        self.store.offers.add(session.id, party, turn, {}, 0, reasons)
        self.tell(session, "offer", party=party, round=turn, price=0, requirements=[], reasons=list(reasons))

    def refused(self) -> SessionRecord:
        session = self.negotiating()
        reasons = ('user "ana" may not ask', 'purpose "research" is not allowed; allowed: billing')
        self.offer(session, "bank", 1, 5)
        self.refusal(session, "clinic", 1, *reasons)
        lines = [f"clinic: {reason}" for reason in reasons]
        return self.store.sessions.advance(session, Status.REFUSED, "; ".join(lines), {"reasons": lines})

    def agreed(self, session: SessionRecord | None = None) -> SessionRecord:
        session = self.negotiating(session)
        self.offer(session, "bank", 1, 5)
        self.offer(session, "clinic", 1, 20)
        both = [{"model": "k-anonymity", "qid": ["age", "job"], "k": 20}]
        self.tell(session, "counter", round=1, price=1000, requirements=both)
        self.offer(session, "bank", 2, 20)
        self.offer(session, "clinic", 2, 20)
        self._contracts += 1
        terms, contract = digest(f"terms {session.id}"), digest(f"contract {self._contracts}")
        self.tell(session, "contract", terms_hash=terms, contract_hash=contract, attempt=1)
        return self.store.sessions.agree(session, terms, contract, {"deal": {"purpose": "research"}})

    def running(self, session: SessionRecord | None = None) -> SessionRecord:
        queued = self.store.sessions.advance(self.agreed(session), Status.QUEUED)
        return self.store.sessions.advance(queued, Status.RUNNING)

    def steps(self, session: SessionRecord, count: int = 3) -> None:
        for party, attribute, value, *children in STEPS[:count]:
            self.tell(session, "step", party=party, attribute=attribute, value=value, children=children)

    def progress(self, session: SessionRecord, turn: int, sent: int = 12_345) -> None:
        each = {"doing": "specializing", "round": turn, "bytes_sent": sent, "messages": 8, "seconds": 1.5}
        self.tell(session, "progress", parties={"bank": each, "clinic": {**each, "bytes_sent": 2 * sent}})

    def written(self, session: SessionRecord) -> NewRelease:
        """A real release on the disk, of the paper's table."""
        requirement = KAnonymity(["Sex", "Job"], 4) & KAnonymity(["Sex", "Salary"], 5)
        release = publish(loan_table(), requirement, TopDownSpecialization("Class"))
        attacks = [each.summary() for each in attacks_on(release)]
        told = {"attacks": attacks, "warnings": ["Salary lost 95% of its detail"]}
        return self.kept(session, release, {**release.summary, **told}, release.table.num_rows)

    def kept(self, session: SessionRecord, made: Any, summary: Mapping[str, Any], rows: int) -> NewRelease:
        """What a session made, on the disk."""
        files = self.coordinator.files.write(session.id, made, summary)
        expires = self.store.clock() + timedelta(days=30)
        snapshots = {party: f"{party}1" for party in session.providers}
        return NewRelease(files.table, files.report, files.sha256, rows, expires, snapshots)

    def awaiting(self, **told: Any) -> SessionRecord:
        """A session whose release waits for its client: by default, because it missed the wished quality."""
        session = self.running(self.asked(**({} if told else {"most_error": "0.2"})))
        session = self.store.sessions.advance(session, Status.ASSEMBLING)
        missed = told or {"error": 0.31, "most_error": 0.2}
        self.tell(session, "quality", **missed)
        return self.store.releases.hold(session, self.written(session), missed)

    def published(self) -> SessionRecord:
        session = self.running(self.asked(show_progress=True))
        self.progress(session, 7)
        self.steps(session, len(STEPS))
        session = self.store.sessions.advance(session, Status.ASSEMBLING)
        return self.store.releases.publish(session, self.written(session), {"bank": 1250, "clinic": 300})

    def answered(self) -> SessionRecord:
        """A session that was asked for joint keys, and has answered."""
        method = {"name": "joint-keys", "sets": [["age", "job"]], "precision": 0.01}
        asked = self.asked(attributes=["job", "age"], privacy=[], algorithm=method, **{"class": None})
        session = self.store.sessions.advance(self.running(asked), Status.ASSEMBLING)
        found = JointRatios((("age", "job"),), (0.92,), "distinct", 0.01, 400, 400, ("bank", "clinic"))
        return self.store.releases.publish(session, self.kept(session, found, found.summary(), 400), {"bank": 100})


STEPS = [
    ("bank", "job", "Any job", "Blue-collar", "White-collar"),
    ("clinic", "age", "[-inf, inf)", "[-inf, 40)", "[40, inf)"),
    ("bank", "job", "White-collar", "Clerk", "Lawyer", "Manager"),
    ("clinic", "age", "[40, inf)", "[40, 65)", "[65, inf)"),
    ("bank", "job", "Blue-collar", "Farmer", "Carpenter"),
]

PUBLISHED = [
    Published(
        "bank",
        (
            PublishedDataset(
                SchemaCard(
                    "bank",
                    "customers",
                    "ssn",
                    (
                        ColumnCard("job", "categorical", "attribute", TaxonomyCard("ab" * 32, 3, "Any job")),
                        ColumnCard("salary", "continuous"),
                        ColumnCard("income", "categorical", "class"),
                    ),
                    "11" * 32,
                    31_000,
                    "bank1",
                ),
                public=True,
                purposes=("research", "*"),
                price=PriceList(attributes={"salary": 700}),
            ),
        ),
    ),
    Published(
        "clinic",
        (
            PublishedDataset(
                SchemaCard(
                    "clinic",
                    "patients",
                    "ssn",
                    (
                        ColumnCard("age", "continuous"),
                        ColumnCard("town", "categorical", "attribute", TaxonomyCard("cd" * 32, 2, "Anywhere")),
                        ColumnCard("disease", "categorical", "sensitive"),
                        ColumnCard("income", "categorical", "class"),
                    ),
                    "22" * 32,
                    5_000,
                    "clinic1",
                ),
                public=True,
                purposes=("research", "*"),
            ),
        ),
    ),
]


@contextmanager
def served(configuration: Path) -> Iterator[str]:
    """The address of a process that serves the API and the console of a coordinator."""
    program = Path(__file__).with_name("served.py")
    with configuration.with_suffix(".log").open("wb") as log:
        process = Forked(
            [sys.executable, str(program), str(configuration)],
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=configuration.parent,
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, configuration.with_suffix(".log").read_text()
        yield json.loads(line)["address"]
    finally:
        process.terminate()
        process.wait(timeout=900)
        assert process.stdout is not None
        process.stdout.close()


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()
