"""Logarithms on shares, and a Bayes net between two and three parties, over TLS; the references are the paper's.

The paper (the corrected Lindell–Pinkas logarithm, P3DM'08) takes 5 s for a logarithm, in circuits of 1,497, 1,386 and
1,314 gates for numbers of 17, 13 and 10 bits, and 2.5 hours for the structure of a Bayes net over 100,000 records of
six fields. Seconds here are those of the slower party, the best of five tries of the logarithms, without the setup of
the session, which is told apart.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from _figures import Figure, Say, duration, tell
from _parties import run_parties
from masquerade.crypto import Precision, scaled_logarithms, split_circuit
from masquerade.crypto.logarithm import SERIES_ERRORS

PAPER = {17: (3, 1497, 5.0), 13: (4, 1386, 4.9), 10: (5, 1314, 4.8)}  # bits: terms, gates, seconds
PAPER_NET = 2.5 * 3600
LOGS, RECORDS = 500, 100_000
ONE_SECONDS, MANY_SECONDS, NET_SECONDS = 0.1, 1.0, 180.0


def run(say: Say, save: Path | None) -> dict[str, Any]:
    """Measure all of it."""
    return {"figures": tell(say, [*_accuracy(), *_seconds()])}


def _accuracy() -> list[Figure]:
    figures = []
    for bits, (terms, gates, _) in PAPER.items():
        precision, numbers = Precision(bits, terms), np.arange(1, 1 << bits)
        error = np.abs(scaled_logarithms(numbers, precision) / precision.scale - np.log(numbers)).max()
        figures.append(
            Figure(
                f"numbers of {bits} bits, {terms} terms: largest error",
                f"{error:.5f}",
                goal=f"at most {SERIES_ERRORS[terms]}",
                met=bool(error <= SERIES_ERRORS[terms]),
            )
        )
        made = split_circuit(bits).n_and
        figures.append(
            Figure(f"numbers of {bits} bits: ANDs", f"{made}", f"paper {gates:,} gates", f"{made / gates:.2f}")
        )
    return figures


def _seconds() -> list[Figure]:
    spent = run_parties("_learning_party.py", ("anna", "berta"), LOGS, RECORDS)
    assert spent[0]["split net"] == spent[1]["split net"] == spent[0]["whole net"]
    slower = {name: max(each[name] for each in spent) for name in spent[0] if not name.endswith("net")}
    figures = [Figure("setup of a session between two", duration(slower["setup"]))]
    for bits, (_, _, seconds) in PAPER.items():
        for n, goal in ((1, ONE_SECONDS), (LOGS, MANY_SECONDS)):
            took = slower[f"{n} of {bits} bits"]
            figures.append(
                Figure(
                    f"{n} logarithm{'s' * (n > 1)} of {bits} bits",
                    duration(took),
                    f"paper {duration(n * seconds)}",
                    f"{took / (n * seconds):.5f}",
                    f"at most {duration(goal)}",
                    took <= goal,
                )
            )
    three = run_parties("_learning_party.py", ("anna", "berta", "carla"), LOGS, RECORDS)
    assert all(each["split net"] == each["whole net"] == spent[0]["split net"] for each in three)
    for name, kind in (("split", "columns"), ("whole", "records")):
        for words, took in (("both parties", slower[name]), ("three parties", max(each[name] for each in three))):
            figures.append(
                Figure(
                    f"Bayes net of {RECORDS:,} records, {kind} of {words}",
                    duration(took),
                    f"paper {duration(PAPER_NET)}",
                    f"{took / PAPER_NET:.5f}",
                    f"at most {duration(NET_SECONDS)}",
                    took <= NET_SECONDS,
                )
            )
    return figures
