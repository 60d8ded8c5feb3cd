"""One party of the computations that `learning` measures."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from _parties import main
from masquerade.crypto import Precision
from masquerade.net import Script
from masquerade.protocol.learn.bayes_net import net_structure
from masquerade.protocol.learn.counting import Calculator, ManySites, SharedCounts, TwoParties
from masquerade.protocol.learn.shared_numbers import logarithms, prepare_shared_numbers
from masquerade.protocol.pairs import exchange_nonces, prepare_pair

TRIES = 5  # of which the best counts: other work on the machine delays each message
SIZES = {"a": 3, "b": 4, "c": 3, "d": 2, "e": 4, "f": 3}


def records(n: int) -> dict[str, Any]:
    """Six fields, of which most depend on earlier ones."""
    random = np.random.default_rng(1)

    def mostly(share: float, values: Any, size: int) -> Any:
        return np.where(random.random(n) < share, values, random.integers(size, size=n))

    a = random.integers(3, size=n)
    b = mostly(0.7, a, 4)
    c = mostly(0.6, b % 3, 3)
    d = mostly(0.8, (a + c) % 2, 2)
    e = mostly(0.5, b, 4)
    return {"a": a, "b": b, "c": c, "d": d, "e": e, "f": mostly(0.5, (d + e) % 3, 3)}


def measured(me: int, parties: Sequence[str], n_logs: str, n_records: str) -> Script[dict[str, Any]]:
    """Seconds of the setup, of one logarithm and of many, and of a net over split columns and over whole records.

    Of more than two parties, the setup and the nets alone.
    """
    started = time.perf_counter()
    if len(parties) > 2:
        shared = yield from prepare_shared_numbers(me, parties, b"learning")
        several: dict[str, Any] = {"setup": time.perf_counter() - started}
        yield from _nets(me, parties, int(n_records), ManySites(shared), several)
        return several
    pair = yield from prepare_pair(me, list(parties), b"learning")
    spent: dict[str, Any] = {"setup": time.perf_counter() - started}
    yield from exchange_nonces(me, list(parties))  # so that neither waits for the other's setup
    for bits, terms in ((17, 3), (13, 4), (10, 5)):
        precision = Precision(bits, terms)
        for n in (1, int(n_logs)):
            shares = np.random.default_rng(me).integers(1, 1 << (bits - 1), n).astype(np.uint64)
            took = []
            for _ in range(TRIES):
                started = time.perf_counter()
                yield from logarithms(pair, shares, precision)
                took.append(time.perf_counter() - started)
            spent[f"{n} of {bits} bits"] = min(took)
    yield from _nets(me, parties, int(n_records), TwoParties(pair), spent)
    return spent


def _nets(me: int, parties: Sequence[str], n: int, calculator: Calculator, spent: dict[str, Any]) -> Script[None]:
    """Measure a net over columns that the parties have in turn, and over records that they have in turn."""
    columns, precision = records(n), Precision(n.bit_length(), 3)
    holder = {name: at % len(parties) for at, name in enumerate(SIZES)}
    own = {name: column for name, column in columns.items() if holder[name] == me}
    sides: dict[str, SharedCounts] = {
        "split": SharedCounts(own, SIZES, precision.bits, holder),
        "whole": SharedCounts(
            {name: column[me :: len(parties)] for name, column in columns.items()}, SIZES, precision.bits
        ),
    }
    for name, side in sides.items():
        started = time.perf_counter()
        net = yield from net_structure(calculator, side, list(SIZES), n, 3, precision)
        spent[name] = time.perf_counter() - started
        spent[f"{name} net"] = {attribute: list(parents) for attribute, parents in net.items()}


if __name__ == "__main__":
    main(measured)
