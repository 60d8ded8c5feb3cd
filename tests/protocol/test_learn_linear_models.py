"""Models of several sites' records are those of the pooled records, and no sum tells a summand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from examples import examples
from masquerade.crypto import WidePowerOfTwo, unmask_sum
from masquerade.errors import AnswerIsNo, ParameterError, PeerBrokeProtocol
from masquerade.net import Script
from masquerade.net.memory import Wire, run_together
from masquerade.protocol.learn.identified import DesignColumns
from masquerade.protocol.learn.linear import LinearModel, Logistic, Loss, SquaredHinge, linear_model
from masquerade.protocol.learn.step_checks import StepGuard
from masquerade.protocol.learn.sums import Numbers, prepare_aggregation
from protocol.tampering import changing

NAMES = ("anna", "berta", "carla")


def patients(n: int, seed: int) -> tuple[Numbers, Numbers]:
    """Attributes in very different units, and an outcome that depends on two of them."""
    random = np.random.default_rng(seed)
    x = np.column_stack(
        [random.normal(60, 10, n), random.normal(50_000, 20_000, n), random.integers(0, 2, n).astype(float)]
    )
    chance = 1 / (1 + np.exp(-0.1 * (x[:, 0] - 60) + 0.00003 * (x[:, 1] - 50_000)))
    return x, np.where(random.random(n) < chance, 1.0, -1.0)


def learned(
    parts: Sequence[tuple[Numbers, Numbers]], loss: Loss, columns: DesignColumns | None = None, min_records: int = 1
) -> list[LinearModel]:
    def whole(me: int, names: Sequence[str]) -> Script[LinearModel]:
        sums = yield from prepare_aggregation(me, names, b"test")
        guard = StepGuard(me, tuple(names), min_records, most_records=1 << 12)
        return (yield from linear_model(me, names, sums, *parts[me], loss, columns=columns, guard=guard))

    names = NAMES[: len(parts)]
    found = run_together({name: whole(me, names) for me, name in enumerate(names)})
    return [found[name] for name in names]


def split(x: Numbers, y: Numbers, sizes: Sequence[int]) -> list[tuple[Numbers, Numbers]]:
    ends = np.cumsum(sizes)[:-1]
    return list(zip(np.split(x, ends), np.split(y, ends), strict=True))


def test_logistic_regression_is_that_of_the_pooled_records() -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    x, y = patients(130, seed=4)
    models = learned(split(x, y, (70, 37, 23)), Logistic())
    assert models[0] == models[1] == models[2]
    mean, deviation = x.mean(axis=0), x.std(axis=0)
    pooled = linear.LogisticRegression(C=np.inf, tol=1e-12, max_iter=1000).fit((x - mean) / deviation, y)
    np.testing.assert_allclose(models[0].coefficients, pooled.coef_[0] / deviation, rtol=1e-5)
    assert models[0].intercept == pytest.approx(pooled.intercept_[0] - pooled.coef_[0] @ (mean / deviation), rel=1e-5)


def gradient(model: LinearModel, x: Numbers, y: Numbers) -> Numbers:
    """Return the log-likelihood's gradient for each record, by standardised attributes and the intercept."""
    score = x @ np.array(model.coefficients) + model.intercept
    standard = np.column_stack([(x - x.mean(axis=0)) / x.std(axis=0), np.ones(len(x))])
    return np.asarray(standard.T @ (y / (1 + np.exp(y * score))) / len(x))


@pytest.mark.parametrize("unit", [1e-20, 1e-10, 1.0, 1e9, 1e20])
def test_units_do_not_matter(unit: float) -> None:
    x, y = patients(60, seed=4)
    model = learned(split(x * unit, y, (30, 30)), Logistic())[0]
    assert np.abs(gradient(model, x * unit, y)).max() < 1e-8
    assert np.abs(np.array(model.coefficients) * unit).max() > 0.1


def test_columns_that_nearly_depend_on_each_other_may_have_large_coefficients() -> None:
    x, y = patients(60, seed=4)
    x = np.column_stack([x, x[:, 0] + 1e-3 * np.random.default_rng(1).normal(size=60)])
    model = learned(split(x, y, (30, 30)), Logistic())[0]
    assert np.abs(gradient(model, x, y)).max() < 1e-8
    assert np.abs(np.array(model.coefficients) * x.std(axis=0)).max() > 25


CONSTANTS = [0.1, 1e9 + 0.1, 1e15 + 0.1]


