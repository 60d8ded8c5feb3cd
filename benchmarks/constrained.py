"""Constrained k-anonymity: GreedyCKA beside unconstrained k-member clustering, as Figures 8 and 9 and Tables 1 and 2.

10,000 records of Adult, drawn at random, with 8 quasi-identifiers; k from 2 to 10. Constrained are the native country,
at the regions below Americas, Europe and Asia, and in the second run the age as well, at intervals of 20 years. The
paper's own hierarchies are lost but for their heights, which these have: education-num 4, marital-status 2, workclass,
occupation, race and sex 1. Its information loss is given as pictures, its times in hours; its tables are beside ours.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import _adult
import masquerade as mq
from _figures import Figure, Say, duration, tell
from masquerade.data import read_taxonomy

QID = ("education-num", "workclass", "marital-status", "occupation", "race", "sex", "age", "native-country")
N_RECORDS, SEED, KS = 10_000, 7, range(2, 11)
MOST_SECONDS = 10.0  # k = 10, with boundaries
# k = 2 … 10: violations of k-member clustering (Table 1), records that GreedyCKA suppresses (Table 2).
VIOLATIONS = {
    1: (605, 991, 1377, 1657, 1906, 2198, 2354, 2550, 2728),
    2: (2209, 3824, 5297, 6163, 6964, 7743, 8417, 8931, 9549),
}
SUPPRESSED = {1: (0,) * 9, 2: (5, 15, 24, 28, 48, 60, 81, 97, 106)}


@dataclass(frozen=True)
class Made:
    """A release's information loss, violations, suppressed records and seconds of the processor."""

    loss: float
    violations: int
    suppressed: int
    seconds: float


def run(say: Say, save: Path | None) -> dict[str, Any]:
    return {"figures": tell(say, list(figures(N_RECORDS, KS)))}


def figures(n_records: int, ks: Sequence[int]) -> Iterator[Figure]:
    chosen = np.sort(np.random.default_rng(SEED).permutation(_adult.adult().num_rows)[:n_records])
    records = _adult.adult().select(QID).take(chosen)
    for n_constrained, names in enumerate((("native-country",), ("native-country", "age")), start=1):
        table = mq.Table(records, schema(names))
        table.columns(QID)
        for k in ks:
            plain, within = _made(table, mq.KMember(), k), _made(table, mq.GreedyCka(), k)
            where = f"{' and '.join(names)}, k = {k}"
            at = k - KS[0]
            yield Figure(
                f"{where}: information loss",
                f"{within.loss:.0f}",
                f"k-member {plain.loss:.0f}",
                f"{within.loss / plain.loss:.2f}",
                "violations 0",
                within.violations == 0,
            )
            yield Figure(
                f"{where}: violations of k-member",
                str(plain.violations),
                f"paper {VIOLATIONS[n_constrained][at]}",
                f"{plain.violations / VIOLATIONS[n_constrained][at]:.2f}",
                "above 0",
                plain.violations > 0,
            )
            yield Figure(
                f"{where}: suppressed",
                str(within.suppressed),
                f"paper {SUPPRESSED[n_constrained][at]}",
                "",
                "exactly OUT",
                within.suppressed == _out(table, k),
            )
            last = k == KS[-1]
            yield Figure(
                f"{where}: seconds of the processor",
                duration(within.seconds),
                f"k-member {duration(plain.seconds)}",
                f"{within.seconds / plain.seconds:.2f}",
                f"at most {MOST_SECONDS:.0f} s" if last else "",
                within.seconds <= MOST_SECONDS if last else None,
            )


def schema(constrained: Sequence[str]) -> mq.Schema:
    """The attributes with the paper's heights; boundaries where they are constrained."""

    country = mq.Attribute("native-country", taxonomy=read_taxonomy(_adult.taxonomies() / "native-country.csv"))
    trees = {**_ATTRIBUTES, country.name: country}

    def attribute(name: str) -> mq.Attribute:
        bounded = trees.get(name, mq.Attribute(name, taxonomy="flat"))
        return replace(bounded, max_generalization=_BOUNDARIES[name]) if name in constrained else bounded

    return mq.Schema(map(attribute, QID))


def _numbers(name: str, values: Sequence[int], widths: Sequence[int]) -> mq.Taxonomy:
    """A tree over whole numbers, in intervals of these widths from the narrowest on."""
    level = {value: mq.Branch(str(value)) for value in values}
    for width in widths:
        above: dict[int, list[mq.Branch]] = {}
        for value, branch in level.items():
            above.setdefault(value // width * width, []).append(branch)
        level = {low: mq.Branch(f"[{low}, {low + width})", tuple(below)) for low, below in above.items()}
    return mq.Taxonomy(mq.Branch(f"any {name}", tuple(level.values())), name)


_MARRIED = ("Married-civ-spouse", "Married-AF-spouse", "Married-spouse-absent")
_SINGLE = ("Never-married", "Divorced", "Separated", "Widowed")
_BOUNDARIES = {
    "native-country": (
        *("North-America", "Central-America", "South-America", "Caribbean"),
        *("Western-Europe", "Southern-Europe", "Eastern-Europe"),
        *("Eastern-Asia", "South-eastern-Asia", "Other-Asia"),
    ),
    "age": tuple(f"[{low}, {low + 20})" for low in range(0, 100, 20)),
}
_ATTRIBUTES = {
    "education-num": mq.Attribute("education-num", "continuous", _numbers("education", range(1, 17), (2, 4, 8))),
    "age": mq.Attribute("age", "continuous", _numbers("age", range(100), (5, 10, 20))),
    "marital-status": mq.Attribute(
        "marital-status",
        taxonomy=mq.Taxonomy(
            mq.Branch(
                "any status",
                (
                    mq.Branch("married", tuple(map(mq.Branch, _MARRIED))),
                    mq.Branch("single", tuple(map(mq.Branch, _SINGLE))),
                ),
            )
        ),
    ),
}


def _made(table: mq.Table, method: mq.KMember, k: int) -> Made:
    """Make a release as it is published, verified, and measure it."""
    started = time.process_time()
    method.run_on_table(table, mq.KAnonymity(QID, k))
    seconds = time.process_time() - started
    release = mq.anonymize(table, mq.KAnonymity(QID, k), method)
    figures = release.metrics
    return Made(float(figures["information_loss"] or 0), int(figures["violations"] or 0), release.suppressed, seconds)


def _out(table: mq.Table, k: int) -> int:
    """OUT: the records whose values at their boundaries fewer than k share, counted by name."""
    bounded = [column for column in table.columns(QID) if column.boundary is not None]
    keys = list(zip(*(_at_boundary(column) for column in bounded), strict=True))
    sizes: dict[tuple[str, ...], int] = {}
    for key in keys:
        sizes[key] = sizes.get(key, 0) + 1
    return sum(size for size in sizes.values() if size < k)


def _at_boundary(column: Any) -> list[str]:
    lo, hi = column.most_general(np.arange(column.ranks.size))
    return [column.domain.label(int(first), int(end)) for first, end in zip(lo, hi, strict=True)]
