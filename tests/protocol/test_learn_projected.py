"""PP-SVM and PP-Cox: common coins, Proposition 4.2, and models that need no record in the clear."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from contract.learning import EXAMPLES
from contract.test_learning_methods import contract_of, learned_by
from examples import examples
from masquerade.errors import AnswerIsNo, ParameterError, PeerBrokeProtocol
from masquerade.methods import learning_methods
from masquerade.net import Script
from masquerade.net.memory import run_together
from masquerade.protocol import LearningProposal, concordance
from masquerade.protocol.learn import projection
from masquerade.protocol.learn.models import area_under_curve
from masquerade.protocol.learn.projection import (
    Mapped,
    MappedModel,
    Projection,
    ProjectionTerms,
    agree_on_projection,
    build_mapped,
    explained,
    fitted,
    hand_over,
    mapped,
    newton_svm,
    quality,
    random_matrix,
    scores,
)
from masquerade.protocol.learn.sums import prepare_aggregation, tossed
from masquerade.protocol.providers import shared_counts as shared_bits
from protocol.tampering import changing

NAMES = ("anna", "berta", "carla")
BUILDER = "builder"


def patients(n: int, seed: int) -> tuple[Any, Any]:
    """Attributes in different units, some of them missing, and a label that depends on two of them."""
    random = np.random.default_rng(seed)
    x = np.column_stack([random.normal(60, 10, n), random.integers(0, 3, n), random.normal(3, 2, n)])
    labels = np.where(x[:, 0] / 10 + x[:, 1] + random.normal(0, 0.5, n) > 7, 1.0, -1.0)
    x[random.random(x.shape) < 0.05] = np.nan
    return x, labels


def site(
    me: int, x: Any, outcomes: Any, terms: ProjectionTerms, names: Sequence[str] = NAMES
) -> Script[tuple[Projection, MappedModel]]:
    sums = yield from prepare_aggregation(me, names, b"test")
    shared = yield from shared_bits.prepare(me, names, b"test")
    projection = yield from agree_on_projection(me, names, sums, shared, x, outcomes[:, 0], terms, b"test")
    return projection, (yield from hand_over(BUILDER, Mapped(projection(x), outcomes)))


def session(
    parts: Sequence[tuple[Any, Any]], terms: ProjectionTerms, n_outcomes: Literal[1, 2] = 1
) -> dict[str, Script[Any]]:
    names = NAMES[: len(parts)]
    scripts: dict[str, Script[Any]] = {name: site(me, *parts[me], terms, names) for me, name in enumerate(names)}
    return scripts | {BUILDER: build_mapped(names, n_outcomes, 1.0, "equal")}


def thirds(x: Any, outcomes: Any) -> list[tuple[Any, Any]]:
    return list(zip(np.array_split(x, 3), np.array_split(outcomes, 3), strict=True))


@pytest.mark.parametrize("kernel", ["linear", "gaussian"])
def test_the_model_is_that_of_all_mapped_records(kernel: Literal["linear", "gaussian"]) -> None:
    x, labels = patients(60, seed=1)
    found = run_together(session(thirds(x, labels[:, None]), ProjectionTerms(kernel=kernel)))
    projections = [found[name][0] for name in NAMES]
    assert len({each.matrix.tobytes() for each in projections}) == 1
    projection, model = found["anna"]
    assert projection.matrix.shape == (2, 3)
    normal = projection.normalised(x)
    assert normal.min() == 0.0
    assert normal.max() == 1.0
    np.testing.assert_allclose(projection.means, np.nanmean(x, axis=0))
    u, threshold = newton_svm(projection(x), labels)
    np.testing.assert_allclose(model.coefficients, u, rtol=1e-6)
    assert model.threshold == pytest.approx(threshold, rel=1e-6)
    new = np.array([[90.0, 2.0, 3.0], [30.0, 0.0, np.nan]])  # each site classifies new records by itself
    assert (scores(model, projection(new)) > 0).tolist() == (projection(new) @ u > threshold).tolist()


@pytest.fixture
def telling_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some matrices tell nothing of the outcome; this one does."""
    drawn = random_matrix
    monkeypatch.setattr(f"{projection.__name__}.random_matrix", lambda _, *shape: drawn(b"coin", *shape))


