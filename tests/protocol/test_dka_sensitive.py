"""DkA with requirements on a sensitive attribute of either party: against plain counting and by independent counts."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import masquerade as mq
from examples import examples
from masquerade.errors import PeerBrokeProtocol, RequirementUnreachable
from masquerade.net.memory import Wire, run_together
from masquerade.protocol import ASSEMBLER, Contract
from masquerade.protocol.dka.method import LOCAL_ALGORITHMS, Dka
from masquerade.protocol.dka.plain import plain_dka
from protocol.party_scripts import contract_for, session_scripts
from protocol.tampering import changing
from protocol.test_dka import HOLDERS, NAMES, PARTIES, SCHEMA, columns_of, people


def patients(n: int, seed: int, n_values: int = 4) -> mq.Table:
    """People whose disease goes with their job, so that groups of one disease occur."""
    arrow = people(n, seed).arrow
    draw = np.random.default_rng(seed)
    jobs = [int(job[4]) for job in arrow["job"].to_pylist()]
    some = [str(job if draw.random() < 0.8 else draw.integers(n_values)) for job in jobs]
    schema = mq.Schema([*SCHEMA, mq.Attribute("disease")])
    return mq.Table(arrow.append_column("disease", pa.array(some)), schema)


def contract_of(requirement: mq.Requirement, holder: str, local: str) -> Contract:
    return contract_for(requirement, HOLDERS, Dka(local=local), sensitive={"disease": holder})


def bag(table: pa.Table) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row[name] for name in (*NAMES, "disease")) for row in table.to_pylist())


def plainly(table: mq.Table, requirement: mq.Requirement, local: str) -> Counter[tuple[object, ...]]:
    k = max(part.implied_size for part in requirement.parts)
    sensitive = [(part, table.coded("disease")) for part in requirement.parts if part.sensitive]
    sides = plain_dka([columns_of(table, me) for me in (0, 1)], len(table), k, local, sensitive)
    cells = {column.name: column.to_arrow() for side in sides for column in side.released()}
    return bag(pa.table(cells | {"disease": table.arrow["disease"].take(pa.array(sides[0].passed))}))


def groups(released: Counter[tuple[object, ...]]) -> dict[tuple[object, ...], Counter[object]]:
    found: dict[tuple[object, ...], Counter[object]] = defaultdict(Counter)
    for (*cells, disease), count in released.items():
        found[tuple(cells)][disease] += count
    return found


@settings(max_examples=examples(30), deadline=None)
@given(
    st.integers(12, 90),
    st.integers(0, 10**6),
    st.integers(1, 5),
    st.integers(2, 3),
    st.sampled_from([*LOCAL_ALGORITHMS]),
)
def test_plain_rounds_end_with_large_and_diverse_groups(n: int, seed: int, k: int, values: int, local: str) -> None:
    table = patients(n, seed)
    if len(set(table.arrow["disease"].to_pylist())) < values:
        return
    requirement = mq.KAnonymity(NAMES, k) & mq.LDiversity(NAMES, l=values, sensitive="disease")
    found = groups(plainly(table, requirement, local))
    assert found
    assert all(counts.total() >= k and len(counts) >= values for counts in found.values())


@pytest.mark.parametrize(("local", "holder"), [*zip(LOCAL_ALGORITHMS, PARTIES * 2, strict=True)])
def test_the_release_is_that_of_plain_rounds(local: str, holder: str) -> None:
    requirement = mq.KAnonymity(NAMES, 3) & mq.LDiversity(NAMES, l=2, sensitive="disease")
    table = patients(30, 8)
    release = run_together(session_scripts(contract_of(requirement, holder, local), table))[ASSEMBLER]
    assert bag(release.table) == plainly(table, requirement, local)
    assert all(counts.total() >= 3 and len(counts) >= 2 for counts in groups(bag(release.table)).values())


def test_several_requirements_hold_together_and_a_group_that_never_can_is_left_out() -> None:
    """Whoever has gout has it alone: climbing does not help those who are left, and the rounds end."""
    schema = mq.Schema([*SCHEMA, mq.Attribute("disease")])
    town = ["town 0.0"] * 8 + ["town 1.0"] * 6
    cells = {"job": ["job 0.0"] * 14, "town": town, "age": ["age 0.0"] * 14}
    diseases = ["flu", "cold"] * 4 + ["gout"] * 6
    table = mq.Table(pa.table(cells | {"disease": diseases}), schema)
    requirement = (
        mq.KAnonymity(NAMES, 3)
        & mq.LDiversity(NAMES, l=2, sensitive="disease")
        & mq.ConfidenceBounding(NAMES, confidence=0.6, sensitive="disease", values=["flu", "gout"])
    )
    release = run_together(session_scripts(contract_of(requirement, "berta", "datafly"), table))[ASSEMBLER]
    assert bag(release.table) == plainly(table, requirement, "datafly")
    assert release.suppressed == 6
    assert set(release.table["disease"].to_pylist()) == {"flu", "cold"}


FEW_WITH_FLU = mq.KAnonymity(NAMES, 3) & mq.ConfidenceBounding(
    NAMES, confidence=0.5, sensitive="disease", values=["flu"]
)


def crowd(healthy: int, ill: int) -> mq.Table:
    """Some at one place, of whom one in four has flu; others at another, who all have it."""
    cells = {
        "job": ["job 0.0"] * (healthy + ill),
        "town": ["town 0.0"] * healthy + ["town 1.0"] * ill,
        "age": ["age 0.0"] * (healthy + ill),
        "disease": ["cold" if row % 4 else "flu" for row in range(healthy)] + ["flu"] * ill,
    }
    return mq.Table(pa.table(cells), mq.Schema([*SCHEMA, mq.Attribute("disease")]))


@pytest.mark.parametrize("holder", PARTIES)
def test_groups_that_satisfy_are_released_though_all_records_together_violate(holder: str) -> None:
    release = run_together(session_scripts(contract_of(FEW_WITH_FLU, holder, "datafly"), crowd(8, 12)))[ASSEMBLER]
    assert bag(release.table) == plainly(crowd(8, 12), FEW_WITH_FLU, "datafly")
    assert (release.table.num_rows, release.suppressed) == (8, 12)


@pytest.mark.parametrize("holder", PARTIES)
@pytest.mark.parametrize("local", ["datafly", "mondrian"])
def test_it_cannot_be_reached_where_no_group_satisfies(holder: str, local: str) -> None:
    wire = Wire()
    with pytest.raises(RequirementUnreachable, match="the common records"):
        run_together(session_scripts(contract_of(FEW_WITH_FLU, holder, local), crowd(0, 12)), wire)
    assert not wire.seen_by(ASSEMBLER)


def test_what_all_records_together_lack_is_told_before_any_round() -> None:
    table = patients(20, 1, n_values=1)
    one = mq.Table(table.arrow.set_column(3, "disease", pa.array(["flu"] * 20)), table.schema)
    requirement = mq.LDiversity(NAMES, l=2, sensitive="disease")
    wire = Wire()
    with pytest.raises(RequirementUnreachable, match="the common records"):
        run_together(session_scripts(contract_of(requirement, "anna", "mondrian"), one), wire)
    assert not any(each.kind.startswith("histogram") for each in wire.heard)


def test_an_impossible_number_of_values_is_its_senders_fault() -> None:
    requirement = mq.KAnonymity(NAMES, 3) & mq.LDiversity(NAMES, l=2, sensitive="disease")
    parts = session_scripts(contract_of(requirement, "anna", "datafly"), patients(20, 1))
    parts["anna"] = changing(parts["anna"], "sensitive-values", labels=lambda _: 21)
    with pytest.raises(PeerBrokeProtocol, match=r"anna.*told of 21 values for 20 records"):
        run_together(parts)
