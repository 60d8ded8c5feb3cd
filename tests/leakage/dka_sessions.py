"""DkA, and what a simulator makes of it: what is opened in every round, and the released cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
import pyarrow as pa

from leakage.align_sessions import aligned_views
from leakage.arrow_streams import stream_of
from leakage.coins import Recording, Tapes, recorded
from leakage.views import Made, Session, Views, Watched
from masquerade.crypto.bits import pack
from masquerade.protocol.assemble import assemble
from masquerade.protocol.contract import Contract
from masquerade.protocol.dka.checkpoint import Notebook
from masquerade.protocol.dka.local_algorithms import LOCAL_ALGORITHMS
from masquerade.protocol.dka.party import dka_party
from masquerade.protocol.dka.side import Side
from masquerade.protocol.method import ASSEMBLER, Assembly, Seat
from masquerade.utility.comparison import Comparison
from masquerade.utility.losses import losses_of
from masquerade.utility.queries import holders_error
from protocol.test_dka import HOLDERS, NAMES, PARTIES, SCHEMA, columns_of, contract_of, people

N, K = 16, 3
STRANGERS = (2, 3)


@dataclass(frozen=True)
class Dka:
    """DkA by one of the two ways to a joint histogram, with one local algorithm."""

    back_end: str
    local: str = "datafly"

    @property
    def session(self) -> Session:
        """It as a session to record."""
        public = {
            "lists": tuple(N + more for more in STRANGERS),
            "common": N,
            "left": tuple(self.left(0)),
            "p": N // K,
            "q": N // K,
        }
        return Session(f"dka-{self.local} by {self.back_end}", public, self.play, self.simulate, self.left)

    @property
    def contract(self) -> Contract:
        """The same in every recording."""
        return msgspec.structs.replace(contract_of(K, self.local), nonce="0" * 32)

    def left(self, private: int) -> list[int]:
        """How many records are left in each round."""
        joined = people(N, private)
        sides = self._sides(dict.fromkeys(PARTIES, joined))
        return [tested for tested, _ in plain_rounds([*sides.values()])]

    def _sides(self, own: dict[str, Any]) -> dict[str, Side]:
        make = LOCAL_ALGORITHMS[self.local].side
        return {name: make(columns_of(own[name], at), N, K) for at, name in enumerate(PARTIES)}

    def play(self, private: int, tapes: Tapes) -> Recording:
        """Run both parties and the assembler."""
        scripts: dict[str, Any] = {ASSEMBLER: assemble(Assembly(self.contract))}
        tables = tables_of(private)
        for name, (table, ids) in tables.items():
            scripts[name] = dka_party(Seat(name, self.contract, table, ids), Notebook())
        where = "masquerade.protocol.joint_histogram.back_ends.cheaper"
        with patch(where, lambda _: self.back_end):
            made = recorded(scripts, tapes)
        made.results["rows"] = {name: table.common for name, (table, _) in tables.items()}
        return made

    def simulate(self, private: int, recording: Recording) -> Views:
        """Plain rounds on the joined table."""
        tables, rows = tables_of(private), recording.results["rows"]
        sizes = {name: len(ids) for name, (_, ids) in tables.items()}
        views = aligned_views(PARTIES, sizes, rows, recording.tapes)
        own = {name: table.take(rows[name]) for name, (table, _) in tables.items()}
        for name, peer in (PARTIES, PARTIES[::-1]):
            views[name, peer].insert(0, Made("dka-remembered", run=b"", rounds=0))
        sides = self._sides(own)
        for _, chi in plain_rounds([*sides.values()]):
            for name, peer in (PARTIES, PARTIES[::-1]):
                sent = [each for each in recording.between(peer, name) if each.kind == "dka-chi"]
                number = sum(each.kind == "dka-chi" for each in views[name, peer])
                kept = np.frombuffer(msgspec.msgpack.decode(sent[number].data)["bits"], np.uint8)
                views[name, peer].append(Made("dka-chi", bits=(pack(chi) ^ kept).tobytes()))
        for name in PARTIES:
            views[name, ASSEMBLER] = [self._columns(name, own[name], sides[name])]
            views[ASSEMBLER, name] = [Made("received", error=None)]
        return views

    def _columns(self, name: str, own: Any, side: Side) -> Made:
        released = {column.name: column for column in side.released()}
        mine = [each for each in NAMES if HOLDERS[each] == name]
        cells = {each: (released[each].codes.tolist(), released[each].labels) for each in mine}
        comparison = Comparison(own.columns(mine), tuple(released.values()), None, side.passed, {})
        return Made(
            "columns",
            table=stream_of(cells),
            steps=[],
            losses=losses_of(comparison),
            left_out=[],
            seconds={"align": 0.0, "protocol": 0.0},
            suppressed=N - side.passed.size,
            histograms_by=[self.back_end],
            query_error=holders_error(comparison),
        )


def tables_of(private: int) -> dict[str, tuple[Watched, list[bytes]]]:
    """Each party's table and identifiers: the common people and some strangers, in an order of its own."""
    random = np.random.default_rng(private)
    joined = people(N, private).arrow
    found = {}
    for name, more in zip(PARTIES, STRANGERS, strict=True):
        own = pa.concat_tables([joined, joined.slice(0, more)])
        ids = [f"id {private} {row}" for row in range(N)]
        ids += [f"only {name} {private} {row}" for row in range(more)]
        order = random.permutation(own.num_rows)
        held = own.select([each for each in NAMES if HOLDERS[each] == name]).take(pa.array(order))
        found[name] = Watched(held, SCHEMA), [ids[at].encode() for at in order]
    return found


def plain_rounds(sides: list[Side]) -> Iterator[tuple[int, Any]]:
    """How many records are tested in each round, and what the shares of it open, counted openly."""
    while not sides[0].over:
        if sides[0].opens == "end":
            opened = np.array([all(side.stuck for side in sides)])
        else:
            labels = list(zip(*(side.labels().tolist() for side in sides), strict=True))
            good = [sides[0].bound not in each and labels.count(each) >= K for each in labels]
            opened = np.array(good if sides[0].opens == "each" else [all(good)])
            yield sides[0].left.size, opened.astype(np.uint8)
        for side in sides:
            side.hear(opened)


SESSIONS = [
    Dka("transfers").session,
    Dka("encryption").session,
    *(Dka("transfers", local).session for local in ("top-down", "full-domain", "mondrian")),
]
