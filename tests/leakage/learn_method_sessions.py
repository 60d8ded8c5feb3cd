"""Sessions that end in a model, from the first message to the collector's last, and what a simulator makes of them.

Besides the model, a simulator has what docs/leakage.md grants: which values occur, the sums that were opened, the
mapped records that the builder sees, who dropped out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
import pyarrow as pa

import masquerade as mq
from leakage.align_sessions import announced_views
from leakage.coins import Recording, Tapes, recorded
from leakage.learn_sessions import Granted, as_made
from leakage.views import Made, Session, Views
from masquerade.data import Attribute, Schema
from masquerade.methods import learning_methods, written_method
from masquerade.net import Script, Send
from masquerade.net.memory import Vanished, run_together
from masquerade.protocol import ASSEMBLER, EVERYBODY, Assembly, Contract, Contribution, LearningMethod, Participant
from masquerade.protocol.learn import projected
from masquerade.protocol.learn.linear import Coefficients, Logistic, Loss, SquaredHinge, linear_model
from masquerade.protocol.learn.projection import Mapped, fitted
from masquerade.protocol.learn.sums import Aggregation, MaskedSummands, Numbers

NAMES = ("p0", "p1", "p2", "p3")
ROWS = 12
SURVIVAL = {"duration": "months", "event": "dead"}


def categories(private: int, me: int) -> mq.Table:
    """A class that one of two attributes decides; the model is the same whatever the records."""
    wind = [str((row + private) % 2) for row in range(ROWS)]
    rain = [str((row * (private + 1) // 3 + me) % 2) for row in range(ROWS)]
    return mq.Table(pa.table({"wind": wind, "rain": rain, "play": [f"c{each}" for each in wind]}))


def numbers(private: int, me: int) -> mq.Table:
    """Three numbers, a class, and survival; who dies when is always the same."""
    random = np.random.default_rng([private, me])
    cells: dict[str, Any] = {name: random.normal(size=ROWS) for name in ("age", "dose", "size")}
    cells |= {"play": [f"c{each}" for each in random.permutation(ROWS) % 2]}
    cells |= {"months": np.arange(ROWS) % 5 + 1, "dead": (np.arange(ROWS) + me) % 2}
    return mq.Table(pa.table(cells), Schema([Attribute(name, "continuous") for name in ("age", "dose", "size")]))


def held(table: mq.Table, names: Sequence[str]) -> mq.Table:
    """The columns that a site holds."""
    schema = Schema([each for each in table.schema if each.name in names])
    return mq.Table(table.arrow.select(list(names)), schema)


@dataclass(frozen=True)
class Framed:
    """A method on small tables of n sites; the last of them may vanish when the second sum is made."""

    name: str
    n: int = 3
    settings: Mapping[str, Any] = field(default_factory=dict)
    loss: Loss | None = None  # of a linear model
    loses_one: bool = False
    split: bool = False  # whether the first site has one attribute, and the other the other; both have the class

    @property
    def sites(self) -> tuple[str, ...]:
        return NAMES[: self.n]

    @property
    def method(self) -> LearningMethod:
        return learning_methods()[self.name](**self.settings)

    @property
    def counts_values(self) -> bool:
        return self.method.takes == "values"

    def scripts(self, private: int) -> dict[str, Script[Any]]:
        """All sites, and the collector."""
        method = self.method
        records = categories if self.counts_values else numbers
        columns = [Contribution(name, EVERYBODY, "attribute") for name in records(0, 0).schema.names]
        if self.counts_values:
            columns = [Contribution(name, EVERYBODY, "attribute") for name in ("wind", "rain")]
        survives = "duration" in method.roles
        if survives:
            columns += [Contribution(name, EVERYBODY, role) for role, name in SURVIVAL.items()]  # type: ignore[arg-type]
        if self.split:
            columns = [Contribution(each.name, self.sites[at], each.role) for at, each in enumerate(columns)]
        contract = Contract(
            self.sites,
            tuple(columns),
            (),
            written_method(method),
            class_name=None if survives else "play",
            provider=None if self.split else "provider",
            nonce="0",
        )
        people = [str(row).encode() for row in range(ROWS)] if self.split else []
        parties = {
            name: method.party(
                Participant(name, contract, held(records(private, me), contract.columns_needed(name)), people)
            )
            for me, name in enumerate(self.sites)
        }
        if self.loses_one:
            parties[self.sites[-1]] = gone_before_its_second_sum(parties[self.sites[-1]])
        return {**parties, ASSEMBLER: method.assembler(Assembly(contract))}

    def play(self, private: int, tapes: Tapes) -> Recording:
        """Learn the model, and hand it in."""
        return recorded(self.scripts(private), tapes)

    def simulate(self, private: int, recording: Recording) -> Views:
        """The values that occur; what was opened, or shown to the builder; then the model, which is the result."""
        learned = recording.results[ASSEMBLER]
        model = json.dumps(learned.model.as_json(), separators=(",", ":")).encode()
        values: dict[str, tuple[str, ...]] = {"wind": ("0", "1"), "rain": ("0", "1")} if self.counts_values else {}
        values |= {"play": ("c0", "c1")} if "duration" not in self.method.roles else {}
        told = Made("learn-values", values=values, bits=8, has_gaps=False)
        left = learned.parties
        seconds = {"align": 0.0, "protocol": 0.0}
        handed = Made("learn-model", model=model, seconds=seconds, without=learned.dropped_out)
        views: dict[tuple[str, str], list[Made]] = {
            (name, other): [told] for name in self.sites for other in self.sites if name != other
        }
        if self.split:
            views = announced_views(self.sites, dict.fromkeys(self.sites, ROWS))
            for (name, _), made in views.items():
                mine = ("wind", "rain")[self.sites.index(name)]
                own = {column: values[column] for column in (mine, "play")}
                made.append(Made("learn-values", values=own, bits=8, has_gaps=False))
        for pair in [(name, other) for name in left for other in left if name != other and self.loses_one]:
            views[pair].append(Made("learn-sites-lost", lost=learned.dropped_out, rounds=1, opening=False))
        views |= {(name, ASSEMBLER): [handed] for name in left}
        views |= {(ASSEMBLER, name): [Made("received", error=None)] for name in left}
        if self.loss is not None:
            coefficients = self._coefficients(private)
            for name in left[1:]:
                views[left[0], name] += coefficients
        if isinstance(self.method, projected.MappedMethod):
            self._add_mapped(private, recording, views)
        return views

    def _coefficients(self, private: int) -> list[Made]:
        """What the first site tells, whatever its records are: it follows from the sums."""
        totals: list[Numbers] = []
        total = Aggregation.total

        def noted(sums: Aggregation, numbers: Numbers) -> Script[Numbers]:
            found = yield from total(sums, numbers)
            if self.sites[0] not in sums._peers:
                totals.append(found)
            return found

        with patch.object(Aggregation, "total", noted):
            run_together(self.scripts(private))
        nobody = np.zeros((1, 3)), np.ones(1)
        assert self.loss is not None
        script = linear_model(0, self.sites, Granted(totals), *nobody, self.loss)
        said = [move.message for move in script if isinstance(move, Send)]
        return [Made("learn-coefficients", values=each.values) for each in said if isinstance(each, Coefficients)]

    def _add_mapped(self, private: int, recording: Recording, views: dict[tuple[str, str], list[Made]]) -> None:
        """Coins do not depend on records; the builder sees mapped records and outcomes, the sites its model."""
        again = self._tapes(recording)
        other = self.play(private + 1, self._tapes(recording))
        for sender in self.sites:
            for receiver in self.sites:
                coins = [each for each in other.between(sender, receiver) if each.kind.startswith("coin-")]
                views.setdefault((sender, receiver), []).extend(map(as_made, coins))
        found: list[Any] = []
        agree = projected.agree_on_projection

        def noted(*terms: Any) -> Script[Any]:
            found.append((yield from agree(*terms)))
            return found[-1]

        with patch.object(projected, "agree_on_projection", noted):
            self.play(private, again)
        handed = {}
        for me, name in enumerate(self.sites):
            cells = numbers(private, me).arrow
            x, seen = (
                np.column_stack([np.asarray(cells[each], float) for each in names])
                for names in (("age", "dose", "size"), tuple(SURVIVAL.values()))
            )
            handed[name] = Mapped(found[0](x), seen)
        model = Made("learn-mapped-model", **msgspec.structs.asdict(fitted(handed, 1.0, "equal")))
        for name, each in handed.items():
            mapped = Made("learn-mapped", rows=each.rows.tobytes(), outcomes=each.outcomes.tobytes())
            views[name, ASSEMBLER].insert(0, mapped)
            views[ASSEMBLER, name].insert(0, model)

    def _tapes(self, recording: Recording) -> Tapes:
        return Tapes(recording.tapes._seed, **recording.tapes._seeds)

    def learnt(self, private: int) -> object:
        """How many sums a linear model takes, which everybody sees."""
        return None if self.loss is None else len(self._coefficients(private))


def gone_before_its_second_sum(script: Script[Any]) -> Script[Any]:
    """A site that vanishes."""
    heard, sums = None, 0
    while True:
        move = script.send(heard)
        sums += isinstance(move, Send) and isinstance(move.message, MaskedSummands)
        if sums == 2:
            raise Vanished
        heard = yield move


def _session(name: str, framed: Framed, **public: Any) -> Session:
    return Session(name, {"records": ROWS, **public}, framed.play, framed.simulate, framed.learnt)


def _sessions() -> Sequence[Session]:
    ridge, nu = 1.0, 1.0
    logistic = partial(Framed, "logistic", loss=Logistic(ridge))
    without = logistic(n=4, settings={"ridge": ridge, "drop_out": "go-on"}, loses_one=True)
    return [
        *(_session(f"id3, {n} parties, whole records", Framed("id3", n), at_once=[1, 3, 4]) for n in (2, 3)),
        _session(
            "id3, 2 parties, split columns, a class that both hold",
            Framed("id3", 2, settings={"align": "oprf"}, split=True),
            at_once=[1, 3, 4],
            lists=(ROWS, ROWS),
            common=ROWS,
            shapes=[[ROWS, 3, 4]],  # of the joint histogram: values of rain, and of wind with the class
        ),
        _session("bayes-net, 2 parties, whole records", Framed("bayes-net", 2), at_once=[1, 4, 88]),
        _session("logistic, 3 sites", logistic(settings={"ridge": ridge})),
        _session("svm, 3 sites", Framed("svm", settings={"nu": nu}, loss=SquaredHinge(nu))),
        _session("logistic, 4 sites, of which one drops out", without),
        _session("pp-cox, 2 sites", Framed("pp-cox", 2)),
    ]


SESSIONS = _sessions()
