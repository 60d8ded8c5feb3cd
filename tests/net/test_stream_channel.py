"""Channels over a stream in memory: liveness, last words, misbehaving peers."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings, strategies as st

from examples import examples
from masquerade.errors import PeerBrokeProtocol, PeerError, PeerRefused, PeerUnreachable
from masquerade.net import Agreement, PartyAddress, Timings
from masquerade.net.channel import Cause, LeaveMessage
from masquerade.net.stream_channel import CHUNK, MOST_FRAME, Arrived, FrameError, Inbound, Outbound, Sign, StreamChannel
from net.streams import MemoryStream, stream_pair
from virtual_time import in_virtual_time

TIMINGS = Timings(silence=900, patience=900, grace=0.2)
PEERS = ("loans", "shop")


def channel(stream: MemoryStream, timings: Timings = TIMINGS, most: int = 10 * CHUNK) -> StreamChannel:
    return StreamChannel(
        PartyAddress("loans", "10.0.0.1:7"), stream, Agreement(bytes(32), most_bytes=most), timings, PEERS
    )


@in_virtual_time
async def test_messages_both_ways_and_their_sizes() -> None:
    ours, theirs = stream_pair()
    a, b = channel(ours), channel(theirs)
    large = bytes(3 * CHUNK)
    await asyncio.gather(a.send(large), b.send(large), a.send(b"small"))
    assert await b.receive() == large
    assert await b.receive() == b"small"
    assert await a.receive() == large
    assert a.bytes_sent == b.bytes_received == len(large) + 5 + 4 * 9 + 2 * 8
    assert (a.messages_sent, a.messages_received) == (b.messages_received, b.messages_sent) == (2, 1)
    await asyncio.gather(a.close(), b.close())


@in_virtual_time
async def test_what_was_sent_before_leaving_is_still_heard() -> None:
    ours, theirs = stream_pair()
    a, b = channel(ours), channel(theirs)
    await a.send(b"one")
    await a.send(b"two")
    await a.close()
    assert [await b.receive(), await b.receive()] == [b"one", b"two"]
    with pytest.raises(PeerError, match="party loans: has left the session, and we still waited for it"):
        await b.receive()
    with pytest.raises(PeerError, match="has left"):
        await b.send(b"three")
    await b.close()


@in_virtual_time
async def test_a_peer_that_vanishes_is_noticed_by_whoever_waits_or_not() -> None:
    ours, theirs = stream_pair()
    a = channel(ours)
    waiting = asyncio.create_task(a.receive())
    await asyncio.sleep(0)
    theirs.break_off()
    with pytest.raises(PeerUnreachable, match=r"party loans: at 10.0.0.1:7 vanished in the middle"):
        await waiting
    assert isinstance(await a.failure(), PeerUnreachable)
    with pytest.raises(PeerUnreachable, match="vanished"):
        await a.send(b"hello?")
    await a.close()


@in_virtual_time
async def test_a_silent_peer_is_noticed_also_while_we_send() -> None:
    ours, _theirs = stream_pair()  # nobody is at the other end
    a = channel(ours, Timings(silence=0.2))
    with pytest.raises(PeerUnreachable, match=r"at 10.0.0.1:7 fell silent for 0.2 s"):  # noqa: PT012
        while True:
            await a.send(b"are you there?")
            await asyncio.sleep(0.01)
    await a.close()


@in_virtual_time
async def test_a_peer_that_computes_for_long_is_not_silent() -> None:
    ours, theirs = stream_pair()
    quick = Timings(silence=0.3)
    a, b = channel(ours, quick), channel(theirs, quick)
    waiting = asyncio.create_task(a.receive())
    await asyncio.sleep(1.2)  # four times the silence that is allowed: pulses keep it alive
    assert not waiting.done()
    await b.send(b"at last")
    assert await waiting == b"at last"
    assert a.bytes_received == 7 + 9 + 8  # pulses do not count
    await asyncio.gather(a.close(), b.close())


@in_virtual_time
async def test_patience_with_a_living_peer_ends() -> None:
    ours, theirs = stream_pair()
    a, b = channel(ours, Timings(patience=0.2)), channel(theirs)
    with pytest.raises(PeerUnreachable, match=r"is alive, but has said nothing for 0.2 s"):
        await a.receive()
    await asyncio.gather(a.close(), b.close())


@pytest.mark.parametrize(
    ("leave", "kind", "blamed", "text"),
    [
        (LeaveMessage(Cause.BAD_INPUT), PeerError, "loans", "gave up: its own input is wrong"),
        (LeaveMessage(Cause.BUG), PeerError, "loans", "gave up after a failure of its own"),
        (LeaveMessage(Cause.STOPPED), PeerError, "loans", "was stopped"),
        (LeaveMessage(Cause.UNREACHABLE, "shop"), PeerUnreachable, "shop", r"\(party loans reports it\)"),
        (LeaveMessage(Cause.BROKE_PROTOCOL, "shop"), PeerBrokeProtocol, "shop", r"\(party loans reports it\)"),
        (LeaveMessage(Cause.REFUSED, "shop"), PeerRefused, "shop", "and party loans do not accept each other"),
        (LeaveMessage(Cause.GAVE_UP, "shop"), PeerError, "shop", "gave up"),
        # It blames us, or somebody we do not know: its word alone does not put a name into our errors.
        (LeaveMessage(Cause.BROKE_PROTOCOL, "bank"), PeerRefused, "loans", "gave up, and blames us"),
        # Nobody can tell who it was.
        (
            LeaveMessage(Cause.BROKE_PROTOCOL),
            PeerBrokeProtocol,
            "",
            r"^one of the parties: .*\(party loans reports it\)$",
        ),
        (LeaveMessage(Cause.UNREACHABLE, "\x1b[31mEve"), PeerRefused, "loans", r"blames us \(unreachable\)$"),
    ],
)
@in_virtual_time
async def test_a_last_word_names_the_party_at_fault(leave: LeaveMessage, kind: type, blamed: str, text: str) -> None:
    ours, theirs = stream_pair()
    a, b = channel(ours), channel(theirs)
    waiting = asyncio.create_task(a.receive())
    await b.close(leave)
    with pytest.raises(kind, match=text) as caught:
        await waiting
    assert caught.value.peer == blamed
    await a.close()


@in_virtual_time
async def test_a_calm_last_word_lets_the_others_go_on() -> None:
    ours, theirs = stream_pair()
    a, b = channel(ours), channel(theirs)
    await b.send(b"the answer")
    await b.close(LeaveMessage(Cause.ANSWER_IS_NO))
    watching = asyncio.create_task(a.failure())
    await asyncio.sleep(0.05)
    assert not watching.done()
    assert await a.receive() == b"the answer"
    with pytest.raises(PeerError, match="on its side the answer is no"):
        await a.receive()
    watching.cancel()
    await a.close()


@in_virtual_time
async def test_a_last_word_gets_through_in_the_middle_of_a_message() -> None:
    ours, theirs = stream_pair()
    a, b = channel(ours), channel(theirs)
    sending = asyncio.create_task(a.send(bytes(8 * CHUNK)))
    await asyncio.sleep(0)
    await a.close(LeaveMessage(Cause.BAD_INPUT))
    with pytest.raises(PeerError, match="its own input is wrong"):
        await b.receive()
    await asyncio.gather(sending, return_exceptions=True)
    await b.close()


@in_virtual_time
async def test_a_flood_of_messages_that_nobody_waits_for_is_refused() -> None:
    ours, theirs = stream_pair()
    a, b = channel(ours, most=1000), channel(theirs)
    for _ in range(9):
        await b.send(bytes(200))
    error = await a.failure()
    assert isinstance(error, PeerBrokeProtocol)
    assert "sent more than 1000 bytes that nobody waits for" in str(error)
    assert sum(map(len, a._inbox)) <= 1000
    await asyncio.gather(a.close(LeaveMessage(Cause.BROKE_PROTOCOL, "loans")), b.close())


@in_virtual_time
async def test_answering_a_last_word_that_was_not_said_breaks_the_protocol() -> None:
    ours, theirs = stream_pair()
    a = channel(ours)
    await theirs.write(Outbound().heard())
    with pytest.raises(PeerBrokeProtocol, match="answered a last word"):
        await a.receive()
    await a.close(LeaveMessage(Cause.BROKE_PROTOCOL, "loans"))


@in_virtual_time
async def test_a_peer_that_broke_the_protocol_is_told_so() -> None:
    ours, theirs = stream_pair()
    a = channel(ours)
    await theirs.write(b"garbage")
    error = await a.failure()
    assert isinstance(error, PeerBrokeProtocol)
    await a.close(LeaveMessage(Cause.BROKE_PROTOCOL, "loans"))
    inbound = Inbound(0)
    assert inbound.take(await theirs.read() or b"") == LeaveMessage(Cause.BROKE_PROTOCOL, "loans")


frames = st.one_of(
    st.binary(max_size=40),
    st.builds(lambda kind, number, body: kind + number.to_bytes(8, "big") + body,
              st.sampled_from([b"M", b"C", b"P", b"B", b"H"]), st.integers(0, 4), st.binary(max_size=30)),
    st.binary(max_size=20).map(lambda data: next(Outbound().message(data))),
)  # fmt: skip


@given(st.lists(frames, max_size=6))
@settings(max_examples=examples(150), deadline=None)
@in_virtual_time
async def test_random_frames_end_the_session_and_nothing_worse(sent: list[bytes]) -> None:
    ours, theirs = stream_pair()
    a = channel(ours, most=1000)
    for frame in sent:
        await theirs.write(frame)
    await theirs.end()
    with pytest.raises(PeerError) as caught:  # noqa: PT012 # it may first hear well-formed messages
        while True:
            await a.receive()
    assert caught.value.peer == "loans"
    await a.close(LeaveMessage(Cause.BROKE_PROTOCOL, "loans"))


# --- frames: what is put together is what was taken apart, and nothing else is accepted ---


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
