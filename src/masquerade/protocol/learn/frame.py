"""The frame in which every method learns (`method.py`): going on without lost sites, and handing in the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeVar

import msgspec
import numpy as np
from msgspec import Meta

from masquerade.crypto import Elements, PowerOfTwo, unmask_sum
from masquerade.errors import PeerBrokeProtocol, PeerError, PeerUnreachable
from masquerade.forms import json_decoder
from masquerade.net import Message, Receive, Script, Send, TolerantReceive, TolerantSend
from masquerade.protocol.learn.models import Model, NotAModel, alike
from masquerade.protocol.learn.sums import Openings, agree_on_masks
from masquerade.protocol.pairs import blaming

# --- drop out -----------------------------------------------------------------------------------------------
# Go on without sites that drop out: the rest agree who is lost and that nothing was opened, and repeat the
# round.
#
# The same sum with and without a site tells that site's summand. So a round is repeated without it only if
# nothing of the round was opened, to anybody. Each site judges that by what it has done itself: sums are
# opened in two messages (`sums.py`), and nobody can read one before every site has sent its second. A site
# that has sent its own refuses to repeat the round, whatever others say. A liar that claims to have seen
# nothing gains nothing.
#
#  1. Who notices that a site has vanished tells all others whom it has lost, how many rounds are open, and whether one
#     is being opened. A site is left out only if **every** other site has lost its own connection to it; somebody who
#     is still seen by one ends the session.
#  2. When all have told the same, they begin a new attempt, with new keys and masks. What is left over of the broken
#     one is thrown away.
#
# **Split groups.** Were two halves of the sites told that the other half is lost, a liar that takes part in
# both sums could subtract. So more than half must be left, even if a liar is counted twice (`fewest`), and
# never fewer than three: of two, each learns the other's sums.
#
# What the rounds before tell. Sums of neighbouring rounds are alike: after rounds that were opened with a
# site, rounds without it tell nearly what it had added. `start-over` therefore repeats only if no round at
# all was opened, and `go-on`, which keeps to the round under way, is for sites that agree to that.

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
                    (site, peer) for peer in peers if peer in heard for site in heard[peer].lost if site in peers
                ]
                if doubted:
                    # We may notice later than our peer, or it lies: then this site speaks to us.
                    (site, peer), *_ = doubted
                    yield TolerantReceive(site, SitesLost, skips=True)
                    raise PeerUnreachable(site, "cannot be reached by every site", reported_by=peer)
                late = [peer for peer in peers if peer not in heard or set(heard[peer].lost) != set(self.lost)]
                if not late:
                    self._decide([heard[peer] for peer in peers])
                    return
                heard[late[0]] = self._checked(late[0], (yield TolerantReceive(late[0], SitesLost, skips=True)))
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


# --- handing in ---------------------------------------------------------------------------------------------
# How the parties hand in their model, and how good it is on their records.
#
# Every party hands in the model that it has learned; they must all be the same. The collector, which is no
# party, writes it. Of how many records are classified rightly, and the like, each party hands in its own
# counts (or its shares of joint ones), masked pairwise: the collector learns the sums over all parties
# alone.
#
# Cost: a nonce and a key to each peer, and one message to the collector.

COUNTS = PowerOfTwo(64)


class LearnedModel(Message, tag="learn-model", frozen=True):
    """A party's model as JSON, its masked counts, how long it took, and which parties dropped out."""

    model: bytes
    counts: bytes
    seconds: Annotated[dict[str, float], Meta(max_length=16)]
    without: Annotated[tuple[str, ...], Meta(max_length=1000)] = ()


def masked_counts(me: int, parties: Sequence[str], counts: Elements, purpose: bytes) -> Script[Elements]:
    """Mask counts so that only their sums over all parties can be read; all parties give equally many."""
    if len(parties) == 1:
        return counts
    masks = yield from agree_on_masks(me, parties, purpose, COUNTS)
    return masks.mask(counts, 1)


def written_model(model: Model) -> bytes:
    """Return a model as a party sends it: numbers by twelve digits, for further ones differ between processors."""
    return msgspec.json.encode(_rounded(model.as_json()))


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.12g}")
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return value


def handed_by(parties: Sequence[str]) -> Script[dict[str, LearnedModel]]:
    """Return what each party hands in."""
    handed: dict[str, LearnedModel] = {}
    for name in parties:
        handed[name] = yield Receive(name, LearnedModel)
    return handed


def handed_in_spite(parties: Sequence[str]) -> Script[dict[str, LearnedModel]]:
    """Return what each party hands in that is left; all must have lost those whom we have lost, and nobody else."""
    handed: dict[str, LearnedModel] = {}
    lost: dict[str, PeerUnreachable] = {}
    for name in parties:
        while name not in handed and name not in lost:
            try:
                handed[name] = yield TolerantReceive(name, LearnedModel)
            except PeerUnreachable as error:
                if error.peer not in parties or not is_first_hand(error):
                    raise
                if error.peer not in handed:  # otherwise it has done its part
                    lost[error.peer] = error
    for name, message in handed.items():
        for gone in lost:
            if gone not in message.without:
                raise lost[gone]
        if here := [each for each in message.without if each not in lost]:
            raise PeerBrokeProtocol(name, f"went on without {here[0]}, which is here")
    return handed


def read_model(kind: type[Model], data: bytes, sender: str) -> tuple[Model, dict[str, Any]]:
    """Return the model that a party sent, and as it was written."""
    try:
        written = json_decoder(dict[str, Any]).decode(data)
        return kind.read(written), written
    except (NotAModel, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        why = f": {error}" if isinstance(error, NotAModel) else ""
        raise PeerBrokeProtocol(sender, f"handed in no model{why}") from None


def the_one_model(kind: type[Model], handed: Mapping[str, LearnedModel]) -> Model:
    """Return the model that all parties have handed in; otherwise somebody is at fault, and nobody can tell who."""
    models = {party: read_model(kind, message.model, party) for party, message in handed.items()}
    first, *others = models
    for party in others:
        if not alike(models[first][1], models[party][1]):
            raise PeerBrokeProtocol("", f"{first} and {party} handed in different models")
    return models[first][0]


def total_counts(handed: Mapping[str, LearnedModel]) -> list[int]:
    """Return the sums of all parties' counts, of which each party has handed in equally many."""
    (first, message), *others = handed.items()
    size = len(message.counts)
    for party, other in others:
        if len(other.counts) != size:
            raise PeerBrokeProtocol("", f"{first} and {party} handed in different numbers of counts")
    with blaming(first):
        masked = [COUNTS.decode(each.counts, size // COUNTS.element_bytes) for each in handed.values()]
    if not size:
        raise PeerBrokeProtocol("", "nobody handed in a number of records")
    return [int(each) for each in unmask_sum(masked, COUNTS)]


def as_counts(numbers: Any) -> Elements:
    """Return whole numbers as elements of the ring of counts."""
    return np.asarray(numbers, np.int64).ravel().astype(np.uint64)


def result_of(script: Script[Any]) -> Any:
    """Run a script that has nobody to talk to."""
    try:
        while True:
            move = next(script)
            assert isinstance(move, Send)
            assert not move.peers
    except StopIteration as end:
        return end.value
