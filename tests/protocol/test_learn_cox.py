"""Cox regression of several sites: the pooled records' model, with ties as lifelines has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from examples import examples
from masquerade.errors import AnswerIsNo, ParameterError, PeerBrokeProtocol
from masquerade.net import Script
from masquerade.net.memory import run_together
from masquerade.protocol.learn.cox import (
    Between,
    CoxModel,
    Curve,
    Deaths,
    Survival,
    agreed_unit,
    cox_model,
    in_steps,
    own_unit,
    pooled_cox,
    survival_curves,
)
from masquerade.protocol.learn.identified import DesignColumns
from masquerade.protocol.learn.shared_numbers import prepare_shared_numbers
from masquerade.protocol.learn.step_checks import StepGuard
from masquerade.protocol.learn.sums import prepare_aggregation
from protocol.tampering import changing

NAMES = ("anna", "berta", "carla")


def site(me: int, names: Sequence[str], records: Survival, **more: Any) -> Script[CoxModel]:
    sums = yield from prepare_aggregation(me, names, b"test")
    shared = yield from prepare_shared_numbers(me, names, b"test")
    guard = StepGuard(me, tuple(names), min_records=1, most_records=1 << 12)
    return (yield from cox_model(sums, shared, records, guard=guard, **more))


def learned(parts: Sequence[Survival], **more: Any) -> CoxModel:
    names = NAMES[: len(parts)]
    found = run_together({name: site(me, names, parts[me], **more) for me, name in enumerate(names)})
    assert len({repr(each) for each in found.values()}) == 1
    model: CoxModel = found[names[0]]
    return model


def split(records: Survival, sizes: Sequence[int]) -> list[Survival]:
    order = np.random.default_rng(0).permutation(len(records.x))
    return [
        Survival(records.x[some], records.steps[some], records.died[some])
        for some in np.split(order, np.cumsum(sizes)[:-1])
    ]


def pooled(records: Survival, **more: Any) -> Any:
    """The fitted model of lifelines."""
    lifelines, pandas = pytest.importorskip("lifelines"), pytest.importorskip("pandas")
    frame = pandas.DataFrame(records.x).assign(time=records.steps, died=records.died)
    return lifelines.CoxPHFitter(**more).fit(frame, "time", "died")


def survival_of(model: CoxModel, times: Any, between: Between = "constant") -> Any:
    """An average record's survival."""
    return survival_curves(model.baseline, np.zeros(1), times, between)[0]


def pooled_survival(reference: Any, times: Any) -> Any:
    until = reference.baseline_cumulative_hazard_.iloc[:, 0]
    place = np.searchsorted(until.index, times, "right")
    return np.exp(-np.append(0.0, until.to_numpy())[place])


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
    np.testing.assert_allclose(model.errors, reference.standard_errors_, rtol=1e-4)
    assert model.n_records == 227
    assert model.n_deaths == 164
    times = np.arange(0, 1100)
    risks = reference.predict_log_partial_hazard(table[["age", "sex", "ph.ecog"]].set_axis([0, 1, 2], axis=1))
    own = survival_curves(model.baseline, risks.to_numpy(), times)
    theirs = pooled_survival(reference, times)[None, :] ** np.exp(risks.to_numpy())[:, None]
    assert np.abs(own - theirs).max() < 0.005  # of each patient, at any time


def heavily_censored(seed: int, n: int = 400) -> Survival:
    """About 200 deaths; at the end few are left, of whom each death is a large step of the curve."""
    random = np.random.default_rng(seed)
    x = np.column_stack([random.normal(60, 10, n), random.integers(0, 2, n)])
    death = random.exponential(300 / np.exp(0.05 * (x[:, 0] - 60) + 0.8 * x[:, 1]))
    leaves = random.exponential(200, n)
    return Survival(x, in_steps(np.minimum(death, leaves), 1.0), death <= leaves)


def test_survival_of_several_sites_is_as_exact_as_agreed_at_any_time() -> None:
    """And no more exact: steps below the error are not seen, so fewer times are told."""
    records = heavily_censored(seed=1)
    one, times = pooled_cox(records), np.arange(int(records.steps.max()) + 2)
    risks, told = np.log([0.01, 0.3, 1.0, 3.0, 100.0]), []
    expected = survival_curves(one.baseline, risks, times)
    assert np.abs(np.diff(expected)).max() > 0.03  # one death, of few who are left
    for error in (0.005, 0.05):
        model = learned(split(records, (250, 150)), curve=Curve(error))
        assert np.abs(survival_curves(model.baseline, risks, times) - expected).max() <= error
        told.append(len(model.baseline))
        sizes = np.array([hazard for _, hazard in model.baseline])
        digits = np.array([next(k for k in range(30) if (each * 2**k).is_integer()) for each in sizes])
        most = np.maximum(-np.log2(4 * np.e * error), 2 - np.log2(np.e * error * sizes))
        assert (digits <= most + 1).all()  # the last one says that it is the middle
    assert told[1] < told[0] / 2
    assert told[0] <= len(one.baseline)


def test_a_step_of_the_baseline_is_a_grid_with_straight_lines() -> None:
    records = patients(60, seed=5, last=30)
    curve = Curve(1e-4, step=4.0)
    exact = pooled_cox(records)
    last = int(records.steps[records.died].max())
    grid = np.arange(4, last + 4, 4)
    for model in (pooled_cox(records, curve=curve), learned(split(records, (40, 20)), curve=curve)):
        assert [time for time, _ in model.baseline] == grid.tolist()
        np.testing.assert_allclose(survival_of(model, grid), survival_of(exact, grid), atol=2e-4)
        middle = np.log(survival_of(model, [6.0], "linear"))
        ends = np.log(survival_of(model, [4.0, 8.0]))
        assert middle == pytest.approx(ends.mean())


