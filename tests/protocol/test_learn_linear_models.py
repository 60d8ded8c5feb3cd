"""Models of several sites' records are those of the pooled records, and no sum tells a summand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from masquerade.crypto.rings import WidePowerOfTwo
from masquerade.crypto.secure_sum import unmask_sum
from masquerade.errors import AnswerIsNo, ParameterError, PeerBrokeProtocol
from masquerade.net.memory import Wire, run_together
from masquerade.net.script import Script, Send
from masquerade.protocol.learn.aggregate import Numbers, prepare_aggregation
from masquerade.protocol.learn.linear_models import (
    Coefficients,
    LinearModel,
    Logistic,
    Loss,
    SquaredHinge,
    linear_model,
)

NAMES = ("anna", "berta", "carla")


def patients(n: int, seed: int) -> tuple[Numbers, Numbers]:
    """Attributes in very different units, and an outcome that depends on two of them."""
    random = np.random.default_rng(seed)
    x = np.column_stack(
        [random.normal(60, 10, n), random.normal(50_000, 20_000, n), random.integers(0, 2, n).astype(float)]
    )
    chance = 1 / (1 + np.exp(-0.1 * (x[:, 0] - 60) + 0.00003 * (x[:, 1] - 50_000)))
    return x, np.where(random.random(n) < chance, 1.0, -1.0)


def learned(parts: Sequence[tuple[Numbers, Numbers]], loss: Loss) -> list[LinearModel]:
    def whole(me: int, names: Sequence[str]) -> Script[LinearModel]:
        sums = yield from prepare_aggregation(me, names, b"test")
        return (yield from linear_model(me, names, sums, *parts[me], loss))

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
    assert models[0].intercept == pytest.approx(
        pooled.intercept_[0] - pooled.coef_[0] @ (mean / deviation), rel=1e-5
    )


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


@pytest.mark.parametrize("value", [0.1, 1e9 + 0.1, 1e15 + 0.1])
@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge()])
def test_a_column_that_does_not_vary_has_no_coefficient(value: float, loss: Loss) -> None:
    x, y = patients(60, seed=4)
    model = learned(split(np.column_stack([x, np.full(60, value)]), y, (20, 40)), loss)[0]
    without = learned(split(x, y, (20, 40)), loss)[0]
    np.testing.assert_allclose(model.coefficients, (*without.coefficients, 0.0))
    assert model.intercept == pytest.approx(without.intercept)


@settings(max_examples=examples(6), deadline=None)
@given(st.integers(0, 1000), st.integers(2, 98))
def test_how_records_are_split_does_not_matter(seed: int, at: int) -> None:
    x, y = patients(100, seed)
    for loss in (Logistic(ridge=0.1), SquaredHinge(nu=2.0)):
        one, other = (learned(split(x, y, sizes), loss)[0] for sizes in ((at, 100 - at), (50, 30, 20)))
        np.testing.assert_allclose(one.coefficients, other.coefficients, rtol=1e-6, atol=1e-12)


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
        with pytest.raises(AnswerIsNo, match="tell the classes apart perfectly; set a penalty"):
            learned(split(each, y, (10, 10)), Logistic())
    assert learned(split(x, y, (10, 10)), Logistic(ridge=1.0))[0].coefficients[0] > 0


def test_a_first_site_that_tells_other_coefficients_is_named() -> None:
    x, y = patients(60, seed=1)
    parts = split(x, y, (30, 30))

    def site(me: int) -> Script[LinearModel]:
        sums = yield from prepare_aggregation(me, NAMES[:2], b"test")
        script = linear_model(me, NAMES[:2], sums, *parts[me], Logistic())
        return (yield from (shifting(script) if me == 0 else script))

    with pytest.raises(PeerBrokeProtocol, match="anna"):
        run_together({name: site(me) for me, name in enumerate(NAMES[:2])})


def shifting(script: Script[Any]) -> Script[Any]:
    """Run a script that tells other coefficients than it has."""
    heard = None
    while True:
        try:
            move = script.send(heard)
        except StopIteration as end:
            return end.value
        if isinstance(move, Send) and isinstance(move.message, Coefficients):
            first, *others = move.message.values
            move = Send(move.peers, Coefficients((first + 0.01, *others)))
        heard = yield move


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
