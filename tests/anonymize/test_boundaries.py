"""Methods within boundaries, and the properties of constrained k-anonymity that they rest on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import masquerade as mq
from examples import examples
from masquerade.anonymize import TableMethod, reachable_rows, start_groups
from masquerade.data import Boundary, Column, Continuum, named_boundary
from masquerade.data.boundary import boundary_by_width, boundary_problems
from masquerade.privacy import Requirement

TREE = mq.Taxonomy(
    mq.Branch(
        "any",
        (
            mq.Branch("ab", (mq.Branch("a"), mq.Branch("b"))),
            mq.Branch("cdef", (mq.Branch("cd", (mq.Branch("c"), mq.Branch("d"))), mq.Branch("e"), mq.Branch("f"))),
        ),
    ),
    "letters",
)  # fmt: skip
FEW = mq.Taxonomy(mq.Branch("xyz", (mq.Branch("x"), mq.Branch("yz", (mq.Branch("y"), mq.Branch("z"))))), "few")
QID = ("letter", "few", "number")
WITHIN: list[TableMethod] = [
    mq.GreedyCka(),
    mq.TopDownSpecialization(),
    mq.TopDownSpecialization(suppression=0.2),
    mq.Mondrian(),
    mq.Mondrian(strict=True),
    mq.CheapestBox(),
    mq.Datafly(),
    mq.Datafly(whole_columns=True),
    mq.Auto(),
]


def magvals(taxonomy: mq.Taxonomy) -> st.SearchStrategy[list[str]]:
    """Names of nodes so that every value has one above it."""
    names = st.lists(st.sampled_from([node.name for node in taxonomy.nodes]), min_size=1, unique=True)
    return names.filter(lambda each: not boundary_problems(taxonomy, each))


@st.composite
def tables(draw: st.DrawFn, most: int = 24, *, stepwise: bool = False) -> mq.Table:
    n = draw(st.integers(1, most))
    column = lambda values: draw(st.lists(st.sampled_from(values), min_size=n, max_size=n))  # noqa: E731 # short
    number = mq.Attribute("number", "continuous", max_width=draw(st.sampled_from([None, 0, 3, 10])))
    if stepwise:
        number = mq.Attribute("number", taxonomy="flat")
    schema = mq.Schema(
        [
            mq.Attribute("letter", taxonomy=TREE, max_generalization=tuple(draw(magvals(TREE)))),
            mq.Attribute("few", taxonomy=FEW, max_generalization=tuple(draw(st.just([]) | magvals(FEW)))),
            number,
        ]
    )
    frame = {
        "letter": column(TREE.leaves),
        "few": column(FEW.leaves),
        "number": column([1, 2, 4, 9, 17]),
        "illness": column("stu"),
    }
    return mq.Table(pa.table(frame), schema)


# --- the definitions, by name and without ranks ---


def paths(taxonomy: mq.Taxonomy) -> dict[str, list[str]]:
    """Each value's way to the root, itself first."""
    found = {}
    for node in taxonomy.nodes:
        if not node.children:
            above, path = node, [node.name]
            while above.parent >= 0:
                above = taxonomy.nodes[above.parent]
                path.append(above.name)
            found[node.name] = path
    return found


@settings(max_examples=examples(50), deadline=None)
@given(st.data())
def test_the_first_magval_on_the_way_to_the_root_counts(data: st.DataObject) -> None:
    """Definition 3, and the MAGSet of Definition 4."""
    names = data.draw(magvals(TREE))
    boundary = named_boundary(TREE, names)
    expected = {value: next(name for name in path if name in names) for value, path in paths(TREE).items()}
    for value, rank in TREE.rank.items():
        assert TREE.label(int(boundary.lo[rank]), int(boundary.hi[rank])) == expected[value]
    assert set(boundary.values) == set(expected.values())
    for node in TREE.nodes:
        below = [value for value, path in paths(TREE).items() if node.name in path]
        allowed = {value: path[: path.index(expected[value]) + 1] for value, path in paths(TREE).items()}
        beyond = [node.name not in allowed[value] for value in below]
        assert boundary.possibly_exceeded(node.lo, node.hi) == any(beyond)
        assert boundary.certainly_exceeded(node.lo, node.hi) == all(beyond)
    cut = [*boundary.cut.tolist(), TREE.size]
    assert cut == sorted({0, *cut})
    assert not any(boundary.possibly_exceeded(lo, hi) for lo, hi in pairwise(cut))