@pytest.mark.usefixtures("telling_matrix")
@pytest.mark.parametrize("kernel", ["linear", "gaussian"])
def test_survival_is_fitted_by_lifelines_to_mapped_records(kernel: Literal["linear", "gaussian"]) -> None:
    pytest.importorskip("lifelines")
    random = np.random.default_rng(2)
    x = random.normal(size=(60, 3))
    outcomes = np.column_stack([random.exponential(np.exp(-x[:, 0])), random.random(60) < 0.8]).astype(float)
    found = run_together(session(thirds(x, outcomes), ProjectionTerms(kernel=kernel), 2))
    projection, model = found["berta"]
    assert projection.kernel == kernel
    again = fitted({"all": Mapped(projection(x), outcomes)}, 1.0, "equal")
    np.testing.assert_allclose(model.coefficients, again.coefficients, rtol=1e-6)
    assert list(model.hazards) == sorted(set(model.hazards))
    assert list(model.times) == sorted(outcomes[outcomes[:, 1] > 0, 0])  # no time at which somebody left alive
    assert quality(model, Mapped(projection(x), outcomes)) > 0.5


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("mix", [[1e-4, 1.0], [1e3, -2e3], [0.0, 3.0]], ids=["alike", "large", "repeated"])
def test_survival_does_not_depend_on_how_columns_are_mixed(mix: list[float]) -> None:
    """A matrix may map records to columns that nearly, or quite, repeat each other."""
    pytest.importorskip("lifelines")
    random = np.random.default_rng(2)
    x = random.normal(size=(60, 2))
    outcomes = np.column_stack([random.exponential(np.exp(-x[:, 0])), np.ones(60)])
    mixed = np.column_stack([x[:, 1], x @ mix])
    plain = fitted({"all": Mapped(x if mix[0] else x[:, 1:], outcomes)}, 1.0, "equal")
    model = fitted({"all": Mapped(mixed, outcomes)}, 1.0, "equal")
    expected = scores(plain, x if mix[0] else x[:, 1:])
    np.testing.assert_allclose(scores(model, mixed), expected, atol=1e-6)
    np.testing.assert_allclose(model.hazards, plain.hazards, rtol=1e-6)


def test_records_that_are_all_alike_have_one_risk() -> None:
    pytest.importorskip("lifelines")
    outcomes = np.column_stack([np.arange(1.0, 21.0), np.ones(20)])
    for value in (1.0, 0.1, 0.7391):  # the mean of some is none of them, by rounding
        alike = Mapped(np.full((20, 2), value), outcomes)
        assert fitted({"all": alike}, 1.0, "equal").coefficients == (0.0, 0.0)


@pytest.mark.usefixtures("telling_matrix")
@pytest.mark.parametrize("name", ["pp-svm", "pp-cox"])
def test_both_methods_have_both_kernels(name: str) -> None:
    """The model's file names the kernel, and survival or classes are predicted by it at a site."""
    example, made = EXAMPLES[name], learning_methods()[name](kernel="gaussian")
    learned = learned_by(made, contract_of(made, example, NAMES[:2], "horizontal"), example.table)
    assert learned.model.as_json()["kernel"] == "gaussian"
    assert learned.metrics["auc" if name == "pp-svm" else "concordance"] > 0.5
    several = learning_methods()[name](kernel="gaussian", candidates=2)
    assert [problem.key for problem in several.refusals(LearningProposal())] == [("candidates",)]


