"""SSI_t of the DkA paper on sets of 30,162: encryptions, circuit only, and what the joint histogram does in its place.

The paper's estimate (§6.4) is 19.5 s a test, its M encryptions alone: Okamoto and Uchiyama's scheme with 1,024 bits and
noise of 130 bits, on a Xeon of 3 GHz. Ours have 2,048 bits and noise of full length. A round of DkA has M such tests;
the joint histogram gives the bits of all of them at once. Both parties run in this process; times are of the processor.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import _adult
from _figures import Figure, Say, duration, tell
from _ssi import Scheme, new_key, ssi_by_circuit, ssi_first, ssi_second
from masquerade.crypto import Bits, SecretKey
from masquerade.crypto.homomorphic import whole
from masquerade.net import Script
from masquerade.net.memory import Wire, run_together
from masquerade.protocol.pairs import Pair, prepare_pair
from masquerade.protocol.sensitive.back_ends import shared_tests
from masquerade.protocol.sensitive.histogram import Bounds

DOMAIN = _adult.TRAINING_RECORDS  # the paper's M
K = 50
SEED = 7
PAPER_SECONDS = 19.5 / _adult.TRAINING_RECORDS  # an encryption
PAPER_CIPHERTEXT = 128  # bytes
PARTIES = ("first", "second")
SCHEMES: dict[Scheme, str] = {"okamoto-uchiyama": "Okamoto–Uchiyama", "paillier": "Paillier"}


@dataclass(frozen=True)
class Spent:
    """What a protocol took: processor seconds before P1's first message, of the rest of each, and bytes of both."""

    opening: float
    first: float
    second: float
    sent: int


def run(say: Say, save: Path | None) -> dict[str, Any]:
    """Measure one test each way, and one round of tests."""
    say(f"whole numbers by {'gmpy2' if whole is not int else 'Python'}")
    random = np.random.default_rng(SEED)
    sets = random.integers(0, 2, (2, DOMAIN)).astype(np.uint8)
    figures: list[Figure] = []
    for scheme, name in SCHEMES.items():
        figures += by_encryption(scheme, name, sets)
        say(f"{name} is done")
    figures += by_circuit(sets)
    figures += all_at_once(random)
    return {"figures": tell(say, figures)}


def by_encryption(scheme: Scheme, name: str, sets: Bits) -> Iterator[Figure]:
    """Algorithm 2 under a fresh key; the paper's figure is that of its first step."""
    spent = one_test(sets, new_key(scheme), scheme)
    what, paper = f"Algorithm 2, {name}", PAPER_SECONDS * DOMAIN
    yield Figure(
        f"{what}: P1's {DOMAIN:,} encryptions",
        duration(spent.opening),
        f"paper {paper:.1f} s, 1,024 bits",
        f"{spent.opening / paper:.2f}",
    )
    yield Figure(f"{what}: P1, the rest", duration(spent.first))
    yield Figure(f"{what}: P2", duration(spent.second))
    yield _bytes(what, spent.sent, f"paper {DOMAIN * PAPER_CIPHERTEXT / 1e6:.1f} MB")


def by_circuit(sets: Bits) -> Iterator[Figure]:
    """Algorithm 8."""
    spent = one_test(sets)
    both, paper = spent.opening + spent.first + spent.second, PAPER_SECONDS * DOMAIN
    yield Figure(
        "Algorithm 8: both parties", duration(both), f"paper's Algorithm 2 {paper:.1f} s", f"{both / paper:.2f}"
    )
    yield _bytes("Algorithm 8", spent.sent)


def all_at_once(random: np.random.Generator) -> Iterator[Figure]:
    """Test every record of two partitions into the most groups of k, as a round of DkA does."""
    bound = DOMAIN // K
    labels = random.integers(0, bound, (2, DOMAIN)).astype(np.uint64)
    least = min(int(np.bincount(each.astype(np.int64)).min()) for each in labels)
    bounds = Bounds(DOMAIN, (bound, bound), (least, least))

    def part(pair: Pair) -> Script[Any]:
        return (yield from shared_tests(pair, labels[pair.me], K, bounds))

    shares, spent = _measured(part)
    cells = (labels[0] * np.uint64(bound) + labels[1]).astype(np.int64)
    assert np.array_equal(np.bitwise_xor(*shares), np.bincount(cells)[cells] >= K)
    both, paper = spent.opening + spent.first + spent.second, PAPER_SECONDS * DOMAIN
    what = f"joint histogram, {bound} × {bound} groups, all {DOMAIN:,} tests"
    yield Figure(
        f"{what}: both parties",
        duration(both),
        f"paper {paper * DOMAIN / 86_400:.2f} days",
        f"1/{paper * DOMAIN / both:,.0f}",
    )
    yield Figure(f"{what}: a test", f"{1000 * both / DOMAIN:.2f} ms", f"paper {paper:.1f} s")
    yield _bytes(what, spent.sent, f"{spent.sent / DOMAIN / 1000:.1f} kB a test")


def one_test(sets: Bits, key: SecretKey | None = None, scheme: Scheme = "okamoto-uchiyama") -> Spent:
    """Run one test, with a key by Algorithm 2 and without by Algorithm 8, and check its answer."""
    threshold, bit = DOMAIN // 4, 1
    fewer = int((sets[0] & sets[1]).sum()) < threshold

    def part(pair: Pair) -> Script[Any]:
        own = sets[pair.me]
        if key is None:
            return (yield from ssi_by_circuit(pair, own, threshold, bit if pair.me else None))
        if pair.me == 0:
            return (yield from ssi_first(pair, own, threshold, key))
        return (yield from ssi_second(pair, own, threshold, bit, scheme))

    (answer, nothing), spent = _measured(part)
    assert nothing is None
    assert answer ^ bit == fewer
    return spent


def _measured(part: Callable[[Pair], Script[Any]]) -> tuple[list[Any], Spent]:
    """Run both parties' parts; the time, not the bytes, is without the setup of transfers, which is once a session."""
    moves: list[list[float]] = [[], []]

    def whole_part(me: int) -> Script[Any]:
        pair = yield from prepare_pair(me, PARTIES, b"bench")
        return (yield from _clocked(part(pair), moves[me]))

    wire = Wire()
    results = run_together({name: whole_part(me) for me, name in enumerate(PARTIES)}, wire)
    sent = sum(len(message.data) for message in wire.heard)
    return [results[name] for name in PARTIES], Spent(moves[0][0], sum(moves[0][1:]), sum(moves[1]), sent)


def _clocked(script: Script[Any], moves: list[float]) -> Script[Any]:
    """Run a script, and note the processor seconds before each of its moves."""
    heard = None
    while True:
        started = time.process_time()
        try:
            move = script.send(heard)
        except StopIteration as end:
            return end.value
        finally:
            moves.append(time.process_time() - started)
        heard = yield move


def _bytes(what: str, sent: int, reference: str = "") -> Figure:
    return Figure(f"{what}: sent by both", f"{sent / 1e6:.1f} MB", reference)
