"""Secure computation: garbled gates a second, n-party sharing, and the comparison of a round over TLS."""

from __future__ import annotations

import statistics
import time
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from _figures import Figure, Say, duration, tell
from _parties import run_parties
from masquerade.crypto import (
    Builder,
    Circuit,
    Delta,
    Evaluator,
    Garbler,
    HeldCircuit,
    SharedEvaluation,
    TripleMaking,
    Triples,
    hold,
    opened,
    share_message,
    words,
)
from masquerade.crypto.circuit import evaluate

GATES_A_SECOND = 2_000_000  # garbled, on one core
ROUND_SECONDS = 0.05
ROUNDS = 50
SCORE_BITS = 64  # discernibility over Adult's records


def run(say: Say, save: Path | None) -> dict[str, Any]:
    """Measure all of it."""
    figures = [*garbled(), *shared()]
    figures.extend(figure for n in (2, 3, 5) for figure in compared(n))
    return {"figures": tell(say, figures)}


def garbled() -> list[Figure]:
    """Wide batches on one core, in processor time."""
    figures = []
    for width, n in ((32, 50_000), (64, 25_000)):
        circuit = comparison(width)
        random = np.random.default_rng(1)
        inputs = {name: random.integers(0, 2, (width, n)).astype(np.uint8) for name in circuit.inputs}
        making, walking = [], []
        for _ in range(4):
            started = time.process_time()
            garbling = Garbler(bytes(16), Delta()).garble(circuit, n)
            making.append(time.process_time() - started)
            labels = {name: garbling.encode(name, bits) for name, bits in inputs.items()}
            started = time.process_time()
            evaluation = Evaluator(bytes(16)).evaluate(circuit, n, garbling.tables, labels)
            walking.append(time.process_time() - started)
        read = evaluation.decode(garbling.reveal("right is larger"), "right is larger")
        assert np.array_equal(read["right is larger"], evaluate(circuit, inputs)["right is larger"])
        n_and = circuit.n_and * n
        what = f"{n:,} comparisons of {width} bits"
        speed = n_and / statistics.median(making)
        goal = f"at least {GATES_A_SECOND / 1e6:.0f} M"
        figures.append(
            Figure(f"{what}: ANDs garbled a second", f"{speed / 1e6:.1f} M", goal=goal, met=speed >= GATES_A_SECOND)
        )
        figures.append(Figure(f"{what}: ANDs evaluated a second", f"{n_and / statistics.median(walking) / 1e6:.1f} M"))
    return figures


def comparison(width: int, shallow: bool = False) -> Circuit:
    """Compute left < right."""
    build = Builder()
    left, right = build.input("left", width), build.input("right", width)
    build.output("right is larger", [words.less_than(build, left, right, shallow=shallow)])
    return build.build()


def shared() -> list[Figure]:
    """All parties of an n-party evaluation in one process: work and bytes, no network."""
    figures = []
    for n_parties in (2, 3, 5):
        for n in (1, 10_000):
            circuit = comparison(64, True)
            held = hold(circuit, n_parties)
            seconds, sent = _evaluated_together(circuit, n_parties, n, held, _triples(held, 8 * -(-n // 8)))
            figures.append(
                Figure(
                    f"sharing, {n_parties} parties, {n:,} comparisons of 64 bits: online work a party",
                    duration(seconds / n_parties),
                    f"{circuit.n_and} ANDs, {circuit.depth + 1} rounds, {sent:,} bytes to each peer",
                )
            )
    return figures


def compared(n_parties: int) -> list[Figure]:
    """The comparison of a mashup's round: processes over mutual TLS on loopback."""
    names = [f"p{number}" for number in range(n_parties)]
    spent = run_parties("_argmax_party.py", names, ROUNDS, SCORE_BITS)
    secure = statistics.median(second for each in spent for second in each["secure"][1:])
    plain = statistics.median(second for each in spent for second in each["plain"][1:])
    return [
        Figure(f"arg-max of {n_parties} parties: setup for {ROUNDS} rounds", duration(max(e["setup"] for e in spent))),
        Figure(
            f"arg-max of {n_parties} parties: a round",
            duration(secure),
            f"plain scores {duration(plain)}",
            f"{secure / plain:.1f}",
            f"under {duration(ROUND_SECONDS)}",
            secure < ROUND_SECONDS,
        ),
    ]


def _triples(held: HeldCircuit, instances: int) -> list[Triples]:
    """Triples by the protocol on transfers that are drawn here."""
    random = np.random.default_rng(2)
    makings = [TripleMaking(held, me, instances) for me in range(held.n_parties)]
    for sender, chooser in combinations(range(held.n_parties), 2):
        zeros, ones = random.integers(0, 2, (2, makings[sender].transfers(chooser))).astype(np.uint8)
        chosen = np.where(makings[chooser].choices(sender), ones, zeros).astype(np.uint8)
        makings[chooser].absorb(sender, chosen, makings[sender].correct(chooser, zeros, ones))
    return [making.triples() for making in makings]


def _evaluated_together(
    circuit: Circuit, n_parties: int, n: int, held: HeldCircuit, triples: list[Triples]
) -> tuple[float, int]:
    random = np.random.default_rng(3)
    shares = [
        {name: random.integers(0, 2, (circuit.width(name), n)).astype(np.uint8) for name in circuit.inputs}
        for _ in range(n_parties)
    ]
    started = time.process_time()
    parts = [SharedEvaluation(held, me, shares[me], triples[me]) for me in range(n_parties)]
    sent = 0
    while (told := [part.message for part in parts if part.message is not None]) and len(told) == n_parties:
        sent += len(told[0])
        for me, part in enumerate(parts):
            part.hear(told[:me] + told[me + 1 :])
    outputs = [part.shares(*circuit.outputs) for part in parts]
    told = [share_message(share) for share in outputs]
    results = [opened(share, told[:me] + told[me + 1 :]) for me, share in enumerate(outputs)]
    seconds = time.process_time() - started
    inputs = {name: np.bitwise_xor.reduce([each[name] for each in shares]) for name in circuit.inputs}
    assert all(np.array_equal(result, evaluate(circuit, inputs)["right is larger"]) for result in results)
    return seconds, sent + len(told[0])
