"""What methods that count values have in common: a party's side of the counts, and how exact logarithms can be."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from masquerade.crypto import words
from masquerade.crypto.circuit import Builder, Circuit
from masquerade.crypto.logarithm import Precision
from masquerade.errors import ParameterError
from masquerade.net.script import Script
from masquerade.protocol.joint_histogram.pair import prepare_pair
from masquerade.protocol.learn.arithmetic import SIDES
from masquerade.protocol.learn.calculators import Calculator, ManySites, TwoParties
from masquerade.protocol.learn.counting import SharedCounts, SplitColumns, WholeRecords
from masquerade.protocol.learn.shared_numbers import prepare_shared_numbers
from masquerade.protocol.learn.site import Site

_RING_BITS = 64
_TERMS = (3, 2)  # as many as fit the ring


def calculator_of(site: Site, use: str) -> Script[Calculator]:
    """Set up what a party computes with: between two, or among several."""
    if len(site.parties) == 2:
        return TwoParties((yield from prepare_pair(site.me, site.parties, site.purpose(use))))
    return ManySites((yield from prepare_shared_numbers(site.me, site.parties, site.purpose(use))))


def shared_counts(site: Site, columns: Sequence[str]) -> SharedCounts:
    """Return a party's side of the counts over these columns."""
    sizes = {name: len(site.values[name]) for name in columns}
    codes = {name: site.codes(name) for name in columns if site.holds(name)}
    if site.arrangement == "horizontal":
        return WholeRecords(codes, sizes, site.count_bits)
    if not codes:  # it still has its place in every count
        codes = {"": np.zeros(len(site.table), np.int64)}
    holder = {name: site.holder(name) or 0 for name in columns}
    return SplitColumns(codes, sizes, site.count_bits, holder)


def precision_for(bits: int, terms: int | None) -> Precision:
    """Return the precision of logarithms of counts below 2^`bits`, with `terms`, or with 3, or 2 for many records.

    Wider than it need be, so that it is the same for all tables of fewer than 131,072 records, say.
    """
    for each in _TERMS if terms is None else (terms,):
        if bits <= (widest := _widest(each)):
            return Precision(widest, each)
    most = (1 << _widest(terms or _TERMS[-1])) - 1
    text = f"logarithms of {terms or _TERMS[-1]} terms are for at most {most:,} records, and there are more"
    raise ParameterError(text if terms in (None, 2) else f"terms: {text}; take fewer, or leave it unset")


def agreed_precision(site: Site, calculator: Calculator, terms: int | None) -> Script[Precision]:
    """Return the precision that one table of all records has.

    Where the parties' magnitudes leave it open, they open one bit: whether there are too many records for more terms.
    """
    least = site.most_bits
    for each in _TERMS if terms is None else (terms,):
        if least <= (widest := _widest(each)) < site.count_bits:
            shares = np.array([[len(site.table)]], np.uint64)
            found = yield from calculator.read(_reaches(site.count_bits, widest), shares, site.count_bits)
            return precision_for(widest + 1 if found["reaches"][0, 0] else widest, terms)
    return precision_for(least, terms)


@cache
def _reaches(bits: int, widest: int) -> Circuit:
    """Return the circuit that says whether a shared number reaches 2^`widest`."""
    build = Builder()
    one, other = (build.input(name, bits) for name in SIDES)
    build.output("reaches", [build.any_of(words.add(build, one, other)[widest:])])
    return build.build()


@cache
def _widest(terms: int) -> int:
    """Return how many bits counts may have for logarithms of `terms` terms."""
    return max(n for n in range(2, 30) if Precision(n, terms, narrow=True).needed_bits <= _RING_BITS)
