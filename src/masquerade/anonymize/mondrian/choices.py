"""What Mondrian and its provider-aware variant have in common: their name, and which allowed cut is made."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from masquerade.anonymize.method import TableMethod
from masquerade.anonymize.mondrian.axes import Shares
from masquerade.anonymize.mondrian.candidates import Cuts
from masquerade.anonymize.mondrian.partition import Choice
from masquerade.utility.scores import FIXED_ONE


class MondrianVariant(TableMethod):
    """Both go by one name; the requirement decides which is meant."""

    name: ClassVar[str] = "mondrian"
    summary: ClassVar[str] = (
        "cuts groups of records in parts, each where it serves that group, while every part satisfies the requirement"
    )
    answers_queries: ClassVar[bool] = True


def by_certainty(cuts: Cuts) -> Shares:
    """Return the reduction in uncertainty per bit of information about a record's part.

    Later cuts run out of records, and a cut that splits evenly uses up more of them.
    """
    parts, sizes = cuts.parts, cuts.sizes
    starts = parts.starts(sizes.size)
    of_group = np.repeat(sizes, np.diff(np.append(starts, parts.group.size)))
    kept = np.add.reduceat(parts.sizes * parts.widths, starts)
    bits = np.add.reduceat(parts.sizes * np.log2(of_group / parts.sizes), starts)
    gain = sizes * cuts.widths - kept
    # In fixed point, so that the order of additions does not matter; a single part has 0 bits, and is not allowed.
    return np.rint(gain / np.maximum(bits, 1e-9) * FIXED_ONE)


def by_width(cuts: Cuts) -> Shares:
    """Return the group's width along the dimension of each cut."""
    return cuts.widths


CHOICES: dict[str, Choice] = {"certainty": by_certainty, "widest": by_width}
