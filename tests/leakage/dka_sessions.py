"""DkA, and what a simulator makes of it: what is opened in every round, and the released cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
import pyarrow as pa

import masquerade as mq
from homes import home
from leakage.align_sessions import aligned_views
from leakage.arrow_streams import by_first, stream_of
from leakage.coins import Recording, Tapes, recorded
from leakage.views import Made, Session, Views, Watched
from masquerade.crypto import pack
from masquerade.protocol import ASSEMBLER, Assembly, Contract, Participant
from masquerade.protocol.dka.checkpoint import Notebook
from masquerade.protocol.dka.method import LOCAL_ALGORITHMS, Dka as DkaMethod
from masquerade.protocol.dka.side import Side
from masquerade.protocol.sensitive.back_ends import shared_tests
from masquerade.protocol.sensitive.histogram import Bounds
from masquerade.protocol.sensitive.sorted_histogram import Sorting
from masquerade.utility import Comparison, holders_error, losses_of, shown_to_others
from protocol.test_dka import NAMES, PARTIES, SCHEMA, contract_of, people
from protocol.test_dka_among_several import PARTIES as THREE, contract_of as several_contract
from protocol.test_dka_sensitive import contract_of as diverse_contract

N, K = 16, 3
STRANGERS = (2, 3, 1)
DISEASES = ("cold", "flu", "gout")


@dataclass(frozen=True)
class Dka:
    """DkA by one of the two ways to a joint histogram, with one local algorithm."""

    back_end: str
    local: str = "datafly"
    parties: tuple[str, ...] = PARTIES
    diverse: bool = False  # whether groups must have two values of the disease, which the first party holds
    join: str = "assembler"
    sorts: bool = False  # whether the records are sorted before they are counted, by the second party's labels

    @property
    def session(self) -> Session:
        """It as a session to record."""
        public: dict[str, Any] = {
            "lists": tuple(N + more for _, more in zip(self.parties, STRANGERS, strict=False)),
            "common": N,
            "left": tuple(self.left(0)),
            "p": N // K,
            "q": N // K,
            "s": len(DISEASES) if self.diverse else 1,
        }
        if self.sorts:
            each_round = [(n, Sorting.of(Bounds(n, (N // K, N // K), (K, K)), 1)) for n in public["left"]]
            public["blocks"] = [[n, each.leaves] for n, each in each_round]
            public["shapes"] = [[2 * each.blocks(n), each.blocks(n), public["q"]] for n, each in each_round]
            public["looked"] = [[n, size] for n, each in each_round for size in (N // K, each.rows(n))]
        more = ", sorted" if self.sorts else ""
        more += ", diverse" if self.diverse else ""
        more += ", three parties" if len(self.parties) > 2 else ""
        more += ", joined by the parties" if self.join == "parties" else ""
        name = f"dka-{self.local} by {self.back_end}{more}"
        return Session(name, public, self.play, self.simulate, self.released if self.join == "parties" else self.left)

    @property
    def contract(self) -> Contract:
        """The same in every recording."""
        diverse = mq.KAnonymity(NAMES, K) & mq.LDiversity(NAMES, l=2, sensitive="disease")
        if len(self.parties) > 2:
            contract = several_contract(K, self.local, diverse if self.diverse else None)
        elif self.diverse:
            contract = diverse_contract(diverse, PARTIES[0], self.local)
        else:
            contract = contract_of(K, self.local, self.join)
        return msgspec.structs.replace(contract, nonce="0" * 32)

    def left(self, private: int) -> list[int]:
        """How many records are left in each round."""
        joined = self._joined(private)
        sides = self._sides(dict.fromkeys(self.parties, joined))
        return [tested for tested, _ in plain_rounds([*sides.values()], self._diseases(joined))]

    def released(self, private: int) -> list[int]:
        """How many are left in each round, and after the last: they are suppressed, and not joined."""
        joined = self._joined(private)
        sides = self._sides(dict.fromkeys(self.parties, joined))
        tested = [number for number, _ in plain_rounds([*sides.values()], None)]
        return [*tested, sides[self.parties[0]].left.size]

    def _sides(self, own: dict[str, Any]) -> dict[str, Side]:
        make = LOCAL_ALGORITHMS[self.local].side
        sizes = not self.diverse
        return {name: make(own[name].columns(self._held(name)), N, K, sizes) for name in self.parties}

    def _held(self, name: str) -> list[str]:
        return [column.name for column in self.contract.qid_columns if column.holder == name]

    def _joined(self, private: int) -> mq.Table:
        """Everybody, with all diseases among them."""
        table = people(N, private)
        drawn = np.random.default_rng(private).choice(DISEASES, N - len(DISEASES)).tolist()
        named = table.arrow.append_column("disease", pa.array([*DISEASES, *drawn]))
        return mq.Table(named, mq.Schema([*SCHEMA, mq.Attribute("disease")]))

    def _diseases(self, table: mq.Table) -> list[str] | None:
        return table.arrow["disease"].to_pylist() if self.diverse else None

    def play(self, private: int, tapes: Tapes) -> Recording:
        """Run all parties and the assembler."""
        method = DkaMethod.of(self.contract)
        scripts: dict[str, Any] = {ASSEMBLER: method.assembler(Assembly(self.contract))}
        tables = self.tables_of(private)
        for name, (table, ids) in tables.items():
            scripts[name] = DkaMethod.of(self.contract).party(Participant(name, self.contract, table, ids), Notebook())
        back_ends = home(shared_tests)
        with (
            patch.object(back_ends, "cheaper", lambda _: self.back_end),
            patch.object(back_ends, "sorting_for", lambda bounds, *_: Sorting.of(bounds, 1) if self.sorts else None),
        ):
            made = recorded(scripts, tapes)
        made.results["rows"] = {name: table.common for name, (table, _) in tables.items()}
        return made

    def simulate(self, private: int, recording: Recording) -> Views:
        """Plain rounds on the joined table."""
        tables, rows = self.tables_of(private), recording.results["rows"]
        sizes = {name: len(ids) for name, (_, ids) in tables.items()}
        views = aligned_views(self.parties, sizes, rows, recording.tapes)
        own = {name: table.take(rows[name]) for name, (table, _) in tables.items()}
        for name, peer in permutations(self.parties, 2):
            views[name, peer].insert(0, Made("dka-remembered", run=b"", rounds=0))
        diseases = self._diseases(own[PARTIES[0]])
        if diseases is not None:
            told = Made("sensitive-values", labels=len(DISEASES), bounded=len(DISEASES))
            for peer in self.parties[1:]:
                views[PARTIES[0], peer].append(told)
        sides = self._sides(own)
        for _, chi in plain_rounds([*sides.values()], diseases):
            for name, peer in permutations(self.parties, 2):
                number = sum(each.kind == "dka-chi" for each in views[name, peer])
                bits = pack(chi)
                for other in self.parties:  # all shares but one are coins; the last makes them fit
                    if other != name:
                        bits = bits ^ _share_sent(recording, other, name, number)
                views[name, peer].append(Made("dka-chi", bits=bits.tobytes()))
        joined = None
        if self.join == "parties":
            released = {each.name: each for side in sides.values() for each in side.released()}
            texts = {name: [each.labels[code] for code in each.codes] for name, each in released.items()}
            joined = stream_of(_sorted({name: texts[name] for name in self.contract.release_order}))
            second = stream_of(_sorted({name: texts[name] for name in self._held(PARTIES[1])}))
            views[PARTIES[1], PARTIES[0]].append(Made("join-cells", table=second))
            views[PARTIES[0], PARTIES[1]].append(Made("join-release", table=joined))
        for name in self.parties:
            views[name, ASSEMBLER] = [self._columns(name, own[name], sides[name], joined)]
            views[ASSEMBLER, name] = [Made("received", error=None)]
        return views

    def tables_of(self, private: int) -> dict[str, tuple[Watched, list[bytes]]]:
        """Each party's table and identifiers: the common people and some strangers, in an order of its own."""
        random = np.random.default_rng(private)
        joined = self._joined(private)
        found = {}
        for name, more in zip(self.parties, STRANGERS, strict=False):
            own = pa.concat_tables([joined.arrow, joined.arrow.slice(0, more)])
            ids = [f"id {private} {row}" for row in range(N)]
            ids += [f"only {name} {private} {row}" for row in range(more)]
            order = random.permutation(own.num_rows)
            held = own.select(self.contract.columns_needed(name)).take(pa.array(order))
            found[name] = Watched(held, joined.schema), [ids[at].encode() for at in order]
        return found

    def _columns(self, name: str, own: Any, side: Side, joined: bytes | None) -> Made:
        released = {column.name: column for column in side.released()}
        mine = self._held(name)
        cells: dict[str, Any] = {each: (released[each].codes.tolist(), released[each].labels) for each in mine}
        if self.diverse and name == PARTIES[0]:
            coded = own.coded("disease")
            cells["disease"] = by_first([coded.labels[code] for code in coded.codes[side.passed]])
        comparison = Comparison(own.columns(mine), tuple(released.values()), None, side.passed, {})
        return Made(
            "columns",
            table=stream_of(cells, pa.int8()) if joined is None else joined,
            steps=[],
            losses=shown_to_others(losses_of(comparison), comparison.rows),
            left_out=[],
            seconds={"align": 0.0, "protocol": 0.0},
            suppressed=N - side.passed.size,
            histograms_by=[self.back_end] if len(self.parties) == 2 else [],
            query_error=holders_error(comparison),
        )


