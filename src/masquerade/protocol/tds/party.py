"""Top-down specialization of a table whose columns are spread over n parties: one party's part, from start to end.

It aligns, shares the class, specialises, checks, and hands in; `mashup` is its rounds.

All parties go through the same rounds: each finds its best valid candidate, the best of all wins, the
winner sends an instruction, and every party splits its groups. `LocalView` and `PublicState` are those of
the one-table algorithm, so the sequence of specializations is the one that a trusted party with the
joined table would make.

    who        learns, each round
    everyone   the winner, its attribute, and for each common record that carried the specialised value, its child:
               the generalised value of its own identified people, as the release will have it or more general
    everyone   what the way of comparing scores shows (protocol/comparing/argmax.py)
    everyone   where requirements look at sensitive attributes of other parties, whether the winner's candidate is
               withdrawn because one of them would not hold (protocol/sensitive/checks.py)

Cost of a round: the comparison, and one instruction of about carriers · entropy bits to n − 1 peers.

Everybody recomputes the winner's score and the validity from the instruction; a peer whose instruction
does not fit what was agreed is named, and the session ends. So is a winner whose candidate is worse than
our own: the comparison came out wrong, by its doing or, with more than two parties, by another's.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from masquerade.anonymize import Candidate, Instruction, LocalView, PublicState, Split, anonymity_loss
from masquerade.crypto import BidWords
from masquerade.data import Coded
from masquerade.engine import Counts, which_occur
from masquerade.errors import Bug, PeerBrokeProtocol
from masquerade.net import Message, Receive, Script, Send
from masquerade.privacy import KAnonymity
from masquerade.progress import Stage
from masquerade.protocol.boundaries import start_within_boundaries
from masquerade.protocol.common_records import CommonRecords, find_common_records, hand_in
from masquerade.protocol.comparing.argmax import ArgMax, Bid, LastWinnerFirst, Winner, plain, prepare
from masquerade.protocol.contract import Contract, Contribution
from masquerade.protocol.hand_in import ReportedStep
from masquerade.protocol.method import Participant
from masquerade.protocol.sensitive.checks import RemoteChecks, Settled, prepare_checks, remote_parts
from masquerade.protocol.tds.instruction_code import pack, unpack
from masquerade.protocol.tds.method import AlwaysTakePart, Participation
from masquerade.utility import FIXED_ONE, Score, score_named


class Instruct(Message, tag="instruct", frozen=True):
    """The winner's instruction."""

    position: int
    value: int
    n_children: int
    children: bytes


class Finished(Message, tag="finished", frozen=True):
    """At the end: a digest of the groups that the sender arrived at."""

    digest: bytes


@dataclass(frozen=True)
class JointSchema:
    """What all parties know about the joined table: the attributes of the QIDs in order, and who holds each."""

    attributes: tuple[str, ...]
    holders: tuple[int, ...]

    @classmethod
    def of(cls, contract: Contract, columns: Sequence[Contribution]) -> JointSchema:
        """Return what all know of these columns of a contract."""
        holders = tuple(contract.parties.index(column.holder) for column in columns)
        return cls(tuple(column.name for column in columns), holders)


@dataclass(frozen=True)
class Round:
    """One specialization as a party saw it; `candidate` only if it is its own."""

    party: int
    attribute: str
    score: int
    candidate: Candidate | None


OnRound = Callable[[Round], None]


