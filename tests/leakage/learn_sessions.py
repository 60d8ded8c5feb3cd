"""Linear models of several sites, and what a simulator makes of them: the coefficients, from the sums alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from leakage.coins import Recording, Tapes, recorded
from leakage.views import Made, Session, Views
from masquerade.net.memory import run_together
from masquerade.net.script import Script, Send
from masquerade.protocol.learn.aggregate import Aggregation, Numbers, prepare_aggregation
from masquerade.protocol.learn.linear_models import Coefficients, LinearModel, Logistic, linear_model

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


SESSIONS = [Session("linear model, 3 sites", {"records": SIZES}, play, simulate)]
