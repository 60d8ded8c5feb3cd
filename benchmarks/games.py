"""Mashups as games: what honest parties, deviators and coalitions receive, once and again and again (Theorem 1).

Each game is a mashup of 400 generated records, freshly drawn. Every party holds two attributes; all are equally good
at telling the class, so parties are equally capable. The parties' real scripts run, by gain-ratio, with ϵ = 1 %.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pyarrow as pa

import masquerade as mq
from _figures import Figure, Say, save_chart, tell
from _games import (
    Game,
    Repeated,
    Strategy,
    break_even,
    coalition,
    deviation_average,
    gives_only_below,
    never,
    obliging,
    play,
    play_on,
    quits,
    theorem_holds,
    under_declares,
    weighted,
)
from masquerade.data import Branch
from masquerade.report.charts import Reference, Series, line_chart

RECORDS, GAMES, SEED = 400, 100, 7
PARTIES = (2, 3, 4, 5, 6)
KS = (5, 20)
REPEATED_K, RUNS = 20, 10
DELTAS = (*(round(0.05 * step, 2) for step in range(20)), 0.99)
ME = "P0"  # who deviates
DEVIATIONS = (*(never(), quits(1), quits(2), under_declares(1), under_declares(), gives_only_below(0.1)), obliging())
EQUAL = 1e-9  # what differs by less is equal

Deal = dict[str, tuple[str, ...]]
_BRANCHES = (Branch("ab", (Branch("a"), Branch("b"))), Branch("cd", (Branch("c"), Branch("d"))))
_TAXONOMY = mq.Taxonomy(Branch("*", _BRANCHES))


def run(say: Say, save: Path | None) -> dict[str, Any]:
    results: dict[str, Any] = {}
    figures: list[Figure] = []
    stakes: dict[int, dict[int, tuple[float, float]]] = {k: {} for k in KS}
    for k in KS:
        for n in PARTIES:
            fair, deviating = _one_shot(n, k)
            mine = fmean(game.received[ME] for game in fair)
            _say_one_shot(say, n, k, mine, fair, deviating)
            stakes[k][n] = mine, fmean(game.received[ME] for game in deviating[never().name])
            results[f"{n} parties, k = {k}"] = _summary(fair, deviating)
            figures.append(_theorem_figure(n, k, *stakes[k][n]))
    figures += _repeated_figures(stakes[REPEATED_K])
    figures += _coalition_figures()
    figures += _capability_figures()
    for k in KS:
        save_chart(save, f"games-once-k{k}", _once_chart(k, stakes[k]))
        save_chart(save, f"games-repeated-k{k}", _repeated_chart(k, stakes[k]))
    save_chart(save, "games-theorem", _theorem_chart())
    return {"figures": tell(say, figures), **results}


def deal_of(n: int, attributes: Sequence[int] | None = None) -> Deal:
    """Who holds what: two attributes each, or as many as said."""
    return {f"P{at}": tuple(f"p{at}{x}" for x in range(attributes[at] if attributes else 2)) for at in range(n)}


def table_of(deal: Deal, seed: int) -> mq.Table:
    """Records with two classes; every attribute tells the class as well as any other."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, RECORDS)
    names = [name for held in deal.values() for name in held]
    cells: dict[str, Any] = {}
    for name in names:
        noisy = np.rint(0.9 + 1.2 * labels + random.normal(0, 1, RECORDS))
        cells[name] = np.array([*"abcd"])[np.clip(noisy, 0, 3).astype(int)]
    cells["class"] = np.where(labels, "Y", "N")
    return mq.Table(pa.table(cells), mq.Schema(mq.Attribute(name, taxonomy=_TAXONOMY) for name in names))


def _play(deal: Deal, seed: int, k: int, strategies: Mapping[str, Strategy], **how: Any) -> Game:
    table = table_of(deal, seed)
    return play(table, mq.KAnonymity(table.schema.names, k), deal, "class", None, strategies, **how)


