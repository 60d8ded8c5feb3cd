"""The Newton method for Lagrangian support vector machines (Fung and Mangasarian), in the clear.

    minimise  ν/2 · Σ c_i · (1 − d_i · (k_i·u − γ))₊²  +  ½ · (‖u‖² + γ²)

over rows k_i with labels d_i of −1 or 1 and weights c_i. The objective is strongly convex and piecewise quadratic;
steps use its generalised Hessian, and Armijo's rule makes them end.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

_MOST_STEPS, _MOST_HALVINGS = 100, 40


def newton_svm(
    rows: Numbers, labels: Numbers, nu: float = 1.0, weights: Numbers | None = None
) -> tuple[Numbers, float]:
    """Return u and γ; a row is of class 1 where row·u > γ."""
    cost = nu * (np.ones(len(rows)) if weights is None else weights)
    extended = np.column_stack([rows, -np.ones(len(rows))])

    def short(at: Numbers) -> Numbers:
        return np.asarray(np.maximum(0.0, 1 - labels * (extended @ at)))

    def value(at: Numbers) -> float:
        return float(cost @ short(at) ** 2 / 2 + at @ at / 2)

    at = np.zeros(extended.shape[1])
    for _ in range(_MOST_STEPS):
        by = short(at)
        gradient = at - extended.T @ (cost * labels * by)
        if np.abs(gradient).max() < 1e-10 * (1 + cost.sum()):
            break
        inside = extended * (cost * (by > 0))[:, None]
        direction = -np.linalg.solve(np.eye(at.size) + inside.T @ extended, gradient)
        slope, now = float(gradient @ direction), value(at)
        for halving in range(_MOST_HALVINGS):
            if value(at + direction / 2**halving) <= now + 1e-4 * slope / 2**halving:
                break
        at = at + direction / 2**halving
    return at[:-1], float(at[-1])
