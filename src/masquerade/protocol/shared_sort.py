"""Sort records under sharing: nobody learns their order, their keys, or which of them are equal.

A sorting network (`crypto/circuit.py`) compares the same places whatever the keys are; its comparisons and
exchanges are circuits on shares. Afterwards equal keys stand side by side, and a place is **linked** if its key is that
of the place before it.

Cost for n keys of w bits and C ≈ n·(log₂ n)²/4 comparators: 2·w·C ANDs, and w·n to compare neighbours; messages that
wait for each other: about w·(log₂ n)²/2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from masquerade.crypto import Bits, Builder, Circuit, layers, words
from masquerade.net import Script
from masquerade.protocol.providers.shared_counts import SharedBits


def sort_shared(
    shared: SharedBits, keys: Bits, lists: int = 1, on_percent: Callable[[int], None] | None = None
) -> Script[list[Bits]]:
    """Sort shared keys in place, [bits, records]. Return the shared bits that say what each layer exchanged.

    With several `lists`, the keys are those of equally long lists, one after the other, and each is sorted by itself,
    in as many rounds as one. `on_percent` is called as layers are done.
    """
    exchanged = []
    width, length = len(keys), keys.shape[1] // lists
    starts = length * np.arange(lists)[:, None]
    depth = max(length - 1, 0).bit_length()
    n_layers = depth * (depth + 1) // 2
    for number, (first, second) in enumerate(layers(length)):
        if on_percent is not None:
            on_percent(100 * number // n_layers)
        low, high = (first + starts).ravel(), (second + starts).ravel()
        inputs = {"low": keys[:, low], "high": keys[:, high]}
        out = yield from shared.evaluate_shares(_compare(width), inputs, "swap", "low", "high")
        exchanged.append(out[:1])
        keys[:, low], keys[:, high] = out[1 : width + 1], out[width + 1 :]
    return exchanged


def linked_places(shared: SharedBits, keys: Bits, lists: int = 1) -> Script[Bits]:
    """Return shares of whether a place's key equals the one before it in its list, [1, places]."""
    linked = np.zeros((1, keys.shape[1]), np.uint8)
    if keys.shape[1] > 1:
        neighbours = {"left": keys[:, 1:], "right": keys[:, :-1]}
        linked[:, 1:] = yield from shared.evaluate_shares(equal_words(len(keys)), neighbours, "equal")
        linked[:, :: keys.shape[1] // lists] = 0
    return linked


@lru_cache(maxsize=16)
def _compare(width: int) -> Circuit:
    """Exchange two keys if the second is smaller: 2·w ANDs."""
    build = Builder()
    low, high = build.input("low", width), build.input("high", width)
    swap = words.less_than(build, high, low)
    build.output("swap", [swap])
    exchanged_words(build, swap, low, high)
    return build.build()


def exchanged_words(build: Builder, swap: int, low: Sequence[int], high: Sequence[int]) -> None:
    """Output both words, exchanged if `swap` is set."""
    for name, word in zip(("low", "high"), words.exchange(build, swap, low, high), strict=True):
        build.output(name, word)


@lru_cache(maxsize=16)
def equal_words(width: int) -> Circuit:
    """Whether two words are equal: w − 1 ANDs."""
    build = Builder()
    build.output("equal", [words.equal(build, build.input("left", width), build.input("right", width))])
    return build.build()