def _one_shot(n: int, k: int) -> tuple[list[Game], dict[str, list[Game]]]:
    deal = deal_of(n)
    seeds = range(SEED, SEED + GAMES)
    fair = [_play(deal, seed, k, {}) for seed in seeds]
    return fair, {way.name: [_play(deal, seed, k, {ME: way}) for seed in seeds] for way in DEVIATIONS}


def _outcomes(fair: Sequence[Game], deviating: Sequence[Game]) -> tuple[int, int, int]:
    """How often deviating brought more, the same, less."""
    more = [b.received[ME] - a.received[ME] for a, b in zip(fair, deviating, strict=True)]
    gained, lost = sum(each > EQUAL for each in more), sum(each < -EQUAL for each in more)
    return gained, len(more) - gained - lost, lost


def _say_one_shot(say: Say, n: int, k: int, mine: float, fair: list[Game], deviating: dict[str, list[Game]]) -> None:
    say(f"{n} parties, k = {k}".ljust(24) + "received   gave   more  same  less  of the others: received")
    given = fmean(game.contributed[ME] for game in fair)
    say(f"{'honest':24}{mine:8.3f}{given:7.3f}{'':18}{_others(fair):14.3f}")
    for way, games in deviating.items():
        received, gave = (fmean(game.received[ME] for game in games), fmean(game.contributed[ME] for game in games))
        counts = "".join(f"{count:6}" for count in _outcomes(fair, games))
        say(f"{way:24}{received:8.3f}{gave:7.3f}{counts}{_others(games):14.3f}")
    say("")


def _others(games: Sequence[Game]) -> float:
    return fmean(received for game in games for party, received in game.received.items() if party != ME)


def _summary(fair: list[Game], deviating: dict[str, list[Game]]) -> dict[str, Any]:
    def means(games: list[Game]) -> dict[str, float]:
        return {
            "received": fmean(game.received[ME] for game in games),
            "contributed": fmean(game.contributed[ME] for game in games),
            "others_received": _others(games),
        }

    ways = {way: {**means(games), "more_same_less": _outcomes(fair, games)} for way, games in deviating.items()}
    return {"honest": means(fair), **ways}


def _theorem_figure(n: int, k: int, c: float, w: float) -> Figure:
    limit = break_even(n, c, w)
    verdict = "deviating never pays" if limit == 0 else f"deviating pays below δ = {limit:.2f}"
    return Figure(f"{n} parties, k = {k}: honest c, never takes part w", f"{c:.3f}, {w:.3f}", verdict)


def _repeated_figures(c_and_w: Mapping[int, tuple[float, float]]) -> Iterator[Figure]:
    """Games one after the other, deviators excluded after n − 1 of them, beside what the theorem says."""
    same, fresh = Tally(), Tally()
    for n in PARTIES:
        deal = deal_of(n)
        for seed in range(SEED, SEED + RUNS):
            drawn = [table_of(deal, 1000 * seed + period) for period in range(2 * n)]
            for tally, tables in ((same, drawn[:1] * n), (fresh, drawn)):
                requirement = mq.KAnonymity(drawn[0].schema.names, k=REPEATED_K)
                fair = play_on(tables, requirement, deal, "class")
                for way in DEVIATIONS[:-1] if tally is same else DEVIATIONS[:1]:
                    deviating = play_on(tables, requirement, deal, "class", {ME: way})
                    c, w = fair.received[ME][0], deviating.received[ME][0]
                    tally.hear(n, *((c, w) if tally is same else c_and_w[n]), fair, deviating)
    yield Figure(
        "repeated, the same game each time: payoffs against the condition",
        str(same),
        goal="as Theorem 1 says",
        met=same.against == 0,
    )
    yield Figure("repeated, single runs of fresh games: against the condition on means", str(fresh))


