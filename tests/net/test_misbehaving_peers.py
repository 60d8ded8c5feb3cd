"""A peer that has the right key and does the wrong things, over real TLS."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from homes import home
from masquerade.errors import PeerBrokeProtocol, PeerError, PeerRefused, PeerUnreachable
from masquerade.net import Channel, PartyAddress, Timings, listen, probe
from masquerade.net.connect import Hello, encode
from masquerade.net.stream_channel import CHUNK, Outbound, StreamBroke
from masquerade.net.tls_stream import ClientStream, ServerStream, accepting, serve
from net.nodes import AGREED, PEOPLE, TRUST, idle, wait_for_all

QUICK = Timings(connect=900, silence=900, patience=900, grace=0.1)
Behaviour = Callable[[Any], Awaitable[None]]
HELLO = {name: encode(Hello(name, AGREED.version, AGREED.session)) for name in PEOPLE}


async def against_dialler(behaviour: Behaviour, part: Any = wait_for_all, timings: Timings = QUICK) -> Any:
    """loans is honest and listens; bank dials it and misbehaves. What loans ends with."""
    async with asyncio.timeout(900), listen(PEOPLE["loans"], TRUST) as listener:
        stream = ClientStream(listener.address, PEOPLE["bank"], "loans", TRUST.pin("loans"))
        misbehaving = asyncio.create_task(behaviour(stream))
        try:
            async with listener.connect([PartyAddress("bank", "127.0.0.1:9")], AGREED, timings) as channels:
                return await part(channels)
        except Exception as error:
            return error
        finally:
            misbehaving.cancel()  # whatever it would still do, nobody hears it
            await asyncio.gather(misbehaving, return_exceptions=True)
            await stream.end()


async def against_listener(behaviour: Behaviour, part: Any = wait_for_all) -> Any:
    """bank is honest and dials; loans listens and misbehaves. What bank ends with."""

    async def talk(stream: ServerStream) -> None:
        await asyncio.gather(behaviour(stream), return_exceptions=True)

    async with asyncio.timeout(900), listen(PEOPLE["bank"], TRUST) as listener:
        server, port = await serve("127.0.0.1:0", PEOPLE["loans"], TRUST, talk)
        try:
            async with listener.connect([PartyAddress("loans", f"127.0.0.1:{port}")], AGREED, QUICK) as channels:
                return await part(channels)
        except Exception as error:
            return error
        finally:
            await server.stop(None)


def frames_then_wait(me: str, *frames: bytes) -> Behaviour:
    """Greets properly, sends these frames, and reads until it is hung up on."""

    async def behave(stream: Any) -> None:
        if me == "loans":
            await stream.read()
        await stream.write(HELLO[me])
        if me == "bank":
            await stream.read()
        try:
            for frame in frames:
                await stream.write(frame)
            while await stream.read() is not None:
                pass
        except StreamBroke:
            pass

    return behave


def message(data: bytes, number: int = 0) -> bytes:
    return next(Outbound(number).message(data))


BAD = [
    pytest.param([b""], "a frame of 0 bytes", id="empty"),
    pytest.param([b"\xff" * 100], "sent frame", id="garbage"),
    pytest.param([message(b"a"), message(b"a")], "frame 0 again", id="replayed"),
    pytest.param([message(b"a", 1)], "frame 1 too early", id="out of order"),
    pytest.param([b"M" + bytes(8) + b"\xff" * 8], "announced 18446744073709551615 bytes", id="huge"),
    pytest.param([b"M" + bytes(8 + CHUNK * 2)], "a frame of", id="oversized"),
]


async def heed(channels: dict[str, Channel]) -> None:
    (channel,) = channels.values()
    while True:
        await channel.receive()


@pytest.mark.parametrize(("frames", "problem"), BAD)
@pytest.mark.parametrize("me", ["bank", "loans"])
def test_bad_frames_end_the_session(me: str, frames: list[bytes], problem: str) -> None:
    against = against_dialler if me == "bank" else against_listener
    error = asyncio.run(against(frames_then_wait(me, *frames), heed))
    assert isinstance(error, PeerBrokeProtocol), error
    assert error.peer == me
    assert problem in str(error)


@pytest.mark.parametrize("me", ["bank", "loans"])
def test_a_frame_that_is_too_long_to_be_read_at_all(me: str) -> None:
    """Larger than anything that a stream takes: it breaks off before it has read it."""
    against = against_dialler if me == "bank" else against_listener
    error = asyncio.run(against(frames_then_wait(me, bytes(5 * 1024 * 1024)), heed))
    assert isinstance(error, PeerError)
    assert error.peer == me


@pytest.mark.parametrize(
    ("greeting", "problem"),
    [
        pytest.param(b"", "does not greet as a Masquerade node", id="empty"),
        pytest.param(b"\x00" * 2000, "does not greet as a Masquerade node", id="long"),
        pytest.param(HELLO["shop"], "shows a certificate that is not the one", id="another's name"),
    ],
)
def test_bad_greetings_end_the_session(greeting: bytes, problem: str) -> None:
    async def behave(stream: Any) -> None:
        await stream.write(greeting)
        await stream.read()

    error = asyncio.run(against_dialler(behave))
    assert isinstance(error, PeerBrokeProtocol | PeerRefused), error
    assert error.peer == "bank"
    assert problem in str(error)


def test_one_that_hangs_up_before_it_hears_why_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hung_up(_stream: ServerStream, _frame: bytes) -> None:
        raise StreamBroke

    monkeypatch.setattr(ServerStream, "write", hung_up)

    async def behave(stream: Any) -> None:
        await stream.write(encode(Hello("bank", AGREED.version, bytes(32))))
        await stream.read()

    error = asyncio.run(against_dialler(behave))
    assert isinstance(error, PeerRefused), error
    assert error.peer == "bank"
    assert "agreed to another contract than we did" in str(error)


@pytest.mark.parametrize(
    ("greeting", "problem"),
    [(b"who?", "does not greet as a Masquerade node"), (HELLO["shop"], "greets with the name of another party")],
)
def test_a_listener_that_greets_badly(greeting: bytes, problem: str) -> None:
    async def behave(stream: Any) -> None:
        await stream.read()
        await stream.write(greeting)
        await stream.read()

    error = asyncio.run(against_listener(behave))
    assert isinstance(error, PeerBrokeProtocol)
    assert error.peer == "loans"
    assert problem in str(error)


def test_who_should_be_dialled_may_not_dial() -> None:
    async def test() -> Any:
        async with asyncio.timeout(900), listen(PEOPLE["bank"], TRUST) as listener:
            stream = ClientStream(listener.address, PEOPLE["loans"], "bank", TRUST.pin("bank"))
            greeting = asyncio.create_task(stream.write(HELLO["loans"]))
            try:
                async with listener.connect([PartyAddress("loans", "127.0.0.1:9")], AGREED, QUICK):
                    pytest.fail("nobody is there")
            except PeerError as error:
                return error
            finally:
                await asyncio.gather(greeting, return_exceptions=True)
                await stream.end()

    error = asyncio.run(test())
    assert isinstance(error, PeerRefused)
    assert "party loans: at 127.0.0.1:9 connects to us, though we connect to it" in str(error)


def test_a_second_connection_is_turned_away_and_the_first_goes_on() -> None:
    answers: list[bytes | None] = []

    async def test() -> Any:
        async with asyncio.timeout(900), listen(PEOPLE["loans"], TRUST) as listener:
            first, second = (
                ClientStream(listener.address, PEOPLE["bank"], "loans", TRUST.pin("loans")) for _ in range(2)
            )
            joining = asyncio.create_task(_greet(first))
            async with listener.connect([PartyAddress("bank", "127.0.0.1:9")], AGREED, QUICK) as channels:
                await joining
                await second.write(HELLO["bank"])
                answers.append(await second.read())
                await second.end()
                await first.write(message(b"still here"))
                heard = await channels["bank"].receive()
                await first.end()
            return heard

    assert asyncio.run(test()) == b"still here"
    assert b"twice" in (answers[0] or b"")


async def _greet(stream: ClientStream) -> None:
    await stream.write(HELLO["bank"])
    await stream.read()


def test_a_peer_that_hangs_up_in_the_middle() -> None:
    async def behave(stream: ClientStream) -> None:
        await _greet(stream)
        await stream.write(next(Outbound().message(bytes(3 * CHUNK))))
        await stream.end()

    error = asyncio.run(against_dialler(behave))
    assert isinstance(error, PeerUnreachable)
    assert "vanished in the middle of the session" in str(error)


def test_a_peer_that_says_nothing_more() -> None:
    async def behave(stream: ClientStream) -> None:
        await _greet(stream)
        await asyncio.sleep(60)

    error = asyncio.run(against_dialler(behave, timings=Timings(silence=0.4, grace=0.1)))
    assert isinstance(error, PeerUnreachable)
    assert error.peer == "bank"
    assert "fell silent for 0.4 s" in str(error)


def test_a_peer_that_lives_and_does_not_read_does_not_block_for_ever() -> None:
    async def talk(channels: dict[str, Channel]) -> None:
        while True:
            await channels["bank"].send(bytes(8 * CHUNK))

    async def behave(stream: ClientStream) -> None:
        await _greet(stream)
        stream._transport.pause_reading()  # type: ignore[union-attr] # or its buffers would take all that we send
        pulses = Outbound()
        while True:
            await stream.write(pulses.pulse())
            await asyncio.sleep(0.05)

    error = asyncio.run(against_dialler(behave, talk, Timings(patience=0.5, grace=0.1)))
    assert isinstance(error, PeerUnreachable)
    assert "is alive, but has read nothing for 0.5 s" in str(error)


def test_a_listener_that_is_no_node_of_ours_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the right certificate, and does not say what an accepting end says first."""
    monkeypatch.setattr(home(probe), "_PATIENCE", 900.0)  # a slow handshake is not a mute peer
    heard: list[bytes] = []

    async def test() -> PeerError:
        async def chatter(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"\0\0\0\x0510\r\n.")
            with suppress(OSError):
                heard.append(await reader.read())
            writer.close()

        context = accepting(PEOPLE["loans"], TRUST.pin("bank"))
        async with (
            await asyncio.start_server(chatter, "127.0.0.1", 0, ssl=context) as server,
            listen(PEOPLE["bank"], TRUST) as bank,
        ):
            peer = PartyAddress("loans", f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
            with pytest.raises(PeerError) as caught:
                async with bank.connect([peer], AGREED, Timings(connect=0.3)):
                    pytest.fail("nobody is there")
            return caught.value

    error = asyncio.run(test())
    assert "is there, but has not joined the session within 0.3 s" in str(error)
    assert not any(heard)


def test_idle_parts_end_well_with_a_raw_peer() -> None:
    """The harness itself: an honest raw peer that says goodbye is no error."""
    from masquerade.net.channel import DONE

    async def behave(stream: ClientStream) -> None:
        await frames_then_wait("bank", Outbound().leave(DONE))(stream)

    assert asyncio.run(against_dialler(behave, idle)) == "done"
