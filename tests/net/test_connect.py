"""Nodes come together over real sockets and TLS, or say why not."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from homes import home
from masquerade.errors import DataError, NoCommonRecords, ParameterError, PeerError, PeerRefused, PeerUnreachable
from masquerade.net import (
    Agreement,
    Channel,
    Identity,
    Listener,
    PartyAddress,
    Timings,
    TrustStore,
    listen,
    probe,
    self_signed,
    tls_stream,
)
from masquerade.net.connect import Gathering
from masquerade.net.identity import issue
from net.nodes import AGREED, AUTHORITY, PEOPLE, QUICK, SESSION, TRUST, Party, expired, idle, session, wait_for_all

Capture = pytest.CaptureFixture[str]
HASTY = replace(QUICK, connect=0.5)


def run(test: Coroutine[Any, Any, Any]) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(900):  # a hang is a failure
            return await test

    return asyncio.run(bounded())


def trusting(**others: Identity) -> TrustStore:
    """The usual store with other certificates for some."""
    return TrustStore({name: others.get(name, PEOPLE[name]).certificate for name in PEOPLE})


def refusal(result: Any, peer: str) -> str:
    """The text of a refusal that names this peer."""
    assert isinstance(result, PeerRefused), result
    assert result.peer == peer
    return str(result)


# --- together ---


def test_neither_end_keeps_a_short_message_back() -> None:
    """The second of two would wait for the other's acknowledgement of the first."""

    async def delays() -> list[int]:
        async with listen(PEOPLE["bank"], TRUST) as bank, listen(PEOPLE["loans"], TRUST) as loans:
            both = (
                ("bank", bank, PartyAddress("loans", loans.address)),
                ("loans", loans, PartyAddress("bank", bank.address)),
            )

            async def option(listener: Listener, peer: PartyAddress) -> int:
                async with listener.connect([peer], AGREED, QUICK) as channels:
                    stream: Any = channels[peer.name]
                    found = stream._stream._transport.get_extra_info("socket")
                    return int(found.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

            return list(await asyncio.gather(*(option(listener, peer) for _, listener, peer in both)))

    assert all(run(delays()))


def test_silent_connections_do_not_keep_a_session_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_stream, "MOST_CONNECTIONS", 10)
    monkeypatch.setattr(tls_stream, "HANDSHAKE", 1.0)

    async def crowded() -> list[str]:
        async with listen(PEOPLE["bank"], TRUST) as bank, listen(PEOPLE["loans"], TRUST) as loans:
            host, port = loans.address.split(":")

            async def part(listener: Listener, peer: PartyAddress) -> str:
                async with listener.connect([peer], AGREED, QUICK) as channels:
                    return await idle(channels)

            with ExitStack() as silent:
                for _ in range(40):
                    silent.enter_context(socket.create_connection((host, int(port))))
                both = (
                    part(bank, PartyAddress("loans", loans.address)),
                    part(loans, PartyAddress("bank", bank.address)),
                )
                return await asyncio.gather(*both)

    assert run(crowded()) == ["done", "done"]


def test_three_nodes_talk_all_with_all(capfd: Capture) -> None:
    async def greet(channels: dict[str, Channel]) -> dict[str, bytes]:
        await asyncio.gather(*(channel.send(b"for " + name.encode()) for name, channel in channels.items()))
        return {name: await channel.receive() for name, channel in channels.items()}

    results = run(session(Party("bank", greet), Party("loans", greet), Party("shop", greet)))
    assert results == {me: {name: b"for " + me.encode() for name in PEOPLE if name != me} for me in PEOPLE}
    assert capfd.readouterr() == ("", "")


