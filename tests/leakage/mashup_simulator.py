"""What a simulator makes of a mashup: the rounds as a trusted party with the joined table would play them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import masquerade as mq
from leakage.align_sessions import aligned_views
from leakage.arrow_streams import by_first, stream_of
from leakage.bounded_simulator import told, within_boundaries
from leakage.coins import Recording
from leakage.views import Made, Views
from masquerade.anonymize import Candidate, Instruction, LocalView, PublicState
from masquerade.data import Generalised
from masquerade.protocol import ASSEMBLER, Contract, ReportedStep
from masquerade.protocol.boundaries import BoundaryStart
from masquerade.protocol.common_records import CommonRecords, known_sensitive, records_of, with_classes
from masquerade.protocol.comparing.argmax import Bid
from masquerade.protocol.sensitive.checks import most_children
from masquerade.protocol.tds.instruction_code import pack
from masquerade.protocol.tds.method import JointSpecialization
from masquerade.protocol.tds.party import _prepared, digest_of
from masquerade.utility import Comparison, holders_error, losses_of, score_named, shown_to_others


@dataclass(frozen=True)
class Played:
    """One round: everybody's bid, who won with what, and whether the winner instructs."""

    bids: dict[str, Bid | None]
    winner: str | None = None
    candidate: Candidate | None = None
    instruction: Instruction | None = None
    instructs: bool = True


def common_of(contract: Contract, own: dict[str, mq.Table]) -> dict[str, CommonRecords]:
    """What each party knows of the common records."""
    holder = contract.class_from or contract.parties[0]
    classes = own[holder].coded("Class")
    found = {}
    for name, table in own.items():
        records = with_classes(records_of(name, contract, table), classes)
        sensitive = known_sensitive(name, contract, records, classes)
        found[name] = CommonRecords(records, records, None, classes, sensitive, {}, 0.0, np.arange(len(records)))
    return found


