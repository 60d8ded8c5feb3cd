"""Hospitals that hold the same columns about different people, beside others that cannot publish with them."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

import masquerade as mq
from console.world import World, digest
from masquerade.service import ColumnCard, SchemaCard, SessionRecord, Status
from masquerade.service.cards import TaxonomyCard
from masquerade.service.store import NewRelease
from masquerade.service.wire.control import Published, PublishedDataset

AGE = ColumnCard("age", "continuous")
WARD = ColumnCard("ward", "categorical", "attribute", TaxonomyCard("ab" * 32, 2, "Any ward"))
OTHER_WARD = dataclasses.replace(WARD, taxonomy=TaxonomyCard("cd" * 32, 3, "Everywhere"))
DISEASE = ColumnCard("disease", "categorical", "sensitive")
SURVIVED = ColumnCard("survived", "categorical", "class")
MONTHS = ColumnCard("months", "continuous", "duration")
DIED = ColumnCard("died", "categorical", "event")
WEIGHT = ColumnCard("weight", "continuous")
JOB = ColumnCard("job", "categorical", "attribute", TaxonomyCard("ef" * 32, 2, "Any job"))


def card(party: str, dataset: str, *columns: ColumnCard, horizontal: bool = True) -> Published:
    made = SchemaCard(party, dataset, "ssn", columns, "11" * 32, 5_000, f"{party}1", horizontal)
    return Published(party, (PublishedDataset(made, public=True, purposes=("research", "*")),))


CARDS = [
    card("north", "patients", AGE, WARD, DISEASE, SURVIVED, MONTHS, DIED),
    card("south", "patients", AGE, WARD, DISEASE, SURVIVED, WEIGHT, MONTHS, DIED),
    card("west", "patients", AGE, OTHER_WARD, DISEASE, SURVIVED),
    card("coast", "cases", AGE, WARD),
    card("registry", "people", AGE, JOB, horizontal=False),  # takes part in vertical sessions only
]
TOGETHER = ("north", "south")


class HospitalWorld(World):
    """Sessions in which north and south publish together."""

    wish: Mapping[str, Any] = {
        "purpose": "research",
        "kind": "horizontal",
        "attributes": ["age", "ward", "disease"],
        "class": "survived",
        "budget": 5000,
        "parties": list(TOGETHER),
        "m": 1,
        "privacy": [
            {"model": "k-anonymity", "qid": ["age", "ward"], "k": 5},
            {"model": "l-diversity", "qid": ["age", "ward"], "sensitive": "disease", "l": 2},
        ],
    }

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, CARDS)

    def agreed(self, session: SessionRecord | None = None, m: int = 2) -> SessionRecord:
        """Agreed against `m` colluding providers, which south insists on."""
        session = self.negotiating(session)
        wanted = list(session.request["privacy"])
        for turn, least in ((1, {"north": 1, "south": m}), (2, {"north": m, "south": m})):
            for party in TOGETHER:
                terms = {"requirements": wanted, "m": least[party]}
                self.store.offers.add(session.id, party, turn, terms, 500)
                told = {"party": party, "round": turn, "price": 500, "requirements": [], "reasons": []}
                self.tell(session, "offer", **told)
            if turn == 1:
                texts = ["k-anonymity (k = 5) over age, ward", f"all of it against any {m} colluding providers"]
                self.tell(session, "counter", round=turn, price=1000, requirements=texts)
        terms_hash, contract_hash = digest(f"terms {session.id}"), digest(f"contract {session.id}")
        self.tell(session, "contract", terms_hash=terms_hash, contract_hash=contract_hash, attempt=1)
        signed = {
            "deal": {"terms": {"kind": "horizontal", "m": m, "method": {"name": "mondrian", "third_party": "secure"}}}
        }
        return self.store.sessions.agree(session, terms_hash, contract_hash, signed)

    def progress(self, session: SessionRecord, turn: int, sent: int = 12_345) -> None:
        each = {"doing": "cutting", "round": turn, "bytes_sent": sent, "messages": 8, "seconds": 1.5}
        south = {**each, "doing": f"cutting: {turn} cuts tried, 12 groups at work"}
        self.tell(session, "progress", parties={"north": each, "south": south})

    def written(self, session: SessionRecord) -> NewRelease:
        """A real release on the disk, of records of both."""
        release = pooled_release()
        summary = {**release.summary, "kind": "horizontal", "m": 1, "third_party": "secure"}
        return self.kept(session, release, summary, release.table.num_rows)

    def published(self) -> SessionRecord:
        session = self.running(self.asked())
        self.progress(session, 40)
        session = self.store.sessions.advance(session, Status.ASSEMBLING)
        charges = {"north": 1250, "south": 300}
        return self.store.releases.publish(session, self.written(session), charges)


def pooled_release() -> mq.Release:
    """Of three hospitals' records; the third has old people alone, so that it is not in every group."""
    rng = random.Random(7)
    rows = [
        {
            "age": rng.randint(75 if hospital == "third" else 18, 90),
            "ward": rng.choice(["heart", "lung", "bones"]),
            "disease": rng.choice(["flu", "cold", "gout"]),
            "hospital": hospital,
        }
        for hospital in ("first", "second", "third")
        for _ in range(100)
    ]
    schema = mq.Schema([mq.Attribute("age", "continuous"), mq.Attribute("ward", taxonomy="flat")])
    table = mq.Table(pa.Table.from_pylist(rows), schema)
    inner = mq.KAnonymity(["age", "ward"], 5) & mq.LDiversity(["age", "ward"], 2, "disease")
    return mq.anonymize(table, mq.MPrivacy(1, inner, "hospital"), mq.Mondrian())
