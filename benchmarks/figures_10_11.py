"""Classification error of Algorithm 2 on Adult (Figures 10 and 11): equal, unequal and four-party deals over k.

Adult's columns are dealt out to parties that play Algorithm 2 with ϵ = 1 %, by gain-ratio. IE is the error of a pruned
entropy tree on the release, as in the experiment `scores`; SE is the error that each party reaches with its own raw
columns. Algorithm 1, whose release does not depend on the deal, stands beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import _adult
import masquerade as mq
from _figures import Figure, Say, save_chart, tell
from _games import Game, Strategy, honest, obliging, play
from masquerade.report.charts import Reference, Series, line_chart
from masquerade.utility.classification import Classification

KS = (20, 60, 100, 200, 400, 1000)
QIDS = {"Top5": _adult.TOP5, "Top7": _adult.TOP7, "Top9": _adult.TOP9}
EPSILON = 0.01
# Table 4's first nine attributes, and the others.
NINE = (
    *("age", "education-num", "fnlwgt", "relationship", "race", "sex", "marital-status", "native-country"),
    "education",
)
DEALS = {
    "equal": {"A": NINE, "B": tuple(name for name in _adult.ALL14 if name not in NINE)},
    "unequal": {"A": _adult.TOP9, "B": tuple(name for name in _adult.ALL14 if name not in _adult.TOP9)},
    "four parties": {
        "A": ("age", "workclass", "fnlwgt", "education-num"),
        "B": ("marital-status", "relationship", "race", "sex"),
        "C": ("capital-gain", "hours-per-week", "native-country"),
        "D": ("education", "occupation", "capital-loss"),
    },
}
TITLES = {
    "equal": "Figure 10(a): two parties, equal deal",
    "unequal": "Figure 10(b): two parties, unequal deal",
    "four parties": "Figure 11: four parties",
}
PAPER_SE = {
    "equal": {"A": 17.7, "B": 17.9},
    "unequal": {"A": 15.3, "B": 22.4},
    "four parties": {"A": 21.2, "B": 25.1, "C": 20.0, "D": 21.7},
}
# What the paper's text says of IE with Algorithm 2.
PAPER_IE = {
    "equal": dict.fromkeys(QIDS, "as Algorithm 1"),
    "unequal": dict.fromkeys(QIDS, "very high"),
    "four parties": {"Top5": "16.2 % to k = 180", "Top7": "16.6 % to k = 180", "Top9": "at most 18.3 %"},
}

Errors = dict[str, dict[int, float]]  # by QID and k, in percent
Games = dict[str, dict[int, Game]]
Cut = tuple[tuple[str, tuple[str, ...]], ...]


class Trial:
    """Adult with its tree, which is grown once for each different release."""

    def __init__(self) -> None:
        self.table = mq.Table(_adult.adult(), _adult.schema())
        train = np.arange(len(self.table)) < _adult.TRAINING_RECORDS
        self.task = Classification(self.table, _adult.CLASS, train=train)
        self._known: dict[Cut, float] = {}

    def play(self, qid: Sequence[str], k: int, deal: str, strategy: Strategy) -> Game:
        """A mashup in which everybody plays alike."""
        requirement = mq.KAnonymity(qid, k)
        return play(self.table, requirement, DEALS[deal], _adult.CLASS, "gain-ratio", others=strategy)

    def error(self, game: Game) -> float:
        """IE of what came out, in percent."""
        if (cut := _cut(game)) not in self._known:
            self._known[cut] = 100 * self.task.integration_error(game.outcome.columns)
        return self._known[cut]


def run(say: Say, save: Path | None) -> dict[str, Any]:
    trial = Trial()
    base = 100 * trial.task.base_error
    upper = {name: 100 * trial.task.upper_bound_error(qid) for name, qid in QIDS.items()}
    figures = [Figure("BE", _percent(base), "paper 14.7 %")]
    paper_ue = zip((20.4, 21.5, 22.4), upper.items(), strict=True)
    figures += [Figure(f"UE, {name}", _percent(error), f"paper {paper} %") for paper, (name, error) in paper_ue]
    results: dict[str, Any] = {"BE": base, "UE": upper}
    plain = {name: {k: trial.play(qid, k, "equal", obliging()) for k in KS} for name, qid in QIDS.items()}
    first = {name: {k: trial.error(game) for k, game in by_k.items()} for name, by_k in plain.items()}
    for deal, parties in DEALS.items():
        sources = {party: 100 * trial.task.source_error(held) for party, held in parties.items()}
        games = {name: {k: trial.play(qid, k, deal, honest(EPSILON)) for k in KS} for name, qid in QIDS.items()}
        second = {name: {k: trial.error(game) for k, game in by_k.items()} for name, by_k in games.items()}
        _say_errors(say, deal, first, second, games)
        save_chart(save, f"games-{deal.replace(' ', '-')}", _chart(deal, first, second, base, sources))
        figures += _figures(deal, first, second, sources)
        same = sum(_cut(games[name][k]) == _cut(plain[name][k]) for name in QIDS for k in KS)
        figures.append(Figure(f"{deal}: the release of Algorithm 1", f"{same} of {len(QIDS) * len(KS)} times"))
        results[deal] = {
            "SE": sources,
            "IE": second,
            "steps": {name: {k: _turns(game) for k, game in by_k.items()} for name, by_k in games.items()},
        }
    return {"figures": tell(say, figures), **results, "IE of Algorithm 1": first}


def _cut(game: Game) -> Cut:
    return tuple((column.name, column.labels) for column in game.outcome.columns)


def _turns(game: Game) -> list[tuple[str, str, float]]:
    return [(turn.party, turn.attribute, round(turn.score, 4)) for turn in game.rounds]


def _say_errors(say: Say, deal: str, first: Errors, second: Errors, games: Games) -> None:
    say(f"IE, {deal}".ljust(30) + "".join(f"{k:>6}" for k in KS))
    for name in QIDS:
        for algorithm, errors in (("1", first), ("2", second)):
            say(f"{name}, Algorithm {algorithm}".ljust(30) + "".join(f"{errors[name][k]:6.1f}" for k in KS))
        say("  steps".ljust(30) + "".join(f"{len(games[name][k].rounds):6}" for k in KS))
    say("")


def _figures(deal: str, first: Errors, second: Errors, sources: dict[str, float]) -> Iterator[Figure]:
    for party, error in sources.items():
        yield Figure(f"{deal}: SE({party})", _percent(error), f"paper {PAPER_SE[deal][party]} %")
    for name, by_k in second.items():
        more = max(by_k[k] - first[name][k] for k in KS)
        yield Figure(
            f"{deal}: IE, {name}",
            f"{min(by_k.values()):.1f} … {_percent(max(by_k.values()))}",
            f"paper {PAPER_IE[deal][name]}",
            f"at most {more:+.1f} beside Algorithm 1",
        )


def _percent(error: float) -> str:
    return f"{error:.1f} %"


def _chart(deal: str, first: Errors, second: Errors, base: float, sources: dict[str, float]) -> str:
    best = min(sources, key=lambda party: sources[party])
    return line_chart(
        [
            *(Series(f"{name}, Algorithm 2", list(by_k.items())) for name, by_k in second.items()),
            *(Series(f"{name}, Algorithm 1", list(by_k.items())) for name, by_k in first.items()),
        ],
        title=TITLES[deal],
        x_name="k",
        y_name="IE, percent",
        x_scale="log",
        references=[Reference(base, "BE, raw records"), Reference(sources[best], f"SE({best}), the lowest")],
        write=_percent,
    )
