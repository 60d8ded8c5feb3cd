"""m-privacy by Definition 2.1: every strategy against every coalition and every subset of its records, one by one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import masquerade as mq
from examples import examples
from masquerade.data import Table
from masquerade.errors import ParameterError
from masquerade.privacy import GroupCheck, GroupRequirement, MPrivacy, constraint_of
from masquerade.privacy.m_privacy.constraint import Constraint
from masquerade.privacy.m_privacy.strategies import STRATEGIES, ProviderGroup
from privacy.definitions import QID, SENSITIVE, WRAPPED, leftovers, private, satisfied

VALUES = "abcd"
Records = list[tuple[str, str]]  # provider and sensitive value of each record of a group


def counted(records: Records) -> np.ndarray:
    """Providers × values."""
    providers = sorted({who for who, _ in records})
    counts = np.zeros((len(providers), len(VALUES)), np.int64)
    for who, value in records:
        counts[providers.index(who), VALUES.index(value)] += 1
    return counts


def constraints_of(parts: Sequence[GroupRequirement], table: list[str]) -> list[Constraint]:
    whole = np.array([[table.count(value) for value in VALUES]])
    return [
        constraint_of(part, whole, tuple(VALUES))
        if part.sensitive is not None
        else constraint_of(part, whole.sum(axis=1, keepdims=True), ())
        for part in parts
    ]


groups = st.lists(st.tuples(st.sampled_from("PQRST"), st.sampled_from(VALUES)), min_size=1, max_size=9)
others = st.lists(st.sampled_from(VALUES), max_size=8)
wrapped = st.lists(st.sampled_from(WRAPPED), min_size=1, max_size=3)


@given(groups, others, wrapped, st.integers(0, 5))
@settings(max_examples=examples(250), deadline=None)
def test_every_strategy_gives_the_definitions_verdict(
    records: Records, elsewhere: list[str], makes: list, m: int
) -> None:
    table = [value for _, value in records] + elsewhere + list(VALUES)
    parts = [make(QID) for make in makes]
    constraints = constraints_of(parts, table)
    counts = counted(records)
    expected = private(parts, records, table, m)
    providers = sorted({who for who, _ in records})
    for name in STRATEGIES:
        check = GroupCheck(m, constraints, [None] * len(parts), name)
        outcome = check.outcome(counts)
        assert outcome.private == expected, name
        assert check.holds(counts[None]).tolist() == [expected], name
        assert outcome.checks >= 1
        assert (outcome.coalition is None) == expected
        if outcome.coalition is not None:
            accused = tuple(providers[each] for each in outcome.coalition)
            assert len(accused) <= min(m, len(providers) - 1)
            found = [left for who, left in leftovers(records, m) if set(who) <= set(accused)]
            assert any(not satisfied(part, left, table) for left in found for part in parts), name


@given(st.lists(groups, min_size=1, max_size=6), wrapped, st.integers(0, 4))
@settings(max_examples=examples(200), deadline=None)
def test_many_groups_are_judged_as_each_alone(several: list[Records], makes: list, m: int) -> None:
    everybody = sorted({who for records in several for who, _ in records})
    counts = np.zeros((len(several), len(everybody), len(VALUES)), np.int64)
    for number, records in enumerate(several):
        for who, value in records:
            counts[number, everybody.index(who), VALUES.index(value)] += 1
    table = [value for records in several for _, value in records] + list(VALUES)
    parts = [make(QID) for make in makes]
    check = GroupCheck(m, constraints_of(parts, table), [None] * len(parts))
    assert check.holds(counts).tolist() == [private(parts, records, table, m) for records in several]
    assert check.holds(np.zeros_like(counts)).all()


@given(groups, st.sampled_from(WRAPPED), st.integers(1, 5))
@settings(max_examples=examples(150), deadline=None)
def test_more_colluders_never_breach_less(records: Records, make: object, m: int) -> None:
    """Observation 2.1, and how many colluders a group withstands."""
    table = [value for _, value in records] + list(VALUES)
    part = make(QID)  # type: ignore[operator]
    verdicts = [private([part], records, table, power) for power in range(m + 1)]
    assert verdicts == sorted(verdicts, reverse=True)
    check = GroupCheck(m, constraints_of([part], table), [None])
    assert check.withstands(counted(records)) == sum(verdicts) - 1


# --- tables ---

rows = st.tuples(st.sampled_from("xy"), st.sampled_from("mn"), st.sampled_from("PQR"), st.sampled_from(VALUES))


@given(
    st.lists(rows, min_size=1, max_size=14),
    st.lists(st.sampled_from(WRAPPED), min_size=1, max_size=2),
    st.integers(0, 3),
)
@settings(max_examples=examples(150), deadline=None)
def test_tables_by_the_definition(table: list, makes: list, m: int) -> None:
    table = [*table, *(("z", "m", "S", value) for value in VALUES)]
    age, job, provider, disease = (list(column) for column in zip(*table, strict=True))
    frame = pa.table({"age": age, "job": job, "hospital": provider, SENSITIVE: disease})
    requirement = mq.MPrivacy(m, mq_joined([make(QID[: 1 + at % 2]) for at, make in enumerate(makes)]), "hospital")
    for verdict in mq.verify(frame, requirement).verdicts:
        part = verdict.requirement
        members = part.wrapped or (part,)
        colluding = m if part.wrapped else 0  # what is wrapped is told too, as it is against outsiders
        cells: dict[tuple, Records] = {}
        for row in table:
            cells.setdefault(row[: len(part.qid)], []).append((row[2], row[3]))
        good = [private(members, group, disease, colluding) for group in cells.values()]
        assert verdict.holds == all(good)
        if not verdict.holds:
            first = next(each for each, fine in zip(cells, good, strict=True) if not fine)
            assert verdict.group == dict(zip(part.qid, first, strict=True))


def mq_joined(parts: list[GroupRequirement]) -> mq.Requirement:
    joined: mq.Requirement = parts[0]
    for part in parts[1:]:
        joined = joined & part
    return joined


FRAME = pa.table(
    {
        "age": ["young"] * 4 + ["old"] * 4,
        "hospital": ["north", "north", "south", "south", "west", "west", "west", "west"],
        "disease": ["Flu", "HIV", "Flu", "HIV", "Flu", "HIV", "Flu", "Asthma"],
        "job": ["Clerk", "Clerk", "Nurse", "Nurse", "Clerk", "Nurse", "Nurse", "Clerk"],
    }
)
BOTH = mq.KAnonymity("age", 3) & mq.LDiversity("age", 2, "disease")


def test_who_breaches_is_named() -> None:
    found = mq.verify(FRAME, mq.MPrivacy(1, BOTH, "hospital"))
    assert not found.holds
    verdict, size, values = found.verdicts
    assert verdict.value == 0
    assert (size.holds, size.value, values.holds, values.value) == (True, 4, True, 2)  # against outsiders
    assert verdict.violation == (
        "table: m-privacy (m = 1, provider = hospital) of k-anonymity (k = 3), "
        "l-diversity (l = 2, sensitive = disease) over age does not hold: "
        "group (age = young) without the records of hospital north has 2 records; "
        "at least 3 are required"
    )


def test_a_group_of_one_provider_needs_no_more_than_the_requirement() -> None:
    west = FRAME.slice(4)
    assert mq.verify(west, mq.MPrivacy(3, BOTH, "hospital")).holds
    alone = mq.verify(west, mq.MPrivacy(3, mq.KAnonymity("age", 5), "hospital"))
    assert alone.verdicts[0].value == -1
    assert "group (age = old) has 4 records; at least 5 are required" in str(alone.verdicts[0].violation)


def test_each_group_with_its_coalition_and_checks() -> None:
    groups = mq.verify_m_privacy(FRAME, mq.MPrivacy(1, BOTH, "hospital"), "direct")
    assert [(each.group, each.providers, each.size, each.private, each.coalition, each.checks) for each in groups] == [
        ({"age": "young"}, ("north", "south"), 4, False, ("north",), 1),
        ({"age": "old"}, ("west",), 4, True, None, 1),
    ]
    exact = mq.verify_m_privacy(FRAME, mq.MPrivacy(1, mq.KAnonymity("age", 2), "hospital"))
    assert [each.private for each in exact] == [True, True]


def test_alpha_and_the_threshold_of_adaptive_decide_how_it_searches() -> None:
    """Six hospitals, each with 8 records and all four diseases; k = 24. A fitness of 0.7 · 8/24 + 0.3 · 4/4 = 0.533."""
    frame = pa.table(
        {
            "age": ["old"] * 48,
            "hospital": [f"h{at // 8}" for at in range(48)],
            "disease": [VALUES[at % 4] for at in range(48)],
        }
    )
    both = mq.KAnonymity("age", 24) & mq.LDiversity("age", 4, "disease")
    requirement = mq.MPrivacy(3, both, "hospital", "adaptive")

    def checks(verification: str | None = None, **chosen: float) -> int:
        (group,) = mq.verify_m_privacy(frame, requirement, verification, **chosen)
        assert group.private
        return group.checks

    by_halves, top_down = checks("binary"), checks("top-down")
    assert by_halves != top_down
    assert checks() == checks(threshold=0.54) == by_halves
    assert checks(threshold=0.53) == top_down
    assert checks(alpha=0.9) == top_down  # 0.1·8/24 + 0.9 = 0.93
    with pytest.raises(
        ParameterError, match="The alpha parameter of verify_m_privacy must be a number of at least 0 and at most 1"
    ):
        checks(alpha=1.1)
    with pytest.raises(
        ParameterError, match="The threshold parameter of verify_m_privacy must be a finite number of at least 0"
    ):
        checks(threshold=-0.1)
    with pytest.raises(ParameterError, match='must be "adaptive" where alpha or threshold is given'):
        checks("binary", alpha=0.5)


def test_several_sensitive_attributes_are_one() -> None:
    """Without north the young have two diseases, and one job: two combinations of both."""
    by_job = mq.LDiversity("age", 2, "job")
    by_both = mq.LDiversity("age", 2, ["disease", "job"])
    assert by_both.sensitive == "disease × job"
    assert not mq.verify(FRAME, mq.MPrivacy(1, by_job, "hospital"))
    assert mq.verify(FRAME, mq.MPrivacy(1, by_both, "hospital"))
    assert mq.verify(FRAME, by_both)
    assert not mq.verify(FRAME, mq.MPrivacy(1, by_both & by_job, "hospital"))
    assert not mq.verify(FRAME, mq.LDiversity("age", 5, ["disease", "job"]))


def test_listed_values_must_be_the_tables() -> None:
    listed = mq.ConfidenceBounding("age", 0.9, "disease", ["Fluu"])
    with pytest.raises(ParameterError, match='Got "Fluu" instead \\(did you mean "Flu"'):
        mq.verify(FRAME, mq.MPrivacy(1, listed, "hospital"))


def test_a_table_without_records() -> None:
    assert mq.verify(FRAME.slice(0, 0), mq.MPrivacy(2, BOTH, "hospital")).holds


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: MPrivacy(-1, BOTH, "h"), "The m parameter of MPrivacy must be a whole number of at least 0. Got -1"),
        (
            lambda: MPrivacy(2**63, BOTH, "h"),
            "The m parameter of MPrivacy must be a whole number of at most 9007199254740991. Got 9223372036854775808",
        ),
        (lambda: MPrivacy(1, 3, "h"), "The requirement parameter of MPrivacy must be a requirement such as"),  # type: ignore[arg-type]
        (lambda: MPrivacy(1, BOTH, "disease"), "The provider parameter of MPrivacy must be the name of a column"),
        (lambda: MPrivacy(1, BOTH, ""), "The provider parameter of MPrivacy must be the name of a column"),
        (lambda: MPrivacy(1, MPrivacy(1, BOTH, "h"), "g"), "must be made of k-anonymity, l-diversity"),
        (lambda: MPrivacy(1, BOTH, "h", "topdown"), "got 'topdown' (did you mean \"top-down\"?)"),
    ],
)
def test_wrong_parameters(make: object, sentence: str) -> None:
    with pytest.raises(ParameterError) as caught:
        make()  # type: ignore[operator]
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_covers_what() -> None:
    wide, narrow = mq.KAnonymity(QID, 3), mq.KAnonymity(QID[0], 2)
    (strict,), (loose,) = MPrivacy(2, wide, "h").parts, MPrivacy(1, narrow, "h").parts
    assert strict.covers(loose)
    assert not loose.covers(strict)
    assert strict.covers(narrow)  # nobody has to be an insider
    assert not narrow.covers(strict)
    assert not strict.covers(MPrivacy(1, narrow, "g").parts[0])
    # With shares, a part that a coalition spans may be kept in part, and bring the union down.
    (shares,), (fewer,) = (MPrivacy(2, mq.ConfidenceBounding(qid, 0.5, "d"), "h").parts for qid in (QID, QID[0]))
    assert not shares.covers(fewer)


def test_specialization_makes_m_private_releases() -> None:
    """m-privacy is a requirement like any other; the provider is not released unless it is asked for."""
    random = np.random.default_rng(3)
    frame = pa.table(
        {
            "age": random.integers(0, 64, 300),
            "hospital": random.choice(["north", "south", "west"], 300),
            "disease": random.choice(["Asthma", "Flu", "HIV"], 300),
        }
    )
    requirement = mq.MPrivacy(2, mq.KAnonymity("age", 4) & mq.LDiversity("age", 2, "disease"), "hospital")
    table = Table(frame, mq.Schema([mq.Attribute("age", "continuous")]))
    release = mq.anonymize(table, requirement, sensitive=["hospital"])
    assert len(release.group_sizes) > 3
    assert mq.verify(release.table, requirement).holds
    assert mq.anonymize(table, requirement).table.column_names == ["age", "disease"]


def test_groups_without_a_provider_are_left_out() -> None:
    constraint = constraint_of(mq.KAnonymity(QID, 2), np.array([[9]]), ())
    group = ProviderGroup([constraint], [np.array([[0], [3], [0], [2]])])
    assert group.providers.tolist() == [1, 3]
    assert (group.n, group.power(5), group.power(0)) == (2, 1, 0)
