"""Collaborations, and what a simulator makes of them: digests of the schema, powers of two, verdicts, released rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

import masquerade as mq
from leakage.arrow_streams import stream_of
from leakage.coins import Recording, Tapes, recorded
from leakage.granted_answers import Granted, asked
from leakage.views import Made, Session, Views, random_order
from masquerade.crypto import pack
from masquerade.methods import method_of
from masquerade.protocol import ASSEMBLER, Assembly, AttributeTerms, Contract, Participant
from masquerade.protocol.contract import agreed_table
from masquerade.protocol.providers.cuts import HolderGroups
from masquerade.protocol.providers.messages import digest_of, stacked, write_schema
from masquerade.protocol.providers.third_party import public_settings, third_party
from masquerade.utility import compare, holders_error, shown_to_others
from protocol.test_collaborate import ILLNESSES, JOBS, QID, SCHEMA, contract_of, requirement_of, table_of

HOUSES = ("abbey", "burgh", "clinic")
NONCE = "0" * 32


@dataclass(frozen=True)
class Collaborate:
    """One kind of collaboration."""

    name: str
    contract: Contract
    copies: tuple[tuple[int, ...], ...]  # by private data and provider: how often each kind of record occurs

    @property
    def session(self) -> Session:
        """It as a session to record."""
        public = {"parties": len(self.contract.parties), "attributes": len(QID)}
        return Session(self.name, public, self.play, self.simulate)

    def tables(self, private: int) -> dict[str, mq.Table]:
        """Each provider's records; all copies of a kind give the same answers, whatever their number."""
        found = {}
        random = np.random.default_rng(private)
        for name, copies in zip(self.contract.parties, self.copies[private % len(self.copies)], strict=True):
            records = [(job, age, ill) for job in JOBS.leaves for age in (20, 45) for ill in ILLNESSES[:2] * copies]
            found[name] = table_of([records[at] for at in random.permutation(len(records))])
        return found

    def play(self, private: int, tapes: Tapes) -> Recording:
        """Run all providers and the third party."""
        method = method_of(self.contract)
        scripts: dict[str, Any] = {
            name: method.party(Participant(name, self.contract, table, left_out=("diary",)))
            for name, table in self.tables(private).items()
        }
        scripts[ASSEMBLER] = third_party(Assembly(self.contract, SCHEMA))
        return recorded(scripts, tapes)

    def simulate(self, private: int, recording: Recording) -> Views:
        """From the answers that the page lists, and the release."""
        tables = self.tables(private)
        trusted = self.contract.method["third_party"] == "trusted"
        made: dict[tuple[str, str], list[Made]] = {}
        for name, table in tables.items():
            made[ASSEMBLER, name] = [Made("received", error=None)]
            if trusted:
                made[name, ASSEMBLER] = [self._records(table)]
        if trusted:
            return made
        stack = mq.Table(stacked({name: each.arrow for name, each in tables.items()}, "provider"), SCHEMA)
        joined = agreed_table(stack, self.contract.attributes)
        ((settings, (judge,)),) = public_settings(self.contract, joined)
        granted = Granted(self.contract, joined)
        asked(self.contract, settings, granted, Granted(self.contract, joined))
        left, settings, groups = asked(self.contract, settings, judge, judge)
        for number, name in enumerate(tables):
            told = [self._axes()]
            on_counts = any(part.thresholds is None for part in self.contract.parts)
            by_fitness = self.contract.method["choose"] == "fitness"
            if self.contract.method["provider_aware"] or by_fitness or on_counts:
                told.append(Made("collaborate-size", bits=len(tables[name]).bit_length()))
            for owners, empty, good in granted.alone:
                mine = [at for at, owner in enumerate(owners) if owner == number]
                bits = np.concatenate((empty[mine], good[mine])).astype(np.uint8)
                told.append(Made("collaborate-alone", bits=pack(bits).tobytes()))
            for peer in tables:
                if peer != name:
                    made[name, peer] = told
        values = [Made("collaborate-values", values=[[[ill] for ill in ILLNESSES[:2]]])]
        diverse = any(part.sensitive is not None for part in self.contract.parts)
        for name in tables:
            suppressed = len(tables[name]) - joined.take(left).arrow["provider"].to_pylist().count(name)
            rows = self._rows(name, joined.take(left), settings, groups, suppressed, recording)
            made[name, ASSEMBLER] = [*(values if diverse else []), rows]
            made[ASSEMBLER, name] = [*(values if diverse else []), *made[ASSEMBLER, name]]
        return made

    def _axes(self) -> Made:
        digests = [digest_of(each, self.contract.hash) for each in write_schema(SCHEMA, QID)]
        return Made("collaborate-axes", digests=digests)

    def _records(self, table: mq.Table) -> Made:
        cells = {name: table.arrow[name].to_pylist() for name in ("job", "age", "ill")}
        return Made("collaborate-records", table=stream_of(cells), left_out=["diary"], schema=write_schema(SCHEMA, QID))

    def _rows(
        self, name: str, joined: mq.Table, settings: Any, groups: Any, suppressed: int, recording: Recording
    ) -> Made:
        """A provider's rows of the release as a trusted third party makes it, in a random order."""
        labels = HolderGroups(settings, groups).labels()
        own = np.flatnonzero([each == name for each in joined.arrow["provider"].to_pylist()])
        order = random_order(recording.tapes.drew(name, 8 * own.size, last=True))  # a triple's may be as long
        cells: dict[str, Any] = {
            name: [column[int(row)].as_py() for row in own[order]] for name, column in labels.items()
        }
        ills = joined.arrow["ill"].to_pylist()
        cells["ill"] = [ills[row] for row in own[order]]
        alone = HolderGroups(*of_rows(settings, groups, own))
        return Made(
            "collaborate-rows",
            table=stream_of(cells),
            losses=shown_to_others(alone.losses(), own.size),
            left_out=["diary"],
            seconds={"prepare": 0.0, "protocol": 0.0},
            query_error=holders_error(compare(joined.take(own), pa.table(alone.labels()), QID)),
            suppressed=suppressed,
        )