def test_too_fine_a_step_of_the_baseline_is_refused() -> None:
    records = patients(20, seed=5)
    for fit in (
        lambda: pooled_cox(records, curve=Curve(step=1e-9)),
        lambda: learned(split(records, (12, 8)), curve=Curve(step=1e-9)),
    ):
        with pytest.raises(ParameterError) as caught:
            fit()
        assert {each.key for each in caught.value.problems} == {("algorithm", "baseline_step")}


@pytest.mark.parametrize("n_sites", [1, 2])
def test_a_ridge_is_lifelines_penalty(n_sites: int) -> None:
    """Its penalty is of the mean likelihood, and of columns by the deviation of a sample."""
    records, ridge = patients(60, seed=7), 6.0
    reference = pooled(records, penalizer=ridge / 60 * (59 / 60))
    model = pooled_cox(records, ridge=ridge) if n_sites == 1 else learned(split(records, (40, 20)), ridge=ridge)
    np.testing.assert_allclose(model.coefficients, reference.params_, rtol=1e-4)
    np.testing.assert_allclose(model.errors, reference.standard_errors_, rtol=1e-4)


def both_ways(records: Survival, **more: Any) -> list[list[str]]:
    """The columns that one table's and two sites' refusals name."""
    half = len(records.x) // 2
    named = []
    for fit in (lambda: pooled_cox(records, **more), lambda: learned(split(records, (half, half)), **more)):
        with pytest.raises(AnswerIsNo) as caught:
            fit()
        named.append([each.column for each in caught.value.problems])
    return named


def test_a_column_that_follows_from_another_is_named() -> None:
    records = patients(60, seed=3)
    twice = Survival(np.column_stack([records.x, 2 * records.x[:, 0]]), records.steps, records.died)
    assert both_ways(twice) == [["x3"], ["x3"]]
    model = learned(split(twice, (30, 30)), ridge=1.0)
    assert 2 * model.coefficients[2] == pytest.approx(model.coefficients[0], rel=1e-3)
    constant = Survival(np.column_stack([records.x, np.ones(60)]), records.steps, records.died)
    assert both_ways(constant, ridge=1.0) == [["x3"], ["x3"]]


@pytest.mark.parametrize("town", [0, 1, 2])
def test_a_category_of_which_nobody_dies_is_named(town: int) -> None:
    records = patients(60, seed=3)
    towns = np.arange(60) % 3
    x = np.column_stack([records.x[:, 0], towns == 1, towns == 2]).astype(float)
    columns = DesignColumns(("age", "town"), {"town": ("A", "B", "C")})
    nobody = Survival(x, records.steps, records.died & (towns != town))
    assert both_ways(nobody, columns=columns) == [["town"], ["town"]]
    everybody = Survival(x, records.steps, records.died | (towns == town))
    assert np.abs(learned(split(everybody, (30, 30)), columns=columns).coefficients).max() < 10


@pytest.mark.parametrize("sizes", [(30, 20), (25, 20, 5)])
def test_tied_deaths_count_as_efron_says(sizes: tuple[int, ...]) -> None:
    records = patients(50, seed=3)
    assert np.bincount(records.steps[records.died]).max() > 3
    np.testing.assert_allclose(learned(split(records, sizes)).coefficients, pooled(records).params_, rtol=1e-4)


@settings(max_examples=examples(5), deadline=None)
@given(st.integers(0, 1000))
def test_one_tables_model_is_lifelines(seed: int) -> None:
    records = patients(60, seed)
    model, reference = pooled_cox(records), pooled(records)
    np.testing.assert_allclose(model.coefficients, reference.params_, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(model.errors, reference.standard_errors_, rtol=1e-4)
    until = reference.baseline_cumulative_hazard_.iloc[:, 0]
    told = until[until.index.isin(records.steps[records.died])]
    np.testing.assert_allclose(model.baseline, np.column_stack([told.index, told]), rtol=1e-4)


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
    with pytest.raises(AnswerIsNo, match="column x1: the coefficients of x1 grow without end"):
        learned(split(records, (12, 8)))
    with pytest.raises(AnswerIsNo, match="column x1: the coefficients of x1 grow without end"):
        pooled_cox(records)


@pytest.mark.parametrize(("step", "dies", "told"), [(1, False, "nobody dies"), (10**6, True, "set a larger unit")])
def test_without_deaths_or_with_too_fine_a_unit_there_is_no_model(step: int, dies: bool, told: str) -> None:
    with pytest.raises(AnswerIsNo, match=told):
        learned(split(Survival(np.eye(4)[:, :1], np.full(4, step), np.full(4, dies)), (2, 2)))


def test_a_first_site_that_tells_other_coefficients_is_named() -> None:
    parts = split(patients(20, seed=1), (12, 8))
    scripts = {name: site(me, NAMES[:2], parts[me]) for me, name in enumerate(NAMES[:2])}
    lying = changing(scripts["anna"], "learn-coefficients", values=lambda told: (told[0] + 0.01, *told[1:]))
    with pytest.raises(PeerBrokeProtocol, match="anna"):
        run_together(scripts | {"anna": lying})