@pytest.mark.parametrize("value", CONSTANTS)
def test_of_a_column_that_does_not_vary_a_margin_has_no_coefficient(value: float) -> None:
    x, y = patients(60, seed=4)
    model = learned(split(np.column_stack([x, np.full(60, value)]), y, (20, 40)), SquaredHinge())[0]
    without = learned(split(x, y, (20, 40)), SquaredHinge())[0]
    np.testing.assert_allclose(model.coefficients, (*without.coefficients, 0.0))
    assert model.intercept == pytest.approx(without.intercept)


@pytest.mark.parametrize("value", CONSTANTS)
@pytest.mark.parametrize("ridge", [0.0, 1.0])
def test_a_column_that_does_not_vary_is_named(value: float, ridge: float) -> None:
    x, y = patients(60, seed=4)
    assert refused(np.column_stack([x, np.full(60, value)]), y, ridge=ridge) == ["x4"]


def refused(x: Numbers, y: Numbers, ridge: float = 0.0, columns: DesignColumns | None = None) -> list[str]:
    """The columns that a refusal names, of two sites' logistic regression."""
    with pytest.raises(AnswerIsNo) as caught:
        learned(split(x, y, (25, len(x) - 25)), Logistic(ridge), columns)
    return [each.column for each in caught.value.problems]


def test_a_column_that_follows_from_others_is_named() -> None:
    x, y = patients(60, seed=4)
    months = 12 * x[:, 0] + 3
    both = x[:, 0] + x[:, 1]
    assert refused(np.column_stack([x, months, both]), y) == ["x4", "x5"]
    first, _ = learned(split(np.column_stack([x, months]), y, (30, 30)), Logistic(ridge=1.0))
    assert first.coefficients[3] * 12 == pytest.approx(first.coefficients[0])  # a ridge shares it out


@pytest.fixture
def towns() -> tuple[Numbers, Numbers, DesignColumns]:
    """The patients' age, and a town of which all, some or none of the patients have an outcome."""
    x, y = patients(90, seed=4)
    x = np.column_stack([x[:, 0], *(np.arange(90) % 3 == at for at in (1, 2))]).astype(float)
    return x, y, DesignColumns(("age", "town"), {"town": ("A", "B", "C")})


@pytest.mark.parametrize("outcome", [-1.0, 1.0])
@pytest.mark.parametrize("town", [0, 1, 2])
def test_a_category_of_one_class_is_named(
    towns: tuple[Numbers, Numbers, DesignColumns], town: int, outcome: float
) -> None:
    x, y, columns = towns
    y[np.arange(90) % 3 == town] = outcome
    with pytest.raises(AnswerIsNo, match=f'column town: all records with "{"ABC"[town]}" have one class'):
        learned(split(x, y, (25, 65)), Logistic(), columns)
    model, _ = learned(split(x, y, (45, 45)), Logistic(ridge=1.0), columns)
    assert np.abs(model.coefficients).max() < 10


def test_of_many_categories_of_one_class_some_are_named_in_one_line() -> None:
    x, y = np.eye(40)[np.arange(120) % 40][:, 1:], np.tile([1.0, -1.0], 60)
    columns = DesignColumns(("town",), {"town": tuple(f"t{at}" for at in range(40))})
    with pytest.raises(AnswerIsNo) as caught:
        learned(split(x, y, (60, 60)), Logistic(), columns)
    (line,) = caught.value.lines
    assert '"t0" have one class (and with "t1", "t2", "t3", "t4", "t5", …)' in line


def test_categories_that_coincide_are_named(towns: tuple[Numbers, Numbers, DesignColumns]) -> None:
    x, y, columns = towns
    x = np.column_stack([x, x[:, 2]])
    columns = DesignColumns((*columns.attributes, "region"), {**columns.categories, "region": ("north", "south")})
    assert refused(x, y, columns=columns) == ["region"]


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_category_that_no_record_has_is_not_in_the_model(
    towns: tuple[Numbers, Numbers, DesignColumns], missing: int
) -> None:
    """As a taxonomy may list some; the first that occurs is what the others differ from."""
    x, y, columns = towns
    some = np.arange(90) % 3 != missing
    model, _ = learned(split(x[some], y[some], (30, 30)), Logistic(), columns)
    found = model.determined.by_attribute(model.coefficients)["town"]
    assert isinstance(found, dict)
    left = [each for at, each in enumerate("ABC") if at != missing]
    assert list(found) == left
    assert found[left[0]] == 0.0
    two = np.column_stack([x[some, 0], (np.arange(90) % 3 == "ABC".index(left[1]))[some]])
    plain, _ = learned(split(two, y[some], (30, 30)), Logistic())
    assert found[left[1]] == pytest.approx(plain.coefficients[1])


