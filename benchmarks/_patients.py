"""Lung cancer patients of three sites: lifelines' table, and generated ones with the paper's six predictors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

SITES = ("Maastro", "Gent", "Leuven")
FOLLOWED, ALL = (70, 37, 23), (80, 85, 40)  # of the paper: with two years' follow-up; for Cox regression
PREDICTORS = ("gender", "who", "fev", "nodes", "log gtv", "eqd2t")
TWO_YEARS = 2.0


@dataclass(frozen=True)
class Patients:
    """One site's patients: predictors (NaN is missing), years until death or the last look, and whether by death.

    `horizon`: after how many years the outcome is looked at.
    """

    x: Numbers
    years: Numbers
    died: NDArray[np.bool_]
    horizon: float = TWO_YEARS

    def __len__(self) -> int:
        return len(self.x)

    def take(self, rows: Any) -> Patients:
        return Patients(self.x[rows], self.years[rows], self.died[rows], self.horizon)

    @property
    def followed(self) -> NDArray[np.bool_]:
        """Whose outcome at the horizon is known."""
        return np.asarray(self.died | (self.years >= self.horizon))

    @property
    def labels(self) -> Numbers:
        """1 for who lived so long, else −1; only of those who are followed."""
        return np.where(self.years >= self.horizon, 1.0, -1.0)


def joined(some: Sequence[Patients]) -> Patients:
    return Patients(
        np.concatenate([each.x for each in some]),
        np.concatenate([each.years for each in some]),
        np.concatenate([each.died for each in some]),
        some[0].horizon,
    )


def equivalent_dose(total: Any, fraction: Any, days: Any) -> Any:
    """EQD2,T of (5.8): the dose in fractions of 2 Gy, less 0.66 Gy for each day of treatment beyond 28."""
    return total * (fraction + 10) / (2 + 10) - 0.66 * np.maximum(0, days - 28)


def generated(seed: int) -> list[Patients]:
    """Patients of the paper's numbers and predictors, whose sites differ a little, as real ones do."""
    random = np.random.default_rng(seed)
    return [
        _site(random, followed, everybody, shift)
        for followed, everybody, shift in zip(FOLLOWED, ALL, (0.0, 0.2, -0.2), strict=True)
    ]


def _site(random: np.random.Generator, followed: int, everybody: int, shift: float) -> Patients:
    n = everybody
    gender = random.random(n) < 0.75
    who = np.minimum(random.poisson(0.8, n), 2)
    fev = np.clip(random.normal(75 - 10 * shift, 22, n), 17, 139)
    nodes = np.minimum(random.poisson(1.3, n), 4)
    volume = np.clip(random.normal(4 + shift, 1.2, n), -0.17, 6.94)
    regime = random.integers(0, 4, n)
    doses = np.array([60.0, 64.8, 54.0, 70.2])[regime] + random.normal(0, 2, n)
    dose = equivalent_dose(doses, np.array([2.75, 1.8, 1.8, 1.8])[regime], random.choice([28.0, 35.0, 40.0], n))
    x = np.column_stack([gender, who, fev, nodes, volume, dose]).astype(float)
    risk = 0.3 * gender + 0.5 * who - 0.012 * (fev - 75) + 0.25 * nodes + 0.45 * (volume - 4) - 0.03 * (dose - 55)
    death = random.exponential(2.6 * np.exp(-(risk - risk.mean())))
    leaves = random.uniform(TWO_YEARS, 5.5, n)
    for at in range(followed, n):  # who was last seen alive before two years had passed
        leaves[at] = random.uniform(0.2, TWO_YEARS)
        death[at] = leaves[at] + random.exponential(1.0)
    x[random.random(x.shape) < 0.04] = np.nan
    return Patients(x, np.minimum(death, leaves), death <= leaves)


def lung(seed: int) -> list[Patients]:
    """lifelines' lung data, dealt to three sites in the proportions of the paper.

    The outcome is that after one year: 13 of the patients are known to have lived two.
    """
    from lifelines.datasets import load_lung

    table = load_lung()
    names = ["age", "sex", "ph.ecog", "ph.karno", "pat.karno", "meal.cal", "wt.loss"]
    whole = Patients(
        table[names].to_numpy(float),
        table["time"].to_numpy(float) / 365.25,
        table["status"].to_numpy() == 1,
        horizon=1.0,
    )
    order = np.random.default_rng(seed).permutation(len(whole))
    ends = np.rint(np.cumsum(FOLLOWED)[:-1] / sum(FOLLOWED) * len(whole)).astype(int)
    return [whole.take(some) for some in np.split(order, ends)]
