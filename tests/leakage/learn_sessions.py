"""Models of several sites, and what a simulator makes of them: the coefficients, from what was opened alone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
import numpy as np

from leakage.coins import Recording, Tapes, recorded
from leakage.views import Made, Session, Views
from masquerade.net import Script, Send
from masquerade.net.memory import run_together
from masquerade.protocol.learn.cox import CoxModel, Survival, cox_model
from masquerade.protocol.learn.linear import Coefficients, LinearModel, Logistic, linear_model
from masquerade.protocol.learn.projection import (
    Mapped,
    ProjectionTerms,
    agree_on_projection,
    build_mapped,
    fitted,
    hand_over,
)
from masquerade.protocol.learn.shared_numbers import SharedNumbers, prepare_shared_numbers
from masquerade.protocol.learn.sums import Aggregation, Numbers, prepare_aggregation
from masquerade.protocol.providers import shared_counts as shared_bits

NAMES = ("p0", "p1", "p2")
SIZES = (12, 9, 7)
LOSS = Logistic(ridge=1.0)


def records_of(private: int) -> list[tuple[Numbers, Numbers]]:
    """Each site's records, of which nothing but their number is always the same."""
    random = np.random.default_rng(private)
    return [(random.normal(size=(size, 2)), random.choice([-1.0, 1.0], size)) for size in SIZES]


class Watched(Aggregation):
    """Sums that are noted."""

    totals: list[Numbers]

    def total(self, numbers: Numbers) -> Script[Numbers]:
        found = yield from super().total(numbers)
        self.totals.append(found)
        return found


class Granted(Aggregation):
    """Sums that are granted, whatever one's own summand is."""

    def __init__(self, totals: list[Numbers]) -> None:
        self._granted: Iterator[Numbers] = iter(totals)

    def total(self, numbers: Numbers) -> Script[Numbers]:
        yield from ()
        return next(self._granted)


def site(me: int, private: int, totals: list[Numbers] | None = None) -> Script[LinearModel]:
    sums = yield from prepare_aggregation(me, NAMES, b"s")
    if totals is not None:
        sums.__class__, sums.totals = Watched, totals  # type: ignore[assignment, attr-defined] # it becomes one
    return (yield from linear_model(me, NAMES, sums, *records_of(private)[me], LOSS))


def play(private: int, tapes: Tapes) -> Recording:
    """Fit the model."""
    return recorded({name: site(me, private) for me, name in enumerate(NAMES)}, tapes)


def simulate(private: int, recording: Recording) -> Views:
    """Whatever the first site's records are, its coefficients follow from the sums."""
    totals: list[Numbers] = []
    run_together({name: site(me, private, totals if me == 0 else None) for me, name in enumerate(NAMES)})
    nobody = np.zeros((1, 2)), np.ones(1)
    script = linear_model(0, NAMES, Granted(totals), *nobody, LOSS)
    told = [move.message for move in script if isinstance(move, Send)]
    made = [Made("learn-coefficients", values=each.values) for each in told if isinstance(each, Coefficients)]
    return {("p0", name): made for name in NAMES[1:]}


def patients_of(private: int) -> list[Survival]:
    """Each site's patients: their attribute is private, the deaths of all sites are always the same."""
    random = np.random.default_rng(private)
    steps = [np.array(each) for each in ((1, 2, 2), (1, 3, 4), (2, 3, 3))]
    return [Survival(random.normal(size=(3, 1)), each, each < 4) for each in steps]


def survival_site(me: int, private: int, opened: list[Any] | None = None) -> Script[CoxModel]:
    sums = yield from prepare_aggregation(me, NAMES, b"s")
    shared = yield from prepare_shared_numbers(me, NAMES, b"s")
    if opened is not None:
        totals: list[Numbers] = []
        sums.__class__, sums.totals = Watched, totals  # type: ignore[assignment, attr-defined] # it becomes one
        opened.append(totals)
        evaluate = shared.bits.evaluate

        def watched(*arguments: Any) -> Script[Any]:
            found = yield from evaluate(*arguments)
            opened.append(found)
            return found

        setattr(shared.bits, "evaluate", watched)  # noqa: B010 # mypy sees a method
    return (yield from cox_model(sums, shared, patients_of(private)[me]))


