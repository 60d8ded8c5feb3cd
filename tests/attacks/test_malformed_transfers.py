"""The attack: ask for transfers by columns that do not fit together, and read the sender's secret off what comes of it.

Where the choices of the columns differ, a row of the sender's differs from what the receiver expects by some digits of
its secret Δ. An evaluator that makes 32 rows differ by four digits each tries all sixteen for each of them on the
circuit that it gets, and has Δ; in ID3 it read the other hospital's class counts at every node.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from crypto.two_parties import random_bits
from leakage import coins
from leakage.coins import Tapes
from leakage.frozen import Frozen
from leakage.learn_method_sessions import Framed
from leakage.sessions import SESSIONS
from masquerade.crypto import TransferReceiver, TransferSender, transfer_extension
from masquerade.crypto.transfer_extension import DIGITS, PROOF_BYTES, SUMS_BYTES, TREES
from masquerade.errors import BadMessage, ParameterError, PeerBrokeProtocol
from masquerade.net import Message, Script, kind_of
from masquerade.net.memory import Wire, run_together
from masquerade.protocol.comparing.argmax import GarblingSide
from masquerade.protocol.pairs import Pair
from open_transfers import open_transfers
from protocol.tampering import changing, tampering

HEADER_BYTES = 16
COUNT = 200
COLUMN_BYTES = 32 + 32  # two blocks of transfers, and two of the check


class Cheat:
    """What a receiver does in place of its check: change columns, and make the best proof that it can.

    `errors` are the differences of a tree's choices from the others'; `bets` are guesses of the digits of Δ.
    """

    def __init__(self, check: Any, errors: np.ndarray, bets: np.ndarray) -> None:
        self.check, self.errors, self.bets = check, errors, bets

    def prove(self, told: list[bytes], columns: np.ndarray, picks: np.ndarray) -> bytes:
        told[1] = (np.frombuffer(told[1], np.uint8).reshape(TREES, -1) ^ self.errors).tobytes()
        hoped = np.repeat(self.errors, DIGITS, axis=0) & (np.uint8(0) - self.bets)[:, None]
        return self.check.prove(told, columns ^ hoped, picks)


NO_ERRORS = np.zeros((TREES, COLUMN_BYTES), np.uint8)
NO_BETS = np.zeros(TREES * DIGITS, np.uint8)


def set_up() -> tuple[TransferSender, TransferReceiver]:
    with open_transfers():
        sender, receiver = TransferSender(b"session"), TransferReceiver(b"session")
        sender.finish_setup(receiver.setup())
        receiver.finish_setup(sender.setup())
    return sender, receiver


def asked(receiver: TransferReceiver, errors: np.ndarray = NO_ERRORS, bets: np.ndarray = NO_BETS) -> bytes:
    """What a cheating receiver sends."""
    honest = receiver._check
    receiver._check = Cheat(honest, errors, bets)  # type: ignore[assignment]
    message, _ = receiver.extend(random_bits(COUNT))
    receiver._check = honest
    return message


def passes(sender: TransferSender, message: bytes) -> bool:
    """Whether the sender takes it; if not, it gives nothing any more."""
    try:
        sender.extend(message, COUNT)
    except BadMessage:
        with pytest.raises(ParameterError, match="not set up"):
            sender.extend(message, COUNT)
        return False
    return True


def one_bit(tree: int) -> np.ndarray:
    errors = NO_ERRORS.copy()
    errors[tree, 3] = 16
    return errors


def one_row_for_each_tree() -> np.ndarray:
    """The original attack's columns."""
    errors = NO_ERRORS.copy()
    errors[np.arange(TREES), np.arange(TREES) // 8] = 1 << np.arange(TREES) % 8
    return errors


def other_choices(trees: slice) -> np.ndarray:
    errors = NO_ERRORS.copy()
    errors[trees] = np.frombuffer(random_bits(COLUMN_BYTES).tobytes(), np.uint8) | 1
    return errors


@pytest.mark.parametrize("tree", [0, 13, 31])
def test_a_bit_in_one_column_is_a_bet_on_four_digits(tree: int) -> None:
    """One guess of sixteen passes, and none else."""
    for bet in range(16):
        sender, receiver = set_up()
        bets = NO_BETS.copy()
        bets[DIGITS * tree : DIGITS * (tree + 1)] = [bet >> place & 1 for place in range(DIGITS)]
        right = np.array_equal(bets.reshape(TREES, -1)[tree], sender._digits.reshape(TREES, -1)[tree])
        assert passes(sender, asked(receiver, one_bit(tree), bets)) == right
    sender, receiver = set_up()
    assert passes(sender, asked(receiver, one_bit(tree), sender._digits))


@pytest.mark.parametrize(
    "errors",
    [one_row_for_each_tree(), other_choices(slice(16)), other_choices(slice(16, 32)), other_choices(slice(1, 32))],
    ids=["the original attack", "half of the trees", "the other half", "all trees but one"],
)
def test_columns_of_different_choices_are_refused(errors: np.ndarray) -> None:
    """Whoever bets on nothing, or on 64 digits and more at random, passes once in 2^64."""
    for bets in (NO_BETS, random_bits(TREES * DIGITS)):
        sender, receiver = set_up()
        assert not passes(sender, asked(receiver, errors, bets))


@pytest.mark.parametrize("level", range(DIGITS))
@pytest.mark.parametrize("side", [0, 1])
def test_a_wrong_sum_of_a_tree_is_a_bet_on_one_digit(level: int, side: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It passes where the sender does not open it, and then changes nothing."""
    tree, honest = 5, transfer_extension.grow

    def wrong(*args: Any) -> tuple[np.ndarray, bytes]:
        leaves, told = honest(*args)
        sums = np.frombuffer(told, np.uint8).reshape(DIGITS, TREES, 2, 16).copy()
        sums[level, tree, side, 7] ^= 1
        return leaves, sums.tobytes()

    monkeypatch.setattr(transfer_extension, "grow", wrong)
    sender, receiver = set_up()
    message = asked(receiver)
    opens = side != sender._digits.reshape(TREES, DIGITS)[tree, DIGITS - 1 - level]
    assert passes(sender, message) == (not opens)


def test_a_later_batch_is_checked_too() -> None:
    sender, receiver = set_up()
    assert passes(sender, asked(receiver))
    assert passes(sender, asked(receiver))
    assert not passes(sender, asked(receiver, one_row_for_each_tree()))


@pytest.mark.parametrize("at", [0, 40], ids=["choices", "columns"])
def test_another_proof_is_refused(at: int) -> None:
    sender, receiver = set_up()
    message = bytearray(receiver.extend(random_bits(COUNT))[0])
    message[len(message) - PROOF_BYTES + at] ^= 1
    assert not passes(sender, bytes(message))


def test_a_proof_of_another_session_is_refused() -> None:
    """Keys of digests follow from the session's setup, so none can be taken from elsewhere."""
    sender, receiver = set_up()
    receiver._check.hear(b"another")
    assert not passes(sender, receiver.extend(random_bits(COUNT))[0])


def test_the_second_hospital_gets_nothing_of_the_first_ones_counts() -> None:
    """The original attack, on a whole session of ID3: it is named before the first garbled circuit leaves."""
    scripts = Framed("id3", n=2).scripts(0)

    def malformed(columns: bytes) -> bytes:
        found = np.frombuffer(columns, np.uint8).copy()
        trees = found[HEADER_BYTES + SUMS_BYTES : -PROOF_BYTES].reshape(TREES, -1)
        trees[np.arange(TREES), np.arange(TREES) // 8] ^= (1 << np.arange(TREES) % 8).astype(np.uint8)
        return found.tobytes()

    scripts["p1"] = changing(scripts["p1"], "circuit-input", columns=malformed)
    wire = Wire()
    with pytest.raises(PeerBrokeProtocol, match="not the same in all columns") as caught:
        run_together(scripts, wire)
    assert caught.value.peer == "p1"
    assert "circuit-input" in {heard.kind for heard in wire.heard}
    assert "circuit-garbled" not in {heard.kind for heard in wire.heard}


def test_the_difference_of_labels_is_not_the_secret_of_the_transfers() -> None:
    """What shows of one shows nothing of the other."""
    pair = Pair(0, ("p0", "p1"), b"session")
    assert not np.array_equal(pair._delta.block, pair.sender._secret.ravel())
    comparing = GarblingSide(b"session", TransferSender(b"session"), 20, is_left=True)
    assert not np.array_equal(comparing._delta.block, comparing._sender._secret.ravel())


# Whoever uses transfers gets the check with them: every message that asks for some, in every session.

FROZEN = Frozen.read()
ASKING = sorted(
    kind for kind, fields in FROZEN.messages.items() if "columns" in fields and fields["columns"]["type"] == "bytes"
)


def first_with(kind: str) -> str:
    """The first session in which such a message travels."""
    return next(
        name for name, found in FROZEN.sessions.items() if any(each.startswith(f"{kind},") for each in found["sizes"])
    )


@pytest.mark.parametrize("kind", ASKING)
def test_whoever_asks_for_transfers_by_malformed_columns_is_named(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cheats: list[str] = []

    def tampered(name: str, message: Message) -> Message:
        if kind_of(message) != kind or cheats:
            return message
        cheats.append(name)
        columns = np.frombuffer(message.columns, np.uint8).copy()  # type: ignore[attr-defined]
        # The choices that only the check takes: no transfer would come out otherwise.
        columns[-PROOF_BYTES - 32 * TREES : -PROOF_BYTES].reshape(TREES, -1)[::2] ^= 1
        return msgspec.structs.replace(message, columns=columns.tobytes())

    def together(scripts: dict[str, Script[Any]], wire: Wire | None = None) -> dict[str, Any]:
        cheating = {
            name: tampering(script, lambda message, name=name: tampered(name, message))  # type: ignore[misc]
            for name, script in scripts.items()
        }
        return run_together(cheating, wire)

    monkeypatch.setattr(coins, "run_together", together)
    session = SESSIONS[first_with(kind)]
    with open_transfers(), pytest.raises(PeerBrokeProtocol, match="not the same in all columns") as caught:
        session.play(0, Tapes())
    assert [caught.value.peer] == cheats
