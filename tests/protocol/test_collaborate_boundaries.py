"""Boundaries among providers of the same columns: the release of one table, for any split of the records."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import masquerade as mq
from examples import examples
from leakage.granted_answers import dealt
from masquerade.errors import ParameterError, PeerBrokeProtocol
from masquerade.net import kind_of
from masquerade.net.memory import run_together
from masquerade.privacy import MPrivacy, violations_alone
from masquerade.protocol import ASSEMBLER, Assembly, Contract, terms_of
from masquerade.protocol.providers import provider as start
from masquerade.protocol.providers.axes import HalvingAxis
from masquerade.protocol.providers.messages import Rows
from masquerade.protocol.providers.method import Collaboration
from masquerade.protocol.providers.third_party import third_party
from masquerade.report import render_report
from masquerade.report.cuts import cut_tree
from protocol.party_scripts import party_script
from protocol.tampering import changing
from protocol.test_collaborate import (
    HOUSES,
    JOBS,
    QID,
    SCHEMA,
    collaborate,
    contract_of,
    houses,
    made_both_ways,
    record,
    requirement_of,
    rows,
    table_of,
)
from protocol.test_collaborate_circuits import by_definition

NESTED = ("any", "clerk", "craft")  # one boundary above two others
LIMITS: dict[str, list[dict[str, Any]]] = {
    "job": [{}, {"max_generalization": ("office", "craft", "none")}, {"max_generalization": NESTED}],
    "age": [{}, {"max_width": 8}, {"max_width": 20}],
}


def bounded(job: int, age: int) -> mq.Schema:
    chosen = {"job": LIMITS["job"][job], "age": LIMITS["age"][age]}
    return mq.Schema([replace(each, **chosen.get(each.name, {})) for each in SCHEMA])


def within(contract: Contract, schema: mq.Schema) -> Contract:
    return msgspec.structs.replace(contract, attributes=terms_of(schema))


def left_by_definition(tables: dict[str, mq.Table], schema: mq.Schema, k: int, l: int, m: int) -> int:  # noqa: E741
    """How many records are in groups that satisfy with every value at its boundary: a job's node, an age's interval."""
    names = schema["job"].max_generalization or ("any",)
    top = {leaf: _lowest_above(leaf, names) for leaf in JOBS.leaves}
    width = schema["age"].max_width
    ages = [age for table in tables.values() for age in table.arrow["age"].to_pylist()]
    span = 1 << max(max(map(abs, ages)), 0).bit_length()
    low = -span if min(ages) < 0 else 0
    groups: dict[Any, Counter[Any]] = {}
    ills = sorted({ill for table in tables.values() for ill in table.arrow["ill"].to_pylist()})
    for place, table in enumerate(tables.values()):
        for row in table.arrow.to_pylist():
            lo, hi = low, span
            while width is not None and hi - lo > width:
                middle = (lo + hi) // 2
                lo, hi = (lo, middle) if row["age"] < middle else (middle, hi)
            groups.setdefault((top[row["job"]], lo), Counter())[place, ills.index(row["ill"])] += 1
    left = 0
    for counted in groups.values():
        counts = np.zeros((len(tables), len(ills)), int)
        for at, count in counted.items():
            counts[at] = count
        left += counts.sum() if by_definition(counts, m, k, l) else 0
    return int(left)


def _lowest_above(leaf: str, names: tuple[str, ...]) -> str:
    at: int | None = next(place for place, node in enumerate(JOBS.nodes) if node.name == leaf)
    while at is not None and JOBS.nodes[at].name not in names:
        at = JOBS.nodes[at].parent
    assert at is not None
    return JOBS.nodes[at].name


@settings(max_examples=examples(25), deadline=None)
@given(
    tables=houses(3),
    k=st.integers(1, 5),
    l=st.integers(1, 2),
    m=st.integers(0, 1),
    job=st.integers(0, 2),
    age=st.integers(0, 2),
    aware=st.booleans(),
)
def test_without_a_third_party_the_release_is_the_same_and_leaves_out_who_cannot_be_in_it(
    tables: dict[str, mq.Table],
    k: int,
    l: int,  # noqa: E741 # the papers' name
    m: int,
    job: int,
    age: int,
    aware: bool,
) -> None:
    requirement, schema = requirement_of(k, l), bounded(job, age)
    terms = {"provider_aware": aware, "keep_provider": True}
    trusted, secure = made_both_ways(
        [
            within(contract_of(requirement, m, tuple(tables), third_party=mode, **terms), schema)
            for mode in ("trusted", "secure")
        ],
        tables,
    )
    if isinstance(trusted, str):
        assert secure == trusted
        assert "cannot be reached" in trusted
        return
    assert rows(secure.table) == rows(trusted.table)
    assert secure.suppressed == trusted.suppressed == secure.rows - secure.table.num_rows
    apart = {"information_kept": None}  # a provider compares with its own records, of 100 or more
    apart["information_loss"] = None  # a sum over the cells, each of which is rounded
    assert {**secure.metrics, **apart} == pytest.approx({**trusted.metrics, **apart}, abs=2e-4)
    summed = trusted.metrics["information_loss"]
    assert secure.metrics["information_loss"] == pytest.approx(summed, abs=2e-4 * secure.rows * len(QID))
    assert secure.table.num_rows == left_by_definition(tables, schema, k, l, m)
    assert mq.verify(secure.table, MPrivacy(m, requirement, "provider")).holds
    whole = mq.Table(pa.concat_tables([each.arrow for each in tables.values()]), schema)
    assert sum(_beyond(whole, secure.table).values()) == 0


def _beyond(table: mq.Table, release: pa.Table) -> Counter[str]:
    """Cells that are more general than any value of theirs allows."""
    found: Counter[str] = Counter()
    boundary = table.column("job").boundary if table.schema["job"].is_bounded else None
    if boundary is not None:
        for cell in release["job"].to_pylist():
            covered = boundary.domain.range_of(cell)
            assert covered is not None
            found["job"] += boundary.certainly_exceeded(*covered)
    width = table.schema["age"].max_width
    for cell in release["age"].to_pylist() if width is not None else ():
        lo, hi = (float(end) for end in cell.strip("[)").split(", "))
        found["age"] += np.isfinite(hi - lo) and hi - lo > width
    return found


@settings(max_examples=examples(12), deadline=None)
@given(
    people=st.lists(record, min_size=12, max_size=60),
    deal=st.randoms(use_true_random=False),
    kind=st.sampled_from(["one QID", "apart", "linked", "close"]),
    age=st.integers(1, 2),
)
def test_any_split_of_the_records_gives_one_release(people: Any, deal: Any, kind: str, age: int) -> None:
    """Against outsiders it does not matter who holds which record: several QIDs and t-closeness take several rounds."""
    requirement: mq.Requirement = mq.KAnonymity(QID, 3)
    if kind == "apart":
        requirement = mq.KAnonymity(["job"], 4) & mq.KAnonymity(["age"], 3)
    elif kind == "linked":
        requirement = mq.KAnonymity(QID, 2) & mq.KAnonymity(["age"], 4)
    elif kind == "close":
        requirement &= mq.TCloseness(QID, 0.4, "ill")
    made: list[Any] = []
    for mode, parties in (("secure", 3), ("secure", 2), ("trusted", 2)):
        dealt_to = [*range(parties)] + [deal.randrange(parties) for _ in people[parties:]]
        tables = {
            HOUSES[house]: table_of([each for each, to in zip(people, dealt_to, strict=True) if to == house])
            for house in range(parties)
        }
        contract = contract_of(requirement, 0, tuple(tables), third_party=mode, provider_aware=False)
        try:
            release = collaborate(within(contract, bounded(1, age)), tables)
            made.append((rows(release.table), release.suppressed))
        except mq.RequirementUnreachable as error:
            made.append(str(error))
    assert made[0] == made[1] == made[2]


@pytest.mark.parametrize("choose", ["certainty", "fitness"])
def test_a_trusted_third_party_that_sees_all_counts_releases_what_one_table_would(choose: str) -> None:
    tables, schema, requirement = dealt((50, 40, 30)), bounded(1, 1), requirement_of(4, 2)
    contract = contract_of(requirement, 1, tuple(tables), third_party="trusted", choose=choose, keep_provider=True)
    release = collaborate(within(contract, schema), tables)
    named = [name for name, each in tables.items() for _ in range(len(each))]
    arrow = pa.concat_tables([each.arrow for each in tables.values()])
    one = mq.Table(arrow.append_column("provider", pa.array(named)), schema)
    private = MPrivacy(1, requirement, "provider")
    cutter = Collaboration.of(contract).on_one_table(None, private.parts)
    expected = mq.anonymize(one, private, cutter, sensitive=["ill", "provider"])
    names = [*QID, "ill", "provider"]
    assert rows(release.table.select(names)) == rows(expected.table.select(names))
    assert release.suppressed == expected.suppressed > 0
    assert release.metrics["violations"] == 0


@pytest.mark.parametrize("mode", ["trusted", "secure"])
def test_nothing_finer_than_agreed_is_released(mode: str) -> None:
    """Cells of a grid are halved like numbers, and named nodes are the leaves."""
    tables = dealt((60, 60))
    coarse = mq.Schema(
        [
            replace(SCHEMA["job"], min_generalization=("office", "craft")),
            replace(SCHEMA["age"], min_width=5, max_width=20),
            SCHEMA["ill"],
        ]
    )
    contract = contract_of(mq.KAnonymity(QID, 2), 0, tuple(tables), third_party=mode)
    release = collaborate(within(contract, coarse), tables)
    assert {*release.table["job"].to_pylist()} <= {"any", "office", "craft", "none"}
    ends = {int(end) for cell in release.table["age"].to_pylist() for end in cell.strip("[)").split(", ")}
    assert all(end % 5 == 0 for end in ends)
    told = violations_alone(mq.Table(release.table, coarse), QID)
    assert told.finer == {"job": 0, "age": 0}
    assert (
        sum(
            _beyond(
                mq.Table(release.table, mq.Schema([SCHEMA["job"], coarse["age"], SCHEMA["ill"]])), release.table
            ).values()
        )
        == 0
    )


# --- what is asked of a job's requirement ---


def test_constrained_k_anonymity_counts_as_k_anonymity_within_boundaries() -> None:
    tables = dealt((40, 40))
    requirement = mq.ConstrainedKAnonymity(QID, 4)
    releases = []
    for asked in (requirement, mq.KAnonymity(QID, 4)):
        contract = within(contract_of(asked, 1, tuple(tables), keep_provider=True), bounded(1, 1))
        releases.append(collaborate(contract, tables))
    assert rows(releases[0].table) == rows(releases[1].table)
    assert releases[0].verdicts[0].requirement.within_boundaries
    assert releases[0].verdicts[0].violations == 0


def test_a_provider_of_whom_nobody_is_left_hands_in_no_row() -> None:
    tables = {
        "abbey": table_of([("clerk", 30, "cold")] * 8),
        "burgh": table_of([("lawyer", 30, "cold")] * 8),
        "clinic": table_of([("smith", 50, "cold")] * 2),
    }
    contract = within(
        contract_of(mq.KAnonymity(QID, 4), 0, tuple(tables), keep_provider=True, provider_aware=False), bounded(1, 1)
    )
    release = collaborate(contract, tables)
    assert Counter(release.table["provider"].to_pylist()) == {"abbey": 8, "burgh": 8}
    assert (release.rows, release.suppressed) == (18, 2)


def test_the_report_draws_boundaries_on_the_taxonomies_that_the_assembler_has() -> None:
    """One that has none marks them among the released values, and names no other node."""
    tables, schema = dealt((40, 40)), bounded(1, 1)
    contract = within(contract_of(mq.KAnonymity(QID, 4), 0, tuple(tables)), schema)
    drawn = []
    for known in (SCHEMA, None):
        scripts: dict[str, Any] = {name: party_script(name, contract, each) for name, each in tables.items()}
        scripts[ASSEMBLER] = third_party(Assembly(contract, known))
        release = run_together(scripts)[ASSEMBLER]
        assert {*release.boundaries["job"]} == {"office", "craft", "none"}
        (column,) = (each for each in release.columns if each.name == "job")
        drawn.append(cut_tree(column, (), limits=release.boundaries["job"]))
        assert "| boundary" in render_report(release)
        released = {*release.table["job"].to_pylist()}
    on_tree, side_by_side = drawn
    assert [node.label for node in on_tree if node.parent < 0] == ["any"]
    marked = {node.label for node in on_tree if node.limit}
    assert {"office", "craft"} <= marked <= {"office", "craft", "none"}
    assert {node.label for node in side_by_side if node.place == "cut"} == released
    assert {node.label for node in side_by_side if node.limit} == released & {"office", "craft", "none"}


# --- what is refused ---


def test_boundaries_that_nobody_can_be_released_in_end_it_in_the_same_words_for_all() -> None:
    tables = {name: table_of([(job, 30, "cold") for job in JOBS.leaves]) for name in HOUSES[:2]}
    each_alone = mq.Schema([replace(SCHEMA["job"], max_generalization=JOBS.leaves), SCHEMA["age"], SCHEMA["ill"]])
    for mode in ("trusted", "secure"):
        contract = contract_of(mq.KAnonymity(QID, 5), 0, tuple(tables), third_party=mode)
        with pytest.raises(
            mq.RequirementUnreachable, match="within max_generalization and max_width: every group violates"
        ):
            collaborate(within(contract, each_alone), tables)


def test_more_groups_than_can_be_tested_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "MOST_GROUPS", 20)
    tables = dealt((40, 40))
    contract = within(contract_of(mq.KAnonymity(QID, 4), 0, tuple(tables)), bounded(1, 1))
    with pytest.raises(ParameterError, match="boundaries of job, age make 24 groups"):
        collaborate(contract, tables)


def test_a_width_that_would_make_too_many_intervals_is_refused() -> None:
    with pytest.raises(ParameterError, match="attribute pay: max_width would cut its range into more than"):
        HalvingAxis("pay", (0, 1 << 30), max_width=2)


def test_halves_are_cut_until_none_is_wider() -> None:
    assert HalvingAxis("age", (0, 64), max_width=20).limits == ((0, 16), (16, 32), (32, 48), (48, 64))
    assert HalvingAxis("age", (0, 3), max_width=0.5).limits == ((0, 1), (1, 2), (2, 3))  # values stay whole
    assert HalvingAxis("pay", (0, 100), decimals=1, max_width=5).limits == ((0, 50), (50, 100))


# --- a provider that does not keep to it ---


def attacked(contract: Contract, tables: dict[str, mq.Table], around: Any) -> Any:
    scripts: dict[str, Any] = {name: around(name, party_script(name, contract, each)) for name, each in tables.items()}
    scripts[ASSEMBLER] = third_party(Assembly(contract, SCHEMA))
    return run_together(scripts)[ASSEMBLER]


@pytest.mark.parametrize("claimed", [-1, 1 << 40])
def test_a_number_of_records_that_nobody_left_out_is_named(claimed: int) -> None:
    tables = dealt((40, 40))
    contract = within(contract_of(mq.KAnonymity(QID, 4), 0, tuple(tables)), bounded(1, 1))
    with pytest.raises(PeerBrokeProtocol, match=f"burgh: says that it left {claimed} records out"):
        attacked(
            contract,
            tables,
            lambda name, script: (
                changing(script, kind_of(Rows), suppressed=lambda _: claimed) if name == "burgh" else script
            ),
        )


def test_without_boundaries_nobody_may_leave_records_out() -> None:
    tables = dealt((40, 40))
    contract = contract_of(mq.KAnonymity(QID, 4), 0, tuple(tables))
    with pytest.raises(PeerBrokeProtocol, match="burgh: says that it left 3 records out"):
        attacked(
            contract,
            tables,
            lambda name, script: changing(script, kind_of(Rows), suppressed=lambda _: 3) if name == "burgh" else script,
        )


def test_a_provider_that_feigns_records_to_keep_its_own_in_is_found_out_before_anything_is_published() -> None:
    """It makes a group of one stand by feigned company, hands in the one, and the assembler's count says no."""
    crowd = [("clerk", 30, "cold")] * 8
    tables = {"abbey": table_of(crowd), "burgh": table_of([*crowd, ("smith", 50, "ague")])}
    feigning = {**tables, "burgh": table_of([*crowd, *[("smith", 50, "ague")] * 4])}
    contract = within(contract_of(mq.KAnonymity(QID, 4), 0, tuple(tables), provider_aware=False), bounded(1, 1))
    assert "smith" not in collaborate(contract, tables).table["job"].to_pylist()

    def one_smith(table: bytes) -> bytes:
        cells = pa.ipc.open_stream(table).read_all()
        smiths = np.flatnonzero([job == "smith" for job in cells["job"].to_pylist()])
        kept = np.delete(np.arange(cells.num_rows), smiths[1:])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, cells.schema) as stream:
            stream.write_table(cells.take(pa.array(kept)))
        return sink.getvalue().to_pybytes()

    with pytest.raises(mq.RequirementViolated):
        attacked(
            contract,
            feigning,
            lambda name, script: changing(script, kind_of(Rows), table=one_smith) if name == "burgh" else script,
        )
