"""The provider of each record as a dimension to cut along: ordered by how many records each has, then by name."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from masquerade.anonymize.mondrian.axes import ContinuousAxis
from masquerade.data.column import Coded, Column
from masquerade.data.continuum import Continuum
from masquerade.engine.counts import Counts


class ProviderAxis(ContinuousAxis):
    """Providers in their order; used for cuts only, never released."""

    released = False


def provider_column(providers: Coded, records: Counts) -> tuple[Column, NDArray[np.int32]]:
    """Return the places of records along the axis as ranks, and the place of each provider.

    `records` says how many records each has, in the order of names.
    """
    place = np.empty(records.size, np.int32)
    place[np.argsort(records, kind="stable")] = np.arange(records.size)
    ranks = place.take(providers.codes)
    return Column(providers.name, ranks, Continuum(np.arange(records.size))), place
