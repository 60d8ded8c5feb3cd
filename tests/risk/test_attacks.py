"""Attacks on small releases whose answers are known, among them the papers' own examples."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import masquerade as mq
from examples import examples
from masquerade.risk import Finding
from masquerade.risk.attacks import ATTACKS, ewens, zayatz

QID = mq.KAnonymity(["age", "zip"], k=1)
AGES = mq.KAnonymity(["age"], k=1)
ZIPS = mq.Taxonomy(
    mq.Branch(
        "*****",
        tuple(
            mq.Branch(f"{prefix}**", tuple(mq.Branch(f"{prefix}{end}") for end in ends))
            for prefix, ends in (("987", ("45", "12", "01", "08")), ("123", ("67", "89", "99", "00", "37", "88")))
        ),
    )
)
SCHEMA = mq.Schema([mq.Attribute("age", "continuous"), mq.Attribute("zip", taxonomy=ZIPS)])

# Table I of the m-privacy paper: everybody, T_a* and T_b*.
PEOPLE = {
    "name": ["Alice", "Emily", "Sara", "Bob", "John", "Olga", "Frank", "Dorothy", "Mark", "Cecilia"],
    "age": [24, 22, 20, 35, 31, 32, 33, 38, 37, 39],
    "zip": ["98745", "98712", "12300", "12367", "12399", "12337", "12388", "98701", "12389", "98708"],
}
DISEASES = ["Cancer", "Asthma", "Epilepsy", "Asthma", "Flu", "Cancer", "Asthma", "Cancer", "Flu", "Flu"]
PROVIDERS = ["P1", "P1", "P3", "P1", "P2", "P4", "P4", "P2", "P2", "P3"]
T_A = {
    "age": ["[20, 31)"] * 3 + ["[31, 36)"] * 4 + ["[36, 41)"] * 3,
    "zip": ["*****"] * 10,
    "disease": DISEASES,
    "provider": PROVIDERS,
}
T_B = {
    "age": ["[20, 41)"] * 10,
    "zip": ["*****", "987**", "*****", "123**", "123**", "123**", "123**", "987**", "*****", "987**"],
    "disease": DISEASES,
    "provider": PROVIDERS,
}


def play(release: dict[str, list[str]], requirement: mq.Requirement = QID, **held: object) -> dict[str, Finding]:
    held = {"schema": SCHEMA, "sensitive": ["disease"], **held}
    return {each.name: each for each in mq.attack(pa.table(release), requirement, **held)}  # type: ignore[arg-type]


def people(*names: str) -> mq.Table:
    return mq.Table(pa.table(PEOPLE).select(list(names)), SCHEMA)


def test_the_subtraction_of_table_1() -> None:
    """P1 leaves out its own records of T_a*, and Sara is alone; in T_b* two others stay in every group."""
    found = play(T_A, original=people("age", "zip"))["subtraction"]
    assert found.value == 1
    assert found.meaning.startswith("P1 ")
    assert found.records[0] == PEOPLE["name"].index("Alice") + 1  # all of her group look alike
    assert set(found.records[:3]) == {1, 2, 3}
    assert play(T_B)["subtraction"].value == pytest.approx(1 / 2)


def test_who_is_found() -> None:
    found = play(T_A, original=people("age", "zip"))
    assert found["prosecutor"].value == pytest.approx(1 / 3)
    assert set(found["prosecutor"].records[:6]) == {1, 2, 3, 8, 9, 10}
    assert found["marketer"].value == pytest.approx(3 / 10)
    assert play(T_A)["prosecutor"].records == ()


def test_an_outside_table_is_linked_by_ranges() -> None:
    outside = mq.Table(pa.table({"age": [24, 33, 60, 20], "zip": ["98745", "12388", "98745", "12300"]}), SCHEMA)
    alone = {**T_A, "age": ["[20, 21)", *T_A["age"][1:]], "zip": ["123**", *T_A["zip"][1:]]}
    found = play(alone, outside=outside)
    # The first fits a group of two, the second one of four, the third none, the last one that and the group of two.
    assert found["linkage"].value == 0
    assert "3 with any" in found["linkage"].meaning
    one = mq.Table(pa.table({"age": [24, 60], "zip": ["98745", "98745"]}), SCHEMA)
    lonely = {name: cells[:1] + cells[3:] for name, cells in T_A.items()}
    linked = play(lonely, outside=one)["linkage"]
    assert (linked.value, linked.records) == (1, (1,))
    raw = play({**T_A, "age": [str(age) for age in PEOPLE["age"]]}, outside=people("age", "zip"))
    assert raw["linkage"].value == 10


def test_a_missing_cell_is_in_no_interval_and_below_every_root() -> None:
    release = {"age": ["[-inf, 30)", "?", "*"], "zip": ["*****", "98745", "*****"]}
    for age, zip_, fitting in (("-2", "98712", 2), ("?", "98745", 2), ("?", "98712", 1), ("", "?", 1)):
        outside = mq.Table(pa.table({"age": [age], "zip": [zip_]}), SCHEMA)
        found = play(release, outside=outside)["linkage"]
        assert f"right with probability {1 / fitting:.4g} " in found.meaning, (age, zip_)


def test_journalists_count_the_population() -> None:
    crowd = mq.Table(pa.table({"age": [25] * 6 + [33] * 8 + [38] * 12}), SCHEMA)
    found = play(T_A, outside=crowd)
    assert found["journalist"].value == pytest.approx(1 / 6)
    assert found["marketer"].value == pytest.approx((3 / 6 + 4 / 8 + 3 / 12) / 10)
    assert play(T_A)["journalist"].value == play(T_A)["prosecutor"].value


def test_sensitive_values() -> None:
    same = {**T_A, "disease": ["Flu"] * 3 + ["Flu", "Cold", "Cold", "Cold"] + ["Flu", "Cold", "Gout"]}
    found = play(same)
    assert found["homogeneity"].value == pytest.approx(0.3)
    assert found["background-knowledge"].value == pytest.approx(0.7)
    assert found["skewness"].value == pytest.approx(1 - 0.5)


def test_a_class_is_learned_as_a_sensitive_value_is() -> None:
    release = {**T_A, "approved": ["no"] * 3 + ["no", "yes", "yes", "yes"] + ["no", "yes", "no"]}
    found = mq.attack(pa.table(release), QID, schema=SCHEMA, target="approved")
    by_name = {each.name: each for each in found}
    assert by_name["homogeneity"].value == pytest.approx(0.3)
    assert by_name["skewness"].value == pytest.approx(1 - 6 / 10)
    assert {each.attribute for each in found if each.attribute is not None} == {"approved"}
    assert "background-knowledge" not in by_name  # ruling out one of two classes tells the other, always
    both = mq.attack(pa.table(release), QID, schema=SCHEMA, sensitive=["disease"], target="approved")
    for name in ("homogeneity", "skewness"):
        assert [each.attribute for each in both if each.name == name] == ["disease", "approved"]
    assert by_name["homogeneity"].summary()["attribute"] == "approved"
    twice = mq.attack(pa.table(release), QID, schema=SCHEMA, sensitive=["approved"], target="approved")
    assert [each.name for each in twice].count("homogeneity") == 1


def test_two_releases_together() -> None:
    first = {"age": ["[0, 30)", "[0, 30)", "[30, 60)", "[30, 60)"], "disease": ["Flu", "Cold", "Gout", "Cold"]}
    second = {"age": ["[0, 20)", "[20, 60)", "[20, 60)", "[20, 60)"], "disease": ["Flu", "Gout", "Cold", "Cold"]}
    original = mq.Table(pa.table({"age": [10, 25, 40, 50]}), SCHEMA)
    found = play(first, AGES, earlier=[pa.table(second)], original=original)
    # Who is 25 has Flu or Cold by the first and Gout or Cold by the second.
    assert (found["intersection"].value, found["intersection"].records) == (0.25, (2,))
    assert found["difference"].value == 1  # of the first group, the second has one record in [0, 20)
    assert play(first, AGES, earlier=[pa.table(second)])["intersection"].value == pytest.approx(0.5)
    again = play(first, AGES, earlier=[pa.table(first)], original=original)
    assert (again["intersection"].value, again["difference"].value) == (0, 0)


def test_three_releases_tell_what_no_two_do() -> None:
    """Who is in groups with A or B or C, A or B or D, A or C or D has A."""
    first, *tables = (
        {"age": ["[0, 9)"] * 3 + ["[9, 99)"], "disease": [*values]} for values in ("ABCD", "ABDC", "ACDB")
    )
    original = mq.Table(pa.table({"age": [1, 2, 3, 50]}), SCHEMA)
    for held, rows in (({"original": original}, (1, 2, 3)), ({}, ())):
        for n, expected in ((1, (0, ())), (2, (0.75, rows))):
            found = play(first, AGES, earlier=[*map(pa.table, tables[:n])], **held)["intersection"]
            assert (found.value, found.records) == expected


def test_a_difference_is_of_people_who_must_be_in_a_group() -> None:
    """Ages alone of an earlier release; groups of the same ages count together, and overlapping ones tell nothing."""
    groups = [("[0, 10)", "987**")] * 3 + [("[0, 10)", "123**")] * 4
    release = {"age": [age for age, _ in groups], "zip": [zip_ for _, zip_ in groups]}
    earlier = {"age": ["[0, 5)"] * 5 + ["[5, 10)"] * 2}
    assert play(release, earlier=[pa.table(earlier)])["difference"].value == 0
    assert play(release, earlier=[pa.table({"age": ["[0, 5)"] * 5 + ["[5, 15)"] * 2})])["difference"].value == 0
    fewer = {"age": ["[0, 5)"] * 5}
    assert play(release, earlier=[pa.table(fewer)])["difference"].value == pytest.approx(1 / 2)
    overlapping = {"age": ["[0, 10)"] * 6 + ["[4, 12)"], "zip": ["*****"] * 7}
    assert play(overlapping, earlier=[pa.table(fewer)])["difference"].value == 0


def test_of_many_providers_those_collude_who_learn_most() -> None:
    """100 over 5 are 75 million coalitions; the group of one each from five is told apart by four of them."""
    providers = [f"P{at}" for at in range(100)] + ["P95", "P96", "P97", "P98", "P99"]
    release = {"age": ["[0, 30)"] * 100 + ["[30, 60)"] * 5, "zip": ["*****"] * 105, "provider": providers}
    wrapped = mq.MPrivacy(5, mq.KAnonymity(["age", "zip"], k=1), "provider")
    found = play(release, wrapped, sensitive=[])
    assert found["subtraction"].value == 1
    assert found["subtraction"].meaning.startswith("P95 and P96 and P97 and P98 can")


def test_population_uniques_of_known_populations() -> None:
    random = np.random.default_rng(5)
    # Everybody of a population whose classes have 1 to 3 people.
    classes = np.repeat(np.arange(3000), random.integers(1, 4, 3000))
    assert ewens(100, 100, 1000) == 1
    assert ewens(1, 100, 1000) < 0.01
    whole = np.bincount(classes)
    assert zayatz(whole[whole > 0], 1.0) == 1  # everybody is in the sample
    half = np.bincount(random.choice(classes, classes.size // 2, replace=False))
    assert 0.2 < zayatz(half[half > 0], 0.5) < 1
    assert zayatz(np.array([2, 3]), 0.5) == 0


def test_a_population_is_given_found_or_assumed() -> None:
    unique = {**T_A, "age": [f"[{at}, {at + 1})" for at in range(10)]}
    for held, words in (
        ({"population": 500}, "among 500 people (given)"),
        ({"outside": mq.Table(pa.table({"age": list(range(50))}), SCHEMA)}, "50 people (the outside table)"),
        ({}, "1,000 people (assumed"),
    ):
        assert words in play(unique, **held)["population-uniqueness-zayatz"].meaning


def test_what_has_nothing_to_do_with_the_release() -> None:
    with pytest.raises(mq.DataError, match="the outside table has no attribute of the release's QIDs: age, zip"):
        play(T_A, outside=mq.Table(pa.table({"height": [1]})))
    with pytest.raises(mq.ParameterError, match="population must be at least 10, the records of the release"):
        play(T_A, population=9)
    with pytest.raises(mq.DataError, match='no column "zip"'):
        play({"age": T_A["age"]}, outside=people("zip"))


def test_every_attack_has_a_name_and_words() -> None:
    assert len({each.name for each in ATTACKS}) == len(ATTACKS)
    assert all(each.summary and each.summary[0] == each.summary[0].lower() for each in ATTACKS)


@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from("xyz")), min_size=4, max_size=20), st.integers(1, 3))
@settings(max_examples=examples(20))
def test_a_release_of_k_hides_its_own_people(rows: list[tuple[int, str]], k: int) -> None:
    """Whoever holds the original itself never has fewer than k records that fit, nor a higher chance than 1/k."""
    table = mq.Table(
        pa.table({"age": [age for age, _ in rows], "job": [job for _, job in rows]}),
        mq.Schema([mq.Attribute("age", "continuous"), mq.Attribute("job", taxonomy="flat")]),
    )
    requirement = mq.KAnonymity(["age", "job"], k=k)
    release = mq.anonymize(table, requirement, mq.Mondrian())
    found = {each.name: each for each in mq.attack(release.table, requirement, original=table, outside=table)}
    assert found["prosecutor"].value <= 1 / k
    assert found["journalist"].value <= 1 / k
    assert k == 1 or found["linkage"].value == 0