def mashup(
    me: int,
    parties: Sequence[str],
    schema: JointSchema,
    view: LocalView,
    state: PublicState,
    classes: Coded | None,
    *,
    argmax: ArgMax = plain,
    checks: RemoteChecks | None = None,
    participation: Participation | None = None,
    on_round: OnRound | None = None,
) -> Script[tuple[Round, ...]]:
    """Run this party's part; afterwards `view` and `state` hold the cut and the groups."""
    strategy = participation if participation is not None else AlwaysTakePart()
    peers = tuple(name for number, name in enumerate(parties) if number != me)
    rounds: list[Round] = []
    offered: list[tuple[Candidate, Split]] = []  # this party's best, where this round has asked for it

    def offer() -> Bid | None:
        best = view.best(state) if strategy.takes_part(me) else None
        offered.extend([best] if best is not None else [])
        return Bid(best[0].score, best[0].position) if best is not None else None

    # One specialization a round: what is valid, and what a score weighs, depends on the groups that all before made.
    while True:
        offered.clear()
        winner = yield from argmax(me, parties, offer)
        if winner is None:
            break
        candidate: Candidate | None = None
        if winner.party == me:
            ((candidate, instruction),) = offered
            if checks is not None:
                # Before anybody sees the instruction: of a candidate that is refused nothing is to be known.
                valid = yield from checks.ask(instruction, state)
                yield Send(peers, Settled(valid))
                if not valid:
                    view.candidates.remove(candidate)
                    continue
            packed = pack(state.children(instruction), instruction.n_children)
            yield Send(peers, Instruct(candidate.position, candidate.value, instruction.n_children, packed))
            score = candidate.score
        else:
            name = parties[winner.party]
            if checks is not None and not (yield from checks.instructs(winner.party, state)):
                continue
            instruction = understood((yield Receive(name, Instruct)), name, winner, schema, state)
            # The winner's score follows from its instruction and the shared class.
            counts = state.class_counts(instruction, classes)
            loss = anonymity_loss(state, instruction) if view.score.weighs_anonymity else 0.0
            score = view.score.rate(view.score.base(counts), loss)
            if winner.bid is not None and winner.bid.score != score:
                raise PeerBrokeProtocol(name, f"claimed a false score for {instruction.attribute}")
            theirs = Bid(score, schema.attributes.index(instruction.attribute))
            if any(Bid(own.score, own.position).beats(theirs) for own, _ in offered):
                doubt = ", if no other party had a hand in it" if len(peers) > 1 else ""
                raise PeerBrokeProtocol(name, f"won the comparison with a worse candidate than ours{doubt}")
        numbers = state.specialise(instruction)
        if candidate is not None:
            view.specialise(candidate, numbers)
        strategy.credit(winner.party, score)
        rounds.append(Round(winner.party, instruction.attribute, score, candidate))
        if on_round is not None:
            on_round(rounds[-1])

    yield from insist_on_same_groups(peers, state.each_label())
    return tuple(rounds)


def understood(message: Instruct, sender: str, winner: Winner, schema: JointSchema, state: PublicState) -> Split:
    """Decode the instruction; raise unless this winner may give it now."""
    if not 0 <= message.position < len(schema.attributes):
        raise PeerBrokeProtocol(sender, f"instructed on attribute {message.position}, which there is not")
    attribute = schema.attributes[message.position]
    if schema.holders[message.position] != winner.party:
        raise PeerBrokeProtocol(sender, f"instructed on {attribute}, which it does not hold")
    if winner.bid is not None and winner.bid.position != message.position:
        raise PeerBrokeProtocol(sender, f"won with another attribute than {attribute}, on which it instructed")
    if message.value not in state.cut[attribute]:
        raise PeerBrokeProtocol(sender, f"instructed on a value of {attribute} that is not in the cut")
    n_carriers = state.n_carriers(attribute, message.value)
    if not n_carriers:
        raise PeerBrokeProtocol(sender, f"instructed on a value of {attribute} that no record carries")
    if not 1 <= message.n_children <= n_carriers:
        raise PeerBrokeProtocol(sender, f"sends {n_carriers} records to {message.n_children} children of {attribute}")
    try:
        children = unpack(message.children, message.n_children, n_carriers)
    except ValueError as error:
        raise PeerBrokeProtocol(sender, f"sent a broken instruction on {attribute}: {error}") from None
    if not which_occur(children, message.n_children).all():
        raise PeerBrokeProtocol(sender, f"instructed on a child of {attribute} that no record goes to")
    instruction = state.told(Instruction(attribute, message.value, message.n_children, children))
    if not state.allows(instruction):
        raise PeerBrokeProtocol(sender, f"specialised {attribute} against the requirement")
    return instruction


def insist_on_same_groups(peers: Sequence[str], labels: Iterable[Counts]) -> Script[None]:
    """Tell the peers a digest of each record's group, which all number the same way; name the one that has others.

    Every method that cuts together ends with this: until here a party has checked what each peer told, not that it told
    all the same.
    """
    digest = digest_of(labels)
    yield Send(tuple(peers), Finished(digest))
    for name in peers:
        finished = yield Receive(name, Finished)
        if finished.digest != digest:
            raise PeerBrokeProtocol(name, "arrived at other groups than we did")


def digest_of(labels: Iterable[Counts]) -> bytes:
    """Digest each record's group, given in as many pieces as there are."""
    digest = hashlib.sha256()
    for some in labels:
        digest.update(some.astype("<i8").tobytes())
    return digest.digest()