def test_large_messages_cross_each_other_and_sizes_are_counted() -> None:
    size = 50_000_000

    async def exchange(channels: dict[str, Channel]) -> tuple[bytes, tuple[int, int], tuple[int, int]]:
        (channel,) = channels.values()
        mine = (b"a" if channel.peer == "loans" else b"b") * size
        await channel.send(mine)
        heard = await channel.receive()
        return (heard, (channel.bytes_sent, channel.messages_sent), (channel.bytes_received, channel.messages_received))

    results = run(session(Party("bank", exchange), Party("loans", exchange)))
    (heard_by_bank, bank_out, bank_in), (heard_by_loans, loans_out, loans_in) = (results["bank"], results["loans"])
    assert heard_by_bank == b"b" * size
    assert heard_by_loans == b"a" * size
    assert bank_out == loans_in
    assert loans_out == bank_in
    assert size < bank_out[0] < size * 1.001


def test_self_signed_certificates_do_as_well() -> None:
    people = {name: self_signed(name) for name in ("bank", "loans")}
    trust = TrustStore({name: who.certificate for name, who in people.items()})
    parties = [Party(name, idle, identity=who, trust=trust) for name, who in people.items()]
    assert run(session(*parties)) == {"bank": "done", "loans": "done"}


def test_a_node_may_come_late() -> None:
    async def test(address: str) -> list[str]:
        async def early(listener: Any) -> str:
            async with listener.connect([PartyAddress("loans", address)], AGREED, QUICK) as channels:
                return await idle(channels)

        async def late(other: str) -> str:
            await asyncio.sleep(0.7)
            peers = [PartyAddress("bank", other)]
            async with listen(PEOPLE["loans"], TRUST, address) as node, node.connect(peers, AGREED, QUICK) as channels:
                return await idle(channels)

        async with listen(PEOPLE["bank"], TRUST) as listener:
            return await asyncio.gather(early(listener), late(listener.address))

    with closed_port() as address:
        assert run(test(address)) == ["done", "done"]


def test_one_listener_serves_sessions_one_after_another() -> None:
    async def test() -> list[str]:
        async with listen(PEOPLE["bank"], TRUST) as bank, listen(PEOPLE["loans"], TRUST) as loans:

            async def sessions(me: Any, peer: PartyAddress) -> list[str]:
                heard = []
                for number in range(3):
                    async with me.connect([peer], AGREED, QUICK) as channels:
                        await channels[peer.name].send(b"%d" % number)
                        heard.append((await channels[peer.name].receive()).decode())
                return heard

            first, second = await asyncio.gather(
                sessions(bank, PartyAddress("loans", loans.address)),
                sessions(loans, PartyAddress("bank", bank.address)),
            )
            return first + second

    assert run(test()) == ["0", "1", "2"] * 2


# --- who does not belong together ---


@pytest.mark.parametrize("odd", ["bank", "loans"])
def test_another_version_is_refused_on_both_sides(odd: str) -> None:
    newer = Agreement(SESSION, version=2)
    parties = [Party(name, idle, agreement=newer if name == odd else AGREED) for name in ("bank", "loans")]
    results = run(session(*parties))
    for me, other in (("bank", "loans"), ("loans", "bank")):
        theirs, ours = (2, 1) if other == odd else (1, 2)
        assert f"speaks protocol version {theirs}, we speak {ours}: update" in refusal(results[me], other)
        assert "at 127.0.0.1:" in str(results[me])


def test_another_contract_is_refused_on_both_sides() -> None:
    other = Agreement(bytes(32))
    results = run(session(Party("bank", idle), Party("loans", idle, agreement=other)))
    assert "agreed to another contract than we did" in refusal(results["bank"], "loans")
    assert "agreed to another contract than we did" in refusal(results["loans"], "bank")


@pytest.mark.parametrize("impostor", ["bank", "loans"])
@pytest.mark.parametrize("same_authority", [True, False])
def test_another_certificate_for_the_same_name_is_refused(impostor: str, same_authority: bool) -> None:
    """bank dials, loans listens; neither may be another than the pinned one, whoever signed it."""
    other = "loans" if impostor == "bank" else "bank"
    false = issue(AUTHORITY, impostor) if same_authority else self_signed(impostor)
    results = run(session(Party(impostor, idle, identity=false), Party(other, idle)))
    text = refusal(results[other], impostor)
    assert "shows a certificate that is not the one in our trust store; compare the fingerprints" in text
    assert f"shown {false.fingerprint}" in text
    assert f"trusted {PEOPLE[impostor].fingerprint}" in text
    text = refusal(results[impostor], other)
    assert "refuses our certificate" in text
    assert false.fingerprint in text
    assert all(b"PRIVATE" not in str(result).encode() for result in results.values())


