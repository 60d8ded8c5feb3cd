"""Mashup: top-down specialization of a table whose columns are spread over n parties.

All parties go through the same rounds: each finds its best valid candidate, the best of all wins, the winner
sends an instruction, and every party splits its groups. `LocalView` and `PublicState` are those of the one-table
algorithm, so the sequence of specializations is the one that a trusted party with the joined table would make.

    who        learns, each round
    everyone   the winner, its attribute, and for each common record that carried the specialised value, its child:
               the generalised value of its own identified people, as the release will have it or more general
    everyone   what the way of comparing scores shows (protocol/argmax.py)
    everyone   where requirements look at sensitive attributes of other parties, whether the winner's candidate is
               withdrawn because one of them would not hold (protocol/remote_checks.py)

Cost of a round: the comparison, and one instruction of about carriers · entropy bits to n − 1 peers.

Everybody recomputes the winner's score and the validity from the instruction; a peer whose instruction does not fit
what was agreed is named, and the session ends. So is a winner whose candidate is worse than our own: the comparison
came out wrong, by its doing or, with more than two parties, by another's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from masquerade.anonymize.instruction import Instruction, Split
from masquerade.anonymize.local_view import Candidate, LocalView, anonymity_loss
from masquerade.anonymize.public_state import PublicState
from masquerade.data.column import Coded
from masquerade.engine.counts import which_occur
from masquerade.errors import PeerBrokeProtocol
from masquerade.net.script import Message, Receive, Script, Send
from masquerade.protocol.argmax import ArgMax, Bid, Winner, plain
from masquerade.protocol.instruction_code import pack, unpack
from masquerade.protocol.participation import AlwaysTakePart, Participation
from masquerade.protocol.remote_checks import RemoteChecks, Settled


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

    while True:
        offered.clear()
        winner = yield from argmax(me, parties, offer)
        if winner is None:
            break
        candidate: Candidate | None = None
        if winner.party == me:
            ((candidate, instruction),) = offered
            if checks is not None:
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
            score = checked_score(name, winner, instruction, view, state, classes)
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

    digest = _digest(state)
    yield Send(peers, Finished(digest))
    for name in peers:
        finished = yield Receive(name, Finished)
        if finished.digest != digest:
            raise PeerBrokeProtocol(name, "arrived at other groups than we did")
    return tuple(rounds)


def understood(
    message: Instruct, sender: str, winner: Winner, schema: JointSchema, state: PublicState
) -> Split:
    """Decode the instruction; raise unless this winner may give it now."""
    if not 0 <= message.position < len(schema.attributes):
        raise PeerBrokeProtocol(sender, f"instructed on attribute {message.position}, which there is not")
    attribute = schema.attributes[message.position]
    if schema.holders[message.position] != winner.party:
        raise PeerBrokeProtocol(sender, f"instructed on {attribute}, which it does not hold")
    if winner.bid is not None and winner.bid.position != message.position:
        raise PeerBrokeProtocol(
            sender, f"won with another attribute than {attribute}, on which it instructed"
        )
    if message.value not in state.cut[attribute]:
        raise PeerBrokeProtocol(sender, f"instructed on a value of {attribute} that is not in the cut")
    n_carriers = state.n_carriers(attribute, message.value)
    if not n_carriers:
        raise PeerBrokeProtocol(sender, f"instructed on a value of {attribute} that no record carries")
    if not 1 <= message.n_children <= n_carriers:
        raise PeerBrokeProtocol(
            sender, f"sends {n_carriers} records to {message.n_children} children of {attribute}"
        )
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


def checked_score(
    sender: str,
    winner: Winner,
    instruction: Split,
    view: LocalView,
    state: PublicState,
    classes: Coded | None,
) -> int:
    """Recompute the winner's score from its instruction and the shared class; raise if it claimed another."""
    counts = state.class_counts(instruction, classes)
    loss = anonymity_loss(state, instruction) if view.score.weighs_anonymity else 0.0
    score = view.score.rate(view.score.base(counts), loss)
    if winner.bid is not None and winner.bid.score != score:
        raise PeerBrokeProtocol(sender, f"claimed a false score for {instruction.attribute}")
    return score


def _digest(state: PublicState) -> bytes:
    """Digest the groups of all QIDs, which all parties number the same way."""
    digest = hashlib.sha256()
    for labels in state.each_label():
        digest.update(labels.astype("<i8").tobytes())
    return digest.digest()
