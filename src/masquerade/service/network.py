"""The transport between coordinator and nodes: TLS in production; in memory, within one process, in tests."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from masquerade.net.connect import Listener, listen
from masquerade.service.control_link import ControlLink
from masquerade.service.listening import check_free
from masquerade.service.mutual_tls import serve
from masquerade.service.peer_http import PeerHttp


@dataclass(frozen=True)
class Network:
    """How to reach others and to be reached; each function takes the same arguments as its counterpart in `TLS`."""

    link: Callable[..., AbstractAsyncContextManager[ControlLink]]  # control calls to a peer
    serve: Callable[..., AbstractAsyncContextManager[str]]  # answers the control calls of peers
    listen: Callable[..., AbstractAsyncContextManager[Listener]]  # the channels of a session
    check_free: Callable[[str], None]  # that `serve` could listen at an address


TLS = Network(link=PeerHttp, serve=serve, listen=listen, check_free=check_free)
