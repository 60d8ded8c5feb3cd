"""What the reader of a release is warned about, and what not."""

from __future__ import annotations

import pyarrow as pa
import pytest

import masquerade as mq
from masquerade.anonymize import cautions


def made(ages: list[int | None], k: int = 2, kind: str = "continuous") -> tuple[str, ...]:
    attribute = mq.Attribute("age", "continuous") if kind == "continuous" else mq.Attribute("age", taxonomy="flat")
    table = mq.Table(pa.table({"age": ages}), mq.Schema([attribute]))
    return cautions(mq.anonymize(table, mq.KAnonymity(["age"], k), mq.Mondrian()))


def test_a_good_release_has_none() -> None:
    assert made([1, 1, 2, 2, 3, 3]) == ()


def test_a_column_that_lost_nearly_everything() -> None:
    (line,) = made([1, 2, 3], k=3)
    assert line.startswith(
        "age lost 100% of its detail and keeps 0% of its information; another method, some suppression"
    )


@pytest.mark.usefixtures("few_queries")
def test_of_many_lost_columns_a_few_are_named() -> None:
    def lines(columns: int) -> tuple[str, ...]:
        names = [f"c{number}" for number in range(columns)]
        schema = mq.Schema([mq.Attribute(name, "continuous") for name in names])
        table = mq.Table(pa.table({name: [1, 2, 3] for name in names}), schema)
        return cautions(mq.anonymize(table, mq.KAnonymity(names, 3), mq.Mondrian()))

    assert [line.split()[0] for line in lines(6)] == [f"c{number}" for number in range(6)]
    *named, rest = lines(40)
    assert [line.split()[0] for line in named] == [f"c{number}" for number in range(5)]
    assert rest == "35 more columns lost 90% of their detail or more"


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


def at_providers(people: list[str | None], hospitals: list[str]) -> tuple[str, ...]:
    rows = {"age": [1] * len(people), "ssn": people, "hospital": hospitals}
    table = mq.Table(pa.table(rows), mq.Schema([mq.Attribute("age", "continuous")], identifiers=["ssn"]))
    requirement = mq.MPrivacy(0, mq.KAnonymity(["age"], 2), "hospital")
    release = mq.anonymize(table, requirement, mq.Mondrian())
    assert "ssn" not in release.table.column_names
    told = release.summary["people_at_several_providers"]
    assert [line.startswith(f"{told} p") for line in cautions(release)] == ([True] if told else [])
    return tuple(line for line in cautions(release) if "providers" in line)


def test_people_at_two_providers_are_counted() -> None:
    (line,) = at_providers(["a", "a", "b", "c", "c ", "c", "d", "d", None, ""], [*"xyxxyzxxxy"])
    assert line == (
        "2 people (by ssn) are at two or more providers; m-privacy takes the records of different providers for "
        "those of different people: leave all but one record of each out"
    )
    (line,) = at_providers(["a", "a", "b", "c"], [*"xyxx"])
    assert line.startswith("1 person (by ssn) is at two")
    assert at_providers(["a", "a", "b", None, "", "?"], [*"xxyxyz"]) == ()