def partitions(records: Sequence[int]) -> Iterator[list[list[int]]]:
    """All ways to put records into clusters."""
    if not records:
        yield []
        return
    first, *rest = records
    for smaller in partitions(rest):
        yield [[first], *smaller]
        for at, cluster in enumerate(smaller):
            yield [*smaller[:at], [first, *cluster], *smaller[at + 1 :]]


def within(columns: Sequence[Column], cluster: Sequence[int]) -> bool:
    """Whether gen(cluster) is beyond nobody's boundary; along numbers it covers what the cluster has."""
    for column in columns:
        if (boundary := column.boundary) is not None:
            ranks = column.ranks[list(cluster)]
            lo, hi = int(ranks.min()), int(ranks.max()) + 1
            if isinstance(column.domain, mq.Taxonomy):
                node = next(each for each in reversed(column.domain.nodes) if each.lo <= lo and hi <= each.hi)
                lo, hi = node.lo, node.hi
            if boundary.exceeded(ranks, np.full(ranks.size, lo), np.full(ranks.size, hi)).any():
                return False
    return True


def mam(columns: Sequence[Column], n: int) -> list[tuple[object, ...]]:
    """The maximum allowed microdata of Definition 9, of the columns that have boundaries."""
    cells = [column.most_general(np.arange(n)).T.tolist() for column in columns if column.boundary is not None]
    return [tuple(tuple(column[row]) for column in cells) for row in range(n)]


@settings(max_examples=examples(60), deadline=None)
@given(tables(5), st.integers(1, 3))
def test_what_can_be_masked_at_all(table: mq.Table, k: int) -> None:
    """Properties 1 to 6, against all ways to make clusters of a few records."""
    n, columns = len(table), table.columns(QID)
    rows = mam(columns, n)
    sizes = Counter(rows)
    everybody = list(range(n))
    for pair in ((one, other) for one in everybody for other in everybody):
        if rows[pair[0]] != rows[pair[1]]:
            assert not within(columns, pair)  # Property 1

    def can_be_masked(records: Sequence[int]) -> bool:
        return any(
            all(len(cluster) >= k and within(columns, cluster) for cluster in clusters)
            for clusters in partitions(records)
        )

    assert can_be_masked(everybody) == (min(sizes.values()) >= k)  # Properties 2 to 4
    out = [row for row in everybody if sizes[rows[row]] < k]
    assert can_be_masked([row for row in everybody if row not in out])  # Property 5
    for row in out:  # Property 6: whoever is released with it
        for others in range(2**n):
            some = [each for each in everybody if others >> each & 1 or each == row]
            assert not can_be_masked(some)
    kept = reachable_rows([mq.KAnonymity(QID, k)], columns, {}, n)
    assert kept.tolist() == [row for row in everybody if row not in out]
    labels, n_groups = start_groups(columns, n)
    assert n_groups == len(sizes)
    assert all((labels[one] == labels[other]) == (rows[one] == rows[other]) for one in everybody for other in everybody)


# --- the methods ---


def released(table: mq.Table, requirement: Requirement, method: TableMethod) -> mq.Release | None:
    try:
        return mq.anonymize(table, requirement, method, sensitive=["illness"], order="input")
    except mq.RequirementUnreachable:
        return None


