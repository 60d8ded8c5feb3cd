"""Mashups: with plain and hidden scores, of selfish parties, with a class and sensitive values here and there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

import masquerade as mq
from leakage.bounded_simulator import within_boundaries
from leakage.coins import Recording, Tapes, recorded
from leakage.level_simulator import LevelSimulator, groups_of, levels
from leakage.linked_simulator import LinkedSimulator, joined_groups, linked_levels, union_of
from leakage.mashup_simulator import MashupSimulator, common_of
from leakage.views import Session, Views, Watched
from masquerade.crypto import BidWords, compare_bids, undefeated
from masquerade.errors import DataError, RequirementUnreachable
from masquerade.protocol import ASSEMBLER, Assembly, Contract, terms_of
from masquerade.protocol.assembling import assemble
from masquerade.protocol.boundaries import BoundaryStart
from masquerade.protocol.mondrian.levels import SCORE_BITS
from masquerade.protocol.sensitive.checks import remote_parts
from masquerade.protocol.tds.party import bid_words
from masquerade.utility import SCORES
from papers.paper_tables import JOB, SEX
from protocol.party_scripts import party_script
from protocol.test_joint_mondrian import contract_of as cut_contract_of
from protocol.test_mashup import contract_of

N = 16  # common records
STRANGERS = {"bank": 3, "loans": 2, "tax": 1, "clinic": 2}
QID = ["Sex", "Job", "Salary"]
TWO = {"Sex": "loans", "Job": "bank", "Salary": "bank", "Town": "loans"}
THREE = {"Sex": "loans", "Job": "bank", "Salary": "tax", "Town": "tax"}
SCHEMA = mq.Schema(
    [
        mq.Attribute("Sex", taxonomy=mq.Taxonomy(SEX)),
        mq.Attribute("Job", taxonomy=mq.Taxonomy(JOB)),
        mq.Attribute("Salary", "continuous"),
        mq.Attribute("Town"),
    ]
)
DISEASES = ["flu", "gout", "HIV"]
LEAST = 3  # the size of every group
PARTS = 4  # of a group, at most
NONCE = "0" * 32


@dataclass(frozen=True)
class Mashup:
    """One kind of mashup session."""

    name: str
    contract: Contract
    schema: mq.Schema = SCHEMA
    quarrel: bool = False  # about the class: the session ends when it is found
    simulator: type[MashupSimulator] = MashupSimulator

    @property
    def session(self) -> Session:
        """It as a session to record."""
        sizes = {name: N + STRANGERS[name] for name in self.contract.parties}
        bid = bid_words(SCORES["gain-ratio"], N, len(QID)).width
        public = {
            "lists": tuple(sizes.values()),
            "common": N,
            "parties": len(sizes),
            "bid": bid,  # binary digits
            "ands": compare_bids(bid, True).n_and,
            "triples": undefeated(3).n_and if len(sizes) == 3 else 0,  # a round
            "left": (N,),  # records in a joint histogram
            "p": len(DISEASES),
            "q": N // LEAST,
        }
        if remote_parts(self.contract):
            public["parts"] = PARTS
            public["rows"] = tuple(range(1, N // LEAST + 1))
            return Session(self.name, public, self.play, self.simulate, self.seen_of_rounds)
        return Session(self.name, public, self.play, self.simulate)

    def seen_of_rounds(self, private: int) -> list[object]:
        """Who asks about groups of which sizes: what is sent for that follows from it."""
        joined = people(np.random.default_rng(private))
        own = {
            name: mq.Table(joined.select(self.contract.columns_needed(name)), self.schema)
            for name in self.contract.parties
        }
        return MashupSimulator(self.contract, own).groups_asked_about()

    def tables(self, private: int) -> dict[str, tuple[Watched, list[bytes]]]:
        """Each party's table and identifiers: the common people and some strangers, in an order of its own."""
        random = np.random.default_rng(private)
        joined = people(random)
        found = {}
        for number, name in enumerate(self.contract.parties):
            own = pa.concat_tables([joined, joined.slice(number, STRANGERS[name])])
            ids = [f"id {private} {row}" for row in range(N)]
            ids += [f"only {name} {private} {row}" for row in range(STRANGERS[name])]
            if self.quarrel and number:
                labels = own["Class"].to_pylist()
                labels[0] = "Y" if labels[0] == "N" else "N"
                own = own.set_column(own.column_names.index("Class"), "Class", pa.array(labels))
            order = random.permutation(own.num_rows)
            held = own.select(self.contract.columns_needed(name)).take(pa.array(order))
            found[name] = Watched(held, self.schema), [ids[at].encode() for at in order]
        return found

    def play(self, private: int, tapes: Tapes) -> Recording:
        """Run all parties and the assembler."""
        scripts: dict[str, Any] = {ASSEMBLER: assemble(Assembly(self.contract))}
        tables = self.tables(private)
        for name, (table, ids) in tables.items():
            scripts[name] = party_script(name, self.contract, table, ids, left_out=("Diary",))
        made = recorded(scripts, tapes, DataError if self.quarrel else None)
        made.results["rows"] = {name: table.common for name, (table, _) in tables.items()}
        return made

    def simulate(self, private: int, recording: Recording) -> Views:
        """All views, from the joined table in the common order."""
        tables = self.tables(private)
        own = {name: table.take(recording.results["rows"][name]) for name, (table, _) in tables.items()}
        sizes = {name: len(ids) for name, (_, ids) in tables.items()}
        simulator = self.simulator(self.contract, own, sizes, recording)
        return simulator.views(ends_early=self.quarrel)


