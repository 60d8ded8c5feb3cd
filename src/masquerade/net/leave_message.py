"""The message with which a party leaves a session, and the error that its peers derive from it.

A cause is a kind and never reveals content. It names the party at fault, so that peers who learn of a failure
second-hand blame that party and not the messenger. It names none where several parties could have broken the protocol
and it is impossible to determine which.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

import msgspec

from masquerade.errors import (
    AnswerIsNo,
    BadInput,
    PeerBrokeProtocol,
    PeerError,
    PeerRefused,
    PeerUnreachable,
)


class Cause(StrEnum):
    """Why a party leaves."""

    DONE = "done"
    ANSWER_IS_NO = "answer is no"
    BAD_INPUT = "bad input"
    STOPPED = "stopped"
    BUG = "bug"
    # The following are about another party, the culprit.
    UNREACHABLE = "unreachable"
    REFUSED = "refused"
    BROKE_PROTOCOL = "broke protocol"
    GAVE_UP = "gave up"


OWN_REASONS = {
    Cause.DONE: "has left the session, and we still waited for it",
    Cause.ANSWER_IS_NO: "gave up: on its side the answer is no; its own log says why",
    Cause.BAD_INPUT: "gave up: its own input is wrong; its own log says how",
    Cause.STOPPED: "was stopped",
    Cause.BUG: "gave up after a failure of its own; its log says more",
}


class LeaveMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """Why a party leaves, and the party at fault if that is another one."""

    cause: Cause
    culprit: str = ""

    @property
    def is_orderly(self) -> bool:
        """Return whether the others may go on as long as they need nothing more from this party.

        They may when it is done, and when its answer is no: they reach the same answer by themselves.
        """
        return self.cause in (Cause.DONE, Cause.ANSWER_IS_NO)


DONE = LeaveMessage(Cause.DONE)


def leave_message(error: BaseException | None) -> LeaveMessage:
    """Return the message of a party whose session ended with this error (None: with success)."""
    match error:
        case None:
            return DONE
        case PeerUnreachable():
            return LeaveMessage(Cause.UNREACHABLE, error.peer)
        case PeerRefused():
            return LeaveMessage(Cause.REFUSED, error.peer)
        case PeerBrokeProtocol():
            return LeaveMessage(Cause.BROKE_PROTOCOL, error.peer)
        case PeerError():
            return LeaveMessage(Cause.GAVE_UP, error.peer)
        case AnswerIsNo():
            return LeaveMessage(Cause.ANSWER_IS_NO)
        case BadInput():
            return LeaveMessage(Cause.BAD_INPUT)
        case Exception():
            return LeaveMessage(Cause.BUG)
        case _:  # an interrupt, or a task that was cancelled
            return LeaveMessage(Cause.STOPPED)


def blame(messenger: str, leave: LeaveMessage, peers: Collection[str]) -> PeerError:
    """Turn a peer's leave message into an error; `peers` are the session's parties except ourselves."""
    if leave.cause in OWN_REASONS:
        return PeerError(messenger, OWN_REASONS[leave.cause])
    if leave.cause is Cause.BROKE_PROTOCOL and not leave.culprit:
        return PeerBrokeProtocol("", "broke the protocol, and nobody can tell which", reported_by=messenger)
    if leave.culprit not in peers or leave.culprit == messenger:
        return PeerRefused(messenger, f"gave up, and blames us ({leave.cause})")
    match leave.cause:
        case Cause.UNREACHABLE:
            return PeerUnreachable(leave.culprit, "cannot be reached any more", reported_by=messenger)
        case Cause.REFUSED:
            return PeerRefused(
                leave.culprit, f"and party {messenger} do not accept each other", reported_by=messenger
            )
        case Cause.BROKE_PROTOCOL:
            return PeerBrokeProtocol(
                leave.culprit, "sent what the protocol does not allow", reported_by=messenger
            )
        case _:
            return PeerError(leave.culprit, "gave up", reported_by=messenger)