def party(
    participant: Participant, score_name: str | None, participation: Participation, *, hides_scores: bool
) -> Script[int]:
    """Run this party's part. Return the number of common records.

    `participant.on_step` is called with this party's own specializations as they are made.
    """
    name, contract, on_stage = participant.name, participant.contract, participant.on_stage
    me = contract.parties.index(name)
    common = yield from find_common_records(
        participant, Stage("preparing the comparisons" if hides_scores else "specialising")
    )
    participant.before_showing()
    before = time.perf_counter()
    common, start = yield from start_within_boundaries(name, contract, common, on_stage, whole_columns=True)
    score = score_named(score_name, contract.class_name is not None)
    common = common.on(participant.engine)
    view, state, schema = _prepared(name, contract, common, score)
    for instruction in start.instructions():
        numbers = state.specialise(instruction)
        if instruction.attribute in view.own:
            view.start(instruction.attribute, numbers)
    # A score that is constant, of candidates that can only become invalid, bounds a party's bids while others win.
    falling = not score.weighs_anonymity and not participation.holds_back
    argmax: ArgMax = LastWinnerFirst() if falling else plain
    own = common.columns(contract, name)
    checks = yield from prepare_checks(RemoteChecks, me, contract, common.sensitive, own, common.n_records)
    if hides_scores:
        words = bid_words(score, common.n_records, len(schema.attributes))
        argmax = yield from prepare(me, contract.parties, words)
        on_stage(Stage("specialising"))
    if hides_scores or checks is not None or contract.bounded:
        common.seconds["prepare"] = time.perf_counter() - before
    made = 0

    def on_round(one: Round) -> None:
        nonlocal made
        made += 1
        on_stage(Stage("specialising", round=made))
        if participant.on_step is not None:
            for step in _reported([one], view, made - 1):
                participant.on_step(step)

    rounds = yield from mashup(
        me,
        contract.parties,
        schema,
        view,
        state,
        common.classes,
        argmax=argmax,
        checks=checks,
        participation=participation,
        on_round=on_round,
    )
    if not all(partition.holds() for partition in state.partitions):
        raise Bug("the mashup arrived at groups that the requirement refuses; nothing was handed in")
    released = {
        each.name: common.released(view.released(each.name)) for each in contract.qid_columns if each.holder == name
    }
    return (
        yield from hand_in(
            participant,
            common,
            released,
            groups=[np.concatenate([*each.each_label()]) for each in state.partitions],
            steps=_reported(rounds, view),
            histograms_by=checks.histograms_by if checks is not None else (),
        )
    )


def _prepared(
    name: str, contract: Contract, common: CommonRecords, score: Score
) -> tuple[LocalView, PublicState, JointSchema]:
    parts = contract.parts
    joint = contract.qid_columns
    schema = JointSchema.of(contract, joint)
    # The group sizes implied by requirements on other parties' sensitive values are checked here, before any request.
    sizes = [KAnonymity(part.qid, part.implied_size) for part in remote_parts(contract)]
    columns = {
        position: common.records.columns[column.name] for position, column in enumerate(joint) if column.holder == name
    }
    state = PublicState(common.records, schema.attributes, [*parts, *sizes], common.sensitive)
    target = common.classes.name if common.classes is not None else None
    counts = state.scored(tuple(columns.values()), target)
    return LocalView(columns, counts, score), state, schema


def bid_words(score: Score, n_records: int, n_attributes: int) -> BidWords:
    """Return the format of a bid: as many bits as every score that the table can have takes, and no more.

    All parties know the score, the number of common records and the joint schema, so they agree without a message.
    """
    # One bit for the sign and one for what rounding adds to a score at its bound.
    width = FIXED_ONE.bit_length() - 1 + score.whole_bits(n_records) + 2
    return BidWords(width, max(1, (n_attributes - 1).bit_length()))


def _reported(rounds: Sequence[Round], view: LocalView, first: int = 0) -> tuple[ReportedStep, ...]:
    """Return this party's own specializations among these rounds, which are numbered from `first`."""
    reported = []
    for number, each in enumerate(rounds, first):
        if each.candidate is not None:
            step = view.step(each.candidate)
            reported.append(ReportedStep(number, step.attribute, step.value, step.children, step.score))
    return tuple(reported)
