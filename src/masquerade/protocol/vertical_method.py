"""What all methods between parties with different columns of the same people declare: how they find common records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from masquerade.forms.declared import parameter
from masquerade.forms.rules import choice
from masquerade.protocol.alignment_ways import BY_SIZE, WAYS
from masquerade.protocol.arrangement import Arrangement
from masquerade.protocol.method import SessionMethod


def way_to_align() -> Any:
    """Declare the parameter `align` (protocol/align.py)."""
    return parameter(
        choice(*WAYS),
        BY_SIZE,
        help="how common records are found: by commutative encryption on a curve, by oblivious pseudo-random "
        "functions, some forty times faster on long lists, or auto, the curve where no party has 2,000 identifiers; "
        "the result is the same",
    )


@dataclass(frozen=True)
class VerticalMethod(SessionMethod):
    """A method that starts with an alignment (`common_records.find_common_rows`)."""

    arrangement: ClassVar[Arrangement] = "vertical"

    align: str = way_to_align()
