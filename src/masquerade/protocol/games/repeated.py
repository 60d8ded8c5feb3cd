"""Repeated games: what deviating yields when the others remember it.

Theorem 1 of the data-integration paper, in its proof's terms: each period is a game; a party that follows the algorithm
gets c in the discounted average; a deviator gets w for at most n − 1 periods, then 0, because the others punish it.
So deviating does not pay when

    w (1 − δ^(n−1)) ≤ c,   that is   δ^(n−1) ≥ 1 − c/w.

Here each period is a mashup that is played, and c and w are its payoffs. The protocol itself does not remember:
that the others notice a deviation, and exclude the deviator from later mashups, is the proof's assumption, and ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from masquerade.data.table import Table
from masquerade.errors import ParameterError
from masquerade.privacy.requirement import Requirement
from masquerade.protocol.games.play import play
from masquerade.protocol.games.strategies import Strategy, never


def discounted_average(payoffs: Sequence[float], delta: float, then: float = 0.0) -> float:
    """Return (1 − δ) Σ δ^t u_t of an infinite stream: the payoffs in turn, then `then` for ever.

    It is the constant payoff that is worth as much as the stream.
    """
    _check_delta(delta)
    start = (1 - delta) * sum(payoff * delta**period for period, payoff in enumerate(payoffs))
    return float(start + then * delta ** len(payoffs))


def deviation_average(delta: float, n: int, w: float) -> float:
    """Return the discounted average of w for n − 1 periods, then nothing: w (1 − δ^(n−1))."""
    _check(delta, n)
    return float(w * (1 - delta ** (n - 1)))


def theorem_holds(delta: float, n: int, c: float, w: float) -> bool:
    """Test Theorem 1's condition, δ^(n−1) ≥ 1 − c/w; it holds for w ≤ 0, as deviating then gains nothing."""
    _check(delta, n)
    return bool(w <= 0 or delta ** (n - 1) >= 1 - c / w)


def break_even(n: int, c: float, w: float) -> float:
    """Return the least δ for which the condition holds; 1 means that deviating pays for any party that discounts."""
    _check(0, n)
    return 0.0 if w <= c else float((1 - c / w) ** (1 / (n - 1)))


@dataclass(frozen=True)
class Repeated:
    """What each party received, period by period, and what a deviator gets after the last period played."""

    received: Mapping[str, tuple[float, ...]]
    punished: frozenset[str]

    def average(self, party: str, delta: float) -> float:
        """Return the discounted average; periods not played count as the mean of those that were, or as nothing."""
        payoffs = self.received[party]
        return discounted_average(payoffs, delta, 0.0 if party in self.punished else fmean(payoffs))


def play_on(
    tables: Sequence[Table],
    requirement: Requirement,
    deal: Mapping[str, Sequence[str]],
    target: str | None,
    deviators: Mapping[str, Strategy] | None = None,
    *,
    score: str | None = None,
    others: Strategy | None = None,
    patience: int | None = None,
) -> Repeated:
    """Play one game per table. Deviators use their strategies for `patience` periods (n − 1), then are excluded.

    An excluded party gives and receives nothing; the others go on without its attributes.
    """
    deviating = dict(deviators or {})
    grace = patience if patience is not None else len(deal) - 1
    received: dict[str, list[float]] = {party: [] for party in deal}
    for period, table in enumerate(tables):
        excluded = period >= grace
        strategies = dict.fromkeys(deviating, never()) if excluded else deviating
        game = play(table, requirement, deal, target, score, strategies, others=others)
        for party, payoff in game.received.items():
            received[party].append(0.0 if excluded and party in deviating else payoff)
    punished = frozenset(deviating) if len(tables) >= grace else frozenset()
    return Repeated({party: tuple(payoffs) for party, payoffs in received.items()}, punished)


def _check(delta: float, n: int) -> None:
    _check_delta(delta)
    if n < 2:
        raise ParameterError(f"The n parameter must be a number of at least 2 parties. Got {n} instead.")


def _check_delta(delta: float) -> None:
    if not 0 <= delta < 1:
        raise ParameterError(
            f"The delta parameter must be a number of at least 0 and below 1. Got {delta} instead."
        )
