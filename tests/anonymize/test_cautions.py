"""What the reader of a release is warned about, and what not."""

from __future__ import annotations

import pyarrow as pa

import masquerade as mq
from masquerade.anonymize.cautions import cautions


def made(ages: list[int | None], k: int = 2, kind: str = "continuous") -> tuple[str, ...]:
    attribute = (
        mq.Attribute("age", "continuous") if kind == "continuous" else mq.Attribute("age", taxonomy="flat")
    )
    table = mq.Table(pa.table({"age": ages}), mq.Schema([attribute]))
    return cautions(mq.anonymize(table, mq.KAnonymity(["age"], k), mq.Mondrian()))


def test_a_good_release_has_none() -> None:
    assert made([1, 1, 2, 2, 3, 3]) == ()


def test_a_column_that_lost_nearly_everything() -> None:
    (line,) = made([1, 2, 3], k=3)
    assert line.startswith("age lost 100% of its detail; another method, some suppression")


def test_a_group_of_one_hides_nobody() -> None:
    (line,) = made([1, 2, 3], k=1)
    assert line == "k-anonymity (k = 1) over age: a group of one record hides nobody; use a k of 2 or more"


def test_half_of_the_rows_dropped() -> None:
    (line,) = made([1, 1, 2, 2, None, None, None, None])
    assert line.startswith("4 of 8 rows were dropped for missing cells")
    assert made([1, 1, 2, 2, None]) == ()


def test_numbers_as_names() -> None:
    (line,) = made([*range(30), *range(30)], kind="flat")
    assert line == 'age has a flat taxonomy of numbers; type = "continuous" would make intervals of them'
    assert made([*range(10), *range(10)], kind="flat") == ()
