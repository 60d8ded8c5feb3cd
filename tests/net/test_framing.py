"""Frames: what is put together is what was taken apart, and nothing else is accepted."""

from __future__ import annotations

import pytest

from masquerade.net.channel import Cause, LeaveMessage
from masquerade.net.stream_channel import CHUNK, MOST_FRAME, Arrived, FrameError, Inbound, Outbound, Sign

HEAD = 9
LENGTH = 8


def head(kind: bytes, number: int) -> bytes:
    return kind + number.to_bytes(8, "big")


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 3 * CHUNK + 5])
def test_a_message_arrives_whole(size: int) -> None:
    data = bytes(i % 251 for i in range(size))
    frames = list(Outbound().message(data))
    assert all(len(frame) <= MOST_FRAME for frame in frames)
    inbound = Inbound(most_bytes=size)
    *before, last = [inbound.take(frame) for frame in frames]
    assert before == [None] * (len(frames) - 1)
    assert last == Arrived(data, sum(map(len, frames)))


def test_framing_costs_a_few_bytes_a_piece() -> None:
    wire = sum(map(len, Outbound().message(bytes(2 * CHUNK))))
    assert wire == 2 * CHUNK + 2 * HEAD + LENGTH


def test_frames_of_all_kinds_in_a_row() -> None:
    outbound, inbound = Outbound(), Inbound(100)
    leave = LeaveMessage(Cause.UNREACHABLE, "bank")
    assert inbound.take(outbound.pulse()) is Sign.PULSE
    (frame,) = outbound.message(b"hello")
    assert inbound.take(frame) == Arrived(b"hello", HEAD + LENGTH + 5)
    assert inbound.take(outbound.leave(leave)) == leave
    assert inbound.take(outbound.heard()) is Sign.HEARD


def test_a_frame_twice_is_refused() -> None:
    (frame,) = Outbound().message(b"pay 5")
    inbound = Inbound(100)
    inbound.take(frame)
    with pytest.raises(FrameError, match="frame 0 again: frame 1 is next"):
        inbound.take(frame)


def test_frames_out_of_order_are_refused() -> None:
    _first, second, third = Outbound().message(bytes(2 * CHUNK + 1))
    for early in (second, third):
        with pytest.raises(FrameError, match="too early: frame 0 is next"):
            Inbound(10 * CHUNK).take(early)


def test_more_than_agreed_is_refused_when_it_is_announced() -> None:
    inbound = Inbound(most_bytes=CHUNK)
    with pytest.raises(FrameError, match=f"announced {CHUNK + 1} bytes; at most {CHUNK} are agreed"):
        inbound.take(next(Outbound().message(bytes(CHUNK + 1))))


@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        pytest.param(b"", "a frame of 0 bytes", id="empty"),
        pytest.param(head(b"P", 0)[:-1], "a frame of 8 bytes", id="cut head"),
        pytest.param(head(b"M", 0) + bytes(MOST_FRAME), "a frame of", id="too large"),
        pytest.param(head(b"Z", 0), "no known form", id="unknown kind"),
        pytest.param(head(b"P", 0) + b"x", "no known form", id="pulse with content"),
        pytest.param(head(b"M", 0) + b"\0\0", "without a length", id="cut length"),
        pytest.param(head(b"M", 0) + (5).to_bytes(8, "big") + b"four", "wrong size", id="short"),
        pytest.param(head(b"M", 0) + (3).to_bytes(8, "big") + b"four", "wrong size", id="long"),
        pytest.param(head(b"M", 0) + (2 * CHUNK).to_bytes(8, "big") + b"x", "wrong size", id="tiny piece"),
        pytest.param(head(b"C", 0) + b"x", "a stray piece", id="piece of nothing"),
        pytest.param(head(b"B", 0) + b"\xc1", "last word of no known form", id="broken leave"),
        pytest.param(head(b"B", 0) + b"\x92\xa3huh\xa0", "last word of no known form", id="unknown cause"),
    ],
)
def test_malformed_frames_are_refused(frame: bytes, problem: str) -> None:
    inbound = Inbound(10 * CHUNK)
    with pytest.raises(FrameError, match=problem):
        inbound.take(frame)


def test_a_message_inside_another_is_refused() -> None:
    outbound, inbound = Outbound(), Inbound(10 * CHUNK)
    inbound.take(next(outbound.message(bytes(2 * CHUNK))))
    with pytest.raises(FrameError, match="in the middle of another"):
        inbound.take(next(outbound.message(b"new")))


def test_nothing_may_follow_the_last_word() -> None:
    outbound, inbound = Outbound(), Inbound(100)
    inbound.take(outbound.leave(LeaveMessage(Cause.DONE)))
    with pytest.raises(FrameError, match="after its last word"):
        inbound.take(outbound.pulse())
