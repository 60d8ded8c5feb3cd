"""What a search for a coalition that breaches comes to, and how long it may take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from masquerade.errors import ParameterError

SEARCH_SECONDS = 60.0  # seconds of one core that a search may take


class TooManyCoalitions(ParameterError):
    """A search would have to look at more coalitions than fit into memory, or into `SEARCH_SECONDS`."""


@dataclass(frozen=True)
class Outcome:
    """Whether a group is m-private; if not, a coalition that breaches (() are outsiders); how many checks it took."""

    private: bool
    coalition: tuple[int, ...] | None
    checks: int


def first_breach(outcomes: Iterable[Outcome]) -> Outcome:
    """The first breach, with the checks made until then; nothing after it is looked at."""
    checks = 0
    for outcome in outcomes:
        checks += outcome.checks
        if not outcome.private:
            return Outcome(False, outcome.coalition, checks)
    return Outcome(True, None, checks)
