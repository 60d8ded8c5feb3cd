"""Mondrian against a plain Python one, on every kind of attribute; what its groups are, and what it refuses."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import assume, given, settings, strategies as st

import masquerade as mq
from adult import TRAINING_ROWS, adult
from anonymize.outcomes import cells_of
from anonymize.reference_mondrian import Group, Plain, is_m_private
from examples import examples
from masquerade.anonymize import Merge, TableMethod
from masquerade.anonymize.mondrian import axes, partition
from masquerade.anonymize.mondrian.cuts import CutGroups
from masquerade.data import Outcome, generate_people
from masquerade.errors import Bug, RequirementUnreachable
from masquerade.privacy import Requirement
from masquerade.utility.classification import Classification
from strategies import CLASS, SENSITIVE, column, tables

pytestmark = pytest.mark.usefixtures("few_queries")

PREFERENCES = st.sampled_from(["certainty", "widest"])
WITH_CLASS = st.sampled_from(["certainty", "widest", "class-first", "information-gain"])
PROVIDER = "hospital"


def diverse(table: mq.Table, group: Group, k: int, l: int) -> bool:  # noqa: E741 # the papers' name
    values = table.arrow[SENSITIVE].to_pylist()
    return len(group) >= k and len({values[record] for record in group}) >= l


def with_providers(table: mq.Table, providers: list[str]) -> mq.Table:
    return mq.Table(table.arrow.append_column(PROVIDER, pa.array(providers, pa.string())), table.schema)


@settings(max_examples=examples(150), deadline=None)
@given(
    tables(min_rows=2, max_rows=40),
    st.integers(1, 6),
    st.integers(1, 3),
    WITH_CLASS,
    st.booleans(),
    st.sampled_from([None, "small"]),
)
def test_the_release_of_a_plain_mondrian(
    table: mq.Table,
    k: int,
    l: int,  # noqa: E741 # as above
    choose: str,
    strict: bool,
    merge: Merge | None,
) -> None:
    names = table.schema.names
    requirement = mq.KAnonymity(names, k) & mq.LDiversity(names, l, SENSITIVE)
    everybody = list(range(len(table)))
    assume(diverse(table, everybody, k, l))
    found = mq.Mondrian(CLASS, choose, strict, merge=merge).run_on_table(table, requirement)
    plain = Plain(table.columns(names), lambda group: diverse(table, group, k, l), choose, strict)
    plain.classes, plain.least = table.arrow[CLASS].to_pylist(), max(k, l)
    if merge == "small":
        plain.large = lambda group: len(group) >= max(k, l)
    assert cells_of(found) == plain.release()


TALLIED = {"never": 0, "while it pays": 1, "always": 1 << 30}  # cells of a tally for each value in its batch


@pytest.mark.parametrize("cells_per_value", TALLIED.values(), ids=TALLIED)
@settings(max_examples=examples(80), deadline=None)
@given(table=tables(min_rows=2, max_rows=60), k=st.integers(1, 6), choose=PREFERENCES, strict=st.booleans())
def test_counts_and_records_cut_alike(cells_per_value: int, table: mq.Table, k: int, choose: str, strict: bool) -> None:
    """k-anonymity alone is judged from counts along taxonomies, where that is less work than the records are."""
    assume(len(table) >= k)
    names = table.schema.names
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(axes, "_CELLS_PER_VALUE", cells_per_value)
        patch.setattr(axes, "_ROWS_AT_A_TIME", 7)
        found = mq.Mondrian(choose=choose, strict=strict).run_on_table(table, mq.KAnonymity(names, k))  # type: ignore[arg-type] # one of them
    plain = Plain(table.columns(names), lambda group: len(group) >= k, choose, strict)
    assert cells_of(found) == plain.release()


@pytest.mark.parametrize("k", [1, 5, 50])
@pytest.mark.parametrize("choose", ["certainty", "widest"])
def test_counts_and_records_cut_adult_alike(k: int, choose: str) -> None:
    """Groups of thousands of records, and all the ways in which parts are left over."""
    qid = ("age", "workclass", "education", "marital-status", "occupation", "race", "sex")
    table = mq.Table(adult().arrow.slice(0, 12_000), adult().schema).complete(qid)
    releases = []
    for cells_per_value in TALLIED.values():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(axes, "_CELLS_PER_VALUE", cells_per_value)
            algorithm = mq.Mondrian(choose=choose)  # type: ignore[arg-type] # one of them
            outcome = algorithm.run_on_table(table, mq.KAnonymity(qid, k))
            releases.append([column.to_arrow() for column in outcome.columns])
    assert releases[0] == releases[1] == releases[2]


@settings(max_examples=examples(60), deadline=None)
@given(tables(min_rows=4, max_rows=40), st.integers(1, 4), PREFERENCES)
def test_halved_batches_change_nothing(table: mq.Table, k: int, choose: str) -> None:
    assume(len(table) >= k)
    algorithm = mq.Mondrian(choose=choose)  # type: ignore[arg-type] # one of them
    whole = algorithm.run_on_table(table, mq.KAnonymity(table.schema.names, k))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition, "_ROWS_AT_A_TIME", 3)
        halved = algorithm.run_on_table(table, mq.KAnonymity(table.schema.names, k))
    assert cells_of(whole) == cells_of(halved)


@settings(max_examples=examples(100), deadline=None)
@given(tables(min_rows=2, max_rows=40), st.integers(1, 5), PREFERENCES, st.booleans())
def test_equal_records_are_in_one_group_and_strict_cells_do_not_overlap(
    table: mq.Table, k: int, choose: str, strict: bool
) -> None:
    assume(len(table) >= k)
    names = table.schema.names
    found = cells_of(mq.Mondrian(choose=choose, strict=strict).run_on_table(table, mq.KAnonymity(names, k)))  # type: ignore[arg-type] # as above
    cells = defaultdict(set)
    for record, released in zip(zip(*(c.ranks for c in table.columns(names)), strict=True), found, strict=True):
        cells[record].add(released)
        assert all(lo <= rank < hi for rank, (lo, hi) in zip(record, released, strict=True))
    assert all(len(each) == 1 for each in cells.values())
    for one, other in combinations(set(found), 2) if strict else ():
        apart = (a[1] <= b[0] or b[1] <= a[0] for a, b in zip(one, other, strict=True))
        assert any(apart), f"{one} and {other} share a combination of values"


PROVIDERS = column("ABCDE", 40)


@settings(max_examples=examples(120), deadline=None)
@given(tables(min_rows=4, max_rows=40), PROVIDERS, st.integers(0, 4), st.integers(1, 4), st.integers(1, 2))
def test_the_release_of_a_plain_provider_aware_mondrian(
    table: mq.Table,
    providers: list[str],
    m: int,
    k: int,
    l: int,  # noqa: E741 # the papers' name
) -> None:
    providers = providers[: len(table)]
    table = with_providers(table, providers)
    names = table.schema.names
    inner = mq.KAnonymity(names, k) & mq.LDiversity(names, l, SENSITIVE)
    requirement = mq.MPrivacy(m, inner, PROVIDER)

    def satisfies(group: Group) -> bool:
        return is_m_private(group, providers, m, lambda rest: diverse(table, rest, k, l))

    assume(satisfies(list(range(len(table)))))
    values = table.arrow[SENSITIVE].to_pylist()

    def fitness(group: Group) -> float:
        return 0.2 * len(group) / k + 0.8 * len({values[record] for record in group}) / l

    for choose in ("certainty", "fitness"):
        found = mq.ProviderAwareMondrian(choose=choose).run_on_table(table, requirement)  # type: ignore[arg-type] # one of them
        plain = Plain(table.columns(names), satisfies, choose, providers=providers, m=m, fitness=fitness).release()
        assert cells_of(found) == plain


AGAINST_PROVIDERS: list[TableMethod] = [
    mq.Mondrian(),
    mq.Mondrian(choose="widest", strict=True),
    mq.ProviderAwareMondrian(),
    mq.ProviderAwareMondrian(choose="fitness", strict=True),
]


@pytest.mark.parametrize("algorithm", AGAINST_PROVIDERS, ids=lambda each: str(each.settings()))
@settings(max_examples=examples(40), deadline=None)
@given(tables(min_rows=4, max_rows=40), PROVIDERS, st.integers(0, 4), st.integers(1, 4))
def test_every_group_is_m_private(
    algorithm: TableMethod, table: mq.Table, providers: list[str], m: int, k: int
) -> None:
    """By counting all coalitions on the released cells, whose groups may be unions of those that were cut."""
    table = with_providers(table, providers[: len(table)])
    names = table.schema.names
    inner = mq.KAnonymity(names, k) & mq.LDiversity(names, 2, SENSITIVE)

    def private(group: Group) -> bool:
        return is_m_private(group, providers, m, lambda rest: diverse(table, rest, k, 2))

    assume(private(list(range(len(table)))))
    release = mq.anonymize(table, mq.MPrivacy(m, inner, PROVIDER), algorithm, order="input")
    assert PROVIDER not in release.table.column_names, "the provider is not released"
    groups = defaultdict(list)
    for row, record in enumerate(release.table.select(names).to_pylist()):
        groups[tuple(record.values())].append(row)
    assert all(private(group) for group in groups.values())
    fed = Counter(len({providers[row] for row in group}) for group in groups.values())
    assert release.summary["groups_by_providers"] == {str(n): fed[n] for n in sorted(fed)}


@settings(max_examples=examples(40), deadline=None)
@given(tables(min_rows=4, max_rows=40), PROVIDERS, st.integers(0, 2))
def test_the_provider_is_kept_where_it_is_asked_for(table: mq.Table, providers: list[str], m: int) -> None:
    table = with_providers(table, providers[: len(table)])
    requirement = mq.MPrivacy(m, mq.KAnonymity(table.schema.names, 1), PROVIDER)
    release = mq.anonymize(table, requirement, mq.ProviderAwareMondrian(), sensitive=[PROVIDER], order="input")
    assert release.table[PROVIDER].to_pylist() == providers[: len(table)]
    assert mq.verify(release.table, requirement)


def test_a_child_with_few_records_stays_at_the_parent() -> None:
    tree = mq.Taxonomy(mq.Branch("all", tuple(mq.Branch(each) for each in "abc")))
    table = mq.Table(pa.table({"x": ["a"] * 3 + ["b"] * 4 + ["c"]}), mq.Schema([mq.Attribute("x", taxonomy=tree)]))

    def released(strict: bool) -> list[str]:
        release = mq.anonymize(table, mq.KAnonymity(["x"], 3), mq.Mondrian(strict=strict), order="input")
        return [str(cell) for cell in release.table["x"].to_pylist()]

    assert released(strict=True) == ["all"] * 8
    assert released(strict=False) == ["all"] * 3 + ["b"] * 4 + ["all"], "a is the smallest that satisfies"


def test_numbers_are_cut_beside_the_median() -> None:
    def released(values: list[int]) -> list[str]:
        table = mq.Table(pa.table({"x": values}), mq.Schema([mq.Attribute("x", "continuous", lower=0, upper=100)]))
        release = mq.anonymize(table, mq.KAnonymity(["x"], 2), mq.Mondrian(), order="input")
        return [str(cell) for cell in release.table["x"].to_pylist()]

    assert released([1, 2, 3, 4]) == ["[0, 3)"] * 2 + ["[3, 100)"] * 2
    assert released([1, 5, 5, 5, 9]) == ["[0, 100)"] * 5, "no cut leaves two on both sides"
    assert released([1, 1, 5, 5, 5, 9]) == ["[0, 5)"] * 2 + ["[5, 100)"] * 4
    assert released([3, 3, 3]) == ["[0, 100)"] * 3


def test_wide_domains_and_many_values() -> None:
    """More (group, child) pairs than a table holds: counted by sorting."""
    random = np.random.default_rng(7)
    n = 9_000
    codes = [f"c{each}" for each in random.integers(0, 7_000, n)]
    frame = pa.table(
        {"code": codes, "x": random.integers(0, 1 << 40, n), SENSITIVE: [f"s{each % 900}" for each in range(n)]}
    )
    schema = mq.Schema([mq.Attribute("code", taxonomy="flat"), mq.Attribute("x", "continuous")])
    names = ("code", "x")
    release = mq.anonymize(
        mq.Table(frame, schema), mq.KAnonymity(names, 4) & mq.LDiversity(names, 3, SENSITIVE), mq.Mondrian()
    )
    assert release.group_sizes.min() >= 4
    assert release.group_sizes.size > 600
    counted = mq.anonymize(mq.Table(frame, schema), mq.KAnonymity(names, 4), mq.Mondrian())
    assert counted.group_sizes.min() >= 4
    assert counted.group_sizes.size >= release.group_sizes.size


def test_adult_is_as_certain_as_promised() -> None:
    qid = ("age", "workclass", "education", "marital-status", "occupation", "race", "sex", "native-country")
    table = adult()
    for k, most in ((5, 0.1), (50, 0.35)):
        ncp = mq.anonymize(table, mq.KAnonymity(qid, k), mq.Mondrian()).metrics["ncp"]
        assert ncp is not None
        assert ncp < most


def test_adult_keeps_its_class_where_cuts_are_chosen_by_it() -> None:
    qid = ("capital-gain", "age", "marital-status", "education-num", "relationship")
    table = adult()
    requirement = mq.KAnonymity(qid, 100)
    certainty, first, gain = (
        mq.anonymize(table, requirement, mq.Mondrian("income", choose)).metrics["classification_metric"] or 0
        for choose in ("certainty", "class-first", "information-gain")
    )
    assert 0 < gain < certainty > first > 0


TOP9 = ("capital-gain", "age", "marital-status", "education-num", "relationship", "hours-per-week", "sex")
TOP9 += ("education", "occupation")


def complete(table: mq.Table) -> mq.Table:
    known = table.arrow
    for name in ("workclass", "occupation", "native-country"):
        known = known.filter(pc.not_equal(known[name], "?"))
    return mq.Table(known, table.schema)


def test_a_class_that_comes_first_costs_other_columns_little_and_itself_as_good_as_nothing() -> None:
    """By information gain sex loses 0.55, of which certainty alone loses nothing."""
    table = complete(adult())
    task = Classification(table, "income", train=np.arange(len(table)) < TRAINING_ROWS)
    first, gain, certainty = (
        mq.anonymize(table, mq.KAnonymity(TOP9, 100), mq.Mondrian("income", choose))
        for choose in ("class-first", "information-gain", "certainty")
    )
    error = [100 * task.integration_error(each.columns) for each in (first, gain)]
    assert error[0] < error[1] + 0.5
    assert first.attribute_losses["sex"] < 0.1 < 0.5 < gain.attribute_losses["sex"]
    lost = [sum(each.attribute_losses.values()) for each in (first, gain, certainty)]
    assert lost[0] < lost[2] + 0.5 * (lost[1] - lost[2])


@pytest.mark.parametrize("n", [189, 400, 1000])
@pytest.mark.parametrize("seed", [3, 7, 11])
def test_a_class_that_comes_first_leaves_no_column_at_its_root(n: int, seed: int) -> None:
    names = ["birth_date", "sex", "hours", "job", "education", "salary"]
    kinds = {"birth_date": "date", "hours": "continuous", "salary": "continuous"}
    schema = mq.Schema(
        mq.Attribute(name, kinds[name]) if name in kinds else mq.Attribute(name, taxonomy="flat")  # type: ignore[arg-type] # kinds of attributes
        for name in names
    )
    table = mq.Table(generate_people(n, seed), schema)
    first, certainty = (
        mq.anonymize(table, mq.KAnonymity(names, 10), mq.Mondrian("approved", choose)).attribute_losses
        for choose in ("class-first", "certainty")
    )
    assert {name for name in names if first[name] > 0.99} <= {name for name in names if certainty[name] > 0.99}


def test_a_class_of_noise_comes_not_first() -> None:
    """Where the class tells nothing, the release is that by certainty."""
    table = mq.Table(
        pa.table({"a": np.arange(400) % 20, "b": np.arange(400) // 20, "class": np.arange(400) * 7919 % 31 % 2}),
        mq.Schema([mq.Attribute("a", "continuous"), mq.Attribute("b", "continuous")]),
    )
    first, gain, certainty = (
        cells_of(mq.Mondrian("class", choose).run_on_table(table, mq.KAnonymity(["a", "b"], 5)))
        for choose in ("class-first", "information-gain", "certainty")
    )
    assert first == certainty != gain


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mq.Mondrian(choose="best"), "The choose parameter of Mondrian must be"),  # type: ignore[arg-type] # wrong
        (lambda: mq.Mondrian(strict=1), "The strict parameter of Mondrian must be true or false"),  # type: ignore[arg-type] # wrong
        (lambda: mq.ProviderAwareMondrian(choose="widest"), "The choose parameter of ProviderAwareMondrian"),  # type: ignore[arg-type] # wrong
        (lambda: mq.ProviderAwareMondrian(strict="no"), "The strict parameter"),  # type: ignore[arg-type] # wrong
        (lambda: mq.ProviderAwareMondrian(alpha=1.5), "The alpha parameter"),
    ],
)
def test_wrong_parameters(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(mq.ParameterError, match=message):
        make()


def small() -> mq.Table:
    frame = pa.table({"age": [20, 30, 40, 50], SENSITIVE: ["Flu", "HIV", "Flu", "HIV"], PROVIDER: ["A", "B", "A", "B"]})
    return mq.Table(frame, mq.Schema([mq.Attribute("age", "continuous")]))


def test_provider_aware_needs_m_privacy() -> None:
    with pytest.raises(mq.ParameterError, match="there is no m-privacy to reach; use provider_aware = false"):
        mq.anonymize(small(), mq.KAnonymity(["age"], 2), mq.ProviderAwareMondrian())


def test_what_no_release_can_reach() -> None:
    with pytest.raises(mq.RequirementUnreachable, match="even the group of all records"):
        mq.anonymize(small(), mq.KAnonymity(["age"], 5), mq.Mondrian())
    requirement = mq.MPrivacy(1, mq.KAnonymity(["age"], 3), PROVIDER)
    with pytest.raises(mq.RequirementUnreachable, match="cannot be reached"):
        mq.anonymize(small(), requirement, mq.ProviderAwareMondrian())


def test_a_class_or_sensitive_attribute_in_the_qid() -> None:
    with pytest.raises(mq.ParameterError, match="class attribute age: it is inside the QID"):
        mq.anonymize(small(), mq.KAnonymity(["age"], 2), mq.Mondrian("age"))


# --- provider-aware ---
# Provider-aware Mondrian with every requirement that m-privacy accepts, and over several QIDs.


def inner(names: tuple[str, ...]) -> dict[str, Requirement]:
    """One requirement of each model that may fail of a union of groups, though each group satisfies."""
    return {
        "alpha-k-anonymity": mq.AlphaKAnonymity(names, k=2, alpha=0.7, sensitive=SENSITIVE),
        "confidence-bounding": mq.ConfidenceBounding(names, confidence=0.7, sensitive=SENSITIVE),
        "entropy-l-diversity": mq.EntropyLDiversity(names, l=1.6, sensitive=SENSITIVE),
        "recursive-l-diversity": mq.RecursiveLDiversity(names, c=2.0, l=2, sensitive=SENSITIVE),
        "t-closeness": mq.TCloseness(names, t=0.5, sensitive=SENSITIVE),
    }


@pytest.mark.parametrize("model", inner(("a",)))
@settings(max_examples=examples(30), deadline=None)
@given(tables(min_rows=8, max_rows=40, max_attributes=3), PROVIDERS, st.integers(0, 3), st.booleans(), st.data())
def test_what_looks_alike_in_the_release_satisfies_as_one_group(
    model: str, table: mq.Table, providers: list[str], m: int, strict: bool, data: st.DataObject
) -> None:
    """The release is verified before it is let out, so it is enough that there is one."""
    table = with_providers(table, providers[: len(table)])
    requirement = mq.MPrivacy(m, inner(table.schema.names)[model], PROVIDER)
    algorithm = mq.ProviderAwareMondrian(
        CLASS, data.draw(st.sampled_from(["certainty", "fitness", "class-first", "information-gain"])), strict
    )
    try:
        release = mq.anonymize(table, requirement, algorithm, sensitive=[PROVIDER], order="input")
    except RequirementUnreachable:
        assume(False)
    assert mq.verify(release.table, requirement)


def people(n: int, seed: int) -> mq.Table:
    chance = np.random.default_rng(seed)
    frame = pa.table(
        {
            "age": chance.integers(20, 26, n),
            SENSITIVE: chance.choice(["Asthma", "Flu", "HIV"], n),
            PROVIDER: chance.choice(list("AABC"), n),
        }
    )
    return mq.Table(frame, mq.Schema([mq.Attribute("age", "continuous")]))


def test_cuts_between_providers_whose_parts_violate_as_one_group_are_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    table = people(80, seed=6)
    requirement = mq.MPrivacy(1, mq.AlphaKAnonymity(["age"], k=2, alpha=0.7, sensitive=SENSITIVE), PROVIDER)
    aware = mq.anonymize(table, requirement, mq.ProviderAwareMondrian())
    by_value = mq.anonymize(table, requirement, mq.Mondrian(provider_aware=False))
    assert aware.summary["metrics"]["ncp"] < by_value.summary["metrics"]["ncp"], "cuts that may stay are kept"
    monkeypatch.setattr(CutGroups, "undone", lambda *_: np.empty(0, np.int64))
    with pytest.raises(Bug):
        mq.anonymize(table, requirement, mq.ProviderAwareMondrian())


@settings(max_examples=examples(30), deadline=None)
@given(
    tables(min_rows=6, max_rows=40, min_attributes=2),
    PROVIDERS,
    st.integers(0, 2),
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_each_qid_is_cut_by_itself(table: mq.Table, providers: list[str], m: int, k: int, other_k: int) -> None:
    table = with_providers(table, providers[: len(table)])
    first, *others = table.schema.names
    qids = mq.KAnonymity([first], k), mq.KAnonymity(others, other_k)
    method = mq.ProviderAwareMondrian()
    try:
        alone = [
            column for each in qids for column in method.run_on_table(table, mq.MPrivacy(m, each, PROVIDER)).columns
        ]
    except RequirementUnreachable:
        assume(False)
    together = method.run_on_table(table, mq.MPrivacy(m, qids[0] & qids[1], PROVIDER))
    assert cells_of(together) == cells_of(Outcome(tuple(alone)))


def test_qids_that_share_attributes_are_cut_by_value_beside_one_that_is_cut_between_providers() -> None:
    chance = np.random.default_rng(1)
    names = ["a", "b", "c", "d"]
    frame = pa.table({name: chance.integers(0, 20, 400) for name in names})
    frame = frame.append_column(PROVIDER, pa.array(chance.choice(list("ABC"), 400)))
    table = mq.Table(frame, mq.Schema([mq.Attribute(name, "continuous") for name in names]))
    shared = mq.KAnonymity(["a", "b"], 9) & mq.KAnonymity(["b", "c"], 4)
    requirement = mq.MPrivacy(1, shared & mq.KAnonymity(["d"], 5), PROVIDER)
    release = mq.anonymize(table, requirement, mq.ProviderAwareMondrian(), sensitive=[PROVIDER])
    sizes = Counter(zip(*(release.table[name].to_pylist() for name in ("b", "c")), strict=True))
    assert min(sizes.values()) < 9, "the larger k is not asked of the other QID"
    with pytest.raises(mq.ParameterError, match="provider_aware: each QID shares attributes with another"):
        mq.anonymize(table, mq.MPrivacy(1, shared, PROVIDER), mq.Mondrian(provider_aware=True))
    with pytest.raises(mq.ParameterError, match="choose: not possible with QIDs that share attributes"):
        mq.anonymize(table, requirement, mq.ProviderAwareMondrian(choose="fitness"))
