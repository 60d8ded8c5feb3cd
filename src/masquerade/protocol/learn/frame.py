"""The frame in which every method learns: what a party and the collector do, whatever the model.

A party aligns its records where the parties hold different columns, agrees on the columns' values, learns, and hands in
the model with its masked counts. The collector, which is no party, compares the models and adds up the counts. Where a
method lets sites drop out, those that are left go on, or start over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import msgspec
import numpy as np
from msgspec import Meta

from masquerade.crypto import Elements, PowerOfTwo, unmask_sum
from masquerade.data import Table
from masquerade.errors import PeerBrokeProtocol, PeerError, PeerUnreachable
from masquerade.forms import json_decoder
from masquerade.net import Message, Receive, Script, Send, TolerantReceive, TolerantSend
from masquerade.progress import Stage
from masquerade.protocol.common_records import find_common_rows, insist_on_same_classes, refuse_nobody
from masquerade.protocol.contract import Contract
from masquerade.protocol.hand_in import Received
from masquerade.protocol.learn.learned import Learned
from masquerade.protocol.learn.models import Model, NotAModel, alike
from masquerade.protocol.learn.site import Site, agree_on_values, attributes_of, filled
from masquerade.protocol.learn.sums import Openings, agree_on_masks
from masquerade.protocol.method import ASSEMBLER, Participant
from masquerade.protocol.pairs import blaming

if TYPE_CHECKING:
    from masquerade.protocol.learn.method import Collection, LearningMethod

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


# --- frame --------------------------------------------------------------------------------------------------

TRAINING = "the training records"  # what metrics are computed on


def party(method: LearningMethod, participant: Participant) -> Script[int]:
    """Align, agree on values, learn, hand in. Return how many records this party had in the session."""
    started = time.perf_counter()
    table = yield from _records(participant)
    aligned = time.perf_counter()
    participant.on_stage(Stage(method.activity))
    participant.before_showing()
    survivors = _survivors(method, participant)
    model, masked = yield from _among_the_present(method, participant, table, survivors, partial(_counted, method))
    participant.before_showing()
    seconds = {"align": aligned - started, "protocol": time.perf_counter() - aligned}
    message = LearnedModel(written_model(model), COUNTS.encode(masked), seconds, survivors.lost)
    yield Send((ASSEMBLER,), message)
    yield Receive(ASSEMBLER, Received)
    return len(table)


def among_parties(method: LearningMethod, participant: Participant) -> Script[Model]:
    """Learn the model without a collector, for parties that need nobody to write it."""
    table = yield from _records(participant)
    participant.before_showing()
    learn = partial(_kept, method)
    return (yield from _among_the_present(method, participant, table, _survivors(method, participant), learn))


def _survivors(method: LearningMethod, participant: Participant) -> Survivors:
    return Survivors(participant.name, participant.contract.parties, method.drop_out)


def _among_the_present(
    method: LearningMethod,
    participant: Participant,
    table: Table,
    survivors: Survivors,
    learn: Callable[[Site], Script[Result]],
) -> Script[Result]:
    """Learn with all parties; or, where that is agreed, with those that are left when some drop out."""
    if not method.outlives_parties:
        return (yield from learn((yield from _site(method, participant, table, participant.contract.parties, None))))
    agreed: Site | None = None

    def attempt(present: tuple[str, ...]) -> Script[Result]:
        nonlocal agreed
        if agreed is None or not survivors.openings.rounds:  # what a sum was opened by stays
            agreed = yield from _site(method, participant, table, present, survivors.openings)
        return (yield from learn(replace(agreed, parties=present)))

    return (yield from survivors.run(attempt))


def _kept(method: LearningMethod, site: Site) -> Script[Model]:
    """Return the model; before anybody can have it, the site keeps what it needs to use it."""
    model = yield from method.learn(site)
    if (kept := method.kept(site, model)) is not None:
        site.keep(site.contract.hash.hex(), kept)
    return model


def _counted(method: LearningMethod, site: Site) -> Script[tuple[Model, Elements]]:
    """Return the model, and the masked counts by which it is judged."""
    model = yield from _kept(method, site)
    if site.openings is not None:
        site.openings.under_way = True  # everything is open: nothing is made again
    site.on_stage(Stage("handing in"))
    return model, (yield from _masked(method, site, model))


def _site(
    method: LearningMethod, participant: Participant, table: Table, parties: tuple[str, ...], openings: Openings | None
) -> Script[Site]:
    """Agree on the columns' values, and fill in missing numbers."""
    name, contract = participant.name, participant.contract
    me = parties.index(name)
    categories = [each for each in method.categories(contract, table.schema) if each in table.arrow.column_names]
    agreed = yield from agree_on_values(me, parties, table, categories)
    if agreed.has_gaps:
        table = yield from filled(
            table,
            [each for each in attributes_of(contract) if each in table.schema and each not in categories],
            me,
            parties,
            b"means\0" + contract.hash,
            pooled=contract.arrangement == "horizontal",
            openings=openings,
        )
    return Site(
        name,
        contract,
        table,
        agreed.values,
        agreed.most_bits,
        parties,
        participant.on_stage,
        openings,
        participant.keep,
    )