@pytest.mark.parametrize("method", WITHIN, ids=lambda each: str(each.settings()))
@settings(max_examples=examples(25), deadline=None)
@given(st.data())
def test_no_method_goes_beyond_a_boundary(method: TableMethod, data: st.DataObject) -> None:
    table = data.draw(tables(stepwise=method.name == "datafly"))
    k = data.draw(st.integers(1, 4))
    requirement = mq.ConstrainedKAnonymity(QID, k)
    n, sizes = len(table), Counter(rows := mam(table.columns(QID), len(table)))
    out = sum(sizes[row] < k for row in rows)
    release = released(table, requirement, method)
    if release is None:
        if method.boundaries != "columns":
            assert out == n or n < k
        return
    assert release.metrics["violations"] == 0
    assert [verdict.violations for verdict in release.verdicts] == [0]
    assert release.suppressed >= out
    if method in (mq.GreedyCka(), mq.Mondrian(), mq.Mondrian(strict=True), mq.CheapestBox(), mq.Datafly()):
        assert release.suppressed == out  # and no more
    found = mq.verify(mq.Table(release.table, table.schema), requirement)
    assert found.holds
    assert found.summary["violations"] == 0


OTHERS = [
    mq.LDiversity(QID, 2, "illness"),
    mq.EntropyLDiversity(QID, 1.6, "illness"),
    mq.RecursiveLDiversity(QID, 2.0, 2, "illness"),
    mq.AlphaKAnonymity(QID, 0.6, 2, "illness"),
    mq.PSensitiveKAnonymity(QID, 2, 3, "illness"),
    mq.TCloseness(QID, 0.4, "illness"),
]


@pytest.mark.parametrize("requirement", OTHERS, ids=lambda each: each.model)
@settings(max_examples=examples(25), deadline=None)
@given(table=tables())
def test_of_other_requirements_a_part_of_a_failing_group_may_be_saved(
    requirement: mq.LDiversity, table: mq.Table
) -> None:
    """A group of the MAM that satisfies is kept whole; of one that violates something is kept only if a part can."""
    columns, n = table.columns(QID), len(table)
    labels, n_groups = start_groups(columns, n)
    illness = table.coded("illness")
    holds = requirement.holds(illness.histograms(labels, n_groups), illness.histogram(), illness.labels)
    release = released(table, requirement, mq.GreedyCka())
    whole = illness.histogram()
    if release is None:
        reachable = requirement.holds(whole, whole, illness.labels)[0]
        assert not reachable or requirement.compares_with_whole or not holds.any()
        return
    assert release.metrics["violations"] == 0
    assert release.verdicts[0].holds
    if requirement.compares_with_whole:
        return  # whoever is left out changes what the others are compared with
    good = int(np.count_nonzero(holds[labels]))
    assert release.table.num_rows >= good
    if requirement.hereditary:
        assert release.table.num_rows == good


def test_a_part_of_a_failing_group_is_saved() -> None:
    """Ten of one illness and three of another, at most half of a group each: six at least stay."""
    frame = pa.table({"letter": ["a"] * 13, "illness": ["s"] * 10 + ["t"] * 3})
    schema = mq.Schema([mq.Attribute("letter", taxonomy=TREE, max_generalization=("ab", "cdef"))])
    everything = pa.concat_tables([frame, pa.table({"letter": list("cdefcdefcd"), "illness": list("tttttuuuuu")})])
    requirement = mq.AlphaKAnonymity(["letter"], 0.5, 2, "illness")
    release = mq.anonymize(mq.Table(everything, schema), requirement, mq.GreedyCka(), order="input")
    cells = Counter(release.table["letter"].to_pylist())
    assert cells["a"] == 6  # three of each
    assert release.suppressed == 7


