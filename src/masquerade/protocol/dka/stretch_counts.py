"""How often each value occurs in a record's group, where the records of a group stand side by side under sharing.

After a sort (`sorted_tests.py`) each group is a stretch of places. Counts come about in two passes of ⌈log₂ n⌉ steps:

    forwards    a place adds the counts of the place s before it, if both are in one stretch; s = 1, 2, 4, …
                Then each place has the counts of its stretch up to itself, and the last has all
    backwards   a place takes the counts of the place s after it, under the same condition

Whether two places 2·s apart are in one stretch is whether both halves of the way are. Nothing is opened.

Cost for n records, S values and counts of w bits: about 3·S·w·n·log₂ n ANDs.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from masquerade.crypto import words
from masquerade.crypto.bits import Bits
from masquerade.crypto.circuit import Builder, Circuit
from masquerade.net.script import Script
from masquerade.protocol.collaborate.shared_bits import SharedBits


def value_bits(n_values: int) -> int:
    """Return how many bits a value takes."""
    return max(1, (n_values - 1).bit_length())


def counts_in_stretches(
    shared: SharedBits, linked: Bits, codes: Bits, n_values: int, width: int
) -> Script[Bits]:
    """Return this party's shares of the counts in each place's stretch, [values · width, places], lowest bit first.

    From shares of whether a place is in the stretch of the one before it, [1, places], and of the places' values,
    [bits, places], all of them below `n_values`.
    """
    n = codes.shape[1]
    marks = yield from shared.evaluate_shares(_one_hot(n_values, len(codes)), {"code": codes}, "marks")
    counts = np.zeros((n_values * width, n), np.uint8)
    counts[::width] = marks
    links: list[tuple[int, Bits]] = []
    apart = 1
    while apart < n:
        links.append((apart, linked))
        inputs = {"link": linked[:, apart:], "before": linked[:, :-apart]}
        inputs |= {"here": counts[:, apart:], "there": counts[:, :-apart]}
        out = yield from shared.evaluate_shares(_add_if(n_values, width), inputs, "link", "sum")
        linked = np.concatenate((np.zeros((1, apart), np.uint8), out[:1]), axis=1)
        counts = np.concatenate((counts[:, :apart], out[1:]), axis=1)
        apart *= 2
    for apart, linked in links:
        inputs = {"link": linked[:, apart:], "here": counts[:, :-apart], "there": counts[:, apart:]}
        taken = yield from shared.evaluate_shares(_take_if(n_values * width), inputs, "taken")
        counts = np.concatenate((taken, counts[:, n - apart :]), axis=1)
    return counts


@lru_cache(maxsize=16)
def _one_hot(n_values: int, bits: int) -> Circuit:
    build = Builder()
    code = build.input("code", bits)
    marks = [
        build.all_of([bit if value >> place & 1 else bit ^ 1 for place, bit in enumerate(code)])
        for value in range(n_values)
    ]
    build.output("marks", marks)
    return build.build()


@lru_cache(maxsize=16)
def _add_if(n_values: int, width: int) -> Circuit:
    """Add the counts of the other place if both are linked, and link the places that are twice as far apart."""
    build = Builder()
    (link,), (before,) = build.input("link", 1), build.input("before", 1)
    here, there = build.input("here", n_values * width), build.input("there", n_values * width)
    build.output("link", [build.both(link, before)])
    total: list[int] = []
    for at in range(0, n_values * width, width):
        added = [build.both(link, bit) for bit in there[at : at + width]]
        total += words.add(build, here[at : at + width], added)[:width]
    build.output("sum", total)
    return build.build()


@lru_cache(maxsize=16)
def _take_if(width: int) -> Circuit:
    build = Builder()
    (link,) = build.input("link", 1)
    here, there = build.input("here", width), build.input("there", width)
    taken = [build.xor(a, build.both(link, build.xor(a, b))) for a, b in zip(here, there, strict=True)]
    build.output("taken", taken)
    return build.build()
