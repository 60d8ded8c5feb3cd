"""Mashups, and what a simulator makes of them: the rounds as a trusted party with the joined table would play them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import masquerade as mq
from leakage.align_sessions import aligned_views
from leakage.arrow_streams import stream_of
from leakage.coins import Recording, Tapes, recorded
from leakage.views import Made, Session, Views, Watched
from masquerade.anonymize.instruction import Instruction
from masquerade.anonymize.local_view import Candidate, LocalView
from masquerade.anonymize.public_state import PublicState
from masquerade.crypto.circuits_library import compare_bids, undefeated
from masquerade.errors import DataError
from masquerade.protocol.argmax import Bid
from masquerade.protocol.assemble import assemble
from masquerade.protocol.bid_width import bid_words
from masquerade.protocol.columns import ReportedStep
from masquerade.protocol.contract import Contract
from masquerade.protocol.instruction_code import pack
from masquerade.protocol.joint_specialization import JointSpecialization
from masquerade.protocol.mashup import _digest
from masquerade.protocol.method import ASSEMBLER, Assembly
from masquerade.protocol.party import _prepared, _strategy
from masquerade.utility.comparison import Comparison
from masquerade.utility.losses import losses_of
from masquerade.utility.scores import score_named
from papers.paper_tables import JOB, SEX
from protocol.seats import seated
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
NONCE = "0" * 32


@dataclass(frozen=True)
class Mashup:
    """One kind of mashup session."""

    name: str
    contract: Contract
    back_end: str | None = None  # of joint histograms, where it is not the cheaper one
    quarrel: bool = False  # about the class: the session ends when it is found

    @property
    def session(self) -> Session:
        """It as a session to record."""
        sizes = {name: N + STRANGERS[name] for name in self.contract.parties}
        bid = bid_words("gain-ratio", N, len(QID)).width
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
        return Session(self.name, public, self.play, self.simulate)

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
            found[name] = Watched(held, SCHEMA), [ids[at].encode() for at in order]
        return found

    def play(self, private: int, tapes: Tapes) -> Recording:
        """Run all parties and the assembler."""
        scripts: dict[str, Any] = {ASSEMBLER: assemble(Assembly(self.contract))}
        tables = self.tables(private)
        for name, (table, ids) in tables.items():
            scripts[name] = seated(name, self.contract, table, ids, left_out=("Diary",))
        where = "masquerade.protocol.joint_histogram.back_ends.cheaper"
        with patch(where, lambda _: self.back_end) if self.back_end is not None else nullcontext():
            made = recorded(scripts, tapes, DataError if self.quarrel else None)
        made.results["rows"] = {name: table.common for name, (table, _) in tables.items()}
        return made

    def simulate(self, private: int, recording: Recording) -> Views:
        """All views, from the joined table in the common order."""
        return Simulator(self, private, recording).views()


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


@dataclass(frozen=True)
class Played:
    """One round: everybody's bid, who won with what, and whether the winner instructs."""

    bids: dict[str, Bid | None]
    winner: str | None = None
    candidate: Candidate | None = None
    instruction: Instruction | None = None
    instructs: bool = True


