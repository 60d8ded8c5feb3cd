"""The tables of a Bayes net: how likely each value of an attribute is given its parents', from shares of counts.

K2's estimate, (N(x, p) + 1) / (N(p) + |X|), in 1,024ths: a circuit divides the counts, and the quotients are opened. So
the parties learn chances, and neither counts nor how often the parents' values occur.

Cost: about 22·w ANDs a cell, for counts of w digits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto import words
from masquerade.crypto.circuit import FALSE, Builder, Circuit, Word
from masquerade.crypto.logarithm import Precision
from masquerade.crypto.rings import Elements
from masquerade.engine.counts import value_counts
from masquerade.net.script import Script
from masquerade.protocol.learn.arithmetic import SIDES, numbers_of
from masquerade.protocol.learn.calculators import Calculator
from masquerade.protocol.learn.counting import Codes, Question, SharedCounts
from masquerade.protocol.learn.shared_numbers import RING

PLACES = 10
_MORE_BITS = 8  # for the 1 that every value adds

Chances = dict[str, NDArray[np.int64]]  # by attribute: in 1,024ths, [combinations of parents' values, values]


def shared_chances(
    calculator: Calculator,
    counts: SharedCounts,
    parents: Mapping[str, Sequence[str]],
    precision: Precision,
) -> Script[Chances]:
    """Return the chances of all attributes, which all parties learn."""
    questions = [Question((*own, name)) for name, own in parents.items()]
    shares = yield from calculator.answers(counts, questions, precision)
    columns = []
    for name, cells in zip(parents, shares, strict=True):
        size = counts.sizes[name]
        table = calculator.plus(cells.reshape(-1, size), 1)
        columns.append(np.stack([table.ravel(), np.repeat(RING.total(table, axis=1), size)]))
    together: Elements = np.concatenate(columns, axis=1)
    bits = counts.bits + _MORE_BITS
    found = numbers_of((yield from calculator.read(_quotient_circuit(bits), together, bits))["quotient"])
    parts = np.split(found, np.cumsum([each.shape[1] for each in columns])[:-1])
    return {name: part.reshape(-1, counts.sizes[name]) for name, part in zip(parents, parts, strict=True)}


def plain_chances(
    codes: Mapping[str, Codes], sizes: Mapping[str, int], parents: Mapping[str, Sequence[str]]
) -> Chances:
    """Return the same from one table."""
    found = {}
    for name, own in parents.items():
        numbers = np.zeros_like(codes[name])
        for each in (*own, name):
            numbers = numbers * sizes[each] + codes[each]
        cells = prod(sizes[each] for each in (*own, name))
        table = value_counts(numbers, cells).reshape(-1, sizes[name]) + 1
        found[name] = (table << PLACES) // table.sum(axis=1, keepdims=True)
    return found


def written_tables(
    chances: Chances, parents: Mapping[str, Sequence[str]], values: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Return the tables in the values' own words; each row adds up to 1."""
    tables = {}
    for name, table in chances.items():
        given = product(*(values[each] for each in parents[name]))
        shares = table / table.sum(axis=1, keepdims=True)
        tables[name] = [
            {
                "given": dict(zip(parents[name], combination, strict=True)),
                "chances": dict(zip(values[name], row.round(6).tolist(), strict=True)),
            }
            for combination, row in zip(given, shares, strict=True)
        ]
    return tables


@cache
def _quotient_circuit(bits: int) -> Circuit:
    """Return the circuit of ⌊2^PLACES · a / b⌋, for a ≤ b, of two numbers that are each shared by two."""
    build = Builder()
    one, other = (build.input(name, 2 * bits) for name in SIDES)
    a, b = (words.add(build, one[at : at + bits], other[at : at + bits]) for at in (0, bits))
    rest, divisor = [*a, FALSE], [*b, FALSE]
    quotient: Word = []
    for _ in range(PLACES + 1):
        difference = words.subtract(build, [*rest, FALSE], [*divisor, FALSE])
        fits = difference[-1] ^ 1
        quotient.append(fits)
        rest = [FALSE, *words.multiplex(build, fits, rest, difference[:-1])[:-1]]
    build.output("quotient", quotient[::-1])
    return build.build()