def test_a_category_that_few_records_have_is_named_before_its_products_are_opened(
    towns: tuple[Numbers, Numbers, DesignColumns],
) -> None:
    x, y, columns = towns
    some = np.arange(82)  # 28 of town A, 27 of each other
    with pytest.raises(AnswerIsNo) as caught:
        learned(split(x[some], y[some], (41, 41)), Logistic(), columns, min_records=28)
    assert [each.column for each in caught.value.problems] == ["town"]
    assert '"B", "C"' in caught.value.lines[0]


def test_what_separates_some_records_is_named_though_no_category_does() -> None:
    """A number above which all have one class, and below which both occur."""
    x, y = patients(80, seed=4)
    dose = np.where(np.arange(80) < 60, 0.0, np.arange(80) - 50.0)
    y[60:] = 1.0
    assert refused(np.column_stack([x, dose]), y) == ["x4"]


def test_a_rare_category_with_both_classes_has_a_coefficient() -> None:
    x, y = patients(3000, seed=4)
    rare = np.arange(3000) < 400
    y[rare] = -1.0
    y[0] = 1.0
    model, _ = learned(split(np.column_stack([x[:, 0], rare]), y, (1500, 1500)), Logistic())
    assert -8 < model.coefficients[1] < -4
    assert model.errors[1] == pytest.approx(1.0, rel=0.1)  # 1/√1, of the one


# statsmodels 0.15.0: Logit(status == 2, add_constant(columns)).fit(tol=1e-14), params and bse
LUNG_STATSMODELS = {
    "coefficients": [0.023392905103516, 1.141011852750580, 0.759114986239410, -0.007844583529073],
    "errors": [0.017889275311516, 0.328531728317284, 0.249509524789834, 0.012516212898692],
    "intercept": [-1.749267246895365, 1.091929413049204],
}


def test_standard_errors_are_statsmodels() -> None:
    datasets = pytest.importorskip("lifelines.datasets")
    names = ["age", "sex", "ph.ecog", "wt.loss"]
    table = datasets.load_lung()[["status", *names]].dropna()
    x = table[names].assign(sex=table["sex"] == 1).to_numpy(float)
    y = np.where(table["status"] == 1, 1.0, -1.0)
    for model in learned(split(x, y, (100, 63, 50)), Logistic()):
        np.testing.assert_allclose(model.coefficients, LUNG_STATSMODELS["coefficients"], rtol=1e-6)
        np.testing.assert_allclose(model.errors, LUNG_STATSMODELS["errors"], rtol=1e-5)
        np.testing.assert_allclose([model.intercept, model.intercept_error], LUNG_STATSMODELS["intercept"], rtol=1e-5)


@settings(max_examples=examples(10), deadline=None)
@given(st.integers(0, 1000), st.sampled_from([0.0, 0.5]))
def test_standard_errors_are_those_of_the_information_at_the_coefficients(seed: int, ridge: float) -> None:
    """Whatever the outcome's share, and with a ridge, those of the penalised likelihood."""
    random = np.random.default_rng(seed)
    x, _ = patients(300, seed)
    y = np.where(random.random(300) < random.uniform(0.05, 0.95), 1.0, -1.0)
    model, _ = learned(split(x, y, (150, 150)), Logistic(ridge))
    chance = 1 / (1 + np.exp(-(x @ np.array(model.coefficients) + model.intercept)))
    deviation = x.std(axis=0)
    own = np.column_stack([x, np.ones(300)])
    # The ridge is on standardised coefficients: in own units it weighs the squared deviation.
    information = (own * (chance * (1 - chance))[:, None]).T @ own + ridge * np.diag([*deviation**2, 0.0])
    expected = np.sqrt(np.diag(np.linalg.inv(information)))
    np.testing.assert_allclose([*model.errors, model.intercept_error], expected, rtol=1e-4)