def test_the_best_of_several_matrices_explains_most(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []

    def noted(*given: Any) -> Any:
        drawn.append(random_matrix(*given))
        return drawn[-1]

    monkeypatch.setattr(projection, "random_matrix", noted)
    x, labels = patients(60, seed=3)
    x = np.nan_to_num(x, nan=3.0)
    parts = thirds(x, labels[:, None])
    (best, _) = run_together(session(parts, ProjectionTerms(1, candidates=6)))["anna"]
    both = np.column_stack([np.ones(60), best.normalised(x), labels])
    moments = both.T @ both
    along = best.normalised(x) @ best.matrix[0]
    assert explained(moments, best.matrix) == pytest.approx(np.corrcoef(along, labels)[0, 1] ** 2)
    assert len({matrix.tobytes() for matrix in drawn}) == 6  # by every site the same
    most = max(drawn, key=lambda matrix: explained(moments, matrix))
    np.testing.assert_array_equal(best.matrix, most)


@settings(max_examples=examples(10), deadline=None)
@given(st.integers(2, 6), st.data())
def test_proposition_4_2(n: int, data: st.DataObject) -> None:
    rows = data.draw(st.integers(1, n - 1))
    seed = data.draw(st.binary(min_size=1, max_size=4))
    matrix = random_matrix(seed, rows, n)
    record = np.random.default_rng(len(seed)).random(n) + 0.1
    seen = mapped(record[None, :], matrix, "linear", 1.0)[0]
    solutions = []
    for chosen in combinations(range(n), rows):  # all but these attributes are 0
        solution = np.zeros(n)
        solution[list(chosen)] = np.linalg.solve(matrix[:, chosen], seen)
        np.testing.assert_allclose(matrix @ solution, seen, atol=1e-6)
        solutions.append(solution)
    assert len({each.round(9).tobytes() for each in solutions}) == comb(n, rows)
    shares = np.random.default_rng(0).normal(size=len(solutions))
    hull = shares @ np.array(solutions) / shares.sum()  # and all of their affine hull
    np.testing.assert_allclose(matrix @ hull, seen, rtol=1e-4, atol=1e-4 * np.abs(solutions).max())


def test_a_site_with_noise_for_labels_weighs_less() -> None:
    x, labels = patients(120, seed=4)
    x = np.nan_to_num(x, nan=3.0) / 10
    noise = np.random.default_rng(5).choice([-1.0, 1.0], 40)
    outcomes = np.concatenate([labels[:80], noise])
    parts = {name: Mapped(*part) for name, part in zip(NAMES, thirds(x, outcomes[:, None]), strict=True)}
    weights = fitted(parts, 1.0, "reliability").weights
    assert weights[2] < min(weights[:2]) / 2
    assert np.mean(weights) == pytest.approx(1.0)


def test_no_coefficients_are_better_than_the_machines() -> None:
    x, labels = patients(50, seed=6)
    rows, weights = np.nan_to_num(x) / 30, np.linspace(0.2, 2, 50)
    u, threshold = newton_svm(rows, labels, 3.0, weights)

    def objective(at: Any) -> float:
        short = np.maximum(0, 1 - labels * (rows @ at[:-1] - at[-1]))
        return float(1.5 * weights @ short**2 + at @ at / 2)

    best = np.append(u, threshold)
    for direction in np.random.default_rng(1).normal(size=(30, 4)):
        assert objective(best + 1e-3 * direction) > objective(best)


def test_ranks() -> None:
    positive = np.array([True, True, False, False])
    assert area_under_curve(np.array([3.0, 1.0, 2.0, 1.0]), positive) == 0.625
    assert np.isnan(area_under_curve(np.ones(2), np.ones(2, bool)))
    utils = pytest.importorskip("lifelines.utils")
    random = np.random.default_rng(1)
    risks, durations, died = (random.integers(0, 9, 40) * 1.0, random.integers(1, 9, 40) * 1.0, random.random(40) < 0.6)
    expected = utils.concordance_index(durations, -risks, died)
    assert concordance(risks, durations, died) == pytest.approx(expected)


@pytest.mark.parametrize("n_sites", [2, 3])
def test_common_coins_are_common_and_fresh(n_sites: int) -> None:
    def toss() -> set[bytes]:
        names = NAMES[:n_sites]
        return set(run_together({name: tossed(me, names, b"test") for me, name in enumerate(names)}).values())

    assert len(toss()) == 1
    assert toss() != toss()


@pytest.mark.parametrize("field", ["coin", "blinding"])
def test_who_opens_another_coin_is_named(field: str) -> None:
    scripts = {name: tossed(me, NAMES, b"test") for me, name in enumerate(NAMES)}
    lying = changing(scripts["carla"], "coin-opening", **{field: lambda told: bytes(len(told))})
    with pytest.raises(PeerBrokeProtocol, match="carla"):
        run_together(scripts | {"carla": lying})


@pytest.mark.parametrize(
    "changes",
    [
        {"rows": lambda told: told[:-8]},
        {"rows": lambda told: np.full(len(told) // 8, np.nan).tobytes()},
        {"outcomes": lambda told: np.full(len(told) // 8, 0.5).tobytes()},
        {"outcomes": lambda told: told[:-1]},
    ],
)
def test_mapped_records_that_are_none_are_their_senders_fault(changes: dict[str, Any]) -> None:
    told = Mapped(np.ones((4, 2)), np.ones((4, 1)))
    scripts = {name: hand_over(BUILDER, told) for name in NAMES[:2]}
    scripts["berta"] = changing(scripts["berta"], "learn-mapped", **changes)
    with pytest.raises(PeerBrokeProtocol, match="berta"):
        run_together({**scripts, BUILDER: build_mapped(NAMES[:2], 1, 1.0, "equal")})


def test_a_site_of_whose_reliability_nothing_is_known_has_the_mean_weight() -> None:
    random = np.random.default_rng(2)
    rows, months = random.normal(size=(40, 2)), np.arange(1.0, 41.0)
    dies = Mapped(rows, np.column_stack([months, months % 3 > 0]))
    lives = Mapped(random.normal(size=(1, 2)), np.array([[9.0, 0.0]]))
    assert fitted({"anna": dies, "berta": lives}, 1.0, "reliability").weights == (1.0, 1.0)


def test_what_cannot_be_learned_or_chosen_is_refused() -> None:
    with pytest.raises(AnswerIsNo, match="one class"):
        fitted({"anna": Mapped(np.ones((2, 1)), np.ones((2, 1)))}, 1.0, "equal")
    with pytest.raises(AnswerIsNo, match="nobody dies"):
        fitted({"anna": Mapped(np.ones((2, 1)), np.array([[1.0, 0.0], [2.0, 0.0]]))}, 1.0, "equal")
    for terms in (ProjectionTerms(3), ProjectionTerms(0), ProjectionTerms(2, "gaussian", candidates=2)):
        with pytest.raises(ParameterError):
            terms.rows(3)
