"""The people who fit each group of a release: those of the outside table, or else of the release itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from masquerade.risk.attacks.attack import Scene


def people_of_groups(scene: Scene) -> tuple[NDArray[np.float64], str]:
    """Count the people who fit each group: of the outside table, but no fewer than are in the release."""
    sizes = scene.sizes.astype(float)
    if scene.outside is None:
        return sizes, "the release"
    people, fitting = scene.outsiders
    fit = np.array([people.sizes[met].sum() for met in fitting], float)
    return np.maximum(fit, sizes), "the outside table"
