"""Cox regression in Python: lifelines' model, survival curves, files, and what is no outcome."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.utils import estimator_checks

import masquerade as mq
from masquerade.protocol.learn import projected
from masquerade.protocol.learn.projection import random_matrix


def patients(n: int = 80) -> pd.DataFrame:
    random = np.random.default_rng(3)
    frame = pd.DataFrame({"age": random.normal(60, 10, n), "town": random.choice(["A", "B"], n)})
    death = random.exponential(10 * np.exp(-0.05 * (frame["age"] - 60)))
    leaves = random.exponential(15, n)
    return frame.assign(months=np.ceil(np.minimum(death, leaves)), died=death <= leaves)


@pytest.mark.parametrize(
    "check",
    [
        estimator_checks.check_parameters_default_constructible,
        estimator_checks.check_no_attributes_set_in_init,
        estimator_checks.check_get_params_invariance,
        estimator_checks.check_set_params,
        estimator_checks.check_estimator_repr,
        estimator_checks.check_estimator_cloneable,
    ],
    ids=lambda check: check.__name__,
)
def test_scikit_learns_own_checks_that_need_no_outcome(check: Callable[[str, Any], None]) -> None:
    """The others fit to one column of outcomes, and survival has two."""
    check("CoxRegression", mq.CoxRegression())
    check("PpCox", mq.PpCox())


def test_it_is_lifelines_model() -> None:
    lifelines = pytest.importorskip("lifelines")
    frame = patients()
    model = mq.CoxRegression().fit(frame[["age", "town"]], frame[["months", "died"]])
    plain = frame.assign(town=(frame["town"] == "B").astype(float), died=frame["died"].astype(int))
    reference = lifelines.CoxPHFitter().fit(plain, "months", "died")
    np.testing.assert_allclose(model.coef_, reference.params_, rtol=1e-4)
    times = np.arange(0, 40)  # also between deaths
    curves = model.predict_survival_function(frame[["age", "town"]].head(3), times=times)
    expected = reference.predict_survival_function(plain.head(3)).T
    for row, (_, curve) in zip(curves, expected.iterrows(), strict=True):
        steps = [curve[curve.index <= time].iloc[-1] if time >= curve.index[0] else 1.0 for time in times]
        np.testing.assert_allclose(row, steps, atol=1e-5)
    summary = reference.summary
    np.testing.assert_allclose(model.standard_errors_, summary["se(coef)"], rtol=1e-4)
    np.testing.assert_allclose(model.z_values_, summary["z"], rtol=1e-4)
    np.testing.assert_allclose(model.p_values_, summary["p"], rtol=1e-3)
    bounds = summary[["coef lower 95%", "coef upper 95%"]].to_numpy()
    np.testing.assert_allclose(model.confidence_intervals_, bounds, rtol=1e-4)
    assert model.inference_["coefficient_of"].to_pylist() == ["age", "town = A", "town = B"]
    own = model.score(frame[["age", "town"]], frame[["months", "died"]])
    assert own == pytest.approx(reference.concordance_index_, abs=1e-6)


def test_a_model_is_saved_and_loaded(tmp_path: Path) -> None:
    frame = patients()
    model = mq.CoxRegression(unit=2.0).fit(frame[["age"]], frame[["months", "died"]].to_numpy(float))
    model.save(tmp_path / "cox.json")
    loaded = mq.load_model(tmp_path / "cox.json")
    assert loaded.unit == 2.0
    np.testing.assert_array_equal(loaded.predict(frame[["age"]]), model.predict(frame[["age"]]))
    chances = loaded.predict_survival_function(frame[["age"]], times=[0, 6, 1000])
    assert (np.diff(chances, axis=1) <= 0).all()
    assert (chances[:, 0] == 1).all()


def test_mapped_records_have_risks_and_curves_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Of a fresh matrix, as always, lifelines may say that its rows are nearly the same.
    monkeypatch.setattr(projected, "random_matrix", lambda _, *shape: random_matrix(bytes(32), *shape))
    frame = patients().assign(dose=lambda each: each["age"] % 7)
    x, y = frame[["age", "dose", "town"]], frame[["months", "died"]]
    model = mq.PpCox().fit(x, y)
    assert model.score(x, y) == pytest.approx(model.learned_.metrics["concordance"], abs=1e-6)
    curves = model.predict_survival_function(x, times=[0, 6, 12])
    assert (curves[:, 0] == 1).all()
    assert (np.diff(curves, axis=1) <= 0).all()
    model.save(tmp_path / "model.json")
    loaded = mq.load_model(tmp_path / "model.json")
    np.testing.assert_allclose(loaded.predict(x), model.predict(x))
    np.testing.assert_allclose(loaded.predict_survival_function(x, times=[0, 6, 12]), curves)
    with pytest.warns(UserWarning, match='column town: 1 row has a value that the model has never seen: "C"'):
        said = model.predict(x.assign(town=["C", *x["town"][1:]]))
    assert np.isnan(said[0])
    np.testing.assert_allclose(said[1:], model.predict(x)[1:])


def test_columns_that_leave_a_coefficient_open_are_named() -> None:
    frame = patients().assign(years=lambda each: 2 * each["age"])
    with pytest.raises(mq.AnswerIsNo, match="column years: years is a linear function of age"):
        mq.CoxRegression().fit(frame[["age", "years"]], frame[["months", "died"]])
    model = mq.CoxRegression(ridge=1.0).fit(frame[["age", "years"]], frame[["months", "died"]])
    assert model.learned_.model.as_json()["conditional_on"] == "ridge = 1"


def test_a_file_of_ten_times_is_read_with_straight_lines(tmp_path: Path) -> None:
    """As files were before every time was kept; they do not say what is between."""
    written = {
        "algorithm": {"name": "cox", "unit": 1.0, "baseline_points": 2},
        "coefficients": {"age": 0.0},
        "standard_errors": {"age": 1.0},
        "center": 0.0,
        "baseline": [{"time": 10.0, "cumulative_hazard": 0.2}, {"time": 20.0, "cumulative_hazard": 0.8}],
    }
    (tmp_path / "old.json").write_text(json.dumps(written))
    model = mq.load_model(tmp_path / "old.json")
    found = model.predict_survival_function(pd.DataFrame({"age": [60.0]}), times=[0, 5, 15, 30])
    np.testing.assert_allclose(-np.log(found[0]), [0.0, 0.1, 0.5, 0.8])


@pytest.mark.parametrize("y", [np.ones(80), np.ones((80, 3)), np.full((80, 2), 0.5), np.ones((79, 2))])
def test_what_is_no_outcome_is_refused(y: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"outcome|events"):
        mq.CoxRegression().fit(patients()[["age"]], y)
