"""docs/leakage.md, shown for hidden scores: the winners alone are enough to make a party's view of the comparisons."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from crypto.two_parties import balanced
from leakage.test_mashup_views import handed_in, recorded, simulated_instructions
from masquerade.net import Script
from masquerade.net.memory import SentMessage, Wire, run_together
from masquerade.net.script import encode
from masquerade.protocol import ASSEMBLER, Contract
from masquerade.protocol.comparing.argmax import Bid, prepare
from masquerade.protocol.tds.party import bid_words
from masquerade.utility import SCORES
from papers.paper_tables import loan_table
from protocol.test_mashup import REQUIREMENT, contract_of

TWO = {"Sex": "loans", "Job": "bank", "Salary": "bank"}
THREE = {"Sex": "loans", "Job": "bank", "Salary": "tax"}
VIEWS = [(TWO, "bank"), (TWO, "loans"), (THREE, "bank"), (THREE, "loans"), (THREE, "tax")]
N_RECORDS = 34

OPEN = {"list-size", "sizes-heard", "blinded", "positions", "equality-share", "equality-proof", "instruct", "finished"}
# Points of a curve, which are no uniform bits; they are made before there is any bid.
SETUP = {"session-nonce", "base-transfers"}
BITS = {"shared-masked": 6, "shared-result": 3}  # of three parties; the others fill their bytes


def winners_of(contract: Contract, wire: Wire) -> list[int | None]:
    """What everybody learns: who won each round, and the end."""
    steps = [(step.round, party) for party, columns in handed_in(wire).items() for step in columns.steps]
    return [*(contract.parties.index(party) for _, party in sorted(steps)), None]


def simulated(contract: Contract, party: str, winners: Sequence[int | None]) -> list[SentMessage]:
    """A view of the comparisons from the winners alone: the winner bids nothing special, the others nothing."""

    def part(me: int) -> Script[list[int | None]]:
        words = bid_words(SCORES[contract.method["score"]], N_RECORDS, len(contract.qid_columns))
        argmax = yield from prepare(me, contract.parties, words)
        found = []
        for winner in winners:
            bid = Bid(0, 0) if winner == me else None
            won = yield from argmax(me, contract.parties, lambda bid=bid: bid)
            found.append(won.party if won is not None else None)
        return found

    wire = Wire()
    results = run_together({name: part(me) for me, name in enumerate(contract.parties)}, wire)
    assert all(result == list(winners) for result in results.values())
    return wire.seen_by(party)


def compares(heard: SentMessage) -> bool:
    return heard.kind.startswith("argmax-") or heard.kind in SETUP | set(BITS)


def by_sender(view: Sequence[SentMessage]) -> dict[str, list[SentMessage]]:
    found: dict[str, list[SentMessage]] = defaultdict(list)
    for heard in view:
        if compares(heard):
            found[heard.sender].append(heard)
    return found


def payloads(heard: SentMessage) -> list[bytes]:
    fields = msgspec.msgpack.decode(heard.data).values()
    return [value for value in fields if isinstance(value, bytes) and value]


@pytest.mark.parametrize(("holders", "party"), VIEWS, ids=lambda each: each if isinstance(each, str) else len(each))
def test_a_view_of_hidden_scores_is_made_from_the_winners(holders: dict[str, str], party: str) -> None:
    contract = contract_of(REQUIREMENT, holders)
    wire = recorded(contract, loan_table())
    view = [heard for heard in wire.seen_by(party) if heard.sender != ASSEMBLER]
    assert {heard.kind for heard in view if not compares(heard)} <= OPEN
    instructions = [each for who, each in simulated_instructions(contract, handed_in(wire)) if who != party]
    assert [heard.data for heard in view if heard.kind == "instruct"] == list(map(encode, instructions))

    real = by_sender(view)
    made = by_sender(simulated(contract, party, winners_of(contract, wire)))
    assert set(real) == set(made) == set(contract.parties) - {party}
    for sender, heard in real.items():
        # Which messages come, and how long they are, follows from the number of rounds.
        shapes = [[(each.kind, *map(len, payloads(each))) for each in one] for one in (heard, made[sender])]
        assert shapes[0] == shapes[1]
        for one in (heard, made[sender]):
            looks_random(one)


def looks_random(messages: Sequence[SentMessage]) -> None:
    """As many ones as zeros in every kind of message, and nothing ever said twice."""
    bits: dict[str, list[Any]] = defaultdict(list)
    long = []
    for heard in messages:
        for payload in payloads(heard):
            if len(payload) >= 16:
                long.append(payload)
            if heard.kind not in SETUP:
                packed = np.frombuffer(payload, np.uint8)
                bits[heard.kind].append(np.unpackbits(packed, count=BITS.get(heard.kind), bitorder="little"))
    assert len(set(long)) == len(long)
    for kind, found in bits.items():
        every = np.concatenate(found)
        assert balanced(every), kind


def test_all_shares_together_say_who_won_and_no_more() -> None:
    contract = contract_of(REQUIREMENT, THREE)
    wire = recorded(contract, loan_table())
    told: dict[str, list[int]] = defaultdict(list)
    for heard in wire.heard:
        if heard.kind == "shared-result" and heard.receiver == _next(contract, heard.sender):
            (share,) = payloads(heard)
            told[heard.sender].append(share[0])
    shares = [told[name] for name in contract.parties]
    opened = [one ^ two ^ three for one, two, three in zip(*shares, strict=True)]
    winners = winners_of(contract, wire)
    assert opened == [0 if winner is None else 1 << winner for winner in winners]
    assert len(winners) == 9  # the papers' eight steps and the end


def _next(contract: Contract, name: str) -> str:
    """One receiver of each sender, so that each share is counted once."""
    return contract.parties[(contract.parties.index(name) + 1) % len(contract.parties)]


def test_shapes_are_those_of_any_other_table_with_as_many_rounds() -> None:
    """The same winners with other scores, and other winners with other scores, look alike from outside."""
    contract = contract_of(REQUIREMENT, TWO)
    shapes = [
        [(each.kind, len(each.data)) for each in simulated(contract, "bank", winners)]
        for winners in ([0, 0, 1, None], [1, 1, 1, None], [0, 1, 0, None])
    ]
    assert shapes[0] == shapes[1] == shapes[2]
