"""Cox regression of several sites: the pooled records' model, with ties as lifelines has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from masquerade.errors import AnswerIsNo, ParameterError, PeerBrokeProtocol
from masquerade.net.memory import run_together
from masquerade.net.script import Script
from masquerade.protocol.learn.aggregate import prepare_aggregation
from masquerade.protocol.learn.cox import CoxModel, cox_model
from masquerade.protocol.learn.pooled_cox import pooled_cox
from masquerade.protocol.learn.risk_sets import Deaths, Survival
from masquerade.protocol.learn.shared_numbers import prepare_shared_numbers
from masquerade.protocol.learn.time_units import agreed_unit, in_steps, own_unit
from protocol.tampering import changing

NAMES = ("anna", "berta", "carla")


def site(me: int, names: Sequence[str], records: Survival, unit: float = 1.0) -> Script[CoxModel]:
    sums = yield from prepare_aggregation(me, names, b"test")
    shared = yield from prepare_shared_numbers(me, names, b"test")
    return (yield from cox_model(sums, shared, records, unit))


def learned(parts: Sequence[Survival], unit: float = 1.0) -> CoxModel:
    names = NAMES[: len(parts)]
    found = run_together({name: site(me, names, parts[me], unit) for me, name in enumerate(names)})
    assert len({repr(each) for each in found.values()}) == 1
    model: CoxModel = found[names[0]]
    return model


def split(records: Survival, sizes: Sequence[int]) -> list[Survival]:
    order = np.random.default_rng(0).permutation(len(records.x))
    return [
        Survival(records.x[some], records.steps[some], records.died[some])
        for some in np.split(order, np.cumsum(sizes)[:-1])
    ]


def pooled(records: Survival) -> Any:
    """The fitted model of lifelines."""
    lifelines, pandas = pytest.importorskip("lifelines"), pytest.importorskip("pandas")
    frame = pandas.DataFrame(records.x).assign(time=records.steps, died=records.died)
    return lifelines.CoxPHFitter().fit(frame, "time", "died")


def patients(n: int, seed: int, last: int = 12) -> Survival:
    """Patients of whom many die at the same time, and some are not followed to the end."""
    random = np.random.default_rng(seed)
    x = np.column_stack([random.normal(60, 10, n), random.integers(0, 2, n)])
    hazard = np.exp(0.05 * (x[:, 0] - 60) + 0.8 * x[:, 1]) / 8
    death, leaves = random.exponential(1 / hazard), random.exponential(12, n)
    return Survival(x, in_steps(np.minimum(np.minimum(death, leaves), last), 1.0), death <= leaves)


def test_the_lung_data_of_three_sites_give_lifelines_model() -> None:
    datasets = pytest.importorskip("lifelines.datasets")
    table = datasets.load_lung()[["time", "status", "age", "sex", "ph.ecog"]].dropna()
    records = Survival(
        table[["age", "sex", "ph.ecog"]].to_numpy(float),
        table["time"].to_numpy(np.int64),
        table["status"].to_numpy() == 1,
    )
    model, reference = learned(split(records, (120, 70, 37))), pooled(records)
    np.testing.assert_allclose(model.coefficients, reference.params_, rtol=1e-4)
    np.testing.assert_allclose(model.errors, reference.standard_errors_, rtol=5e-3)
    assert model.n_records == 227
    assert model.n_deaths == 164
    until = reference.baseline_cumulative_hazard_.iloc[:, 0]
    for time, hazard in model.baseline:
        assert hazard == pytest.approx(until[until.index <= time].iloc[-1], rel=1e-4)


@pytest.mark.parametrize("sizes", [(30, 20), (25, 20, 5)])
def test_tied_deaths_count_as_efron_says(sizes: tuple[int, ...]) -> None:
    records = patients(50, seed=3)
    assert np.bincount(records.steps[records.died]).max() > 3
    np.testing.assert_allclose(
        learned(split(records, sizes)).coefficients, pooled(records).params_, rtol=1e-4
    )


@settings(max_examples=examples(5), deadline=None)
@given(st.integers(0, 1000))
def test_one_tables_model_is_lifelines(seed: int) -> None:
    records = patients(60, seed)
    model, reference = pooled_cox(records), pooled(records)
    np.testing.assert_allclose(model.coefficients, reference.params_, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(model.errors, reference.standard_errors_, rtol=1e-4)
    until = reference.baseline_cumulative_hazard_.iloc[:, 0]
    assert model.baseline[-1][1] == pytest.approx(until.iloc[-1], rel=1e-4)


UNITS = {  # durations that end by death, and the unit in which they are counted
    "whole": ([3.0, 700.0, 16_383.0], 1.0),
    "tenths": ([0.3, 7.1, 12.0], 0.1),
    "long": ([3.0, 20_000.0], 2.0),
    "fine": ([0.123456789123, 1.0], 6.1039e-5),
}


@pytest.mark.parametrize("case", UNITS)
def test_sites_agree_on_the_unit_of_all_durations(case: str) -> None:
    durations, unit = UNITS[case]
    own = [np.array(durations[:1]), np.array(durations[1:])]

    def site(me: int) -> Script[float]:
        shared = yield from prepare_shared_numbers(me, NAMES[:2], b"test")
        return (yield from agreed_unit(shared.bits, own[me], np.ones(len(own[me]), bool)))

    found = run_together({name: site(me) for me, name in enumerate(NAMES[:2])})
    assert set(found.values()) == {own_unit(np.array(durations), np.ones(len(durations), bool))}
    assert found["anna"] == pytest.approx(unit)


def test_durations_with_decimals_are_not_rounded_to_whole_ones() -> None:
    random = np.random.default_rng(8)
    x, months = random.normal(size=(60, 1)), random.exponential(2.0, 60)
    died = np.arange(60) % 4 > 0
    lifelines, pandas = pytest.importorskip("lifelines"), pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": x[:, 0], "months": months, "died": died})
    exact = lifelines.CoxPHFitter().fit(frame, "months", "died")
    unit = own_unit(months, died)
    model = pooled_cox(Survival(x, in_steps(months, unit), died), unit)
    np.testing.assert_allclose(model.coefficients, exact.params_, atol=1e-3)


def test_a_unit_of_time_rounds_durations_up() -> None:
    assert in_steps(np.array([0.0, 0.3, 30.0, 30.1]), 0.1).tolist() == [0, 3, 300, 301]
    assert in_steps(np.array([1.0, 30.0, 31.0]), 30.0).tolist() == [1, 1, 2]
    for durations, unit in ((np.array([-1.0]), 1.0), (np.array([np.inf]), 1.0), (np.array([1.0]), 0.0)):
        with pytest.raises(ParameterError):
            in_steps(durations, unit)


@settings(max_examples=examples(10), deadline=None)
@given(st.integers(0, 1000))
def test_sums_over_risk_sets_are_those_of_their_definition(seed: int) -> None:
    records = patients(30, seed, last=6)
    steps = records.steps[records.died]
    times, counts = np.unique(steps, return_counts=True)
    deaths = Deaths(times, counts)
    weights = np.random.default_rng(seed).random(30)
    zeroth, first, second = records.sums(weights, deaths)
    row = 0
    for time, count in zip(times, counts, strict=True):
        for number in range(count):
            dead = records.died & (records.steps == time)
            counted = weights * ((records.steps >= time) - number / count * dead)
            assert zeroth[row] == pytest.approx(counted.sum())
            np.testing.assert_allclose(first[row], counted @ records.x)
            np.testing.assert_allclose(second[row][1], counted @ (records.x[:, 0] * records.x[:, 1]))
            row += 1
    assert row == len(zeroth)


def test_an_attribute_that_tells_who_dies_first_has_no_coefficient() -> None:
    records = Survival(np.arange(20.0)[:, None], np.arange(20, 0, -1), np.ones(20, bool))
    with pytest.raises(AnswerIsNo, match="grow without end"):
        learned(split(records, (12, 8)))


def test_where_nobody_dies_there_is_no_model() -> None:
    with pytest.raises(AnswerIsNo, match="nobody dies"):
        learned(split(Survival(np.ones((4, 1)), np.ones(4, np.int64), np.zeros(4, bool)), (2, 2)))


def test_too_fine_a_unit_is_refused() -> None:
    with pytest.raises(AnswerIsNo, match="set a larger unit"):
        learned(split(Survival(np.ones((4, 1)), np.full(4, 10**6), np.ones(4, bool)), (2, 2)))


def test_a_first_site_that_tells_other_coefficients_is_named() -> None:
    parts = split(patients(20, seed=1), (12, 8))
    scripts = {name: site(me, NAMES[:2], parts[me]) for me, name in enumerate(NAMES[:2])}
    lying = changing(scripts["anna"], "learn-coefficients", values=lambda told: (told[0] + 0.01, *told[1:]))
    with pytest.raises(PeerBrokeProtocol, match="anna"):
        run_together(scripts | {"anna": lying})
