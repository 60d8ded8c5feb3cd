"""A node that is in the trust store, and not invited, tries to end a session of others, or to have them blamed."""

from __future__ import annotations

import asyncio

import pytest

from masquerade.net import Listener, PartyAddress, Timings, connect as gathering, listen, tls_stream
from masquerade.net.connect import Hello, encode
from masquerade.net.tls_stream import ClientStream
from net.nodes import AGREED, PEOPLE, TRUST

TIMINGS = Timings(connect=60, silence=60, patience=60, grace=0.1)
GREETINGS = {
    "garbage": b"\x00" * 2000,
    "nothing": b"",
    "its own name": encode(Hello("shop", AGREED.version, AGREED.session)),
    "the name of an invited party": encode(Hello("bank", AGREED.version, AGREED.session)),
    "another contract": encode(Hello("shop", AGREED.version, bytes(32))),
    "another version": encode(Hello("shop", AGREED.version + 1, AGREED.session)),
}


@pytest.mark.parametrize("greeting", GREETINGS.values(), ids=GREETINGS)
def test_an_uninvited_node_neither_ends_nor_joins_a_session(greeting: bytes) -> None:
    async def session() -> tuple[str, ...]:
        async with asyncio.timeout(900), listen(PEOPLE["loans"], TRUST) as listener:
            shop = ClientStream(listener.address, PEOPLE["shop"], "loans", TRUST.pin("loans"))
            bank = ClientStream(listener.address, PEOPLE["bank"], "loans", TRUST.pin("loans"))

            async def one_after_the_other() -> None:
                await shop.write(greeting)
                await asyncio.gather(shop.read(), return_exceptions=True)  # it is answered, or hung up on
                await bank.write(encode(Hello("bank", AGREED.version, AGREED.session)))
                await bank.read()

            coming = asyncio.create_task(one_after_the_other())
            try:
                async with listener.connect([PartyAddress("bank", "127.0.0.1:9")], AGREED, TIMINGS) as channels:
                    await coming
                    await bank.end()
                    return tuple(channels)
            finally:
                await shop.end()

    assert asyncio.run(session()) == ("bank",)


def test_a_node_that_says_nothing_does_not_keep_the_places_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_stream, "MOST_CONNECTIONS", 5)
    monkeypatch.setattr(gathering, "GREETING", 1.0)

    async def session() -> list[tuple[str, ...]]:
        async with asyncio.timeout(900), listen(PEOPLE["loans"], TRUST) as loans, listen(PEOPLE["bank"], TRUST) as bank:
            silent = [ClientStream(loans.address, PEOPLE["shop"], "loans", TRUST.pin("loans")) for _ in range(5)]
            await asyncio.gather(*(stream._connected() for stream in silent))

            async def joined(listener: Listener, peer: PartyAddress) -> tuple[str, ...]:
                async with listener.connect([peer], AGREED, TIMINGS) as channels:
                    return tuple(channels)

            try:
                return await asyncio.gather(
                    joined(loans, PartyAddress("bank", bank.address)),
                    joined(bank, PartyAddress("loans", loans.address)),
                )
            finally:
                for stream in silent:
                    await stream.end()

    assert asyncio.run(session()) == [("bank",), ("loans",)]