def people(random: np.random.Generator) -> pa.Table:
    """The common people."""
    cells = {
        "Sex": random.choice(["Male", "Female"], N),
        "Job": random.choice(mq.Taxonomy(JOB).leaves, N),
        "Salary": random.integers(1000, 9999, N),
        "Town": random.choice(["Ulm", "Graz", "Bern"], N),
        "Disease": random.choice(DISEASES, N),
        "Class": random.choice(["Y", "N"], N),
    }
    return pa.table({name: pa.array(each.tolist()) for name, each in cells.items()})


K = mq.KAnonymity(["Sex", "Job"], k=3) & mq.KAnonymity(["Sex", "Salary"], k=4)
DIVERSE = mq.KAnonymity(QID, k=LEAST) & mq.LDiversity(QID, l=2, sensitive="Disease")
SICK = {"Disease": "clinic"}

MASHUPS = [
    Mashup("mashup, plain scores", contract_of(K, TWO, argmax="plain", nonce=NONCE)),
    Mashup("mashup, one shares the class", contract_of(K, TWO, argmax="plain", class_from="loans", nonce=NONCE)),
    Mashup("mashup, classes differ", contract_of(K, TWO, argmax="plain", nonce=NONCE), quarrel=True),
    Mashup("mashup, 2 parties", contract_of(K, TWO, nonce=NONCE)),
    Mashup("mashup, 3 parties", contract_of(K, THREE, nonce=NONCE)),
    Mashup(
        "mashup, Algorithm 2, plain scores",
        contract_of(K, TWO, argmax="plain", adversary="malicious", epsilon=0.01, nonce=NONCE),
    ),
    Mashup("mashup, Algorithm 2", contract_of(K, TWO, adversary="malicious", epsilon=0.01, nonce=NONCE)),
    Mashup("mashup, sensitive elsewhere", contract_of(DIVERSE, TWO, sensitive=SICK, argmax="plain", nonce=NONCE)),
    Mashup(
        "mashup, sensitive at a holder of the QID",
        contract_of(DIVERSE, TWO, sensitive={"Disease": "loans"}, argmax="plain", nonce=NONCE),
    ),
]


@dataclass(frozen=True)
class CutMashup(Mashup):
    """One kind of mashup by Mondrian."""

    simulator: type[MashupSimulator] = LevelSimulator
    most_groups: int = N // LEAST

    @property
    def session(self) -> Session:
        """It as a session to record; how many groups each level has is seen by everybody."""
        bid = BidWords(SCORE_BITS, (len(QID) - 1).bit_length()).width
        groups = tuple(range(1, self.most_groups + 1))
        made = super().session
        public = {**made.public, "bid": bid, "ands": compare_bids(bid, True).n_and}
        public |= {"ahead": groups, "at_once": groups}
        if self.contract.bounded:
            public |= {"p": 2, "q": 2}  # both testers' groups are padded to what their trees allow
        return replace(made, public=public, learnt=self.seen_of_levels)

    def seen_of_levels(self, private: int) -> list[object]:
        """How many groups are bid for on each level, and how large those are about which their winners ask."""
        joined = people(np.random.default_rng(private))
        own = {
            name: mq.Table(joined.select(self.contract.columns_needed(name)), self.schema)
            for name in self.contract.parties
        }
        try:
            seen = common_of(self.contract, own)
        except RequirementUnreachable:  # these people lack a disease
            return []
        rows, start = np.arange(N), BoundaryStart()
        if self.contract.bounded:
            rows, start = within_boundaries(self.contract, own, whole_columns=False)
        groups = groups_of(self.contract, {name: each.only(rows) for name, each in seen.items()}, start)
        return [rows.size] + [(level.waiting, level.asked) for level in levels(self.contract, groups)]