class MashupSimulator:
    """What everybody hears, from everybody's records in the common order and the lengths of their lists."""

    def __init__(
        self,
        contract: Contract,
        own: dict[str, mq.Table],
        sizes: dict[str, int] | None = None,
        recording: Recording | None = None,
    ) -> None:
        self.contract, self.parties, self.own = contract, contract.parties, own
        self.made: dict[tuple[str, str], list[Made]] = {}
        if recording is not None and sizes is not None:
            self.made = aligned_views(self.parties, sizes, recording.results["rows"], recording.tapes)
        self.recording = recording
        self.seen = common_of(contract, own)
        self.start = BoundaryStart()
        self.counted: set[str] = set()  # who made a joint histogram
        self.steps: list[tuple[int, str, mq.Step]] = []

    @property
    def method(self) -> JointSpecialization:
        """The method of the contract."""
        return JointSpecialization.of(self.contract)

    @property
    def prepares(self) -> bool:
        """Whether something is prepared before the rounds."""
        return self.method.argmax == "secure" or bool(self.contract.bounded) or any(True for _ in self._remote())

    def views(self, *, ends_early: bool) -> Views:
        """Class, rounds, end, columns, one after the other; it ends early when the parties differ about the class."""
        self._classes()
        if not ends_early:
            self._within_boundaries()
            self._sensitive_values()
            self._most_parts()
            self._rounds()
            self._columns()
        return self.made

    def _within_boundaries(self) -> None:
        """Who can be released, and where these start."""
        if self.contract.bounded:
            whole = self.contract.method["name"] == "tds"
            rows, self.start = within_boundaries(self.contract, self.own, whole_columns=whole)
            n_records = len(self.own[self.parties[0]])
            assert self.recording is not None
            for sender, message, receivers in told(self.contract, rows, self.start, n_records, self.recording):
                self._tell(sender, message, receivers)
            self.seen = {name: each.only(rows) for name, each in self.seen.items()}

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

    def _most_parts(self) -> None:
        """Into how many parts each who may have to ask can split a group."""
        for name in self.parties:
            holders = dict.fromkeys(holder for _, holder, asking in self._remote() if name in asking)
            mine = [each.name for each in self.contract.qid_columns if each.holder == name]
            for holder in holders:
                parts = most_children(self.own[name].columns(mine))
                self._tell(name, Made("most-parts", parts=parts), (holder,))

    def groups_asked_about(self) -> list[object]:
        """Of each round who asks about groups of which sizes, and what comes of it: everybody sees it."""
        asked: list[object] = []
        for played in self._played():
            if played.winner is not None:
                sizes = [partition.sizes.tolist() for partition in self.states[played.winner].partitions]
                asked.append((played.winner, sizes, played.instructs))
        return asked

    def _remote(self) -> Iterator[tuple[Any, str, tuple[str, ...]]]:
        """Requirements on a sensitive attribute of another party: their holder, and who has to ask it."""
        holders = {column.name: column.holder for column in self.contract.columns}
        for part in self.contract.parts:
            if part.sensitive is not None and part.sensitive in holders:
                holder = holders[part.sensitive]
                asking = tuple(
                    name for name in self.parties if name != holder and any(holders[each] == name for each in part.qid)
                )
                if asking:
                    yield part, holder, asking

    def _rounds(self) -> None:
        told: dict[str, Bid | None] = {}
        last: str | None = None
        for played in self._played():
            if self.method.argmax == "plain":
                first = [last] if last is not None and self.method.adversary == "semi-honest" else []
                for name in first:  # wins by what the others have told before, or they tell theirs anew
                    self._tell(name, _score(played.bids[name]))
                    told[name] = played.bids[name]
                if not first or _best(told) != first[0]:
                    for name, bid in played.bids.items():
                        if name not in first:
                            self._tell(name, _score(bid))
                    told = played.bids
                last = played.winner
            if played.winner is None or played.candidate is None or played.instruction is None:
                break
            if any(True for _ in self._remote()):
                self._tell(played.winner, Made("settled", instructs=played.instructs))
            if played.instructs:
                self._tell(played.winner, _instruct(played.candidate, played.instruction))
        for name in self.parties:
            self._tell(name, Made("finished", digest=digest_of(self.states[name].each_label())))

    def _played(self) -> Iterator[Played]:
        """The rounds, as somebody with all tables would play them."""
        score = score_named(self.method.score, True)
        prepared = {name: _prepared(name, self.contract, each, score) for name, each in self.seen.items()}
        self.local: dict[str, LocalView] = {name: each[0] for name, each in prepared.items()}
        self.states: dict[str, PublicState] = {name: each[1] for name, each in prepared.items()}
        for instruction in self.start.instructions():
            for name in self.parties:
                numbers = self.states[name].specialise(instruction)
                if instruction.attribute in self.local[name].own:
                    self.local[name].start(instruction.attribute, numbers)
        strategy = self.method.participation(self.contract)
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
            winner = _best(bids)
            if winner is None:
                yield Played(bids)
                return
            candidate, offered = best[winner]  # type: ignore[misc] # it has offered
            children = self.states[winner].children(offered)
            instruction = Instruction(offered.attribute, offered.value, offered.n_children, children)
            holders = [holder for _, holder, asking in self._remote() if winner in asking]
            if holders:
                self.counted |= {winner, *holders}
            instructs = all(self.states[holder].allows(self.states[holder].told(instruction)) for holder in holders)
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

    def released(self, name: str, column: str) -> Generalised:
        """A party's column as it is released."""
        return self.seen[name].released(self.local[name].released(column))

    def _columns(self) -> None:
        """The released cells in the common order, one's own steps, what each attribute lost."""
        qid = {column.name for column in self.contract.qid_columns}
        for name in self.parties:
            own, kept = self.own[name], self.seen[name].kept
            mine = [column.name for column in self.contract.columns_of(name)]
            released = {each: self.released(name, each) for each in mine if each in qid}
            cells: dict[str, Any] = {}
            for each in mine:
                values = self.seen[name].left.arrow[each].to_pylist()
                cells[each] = (
                    (released[each].codes.tolist(), released[each].labels) if each in qid else by_first(values)
                )
            if self.contract.class_holder == name:
                cells["Class"] = by_first(self.seen[name].left.arrow["Class"].to_pylist())
            steps = [
                ReportedStep(number, step.attribute, step.value, step.children, step.score)
                for number, who, step in self.steps
                if who == name
            ]
            comparison = Comparison(own.columns(released), tuple(released.values()), None, kept, {})
            took = ["align", "prepare", "protocol"] if self.prepares else ["align", "protocol"]
            columns = Made(
                "columns",
                table=stream_of(cells, pa.int8()),
                steps=steps,
                losses=shown_to_others(losses_of(comparison), comparison.rows),
                left_out=["Diary"],
                seconds=dict.fromkeys(took, 0.0),
                suppressed=len(own) - self.seen[name].n_records,
                histograms_by=["transfers"] if name in self.counted else [],
                query_error=holders_error(comparison),
            )
            self._tell(name, columns, (ASSEMBLER,))
            self._tell(ASSEMBLER, Made("received", error=None), (name,))


def _best(bids: dict[str, Bid | None]) -> str | None:
    """Whose bid wins."""
    offered = [(-bid.score, bid.position, name) for name, bid in bids.items() if bid is not None]
    return min(offered)[2] if offered else None


def _score(bid: Bid | None) -> Made:
    if bid is None:
        return Made("score", score=b"", position=-1)
    size = bid.score.bit_length() // 8 + 1
    return Made("score", score=bid.score.to_bytes(size, "little", signed=True), position=bid.position)


def _instruct(candidate: Candidate, instruction: Instruction) -> Made:
    n_children = instruction.n_children
    return Made(
        "instruct",
        position=candidate.position,
        value=candidate.value,
        n_children=n_children,
        children=pack(instruction.children, n_children),
    )