@pytest.mark.parametrize("late", ["bank", "loans"])
def test_an_expired_certificate_is_named_by_both(late: str) -> None:
    other = "loans" if late == "bank" else "bank"
    old = expired(late)

    async def test() -> tuple[Any, Any]:
        async with listen(PEOPLE[other], trusting(**{late: old})) as listener:
            with pytest.raises(PeerRefused) as refused:
                async with listener.connect([PartyAddress(late, "127.0.0.1:1")], AGREED, QUICK):
                    pass
        with pytest.raises(ParameterError) as own:
            async with listen(old, TRUST):
                pass
        return refused.value, own.value

    refused, own = run(test())
    assert "has a certificate in our trust store that expired on" in refusal(refused, late)
    assert f"our own certificate ({late}) expired on" in str(own)


def test_an_expired_certificate_is_refused_by_tls_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that is wrong does not open the door: here nobody looks at the dates before TLS does."""
    old = expired("loans")
    monkeypatch.setattr(home(Gathering), "out_of_date", lambda _certificate: None)
    monkeypatch.setattr(Identity, "check_dates", lambda _self: None)
    bank = Party("bank", idle, trust=trusting(loans=old))
    results = run(session(bank, Party("loans", idle, identity=old, timings=HASTY)))
    assert "shows a certificate that expired on" in refusal(results["bank"], "loans")
    assert isinstance(results["loans"], PeerError)


def test_a_peer_that_nobody_knows_is_refused_before_anything_is_sent() -> None:
    less = TrustStore({"shop": PEOPLE["shop"].certificate})
    results = run(session(Party("bank", idle, trust=less), Party("loans", idle)))
    assert "is not in our trust store, which knows shop" in refusal(results["bank"], "loans")
    assert "refuses our certificate" in refusal(results["loans"], "bank")


def test_a_known_node_that_is_not_invited_is_turned_away_and_harms_nobody() -> None:
    async def linger(_channels: dict[str, Channel]) -> str:
        await bank.ended.wait()
        return "done"

    bank = Party("bank", idle, knows=("loans", "shop"))
    results = run(session(bank, Party("loans", linger, knows=("shop",)), Party("shop", linger, knows=("loans",))))
    assert "says that we are not among the parties of its session" in str(results["bank"])
    assert isinstance(results["bank"], PeerRefused)
    assert (results["loans"], results["shop"]) == ("done", "done")


def test_names_must_differ() -> None:
    results = run(session(Party("bank", idle, knows=("loans", "loans")), Party("loans", idle, timings=HASTY)))
    assert "needs a name of its own" in str(results["bank"])


# --- who is not there ---


@contextmanager
def closed_port() -> Iterator[str]:
    """An address where nobody listens, and where nobody else can while the block runs: the port is taken."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # who is told the address may listen there
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


@pytest.mark.parametrize(("me", "missing"), [("bank", "loans"), ("loans", "bank")])
def test_nobody_at_the_address(me: str, missing: str, capfd: Capture) -> None:
    with closed_port() as address, pytest.raises(PeerUnreachable) as caught:
        run(_alone(me, PartyAddress(missing, address)))
    assert caught.value.peer == missing
    assert str(caught.value) == f"party {missing}: at {address}: nobody answers, tried for 0.5 s; is it running?"
    assert capfd.readouterr() == ("", "")


def test_a_port_that_accepts_and_says_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute, pytest.raises(PeerUnreachable) as caught:
        run(_alone("bank", PartyAddress("loans", f"127.0.0.1:{mute.getsockname()[1]}")))
    assert "accepts the connection, then says nothing" in str(caught.value)