def collector(method: LearningMethod, collection: Collection) -> Script[Learned]:
    """Run the part of the collector, which is no party: compare the models, add up the counts."""
    contract = collection.contract
    built = yield from method.build(collection)
    handed = yield from (handed_in_spite(contract.parties) if method.outlives_parties else handed_by(contract.parties))
    if built is not None:
        ours = LearnedModel(written_model(built), b"", {})
        the_one_model(method.learns, {ASSEMBLER: ours, **handed})
    model = the_one_model(method.learns, handed)
    learned = _learned(method, contract, tuple(handed), model, total_counts(handed))
    seconds = {
        part: max(message.seconds.get(part, 0.0) for message in handed.values()) for part in ("align", "protocol")
    }
    yield Send(tuple(handed), Received())
    return replace(learned, seconds=seconds, session=contract.hash.hex())


def learned_alone(method: LearningMethod, site: Site) -> Learned:
    """Return the model of one table, with its metrics."""
    model = method.alone(site)
    masked = result_of(_masked(method, site, model))
    return _learned(method, site.contract, site.parties, model, [int(each) for each in masked])


def _masked(method: LearningMethod, site: Site, model: Model) -> Script[Elements]:
    """Return the number of records and the counts of the model, masked."""
    everybody = site.arrangement == "vertical" and site.me > 0  # whose records the first party has counted
    counts = as_counts([0 if everybody else len(site.table)])
    if method.evaluate:
        counts = np.concatenate((counts, (yield from method.counts(site, model))))
    return (yield from masked_counts(site.me, site.parties, counts, site.purpose("figures")))


def _learned(
    method: LearningMethod, contract: Contract, parties: tuple[str, ...], model: Model, counts: Sequence[int]
) -> Learned:
    metrics, curves = method.metrics(model, counts[0], counts[1:]) if method.evaluate else ({}, {})
    roles: dict[str, str] = {
        column.role: column.name for column in contract.columns if column.role in ("duration", "event")
    }
    if contract.class_name is not None:
        roles["class"] = contract.class_name
    on = {"on": TRAINING} if metrics else {}
    return Learned(
        method.settings(),
        model,
        roles,
        parties,
        counts[0],
        {**metrics, **on},
        curves,
        dropped_out=tuple(name for name in contract.parties if name not in parties),
    )


def _records(participant: Participant) -> Script[Table]:
    """Return this party's records: its own, or of those that all parties have, in the common order."""
    if participant.contract.arrangement == "horizontal":
        return participant.table
    rows = yield from find_common_rows(participant)
    refuse_nobody(participant.contract, rows)
    table = participant.table.take(rows)
    if (target := participant.contract.class_name) is not None and participant.contract.class_from is None:
        participant.before_showing()
        yield from insist_on_same_classes(participant.name, participant.contract, table.coded(target), len(table))
    return table


def result_of(script: Script[Any]) -> Any:
    """Run a script that has nobody to talk to."""
    try:
        while True:
            move = next(script)
            assert isinstance(move, Send)
            assert not move.peers
    except StopIteration as end:
        return end.value


def alone_at(method: LearningMethod, contract: Contract, table: Table) -> Site:
    """Return the site that holds every column, and has nobody to agree with."""
    names = [each for each in method.categories(contract, table.schema) if each in table.arrow.column_names]
    agreed = result_of(agree_on_values(0, contract.parties, table, names))
    if agreed.has_gaps:
        numbers = [each for each in table.schema.names if each not in names]
        table = result_of(filled(table, numbers, 0, contract.parties, b"", pooled=True))
    return Site(contract.parties[0], contract, table, agreed.values, agreed.most_bits, contract.parties)
