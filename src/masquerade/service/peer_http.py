"""Control calls to a peer over HTTP, with certificates on both sides; `mutual_tls.serve` is the other end.

async with PeerHttp("bank", "127.0.0.1:7001", identity, trust) as bank:
    health = await bank.call("GET", "/v1/health", answer=Health)
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from types import TracebackType
from typing import Any, Self

import httpx

from masquerade.errors import PeerBrokeProtocol, PeerRefused, PeerUnreachable
from masquerade.net.channel import Node
from masquerade.net.identity import Identity, out_of_date
from masquerade.net.trust import TrustStore
from masquerade.service.control_audit import ControlNotes
from masquerade.service.control_link import ControlLink
from masquerade.service.mutual_tls import MOST_BYTES, tls_context

_MOST_TO_CONNECT = 10.0  # seconds: a running peer accepts connections at once
_MOST_CONNECTING = 2.0  # seconds that a cancelled call waits for a connection that is being made
_CONNECTED = ("connection.connect_tcp.failed", "connection.start_tls.failed", "connection.start_tls.complete")


class PeerHttp(ControlLink):
    """Calls to one peer over persistent connections."""

    def __init__(
        self,
        peer: str,
        address: str,
        identity: Identity,
        trust: TrustStore,
        *,
        timeout: float = 30.0,
        notes: ControlNotes | None = None,
    ) -> None:
        super().__init__(peer, notes)
        self.address = Node(peer, address).address
        self._identity, self._trust, self._timeout = identity, trust, timeout
        self._pinned, self._own = trust.pin(peer), identity.certificate
        self._http, self._retired = self._connections(), list[httpx.AsyncClient]()

    def _connections(self) -> httpx.AsyncClient:
        """Return a client that accepts only this peer's certificate, though others may be trusted."""
        return httpx.AsyncClient(
            base_url=f"https://{self.address}",
            verify=tls_context(ssl.PROTOCOL_TLS_CLIENT, self._identity, self._trust, self.peer),
            trust_env=False,
            follow_redirects=False,
            headers={"accept-encoding": "identity"},
        )

    def _follow_trust(self) -> None:
        """Connect anew when another certificate of the peer is pinned than before; PeerRefused when none is."""
        pinned = self._trust.pin(self.peer)
        if pinned != self._pinned:
            self._retired.append(self._http)  # calls may be under way there
            self._pinned, self._http = pinned, self._connections()

    async def exchange(
        self, method: str, path: str, content: bytes | None, timeout: float | None
    ) -> tuple[int, bytes]:
        """Send a request to the peer; return the HTTP status and content of its answer.

        `timeout` bounds the whole exchange: a peer that answers byte by byte is as late as one that is silent.
        """
        self._follow_trust()
        within = self._timeout if timeout is None else timeout
        request = self._http.build_request(
            method,
            path,
            content=content,
            headers={"content-type": "application/json"} if content is not None else None,
            timeout=httpx.Timeout(within, connect=min(within, _MOST_TO_CONNECT)),
            extensions={"sni_hostname": self.peer},  # the name in its certificate, whatever its address
        )
        try:
            async with asyncio.timeout(within):
                return await self._uncut(request)
        except httpx.ConnectError as error:
            raise self._not_connected(error) from None
        except (httpx.TimeoutException, TimeoutError):
            raise PeerUnreachable(
                self.peer, f"did not answer at {self.address} in time; is it frozen, or overloaded?"
            ) from None
        except httpx.TransportError as error:
            if _refused_certificate(error):
                raise self._not_connected(error) from None
            raise PeerUnreachable(
                self.peer,
                f"hung up at {self.address} before it answered; has it ended, or is our certificate "
                "not the one in its trust store?",
            ) from None

    async def close(self) -> None:
        """Close the connections."""
        for each in (self._http, *self._retired):
            await each.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _uncut(self, request: httpx.Request) -> tuple[int, bytes]:
        """Return the status and content of the answer.

        httpcore leaks a connection cancelled during the TLS handshake, so a cancelled call waits for it to finish.
        """
        connecting = _Connecting()
        request.extensions = {**request.extensions, "trace": connecting.trace}
        exchange = asyncio.create_task(self._exchange(request))
        try:
            return await asyncio.shield(exchange)
        except asyncio.CancelledError:
            await connecting.over()
            exchange.cancel()
            await asyncio.gather(exchange, return_exceptions=True)
            raise

    async def _exchange(self, request: httpx.Request) -> tuple[int, bytes]:
        response = await self._http.send(request, stream=True)
        try:
            return response.status_code, await self._read(response)
        finally:
            await response.aclose()

    async def _read(self, response: httpx.Response) -> bytes:
        data = bytearray()
        async for (
            chunk
        ) in response.aiter_raw():  # as sent: a compressed answer is not decoded, and refused as JSON
            data += chunk
            if len(data) > MOST_BYTES:
                raise PeerBrokeProtocol(self.peer, f"answered more than {MOST_BYTES:,} bytes")
        return bytes(data)

    def _not_connected(self, error: Exception) -> PeerUnreachable | PeerRefused:
        if _refused_certificate(error):
            for whose, pem in (("its", self._pinned), ("our", self._own)):
                if (why := out_of_date(pem)) is not None:
                    return PeerRefused(self.peer, f"at {self.address}: {whose} certificate {why}; renew it")
            return PeerRefused(
                self.peer,
                f"at {self.address}: one side does not know the other's certificate; compare the fingerprints "
                "in both trust stores, and the certificates' dates",
            )
        return PeerUnreachable(
            self.peer, f"nobody answers at {self.address}; start it, or correct its address"
        )


class _Connecting:
    """Track from httpcore's trace whether a connection is being made."""

    def __init__(self) -> None:
        self._over = asyncio.Event()
        self._over.set()

    async def trace(self, name: str, _info: Any) -> None:
        """Record a step of httpcore's trace."""
        if name == "connection.connect_tcp.started":
            self._over.clear()
        elif name in _CONNECTED:
            self._over.set()

    async def over(self) -> None:
        """Wait until no connection is being made, for `_MOST_CONNECTING` seconds at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_MOST_CONNECTING):
                await self._over.wait()


def _refused_certificate(error: BaseException | None) -> bool:
    """Return whether a TLS error is anywhere in the chain of causes."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False
