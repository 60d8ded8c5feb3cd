"""Joint keys, and what a simulator makes of them: the ratios, and nothing of the columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from leakage.align_sessions import aligned_views
from leakage.coins import Recording, Tapes, recorded
from leakage.views import Made, Session, Views, Watched
from masquerade.protocol import ASSEMBLER, Assembly, Contract, JointKeys as Question, Participant
from protocol.test_joint_keys import contract_of

N = 6
STRANGERS = (2, 1, 3)
SETS = (("age", "state"), ("sex", "state"))


@dataclass(frozen=True)
class JointKeys:
    """Two or three parties that ask about two sets of columns."""

    parties: tuple[str, ...]
    measure: str
    precision: str | None = None

    @property
    def session(self) -> Session:
        """It as a session to record; what everybody learns are the ratios."""
        lists = tuple(N + more for more in STRANGERS[: len(self.parties)])
        steps = "" if self.precision is None else f" to {self.precision}"
        name = f"joint keys, {self.measure}{steps}, {len(self.parties)} parties"
        return Session(name, {"lists": lists, "common": N}, self.play, self.simulate, self.opened)

    @property
    def contract(self) -> Contract:
        """The same in every recording."""
        options = {} if self.precision is None else {"precision": self.precision}
        contract = contract_of(*SETS, parties=self.parties, measure=self.measure, **options)
        return msgspec.structs.replace(contract, nonce="0" * 32)

    def people(self, private: int) -> dict[str, list[Any]]:
        """Everybody's columns: few values, so that some are alike."""
        draw = np.random.default_rng(private)
        return {name: draw.choice(["a", "b", "c"], N).tolist() for name in ("age", "sex", "state")}

    def opened(self, private: int) -> list[int]:
        """What the ratios are, counted openly."""
        people = self.people(private)
        found = []
        for columns in SETS:
            rows = [*zip(*(people[name] for name in columns), strict=True)]
            alike, whole = N - len({*rows}), N
            if self.measure == "separation":
                alike, whole = sum(rows.count(row) - 1 for row in rows), N * (N - 1)
            steps = None if self.precision is None else round(1 / float(self.precision))
            found.append(alike if steps is None else steps * (whole - alike) // whole)
        return found

    def tables(self, private: int) -> dict[str, tuple[Watched, list[bytes]]]:
        """Each party's table and identifiers: the common people and some strangers, in an order of its own."""
        draw, people, found = np.random.default_rng(private), self.people(private), {}
        for name, more in zip(self.parties, STRANGERS, strict=False):
            rows = draw.permutation(N + more)
            ids = [f"id {private} {row}" if row < N else f"only {name} {private} {row}" for row in rows]
            own = {column: [people[column][row % N] for row in rows] for column in self.contract.columns_needed(name)}
            table = Watched(pa.table(own or {"nothing": [0] * len(rows)}))
            found[name] = table, [each.encode() for each in ids]
        return found

    def play(self, private: int, tapes: Tapes) -> Recording:
        """Run all parties and the assembler."""
        question, tables = Question.of(self.contract), self.tables(private)
        scripts: dict[str, Any] = {ASSEMBLER: question.assembler(Assembly(self.contract))}
        for name, (table, ids) in tables.items():
            scripts[name] = question.party(Participant(name, self.contract, table, ids))
        made = recorded(scripts, tapes)
        made.results["rows"] = {name: table.common for name, (table, _) in tables.items()}
        return made

    def simulate(self, private: int, recording: Recording) -> Views:
        """The alignment, and the ratios."""
        sizes = {name: len(ids) for name, (_, ids) in self.tables(private).items()}
        views = aligned_views(self.parties, sizes, recording.results["rows"], recording.tapes)
        told = Made("joint-ratios", records=N, opened=self.opened(private), seconds={"align": 0.0, "protocol": 0.0})
        for name in self.parties:
            views[name, ASSEMBLER] = [told]
            views[ASSEMBLER, name] = [Made("received", error=None)]
        return views


SESSIONS = [
    JointKeys(("ann", "ben"), "distinct").session,
    JointKeys(("ann", "ben"), "separation", "0.1").session,
    JointKeys(("ann", "ben", "carl"), "distinct").session,
]
