"""Providers of the same columns: with a third party and without, the release is the same, and m-private."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import masquerade as mq
from examples import examples
from masquerade.data import Branch, Taxonomy
from masquerade.net.memory import Wire, run_together
from masquerade.privacy import MPrivacy
from masquerade.protocol import ASSEMBLER, EVERYBODY, Contract
from masquerade.protocol.providers import criterion
from masquerade.protocol.providers.method import Collaboration, criteria_of
from protocol.party_scripts import contract_for, party_script, session_scripts

JOBS = Taxonomy(
    Branch(
        "any",
        (
            Branch("office", (Branch("clerk"), Branch("lawyer"), Branch("writer"))),
            Branch("craft", (Branch("baker"), Branch("smith"))),
            Branch("none"),
        ),
    )
)
SCHEMA = mq.Schema([mq.Attribute("job", taxonomy=JOBS), mq.Attribute("age", "continuous"), mq.Attribute("ill")])
QID = ["job", "age"]
HOUSES = ("abbey", "burgh", "clinic", "dale")
ILLNESSES = ("ague", "bruise", "cold", "dropsy")
TOGETHER = "of all providers' records together"


def table_of(records: list[tuple[str, Any, str]]) -> mq.Table:
    jobs, ages, ills = zip(*records, strict=True)
    return mq.Table(pa.table({"job": list(jobs), "age": list(ages), "ill": list(ills)}), SCHEMA)


def contract_of(
    requirement: mq.Requirement, m: int, parties: tuple[str, ...], *, keep_provider: bool = False, **terms: Any
) -> Contract:
    return contract_for(
        requirement,
        {"job": EVERYBODY, "age": EVERYBODY},
        Collaboration(**{"choose": "public", **terms}),
        sensitive={"ill": EVERYBODY},
        parties=parties,
        provider="provider",
        m=m,
        keep_provider=keep_provider,
    )


def collaborate(
    contract: Contract, tables: dict[str, mq.Table], wire: Wire | None = None, schema: mq.Schema | None = SCHEMA
) -> Any:
    return run_together(session_scripts(contract, tables, schema), wire)[ASSEMBLER]


def made_both_ways(contracts: Sequence[Contract], tables: dict[str, mq.Table], schema: mq.Schema = SCHEMA) -> list[Any]:
    """What comes of each contract: a release, or the words of its refusal."""
    made = []
    for contract in contracts:
        try:
            made.append(collaborate(contract, tables, schema=schema))
        except mq.AnswerIsNo as error:
            made.append(str(error))
    return made


def rows(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


def drawn(n: int, seed: int) -> dict[str, mq.Table]:
    """As many records of each of three houses."""
    random = np.random.default_rng(seed)
    return {
        name: table_of(
            [
                (str(random.choice(JOBS.leaves)), int(random.integers(18, 70)), str(random.choice(ILLNESSES)))
                for _ in range(n)
            ]
        )
        for name in HOUSES[:3]
    }


def requirement_of(k: int, l: int) -> mq.Requirement:  # noqa: E741 # the papers' name
    alone = mq.KAnonymity(QID, k=k)
    return alone & mq.LDiversity(QID, l=l, sensitive="ill") if l > 1 else alone


record = st.tuples(
    st.sampled_from(JOBS.leaves), st.integers(-3, 40) | st.sampled_from([18, 19, 20]), st.sampled_from(ILLNESSES)
)


@st.composite
def houses(draw: st.DrawFn, most: int = 4) -> dict[str, mq.Table]:
    names = HOUSES[: draw(st.integers(2, most))]
    return {name: table_of(draw(st.lists(record, min_size=1, max_size=40))) for name in names}


@settings(max_examples=examples(25), deadline=None)
@given(
    tables=houses(),
    k=st.integers(1, 6),
    l=st.integers(1, 3),
    m=st.integers(0, 4),
    strict=st.booleans(),
    aware=st.booleans(),
)
def test_without_a_third_party_the_release_is_the_same(
    tables: dict[str, mq.Table],
    k: int,
    l: int,  # noqa: E741 # the papers' name
    m: int,
    strict: bool,
    aware: bool,
) -> None:
    requirement = requirement_of(k, l)
    terms = {"strict": strict, "provider_aware": aware, "keep_provider": True}
    trusted, secure = made_both_ways(
        [contract_of(requirement, m, tuple(tables), third_party=mode, **terms) for mode in ("trusted", "secure")],
        tables,
    )
    if isinstance(trusted, str):
        assert secure == trusted
        # All records in one group are refused rightly.
        whole = pa.concat_tables([each.arrow for each in tables.values()])
        named = [name for name, each in tables.items() for _ in range(len(each))]
        one = pa.table({"job": ["any"] * len(named), "age": ["*"] * len(named), "ill": whole["ill"], "house": named})
        assert not mq.verify(one, MPrivacy(m, requirement, "house")).holds
        lacks_records = not mq.verify(one, MPrivacy(m, mq.KAnonymity(QID, k=k), "house")).holds
        assert trusted.startswith(f"collaborate: k = {k} " if lacks_records else f"collaborate: {l} values of ill ")
        return
    assert rows(secure.table) == rows(trusted.table)
    # Each provider rounds its losses, and compares information with its own records, of 100 or more.
    apart = {"information_kept": None, "information_loss": None}
    assert {**secure.metrics, **apart} == pytest.approx({**trusted.metrics, **apart}, abs=2e-4)
    summed = trusted.metrics["information_loss"]
    assert secure.metrics["information_loss"] == pytest.approx(summed, abs=2e-4 * secure.rows * len(QID))
    assert secure.summary["groups_by_providers"] == trusted.summary["groups_by_providers"]
    check_release(tables, secure.table, requirement, m)


def check_release(tables: dict[str, mq.Table], release: pa.Table, requirement: mq.Requirement, m: int) -> None:
    """m-private by the general check, and every record is in a cell that covers it."""
    assert mq.verify(release, MPrivacy(m, requirement, "provider")).holds
    for name, table in tables.items():
        mine = [row for row in release.to_pylist() if row["provider"] == name]
        assert Counter(row["ill"] for row in mine) == Counter(table.arrow["ill"].to_pylist())
        for attribute in QID:
            originals = np.sort(table.column(attribute).ranks)
            ranges = [table.column(attribute).domain.range_of(row[attribute]) for row in mine]
            assert _can_be_matched(originals.tolist(), ranges)


def _can_be_matched(originals: list[int], ranges: list[tuple[int, int] | None]) -> bool:
    """Whether each original lies in a range of its own: smallest first, into the range that ends first."""
    waiting = sorted((each for each in ranges if each is not None), key=lambda each: each[1])
    for value in originals:
        fitting = next((each for each in waiting if each[0] <= value < each[1]), None)
        if fitting is None:
            return False
        waiting.remove(fitting)
    return not waiting


@pytest.mark.parametrize("mode", ["trusted", "secure"])
@pytest.mark.parametrize(
    ("k", "l", "m", "look_ups", "told"),
    [
        (9, 2, 1, 99, f"k = 9 cannot be reached: {TOGETHER} some coalition of 1 provider leaves fewer than 9"),
        (13, 1, 0, 99, f"k = 13 cannot be reached: {TOGETHER} there are fewer than 13"),
        (2, 3, 1, 99, f"3 values of ill cannot be reached: {TOGETHER} some coalition of 1 provider leaves fewer"),
        (
            *(2, 2, 1, 0),
            "2 values of ill may be out of reach, or not: there are too many coalitions to look at each, and the test "
            "that so many values are each held by more than 1 provider failed for all records together; use "
            'third_party = "trusted" with choose = "certainty", or ask for fewer values or a smaller m',
        ),
    ],
)
def test_what_all_records_together_lack_is_named(
    mode: str,
    k: int,
    l: int,  # noqa: E741 # the papers' name
    m: int,
    look_ups: int,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three houses with four records and one illness each: any two have two illnesses."""
    monkeypatch.setattr(criterion, "MOST_OF_WHOLE", look_ups)
    tables = {name: table_of([("clerk", 30, ill)] * 4) for name, ill in zip(HOUSES[:3], ILLNESSES, strict=False)}
    with pytest.raises(mq.RequirementUnreachable) as caught:
        collaborate(contract_of(requirement_of(k, l), m, HOUSES[:3], third_party=mode), tables)
    assert caught.value.lines == (f"collaborate: {told}",)


