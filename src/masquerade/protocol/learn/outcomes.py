"""What models of survival predict: how long each record was followed, and whether that ended by the event."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade.data.table import Table
from masquerade.errors import DataError
from masquerade.protocol.contract import OutcomeRole
from masquerade.protocol.learn.models.model import Numbers
from masquerade.protocol.learn.numbers import cells_of

_EVENTS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def durations_of(table: Table, name: str) -> Numbers:
    """Return each record's duration; DataError unless all are numbers of at least 0."""
    durations = cells_of(table, name)
    wrong = np.flatnonzero(~(durations >= 0))
    if wrong.size:
        raise DataError(table.problem("a duration must be at least 0", int(wrong[0]), name))
    return durations


def events_of(table: Table, name: str) -> NDArray[np.bool_]:
    """Return whose duration ended by the event; DataError unless every cell says yes or no."""
    coded = table.coded(name)
    meant = [_EVENTS.get(label.strip().lower().removesuffix(".0")) for label in coded.labels]
    unknown = [code for code, each in enumerate(meant) if each is None]
    if unknown:
        text = "an event must be one of 1 and 0, true and false, or yes and no"
        raise DataError(table.problem(text, int(np.argmax(np.isin(coded.codes, unknown))), name))
    events: NDArray[np.bool_] = np.array(meant, bool)[coded.codes]
    return events


READERS: Mapping[OutcomeRole, Callable[[Table, str], Any]] = {"duration": durations_of, "event": events_of}