class GrantedNumbers(SharedNumbers):
    """What was opened is granted; shares are nothing."""

    def __init__(self, opened: list[Any]) -> None:
        self.me, self.parties = 0, NAMES
        self.bits = self  # type: ignore[assignment] # the circuits are here, too
        self._granted = iter(opened)

    def share(self, _: int, own: Any) -> Any:
        return np.zeros_like(own)

    def evaluate(self, *_: Any) -> Script[Any]:
        yield from ()
        return next(self._granted)

    def evaluate_shares(self, circuit: Any, inputs: Any, *outputs: str) -> Script[Any]:
        yield from ()
        rows = circuit.output_literals(outputs).size
        return np.zeros((rows, next(iter(inputs.values())).shape[1]), np.uint8)

    def _crossed(self, numbers: Any, rows: Any, asked: Any, answered: Any, places: Any = None) -> Script[Any]:
        yield from ()
        return np.zeros_like(rows)


@cache
def learnt_of(private: int) -> object:
    """How many steps the model takes, and in how many digits which hazards are opened, which everybody sees."""
    opened: list[Any] = []
    found = run_together(
        {name: survival_site(me, private, opened if me == 0 else None) for me, name in enumerate(NAMES)}
    )
    return int(found["p0"].steps), tuple(each.shape for each in opened[1:])


def play_survival(private: int, tapes: Tapes) -> Recording:
    """Fit a Cox model."""
    return recorded({name: survival_site(me, private) for me, name in enumerate(NAMES)}, tapes)


def simulate_survival(private: int, recording: Recording) -> Views:
    """Whatever the first site's patients are, its coefficients follow from what was opened."""
    opened: list[Any] = []
    run_together({name: survival_site(me, private, opened if me == 0 else None) for me, name in enumerate(NAMES)})
    totals, *granted = opened
    nobody = Survival(np.zeros((1, 1)), np.ones(1, np.int64), np.ones(1, bool))
    script = cox_model(Granted(totals), GrantedNumbers(granted), nobody)
    told = [move.message for move in script if isinstance(move, Send)]
    made = [Made("learn-coefficients", values=each.values) for each in told if isinstance(each, Coefficients)]
    return {("p0", name): made for name in NAMES[1:]}


def mapping_site(me: int, private: int) -> Script[Any]:
    x, labels = records_of(private)[me]
    sums = yield from prepare_aggregation(me, NAMES, b"s")
    shared = yield from shared_bits.prepare(me, NAMES, b"s")
    projection = yield from agree_on_projection(me, NAMES, sums, shared, x, labels, ProjectionTerms(candidates=2), b"s")
    yield from hand_over("builder", Mapped(projection(x), labels[:, None]))
    return projection


def play_mapped(private: int, tapes: Tapes) -> Recording:
    """Fit a support vector machine to mapped records."""
    sites = {name: mapping_site(me, private) for me, name in enumerate(NAMES)}
    return recorded({**sites, "builder": build_mapped(NAMES, 1, 1.0, "equal")}, tapes)


def simulate_mapped(private: int, recording: Recording) -> Views:
    """Coins do not depend on records; the builder sees mapped records and labels, the sites its model of them."""
    other = play_mapped(private + 1, Tapes(recording.tapes._seed, **recording.tapes._seeds))
    views: dict[tuple[str, str], list[Made]] = {}
    for sender in NAMES:
        for receiver in NAMES:
            coins = [each for each in other.between(sender, receiver) if each.kind.startswith("coin-")]
            views[sender, receiver] = [as_made(each) for each in coins]
    projection = recording.results["p0"]
    handed = {
        name: Mapped(projection(x), labels[:, None])
        for name, (x, labels) in zip(NAMES, records_of(private), strict=True)
    }
    model = fitted(handed, 1.0, "equal")
    for name, each in handed.items():
        views[name, "builder"] = [Made("learn-mapped", rows=each.rows.tobytes(), outcomes=each.outcomes.tobytes())]
        views["builder", name] = [Made("learn-mapped-model", **msgspec.structs.asdict(model))]
    return views


def as_made(heard: Any) -> Made:
    """A message as it was heard."""
    told = dict(msgspec.msgpack.decode(heard.data))
    return Made(told.pop("kind"), **told)


SESSIONS = [
    Session("PP-SVM, 3 sites", {"records": SIZES}, play_mapped, simulate_mapped),
    Session("linear model, 3 sites", {"records": SIZES}, play, simulate),
    Session("Cox model, 3 sites", {"deaths": 8}, play_survival, simulate_survival, learnt_of),
]