def test_many_coalitions_do_not_refuse_what_withstands_them_all() -> None:
    """Ten houses, each with an illness of its own: no illness is held by many, and any seven houses have seven."""
    tables = {f"house {at}": table_of([("clerk", 30, f"illness {at}")] * 3) for at in range(10)}
    requirement = requirement_of(2, 4)
    contract = contract_of(requirement, 3, tuple(tables), third_party="trusted", keep_provider=True)
    assert criteria_of(contract)[0].exact_test(10, 4) is None  # for a part
    check_release(tables, collaborate(contract, tables).table, requirement, 3)


def test_the_provider_is_dropped_unless_it_is_kept() -> None:
    tables = {name: table_of([("clerk", 30 + at, "cold")] * 9) for at, name in enumerate(HOUSES[:3])}
    for mode in ("trusted", "secure"):
        contract = contract_of(requirement_of(3, 1), 1, HOUSES[:3], third_party=mode)
        release = collaborate(contract, tables)
        assert release.table.column_names == ["job", "age", "ill"]
        assert release.summary["released"] == 27
        assert release.summary["requirements"][0]["model"] == "m-privacy"
        assert release.settings["third_party"] == mode


def test_numbers_are_cut_at_public_places_and_narrowed() -> None:
    """Ages from 33 to 34, below 64: halves of [0, 64) down to the cell that holds both."""
    tables = {name: table_of([("clerk", 33, "cold"), ("clerk", 34, "cold")] * 4) for name in HOUSES[:2]}
    release = collaborate(contract_of(requirement_of(8, 1), 0, HOUSES[:2]), tables)
    assert set(release.table["age"].to_pylist()) == {"[33, 34)", "[34, 35)"}
    assert set(release.table["job"].to_pylist()) == {"clerk"}
    coarse = collaborate(contract_of(requirement_of(16, 1), 0, HOUSES[:2]), tables)
    assert set(coarse.table["age"].to_pylist()) == {"[32, 36)"}