class Simulator:
    """What everybody hears, from everybody's records in the common order."""

    def __init__(self, mashup: Mashup, private: int, recording: Recording) -> None:
        self.mashup, self.contract, self.recording = mashup, mashup.contract, recording
        self.parties = self.contract.parties
        self.rows = recording.results["rows"]
        tables = mashup.tables(private)
        self.sizes = {name: len(ids) for name, (_, ids) in tables.items()}
        self.own = {name: table.take(self.rows[name]) for name, (table, _) in tables.items()}
        self.made: dict[tuple[str, str], list[Made]] = aligned_views(
            self.parties, self.sizes, self.rows, recording.tapes
        )
        self.method = JointSpecialization.of(self.contract)
        self.counted: set[str] = set()  # who made a joint histogram

    def views(self) -> Views:
        """Class, rounds, end, columns, one after the other."""
        self._classes()
        if not self.mashup.quarrel:
            self._sensitive_values()
            self._rounds()
            self._columns()
        return self.made

    def _tell(self, sender: str, message: Made, receivers: tuple[str, ...] | None = None) -> None:
        for receiver in receivers or tuple(name for name in self.parties if name != sender):
            self.made.setdefault((sender, receiver), []).append(message)

    def _classes(self) -> None:
        """The class where one party shares it; where all hold it, equality is tested, and nothing is open."""
        sharer = self.contract.class_from
        if sharer is not None:
            classes = self.own[sharer].arrow["Class"].to_pylist()
            labels = sorted(set(classes))
            codes = np.array([labels.index(each) for each in classes], "<u4")
            self._tell(sharer, Made("class-column", labels=labels, codes=codes.tobytes()))

    def _sensitive_values(self) -> None:
        """How many different values the holder has."""
        for part, holder, asking in self._remote():
            assert part.sensitive is not None
            values = len(set(self.own[holder].arrow[part.sensitive].to_pylist()))
            self._tell(holder, Made("sensitive-values", labels=values, bounded=values), asking)

    def _remote(self) -> Iterator[tuple[Any, str, tuple[str, ...]]]:
        """Requirements on a sensitive attribute of another party: their holder, and who has to ask it."""
        holders = {column.name: column.holder for column in self.contract.columns}
        for part in self.contract.parts:
            if part.sensitive is not None and part.sensitive in holders:
                holder = holders[part.sensitive]
                asking = tuple(
                    name
                    for name in self.parties
                    if name != holder and any(holders[each] == name for each in part.qid)
                )
                if asking:
                    yield part, holder, asking

    def _rounds(self) -> None:
        for played in self._played():
            if self.method.argmax == "plain":
                for name, bid in played.bids.items():
                    self._tell(name, _offer(bid))
            if played.winner is None or played.candidate is None or played.instruction is None:
                break
            if any(True for _ in self._remote()):
                self._tell(played.winner, Made("settled", instructs=played.instructs))
            if played.instructs:
                self._tell(played.winner, _instruct(played.candidate, played.instruction))
        for name in self.parties:
            self._tell(name, Made("finished", digest=_digest(self.states[name])))

    def _played(self) -> Iterator[Played]:
        """The rounds, as somebody with all tables would play them."""
        classes = self.own[self.contract.class_from or self.parties[0]].coded("Class")
        score = score_named(self.method.score, True)
        prepared = {
            name: _prepared(name, self.contract, own, classes, score) for name, own in self.own.items()
        }
        self.local: dict[str, LocalView] = {name: each[0] for name, each in prepared.items()}
        self.states: dict[str, PublicState] = {name: each[1] for name, each in prepared.items()}
        self.steps: list[tuple[int, str, mq.Step]] = []
        strategy = _strategy(self.method, self.contract)
        number = 0
        while True:
            best = {
                name: self.local[name].best(self.states[name]) if strategy.takes_part(me) else None
                for me, name in enumerate(self.parties)
            }
            bids = {
                name: Bid(found[0].score, found[0].position) if found is not None else None
                for name, found in best.items()
            }
            offered = [(-bid.score, bid.position, name) for name, bid in bids.items() if bid is not None]
            if not offered:
                yield Played(bids)
                return
            winner = min(offered)[2]
            candidate, instruction = best[winner]  # type: ignore[misc] # it has offered
            holders = [holder for _, holder, asking in self._remote() if winner in asking]
            if holders:
                self.counted |= {winner, *holders}
            instructs = all(self.states[holder].allows(instruction) for holder in holders)
            yield Played(bids, winner, candidate, instruction, instructs)
            if not instructs:
                self.local[winner].candidates.remove(candidate)
                continue
            for name in self.parties:
                numbers = self.states[name].specialise(instruction)
            step = self.local[winner].step(candidate)
            self.steps.append((number, winner, step))
            self.local[winner].specialise(candidate, numbers)
            strategy.credit(self.parties.index(winner), candidate.score)
            number += 1

    def _columns(self) -> None:
        """The released cells in the common order, one's own steps, what each attribute lost."""
        qid = {column.name for column in self.contract.qid_columns}
        for name in self.parties:
            own, local = self.own[name], self.local[name]
            mine = [column.name for column in self.contract.columns_of(name)]
            released = {each: local.released(each) for each in mine if each in qid}
            cells: dict[str, Any] = {}
            for each in mine:
                values = own.arrow[each].to_pylist()
                cells[each] = (
                    (released[each].codes.tolist(), released[each].labels) if each in qid else values
                )
            if self.contract.class_holder == name:
                cells["Class"] = own.arrow["Class"].to_pylist()
            steps = [
                ReportedStep(number, step.attribute, step.value, step.children, step.score)
                for number, who, step in self.steps
                if who == name
            ]
            comparison = Comparison(own.columns(released), tuple(released.values()), None, None, {})
            prepares = self.method.argmax == "secure" or any(True for _ in self._remote())
            took = ["align", "prepare", "protocol"] if prepares else ["align", "protocol"]
            columns = Made(
                "columns",
                table=stream_of(cells),
                steps=steps,
                losses=losses_of(comparison),
                left_out=["Diary"],
                seconds=dict.fromkeys(took, 0.0),
                suppressed=0,
                histograms_by=[self.mashup.back_end or "transfers"] if name in self.counted else [],
            )
            self._tell(name, columns, (ASSEMBLER,))
            self._tell(ASSEMBLER, Made("received"), (name,))


