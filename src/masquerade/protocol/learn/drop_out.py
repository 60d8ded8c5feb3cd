"""Go on without sites that drop out: the rest agree who is lost and that nothing was opened, and repeat the round.

The same sum with and without a site tells that site's summand. So a round is repeated without it only if nothing of the
round was opened, to anybody. Each site judges that by what it has done itself: sums are opened in two messages
(`aggregate.py`), and nobody can read one before every site has sent its second. A site that has sent its own refuses
to repeat the round, whatever others say. A liar that claims to have seen nothing gains nothing.

    1. Who notices that a site has vanished tells all others whom it has lost, how many rounds are open, and whether one
       is being opened. A site is left out only if **every** other site has lost its own connection to it; somebody who
       is still seen by one ends the session.
    2. When all have told the same, they begin a new attempt, with new keys and masks. What is left over of the broken
       one is thrown away.

**Split groups.** Were two halves of the sites told that the other half is lost, a liar that takes part in both sums
could subtract. So more than half must be left, even if a liar is counted twice (`fewest`), and never fewer than
three: of two, each learns the other's sums.

What the rounds before tell. Sums of neighbouring rounds are alike: after rounds that were opened with a site, rounds
without it tell nearly what it had added. `start-over` therefore repeats only if no round at all was opened, and
`go-on`, which keeps to the round under way, is for sites that agree to that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeVar

from msgspec import Meta

from masquerade.errors import PeerBrokeProtocol, PeerError, PeerUnreachable
from masquerade.net.script import Message, Script, Send, TolerantReceive, TolerantSend
from masquerade.protocol.learn.aggregate import Openings

DropOut = Literal["stop", "start-over", "go-on"]

Result = TypeVar("Result")

_LEAST_SITES = 3


class SitesLost(Message, tag="learn-sites-lost", frozen=True):
    """Whom the sender has lost, how many sums it has opened, and whether it has helped to open one more."""

    lost: Annotated[tuple[str, ...], Meta(max_length=1000)]
    rounds: Annotated[int, Meta(ge=0)]
    opening: bool


class _Interrupted(Exception):
    """The attempt is over: a site was lost, or a peer says so."""


def fewest(n_sites: int) -> int:
    """Return how many of n sites must be left: more than half, one of them counted twice, and three."""
    return max(_LEAST_SITES, (n_sites + 1) // 2 + 1)


def is_first_hand(error: PeerUnreachable) -> bool:
    """Return whether we have seen ourselves that a peer is gone."""
    return not any(problem.reported_by for problem in error.problems)


@dataclass
class Survivors:
    """One site's view of who is left; `sites` are those of the contract."""

    name: str
    sites: tuple[str, ...]
    drop_out: DropOut
    openings: Openings = field(default_factory=Openings)
    lost: tuple[str, ...] = ()

    @property
    def present(self) -> tuple[str, ...]:
        """The sites that are left, in the contract's order."""
        return tuple(site for site in self.sites if site not in self.lost)

    def run(self, attempt: Callable[[tuple[str, ...]], Script[Result]]) -> Script[Result]:
        """Run `attempt` among those who are present, again with fewer when some drop out."""
        while True:
            heard: dict[str, SitesLost] = {}
            script = attempt(self.present)
            try:
                return (yield from self._tolerant(script, heard))
            except _Interrupted:
                script.close()
                yield from self._agree(heard)

    def _tolerant(self, script: Script[Result], heard: dict[str, SitesLost]) -> Script[Result]:
        """Run a script by tolerant moves; _Interrupted when a site is lost here, or at a peer that tells us."""
        answer = None
        while True:
            try:
                move = script.send(answer)
            except StopIteration as end:
                result: Result = end.value
                return result
            try:
                if isinstance(move, Send):
                    answer = yield TolerantSend(move.peers, move.message)
                    continue
                answer = yield TolerantReceive(move.peer, move.kind, notice=SitesLost)
            except PeerUnreachable as error:
                self._lose(error)
                raise _Interrupted from None
            if isinstance(answer, SitesLost):
                heard[move.peer] = self._checked(move.peer, answer)
                raise _Interrupted

    def _agree(self, heard: dict[str, SitesLost]) -> Script[None]:
        """Return when all who are left have lost the same sites, and may repeat; otherwise raise who was lost."""
        told: tuple[str, ...] | None = None
        while True:
            peers = tuple(site for site in self.present if site != self.name)
            try:
                if told != self.lost:
                    told = self.lost
                    yield TolerantSend(peers, self._state())
                doubted = [
                    (site, peer)
                    for peer in peers
                    if peer in heard
                    for site in heard[peer].lost
                    if site in peers
                ]
                if doubted:
                    # We may notice later than our peer, or it lies: then this site speaks to us.
                    (site, peer), *_ = doubted
                    yield TolerantReceive(site, SitesLost, skips=True)
                    raise PeerUnreachable(site, "cannot be reached by every site", reported_by=peer)
                late = [
                    peer for peer in peers if peer not in heard or set(heard[peer].lost) != set(self.lost)
                ]
                if not late:
                    self._decide([heard[peer] for peer in peers])
                    return
                heard[late[0]] = self._checked(
                    late[0], (yield TolerantReceive(late[0], SitesLost, skips=True))
                )
            except PeerUnreachable as error:
                self._lose(error)

    def _state(self) -> SitesLost:
        return SitesLost(self.lost, self.openings.rounds, self.openings.under_way)

    def _checked(self, peer: str, told: SitesLost) -> SitesLost:
        if self.name in told.lost:
            raise PeerError(peer, "has lost its connection to us, and would go on without us")
        if not set(told.lost) <= set(self.sites) - {peer}:
            raise PeerBrokeProtocol(peer, "has lost somebody who is no site of this session")
        return told

    def _lose(self, error: PeerUnreachable) -> None:
        """Count a site as lost; an error about somebody else passes through."""
        if error.peer not in self.present or not is_first_hand(error):
            raise error
        self.lost = (*self.lost, error.peer)

    def _decide(self, told: list[SitesLost]) -> None:
        """Raise unless the round under way may be repeated without the lost."""
        states = [self._state(), *told]
        if len(self.present) < (needed := fewest(len(self.sites))):
            why = f"{len(self.present)} of {len(self.sites)} sites are left, and {needed} are needed to go on"
        elif any(state.opening for state in states) or len({state.rounds for state in states}) > 1:
            why = "a sum over its records was being opened, so that it must not be made again without them"
        elif self.drop_out == "start-over" and self.openings.rounds:
            why = "sums over its records had been opened, so that they must not be made again without them"
        else:
            return
        raise PeerUnreachable(self.lost[-1], f"dropped out: {why}")