def test_with_all_records_at_hand_the_query_error_is_told() -> None:
    tables = {name: table_of([("clerk", 33, "cold"), ("smith", 34, "cold")] * 8) for name in HOUSES[:2]}
    told = {}
    for k in (8, 32):
        for mode in ("trusted", "secure"):
            contract = contract_of(requirement_of(k, 1), 0, HOUSES[:2], third_party=mode)
            told[k, mode] = collaborate(contract, tables).query_error
    assert told[8, "secure"] is told[32, "secure"] is None
    assert told[8, "trusted"].mean == 0  # nothing is generalised
    # All are any job; a job and an age go together, and half of them are taken to be of each.
    assert told[32, "trusted"].mean > 0.1


def test_decimals_and_negative_numbers_have_axes_of_their_own() -> None:
    tables = {
        "abbey": table_of([("smith", -1.5, "cold")] * 4 + [("smith", 2.25, "cold")] * 4),
        "burgh": table_of([("smith", -1, "cold")] * 4 + [("smith", 3, "cold")] * 4),
    }
    for mode in ("trusted", "secure"):
        release = collaborate(contract_of(requirement_of(8, 1), 0, ("abbey", "burgh"), third_party=mode), tables)
        # Hundredths between −4 and 4; both groups are narrowed to the half that holds them.
        assert rows(release.table) == Counter({("smith", "[-2, 0)", "cold"): 8, ("smith", "[2, inf)", "cold"): 8})


def test_small_children_stay_together_at_their_parent() -> None:
    records = [("clerk", 5, "cold")] * 10 + [("baker", 5, "cold")] * 10 + [("none", 5, "cold")] * 2
    tables = {name: table_of(records) for name in HOUSES[:3]}
    release = collaborate(contract_of(requirement_of(10, 1), 1, HOUSES[:3]), tables)
    # "none" cannot stand alone; of the two others, about which the answers are equal, that of fewer jobs stays with it.
    assert Counter(release.table["job"].to_pylist()) == Counter({"clerk": 30, "any": 36})
    strict = collaborate(contract_of(requirement_of(10, 1), 1, HOUSES[:3], strict=True, provider_aware=False), tables)
    assert set(strict.table["job"].to_pylist()) == {"any"}


def test_the_rarest_child_by_the_answers_stays_with_the_small_ones() -> None:
    """Too few are in offices for two groups, more than that in crafts; so office it is, though of more jobs."""
    records = [("clerk", 5, "cold")] * 9 + [("smith", 5, "cold")] * 20 + [("none", 5, "cold")] * 2
    tables = {name: table_of(records) for name in HOUSES[:3]}
    release = collaborate(contract_of(requirement_of(10, 1), 1, HOUSES[:3]), tables)
    assert Counter(release.table["job"].to_pylist()) == Counter({"smith": 60, "any": 33})