def _offer(bid: Bid | None) -> Made:
    if bid is None:
        return Made("offer", score=b"", position=-1)
    size = bid.score.bit_length() // 8 + 1
    return Made("offer", score=bid.score.to_bytes(size, "little", signed=True), position=bid.position)


def _instruct(candidate: Candidate, instruction: Instruction) -> Made:
    n_children = instruction.n_children
    return Made(
        "instruct",
        position=candidate.position,
        value=candidate.value,
        n_children=n_children,
        children=pack(instruction.children, n_children),
    )


K = mq.KAnonymity(["Sex", "Job"], k=3) & mq.KAnonymity(["Sex", "Salary"], k=4)
DIVERSE = mq.KAnonymity(QID, k=LEAST) & mq.LDiversity(QID, l=2, sensitive="Disease")
SICK = {"Disease": "clinic"}

MASHUPS = [
    Mashup("mashup, plain scores", contract_of(K, TWO, argmax="plain", nonce=NONCE)),
    Mashup(
        "mashup, one shares the class", contract_of(K, TWO, argmax="plain", class_from="loans", nonce=NONCE)
    ),
    Mashup("mashup, classes differ", contract_of(K, TWO, argmax="plain", nonce=NONCE), quarrel=True),
    Mashup("mashup, 2 parties", contract_of(K, TWO, nonce=NONCE)),
    Mashup("mashup, 3 parties", contract_of(K, THREE, nonce=NONCE)),
    Mashup(
        "mashup, Algorithm 2, plain scores",
        contract_of(K, TWO, argmax="plain", adversary="malicious", epsilon=0.01, nonce=NONCE),
    ),
    Mashup("mashup, Algorithm 2", contract_of(K, TWO, adversary="malicious", epsilon=0.01, nonce=NONCE)),
    Mashup(
        "mashup, sensitive elsewhere",
        contract_of(DIVERSE, TWO, sensitive=SICK, argmax="plain", nonce=NONCE),
    ),
    Mashup(
        "mashup, sensitive elsewhere, by encryption",
        contract_of(DIVERSE, TWO, sensitive={"Disease": "loans"}, argmax="plain", nonce=NONCE),
        back_end="encryption",
    ),
]
SESSIONS = [each.session for each in MASHUPS]