@settings(max_examples=examples(6), deadline=None)
@given(st.integers(0, 1000), st.integers(2, 98))
def test_how_records_are_split_does_not_matter(seed: int, at: int) -> None:
    x, y = patients(100, seed)
    for loss in (Logistic(ridge=0.1), SquaredHinge(nu=2.0)):
        one, other = (learned(split(x, y, sizes), loss)[0] for sizes in ((at, 100 - at), (50, 30, 20)))
        np.testing.assert_allclose(one.coefficients, other.coefficients, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(("n", "off"), [(300, 0.1), (3000, 0.005)])
def test_a_margin_that_single_records_do_not_cross_is_nearly_the_pooled_one(n: int, off: float) -> None:
    parts = split(*patients(n, seed=4), (n // 2, n // 2))
    exact, private = (learned(parts, SquaredHinge(), min_records=least)[0] for least in (1, 10))
    np.testing.assert_allclose(private.coefficients, exact.coefficients, rtol=off, atol=off / 100)
    assert private.coefficients != exact.coefficients


def test_no_coefficients_are_better_than_the_support_vector_machines() -> None:
    x, y = patients(130, seed=4)
    (model, _) = learned(split(x, y, (70, 60)), SquaredHinge(nu=0.5))
    mean, deviation = x.mean(axis=0), x.std(axis=0)
    standard = np.column_stack([(x - mean) / deviation, np.ones(len(x))])
    own = np.array(model.coefficients) * deviation
    at = np.append(own, model.intercept + np.array(model.coefficients) @ mean)

    def objective(weights: Any) -> float:
        short = np.maximum(0, 1 - y * (standard @ weights))
        return float(0.25 * short @ short + weights @ weights / 2)

    best = objective(at)
    for direction in np.random.default_rng(1).normal(size=(50, 4)):
        assert objective(at + 1e-3 * direction) > best


def test_classes_that_are_told_apart_perfectly_have_no_unpenalised_model() -> None:
    x = np.arange(20.0)[:, None]
    y = np.where(x[:, 0] < 10, -1.0, 1.0)
    for each in (x, y[:, None]):  # with a narrow and a wide margin
        with pytest.raises(AnswerIsNo, match=r"column x1: .* apart perfectly; leave it out, or set ridge"):
            learned(split(each, y, (10, 10)), Logistic())
    assert learned(split(x, y, (10, 10)), Logistic(ridge=1.0))[0].coefficients[0] > 0


def test_a_first_site_that_tells_other_coefficients_is_named() -> None:
    x, y = patients(60, seed=1)
    parts = split(x, y, (30, 30))

    def site(me: int) -> Script[LinearModel]:
        sums = yield from prepare_aggregation(me, NAMES[:2], b"test")
        return (yield from linear_model(me, NAMES[:2], sums, *parts[me], Logistic()))

    lying = changing(site(0), "learn-coefficients", values=lambda told: (told[0] + 0.01, *told[1:]))
    with pytest.raises(PeerBrokeProtocol, match="anna"):
        run_together({"anna": lying, "berta": site(1)})


def test_a_sum_that_lacks_a_sites_summand_tells_nothing() -> None:
    """A site that drops out in a round leaves the others with numbers that are masked by its keys."""
    wire = Wire()

    def whole(me: int) -> Script[Numbers]:
        sums = yield from prepare_aggregation(me, NAMES, b"test")
        return (yield from sums.total(np.array([1.0, -2.0])))

    run_together({name: whole(me) for me, name in enumerate(NAMES)}, wire)
    told = {each.sender: each.data for each in wire.heard if each.kind == "sum-masked"}
    ring = WidePowerOfTwo()
    masked = {name: ring.decode(msgspec.msgpack.decode(data)["data"], 2) for name, data in told.items()}
    assert [each >> 256 for each in ring.signed(unmask_sum(list(masked.values()), ring))] == [3, -6]
    left = ring.signed(unmask_sum([masked["anna"], masked["berta"]], ring))
    assert all(abs(each) > 1 << 400 for each in left)  # of 512 random bits; a sum of summands has some 260


def test_numbers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ParameterError, match="in larger units"):
        learned(split(np.array([[1e300], [1.0]]), np.array([1.0, -1.0]), (1, 1)), Logistic())


@settings(max_examples=examples(20), deadline=None)
@given(st.lists(st.lists(st.floats(-1e15, 1e15), min_size=3, max_size=3), min_size=2, max_size=3))
def test_sums_are_exact_to_the_last_digit(rows: list[list[float]]) -> None:
    names = NAMES[: len(rows)]

    def whole(me: int) -> Script[Numbers]:
        sums = yield from prepare_aggregation(me, names, b"test")
        return (yield from sums.total(np.array(rows[me])))

    found = run_together({name: whole(me) for me, name in enumerate(names)})
    for total in found.values():
        np.testing.assert_allclose(total, np.sum(rows, axis=0), rtol=1e-12, atol=1e-9)
