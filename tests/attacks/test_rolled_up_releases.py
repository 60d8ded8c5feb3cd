"""The attack: intersect the groups of two releases of the same people.

Two releases made from one table for k = 20 and for k = 40 have groups that cross each other: who knows in which group
of either a person is knows that the person is in both, and they may have one record in common. A second release that
was rolled up from the first has no group to cross: its groups are unions of the first one's.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import pyarrow as pa
import pytest

import masquerade as mq
from masquerade.anonymize import TableMethod

QID = ("age", "salary", "job")
BOTH = (mq.Mondrian(), mq.TopDownSpecialization())


def people() -> mq.Table:
    """Some people, each with a number, so that the test can tell who is where."""
    rng = random.Random(11)
    n = 500
    columns = {
        "age": [rng.randint(18, 90) for _ in range(n)],
        "salary": [rng.randint(100, 999) for _ in range(n)],
        "job": [rng.choice(("baker", "lawyer", "mover", "nurse")) for _ in range(n)],
        "disease": [rng.choice(("flu", "cold", "measles")) for _ in range(n)],
        "record": [f"r{number}" for number in range(n)],
    }
    kinds = [mq.Attribute("age", "continuous"), mq.Attribute("salary", "continuous")]
    return mq.Table(pa.table(columns), mq.Schema([*kinds, mq.Attribute("job", taxonomy="flat")]))


def released(k: int, method: TableMethod) -> mq.Release:
    return mq.anonymize(people(), mq.KAnonymity(QID, k), method, sensitive=["disease", "record"])


def smallest_crowd(*releases: mq.Release) -> int:
    """Return among how few records somebody is hidden from who knows each person's group in every release."""
    places: dict[str, list[object]] = defaultdict(list)
    for release in releases:
        for row in release.table.to_pylist():
            places[row["record"]].append(tuple(row.get(name) for name in QID))
    return min(Counter(map(tuple, places.values())).values())


def test_a_second_run_on_the_table_breaks_the_first() -> None:
    """What is not done any more, and shows that the attack would find something."""
    first, second = released(20, mq.Mondrian()), released(40, mq.TopDownSpecialization())
    assert min(smallest_crowd(first), smallest_crowd(second)) >= 20
    assert smallest_crowd(first, second) == 1


@pytest.mark.parametrize("method", BOTH, ids=lambda method: method.name)
@pytest.mark.parametrize(
    "wanted",
    [
        {"requirement": mq.KAnonymity(QID, 40)},
        {"requirement": mq.KAnonymity(["age", "job"], 60), "columns": ["age", "job", "disease", "record"]},
        {"requirement": mq.KAnonymity(QID, 30) & mq.LDiversity(QID, 3, "disease")},
    ],
    ids=["a larger k", "fewer columns", "diversity as well"],
)
def test_first_release_and_roll_up_tell_what_the_first_tells(method: TableMethod, wanted: dict[str, object]) -> None:
    first = released(20, method)
    second = mq.roll_up(first, **wanted)  # type: ignore[arg-type]
    assert smallest_crowd(first, second) == smallest_crowd(first) >= 20
    assert mq.verify(second.table, wanted["requirement"])  # type: ignore[arg-type]
    third = mq.roll_up(first, mq.KAnonymity(["salary"], 90))  # two roll-ups of one release do not cross either
    assert smallest_crowd(first, second, third) == smallest_crowd(first)


def test_the_roll_up_is_a_function_of_the_first_release() -> None:
    """Cells and frequencies are the same whatever the table was: rows in another order, other raw values."""
    first = released(20, mq.Mondrian()).table
    mixed = first.take(pa.array(random.Random(5).sample(range(first.num_rows), first.num_rows)))
    one, two = (mq.roll_up(each, mq.KAnonymity(QID, 40)).table for each in (first, mixed))
    assert Counter(map(str, one.to_pylist())) == Counter(map(str, two.to_pylist()))
