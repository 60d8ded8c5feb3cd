"""Models in the manner of scikit-learn: its own checks, files, and several sites over real channels."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import masquerade as mq
from masquerade.files import PRIVATE
from masquerade.net import Agreement, PartyAddress, TrustStore, listen, trial_identities
from masquerade.protocol.learn import projected
from masquerade.protocol.learn.projection import random_matrix


@parametrize_with_checks(
    # The checks fit few records, of which numbers are categories, so each value is somebody's own: a floor of 1.
    # Without a penalty, classes that are told apart perfectly have no coefficients; the checks have such.
    [
        mq.DecisionTree(min_records=1),
        mq.BayesNet(min_records=1),
        mq.LogisticRegression(ridge=0.1),
        mq.SupportVectorMachine(),
    ]
)
@pytest.mark.filterwarnings("ignore:.* that the model has never seen")  # a tree's, of numbers as categories
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@parametrize_with_checks(
    [mq.PpSvm()],
    expected_failed_checks=lambda _: {"check_fit2d_1feature": "a single number is refused in our own words"},
)
def test_scikit_learns_own_checks_of_records_mapped_by_one_matrix(
    estimator: Any, check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a fresh matrix in every fit, as always, no two fits are the same."""
    monkeypatch.setattr(projected, "random_matrix", lambda _, *shape: random_matrix(bytes(32), *shape))
    check(estimator)


def patients(n: int = 120, seed: int = 2) -> tuple[pd.DataFrame, pd.Series]:
    random = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": random.normal(60, 10, n), "town": random.choice(["Aarau", "Bern"], n)})
    chance = 1 / (1 + np.exp(-0.1 * (frame["age"] - 60) - (frame["town"] == "Bern")))
    return frame, pd.Series(np.where(random.random(n) < chance, "died", "lives"))


@pytest.mark.parametrize("model", [mq.LogisticRegression(), mq.SupportVectorMachine(nu=2.0)])
def test_a_model_comes_back_from_its_file(model: Any, tmp_path: Path) -> None:
    x, y = patients()
    model.fit(x, y)
    model.save(tmp_path / "model.json")
    loaded = mq.load_model(tmp_path / "model.json")
    assert (loaded.predict(x) == model.predict(x)).all()
    assert loaded.get_params() == model.get_params()
    np.testing.assert_allclose(loaded.coef_, model.coef_)


def test_logistic_regression_is_scikit_learns() -> None:
    from sklearn.linear_model import LogisticRegression

    x, y = patients()
    ours = mq.LogisticRegression().fit(x, y)
    numbers = np.column_stack([x["age"], x["town"] == "Bern"]).astype(float)
    mean, deviation = numbers.mean(axis=0), numbers.std(axis=0)
    theirs = LogisticRegression(C=np.inf, tol=1e-10).fit((numbers - mean) / deviation, y)
    np.testing.assert_allclose(ours.coef_[0], theirs.coef_[0] / deviation, rtol=1e-4)
    np.testing.assert_allclose(ours.predict_proba(x), theirs.predict_proba((numbers - mean) / deviation), atol=1e-5)


@pytest.mark.parametrize(
    ("model", "ask"),
    [
        (mq.LogisticRegression(), "predict"),
        (mq.LogisticRegression(), "predict_proba"),
        (mq.SupportVectorMachine(), "decision_function"),
        (mq.PpSvm(), "decision_function"),
        (mq.PpSvm(), "predict"),
        (mq.BayesNet(), "predict_proba"),
        (mq.DecisionTree(), "predict"),
        (mq.DecisionTree(), "predict_proba"),
    ],
)
def test_a_value_that_the_model_has_never_seen_gives_nothing_and_a_warning(model: Any, ask: str) -> None:
    x, y = patients()
    if isinstance(model, mq.DecisionTree | mq.BayesNet):
        x["age"] = np.where(x["age"] > 60, "old", "young")
    model.fit(x, y)
    ours = getattr(model, ask)(x)
    with pytest.warns(UserWarning, match='column town: 1 row has a value .*: "Chur" \\(row 4\\)'):
        said = getattr(model, ask)(x.assign(town=[*x["town"][:3], "Chur", *x["town"][4:]]))
    assert np.all(pd.isna(said[3]))
    rest = np.arange(len(x)) != 3
    assert (said[rest] == ours[rest]).all()


LUNG = ["age", "sex", "ph.ecog", "wt.loss"]
LUNG_STATSMODELS = {  # statsmodels 0.15.0: Logit(status == 2, add_constant(X)).fit(tol=1e-14)
    "z_values_": [1.307649678154181, 3.473064408709505, 3.042428888752142, -0.626753762705061],
    "p_values_": [0.190992158791767, 0.000514551855865, 0.002346772588789, 0.530820656345305],
    "confidence_intervals_": [(-0.011669, 0.058455), (0.497101, 1.784922), (0.270085, 1.248145), (-0.032376, 0.016687)],
}


