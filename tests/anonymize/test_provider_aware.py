"""Provider-aware Mondrian with every requirement that m-privacy accepts, and over several QIDs."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings, strategies as st

import masquerade as mq
from anonymize.test_mondrian import PROVIDER, PROVIDERS, cells_of, with_providers
from examples import examples
from masquerade.anonymize.mondrian.cuts import CutGroups
from masquerade.data import Outcome
from masquerade.errors import Bug, RequirementUnreachable
from masquerade.privacy import Requirement
from strategies import CLASS, SENSITIVE, tables

pytestmark = pytest.mark.usefixtures("few_queries")


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
