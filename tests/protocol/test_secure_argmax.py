"""The comparison that shows the winner alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from crypto.two_parties import balanced
from examples import examples
from masquerade.anonymize import VerifiedRelease
from masquerade.crypto import BidWords
from masquerade.errors import Bug, MasqueradeError, PeerBrokeProtocol
from masquerade.net import Receive, Script, Send, leave_message
from masquerade.net.channel import Cause, LeaveMessage
from masquerade.net.memory import Wire, run_together
from masquerade.protocol.comparing.argmax import (
    MOST_SCORE_BYTES,
    ArgMax,
    Bid,
    LastWinnerFirst,
    Offer,
    SecureArgMax,
    Winner,
    plain,
    prepare,
)
from masquerade.protocol.tds import party
from masquerade.protocol.tds.method import AlwaysTakePart
from masquerade.protocol.tds.party import bid_words, mashup
from masquerade.utility import FIXED_ONE, SCORES
from papers.paper_tables import loan_table
from protocol.tampering import changing
from protocol.test_mashup import REQUIREMENT, a_split, bag, contract_of, deals, people, qids, run_mashup

NAMES = ("anna", "berta", "carla", "dora", "emil")
WORDS = BidWords(score_bits=72, position_bits=4)

Rounds = Sequence[Sequence[Bid | None]]  # for each round, every party's bid


def whole_session(me: int, parties: Sequence[str], rounds: Rounds, rounds_ahead: int) -> Script[list[Winner | None]]:
    argmax = yield from prepare(me, parties, WORDS, rounds_ahead=rounds_ahead)
    winners = []
    for bids in rounds:
        winners.append((yield from argmax(me, parties, partial(bids.__getitem__, me))))
    return winners


def played(n_parties: int, rounds: Rounds, rounds_ahead: int = 64, wire: Wire | None = None) -> list[int | None]:
    """The winner of each round, on which all parties agree."""
    names = NAMES[:n_parties]
    scripts = {name: whole_session(me, names, rounds, rounds_ahead) for me, name in enumerate(names)}
    results = run_together(scripts, wire)
    assert all(result == results[names[0]] for result in results.values())
    assert all(winner is None or winner.bid is None for winner in results[names[0]])
    return [winner.party if winner is not None else None for winner in results[names[0]]]


def plainly(n_parties: int, bids: Sequence[Bid | None]) -> int | None:
    names = NAMES[:n_parties]
    scripts = {name: plain(me, names, partial(bids.__getitem__, me)) for me, name in enumerate(names)}
    winner = run_together(scripts)[names[0]]
    return winner.party if winner is not None else None


def falling(me: int, parties: Sequence[str], rounds: Rounds) -> Script[list[Winner | None]]:
    argmax, winners = LastWinnerFirst(), []
    for bids in rounds:
        winners.append((yield from argmax(me, parties, partial(bids.__getitem__, me))))
    return winners


@settings(max_examples=examples(20), deadline=None)
@given(st.integers(2, 4), st.lists(st.lists(st.integers(0, 6), max_size=4), min_size=4, max_size=4))
def test_the_last_winner_first_gives_the_winners_of_all_bids(n_parties: int, drawn: list[list[int]]) -> None:
    """A bid falls when a candidate becomes invalid; a winner's next one may be better, as its children are new."""
    own = [list(scores) for scores in drawn[:n_parties]]
    rounds: list[list[Bid | None]] = []
    while True:
        rounds.append([Bid(scores[-1], me) if scores else None for me, scores in enumerate(own)])
        won = plainly(n_parties, rounds[-1])
        if won is None:
            break
        own[won].pop()
        for me, scores in enumerate(own):
            if me != won:
                while len(scores) > 1 and scores[-2] > scores[-1]:  # a loser's next one is no better
                    scores.pop(-2)
                if len(rounds) % 3 == 0 and len(scores) > 1:  # its candidate became invalid
                    scores.pop()
    names, wire = NAMES[:n_parties], Wire()
    results = run_together({name: falling(me, names, rounds) for me, name in enumerate(names)}, wire)
    expected = [plainly(n_parties, bids) for bids in rounds]
    for winners in results.values():
        assert [None if each is None else each.party for each in winners] == expected
    assert len(wire.heard) <= len(rounds) * n_parties * (n_parties - 1)


