"""Whether a party that refuses has another clock than the coordinator: tokens and contracts are judged by the clock.

    up to 30 s     no matter: a token is taken
    up to 5 min    the attempt is made again, because clocks that are being set right differ by so much for a while
    beyond that    it is refused

In either case the refusal says that the clocks differ, by how much, and whose.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from masquerade.errors import PeerError, Problem
from masquerade.service.session_tokens import CLOCKS_DIFFER, LIFETIME

if TYPE_CHECKING:  # which has the links that are beside this
    from masquerade.service.coordinator.context import WorkingContext


@dataclass(frozen=True)
class ClockDiffers:
    """How many seconds a party's clock is ahead of ours, at least; negative when it is behind."""

    party: str
    seconds: float

    @property
    def is_small(self) -> bool:
        """Return whether another attempt is worth making."""
        return abs(self.seconds) <= LIFETIME.total_seconds()

    @property
    def reason(self) -> str:
        """The difference in words, without the party's name."""
        where = "ahead of" if self.seconds > 0 else "behind"
        return f"its clock is {abs(self.seconds):.0f} s {where} the coordinator's; set both right, by NTP for one"

    @property
    def problem(self) -> Problem:
        """The difference as a problem of the party."""
        return Problem(self.reason, party=self.party)


async def differing_clocks(context: WorkingContext, parties: Iterable[str]) -> list[ClockDiffers]:
    """Ask parties for the time; return those whose clock differs by more than a session's token allows."""
    found = await asyncio.gather(*(_asked(context, party) for party in parties))
    allowed = CLOCKS_DIFFER.total_seconds()
    return [each for each in found if each is not None and abs(each.seconds) > allowed]


async def _asked(context: WorkingContext, party: str) -> ClockDiffers | None:
    before = context.clock.now().timestamp()
    try:
        theirs = (await context.links.health(party)).now
    except PeerError:  # it does not answer: nobody knows
        return None
    after = context.clock.now().timestamp()
    # It was read between the two: that much is certain, however slow the answer was.
    return ClockDiffers(party, max(theirs - after, 0.0) + min(theirs - before, 0.0))
