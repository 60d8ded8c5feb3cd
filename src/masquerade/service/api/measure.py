"""Metrics of the API for Prometheus. A route is labelled by its pattern, never by an identifier."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from masquerade.service.api.events import Streams

_STREAM = b"text/event-stream"


class Measures:
    """Requests, their durations, and open streams of one app."""

    def __init__(self, streams: Streams) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "masquerade_http_requests", "Requests to the API.", ["method", "route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "masquerade_http_seconds", "How long an answer took, streams apart.", ["route"], registry=self.registry
        )
        self.registry.register(_OpenStreams(streams))


class _OpenStreams(Collector):
    def __init__(self, streams: Streams) -> None:
        self._streams = streams

    def collect(self) -> list[GaugeMetricFamily]:
        open_now = self._streams.open.total()
        return [GaugeMetricFamily("masquerade_http_streams", "Streams of events that are open.", open_now)]


class Measure:
    """Count each request once it is answered."""

    def __init__(self, app: ASGIApp, measures: Measures) -> None:
        self.app = app
        self.measures = measures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; count it and measure its duration."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        status, stream = 500, False

        async def sent(message: Message) -> None:
            nonlocal status, stream
            if message["type"] == "http.response.start":
                status = message["status"]
                stream = any(name == b"content-type" and _STREAM in value for name, value in message["headers"])
            await send(message)

        try:
            await self.app(scope, receive, sent)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self.measures.requests.labels(method, route, str(status)).inc()
            if not stream:
                self.measures.seconds.labels(route).observe(time.perf_counter() - began)


_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