def test_a_winner_that_goes_on_is_told_nothing() -> None:
    """As long as the last winner's bid beats what the others have told, they tell nothing more."""
    rounds: Rounds = [[Bid(score, 0), Bid(3, 1), None] for score in (9, 8, 7, 2)]
    names, wire = NAMES[:3], Wire()
    run_together({name: falling(me, names, rounds) for me, name in enumerate(names)}, wire)
    assert Counter(each.sender for each in wire.heard) == {"anna": 8, "berta": 4, "carla": 4}


@st.composite
def some_rounds(draw: st.DrawFn) -> tuple[int, list[list[Bid | None]]]:
    """Parties and rounds; often equal scores, often no candidate. Every party has attributes of its own."""
    n_parties = draw(st.integers(2, 5))
    score = st.sampled_from([-1, 0, 1]) | st.integers(-(2**71), 2**71 - 1)
    bids = [
        st.none() | st.builds(Bid, score, st.sampled_from([p for p in range(16) if p % n_parties == me]))
        for me in range(n_parties)
    ]
    return n_parties, draw(st.lists(st.tuples(*bids).map(list), min_size=1, max_size=6))


@given(case=some_rounds())
@settings(max_examples=examples(12), deadline=None)
def test_the_winner_is_the_one_of_the_plain_comparison(case: tuple[int, list[list[Bid | None]]]) -> None:
    n_parties, rounds = case
    assert played(n_parties, rounds) == [plainly(n_parties, bids) for bids in rounds]


@pytest.mark.parametrize("n_parties", [2, 3, 5])
def test_ties_ends_and_new_stock(n_parties: int) -> None:
    tie: list[Bid | None] = [Bid(7, 15 - me) for me in range(n_parties)]
    nobody: list[Bid | None] = [None] * n_parties
    negative = [*nobody[:-1], Bid(-5, 3)]
    first_only = [Bid(0, 9), *nobody[1:]]
    rounds = [tie, nobody, negative, first_only, nobody, tie, first_only]
    last = n_parties - 1
    assert played(n_parties, rounds, rounds_ahead=2) == [last, None, last, 0, None, last, 0]


@pytest.mark.parametrize("n_parties", [2, 3])
def test_what_travels_has_the_same_shape_whatever_is_bid(n_parties: int) -> None:
    shapes = []
    for bids in ([None] * n_parties, [Bid(2**70 - me, me) for me in range(n_parties)]):
        wire = Wire()
        played(n_parties, [bids, bids], wire=wire)
        shapes.append([(each.sender, each.receiver, each.kind, len(each.data)) for each in wire.heard])
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize("kind", ["argmax-bid", "shared-masked", "shared-result"])
def test_what_an_honest_party_sends_is_balanced_whatever_it_bids(kind: str) -> None:
    """Each message by itself is uniform; only all shares of the winner together say who it is."""
    n_rounds = 200
    bids: list[Bid | None] = [None, Bid(2**70, 1), None]
    wire = Wire()
    played(3, [bids] * n_rounds, rounds_ahead=n_rounds, wire=wire)
    for sender in NAMES[:3]:
        heard = [each for each in wire.heard if (each.kind, each.sender) == (kind, sender)]
        receivers = Counter(each.receiver for each in heard)
        for receiver in receivers:
            payloads = [_payload(each.data) for each in heard if each.receiver == receiver]
            assert len(payloads) == n_rounds
            n_bits = {"argmax-bid": WORDS.width, "shared-masked": 6, "shared-result": 3}[kind]
            bits = np.array([np.unpackbits(each, count=n_bits, bitorder="little") for each in payloads])
            assert balanced(bits)
            assert all(balanced(bits[:, place]) for place in range(n_bits))


