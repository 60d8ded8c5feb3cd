"""Top-down specialization as the notes define it, record by record: slow, and written apart from the real one.

A value is a `Branch` of a taxonomy, or an interval `(lo, hi)`; records are dictionaries. Nothing here knows of ranks,
prefix counts, partitions or laziness.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from masquerade import Branch

Record = dict[str, Any]
Value = Any
Valid = Callable[[list[Record]], bool]


def leaves(branch: Branch) -> list[str]:
    return [leaf for child in branch.children for leaf in leaves(child)] if branch.children else [branch.name]


def carries(raw: Any, value: Value) -> bool:
    return raw in leaves(value) if isinstance(value, Branch) else value[0] <= raw < value[1]


def entropy(labels: Sequence[Any]) -> float:
    return -sum(n / len(labels) * math.log2(n / len(labels)) for n in Counter(labels).values()) if labels else 0.0


def fixed(x: float | Fraction) -> int:
    return round(x * 2**32)


def info_gain(parts: list[list[Any]]) -> float:
    whole = [label for part in parts for label in part]
    return entropy(whole) - sum(len(part) / len(whole) * entropy(part) for part in parts)


def told_apart(parts: list[list[Any]]) -> int:
    return sum(map(len, parts)) ** 2 - sum(len(part) ** 2 for part in parts)


def penalty(value: Value, top: Value, numbers: Sequence[float]) -> Fraction:
    """The normalised certainty penalty of a value; `numbers` are those of the data, for an interval."""
    if isinstance(value, Branch):
        n = len(leaves(value))
        return Fraction(0) if n == 1 else Fraction(n, len(leaves(top)))
    smallest, largest = Fraction(min(numbers)), Fraction(max(numbers))
    if smallest == largest:
        return Fraction(0)
    lo, hi = (smallest if end == -math.inf else largest if end == math.inf else Fraction(end) for end in value)
    return (hi - lo) / (largest - smallest)


def shown_penalty(value: Value, top: Value, numbers: Sequence[float]) -> Fraction:
    """The penalty that a report may show: of an interval, its share of the distinct numbers."""
    if isinstance(value, Branch):
        return penalty(value, top, numbers)
    n = sum(value[0] <= number < value[1] for number in set(numbers))
    return Fraction(0) if n == 1 else Fraction(n, len(set(numbers)))


CLASS_FREE = ("discernibility", "certainty")


def collapse(branch: Branch) -> Branch:
    while len(branch.children) == 1:
        branch = branch.children[0]
    return Branch(branch.name, tuple(collapse(child) for child in branch.children))


def specialise(
    records: list[Record],
    tops: dict[str, Value],
    qids: list[tuple[Sequence[str], Valid]],
    target: str | None,
    score: str,
    may_suppress: int = 0,
) -> tuple[list[tuple[str, Value, list[Value], int]], dict[str, list[Value]]]:
    """The steps (attribute, value, children, fixed score as shown) and the final cut. `tops` is in schema order.

    A specialization is valid while no more than `may_suppress` records are in groups that are not.
    """
    collapsed = {name: collapse(top) if isinstance(top, Branch) else top for name, top in tops.items()}
    cut = {name: [top] for name, top in collapsed.items()}
    steps = []

    def carriers(name: str, value: Value) -> list[Record]:
        return [record for record in records if carries(record[name], value)]

    def labels(rows: list[Record]) -> list[Any]:
        return [record[target] if target is not None else 0 for record in rows]

    def saved(name: str, value: Value, children: list[Value], of: Any = penalty) -> int:
        numbers = [record[name] for record in records]

        def cost(each: Value) -> int:
            return len(carriers(name, each)) * fixed(of(each, collapsed[name], numbers))

        return cost(value) - sum(map(cost, children))

    def split(name: str, value: Value) -> list[Value]:
        if isinstance(value, Branch):
            return list(value.children)
        inside = sorted({record[name] for record in carriers(name, value)})
        ways = [[(value[0], s), (s, value[1])] for s in inside[1:]]
        if not ways:
            return []

        def gain(way: list[Value]) -> int:
            if score == "certainty":
                return saved(name, value, way)
            parts = [labels(carriers(name, part)) for part in way]
            return told_apart(parts) if score == "discernibility" else fixed(info_gain(parts))

        return max(ways, key=gain)  # the first of equals: the smallest s

    def groups(attributes: Sequence[str], cut: dict[str, list[Value]]) -> list[list[Record]]:
        found: dict[tuple[int, ...], list[Record]] = {}
        for record in records:
            key = tuple(
                next(i for i, value in enumerate(cut[name]) if carries(record[name], value)) for name in attributes
            )
            found.setdefault(key, []).append(record)
        return list(found.values())

    def violators(attributes: Sequence[str], valid: Valid, cut: dict[str, list[Value]]) -> int:
        return sum(len(group) for group in groups(attributes, cut) if not valid(group))

    while True:
        best = None
        for position, name in enumerate(tops):
            for value in cut[name]:
                children = split(name, value)
                rows = carriers(name, value)
                parts = [labels(carriers(name, child)) for child in children]
                if not children or not rows:
                    continue
                if score in CLASS_FREE:
                    if sum(1 for part in parts if part) < 2:
                        continue
                elif len(set(labels(rows))) < 2:
                    continue
                after = dict(cut)
                at = cut[name].index(value)
                after[name] = cut[name][:at] + children + cut[name][at + 1 :]
                touched = [(attributes, valid) for attributes, valid in qids if name in attributes]
                if any(violators(*each, after) > may_suppress for each in touched):
                    continue
                if score == "discernibility":
                    rating = told_apart(parts) * 2**32
                elif score == "certainty":
                    rating = saved(name, value, children)
                    newly = sum(violators(*each, after) - violators(*each, cut) for each in touched)
                    if rating < newly * len(tops) * 2**32:  # more is lost with them than is won
                        continue
                elif score == "info-gain":
                    rating = fixed(info_gain(parts))
                elif score == "gain-ratio":
                    spread = entropy([i for i, part in enumerate(parts) for _ in part])
                    rating = fixed(info_gain(parts) / spread if spread else info_gain(parts))
                else:
                    losses = [
                        min(map(len, groups(attributes, cut))) - min(map(len, groups(attributes, after)))
                        for attributes, _ in touched
                    ]
                    rating = fixed(info_gain(parts) / (sum(losses) / len(losses) + 1))
                candidate = (-rating, position, at)
                if best is None or candidate < best[0]:
                    best = (candidate, name, value, children, rating, after)
        if best is None:
            return steps, cut
        _, name, value, children, rating, cut = best
        shown = saved(name, value, children, shown_penalty) if score == "certainty" else rating
        steps.append((name, value, children, shown))