class Tally:
    """How often the payoffs of a run, at each δ, are on the other side than Theorem 1's condition."""

    def __init__(self) -> None:
        self.runs = self.pays = self.against = 0

    def hear(self, n: int, c: float, w: float, fair: Repeated, deviating: Repeated) -> None:
        """Count a run."""
        for delta in DELTAS:
            gain = deviating.average(ME, delta) - fair.average(ME, delta)
            self.runs += 1
            self.pays += gain > EQUAL
            self.against += abs(gain) > EQUAL and (gain > 0) == theorem_holds(delta, n, c, w)

    def __str__(self) -> str:
        return f"deviating pays in {self.pays:,} of {self.runs:,}; {self.against:,} otherwise than it says"


def _coalition_figures() -> Iterator[Figure]:
    deal = deal_of(4)
    members = ("P0", "P1")
    pact = coalition(members)
    for k in KS:
        means = []
        for strategies in ({}, dict.fromkeys(members, pact), dict.fromkeys(members, never())):
            games = [_play(deal, seed, k, strategies) for seed in range(SEED, SEED + GAMES)]
            outsiders = fmean(game.contributed["P2"] + game.contributed["P3"] for game in games)
            own = fmean(game.contributed["P0"] + game.contributed["P1"] for game in games)
            means.append(f"{outsiders:.3f} for {own:.3f}")
        yield Figure(f"4 parties, k = {k}: a coalition of two receives", means[1], f"honest {means[0]}")
        yield Figure(f"4 parties, k = {k}: two that never take part", means[2], f"honest {means[0]}")


def _capability_figures() -> Iterator[Figure]:
    """A rich party with four attributes and two poor ones with one each."""
    deal = deal_of(3, (4, 1, 1))
    ways = {
        "Algorithm 2": {},
        "by capability": {"others": weighted({"P0": 4, "P1": 1, "P2": 1})},
        "Algorithm 1": {"others": obliging()},
    }
    for k in KS:
        for way, how in ways.items():
            games = [_play(deal, seed, k, {}, **how) for seed in range(SEED, SEED + GAMES)]
            given = ", ".join(f"{fmean(game.contributed[party] for game in games):.3f}" for party in deal)
            total = fmean(sum(game.contributed.values()) for game in games)
            steps = fmean(len(game.rounds) for game in games)
            yield Figure(
                f"attributes 4, 1, 1, k = {k}, {way}: each gave", given, f"together {total:.3f}", f"{steps:.1f} steps"
            )


def _once_chart(k: int, stakes: dict[int, tuple[float, float]]) -> str:
    return line_chart(
        [
            Series("honest", [(n, c) for n, (c, _) in stakes.items()]),
            Series("never takes part", [(n, w) for n, (_, w) in stakes.items()]),
        ],
        title=f"One mashup: what a party receives, k = {k}",
        x_name="parties",
        y_name="utility φ, mean of 100 games",
        from_zero=True,
        write=_two,
    )


def _repeated_chart(k: int, stakes: dict[int, tuple[float, float]]) -> str:
    return line_chart(
        [
            Series(f"{n} parties", [(delta, deviation_average(delta, n, w) / c - 1) for delta in DELTAS])
            for n, (c, w) in stakes.items()
        ],
        title=f"Mashups without end: what never taking part adds to honest utility, k = {k}",
        x_name="discount δ",
        y_name="gain, as a share of honest utility",
        references=[Reference(0.0, "deviating pays above")],
        write=_two,
    )


def _theorem_chart() -> str:
    """The paper's payoffs: in every round all but the contributor get w, so an honest party gets c = w (n−1)/n."""
    return line_chart(
        [
            Series(f"{n} parties", [(delta, deviation_average(delta, n, 1) - (n - 1) / n) for delta in DELTAS])
            for n in (2, 3, 4, 6, 10)
        ],
        title="Theorem 1 with the paper's payoffs: what deviating adds",
        x_name="discount δ",
        y_name="discounted average of deviating minus honest, w = 1",
        references=[Reference(0.0, "deviating pays above")],
        write=_two,
    )


def _two(value: float) -> str:
    return f"{value:.2f}"
