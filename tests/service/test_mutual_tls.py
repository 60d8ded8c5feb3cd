"""HTTP between nodes: who gets in, who is told to be calling, and how failures are named."""

from __future__ import annotations

import asyncio
import gc
import gzip
import socket
import ssl
import warnings
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from masquerade.errors import (
    Bug,
    MasqueradeError,
    NotFound,
    ParameterError,
    PeerBrokeProtocol,
    PeerRefused,
    PeerUnreachable,
)
from masquerade.net import Identity, TrustStore, run_async, trial_identities
from masquerade.service import Health, PeerHttp
from masquerade.service.wire.control import Published
from masquerade.service.wire.peers import MOST_BYTES, caller, serve, tls_context
from masquerade.service.wire.problems import rendered
from net.nodes import expired

_, IDENTITIES = trial_identities(["bank", "clinic", "stranger"])
_, OTHERS = trial_identities(["bank", "clinic"])


def trusting(*names: str) -> TrustStore:
    return TrustStore({name: IDENTITIES[name].certificate for name in names})


GZIP = [(b"content-encoding", b"gzip")]
MALFORMED: dict[str, tuple[int, list[tuple[bytes, bytes]], bytes]] = {
    "/not-utf-8": (200, [], b'{"name": "\xff\xfe"}'),
    "/corrupt-gzip": (200, GZIP, b"\x1f\x8b\x08 nothing that could be unpacked"),
    "/cut-gzip": (200, GZIP, gzip.compress(b"{}" * 1000)[:20]),
    "/problem-not-utf-8": (409, [], b'{"title": "\xff"}'),
    "/problem-corrupt-gzip": (500, GZIP, b"\x1f\x8b\x08 nor this"),
}


async def answering(scope: Any, receive: Any, send: Any) -> None:
    """Says who called; `/missing`, `/long`, `/silent`, `/slow` and what is in MALFORMED are what they say."""
    headers: list[tuple[bytes, bytes]] = []
    status, body = 200, msgspec.json.encode(Health(caller(scope), "1", 0.0, 1))
    if scope["path"] == "/missing":
        status, body = 404, rendered(404, ["no session 7"])
    if scope["path"] == "/long":
        body = b" " * (MOST_BYTES + 1)
    if scope["path"] == "/silent":
        await _until_gone(receive)
    if scope["path"] in MALFORMED:
        status, headers, body = MALFORMED[scope["path"]]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    if scope["path"] == "/slow":
        gone = asyncio.create_task(_until_gone(receive))
        while not gone.done():  # each read is answered in time
            await send({"type": "http.response.body", "body": b" ", "more_body": True})
            await asyncio.wait({gone}, timeout=0.02)
    await send({"type": "http.response.body", "body": body})


async def _until_gone(receive: Any) -> None:
    """Wait until the caller has hung up."""
    while (await receive())["type"] != "http.disconnect":
        pass


@asynccontextmanager
async def called_by(
    who: Identity, *, knows: TrustStore | None = None, known: TrustStore | None = None, timeout: float = 60.0
) -> Any:
    async with (
        serve(answering, "127.0.0.1:0", IDENTITIES["bank"], known or trusting("clinic")) as address,
        PeerHttp("bank", address, who, knows or trusting("bank"), timeout=timeout) as bank,
    ):
        yield bank


def with_bank(use: Callable[[PeerHttp], Awaitable[Any]], who: Identity = IDENTITIES["clinic"], **how: Any) -> Any:
    async def calling() -> Any:
        async with called_by(who, **how) as bank:
            return await use(bank)

    return run_async(calling())


async def asked_for_health(bank: PeerHttp) -> Health:
    """Who the peer says has called."""
    health: Health = await bank.call("GET", "/v1/health", answer=Health)
    return health


def test_the_application_is_told_who_called_and_the_key_is_in_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert with_bank(asked_for_health).name == "clinic"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("who", [IDENTITIES["stranger"], OTHERS["clinic"]], ids=["unknown", "same name"])
def test_nobody_gets_in_whose_certificate_is_not_pinned(who: Identity) -> None:
    with pytest.raises((PeerUnreachable, PeerRefused), match=r"party bank: .*certificate"):
        with_bank(asked_for_health, who)


def test_stores_that_change_count_at_once(tmp_path: Path) -> None:
    """A peer is added, renews its certificate and is taken out, while the server runs and connections are open."""
    trusting("stranger").save(tmp_path / "bank")
    trusting("bank").save(tmp_path / "clinic")
    pinned = tmp_path / "bank" / "clinic.pem"

    async def calling() -> None:
        known, knows = TrustStore.load(tmp_path / "bank"), TrustStore.load(tmp_path / "clinic")

        async with (
            serve(answering, "127.0.0.1:0", IDENTITIES["bank"], known) as address,
            PeerHttp("bank", address, IDENTITIES["clinic"], knows) as before,
            PeerHttp("bank", address, OTHERS["clinic"], knows) as renewed,
        ):
            with pytest.raises((PeerUnreachable, PeerRefused)):
                await asked_for_health(before)
            pinned.write_bytes(IDENTITIES["clinic"].certificate)
            assert (await asked_for_health(before)).name == "clinic"
            pinned.write_bytes(OTHERS["clinic"].certificate)
            assert (await asked_for_health(renewed)).name == "clinic"
            with pytest.raises((PeerUnreachable, PeerRefused)):  # on the connection that is open
                await asked_for_health(before)
            pinned.unlink()
            with pytest.raises((PeerUnreachable, PeerRefused)):
                await asked_for_health(renewed)
            (tmp_path / "clinic" / "bank.pem").write_bytes(OTHERS["bank"].certificate)
            with pytest.raises(PeerRefused, match="fingerprints"):
                await asked_for_health(before)

    run_async(calling())