def test_what_would_take_a_refused_model_is_told_for_the_mode_and_works() -> None:
    refused = mq.KAnonymity(QID, k=4) & mq.TCloseness(QID, t=0.9, sensitive="ill")
    tables = {name: table_of([("clerk", 30, "cold"), ("smith", 40, "ague")] * 9) for name in HOUSES[:3]}
    known = "use one of k-anonymity, l-diversity, recursive-l-diversity, alpha-k-anonymity, confidence-bounding, "
    known += "p-sensitive-k-anonymity, constrained-k-anonymity, or "
    known += "m = 0, which leaves no coalition to be found, or "
    for terms, text in (
        (
            {"third_party": "secure", "provider_aware": True},
            "t-closeness cannot be tested where nobody sees all counts; "
            f'{known}third_party = "trusted" with choose = "certainty"',
        ),
        (
            {"third_party": "trusted", "provider_aware": False},
            "t-closeness cannot be tested by the cuts at public places that "
            f'third_party = "trusted" makes without choose; {known}choose = "certainty"',
        ),
    ):
        with pytest.raises(mq.BadInput) as caught:
            collaborate(contract_of(refused, 1, HOUSES[:3], **terms), tables)
        assert str(caught.value) == text
    followed = {"third_party": "trusted", "choose": "certainty", "provider_aware": True}
    assert collaborate(contract_of(refused, 1, HOUSES[:3], **followed), tables).summary["released"] == 54


@pytest.mark.parametrize(
    ("requirement", "m"),
    [
        (mq.EntropyLDiversity(QID, l=3.5, sensitive="ill"), 0),
        (mq.RecursiveLDiversity(QID, c=1.5, l=2, sensitive="ill"), 0),
        (mq.KAnonymity(QID, k=5) & mq.TCloseness(QID, t=0.3, sensitive="ill"), 0),
        (mq.AlphaKAnonymity(QID, alpha=0.5, k=4, sensitive="ill"), 0),
        (mq.AlphaKAnonymity(QID, alpha=0.6, k=4, sensitive="ill"), 1),
        (mq.KAnonymity(QID, k=3) & mq.ConfidenceBounding(QID, 0.8, "ill", ["cold"]), 2),
        (mq.LDiversity(QID, 2, "ill") & mq.ConfidenceBounding(QID, 0.7, "ill"), 1),
    ],
    ids=str,
)
def test_requirements_on_counts_give_the_release_of_one_table(requirement: mq.Requirement, m: int) -> None:
    tables = drawn(30, 8)
    trusted, secure = (
        collaborate(contract_of(requirement, m, HOUSES[:3], third_party=mode), tables) for mode in ("trusted", "secure")
    )
    assert rows(trusted.table) == rows(secure.table)
    cells = zip(*(secure.table[name].to_pylist() for name in QID), strict=True)
    assert len(set(cells)) > 1  # it says something


def test_a_listed_value_that_nobody_has_is_refused() -> None:
    bound = mq.KAnonymity(QID, k=2) & mq.ConfidenceBounding(QID, 0.5, "ill", ["gout"])
    tables = {name: table_of([("clerk", 5, "cold"), ("smith", 9, "ague")] * 5) for name in HOUSES[:2]}
    for mode in ("trusted", "secure"):
        with pytest.raises(mq.BadInput, match=r'must list values of ill: "ague", "cold". Got "gout" instead'):
            collaborate(contract_of(bound, 1, HOUSES[:2], third_party=mode), tables)


def test_a_flat_taxonomy_needs_a_third_party() -> None:
    schema = mq.Schema([mq.Attribute("job", taxonomy="flat"), mq.Attribute("age", "continuous"), mq.Attribute("ill")])
    tables = {name: mq.Table(table_of([("clerk", 5, "cold")] * 5).arrow, schema) for name in HOUSES[:2]}
    contract = contract_of(requirement_of(2, 1), 1, HOUSES[:2])
    with pytest.raises(mq.BadInput, match="attribute job: a flat taxonomy"):
        run_together({name: party_script(name, contract, table) for name, table in tables.items()})


@pytest.mark.parametrize("choose", ["certainty", "fitness"])
def test_a_trusted_third_party_may_look_at_all_counts(choose: str) -> None:
    tables = drawn(60, 5)
    requirement = requirement_of(5, 2)
    contract = contract_of(requirement, 1, HOUSES[:3], third_party="trusted", choose=choose, keep_provider=True)
    release = collaborate(contract, tables)
    check_release(tables, release.table, requirement, 1)
    joined = pa.concat_tables([each.arrow for each in tables.values()])
    named = pa.array([name for name in HOUSES[:3] for _ in range(60)])
    alone = mq.anonymize(
        mq.Table(joined.append_column("house", named), SCHEMA),
        MPrivacy(1, requirement, "house"),
        mq.ProviderAwareMondrian(choose=choose),
        sensitive=["ill"],
    )
    assert rows(release.table.drop_columns(["provider"])) == rows(alone.table)
    assert release.query_error == alone.query_error
    assert set(release.seconds) == {"protocol"}
