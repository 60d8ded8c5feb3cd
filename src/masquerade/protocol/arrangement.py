"""How the parties of a session hold their data, and what follows from that for methods, contracts and requests.

What the service makes of it (who can take part, what an offer must have, what it costs) is in `service/kinds/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from masquerade.privacy.requirement import Covers, covers, covers_against_insiders

PROVIDER = "provider"  # the default name of the column that names each record's provider
Arrangement = Literal["vertical", "horizontal"]


@dataclass(frozen=True)
class Holding:
    """What one arrangement means.

    Where the parties have different people, all requirements are wrapped in m-privacy, with m = 0 as well: m grows
    during a negotiation, and a part that was left out before as implied would be missing then.
    """

    columns: str  # of the parties, compared with each other, in words
    provider: str | None  # the column that names each record's provider, where records have one
    default_m: int  # how many parties may collude, unless a request says so
    covers: Covers  # whether one requirement implies another


ARRANGEMENTS: Mapping[Arrangement, Holding] = {
    "vertical": Holding("different columns", None, 0, covers),
    "horizontal": Holding("the same columns", PROVIDER, 1, covers_against_insiders),
}
