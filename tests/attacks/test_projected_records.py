"""What a secret random matrix B hides of whole-numbered records, measured: with B, with some records known, alone.

The attacker has the mapped records, x·B' of the records x normalised to [0, 1], and knows each attribute's range and
that its values are whole numbers. `docs/leakage.md` has the rates.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from masquerade.protocol.learn.projection import Projection, random_matrix

# The paper's predictors, as whole numbers: gender, WHO status, lymph nodes, lung function, log volume · 10, dose
SIZES = np.array([2, 3, 5, 123, 72, 60])
N_RECORDS = 60


def records(seed: int) -> Any:
    """Records with every value of an attribute equally likely."""
    return np.random.default_rng(seed).integers(0, SIZES, (N_RECORDS, SIZES.size)).astype(float)


def site_projection(dimensions: int, seed: int) -> Projection:
    matrix = random_matrix(b"%d" % seed, dimensions, SIZES.size)
    return Projection(matrix, np.zeros(SIZES.size), np.zeros(SIZES.size), SIZES - 1.0)


def reconstructed(seen: Any, matrix: Any) -> Any:
    """The records that an attacker finds who knows B; NaN where several fit, or none does.

    Of as many attributes as B leaves open, those with the fewest values, every combination is tried; each determines
    the others, which must be whole numbers in their range.
    """
    dimensions = len(matrix)
    tried, rest = np.arange(SIZES.size - dimensions), np.arange(SIZES.size - dimensions, SIZES.size)
    guesses = np.array(list(product(*(range(SIZES[at]) for at in tried)))).reshape(-1, tried.size)
    scaled = matrix / (SIZES - 1)
    found = np.full((len(seen), SIZES.size), np.nan)
    for number, row in enumerate(seen):
        solved = np.linalg.solve(scaled[:, rest], (row - guesses @ scaled[:, tried].T).T).T
        whole = np.rint(solved)
        fits = (np.abs(solved - whole) < 1e-6).all(axis=1) & (whole >= 0).all(axis=1)
        fits &= (whole < SIZES[rest]).all(axis=1)
        if fits.sum() == 1:
            found[number] = np.concatenate([guesses[fits][0], whole[fits][0]])
    return found


def success(found: Any, truth: Any) -> float:
    return float((found == truth).all(axis=1).mean())


@pytest.mark.parametrize("dimensions", [5, 4, 3])
def test_who_knows_b_knows_every_whole_numbered_record(dimensions: int) -> None:
    for seed in range(3):
        projection, truth = site_projection(dimensions, seed), records(seed)
        assert success(reconstructed(projection(truth), projection.matrix), truth) == 1.0


def test_as_many_known_records_as_attributes_give_b_away() -> None:
    projection, truth = site_projection(5, 2), records(2)
    seen = projection(truth)
    normal = projection.normalised(truth)
    learned = np.linalg.solve(normal[: SIZES.size], seen[: SIZES.size]).T  # B, from six patients whom one knows
    np.testing.assert_allclose(learned, projection.matrix, rtol=1e-6)
    assert success(reconstructed(seen, learned), truth) == 1.0


def test_fewer_known_records_do_not() -> None:
    projection, truth = site_projection(5, 2), records(2)
    seen, normal = projection(truth), projection.normalised(truth)
    known = SIZES.size - 1
    learned = np.linalg.lstsq(normal[:known], seen[:known], rcond=None)[0].T  # the smallest of all B that fit
    assert success(reconstructed(seen, learned)[known:], truth[known:]) == 0.0


def test_mapped_records_of_many_values_alone_tell_equal_ones() -> None:
    """An attacker who draws a matrix for itself finds nobody, nor do differences; but equal records stay equal."""
    projection, truth = site_projection(5, 3), records(3)
    truth[1] = truth[0]
    seen = projection(truth)
    assert success(reconstructed(seen, random_matrix(b"another", 5, SIZES.size)), truth) == 0.0
    assert columns_found(frequent_differences(seen), projection.matrix / (SIZES - 1)) <= 1
    assert np.unique(seen.round(9), axis=0).shape[0] == N_RECORDS - 1


def frequent_differences(seen: Any) -> list[Any]:
    """The differences of two mapped records that come most often, but for sums and multiples of more frequent ones.

    Records that differ in one attribute, by one, differ by a column of B; where attributes have few values, there are
    many such pairs, for every attribute.
    """
    pairs = (seen[:, None, :] - seen[None, :, :]).reshape(-1, seen.shape[1]).round(7)
    found, counts = np.unique(pairs[pairs[:, 0] > 0], axis=0, return_counts=True)
    chosen: list[Any] = []
    combinations: list[Any] = [np.zeros(seen.shape[1])]
    for at in np.argsort(-counts, kind="stable"):
        if counts[at] < 2 or len(chosen) == SIZES.size:
            break
        if np.abs(np.array(combinations) - found[at]).max(axis=1).min() > 1e-5:
            chosen.append(found[at])
            combinations = [each + times * found[at] for each in combinations for times in range(-2, 3)]
    return chosen


def columns_found(differences: list[Any], columns: Any) -> int:
    """How many of B's columns an attacker has, up to their sign."""
    return sum(any(np.abs(np.abs(each) - np.abs(column)).max() < 1e-5 for each in differences) for column in columns.T)


def test_mapped_records_of_few_values_alone_give_b_away() -> None:
    sizes = np.array([2, 3, 5, 2, 3, 4])
    rates = []
    for seed in range(3):
        truth = np.random.default_rng(seed).integers(0, sizes, (500, 6)).astype(float)
        matrix = random_matrix(b"%d" % seed, 5, 6)
        projection = Projection(matrix, np.zeros(6), np.zeros(6), sizes - 1.0)
        rates.append(columns_found(frequent_differences(projection(truth)), matrix / (sizes - 1)) / 6)
    assert np.mean(rates) == 1.0
