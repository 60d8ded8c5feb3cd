"""Which way to a joint histogram is the cheaper: a model of both, in seconds, from public figures alone.

Both parties come to the same choice. The model's constants are from one core of the machine of `docs/crypto.md`; what
matters is their ratio. With as many groups on either side as k-anonymity allows, transfers win by far, at n/k = 600
about 40 to 1; encryption comes ahead only where one party has few labels and the other tens of thousands.
"""

from __future__ import annotations

from typing import Literal

from masquerade.crypto.bits import Bits
from masquerade.net.script import Script
from masquerade.protocol.joint_histogram import Bounds, Labels, OnPhase, group_bits
from masquerade.protocol.joint_histogram_homomorphic import homomorphic_group_bits, slots_for
from masquerade.protocol.joint_histogram_pair import Pair

BackEnd = Literal["transfers", "encryption"]

_BLOCK = 6e-9  # stretching and adding one block of 16 bytes
_LEAF = 80e-9  # growing one leaf
_ENTRY = 15e-9  # one entry of a look-up table
_AND = 0.3e-6  # one AND, garbled and evaluated
_ENCRYPT, _MULTIPLY, _RETURN = 0.7e-3, 10e-6, 5e-3  # a ciphertext; _RETURN: re-randomised and decrypted


def expected_seconds(bounds: Bounds) -> dict[BackEnd, float]:
    """What either way would take, roughly."""
    n, (p, q) = bounds.records, bounds.labels
    rows, columns = (p, q) if bounds.picker == 0 else (q, p)
    lanes = 16 // bounds.word.itemsize
    look_up = n * (p + q) * _ENTRY
    per_slots, pieces = slots_for(bounds)
    cells = q * pieces * per_slots
    return {
        "transfers": n * (rows + 1) * (-(-columns // lanes) * _BLOCK + 2 * _LEAF)
        + look_up
        + n * bounds.width * _AND,
        "encryption": n * pieces * (_ENCRYPT + _MULTIPLY)
        + q * pieces * _RETURN
        + 2 * cells * bounds.width * _AND
        + look_up,
    }


def cheaper(bounds: Bounds) -> BackEnd:
    """The way that the model prefers."""
    seconds = expected_seconds(bounds)
    return "encryption" if seconds["encryption"] < seconds["transfers"] else "transfers"


def shared_tests(
    pair: Pair,
    labels: Labels,
    at_least: int,
    bounds: Bounds,
    on_phase: OnPhase | None = None,
    back_end: BackEnd | None = None,
) -> Script[Bits]:
    """This party's XOR share, for each record, of "its joint group has at least so many records", the cheaper way.

    `back_end` insists on one; both parties then do.
    """
    if (back_end or cheaper(bounds)) == "transfers":
        return (yield from group_bits(pair, labels, at_least, bounds, on_phase))
    if on_phase is not None:
        on_phase("counting by encryption")
    return (yield from homomorphic_group_bits(pair, labels, at_least, bounds))
