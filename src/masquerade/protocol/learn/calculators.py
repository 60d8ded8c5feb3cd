"""What trees and nets are computed with, from shares of counts: between two parties, or among n sites.

    TwoParties   garbled circuits and transfers between the two (`arithmetic.py`): few messages
    ManySites    circuits on XOR shares and products between every two (`shared_numbers.py`): private against any n − 1
                 curious sites, at a round for each layer of a circuit

Both compute in whole numbers modulo 2^64 and give the same results, digit by digit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto import words
from masquerade.crypto.bits import Bits, digits
from masquerade.crypto.circuit import Builder, Circuit
from masquerade.crypto.logarithm import Precision, from_bits, main_offset, split_circuit
from masquerade.crypto.rings import Elements
from masquerade.errors import ParameterError
from masquerade.net.script import Script
from masquerade.protocol.joint_histogram.pair import Pair, read_outputs
from masquerade.protocol.learn.arithmetic import (
    SIDES,
    combined,
    lowest_circuit,
    numbers_of,
    stacked_digits,
)
from masquerade.protocol.learn.counting import Question, SharedCounts
from masquerade.protocol.learn.logarithm import dropped_digits, weighted_logarithms
from masquerade.protocol.learn.shared_numbers import RING, SharedNumbers


class Calculator(ABC):
    """One party's side of the computations; all parties call the same methods in the same order."""

    me: int

    @abstractmethod
    def answers(
        self, counts: SharedCounts, questions: Sequence[Question], precision: Precision
    ) -> Script[list[Elements]]:
        """Return our shares of counts."""

    @abstractmethod
    def read(self, circuit: Circuit, shares: Elements, bits: int) -> Script[Mapping[str, Bits]]:
        """Return the outputs of a circuit, which all learn, on the lowest digits of each column's shared numbers."""

    @abstractmethod
    def weighted_logarithms(self, shares: Elements, precision: Precision) -> Script[Elements]:
        """Return our shares of x · ⌊σ · ln x / 2^d⌋, as `logarithm.py` defines it."""

    def lowest(self, shares: Elements) -> Script[NDArray[np.int64]]:
        """Return which of each column's shared numbers is the lowest, the first of equal ones; all learn that."""
        found = yield from self.read(lowest_circuit(64, len(shares)), shares, 64)
        return numbers_of(found["index"])

    def plus(self, shares: Elements, number: int) -> Elements:
        """Add a public number to shared ones: the first party does."""
        return RING.add(shares, np.full_like(shares, number % RING.modulus)) if self.me == 0 else shares

    def uncertainties(self, tables: Sequence[Elements], precision: Precision) -> Script[list[Elements]]:
        """Return our shares of what each table's rows leave uncertain of its columns, in units of σ / 2^d.

        Of shared counts N, that is Σ_r N(r) · ln N(r) − Σ_r Σ_c N(r, c) · ln N(r, c): the conditional entropy, times n.
        """
        terms = [np.concatenate((RING.total(table, axis=1), table.ravel())) for table in tables]
        logs = yield from self.weighted_logarithms(np.concatenate(terms), precision)
        parts = np.split(logs, np.cumsum([each.size for each in terms])[:-1])
        return [
            RING.subtract(RING.total(part[: len(table)]), RING.total(part[len(table) :]))
            for part, table in zip(parts, tables, strict=True)
        ]


class TwoParties(Calculator):
    """The side of one of two parties."""

    def __init__(self, pair: Pair) -> None:
        self._pair, self.me = pair, pair.me

    def answers(
        self, counts: SharedCounts, questions: Sequence[Question], precision: Precision
    ) -> Script[list[Elements]]:
        """Count, jointly where each has some columns."""
        return (yield from counts.answers(self._pair, questions, precision.ring))

    def read(self, circuit: Circuit, shares: Elements, bits: int) -> Script[Mapping[str, Bits]]:
        """Evaluate a garbled circuit that adds up both shares."""
        inputs = {SIDES[self.me]: stacked_digits(shares, bits)}
        return (yield from read_outputs(self._pair, circuit, shares.shape[1], inputs))

    def weighted_logarithms(self, shares: Elements, precision: Precision) -> Script[Elements]:
        """Take the logarithms of two parties."""
        return (yield from weighted_logarithms(self._pair, shares, precision))


class ManySites(Calculator):
    """The side of one of n sites."""

    def __init__(self, shared: SharedNumbers) -> None:
        self._shared, self.me = shared, shared.me

    def answers(
        self, counts: SharedCounts, questions: Sequence[Question], precision: Precision
    ) -> Script[list[Elements]]:
        """Count, jointly where each has some columns."""
        return (yield from counts.answers_among(self._shared, questions))

    def read(self, circuit: Circuit, shares: Elements, bits: int) -> Script[Mapping[str, Bits]]:
        """Add up all shares in one circuit, and give the sum to the other."""
        added = yield from self._summed(shares.ravel(), bits)
        stacked = added.reshape(bits, *shares.shape).transpose(1, 0, 2).reshape(-1, shares.shape[1])
        inputs = {SIDES[0]: stacked, SIDES[1]: np.zeros_like(stacked)}
        names = list(circuit.outputs)
        rows = yield from self._shared.bits.open_from_shares(circuit, inputs, *names)
        ends = np.cumsum([len(circuit.outputs[name]) for name in names])[:-1]
        return dict(zip(names, np.split(rows, ends), strict=True))

    def weighted_logarithms(self, shares: Elements, precision: Precision) -> Script[Elements]:
        """Find the parts in a circuit, evaluate the series by products, drop digits in a circuit, multiply."""
        if precision.ring_bits != RING.bits:
            raise ParameterError(f"logarithms of n sites take a ring of {RING.bits} bits")
        number = yield from self._summed(shares, precision.bits)
        inputs = {SIDES[0]: number, SIDES[1]: np.zeros_like(number)}
        bits = yield from self._shared.bits.evaluate_shares(split_circuit(precision.bits), inputs, "split")
        main, epsilon = from_bits(precision, (yield from self._shared.from_digits(bits)))
        power, series = epsilon, np.zeros_like(epsilon)
        for at, coefficient in enumerate(precision.coefficients):
            if at:
                power = (yield from self._shared.products(epsilon, power[:, None]))[:, 0]
            series = RING.add(series, combined(power[None, :], [coefficient], RING))
        logs = self.plus(RING.add(main, series), main_offset(precision))
        if dropped := dropped_digits(precision):
            logs = yield from self._halved(logs, dropped)
        return (yield from self._shared.products(shares, logs[:, None]))[:, 0]

    def _halved(self, shares: Elements, times: int) -> Script[Elements]:
        """Return our shares of shared numbers divided by 2^`times` and rounded down."""
        bits = (yield from self._summed(shares, 64))[times:]
        weights = [1 << place for place in range(len(bits))]
        weights[-1] = -weights[-1]  # two's complement
        return combined((yield from self._shared.from_digits(bits)), weights, RING)

    def _summed(self, shares: Elements, bits: int) -> Script[Bits]:
        """Return our XOR shares of the lowest digits of shared numbers, [digits, numbers]."""
        shared = self._shared.bits
        own = digits(shares, bits)
        inputs = {f"provider {site}": shared.share(site, own) for site in range(len(shared.parties))}
        return (yield from shared.evaluate_shares(_sum_circuit(len(shared.parties), bits), inputs, "sum"))


@lru_cache(maxsize=16)
def _sum_circuit(n_parties: int, bits: int) -> Circuit:
    build = Builder()
    build.output("sum", words.total(build, [build.input(f"provider {at}", bits) for at in range(n_parties)]))
    return build.build()
