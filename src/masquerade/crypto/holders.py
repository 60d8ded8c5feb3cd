"""Which parties hold a share of each wire, when several evaluate a circuit together.

An input that one party knows need not be shared with the others: its owner holds it, and everybody else's share is 0. A
wire is then held by those whose inputs it depends on. That is what an AND costs: one product for each party that holds
the left operand and each other party that holds the right one. Comparing two parties' numbers concerns these two alone,
however many take part.

Parties are sets of bits: party p is bit p.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto.circuit import Circuit, Gates
from masquerade.errors import ParameterError

Parties = NDArray[np.uint64]  # one set of parties per gate or wire
Places = NDArray[np.intp]

MOST_PARTIES = 64


class Duties(NamedTuple):
    """What one of the holders must do in a layer: invert operands, left ones, then right ones; add d ∧ e."""

    inverts: NDArray[np.bool_]
    adds: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class HeldCircuit:
    """A circuit with the holders of its wires; `left` and `right` are those of its ANDs' operands, layer by layer."""

    circuit: Circuit
    n_parties: int
    wires: Parties
    left: tuple[Parties, ...]
    right: tuple[Parties, ...]

    @cached_property
    def most_products(self) -> int:
        """How many products an instance takes of the two parties that have most of them."""
        left, right = (np.concatenate([np.zeros(0, np.uint64), *each]) for each in (self.left, self.right))
        holds = [(held_by(each, left), held_by(each, right)) for each in range(self.n_parties)]
        return max(int((a & d).sum() + (b & c).sum()) for (a, b), (c, d) in combinations(holds, 2))

    def opened_by(self, party: int) -> list[Places]:
        """Return the operands that a party opens of each layer, left ones, then right ones; found once."""
        if party not in self._opened:
            self._opened[party] = [np.flatnonzero(held_by(party, each)) for each in self._operands]
        return self._opened[party]

    def products_of(self, party: int, peer: int) -> tuple[Places, Places]:
        """Return the ANDs whose left operand a party holds and whose right one a peer, and the reverse; found once."""
        if (party, peer) not in self._products:
            left, right = (
                np.concatenate([np.zeros(0, np.uint64), *each]) for each in (self.left, self.right)
            )
            self._products[party, peer] = (
                np.flatnonzero(held_by(party, left) & held_by(peer, right)),
                np.flatnonzero(held_by(party, right) & held_by(peer, left)),
            )
        return self._products[party, peer]

    def duties_of(self, party: int) -> list[Duties]:
        """Return what a party, as the first of some holders, does alone in each layer; found once."""
        if party not in self._duties:
            found = []
            for layer, holders in zip(self.circuit.layers, self._operands, strict=True):
                ands = layer.ands
                inverted = np.concatenate((ands.left_inverted, ands.right_inverted))
                either = holders[: len(ands)] | holders[len(ands) :]
                found.append(Duties(is_first(party, holders) & inverted, is_first(party, either)))
            self._duties[party] = found
        return self._duties[party]

    @cached_property
    def _operands(self) -> list[Parties]:
        return [np.concatenate(pair) for pair in zip(self.left, self.right, strict=True)]

    @cached_property
    def _opened(self) -> dict[int, list[Places]]:
        return {}

    @cached_property
    def _products(self) -> dict[tuple[int, int], tuple[Places, Places]]:
        return {}

    @cached_property
    def _duties(self) -> dict[int, list[Duties]]:
        return {}


def hold(circuit: Circuit, n_parties: int, owners: Mapping[str, int] | None = None) -> HeldCircuit:
    """Find the holders of all wires, given the owner of each input that one party alone knows.

    All parties hold the other inputs.
    """
    if not 2 <= n_parties <= MOST_PARTIES:
        raise ParameterError(
            f"between 2 and {MOST_PARTIES} parties share a circuit. Got {n_parties} instead."
        )
    everybody = (1 << n_parties) - 1
    wires: Parties = np.zeros(circuit.n_wires, np.uint64)
    for name, place in circuit.inputs.items():
        wires[place] = 1 << owners[name] if owners is not None and name in owners else everybody
    left, right = [], []

    def combine(xors: Iterable[Gates]) -> None:
        for gates in xors:
            wires[gates.outputs] = wires[gates.left] | wires[gates.right]

    for layer in circuit.layers:
        combine(layer.xors)
        left.append(wires[layer.ands.left])
        right.append(wires[layer.ands.right])
        wires[layer.ands.outputs] = left[-1] | right[-1]
    combine(circuit.last_xors)
    return HeldCircuit(circuit, n_parties, wires, tuple(left), tuple(right))


def held_by(party: int, holders: Parties) -> NDArray[np.bool_]:
    """Return where a party is among the holders."""
    return (holders >> np.uint64(party) & np.uint64(1)).astype(bool)


def is_first(party: int, holders: Parties) -> NDArray[np.bool_]:
    """Return where a party is the first of the holders, who does what one of them must; party 0 where nobody is."""
    first = holders & (~holders + np.uint64(1))
    is_it: NDArray[np.bool_] = first == np.uint64(1 << party)
    return is_it if party else is_it | (holders == 0)