@dataclass(frozen=True)
class LinkedMashup(CutMashup):
    """One kind of mashup by Mondrian over QIDs that share attributes."""

    simulator: type[MashupSimulator] = LinkedSimulator
    most_groups: int = 2 * (N // LEAST)

    def seen_of_levels(self, private: int) -> list[object]:
        """How many groups are bid for on each level."""
        joined = people(np.random.default_rng(private))
        own = {
            name: mq.Table(joined.select(self.contract.columns_needed(name)), self.schema)
            for name in self.contract.parties
        }
        waiting, union = union_of(self.contract, common_of(self.contract, own))
        groups = joined_groups(self.contract, own, union)
        return [waiting, *(level.asked for level in linked_levels(self.contract, groups))]


WHOLE = mq.KAnonymity(QID, k=LEAST)
MORE_DIVERSE = WHOLE & mq.LDiversity(QID, l=3, sensitive="Disease")  # so that some cuts are refused
CUT = [
    CutMashup("mashup by mondrian, 2 parties", cut_contract_of(WHOLE, TWO, class_name="Class", nonce=NONCE)),
    CutMashup("mashup by mondrian, 3 parties", cut_contract_of(WHOLE, THREE, class_name="Class", nonce=NONCE)),
    CutMashup(
        "mashup by mondrian, sensitive elsewhere",
        cut_contract_of(MORE_DIVERSE, TWO, sensitive=SICK, class_name="Class", nonce=NONCE),
    ),
]
# Of which one leaves something to cut where the union of both does not.
SHARED = mq.KAnonymity(QID[:2], k=LEAST) & mq.KAnonymity(QID[1:], k=2 * LEAST)
LINKED = [
    LinkedMashup(
        f"mashup by mondrian, QIDs that share an attribute, {len({*holders.values()})} parties",
        cut_contract_of(SHARED, holders, class_name="Class", nonce=NONCE),
    )
    for holders in (TWO, THREE)
]

BOUNDED_SCHEMA = mq.Schema(
    [
        mq.Attribute("Sex", taxonomy=mq.Taxonomy(SEX), max_generalization=("Male", "Female")),
        mq.Attribute("Job", taxonomy=mq.Taxonomy(JOB), max_generalization=("Blue-collar", "White-collar")),
        *SCHEMA.attributes[2:],
    ]
)
FOUR = {**TWO, "Town": "tax"}  # who has nothing that decides


@dataclass(frozen=True)
class BoundedMashup(Mashup):
    """One kind of mashup within boundaries."""

    @property
    def session(self) -> Session:
        """It as a session to record; both testers' groups are padded to what their trees allow."""
        made = super().session
        return replace(made, public={**made.public, "p": 2, "q": 2, "s": 1})


TERMS = {"attributes": terms_of(BOUNDED_SCHEMA), "nonce": NONCE}
BOUNDED = [
    BoundedMashup(
        f"mashup within boundaries, {words}",
        contract_of(WHOLE, holders, argmax="plain", **TERMS),
        schema=BOUNDED_SCHEMA,
    )
    for words, holders in (
        ("2 parties", TWO),
        ("a third without any", FOUR),
        ("all of them at one", {**TWO, "Sex": "bank"}),
    )
]
THREE_BOUNDED = mq.Schema(  # all three test; within 9,000 are all salaries
    [*BOUNDED_SCHEMA.attributes[:2], mq.Attribute("Salary", "continuous", max_width=9000), mq.Attribute("Town")]
)
BOUNDED_CUT = [
    CutMashup(
        "mashup by mondrian within boundaries, 3 parties",
        cut_contract_of(WHOLE, THREE, class_name="Class", attributes=terms_of(THREE_BOUNDED), nonce=NONCE),
        schema=THREE_BOUNDED,
    ),
    CutMashup(
        "mashup by mondrian within boundaries",
        cut_contract_of(WHOLE, TWO, class_name="Class", **TERMS),
        schema=BOUNDED_SCHEMA,
    ),
]
SESSIONS = [each.session for each in (*MASHUPS, *CUT, *LINKED, *BOUNDED, *BOUNDED_CUT)]