def _payload(data: bytes) -> np.ndarray[Any, np.dtype[np.uint8]]:
    (payload,) = (value for value in msgspec.msgpack.decode(data).values() if isinstance(value, bytes))
    return np.frombuffer(payload, np.uint8)


def test_setups_of_two_sessions_have_nothing_in_common() -> None:
    wires = Wire(), Wire()
    for wire in wires:
        played(2, [[Bid(1, 0), None]], wire=wire)
    for one, other in zip(*(wire.heard for wire in wires), strict=True):
        assert one.data != other.data


@pytest.mark.parametrize(
    ("n_parties", "kind", "field"),
    [
        (2, "session-nonce", "data"),
        (2, "base-transfers", "data"),
        (2, "argmax-order", "columns"),
        (2, "argmax-bid", "flips"),
        (2, "argmax-garbled", "tables"),
        (2, "argmax-garbled", "seed"),
        (2, "argmax-garbled", "chosen"),
        (2, "argmax-garbled", "tags"),
        (2, "argmax-verdict", "labels"),
        (3, "argmax-delivery", "triples"),
        (3, "shared-masked", "data"),
        (3, "shared-result", "data"),
    ],
)
def test_messages_cut_short_are_the_peers_fault(n_parties: int, kind: str, field: str) -> None:
    names = NAMES[:n_parties]
    rounds = [[Bid(5, 1), *[None] * (n_parties - 1)]]
    scripts = {
        name: changing(whole_session(me, names, rounds, 1), kind, **{field: lambda data: data[:-1]})
        for me, name in enumerate(names)
    }
    with pytest.raises(PeerBrokeProtocol, match=r"cannot be right|nonce|where the message has"):
        run_together(scripts)


def test_a_wrong_table_is_noticed_by_two_parties() -> None:
    def turned(data: bytes) -> bytes:
        return data[:8] + bytes(255 - each for each in data[8:])

    names = NAMES[:2]
    scripts = {
        name: changing(whole_session(me, names, [[None, Bid(2, 1)]], 1), "argmax-garbled", tables=turned)
        for me, name in enumerate(names)
    }
    with pytest.raises(PeerBrokeProtocol, match="neither of its tags"):
        run_together(scripts)


@pytest.mark.parametrize(
    "flip",
    [0b101, 0b100],
    ids=["the win of one is given to another without a candidate", "the win of one is taken away"],
)
def test_who_flips_its_share_can_name_no_impossible_winner(flip: int) -> None:
    """It can make a wrong one come out, but neither one without a candidate nor an end that comes too early."""
    names = NAMES[:3]
    rounds = [[None, None, Bid(3, 2)]]
    flipped = {"berta": lambda data: bytes([data[0] ^ flip])}
    scripts: dict[str, Script[Any]] = {
        name: changing(whole_session(me, names, rounds, 1), "shared-result", data=flipped.get(name, bytes))
        for me, name in enumerate(names)
    }
    with pytest.raises(
        PeerBrokeProtocol, match=r"^one of the parties: .* made the comparison come out impossibly$"
    ) as caught:
        run_together(scripts)
    # The others are told that nobody can tell who it was: no name, and so no wrong one.
    assert leave_message(caught.value) == LeaveMessage(Cause.BROKE_PROTOCOL, "")


def test_a_comparison_serves_the_parties_that_prepared_it() -> None:
    def session(me: int) -> Script[SecureArgMax]:
        return (yield from prepare(me, NAMES[:2], WORDS, rounds_ahead=1))

    argmax = run_together({name: session(me) for me, name in enumerate(NAMES[:2])})["anna"]
    with pytest.raises(Bug, match="other parties"):
        next(argmax(0, NAMES[:3], lambda: None))
    with pytest.raises(MasqueradeError, match="at least 2 parties"):
        next(prepare(0, NAMES[:1], WORDS))
    move = next(prepare(0, NAMES[:2], WORDS))
    assert isinstance(move, Send)
    assert not isinstance(move, Receive)