def of_rows(settings: Any, groups: Any, own: Any) -> tuple[Any, Any]:
    """Settings and groups of these rows alone."""
    number = {int(row): at for at, row in enumerate(own)}
    mine = [
        replace(group, rows=np.array([number[int(row)] for row in group.rows if int(row) in number], int))
        for group in groups
    ]
    ranks = tuple(each[own] for each in settings.ranks)
    return replace(settings, ranks=ranks), mine


def contract(k: int, l: int, parties: tuple[str, ...] = HOUSES, **terms: Any) -> Contract:  # noqa: E741
    """A contract that is the same in every run."""
    return agreed(requirement_of(k, l), parties, **terms)


def agreed(requirement: mq.Requirement, parties: tuple[str, ...] = HOUSES, **terms: Any) -> Contract:
    """The same for any requirement."""
    return msgspec.structs.replace(contract_of(requirement, 1, parties, **terms), nonce=NONCE)


SHARES = mq.KAnonymity(QID, k=3) & mq.ConfidenceBounding(QID, confidence=0.7, sensitive="ill")

LIMITED = (  # those of no job are too few within them
    AttributeTerms("job", max_generalization=("office", "craft", "none")),
    AttributeTerms("age", max_width="32"),
)


COLLABORATIONS = [
    Collaborate("collaborate, secure", contract(3, 1, provider_aware=False), ((2, 2, 2), (3, 2, 3))),
    Collaborate("collaborate, secure, diverse", contract(3, 2, provider_aware=False), ((2, 2, 2), (3, 2, 3))),
    Collaborate("collaborate, secure, aware", contract(2, 1), ((2, 2, 2), (2, 2, 2))),
    Collaborate("collaborate, secure, shares", agreed(SHARES), ((2, 2, 2), (2, 2, 2))),
    Collaborate(
        "collaborate, secure, fittest", contract(2, 2, choose="fitness", provider_aware=False), ((2, 2, 2), (2, 2, 2))
    ),
    Collaborate(
        "collaborate, secure, bounded",
        msgspec.structs.replace(contract(9, 1, provider_aware=False), attributes=LIMITED),
        ((2, 2, 2), (2, 2, 2)),
    ),
    Collaborate("collaborate, trusted", contract(3, 2, third_party="trusted"), ((1, 2, 1), (1, 2, 1))),
]
SESSIONS = [each.session for each in COLLABORATIONS]