def test_a_port_that_answers_without_tls() -> None:
    async def test() -> None:
        async def chatter(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"220 mail.example.org ESMTP\r\n")
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(chatter, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            await _alone("bank", PartyAddress("loans", f"127.0.0.1:{port}"), patience=30)

    with pytest.raises(PeerRefused, match="does not speak TLS; is another program at this address"):
        run(test())


def test_a_node_that_is_there_but_does_not_join(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home(probe), "_PATIENCE", 900.0)  # a slow handshake is not a mute peer

    async def test() -> None:
        async with listen(PEOPLE["loans"], TRUST) as asleep:
            await _alone("bank", PartyAddress("loans", asleep.address))

    with pytest.raises(PeerUnreachable, match=r"is there, but has not joined the session within 0.5 s"):
        run(test())


def test_a_port_that_is_taken() -> None:
    async def test() -> None:
        async with listen(PEOPLE["bank"], TRUST) as first, listen(PEOPLE["loans"], TRUST, first.address):
            pass

    with pytest.raises(ParameterError, match=r"127.0.0.1:\d+: cannot listen here; is the port taken"):
        run(test())


@pytest.mark.parametrize(
    "address", ["localhost", ":7", "host:", "host:http", "host:70000", "a..b:7", f"{'a' * 64}.org:7"]
)
def test_addresses_are_checked(address: str) -> None:
    with pytest.raises(ParameterError, match="is not an address host:port"):
        PartyAddress("bank", address)


async def _alone(me: str, peer: PartyAddress, patience: float = 0.5) -> None:
    timings = Timings(connect=patience)
    async with listen(PEOPLE[me], TRUST) as listener, listener.connect([peer], AGREED, timings):
        pytest.fail("nobody is there")


# --- last words ---


def test_everybody_names_the_party_whose_input_was_wrong() -> None:
    async def take_part(channels: dict[str, Channel]) -> None:
        await channels["loans"].send(b"all are here")
        await wait_for_all(channels)

    async def stumble(channels: dict[str, Channel]) -> None:
        await wait_for_all(channels)
        raise DataError("people.csv: row 7: a secret")

    results = run(session(Party("bank", take_part), Party("loans", stumble), Party("shop", take_part)))
    assert isinstance(results["loans"], DataError)
    for me in ("bank", "shop"):
        assert isinstance(results[me], PeerError)
        assert results[me].peer == "loans", results[me]
        assert "secret" not in str(results[me])
    assert any("gave up: its own input is wrong" in str(results[me]) for me in ("bank", "shop"))


def test_an_answer_that_all_come_to_is_everybodys_own() -> None:
    async def conclude(channels: dict[str, Channel]) -> None:
        for channel in channels.values():
            await channel.send(b"nothing")
        for name, channel in channels.items():
            await asyncio.sleep(0.1 if name == "bank" else 0)
            await channel.receive()
        raise NoCommonRecords("nobody is common")

    results = run(session(*(Party(name, conclude) for name in PEOPLE)))
    assert {type(result) for result in results.values()} == {NoCommonRecords}


def test_one_who_cannot_connect_does_not_leave_the_others_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """bank and shop have come together; loans is nowhere: whoever gives up first tells the other who is missing."""
    dial = Gathering._dial

    async def after_shop(bank: Gathering, peer: PartyAddress) -> None:
        if peer.name == "loans":
            await asyncio.wait([bank.joined["shop"]])
            bank.timings = replace(bank.timings, connect=0.1)
        await dial(bank, peer)

    monkeypatch.setattr(Gathering, "_dial", after_shop)
    names = ("bank", "loans", "shop")
    with closed_port() as address:
        nowhere = {"loans": address}
        results = run(session(*(Party(name, idle, knows=names, addresses=nowhere) for name in ("bank", "shop"))))
    for result in results.values():
        assert isinstance(result, PeerUnreachable)
        assert result.peer == "loans"
    assert "(party bank reports it)" in str(results["shop"])
