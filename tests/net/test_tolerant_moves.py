"""A peer that is lost: raised in a script that tolerates it, the end of one that does not."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from masquerade.errors import PeerError, PeerUnreachable
from masquerade.net import Channel, Message, Receive, Script, Send, TolerantReceive, TolerantSend, run_script
from net.nodes import PEOPLE, Party, session

BANK, LOANS, SHOP = PEOPLE


class Word(Message, tag="word", frozen=True):
    text: str


class Farewell(Message, tag="farewell", frozen=True):
    pass


def run(scripts: dict[str, Script[Any]], *, lost: str) -> dict[str, Any]:
    """Each script as a node of its own; `lost` vanishes once its script has ended, without a word."""

    def part(name: str) -> Any:
        async def drive(channels: dict[str, Channel]) -> Any:
            found = await run_script(scripts[name], channels)
            if name == lost:
                for channel in channels.values():
                    await channel._hang_up()  # type: ignore[attr-defined] # as the kernel does for a killed process
            return found

        return drive

    async def bounded() -> dict[str, Any]:
        async with asyncio.timeout(900):
            return await session(*(Party(name, part(name)) for name in scripts))

    return asyncio.run(bounded())


def says_and_goes() -> Script[None]:
    yield Send((BANK, LOANS), Word("here"))


def goes_on(peer: str) -> Script[list[str]]:
    """Hear the one that goes, lose it once, and talk to the other as before."""
    heard = [(yield TolerantReceive(SHOP, Word)).text]
    try:
        yield TolerantReceive(SHOP, Word)
    except PeerUnreachable as error:
        heard.append(f"lost {error.peer}")
    yield TolerantSend((peer,), Word("left over"))
    yield Send((peer,), Farewell())
    yield TolerantReceive(peer, Farewell, skips=True)
    yield Send((peer,), Word("plain"))
    heard.append((yield Receive(peer, Word)).text)
    return heard


def test_a_script_that_tolerates_a_loss_is_told_once_and_goes_on() -> None:
    scripts = {BANK: goes_on(LOANS), LOANS: goes_on(BANK), SHOP: says_and_goes()}
    found = run(scripts, lost=SHOP)
    assert found[BANK] == found[LOANS] == ["here", f"lost {SHOP}", "plain"]


def test_a_notice_may_come_in_place_of_a_message() -> None:
    def talks() -> Script[None]:
        yield Send((BANK,), Farewell())

    def listens() -> Script[Any]:
        return (yield TolerantReceive(LOANS, Word, notice=Farewell))

    def waits() -> Script[None]:
        yield from ()

    assert isinstance(run({BANK: listens(), LOANS: talks(), SHOP: waits()}, lost="")[BANK], Farewell)


def test_a_script_that_goes_back_to_plain_moves_ends_with_the_loss() -> None:
    """A loss that it has not been told of is as fatal as ever."""

    def careless(peer: str) -> Script[None]:
        yield TolerantReceive(SHOP, Word)
        yield Receive(peer, Word)

    found = run({BANK: careless(LOANS), LOANS: careless(BANK), SHOP: says_and_goes()}, lost=SHOP)
    for name in (BANK, LOANS):
        assert isinstance(found[name], PeerError)
        assert found[name].peer == SHOP


def test_what_a_lost_peer_had_said_is_still_heard() -> None:
    """The bank is slow: the shop is gone before the bank asks for its second word."""

    def talks() -> Script[None]:
        yield Send((BANK,), Word("one"))
        yield Send((BANK,), Word("two"))

    def waits() -> Script[None]:
        yield from ()

    def listens() -> Script[list[str]]:
        heard = []
        with pytest.raises(PeerUnreachable):  # noqa: PT012 # whichever of them it is
            yield TolerantReceive(SHOP, Word)
            time.sleep(0.3)
            heard.append((yield TolerantReceive(SHOP, Word)).text)
            yield TolerantReceive(SHOP, Word)
        return heard

    assert run({BANK: listens(), LOANS: waits(), SHOP: talks()}, lost=SHOP)[BANK] == ["two"]
