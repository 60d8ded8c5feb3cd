"""Transfers, tables, trees, products and homomorphic operations a second on one core, in processor time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from _figures import Figure, Say, tell
from masquerade.crypto import (
    PowerOfTwo,
    ProductReceiver,
    ProductSender,
    SecretKey,
    TableReceiver,
    TableSender,
    TransferReceiver,
    TransferSender,
    TweakedHash,
    homomorphic as okamoto_uchiyama,
    homomorphic as paillier,
)
from masquerade.crypto.hashing import random_blocks
from masquerade.crypto.homomorphic import whole
from masquerade.crypto.punctured_trees import TreeReceiver, TreeSender

COUNT = 1 << 20
TRANSFERS_A_SECOND = 1_000_000  # random, both parties on one core


def run(say: Say, save: Path | None) -> dict[str, Any]:
    """Measure all of it."""
    hashing, blocks = TweakedHash(os.urandom(16)), random_blocks(COUNT)
    figures = [figure("hashed blocks", COUNT, best(lambda: hashing.hash(blocks, 0))), *transfers()]
    for bits in (2048, 3072):
        figures += encryption(f"Okamoto–Uchiyama {bits}", okamoto_uchiyama.generate_okamoto_uchiyama(bits))
        figures += encryption(f"Paillier {bits}", paillier.generate_paillier(bits))
    say(f"whole numbers by {'gmpy2' if whole is not int else 'Python'}")
    return {"figures": tell(say, figures)}


def best(work: Callable[[], object], repeats: int = 3) -> float:
    """Processor seconds of the fastest run: what one core needs, whoever else uses it."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def figure(what: str, count: int, seconds: float, goal: int | None = None) -> Figure:
    """So many a second, and what one takes."""
    speed = count / seconds
    return Figure(
        what,
        f"{speed:,.0f} /s",
        f"{1e6 * seconds / count:,.2f} µs each",
        goal="" if goal is None else f"at least {goal:,} /s",
        met=None if goal is None else speed >= goal,
    )


def transfers() -> list[Figure]:
    """Both parties' work together."""
    sender, receiver = TransferSender(b"bench"), TransferReceiver(b"bench")

    def set_up() -> None:
        nonlocal sender, receiver
        sender, receiver = TransferSender(b"bench"), TransferReceiver(b"bench")
        sender.finish_setup(receiver.setup())
        receiver.finish_setup(sender.setup())

    figures = [figure("setup of a direction", 1, best(set_up))]
    choices = np.frombuffer(os.urandom(COUNT), np.uint8) & 1
    ring, delta = PowerOfTwo(64), random_blocks(1)[0]
    deltas = ring.random(COUNT)

    def random() -> None:
        message, received = receiver.extend(choices)
        sender.extend(message, COUNT).random()
        received.random()

    def correlated_xor() -> None:
        message, received = receiver.extend(choices)
        received.correlated_xor(sender.extend(message, COUNT).correlate_xor(delta)[1])

    def correlated() -> None:
        message, received = receiver.extend(choices)
        received.correlated(ring, sender.extend(message, COUNT).correlate(ring, deltas)[1])

    figures += [
        figure("random transfers", COUNT, best(random), TRANSFERS_A_SECOND),
        figure("correlated transfers, XOR", COUNT, best(correlated_xor)),
        figure("correlated transfers, mod 2^64", COUNT, best(correlated)),
    ]

    tables = TableSender(b"bench", sender), TableReceiver(b"bench", receiver)
    trees = TreeSender(b"bench", sender), TreeReceiver(b"bench", receiver)
    products = ProductSender(sender, PowerOfTwo(32)), ProductReceiver(receiver, PowerOfTwo(32))
    count, entries = 2000, 1508
    wanted = np.random.default_rng(0).integers(0, entries, count)
    bits = np.zeros((count, entries), np.uint8)

    def look_up() -> None:
        tables[1].receive_bits(tables[0].offer_bits(tables[1].ask(wanted, entries), bits))

    def answer() -> None:
        trees[1].receive(trees[0].answer(trees[1].ask(wanted, entries), count, entries)[1])

    def multiply() -> None:
        message = products[1].ask(np.arange(20_000))
        products[1].multiply(products[0].multiply(message, np.arange(20_000))[1])

    return [
        *figures,
        figure("bits of tables of 1,508 looked up", count, best(look_up)),
        figure("leaves of punctured trees of 1,508", count * entries, best(answer)),
        figure("products mod 2^32", 20_000, best(multiply)),
    ]


def encryption(name: str, key: SecretKey) -> list[Figure]:
    """One scheme and key length."""
    public = key.public
    message = (1 << public.plaintext_bits) - 12345
    for _ in range(20):  # the tables
        key.encrypt(message)
        public.encrypt(message)
    ciphertext = key.encrypt(message >> 1)
    operations: list[tuple[str, Callable[[], object], int]] = [
        ("encrypt, owner, one slot", partial(key.encrypt, 1 << 320), 50),
        ("encrypt, owner, all slots", partial(key.encrypt, message), 50),
        ("encrypt, other party, all slots", partial(public.encrypt, message), 20),
        ("re-randomise", partial(public.rerandomise, ciphertext), 20),
        ("add", partial(public.add, ciphertext, ciphertext), 2000),
        ("decrypt", partial(key.decrypt, ciphertext), 20),
    ]
    return [
        figure(f"{name}: {what}", count, best(partial(_repeated, operation, count)))
        for what, operation, count in operations
    ]


def _repeated(operation: Callable[[], object], count: int) -> None:
    for _ in range(count):
        operation()