def test_nobody_gets_in_without_a_certificate() -> None:
    async def calling() -> bytes:
        async with serve(answering, "127.0.0.1:0", IDENTITIES["bank"], trusting("clinic")) as address:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            host, port = address.split(":")
            reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
            writer.write(b"GET /v1/health HTTP/1.1\r\nhost: bank\r\n\r\n")
            try:
                return await reader.read()
            except (ssl.SSLError, ConnectionError):
                return b""
            finally:
                writer.transport.abort()

    assert run_async(calling()) == b""


def test_a_server_with_another_certificate_is_refused() -> None:
    with pytest.raises(PeerRefused, match=r"party bank: .*fingerprints"):
        with_bank(asked_for_health, knows=TrustStore({"bank": OTHERS["bank"].certificate}))


def test_a_certificate_that_has_expired_is_told_with_its_date() -> None:
    old = TrustStore({"bank": expired("bank").certificate})
    with pytest.raises(PeerRefused, match=r"party bank: .*its certificate expired on \d{4}-.* UTC; renew it"):
        with_bank(asked_for_health, knows=old)


@pytest.mark.parametrize(
    ("path", "more", "error", "told"),
    [
        ("/missing", {}, NotFound, "party bank: no session 7"),
        ("/v1/health", {"answer": Published}, PeerBrokeProtocol, "party bank: answered GET /v1/health with"),
        ("/long", {}, PeerBrokeProtocol, "answered more than"),
        ("/silent", {"timeout": 0.2}, PeerUnreachable, "did not answer"),
    ],
    ids=["an error as it was", "an answer of another kind", "an endless answer", "none"],
)
def test_an_answer_that_is_none(path: str, more: dict[str, Any], error: type[MasqueradeError], told: str) -> None:
    with pytest.raises(error, match=told):
        with_bank(lambda bank: bank.call("GET", path, **{"answer": Health} | more))


def test_a_peer_that_answers_byte_by_byte_is_given_up_as_well() -> None:
    """The time is for the whole exchange: somebody always sends the next byte in time."""
    with pytest.raises(PeerUnreachable, match="did not answer"):
        with_bank(lambda bank: bank.call("GET", "/slow", answer=Health, timeout=0.5))
    with pytest.raises(PeerUnreachable, match="did not answer"):  # as configured, not only as called
        with_bank(lambda bank: bank.call("GET", "/slow", answer=Health), timeout=0.5)


@pytest.mark.parametrize("path", MALFORMED)
def test_whoever_sends_what_cannot_be_decoded_is_named(path: str) -> None:
    with pytest.raises(MasqueradeError) as caught:
        with_bank(lambda bank: bank.call("GET", path, answer=Health))
    assert not isinstance(caught.value, Bug)
    assert all(line.startswith("party bank: ") for line in caught.value.lines)


def test_nobody_at_the_address() -> None:
    with socket.socket() as taken:  # bound, and not listening
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"

        async def calling() -> None:
            async with PeerHttp("bank", address, IDENTITIES["clinic"], trusting("bank")) as bank:
                await bank.call("GET", "/v1/health", answer=Health)

        with pytest.raises(PeerUnreachable, match=f"nobody answers at {address}"):
            run_async(calling())


def test_a_taken_port_is_named() -> None:
    async def twice() -> None:
        how = (IDENTITIES["bank"], trusting("clinic"))
        async with serve(answering, "127.0.0.1:0", *how) as address, serve(answering, address, *how):
            pass

    with pytest.raises(ParameterError, match=r"127\.0\.0\.1:\d+: cannot listen here"):
        run_async(twice())


def test_a_call_that_is_cut_off_leaves_no_connection_open() -> None:
    async def cut_off_after(ticks: int, address: str) -> None:
        async with PeerHttp("bank", address, IDENTITIES["clinic"], trusting("bank")) as bank:
            call = asyncio.create_task(bank.call("GET", "/v1/health", answer=Health))
            for _ in range(ticks):
                await asyncio.sleep(0)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)

    async def calling() -> None:
        async with serve(answering, "127.0.0.1:0", IDENTITIES["bank"], trusting("clinic")) as address:
            for ticks in range(1, 40):  # somewhere among them the connection is made, and TLS begins
                await cut_off_after(ticks, address)

    gc.collect()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run_async(calling())
        gc.collect()
    assert [str(each.message) for each in caught if each.category is ResourceWarning] == []


def test_who_comes_while_the_server_ends_is_turned_away() -> None:
    async def late() -> bytes:
        async with serve(answering, "127.0.0.1:0", IDENTITIES["bank"], trusting("clinic")) as address:
            host, _, port = address.rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))  # and no word of TLS yet
        context = tls_context(ssl.PROTOCOL_TLS_CLIENT, IDENTITIES["clinic"], trusting("bank"), "bank")
        try:
            async with asyncio.timeout(900):
                await writer.start_tls(context, server_hostname="bank")
                return await reader.read()
        except (ConnectionError, ssl.SSLError):
            return b""
        finally:
            writer.transport.abort()

    assert run_async(late()) == b""
