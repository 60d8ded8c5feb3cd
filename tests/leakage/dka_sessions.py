"""DkA-Datafly, and what a simulator makes of it: χ of every round, and the released cells."""

from __future__ import annotations

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
from masquerade.protocol.dka.checkpoint import Notebook
from masquerade.protocol.dka.datafly_side import DataflySide
from masquerade.protocol.dka.party import dka_party
from masquerade.protocol.method import ASSEMBLER, Assembly, Seat
from masquerade.utility.comparison import Comparison
from masquerade.utility.losses import losses_of
from protocol.test_dka import HOLDERS, NAMES, PARTIES, SCHEMA, columns_of, contract_of, people

N, K = 16, 3
STRANGERS = (2, 3)
CONTRACT = msgspec.structs.replace(contract_of(K), nonce="0" * 32)


@dataclass(frozen=True)
class Dka:
    """DkA-Datafly by one of the two ways to a joint histogram."""

    back_end: str

    @property
    def session(self) -> Session:
        """It as a session to record."""
        public = {
            "lists": tuple(N + more for more in STRANGERS),
            "common": N,
            "left": tuple(left(0)),
            "p": N // K,
            "q": N // K,
        }
        return Session(f"dka-datafly by {self.back_end}", public, self.play, self.simulate, left)

    def play(self, private: int, tapes: Tapes) -> Recording:
        """Run both parties and the assembler."""
        scripts: dict[str, Any] = {ASSEMBLER: assemble(Assembly(CONTRACT))}
        tables = tables_of(private)
        for name, (table, ids) in tables.items():
            scripts[name] = dka_party(Seat(name, CONTRACT, table, ids), Notebook())
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
        sides = {name: DataflySide(columns_of(own[name], at), N, K) for at, name in enumerate(PARTIES)}
        for chi in plain_rounds(sides):
            for name, peer in (PARTIES, PARTIES[::-1]):
                sent = [each for each in recording.between(peer, name) if each.kind == "dka-chi"]
                number = sum(each.kind == "dka-chi" for each in views[name, peer])
                kept = np.frombuffer(msgspec.msgpack.decode(sent[number].data)["bits"], np.uint8)
                views[name, peer].append(Made("dka-chi", bits=(pack(chi) ^ kept).tobytes()))
        for name in PARTIES:
            views[name, ASSEMBLER] = [self._columns(name, own[name], sides[name])]
            views[ASSEMBLER, name] = [Made("received")]
        return views

    def _columns(self, name: str, own: Any, side: DataflySide) -> Made:
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


def left(private: int) -> list[int]:
    """How many records are left in each round."""
    joined = people(N, private)
    sides = {name: DataflySide(columns_of(joined, at), N, K) for at, name in enumerate(PARTIES)}
    return [chi.size for chi in plain_rounds(sides)]


def plain_rounds(sides: dict[str, DataflySide]) -> Any:
    """χ of every round, counted openly."""
    one, two = sides.values()
    for side in (one, two):
        side.generalise_locally()
    while not one.over:
        pairs = list(zip(one.labels().tolist(), two.labels().tolist(), strict=True))
        chi = np.array(
            [one.bound != a and two.bound != b and pairs.count((a, b)) >= K for a, b in pairs], np.uint8
        )
        yield chi
        for side in (one, two):
            side.hear(chi.astype(bool))


SESSIONS = [Dka("transfers").session, Dka("encryption").session]