def test_unconstrained_clusters_go_beyond() -> None:
    frame = pa.table({"letter": list("acacac")})
    schema = mq.Schema([mq.Attribute("letter", taxonomy=TREE, max_generalization=("ab", "cdef"))])
    release = mq.anonymize(mq.Table(frame, schema), mq.KAnonymity(["letter"], k=4), mq.KMember())
    assert release.metrics["violations"] == 6
    with pytest.raises(mq.RequirementUnreachable, match="within max_generalization and max_width: every record"):
        mq.anonymize(mq.Table(frame, schema), mq.ConstrainedKAnonymity(["letter"], k=4))


def test_the_seed_decides_where_clusters_start() -> None:
    method = mq.KMember()
    assert method.seeded(3) == mq.KMember(seed=3) != method
    assert method.settings() == {"name": "k-member"}
    assert mq.Mondrian().seeded(3) == mq.Mondrian()


def test_auto_leaves_out_what_ignores_boundaries() -> None:
    frame = pa.table({"letter": list("abab"), "number": [1, 2, 3, 4]})
    bounded = mq.Schema(
        [mq.Attribute("letter", taxonomy=TREE, max_generalization=("ab", "cdef")), mq.Attribute("number", "continuous")]
    )
    for schema, expected in ((bounded, "greedy-cka"), (mq.Schema([mq.Attribute("number", "continuous")]), "k-member")):
        release = mq.anonymize(mq.Table(frame, schema), mq.KAnonymity(schema.names, k=2), mq.Auto())
        assert release.choice is not None
        tried = {each.method["name"] for each in release.choice.tried}
        assert tried & {"k-member", "greedy-cka"} == {expected}


# --- boundaries by width ---


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.integers(0, 100), min_size=1, unique=True), st.integers(0, 40), st.booleans())
def test_runs_of_numbers_are_no_wider_than_allowed(numbers: list[int], width: int, missing: bool) -> None:
    domain = Continuum(np.array(sorted(numbers)), missing=missing)
    boundary = boundary_by_width(domain, width)
    for rank in range(domain.first, domain.size):
        lo, hi = int(boundary.lo[rank]), int(boundary.hi[rank])
        assert lo <= rank < hi
        assert domain.values[hi - 1 - domain.first] - domain.values[lo - domain.first] <= width
        assert boundary.lo[lo] == lo
        assert boundary.hi[hi - 1] == hi
    if missing:
        assert (boundary.lo[0], boundary.hi[0]) == (0, 1)


def test_runs_are_cut_where_the_data_leave_room() -> None:
    assert runs([17, 18, 19, 30, 31, 40, 60], 15) == [[17, 18, 19], [30, 31, 40], [60]]
    assert runs([1, 2, 3, 4, 5, 6, 7, 8], 3) == [[1, 2, 3, 4], [5, 6, 7, 8]]  # equal gaps: the middle one


def runs(values: list[int], width: int) -> list[list[int]]:
    boundary: Boundary = boundary_by_width(Continuum(np.array(values)), width)
    return [values[lo:hi] for lo, hi in sorted({*zip(boundary.lo.tolist(), boundary.hi.tolist(), strict=True)})]


def test_ages_stay_within_a_width() -> None:
    ages = [18, 19, 20, 40, 41, 42, 60, 75]
    schema = mq.Schema([mq.Attribute("age", "continuous", max_width=5)])
    release = mq.anonymize(
        mq.Table(pa.table({"age": ages}), schema), mq.ConstrainedKAnonymity(["age"], 3), order="input"
    )
    assert release.suppressed == 2
    assert release.table["age"].to_pylist() == ["[-inf, 40)"] * 3 + ["[40, 60)"] * 3


def test_mondrian_keeps_to_the_boundaries_where_one_group_is_left() -> None:
    """Also where those who are out have the only values beyond."""
    schema = mq.Schema([mq.Attribute("age", "continuous", max_width=5)])
    table = mq.Table(pa.table({"age": [18, 18, 18, 75]}), schema)
    release = mq.anonymize(table, mq.ConstrainedKAnonymity(["age"], 3), mq.Mondrian())
    assert release.table["age"].to_pylist() == ["[-inf, 75)"] * 3