def test_what_standard_errors_tell_is_statsmodels(tmp_path: Path) -> None:
    datasets = pytest.importorskip("lifelines.datasets")
    table = datasets.load_lung()[["status", *LUNG]].dropna()
    x = table[LUNG].assign(sex=np.where(table["sex"] == 1, "male", "female"))
    model = mq.LogisticRegression().fit(x, table["status"])
    model.save(tmp_path / "model.json")
    for each in (model, mq.load_model(tmp_path / "model.json")):
        for name, expected in LUNG_STATSMODELS.items():
            np.testing.assert_allclose(getattr(each, name), expected, rtol=1e-4, err_msg=name)
        intercept, *others = each.inference_.to_pylist()
        assert intercept["coefficient_of"] == "intercept"
        assert intercept["standard_error"] == pytest.approx(1.091929413049204, rel=1e-5)
        assert [row["p"] for row in others if row["value"] == "female"] == [None]  # the others differ from it
    written = json.loads((tmp_path / "model.json").read_text())
    assert written["p"]["sex"]["male"] == pytest.approx(0.000514551855865, rel=1e-4)
    assert written["lower_95"]["age"] == pytest.approx(-0.011669, rel=1e-4)
    assert "conditional_on" not in written


def test_a_file_of_before_standard_errors_has_none(tmp_path: Path) -> None:
    old = {"algorithm": {"name": "logistic"}, "coefficients": {"age": 1.0}, "intercept": 0.0, "classes": ["a", "b"]}
    (tmp_path / "model.json").write_text(json.dumps(old))
    loaded = mq.load_model(tmp_path / "model.json")
    assert loaded.predict(pd.DataFrame({"age": [1.0, -1.0]})).tolist() == ["b", "a"]
    assert not hasattr(loaded, "p_values_")


def test_a_category_of_one_class_has_no_coefficient() -> None:
    x, y = patients()
    y[x["town"] == "Bern"] = "died"
    with pytest.raises(mq.AnswerIsNo, match='column town: all records with "Bern" have one class'):
        mq.LogisticRegression().fit(x, y)
    model = mq.LogisticRegression(ridge=1.0).fit(x, y)
    assert model.learned_.model.as_json()["conditional_on"] == "ridge = 1"


def test_numbers_as_classes_are_not_a_number_where_the_model_has_never_seen_a_value() -> None:
    x, y = patients()
    model = mq.LogisticRegression().fit(x, (y == "died").astype(int))
    with pytest.warns(UserWarning, match="120 rows have values"):
        assert np.isnan(model.predict(x.assign(town="Chur"))).all()


def test_a_tree_is_saved_and_loaded(tmp_path: Path) -> None:
    x = pd.DataFrame({"wind": ["weak", "strong"] * 20, "rain": ["yes", "yes", "no", "no"] * 10})
    y = np.array(["no", "no", "yes", "no"] * 10)
    model = mq.DecisionTree().fit(x, y)
    assert (model.predict(x) == y).all()
    model.save(tmp_path / "tree.json")
    loaded = mq.load_model(tmp_path / "tree.json")
    assert (loaded.predict(x[list(loaded.feature_names_in_)]) == y).all()