@pytest.mark.parametrize("n_records", [1, 2, 100, 30_162, 10**9])
def test_every_score_fits_its_sessions_words(n_records: int) -> None:
    log = float(np.log2(max(n_records, 2)))
    largest = {
        "gain-ratio": 1.0,
        "info-gain": log,
        "info-gain-per-anonymity-loss": log,
        "discernibility": n_records**2,
        "certainty": n_records,
    }
    assert set(largest) == set(SCORES)
    for name, bound in largest.items():
        words = bid_words(SCORES[name], n_records, n_attributes=9)
        highest = round(bound * FIXED_ONE)
        assert words.word((highest, 0)) > words.word((highest, 8)) > words.word((-highest, 0)) > words.word(None)
        assert words.score_bits <= 8 * MOST_SCORE_BYTES
    assert bid_words(SCORES["gain-ratio"], 30_162, 8).width < 48


@given(records=people, qids=qids, dealt=deals, epsilon=st.sampled_from([0, 0.01, 0.2]))
@settings(max_examples=examples(8), deadline=None)
def test_algorithm_2_decides_the_same_with_hidden_scores(
    records: list[dict[str, Any]], qids: list[Any], dealt: list[int], epsilon: float
) -> None:
    """The accounts of contributions are kept from the winners' instructions, which everybody sees either way."""
    plainly, secretly = (
        run_mashup(*a_split(records, qids, "gain-ratio", dealt, adversary="malicious", epsilon=epsilon, argmax=way))
        for way in ("plain", "secure")
    )
    assert [step.summary() for step in secretly.steps] == [step.summary() for step in plainly.steps]
    assert bag(secretly.table) == bag(plainly.table)
    assert set(secretly.seconds) - set(plainly.seconds) == {"prepare"}


def mashup_with_a_false_bid(
    monkeypatch: pytest.MonkeyPatch, holders: dict[str, str], liar: str, lie: Callable[[Bid], Bid]
) -> VerifiedRelease:
    """A mashup in which one party compares with another bid than it has."""
    contract = contract_of(REQUIREMENT, holders)

    def preparing(me: int, parties: Sequence[str], words: BidWords) -> Script[ArgMax]:
        honest = yield from prepare(me, parties, words)

        def argmax(me: int, parties: Sequence[str], offer: Offer) -> Script[Winner | None]:
            bid = offer()
            told = lie(bid) if bid is not None and parties[me] == liar else bid
            return (yield from honest(me, parties, lambda: told))

        return argmax

    monkeypatch.setattr(party, "prepare", preparing)
    return run_mashup(loan_table(), contract)


TWO = {"Sex": "loans", "Job": "bank", "Salary": "bank"}
THREE = {"Sex": "loans", "Job": "bank", "Salary": "tax"}


@pytest.mark.parametrize(("holders", "doubt"), [(TWO, "$"), (THREE, ", if no other party had a hand")])
def test_whoever_had_a_better_candidate_notices_a_false_bid(
    monkeypatch: pytest.MonkeyPatch, holders: dict[str, str], doubt: str
) -> None:
    with pytest.raises(PeerBrokeProtocol, match="with a worse candidate than ours" + doubt) as caught:
        mashup_with_a_false_bid(monkeypatch, holders, "loans", lambda bid: Bid(3 * FIXED_ONE, bid.position))
    assert caught.value.peer == "loans"


class NeverTakePart(AlwaysTakePart):
    """Holds back whatever it has."""

    def takes_part(self, me: int) -> bool:
        return False


def test_a_party_that_holds_back_is_not_noticed_and_breaks_no_requirement(monkeypatch: pytest.MonkeyPatch) -> None:
    def holding_back(me: int, parties: Sequence[str], *rest: Any, **ways: Any) -> Any:
        if parties[me] == "loans":
            ways["participation"] = NeverTakePart()
        return mashup(me, parties, *rest, **ways)

    monkeypatch.setattr(party, "mashup", holding_back)
    release = run_mashup(loan_table(), contract_of(REQUIREMENT, TWO))
    assert [step.party for step in release.steps] == ["bank"] * 7  # without Sex the paper's run ends after seven steps
    assert all(verdict.holds for verdict in release.verdicts)