def _sorted(cells: dict[str, list[str]]) -> dict[str, list[str]]:
    """The rows in an order that follows from them."""
    rows = sorted(zip(*cells.values(), strict=True))
    return {name: [row[at] for row in rows] for at, name in enumerate(cells)}


def _share_sent(recording: Recording, sender: str, receiver: str, number: int) -> Any:
    """A share that one party has told another."""
    sent = [each for each in recording.between(sender, receiver) if each.kind == "dka-chi"]
    return np.frombuffer(msgspec.msgpack.decode(sent[number].data)["bits"], np.uint8)


def plain_rounds(sides: list[Side], diseases: list[str] | None) -> Iterator[tuple[int, Any]]:
    """How many records are tested in each round, and what the shares of it open, counted openly."""
    while not sides[0].over:
        if sides[0].opens == "end":
            opened = np.array([all(side.stuck for side in sides)])
        else:
            labels = list(zip(*(side.labels().tolist() for side in sides), strict=True))
            good = [sides[0].bound not in each and labels.count(each) >= K for each in labels]
            if diseases is not None:
                pairs = {*zip(labels, (diseases[row] for row in sides[0].left), strict=True)}
                varied = Counter(each for each, _ in pairs)
                good = [one and varied[each] >= 2 for one, each in zip(good, labels, strict=True)]
            opened = np.array(good if sides[0].opens == "each" else [all(good)])
            yield sides[0].left.size, opened.astype(np.uint8)
        for side in sides:
            side.hear(opened)


SESSIONS = [
    Dka("transfers").session,
    Dka("transfers", sorts=True).session,
    Dka("encryption").session,
    *(Dka("transfers", local).session for local in ("top-down", "full-domain", "mondrian")),
    Dka("transfers", diverse=True).session,
    Dka("transfers", join="parties").session,
    Dka("sorting", parties=THREE).session,
    Dka("sorting", parties=THREE, diverse=True).session,
]