@pytest.mark.parametrize("model", [mq.DecisionTree, mq.BayesNet])
def test_a_column_that_numbers_the_people_is_refused_in_python_too(model: Any) -> None:
    x, y = days()
    assert model().min_records == 10
    with pytest.raises(ValueError, match="column person: 200 values in 200 records"):
        model().fit(x.assign(person=range(200)), y)
    with pytest.raises(mq.AnswerIsNo, match="at least 10 records"):
        model().fit(x[:9], y[:9])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("no json", "this is no file of a model"),
        ("{}", "this is no file of a model"),
        ('{"algorithm": {"name": "tds"}}', 'there is no method "tds" for models; there are id3'),
        ('{"algorithm": {"name": "bayes-net"}, "parents": {}}', "the net was learned without a class"),
        ('{"algorithm": {"name": "id3"}, "tree": {}}', "no model: a node of the tree"),
        ('{"algorithm": {"name": "logistic"}, "coefficients": {"a": "b"}}', "its coefficients are no numbers"),
    ],
)
def test_other_files_are_refused_in_one_line(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(mq.DataError, match=says):
        mq.load_model(tmp_path / "model.json")


def days(n: int = 200) -> tuple[pd.DataFrame, pd.Series]:
    random = np.random.default_rng(1)
    x = pd.DataFrame({"wind": random.choice(["weak", "strong"], n), "rain": random.choice(["yes", "no"], n)})
    return x, pd.Series(np.where((x["wind"] == "weak") & (x["rain"] == "no"), "out", "in"))


def test_a_net_says_how_likely_each_class_is(tmp_path: Path) -> None:
    x, y = days()
    model = mq.BayesNet().fit(x, y)
    chances = model.predict_proba(x)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    assert (model.classes_[chances.argmax(axis=1)] == model.predict(x)).all()
    assert model.score(x, y) > 0.9
    assert set(model.learned_.model.parents["class"]) == {"wind", "rain"}
    model.save(tmp_path / "net.json")
    loaded = mq.load_model(tmp_path / "net.json")
    assert loaded.get_params() == model.get_params()
    np.testing.assert_allclose(loaded.predict_proba(x), chances, atol=1e-6)
    said = mq.predict(tmp_path / "net.json", x)
    assert said.table["prediction"].to_pylist() == model.predict(x).tolist()


def test_a_model_of_mapped_records_is_kept_in_two_files_of_which_one_is_the_sites_alone(tmp_path: Path) -> None:
    x, y = patients()
    model = mq.PpSvm().fit(x, y)
    assert len(np.unique(model.decision_function(x))) > 1
    model.save(tmp_path / "model.json")
    key = tmp_path / "model.site-key.json"
    assert stat.S_IMODE(key.stat().st_mode) == PRIVATE
    matrix = str(model.site_key_.matrix[0][0])
    assert matrix in key.read_text()
    assert matrix not in (tmp_path / "model.json").read_text()
    assert matrix not in repr(model.site_key_)
    loaded = mq.load_model(tmp_path / "model.json")
    np.testing.assert_allclose(loaded.decision_function(x), model.decision_function(x))
    other = tmp_path / "other.json"
    mq.PpSvm().fit(x, y).save(other)
    with pytest.raises(mq.ParameterError, match="use the one of this model's session"):
        mq.load_model(other, key)
    key.rename(tmp_path / "kept.json")
    with pytest.raises(mq.BadInput, match=r"model\.site-key\.json"):
        mq.load_model(tmp_path / "model.json")
    assert (mq.load_model(tmp_path / "model.json", tmp_path / "kept.json").predict(x) == model.predict(x)).all()


@pytest.mark.system
def test_sites_fit_together_over_their_channels() -> None:
    """Two sites over TLS on this machine learn what all records give, also if one has a single class."""
    x, y = patients()
    order = np.argsort(y, kind="stable")
    x, y = x.iloc[order], (y.iloc[order] == "died").astype(int)
    parts = {"anna": slice(0, 100), "berta": slice(100, 120)}
    assert len(set(y[parts["berta"]].tolist())) == 1

    async def site(name: str, channels: Any) -> Any:
        own = parts[name]
        return await mq.LogisticRegression().fit_together(x[own], y[own], name=name, channels=channels, session="s")

    for model in asyncio.run(met(tuple(parts), site)):
        alone = mq.LogisticRegression().fit(x, y)
        np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-6)
        assert model.predict(x).tolist() == alone.predict(x).tolist()


async def met(names: tuple[str, ...], part: Callable[[str, Any], Awaitable[Any]]) -> list[Any]:
    """What each of these does with its channels to the others, over TLS on this machine."""
    _, identities = trial_identities(names)
    async with AsyncExitStack() as stack:
        listeners = {}
        for name in names:
            trust = TrustStore({other: identities[other].certificate for other in names if other != name})
            listeners[name] = await stack.enter_async_context(listen(identities[name], trust))

        async def one(name: str) -> Any:
            peers = [PartyAddress(other, listeners[other].address) for other in names if other != name]
            async with listeners[name].connect(peers, Agreement(b"s" * 32, 1)) as channels:
                return await part(name, channels)

        return list(await asyncio.gather(*map(one, names)))


@pytest.mark.system
def test_sites_fit_a_model_of_mapped_records_by_a_builder_who_is_none_of_them() -> None:
    x, y = patients()
    parts = {"anna": slice(0, 60), "berta": slice(60, 120)}

    async def part(name: str, channels: Any) -> Any:
        if name == "builder":
            return await mq.PpSvm().build_together(channels=channels)
        own = parts[name]
        return await mq.PpSvm().fit_together(x[own], y[own], name=name, channels=channels, session="s")

    anna, berta, nothing = asyncio.run(met((*parts, "builder"), part))
    assert nothing is None
    assert anna.learned_.parties == ("anna", "berta")
    assert anna.site_key_ == berta.site_key_
    np.testing.assert_allclose(anna.decision_function(x), berta.decision_function(x))


def test_a_site_without_a_way_to_the_builder_is_told() -> None:
    x, y = patients()
    with pytest.raises(ValueError, match='no channel leads to the builder, "builder"'):
        asyncio.run(mq.PpSvm().fit_together(x, y, name="anna", channels={}, session="s"))
